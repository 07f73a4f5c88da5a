/* A pipeline of stages: see pipeline.h. */
#include "pipe/pipeline.h"

#include <stdlib.h>

#define REPORTS 256 /* slots of a stage's report ring: the driver empties it far more often than that */

static struct zl_block_spec spec_of(const struct zl_partition *p, uint32_t k, const struct zl_pipeline_options *o)
{
    const struct zl_cut *c = &p->cut[k];
    const bool last = k + 1 == p->n;
    return (struct zl_block_spec){
        .first = c->first,
        .n_own = c->n_own,
        .n_shadow = c->n_shadow,
        .train = !c->frozen,
        .has_loss = !c->frozen || last,
        .recompute = o->recompute,
        .compute = o->compute,
        .lora = o->lora,
        .adapter = o->adapter,
        .seed = o->seed,
        .map = c->map,
        .map_a = c->map && o->map_a ? o->map_a[k] : NULL,
        .map_b = c->map && o->map_b ? o->map_b[k] : NULL,
        .subset = last ? NULL : o->subset,
        .subset_index = last ? NULL : o->subset_index,
        .n_subset = last ? 0 : o->n_subset,
        .tokens = o->tokens,
        .keep_tokens = o->keep_tokens,
        .longest = o->longest,
    };
}

static struct zl_packet_layout layout_of(const struct zl_model *m, const struct zl_pipeline_options *o, uint32_t k)
{
    return zl_packet_layout((uint64_t)o->tokens, (uint64_t)o->seqs, k ? m->config.d : 0);
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

static uint64_t ring_bytes(const struct zl_model *m, uint32_t stages, const struct zl_pipeline_options *o)
{
    uint64_t sum = 65536; /* the segment's own header */
    for (uint32_t k = 0; k < stages; k++) {
        const uint64_t ring = zl_ring_bytes(o->ring_depth, layout_of(m, o, k).bytes);
        if (!ring)
            return UINT64_MAX;
        sum = plus(sum, padded(ring) + padded(zl_ring_bytes(REPORTS, sizeof(struct zl_report))));
    }
    return sum;
}

int zl_pipeline_plan(const struct zl_model *m, const struct zl_partition *p, const struct zl_pipeline_options *o,
                     struct zl_pipeline_plan *plan, struct zl_error *err)
{
    *plan = (struct zl_pipeline_plan){.ring_bytes = ring_bytes(m, p->n, o)};
    plan->total_bytes = plan->ring_bytes;
    for (uint32_t k = 0; k < p->n; k++) {
        struct zl_block_spec spec = spec_of(p, k, o);
        struct zl_block_plan *b = &plan->block[k];
        if (zl_block_plan(m, &spec, o->groups ? o->groups[k].n : 1, b, err))
            return err ? err->code : ZL_EMEMORY;
        plan->total_bytes = plus(plan->total_bytes, plus(plus(b->state_bytes, b->activation_bytes), b->scratch_bytes));
    }
    return 0;
}

static struct zl_ring *take_ring(struct zl_pipeline *l, uint32_t slots, uint64_t slot_bytes)
{
    void *memory = zl_segment_take(&l->segment, zl_ring_bytes(slots, slot_bytes));
    return memory ? zl_ring_init(memory, slots, slot_bytes) : NULL;
}

static int open_stage(struct zl_pipeline *l, const struct zl_partition *p, uint32_t k, const struct zl_pipeline_options *o,
                      struct zl_error *err)
{
    struct zl_stage *s = &l->stage[k];
    const struct zl_block_spec spec = spec_of(p, k, o);
    s->index = (int)k;
    s->last = k + 1 == l->n;
    s->optimizer = o->optimizer;
    s->group = o->groups[k];
    s->in_layout = layout_of(l->model, o, k);
    s->out_layout = layout_of(l->model, o, k + 1);
    s->in = take_ring(l, o->ring_depth, s->in_layout.bytes);
    s->reports = take_ring(l, REPORTS, sizeof(struct zl_report));
    if (!s->in || !s->reports)
        return zl_fail(err, ZL_EMEMORY, "the rings do not fit into their segment");
    if (k)
        l->stage[k - 1].out = s->in;
    int rc = zl_block_open(&s->block, l->model, &spec, s->group.n, err);
    if (rc)
        return zl_fail_prefix(err, "stage %u", k);
    if (k == 0) {
        s->embedded = aligned_alloc(64, padded((uint64_t)o->tokens * l->model->config.d * sizeof(float)));
        if (!s->embedded)
            return zl_fail(err, ZL_EMEMORY, "out of memory for the embedded tokens");
    }
    return 0;
}

int zl_pipeline_open(struct zl_pipeline *l, const struct zl_model *m, const struct zl_partition *p,
                     const struct zl_pipeline_options *o, char note[256], struct zl_error *err)
{
    *l = (struct zl_pipeline){.model = m, .n = p->n};
    l->stage = calloc(p->n, sizeof *l->stage);
    if (!l->stage)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    int rc = zl_segment_create(&l->segment, ring_bytes(m, p->n, o), note, err);
    for (uint32_t k = 0; !rc && k < p->n; k++)
        rc = open_stage(l, p, k, o, err);
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
    for (uint32_t k = 0; k < l->n; k++)
        if (zl_stage_start(&l->stage[k], err)) {
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

void zl_pipeline_send(struct zl_pipeline *l)
{
    zl_ring_publish(l->feed);
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
}

void zl_pipeline_abort(struct zl_pipeline *l)
{
    for (uint32_t k = 0; k < l->n; k++) {
        zl_ring_abort(l->stage[k].in);
        zl_ring_abort(l->stage[k].reports);
    }
}

void zl_pipeline_join(struct zl_pipeline *l)
{
    for (uint32_t k = 0; k < l->n; k++)
        zl_stage_join(&l->stage[k]);
}

void zl_pipeline_close(struct zl_pipeline *l)
{
    for (uint32_t k = 0; l->stage && k < l->n; k++) {
        zl_block_close(&l->stage[k].block);
        free(l->stage[k].embedded);
    }
    free(l->stage);
    zl_segment_destroy(&l->segment);
    *l = (struct zl_pipeline){0};
}

double zl_pipeline_wait_seconds(const struct zl_pipeline *l)
{
    uint64_t ns = 0;
    for (uint32_t k = 0; k < l->n; k++) {
        struct zl_ring_stats in = zl_ring_stats(l->stage[k].in);
        ns += in.consumer_wait_ns;
        if (l->stage[k].out)
            ns += zl_ring_stats(l->stage[k].out).producer_wait_ns;
    }
    return (double)ns * 1e-9;
}
