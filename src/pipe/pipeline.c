/* A pipeline of stages: see pipeline.h. */
#include "pipe/pipeline.h"

#include <stdatomic.h>
#include <stdlib.h>

#define REPORTS 256 /* slots of a stage's report ring: the driver empties it far more often than that */

/* A stage below all that trains only computes forward; nothing comes back to it. */
static bool takes_gradient(const struct zl_partition *p, const struct zl_pipeline_options *o, uint32_t k)
{
    return !o->schedule->local && k + 1 < p->n && !p->cut[k].frozen;
}

static uint32_t in_flight(const struct zl_partition *p, const struct zl_pipeline_options *o, uint32_t k)
{
    return p->cut[k].frozen && k + 1 < p->n ? 1 : zl_schedule_in_flight(o->schedule, k, p->n, o->micro_per_step);
}

struct zl_block_spec zl_pipeline_block(const struct zl_partition *p, uint32_t k, const struct zl_pipeline_options *o)
{
    const struct zl_cut *c = &p->cut[k];
    const bool last = k + 1 == p->n, local = o->schedule->local, heir = local && k && !p->cut[k - 1].frozen && !c->frozen;
    const bool belief_map = heir && o->belief > 0 && p->cut[k - 1].map;
    return (struct zl_block_spec){
        .first = c->first,
        .n_own = c->n_own,
        .n_shadow = c->n_shadow,
        .train = !c->frozen,
        .has_loss = last || (local && !c->frozen),
        .recompute = o->recompute,
        .halves = o->halves,
        .compute = o->compute,
        .lora = o->lora,
        .adapter = o->adapter,
        .seed = o->seed,
        .map = c->map,
        .map_a = c->map && o->map_a ? o->map_a[k] : NULL,
        .map_b = c->map && o->map_b ? o->map_b[k] : NULL,
        .train_map = o->train_map,
        .belief = heir ? o->belief : 0,
        .belief_map = belief_map,
        .belief_a = belief_map && o->map_a ? o->map_a[k - 1] : NULL,
        .belief_b = belief_map && o->map_b ? o->map_b[k - 1] : NULL,
        .subset = last ? NULL : o->subset,
        .subset_index = last ? NULL : o->subset_index,
        .n_subset = last ? 0 : o->n_subset,
        .tokens = o->tokens,
        .keep_tokens = o->keep_tokens,
        .longest = o->longest,
        .slots = o->schedule->weights == ZL_WEIGHTS_REPLAYED ? 1 : in_flight(p, o, k),
        .need_dx = k > 0 && takes_gradient(p, o, k - 1),
    };
}

bool zl_pipeline_anchored(const struct zl_partition *p, uint32_t k, const struct zl_schedule *schedule)
{
    const struct zl_cut *c = &p->cut[k];
    return schedule->local && !c->frozen && c->first + c->n_own + c->n_shadow < p->layers;
}

static struct zl_packet_layout layout_of(const struct zl_model *m, const struct zl_partition *p, const struct zl_pipeline_options *o, uint32_t k)
{
    const uint64_t tokens = (uint64_t)o->tokens, d = m->config.d;
    uint32_t anchors = 0;
    for (uint32_t i = k; o->anchor && i < p->n; i++)
        anchors += zl_pipeline_anchored(p, i, o->schedule);
    return zl_packet_anchored(zl_packet_layout(tokens, (uint64_t)o->seqs, k || o->n_passing ? d : 0), tokens, d, anchors);
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 127) / 128 * 128;
}

/* A sum that stops at UINT64_MAX, which no system grants, instead of wrapping. */
static uint64_t plus(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t gradient_bytes(const struct zl_model *m, const struct zl_pipeline_options *o)
{
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)o->tokens * sizeof(float), (uint64_t)m->config.d, &bytes) ||
        __builtin_add_overflow(bytes, ZL_GRADIENT_AT, &bytes))
        return UINT64_MAX;
    return bytes;
}

