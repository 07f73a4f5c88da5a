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

/* Layers of the last stage so that the slowest stage is as fast as can be; on ties the larger number. */
static uint32_t last_layers(const struct zl_partition_request *r)
{
    const uint32_t before = r->stages - 1;
    const double front = r->front > 0 ? r->front : 1;
    uint32_t best = 1;
    double best_cost = 0;
    for (uint32_t n = 1; before && n + before <= r->layers; n++) {
        const double others = front * (double)((r->layers - n + before - 1) / before), own = n + r->tail;
        const double cost = own > others ? own : others;
        if (n == 1 || cost <= best_cost) {
            best = n;
            best_cost = cost;
        }
    }
    return before ? best : r->layers;
}

static uint32_t default_first(const struct zl_partition_request *r, uint32_t look_ahead, uint32_t k)
{
    if (!r->equal && look_ahead == 0 && r->tail > 0 && k < r->stages) {
        const uint64_t rest = r->layers - last_layers(r);
        return k + 1 == r->stages ? (uint32_t)rest : (uint32_t)(k * rest / (r->stages - 1));
    }
    if (r->equal || look_ahead == 0)
        return (uint32_t)((uint64_t)k * r->layers / r->stages);
    const uint32_t shared = r->layers > look_ahead ? r->layers - look_ahead : 0;
    return shared < r->stages ? k : (uint32_t)((uint64_t)k * shared / r->stages);
}

int zl_partition_make(const struct zl_partition_request *r, struct zl_partition *p, struct zl_error *err)
{
    uint32_t look_ahead = r->readout != ZL_READOUT_SHADOW ? 0
                          : r->look_ahead                 ? r->look_ahead
                          : r->layers >= 3                ? r->layers / 3
                                                          : 1;
    if (r->stages < 1 || r->stages > ZL_STAGES_MAX || r->stages > r->layers)
        return zl_fail(err, ZL_EUSAGE, "--stages %u: the model has %u layers and at most %d stages are possible", r->stages,
                       r->layers, ZL_STAGES_MAX);
    if (r->bounds && check_bounds(r, err))
        return ZL_EUSAGE;
    *p = (struct zl_partition){.layers = r->layers, .n = r->stages};
    for (uint32_t k = 0; k < r->stages; k++) {
        struct zl_cut *c = &p->cut[k];
        c->first = r->bounds ? (uint32_t)r->bounds[k] : default_first(r, look_ahead, k);
        uint32_t end = k + 1 == r->stages ? r->layers
                       : r->bounds        ? (uint32_t)r->bounds[k + 1]
                                          : default_first(r, look_ahead, k + 1);
        c->n_own = end - c->first;
        c->n_shadow = r->layers - end < look_ahead ? r->layers - end : look_ahead;
        c->map = r->readout != ZL_READOUT_LENS && end + c->n_shadow < r->layers;
    }
    for (uint32_t i = 0; i < r->n_freeze; i++) {
        if (r->freeze[i] >= r->stages)
            return zl_fail(err, ZL_EUSAGE, "--freeze: there is no stage %llu, they are 0 to %u",
                           (unsigned long long)r->freeze[i], r->stages - 1);
        struct zl_cut *c = &p->cut[r->freeze[i]];
        c->frozen = true;
        c->map = false;
        c->n_shadow = 0;
    }
    uint32_t trained = 0;
    for (uint32_t k = 0; k < p->n; k++)
        trained += !p->cut[k].frozen;
    return trained ? 0 : zl_fail(err, ZL_EUSAGE, "--freeze leaves no stage to train");
}
