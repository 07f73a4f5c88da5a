/* The cut of a model into stages: see partition.h. */
#include "pipe/partition.h"

static int check_bounds(const struct zl_partition_request *r, struct zl_error *err)
{
    if (r->bounds[0] != 0)
        return zl_fail(err, ZL_EUSAGE, "--bounds: the first stage starts at layer 0, not %llu",
                       (unsigned long long)r->bounds[0]);
    for (uint32_t k = 0; k < r->stages; k++) {
        uint64_t end = k + 1 < r->stages ? r->bounds[k + 1] : r->layers;
        if (end <= r->bounds[k])
            return zl_fail(err, ZL_EUSAGE,
                           "--bounds: stage %u would have the layers from %llu to before %llu; the model has %u layers and "
                           "first layers must rise",
                           k, (unsigned long long)r->bounds[k], (unsigned long long)end, r->layers);
    }
    return 0;
}

/* Forward and backward of the layers first .. end - 1, where a forward is 1 and a backward as much again. Frozen layers only have a forward;
 * `front`: what a layer costs that trains. */
static double cost_of(const struct zl_partition_request *r, uint32_t first, uint32_t end, double front)
{
    const uint32_t still = r->still < first ? 0 : (r->still < end ? r->still : end) - first;
    return still + 2 * front * (end - first - still);
}

/* First layers of stages that cost about the same, but for the last one, which has `last` layers. */
static void share_cost(const struct zl_partition_request *r, uint32_t last, double front, uint32_t *first)
{
    const uint32_t before = r->stages - 1, rest = r->layers - last;
    first[0] = 0;
    for (uint32_t k = 1; k < before; k++) {
        const double goal = k * cost_of(r, 0, rest, front) / before;
        first[k] = first[k - 1] + 1;
        while (first[k] < rest - (before - k) && cost_of(r, 0, first[k] + 1, front) <= goal)
            first[k]++;
    }
    if (before)
        first[before] = rest;
}

/* So that the slowest stage is as fast as can be; on ties the last one is the larger. */
static void balance(const struct zl_partition_request *r, uint32_t *first)
{
    const uint32_t before = r->stages - 1;
    const double front = r->front > 0 ? r->front : 1;
    uint32_t best = before ? 1 : r->layers;
    double best_cost = 0;
    for (uint32_t n = 1; before && n + before <= r->layers; n++) {
        double most = cost_of(r, r->layers - n, r->layers, 1) + 2 * r->tail;
        share_cost(r, n, front, first);
        for (uint32_t k = 0; k < before; k++) {
            const double cost = cost_of(r, first[k], first[k + 1], front);
            most = cost > most ? cost : most;
        }
        if (n == 1 || most <= best_cost) {
            best = n;
            best_cost = most;
        }
    }
    share_cost(r, best, front, first);
}

/* Layers of the last stage, x, where the others have n = (L - x) / (K - 1) each and n + look-ahead = x + lighter. */
static uint32_t lighter_last(const struct zl_partition_request *r, uint32_t look_ahead)
{
    const int64_t before = r->stages - 1, wanted = (r->layers + ((int64_t)look_ahead - r->lighter) * before) / r->stages;
    const int64_t most = r->layers - before;
    return (uint32_t)(wanted < 1 ? 1 : wanted > most ? most : wanted);
}

static void choose_first(const struct zl_partition_request *r, uint32_t look_ahead, uint32_t *first)
{
    const uint32_t shared = r->layers > look_ahead ? r->layers - look_ahead : 0;
    const uint32_t last = r->last ? r->last : r->lighter ? lighter_last(r, look_ahead) : 0;
    for (uint32_t k = 0; k < r->stages; k++)
        if (r->bounds)
            first[k] = (uint32_t)r->bounds[k];
        else if (last)
            first[k] = (uint32_t)((uint64_t)k * (r->layers - last) / (r->stages > 1 ? r->stages - 1 : 1));
        else if (r->equal || look_ahead == 0)
            first[k] = (uint32_t)((uint64_t)k * r->layers / r->stages);
        else
            first[k] = shared < r->stages ? k : (uint32_t)((uint64_t)k * shared / r->stages);
    if (!r->bounds && !r->last && !r->equal && look_ahead == 0 && r->tail > 0)
        balance(r, first);
}

uint32_t zl_partition_look_ahead(uint32_t layers)
{
    const uint32_t usual = (uint32_t)(2 * (uint64_t)layers / 5);
    return usual ? usual : 1;
}

static uint32_t look_ahead_of(const struct zl_partition_request *r)
{
    return r->readout != ZL_READOUT_SHADOW ? 0 : r->look_ahead ? r->look_ahead : zl_partition_look_ahead(r->layers);
}

static void freeze(struct zl_cut *c)
{
    c->frozen = true;
    c->map = false;
    c->n_shadow = 0;
}

int zl_partition_make(const struct zl_partition_request *r, struct zl_partition *p, struct zl_error *err)
{
    uint32_t first[ZL_STAGES_MAX];
    if (r->stages < 1 || r->stages > ZL_STAGES_MAX || r->stages > r->layers)
        return zl_fail(err, ZL_EUSAGE, "--stages %u: the model has %u layers and at most %d stages are possible", r->stages,
                       r->layers, ZL_STAGES_MAX);
    if (r->bounds && check_bounds(r, err))
        return ZL_EUSAGE;
    if (r->last && (r->last > r->layers || r->layers - r->last < r->stages - 1))
        return zl_fail(err, ZL_EUSAGE, "--train-layers %u leaves %u of the model's %u layers to the other %u stages", r->last,
                       r->last < r->layers ? r->layers - r->last : 0, r->layers, r->stages - 1);
    const uint32_t look_ahead = look_ahead_of(r);
    choose_first(r, look_ahead, first);
    *p = (struct zl_partition){.layers = r->layers, .n = r->stages};
    for (uint32_t k = 0; k < r->stages; k++) {
        struct zl_cut *c = &p->cut[k];
        const uint32_t end = k + 1 == r->stages ? r->layers : first[k + 1];
        c->first = first[k];
        c->n_own = end - c->first;
        c->n_shadow = r->layers - end < look_ahead ? r->layers - end : look_ahead;
        c->map = r->readout != ZL_READOUT_LENS && end + c->n_shadow < r->layers;
        c->lead = r->still <= c->first ? 0 : (r->still < end ? r->still : end) - c->first;
        if (end <= r->still)
            freeze(c);
    }
    for (uint32_t i = 0; i < r->n_freeze; i++) {
        if (r->freeze[i] >= r->stages)
            return zl_fail(err, ZL_EUSAGE, "--freeze: there is no stage %llu, they are 0 to %u",
                           (unsigned long long)r->freeze[i], r->stages - 1);
        freeze(&p->cut[r->freeze[i]]);
    }
    uint32_t trained = 0;
    for (uint32_t k = 0; k < p->n; k++)
        trained += !p->cut[k].frozen;
    return trained ? 0 : zl_fail(err, ZL_EUSAGE, "--freeze leaves no stage to train");
}
