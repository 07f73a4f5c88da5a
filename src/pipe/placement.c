/* Stages on workers: see placement.h. */
#include "pipe/placement.h"

void zl_places_choose(struct zl_places *p, enum zl_placement placement, uint32_t stages, uint32_t round, uint32_t threads)
{
    p->n_workers = placement == ZL_PLACEMENT_STACKED ? 1 : threads < round ? threads : round;
    p->common = placement != ZL_PLACEMENT_STACKED && threads < round;
    for (uint32_t k = 0; k < stages; k++)
        p->worker_of[k] = (uint32_t)((uint64_t)(k % round) * p->n_workers / round);
}
