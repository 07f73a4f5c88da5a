/* From numbers to a request: see scene.h. */
#include "sim/scene.h"

#include <stddef.h>

static bool is_sweep(const struct zl_scene *s)
{
    return s->kind == ZL_SCHEDULE_SWEEP;
}

static uint64_t all_stages(const struct zl_scene *s)
{
    return s->schedule.single ? 1 : s->stages * s->interleave;
}

static int cut(const struct zl_scene *s, struct zl_partition *p, struct zl_error *err)
{
    const uint64_t n = all_stages(s);
    const bool single = s->schedule.single, local = s->schedule.local;
    if (n > ZL_STAGES_MAX)
        return zl_fail(err, ZL_EUSAGE, "%llu stages are more than %d", (unsigned long long)n, ZL_STAGES_MAX);
    if (s->n_bounds && s->n_bounds != n && !single)
        return zl_fail(err, ZL_EUSAGE, "--bounds names %u first layers, but there are %llu stages", s->n_bounds, (unsigned long long)n);
    const struct zl_partition_request r = {
        .layers = (uint32_t)s->layers,
        .stages = (uint32_t)n,
        .readout = local ? s->readout : ZL_READOUT_LENS,
        .look_ahead = (uint32_t)(s->look_ahead > s->layers ? s->layers : s->look_ahead),
        .bounds = single || !s->n_bounds ? NULL : s->bounds,
        .tail = local ? 0 : s->readout_ns / (s->layer_ns * (1 + s->backward)),
        .front = s->schedule.weights == ZL_WEIGHTS_REPLAYED ? (2 + s->backward) / (1 + s->backward) : 1,
        .freeze = local ? s->freeze : NULL,
        .n_freeze = local ? s->n_freeze : 0,
    };
    return zl_partition_make(&r, p, err);
}

static uint32_t cores_of(const struct zl_scene *s)
{
    uint32_t n = 0;
    for (uint32_t g = 0; g < s->n_groups; g++)
        n += s->group[g].cores;
    return s->n_groups ? n : s->cores;
}

/* One team over several groups shares out its work evenly and waits for the slowest. */
static struct zl_sim_group everybody(const struct zl_scene *s)
{
    struct zl_sim_group all = {cores_of(s), s->n_groups ? s->group[0].speed : 1};
    for (uint32_t g = 1; g < s->n_groups; g++)
        if (s->group[g].speed < all.speed)
            all.speed = s->group[g].speed;
    return all;
}

/* What a stage's work on a micro-batch takes on one core. */
struct work {
    double forward, loss, backward, update;
};

static struct work work_of(const struct zl_scene *s, const struct zl_partition *p, uint32_t k)
{
    const struct zl_cut *c = &p->cut[k];
    const double own = c->n_own, ahead = c->n_shadow;
    const bool has_loss = k + 1 == p->n || (s->schedule.local && !c->frozen);
    return (struct work){
        .forward = s->forward_ns ? s->forward_ns[k] : own * s->layer_ns,
        .loss = s->loss_ns ? s->loss_ns[k] : has_loss ? ahead * s->layer_ns + s->readout_ns : 0,
        .backward = s->backward_ns ? s->backward_ns[k] : (own + ahead) * s->layer_ns * s->backward,
        .update = (own + ahead) * s->update_ns,
    };
}

/* A core each, and every further one to the worker whose stages cost most a core, as train does it. */
static void share_cores(const struct zl_scene *s, struct zl_sim_plan *plan)
{
    double work[ZL_SIM_STAGES] = {0};
    const uint32_t workers = plan->request.workers;
    for (uint32_t k = 0; k < plan->partition.n; k++) {
        const struct work w = work_of(s, &plan->partition, k);
        const bool frozen = plan->partition.cut[k].frozen;
        work[plan->request.worker[k]] += w.forward + (frozen ? 0 : w.loss + w.backward);
    }
    for (uint32_t w = 0; w < workers; w++)
        plan->group[w] = (struct zl_sim_group){1, 1};
    for (uint32_t left = s->cores > workers ? s->cores - workers : 0; left > 0; left--) {
        uint32_t most = 0;
        for (uint32_t w = 1; w < workers; w++)
            if (work[w] / plan->group[w].cores > work[most] / plan->group[most].cores)
                most = w;
        plan->group[most].cores++;
    }
}

