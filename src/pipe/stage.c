/*
 * The loop of a stage: see stage.h. For each micro-batch, in this order: own layers forward; output into the next ring; local loss
 * and backward; on the last micro-batch of a step the update; report; the input slot goes back. No allocation, lock or file
 * access happens here; the rings are the only things that can wait.
 */
#include "pipe/stage.h"

#include <string.h>

#include "base/clock.h"
#include "kernel/dequant.h"

/* Copy descriptor, arrays and activations to the next ring. false: it was aborted. */
static bool hand_on(struct zl_stage *s, struct zl_packet *in, const float *y)
{
    struct zl_packet *out = zl_ring_reserve(s->out);
    if (!out)
        return false;
    const size_t ints = in->n_tokens * sizeof(int32_t), d = s->block.model->config.d;
    *out = *in;
    memcpy(zl_packet_at(out, s->out_layout.ids), zl_packet_at(in, s->in_layout.ids), ints);
    memcpy(zl_packet_at(out, s->out_layout.labels), zl_packet_at(in, s->in_layout.labels), ints);
    memcpy(zl_packet_at(out, s->out_layout.positions), zl_packet_at(in, s->in_layout.positions), ints);
    memcpy(zl_packet_at(out, s->out_layout.seqs), zl_packet_at(in, s->in_layout.seqs),
           in->n_seqs * sizeof(struct zl_attn_seq));
    memcpy(zl_packet_at(out, s->out_layout.hidden), y, in->n_tokens * d * sizeof(float));
    zl_ring_publish(s->out);
    return true;
}

static void local_loss(struct zl_stage *s, struct zl_packet *in, const struct zl_tokens *tok, struct zl_report *r)
{
    struct zl_loss loss = {0};
    const bool train = in->kind == ZL_TRAIN;
    if (!s->block.spec.has_loss || (!train && !s->last))
        return;
    zl_block_loss(&s->block, 0, tok, zl_packet_at(in, s->in_layout.labels), in->weight, train, &loss);
    r->loss_sum = loss.sum;
    r->n = loss.n;
    r->correct = loss.correct;
}

static void update(struct zl_stage *s, const struct zl_packet *in, struct zl_report *r)
{
    if (in->kind != ZL_TRAIN || !in->last_of_step || !s->block.spec.train || !s->block.n)
        return;
    s->optimizer.lr = in->lr;
    r->grad_norm = zl_block_update(&s->block, &s->optimizer, s->updates + 1);
    r->updated = r->grad_norm > 0 && __builtin_isfinite(r->grad_norm);
    r->skipped = !r->updated;
    s->updates += r->updated;
    if (s->updates == 2 && r->updated)
        zl_block_unmoved(&s->block, r->unmoved, sizeof r->unmoved);
}

/* One micro-batch. false: a neighbour is gone. */
static bool work(struct zl_stage *s, struct zl_packet *in)
{
    struct zl_tokens tok = {.t = in->n_tokens,
                            .positions = zl_packet_at(in, s->in_layout.positions),
                            .n_seqs = (int)in->n_seqs,
                            .seqs = zl_packet_at(in, s->in_layout.seqs)};
    const struct zl_model *m = s->block.model;
    uint64_t start = zl_clock_ns();
    const float *x;
    if (s->in_layout.hidden) {
        x = zl_packet_at(in, s->in_layout.hidden);
    } else {
        zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, zl_packet_at(in, s->in_layout.ids), tok.t, s->embedded);
        x = s->embedded;
    }
    const float *y = zl_block_forward(&s->block, 0, &tok, x);
    uint64_t forwarded = zl_clock_ns();
    if (s->out && !hand_on(s, in, y))
        return false;
    uint64_t resumed = zl_clock_ns();
    struct zl_report r = {.kind = in->kind, .stage = (uint32_t)s->index, .last_of_step = in->last_of_step,
                          .step = in->step, .micro = in->micro};
    local_loss(s, in, &tok, &r);
    update(s, in, &r);
    r.busy_ns = forwarded - start + (zl_clock_ns() - resumed);
    struct zl_report *to = zl_ring_reserve(s->reports);
    if (!to)
        return false;
    *to = r;
    zl_ring_publish(s->reports);
    return true;
}

static void *run(void *arg)
{
    struct zl_stage *s = arg;
    bool ok = true;
    struct zl_packet *in;
    s->pinned = zl_cores_pin_team(&s->group);
    while (ok && (in = zl_ring_peek(s->in))) {
        ok = work(s, in);
        zl_ring_release(s->in);
    }
    if (!ok)
        zl_ring_abort(s->in);
    if (s->out)
        ok ? zl_ring_close(s->out) : zl_ring_abort(s->out);
    zl_ring_close(s->reports);
    return NULL;
}

int zl_stage_start(struct zl_stage *s, struct zl_error *err)
{
    if (pthread_create(&s->thread, NULL, run, s))
        return zl_fail(err, ZL_ESYSTEM, "the thread of stage %d cannot be started", s->index);
    s->running = true;
    return 0;
}

void zl_stage_join(struct zl_stage *s)
{
    if (s->running)
        pthread_join(s->thread, NULL);
    s->running = false;
}
