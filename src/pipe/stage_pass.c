/*
 * A stage's work on a micro-batch: forward, backward, evaluation. Nothing is allocated, locked or read from a file here. See stage_impl.h.
 */
#include "pipe/stage_impl.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

/* For the picture: the ring before the stage, and what the micro-batches that wait for their backward keep here; `replayed` is what the
 * one takes whose forward is made again. */
static void trace_counters(struct zl_stage *s, uint64_t replayed)
{
    if (!s->trace)
        return;
    const uint64_t now = zl_clock_ns();
    const struct zl_ring_stats in = zl_ring_stats(s->in);
    uint64_t bytes = replayed;
    for (uint32_t i = 0; i < s->state.n; i++)
        bytes += s->pending[place_at(s, i)].kept_bytes;
    zl_trace_counter(s->trace, ZL_TRACE_RING_FILL, now, s->index, in.published - in.released);
    zl_trace_counter(s->trace, ZL_TRACE_ACTIVATION_BYTES, now, s->index, bytes);
}

/* What stays of a micro-batch after its forward: its activations, where they are not made again, and its input, where that was copied. */
static uint64_t kept_bytes(const struct zl_stage *s, const struct zl_packet *p)
{
    const bool replayed = s->schedule->weights == ZL_WEIGHTS_REPLAYED && s->stash;
    const uint64_t input = s->stash ? p->n_tokens * s->block.model->config.d * sizeof(float) : 0;
    return input + (replayed ? 0 : s->block.kept_bytes);
}

void zl_stage_forward(struct zl_stage *s)
{
    const uint64_t start = zl_clock_ns();
    struct zl_packet *in = s->front;
    const uint32_t place = place_at(s, s->state.n);
    const uint64_t version = s->vertical_sync ? in->version : s->state.version;
    if (s->stash) {
        struct zl_packet *kept = (struct zl_packet *)(void *)(s->stash + place * s->stash_bytes);
        zl_stage_copy(s, in, kept, &s->in_layout, s->in_layout.hidden ? zl_packet_at(in, s->in_layout.hidden) : NULL);
        release(s->in, s->before);
        in = kept;
    }
    const struct zl_tokens tok = zl_stage_tokens(s, in);
    zl_stage_use_version(s, version);
    const float *y = zl_stage_own_layers(s, slot_of(s, place), &tok, in);
    const uint64_t end = zl_clock_ns();
    zl_trace_span(s->trace, ZL_TRACE_FORWARD, start, end, s->index, in->micro, in->step);
    if (s->out) {
        zl_stage_copy(s, in, s->room, &s->out_layout, y);
        s->room->version = version;
        publish(s->out, s->behind);
    }
    s->pending[place] = (struct zl_pending){version, zl_clock_ns() - start, kept_bytes(s, in)};
    s->state.n++;
    s->state.forwarded++;
    trace_counters(s, 0);
    s->flow.ended = s->schedule->flush && in->last_of_step && (s->block.spec.train || s->last);
}

/* Loss or gradient from behind, then the own layers. */
static void differentiate(struct zl_stage *s, struct zl_packet *p, uint32_t place, struct zl_report *r)
{
    const uint32_t slot = slot_of(s, place);
    const struct zl_tokens tok = zl_stage_tokens(s, p);
    uint64_t start = zl_clock_ns();
    zl_stage_use_version(s, s->pending[place].version);
    if (s->schedule->weights == ZL_WEIGHTS_REPLAYED && s->stash) {
        s->block.in_use = s->block.w;
        zl_stage_own_layers(s, slot, &tok, p);
        const uint64_t end = zl_clock_ns();
        zl_trace_span(s->trace, ZL_TRACE_REPLAY, start, end, s->index, p->micro, p->step);
        trace_counters(s, s->block.kept_bytes);
        start = end;
    } else if (s->stash && !s->in_layout.hidden) {
        zl_stage_input(s, p); /* other tokens were embedded meanwhile */
    }
    if (has_loss_here(s)) {
        struct zl_loss loss = {0};
        s->block.anchor = s->anchored ? zl_packet_at(p, s->in_layout.anchors) : NULL;
        if (s->block.spec.has_loss)
            zl_block_loss(&s->block, slot, &tok, zl_packet_at(p, s->in_layout.labels), p->weight, true, &loss);
        r->loss_sum = loss.sum;
        r->n = loss.n;
        r->correct = loss.correct;
        if (s->block.loss_end_ns > start) {
            zl_trace_span(s->trace, ZL_TRACE_LOCAL_LOSS, start, s->block.loss_end_ns, s->index, p->micro, p->step);
            start = s->block.loss_end_ns;
        }
    } else if (s->back_in) {
        zl_block_backward(&s->block, slot, &tok, (const float *)(const void *)((unsigned char *)s->gradient + ZL_GRADIENT_AT));
        if (s->state.n_early) /* as after a resume only */
            memmove(s->early, s->early + s->gradient_bytes, --s->state.n_early * s->gradient_bytes);
        else
            release(s->back_in, s->behind);
    }
    if (s->block.spec.train)
        zl_trace_span(s->trace, ZL_TRACE_BACKWARD, start, zl_clock_ns(), s->index, p->micro, p->step);
}