/* A ring of gradients never fills: there is room for all that the stage before can wait for, and for the sum at a step's end. */
static uint32_t gradient_slots(const struct zl_partition *p, const struct zl_pipeline_options *o, uint32_t k)
{
    return in_flight(p, o, k - 1) + 1;
}

static uint64_t ring_bytes(const struct zl_model *m, const struct zl_partition *p, const struct zl_pipeline_options *o)
{
    uint64_t sum = 65536; /* the segment's own header */
    for (uint32_t k = 0; k < p->n; k++) {
        const uint64_t ring = zl_ring_bytes(o->ring_depth, layout_of(m, p, o, k).bytes);
        if (!ring)
            return UINT64_MAX;
        sum = plus(sum, padded(ring) + padded(zl_ring_bytes(REPORTS, sizeof(struct zl_report))));
        if (k == 0 || !takes_gradient(p, o, k - 1))
            continue;
        const uint64_t back = zl_ring_bytes(gradient_slots(p, o, k), gradient_bytes(m, o));
        sum = back ? plus(sum, padded(back)) : UINT64_MAX;
    }
    return plus(sum, o->n_workers * padded(zl_bell_bytes()) + padded(zl_board_bytes(o->n_workers)));
}

/* What a stage is before it has any memory. */
static void describe(struct zl_stage *s, const struct zl_model *m, const struct zl_partition *p, uint32_t k,
                     const struct zl_pipeline_options *o)
{
    *s = (struct zl_stage){.index = k,
                           .n_stages = p->n,
                           .last = k + 1 == p->n,
                           .passing = k < o->n_passing,
                           .schedule = o->schedule,
                           .vertical_sync = o->vertical_sync && k && takes_gradient(p, o, k - 1),
                           .worker = o->worker_of[k],
                           .optimizer = o->optimizer,
                           .sink = o->sink,
                           .anchored = o->anchor && zl_pipeline_anchored(p, k, o->schedule),
                           .in_layout = layout_of(m, p, o, k),
                           .out_layout = layout_of(m, p, o, k + 1),
                           .ahead = p->cut[k].frozen ? 0 : zl_schedule_ahead(o->schedule, k, p->n),
                           .ahead_behind = k + 1 < p->n ? zl_schedule_ahead(o->schedule, k + 1, p->n) : 0,
                           .in_flight = in_flight(p, o, k)};
    s->block.model = m;
    s->block.spec = zl_pipeline_block(p, k, o);
}

static uint32_t hosted_by(const struct zl_partition *p, const struct zl_pipeline_options *o, uint32_t worker)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->n; k++)
        n += o->worker_of[k] == worker;
    return n;
}

/* Local stages on one worker never compute at the same time, and keep nothing from one micro-batch to the next. */
static bool takes_turns(const struct zl_partition *p, const struct zl_pipeline_options *o, uint32_t k)
{
    return o->schedule->local && !(o->common && o->n_workers > 1) && hosted_by(p, o, o->worker_of[k]) > 1;
}

int zl_pipeline_plan(const struct zl_model *m, const struct zl_partition *p, const struct zl_pipeline_options *o,
                     struct zl_pipeline_plan *plan, struct zl_error *err)
{
    uint64_t turns[ZL_STAGES_MAX] = {0};
    *plan = (struct zl_pipeline_plan){.ring_bytes = ring_bytes(m, p, o)};
    for (uint32_t k = 0; k < p->n; k++) {
        struct zl_stage s;
        struct zl_block_plan *b = &plan->block[k];
        const uint32_t worker = o->worker_of[k];
        describe(&s, m, p, k, o);
        if (zl_block_plan(m, &s.block.spec, o->groups ? o->groups[worker].n : 1, b, err))
            return err ? err->code : ZL_EMEMORY;
        s.block.n = b->n;
        plan->in_flight[k] = s.in_flight;
        plan->waiting_bytes[k] = zl_stage_memory(&s);
        struct zl_stage_part part[ZL_STAGE_SECTIONS];
        for (unsigned i = zl_stage_parts(&s, false, part); i-- > 0;)
            plan->part_bytes[k][part[i].section] = part[i].bytes;
        plan->total_bytes = plus(plan->total_bytes, plus(b->state_bytes, plan->waiting_bytes[k]));
        const uint64_t activations = plus(plus(b->activation_bytes, b->scratch_bytes), 64);
        if (!takes_turns(p, o, k))
            plan->activation_bytes = plus(plan->activation_bytes, activations);
        else if (turns[worker] < activations)
            turns[worker] = activations;
    }
    for (uint32_t w = 0; w < o->n_workers; w++)
        plan->activation_bytes = plus(plan->activation_bytes, turns[w]);
    plan->total_bytes = plus(plan->total_bytes, plus(plan->activation_bytes, plan->ring_bytes));
    return 0;
}

