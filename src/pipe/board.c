/* What a run shows to other processes: see board.h. */
#include "pipe/board.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

uint64_t zl_board_bytes(uint32_t n_workers)
{
    return sizeof(struct zl_board) + n_workers * sizeof(struct zl_counters);
}

struct zl_board *zl_board_take(struct zl_segment *s, uint32_t n_workers)
{
    struct zl_board *b = zl_segment_take(s, zl_board_bytes(n_workers));
    if (b) {
        b->n_workers = n_workers;
        zl_segment_set_root(s, b);
    }
    return b;
}

void zl_board_set_live(struct zl_board *b, bool live)
{
    atomic_store_explicit(&b->live, live, memory_order_relaxed); /* a hint to a reader that looks once a second */
}

bool zl_board_look(pid_t pid, uint64_t *operations)
{
    struct zl_segment s;
    char name[64];
    snprintf(name, sizeof name, "/zerolock-%ld-%" PRIu64, (long)pid, zl_process_start(pid));
    if (zl_segment_attach(&s, name, NULL))
        return false;
    const struct zl_board *b = zl_segment_root(&s, sizeof *b);
    const bool whole = b && zl_segment_root(&s, zl_board_bytes(b->n_workers)) && atomic_load_explicit(&b->live, memory_order_relaxed);
    *operations = 0;
    for (uint32_t w = 0; whole && w < b->n_workers; w++)
        *operations += atomic_load_explicit(&b->worker[w].operations, memory_order_relaxed);
    zl_segment_destroy(&s);
    return whole;
}