void zl_stage_backward(struct zl_stage *s)
{
    const uint64_t start = zl_clock_ns();
    const uint32_t place = s->state.first;
    struct zl_packet *p = zl_stage_pending(s, place), kept = *p;
    struct zl_report r = zl_stage_report(s, p);
    differentiate(s, p, place, &r);
    if (s->back_out) {
        struct zl_gradient *to = s->back_room;
        *to = (struct zl_gradient){.micro = p->micro, .n_tokens = p->n_tokens};
        memcpy((unsigned char *)to + ZL_GRADIENT_AT, s->block.dx, (size_t)p->n_tokens * s->block.model->config.d * sizeof(float));
        publish(s->back_out, s->before);
    }
    s->state.first = place_at(s, 1);
    s->state.n--;
    trace_counters(s, 0);
    if (kept.inspect && is_trained(s))
        r.grad_norm = sqrt(zl_block_sum_squares(&s->block, 0));
    r.busy_ns = s->pending[place].forward_ns + zl_clock_ns() - start;
    if (kept.last_of_step) {
        zl_stage_end_step(s, &kept, &r);
    } else {
        s->state.finished++;
        zl_stage_send_report(s, &r);
    }
    if (!s->stash)
        release(s->in, s->before);
}

void zl_stage_evaluate(struct zl_stage *s)
{
    const uint64_t start = zl_clock_ns();
    struct zl_packet *in = s->front;
    const uint32_t slot = slot_of(s, place_at(s, s->state.n));
    const struct zl_tokens tok = zl_stage_tokens(s, in);
    struct zl_report r = zl_stage_report(s, in);
    s->block.in_use = s->block.w;
    const float *y = zl_stage_own_layers(s, slot, &tok, in);
    if (s->out) {
        zl_stage_copy(s, in, s->room, &s->out_layout, y);
        publish(s->out, s->behind);
    }
    if (s->last) {
        struct zl_loss loss = {0};
        zl_block_loss(&s->block, slot, &tok, zl_packet_at(in, s->in_layout.labels), 0, false, &loss);
        r.loss_sum = loss.sum;
        r.n = loss.n;
        r.correct = loss.correct;
    }
    r.busy_ns = zl_clock_ns() - start;
    zl_trace_span(s->trace, ZL_TRACE_EVALUATE, start, start + r.busy_ns, s->index, r.micro, r.step);
    zl_stage_send_report(s, &r);
    release(s->in, s->before);
}

void zl_stage_revive(struct zl_stage *s)
{
    if (s->stash && s->schedule->weights == ZL_WEIGHTS_REPLAYED)
        return; /* that is made again anyway */
    if (s->state.n && !s->stash)
        s->front = zl_ring_try_peek(s->in, 0); /* as the look before its forward left it */
    for (uint32_t i = 0; i < s->state.n; i++) {
        const uint32_t place = place_at(s, i);
        struct zl_packet *p = zl_stage_pending(s, place);
        const struct zl_tokens tok = zl_stage_tokens(s, p);
        zl_stage_use_version(s, s->pending[place].version);
        zl_stage_own_layers(s, slot_of(s, place), &tok, p);
    }
}