static struct zl_ring *take_ring(struct zl_pipeline *l, uint32_t slots, uint64_t slot_bytes)
{
    void *memory = zl_segment_take(&l->segment, zl_ring_bytes(slots, slot_bytes));
    return memory ? zl_ring_init(memory, slots, slot_bytes) : NULL;
}

static int open_rings(struct zl_pipeline *l, const struct zl_partition *p, uint32_t k, const struct zl_pipeline_options *o,
                      struct zl_error *err)
{
    struct zl_stage *s = &l->stage[k];
    s->in = take_ring(l, o->ring_depth, s->in_layout.bytes);
    s->reports = take_ring(l, REPORTS, sizeof(struct zl_report));
    if (k && takes_gradient(p, o, k - 1)) {
        s->back_out = take_ring(l, gradient_slots(p, o, k), gradient_bytes(l->model, o));
        l->stage[k - 1].back_in = s->back_out;
    }
    if (!s->in || !s->reports || (k && takes_gradient(p, o, k - 1) && !s->back_out))
        return zl_fail(err, ZL_EMEMORY, "the rings do not fit into their segment");
    if (k)
        l->stage[k - 1].out = s->in;
    return 0;
}

/* The stages that worker w runs; with all in common, that worker 0 and all others run. */
static void open_pool(struct zl_pipeline *l, const struct zl_partition *p, const struct zl_pipeline_options *o, uint32_t w,
                      struct zl_stage ***list)
{
    struct zl_pool *pool = &l->pool[l->n_pools++];
    pthread_mutex_init(&pool->lock, NULL);
    pool->stage = *list;
    for (uint32_t k = 0; k < p->n; k++)
        if (o->common || o->worker_of[k] == w)
            pool->stage[pool->n_stages++] = &l->stage[k];
    pool->live = pool->n_stages;
    pool->n_workers = o->common ? l->n_workers : 1;
    *list += pool->n_stages;
}

static int open_workers(struct zl_pipeline *l, const struct zl_partition *p, const struct zl_pipeline_options *o, struct zl_error *err)
{
    struct zl_stage **next = l->hosted;
    l->board = zl_board_take(&l->segment, l->n_workers);
    if (!l->board)
        return zl_fail(err, ZL_EMEMORY, "the counters do not fit into their segment");
    for (uint32_t w = 0; w < l->n_workers; w++) {
        struct zl_worker *worker = &l->worker[w];
        const bool shares = o->common && w > 0;
        void *bell = shares ? NULL : zl_segment_take(&l->segment, zl_bell_bytes());
        if (!bell && !shares)
            return zl_fail(err, ZL_EMEMORY, "the bells do not fit into their segment");
        if (!shares)
            open_pool(l, p, o, w, &next);
        *worker = (struct zl_worker){.index = w,
                                     .pool = &l->pool[l->n_pools - 1],
                                     .group = o->groups[w],
                                     .bell = shares ? l->worker[0].bell : zl_bell_init(bell),
                                     .counters = &l->board->worker[w],
                                     .trace = zl_trace_lane(o->trace, w),
                                     .before = o->before,
                                     .context = o->before_context,
                                     .halt = &l->halt};
    }
    for (uint32_t k = 0; k < p->n; k++) {
        struct zl_stage *s = &l->stage[k];
        s->before = k ? l->worker[o->worker_of[k - 1]].bell : NULL;
        s->behind = k + 1 < p->n ? l->worker[o->worker_of[k + 1]].bell : NULL;
    }
    return 0;
}