static int place(const struct zl_scene *s, struct zl_sim_plan *plan, struct zl_error *err)
{
    struct zl_places places;
    const uint32_t n = plan->partition.n;
    const bool together = is_sweep(s) || s->schedule.single || s->placement == ZL_PLACEMENT_STACKED;
    const uint32_t teams = s->n_groups ? s->n_groups : s->cores;
    if (s->n_groups > s->stages && !together)
        return zl_fail(err, ZL_EUSAGE, "%u core groups are more than the %llu stages; a group without a stage would do nothing",
                       s->n_groups, (unsigned long long)s->stages);
    zl_places_choose(&places, together ? ZL_PLACEMENT_STACKED : ZL_PLACEMENT_SPREAD, n, together ? n : (uint32_t)s->stages, teams);
    plan->request.workers = places.n_workers;
    plan->request.common = places.common && !s->n_groups; /* groups that are not equal have stages of their own */
    for (uint32_t k = 0; k < n; k++)
        plan->request.worker[k] = places.worker_of[k];
    if (!together && !s->n_groups)
        share_cores(s, plan);
    for (uint32_t w = 0; w < places.n_workers && (together || s->n_groups); w++)
        plan->group[w] = together ? everybody(s) : s->group[w];
    return 0;
}

static uint64_t on(const struct zl_scene *s, const struct zl_sim_group *g, double ns)
{
    const double t = ns / g->speed * (s->serial + (1 - s->serial) / g->cores);
    return t < 1 ? (t > 0) : t > 1e18 ? (uint64_t)1e18 : (uint64_t)(t + 0.5);
}

static struct zl_sim_cost cost_of(const struct zl_scene *s, const struct zl_sim_plan *plan, uint32_t k)
{
    const struct zl_cut *c = &plan->partition.cut[k];
    const struct zl_sim_group *g = &plan->group[plan->request.worker[k]];
    const struct work w = work_of(s, &plan->partition, k);
    const uint64_t held = c->frozen ? 1 : c->n_own + c->n_shadow;
    return (struct zl_sim_cost){
        .forward_ns = on(s, g, w.forward),
        .loss_ns = on(s, g, w.loss),
        .backward_ns = on(s, g, w.backward),
        .update_ns = on(s, g, w.update),
        .activation_bytes = held * s->layer_bytes + s->input_bytes,
        .input_bytes = s->input_bytes,
    };
}

int zl_scene_plan(const struct zl_scene *s, struct zl_sim_plan *plan, struct zl_error *err)
{
    struct zl_sim_request *r = &plan->request;
    *r = (struct zl_sim_request){.micro = s->micro,
                                 .steps = s->steps,
                                 .local = s->schedule.local,
                                 .flush = s->schedule.flush,
                                 .replay = s->schedule.weights == ZL_WEIGHTS_REPLAYED,
                                 .ring_depth = s->ring_depth,
                                 .window = is_sweep(s) ? s->window : 0};
    int rc = cut(s, &plan->partition, err);
    if (!rc)
        rc = place(s, plan, err);
    if (rc)
        return rc;
    r->stages = plan->partition.n;
    if (is_sweep(s) && r->ring_depth < s->window * s->micro)
        r->ring_depth = s->window * s->micro; /* on the disk there is room for a window */
    for (uint32_t k = 0; k < r->stages; k++) {
        const uint32_t ahead = zl_schedule_ahead(&s->schedule, k, r->stages);
        r->ahead[k] = ahead == ZL_AHEAD_STEP ? UINT64_MAX : ahead;
        r->frozen[k] = plan->partition.cut[k].frozen;
        r->cost[k] = cost_of(s, plan, k);
    }
    return 0;
}