static int open_shared(struct zl_pipeline *l, const struct zl_partition *p, const struct zl_pipeline_options *o, uint32_t w,
                       struct zl_error *err)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        struct zl_block_plan b;
        if (o->worker_of[k] != w || !takes_turns(p, o, k))
            continue;
        if (zl_block_plan(l->model, &l->stage[k].block.spec, o->groups[w].n, &b, err))
            return err ? err->code : ZL_EMEMORY;
        const uint64_t need = plus(plus(b.activation_bytes, b.scratch_bytes), 64);
        bytes = need > bytes ? need : bytes;
    }
    return bytes ? zl_arena_open(&l->shared[w], "activations", bytes, err) : 0;
}

static int open_stages(struct zl_pipeline *l, const struct zl_partition *p, const struct zl_pipeline_options *o, struct zl_error *err)
{
    int rc = 0;
    for (uint32_t k = 0; !rc && k < p->n; k++) {
        describe(&l->stage[k], l->model, p, k, o);
        rc = open_rings(l, p, k, o, err);
    }
    for (uint32_t w = 0; !rc && w < l->n_workers; w++)
        rc = open_shared(l, p, o, w, err);
    for (uint32_t k = 0; !rc && k < p->n; k++) {
        struct zl_stage *s = &l->stage[k];
        struct zl_block_spec spec = s->block.spec;
        spec.lent = takes_turns(p, o, k) ? &l->shared[s->worker] : NULL;
        rc = zl_block_open(&s->block, l->model, &spec, o->groups[s->worker].n, err);
        if (!rc)
            rc = zl_stage_take(s, err);
        if (rc)
            zl_fail_prefix(err, "stage %u", k);
    }
    return rc ? rc : open_workers(l, p, o, err);
}

int zl_pipeline_open(struct zl_pipeline *l, const struct zl_model *m, const struct zl_partition *p,
                     const struct zl_pipeline_options *o, char note[256], struct zl_error *err)
{
    *l = (struct zl_pipeline){.model = m, .n = p->n, .n_workers = o->n_workers};
    l->stage = calloc(p->n, sizeof *l->stage);
    l->worker = calloc(o->n_workers, sizeof *l->worker);
    l->hosted = calloc(p->n, sizeof *l->hosted);
    l->pool = calloc(o->n_workers, sizeof *l->pool);
    l->shared = calloc(o->n_workers, sizeof *l->shared);
    int rc = l->stage && l->worker && l->hosted && l->pool && l->shared ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc)
        rc = zl_segment_create(&l->segment, ring_bytes(m, p, o), note, err);
    if (!rc)
        rc = open_stages(l, p, o, err);
    if (rc) {
        zl_pipeline_close(l);
        return rc;
    }
    l->feed = l->stage[0].in;
    l->feed_layout = l->stage[0].in_layout;
    return 0;
}

int zl_pipeline_start(struct zl_pipeline *l, struct zl_error *err)
{
    zl_board_set_live(l->board, true);
    for (uint32_t w = 0; w < l->n_workers; w++)
        if (zl_worker_start(&l->worker[w], err)) {
            zl_pipeline_abort(l);
            zl_pipeline_join(l);
            return err ? err->code : ZL_ESYSTEM;
        }
    return 0;
}

struct zl_packet *zl_pipeline_slot(struct zl_pipeline *l, int64_t timeout_ns)
{
    return zl_ring_try_reserve(l->feed, timeout_ns);
}

static struct zl_bell *front_bell(const struct zl_pipeline *l)
{
    return l->worker[l->stage[0].worker].bell;
}

void zl_pipeline_send(struct zl_pipeline *l, struct zl_packet *p)
{
    p->sequence = l->sent++;
    zl_ring_publish(l->feed);
    zl_bell_ring(front_bell(l));
}

void zl_pipeline_mark(struct zl_pipeline *l, struct zl_packet *slot, uint64_t step, uint64_t generation)
{
    *slot = (struct zl_packet){.kind = ZL_MARK, .step = step, .generation = generation};
    zl_pipeline_send(l, slot);
}

void zl_pipeline_drain(struct zl_pipeline *l, struct zl_packet *slot)
{
    *slot = (struct zl_packet){.kind = ZL_DRAIN};
    zl_pipeline_send(l, slot);
}

bool zl_pipeline_report(struct zl_pipeline *l, int64_t timeout_ns, struct zl_report *out)
{
    for (uint32_t k = l->n; k-- > 0;) {
        struct zl_ring *r = l->stage[k].reports;
        const struct zl_report *got = zl_ring_try_peek(r, 0);
        if (!got)
            continue;
        *out = *got;
        zl_ring_release(r);
        return true;
    }
    struct zl_ring *last = l->stage[l->n - 1].reports;
    const struct zl_report *got = timeout_ns > 0 ? zl_ring_try_peek(last, timeout_ns) : NULL;
    if (!got)
        return false;
    *out = *got;
    zl_ring_release(last);
    return true;
}

bool zl_pipeline_done(const struct zl_pipeline *l)
{
    for (uint32_t k = 0; k < l->n; k++)
        if (!zl_ring_is_done(l->stage[k].reports))
            return false;
    return true;
}

void zl_pipeline_finish(struct zl_pipeline *l)
{
    zl_ring_close(l->feed);
    zl_bell_ring(front_bell(l));
}

void zl_pipeline_abort(struct zl_pipeline *l)
{
    for (uint32_t k = 0; k < l->n; k++) {
        zl_ring_abort(l->stage[k].in);
        zl_ring_abort(l->stage[k].reports);
        if (l->stage[k].back_in)
            zl_ring_abort(l->stage[k].back_in);
    }
    for (uint32_t w = 0; w < l->n_workers; w++)
        zl_bell_ring(l->worker[w].bell);
}

void zl_pipeline_halt(struct zl_pipeline *l)
{
    atomic_store_explicit(&l->halt, true, memory_order_release);
    for (uint32_t w = 0; w < l->n_workers; w++)
        zl_bell_ring(l->worker[w].bell);
}

bool zl_pipeline_over(const struct zl_pipeline *l)
{
    for (uint32_t w = 0; w < l->n_workers; w++)
        if (l->worker[w].running && !atomic_load_explicit(&l->worker[w].over, memory_order_acquire))
            return false;
    return true;
}

void zl_pipeline_join(struct zl_pipeline *l)
{
    for (uint32_t w = 0; w < l->n_workers; w++)
        zl_worker_join(&l->worker[w]);
    zl_board_set_live(l->board, false);
}

void zl_pipeline_close(struct zl_pipeline *l)
{
    for (uint32_t k = 0; l->stage && k < l->n; k++)
        zl_stage_free(&l->stage[k]);
    for (uint32_t w = 0; l->shared && w < l->n_workers; w++)
        zl_arena_close(&l->shared[w]);
    free(l->stage);
    free(l->worker);
    for (uint32_t i = 0; i < l->n_pools; i++)
        pthread_mutex_destroy(&l->pool[i].lock);
    free(l->hosted);
    free(l->pool);
    free(l->shared);
    zl_segment_destroy(&l->segment);
    *l = (struct zl_pipeline){0};
}

double zl_pipeline_wait_seconds(const struct zl_pipeline *l)
{
    uint64_t ns = 0;
    for (uint32_t w = 0; w < l->n_workers; w++)
        ns += atomic_load_explicit(&l->worker[w].counters->input_wait_ns, memory_order_relaxed) +
              atomic_load_explicit(&l->worker[w].counters->space_wait_ns, memory_order_relaxed);
    return (double)ns * 1e-9;
}
