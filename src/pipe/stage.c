/*
 * What a stage does next, and doing it: see stage.h. Nothing is allocated, locked or read from a file here, and nothing waits: an operation
 * runs only when its packet, its gradient and the slots for its results are there.
 */
#include "pipe/stage.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "kernel/dequant.h"

/* ---- where things lie ---------------------------------------------------------------------------- */

static uint32_t place_at(const struct zl_stage *s, uint32_t i)
{
    return (s->state.first + i) % s->in_flight;
}

/* A place of the queue in the block: all share one slot where the forward is replayed. */
static uint32_t slot_of(const struct zl_stage *s, uint32_t place)
{
    return s->schedule->weights == ZL_WEIGHTS_REPLAYED ? 0 : place;
}

static struct zl_packet *pending_packet(struct zl_stage *s, uint32_t place)
{
    return s->stash ? (struct zl_packet *)(void *)(s->stash + place * s->stash_bytes) : s->front;
}

static struct zl_tokens tokens_of(const struct zl_stage *s, struct zl_packet *p)
{
    return (struct zl_tokens){.t = p->n_tokens,
                              .positions = zl_packet_at(p, s->in_layout.positions),
                              .n_seqs = (int)p->n_seqs,
                              .seqs = zl_packet_at(p, s->in_layout.seqs)};
}

/* The block's input: what came over the ring, or the embedded tokens. */
static const float *input_of(struct zl_stage *s, struct zl_packet *p)
{
    const struct zl_model *m = s->block.model;
    if (s->in_layout.hidden)
        return zl_packet_at(p, s->in_layout.hidden);
    zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, zl_packet_at(p, s->in_layout.ids), p->n_tokens, s->embedded);
    return s->embedded;
}

/* Own layers on a packet's tokens. */
static const float *forward_of(struct zl_stage *s, uint32_t slot, const struct zl_tokens *tok, struct zl_packet *p)
{
    const float *x = input_of(s, p);
    return s->passing ? x : zl_block_forward(&s->block, slot, tok, x);
}

/* What the stages behind are anchored to; this one's own comes first and stays. */
static void copy_anchors(const struct zl_stage *s, struct zl_packet *from, struct zl_packet *to, const struct zl_packet_layout *layout)
{
    const struct zl_packet_layout *in = &s->in_layout;
    const int32_t *labels = zl_packet_at(from, in->labels);
    const uint32_t skipped = in->n_anchors - layout->n_anchors;
    size_t labelled = 0;
    for (uint32_t t = 0; t < from->n_tokens; t++)
        labelled += labels[t] >= 0;
    for (uint32_t i = 0; i < layout->n_anchors; i++)
        memcpy(zl_packet_at(to, layout->anchors + i * layout->anchor_bytes), zl_packet_at(from, in->anchors + (i + skipped) * in->anchor_bytes),
               labelled * s->block.model->config.d * sizeof(float));
}

static void copy_packet(const struct zl_stage *s, struct zl_packet *from, struct zl_packet *to, const struct zl_packet_layout *layout,
                        const float *hidden)
{
    const struct zl_packet_layout *in = &s->in_layout;
    const size_t ints = from->n_tokens * sizeof(int32_t);
    *to = *from;
    memcpy(zl_packet_at(to, layout->ids), zl_packet_at(from, in->ids), ints);
    memcpy(zl_packet_at(to, layout->labels), zl_packet_at(from, in->labels), ints);
    memcpy(zl_packet_at(to, layout->positions), zl_packet_at(from, in->positions), ints);
    memcpy(zl_packet_at(to, layout->seqs), zl_packet_at(from, in->seqs), from->n_seqs * sizeof(struct zl_attn_seq));
    if (layout->hidden)
        memcpy(zl_packet_at(to, layout->hidden), hidden, (size_t)from->n_tokens * s->block.model->config.d * sizeof(float));
    if (layout->n_anchors && from->kind == ZL_TRAIN)
        copy_anchors(s, from, to, layout);
}

static void publish(struct zl_ring *r, struct zl_bell *bell)
{
    zl_ring_publish(r);
    zl_bell_ring(bell);
}

static void release(struct zl_ring *r, struct zl_bell *bell)
{
    zl_ring_release(r);
    zl_bell_ring(bell);
}

static void send_report(struct zl_stage *s, const struct zl_report *r)
{
    struct zl_report *to = zl_ring_reserve(s->reports); /* the driver empties it whatever happens */
    if (!to)
        return;
    *to = *r;
    zl_ring_publish(s->reports);
}

static bool has_loss_here(const struct zl_stage *s)
{
    return s->schedule->local || s->last;
}

/* ---- versions of weights ------------------------------------------------------------------------- */

static void use_version(struct zl_stage *s, uint64_t version)
{
    s->block.in_use = s->block.w;
    if (s->older.n && version != s->state.version)
        s->block.in_use = s->older.w + version % s->older.n * s->block.n;
}

/* An update is due: keep the weights for those who still need them. */
static void keep_version(struct zl_stage *s)
{
    if (s->older.n) {
        const uint64_t at = s->state.version % s->older.n;
        s->older.version[at] = s->state.version;
        memcpy(s->older.w + at * s->block.n, s->block.w, s->block.n * sizeof(float));
    }
    s->state.version++;
}

/* ---- what comes next ----------------------------------------------------------------------------- */

static bool neighbour_gone(const struct zl_stage *s)
{
    return zl_ring_is_aborted(s->in) || (s->out && (s->closed ? zl_ring_is_aborted(s->out) : zl_ring_is_closed(s->out))) || (s->back_in && zl_ring_is_aborted(s->back_in)) ||
           (s->back_out && zl_ring_is_closed(s->back_out)) || zl_ring_is_aborted(s->reports);
}

static bool has_gradient(struct zl_stage *s)
{
    s->gradient = s->state.has_early ? (struct zl_gradient *)(void *)s->early : zl_ring_try_peek(s->back_in, 0);
    return s->gradient != NULL;
}

static bool has_room(struct zl_stage *s)
{
    return !s->out || (s->room = zl_ring_try_reserve(s->out, 0));
}

static bool has_back_room(struct zl_stage *s)
{
    return !s->back_out || (s->back_room = zl_ring_try_reserve(s->back_out, 0));
}

static bool has_packet(struct zl_stage *s)
{
    s->front = zl_ring_try_peek(s->in, 0);
    return s->front != NULL;
}

static enum zl_stage_next await_gradient(const struct zl_stage *s)
{
    return zl_ring_is_done(s->back_in) ? ZL_STAGE_BROKEN : ZL_STAGE_WAITS_GRADIENT;
}

static enum zl_stage_next next_backward(struct zl_stage *s)
{
    if (!has_loss_here(s) && s->back_in && !has_gradient(s))
        return await_gradient(s);
    return has_back_room(s) ? ZL_STAGE_BACKWARD : ZL_STAGE_WAITS_SPACE;
}

/* The norm of all stages: the squares travel to the first stage, the norm from there to the others. */
static bool shares_norm(const struct zl_stage *s)
{
    return s->schedule->flush && !s->schedule->single && s->n_stages > 1;
}

static enum zl_stage_next next_norm(struct zl_stage *s)
{
    if (s->flow.has_sum && !has_packet(s))
        return zl_ring_is_done(s->in) ? ZL_STAGE_BROKEN : ZL_STAGE_WAITS_INPUT;
    if (!s->flow.has_sum && !s->last && !has_gradient(s))
        return await_gradient(s);
    const bool onward = s->flow.has_sum || !s->back_out; /* the norm goes on, or the sum goes back */
    return (onward ? has_room(s) : has_back_room(s)) ? ZL_STAGE_NORM : ZL_STAGE_WAITS_SPACE;
}

/* When a marker passes, a pipeline that never runs empty has gradients on their way. The stage behind is one micro-batch further
 * with its backwards once it has sent one before its own marker, which is so as soon as this one holds as many as it can. */
static bool gradient_on_its_way(const struct zl_stage *s)
{
    return !s->schedule->flush && s->back_in && s->ahead > 0 && s->state.n == s->ahead;
}

enum zl_stage_next zl_stage_next(struct zl_stage *s)
{
    if (neighbour_gone(s))
        return ZL_STAGE_BROKEN;
    if (s->state.n == 0)
        s->flow.draining = false;
    if (s->state.n > s->ahead || (s->state.n && (s->flow.ended || s->flow.draining)))
        return next_backward(s);
    if (s->flow.ended)
        return next_norm(s);
    if (!has_packet(s)) {
        if (!zl_ring_is_done(s->in))
            return ZL_STAGE_WAITS_INPUT;
        if (s->out && !s->closed) { /* the stage behind holds micro-batches back as this one does, and gives no gradient before it knows */
            zl_ring_close(s->out);
            zl_bell_ring(s->behind);
        }
        s->closed = true;
        return s->state.n ? next_backward(s) : ZL_STAGE_DONE;
    }
    if (s->front->kind == ZL_MARK && gradient_on_its_way(s) && !has_gradient(s))
        return await_gradient(s);
    if (!has_room(s))
        return ZL_STAGE_WAITS_SPACE;
    switch ((enum zl_packet_kind)s->front->kind) {
    case ZL_MARK:
        return ZL_STAGE_MARK;
    case ZL_DRAIN:
        return ZL_STAGE_DRAIN;
    case ZL_EVAL:
        return ZL_STAGE_EVALUATE;
    case ZL_TRAIN:
    case ZL_NORM:
        break;
    }
    return ZL_STAGE_FORWARD;
}

uint64_t zl_stage_oldest(struct zl_stage *s, enum zl_stage_next what)
{
    const struct zl_packet *p = what == ZL_STAGE_BACKWARD ? pending_packet(s, s->state.first) : what == ZL_STAGE_NORM ? NULL : s->front;
    return p ? p->sequence : 0;
}

/* ---- operations ---------------------------------------------------------------------------------- */

static void take_step(struct zl_stage *s, float lr, double norm, struct zl_report *r)
{
    const uint64_t start = zl_clock_ns();
    keep_version(s);
    s->optimizer.lr = lr;
    r->grad_norm = norm;
    r->updated = zl_block_step(&s->block, &s->optimizer, (int64_t)s->state.updates + 1, norm);
    r->skipped = !r->updated;
    s->state.updates += r->updated;
    if (s->state.updates == 2 && r->updated)
        zl_block_unmoved(&s->block, r->unmoved, sizeof r->unmoved);
    const uint64_t end = zl_clock_ns();
    r->busy_ns += end - start;
    zl_trace_span(s->trace, ZL_TRACE_UPDATE, start, end, s->index, r->micro, r->step);
}

static bool is_trained(const struct zl_stage *s)
{
    return s->block.spec.train && s->block.n;
}

/* The last backward of a step is done: update, or find the norm of all stages first. */
static void end_step(struct zl_stage *s, const struct zl_packet *p, struct zl_report *r)
{
    if (s->flow.ended && shares_norm(s)) {
        s->flow.report = *r;
        s->flow.report.lr = p->lr;
        return;
    }
    s->flow.ended = false;
    s->state.finished++;
    if (is_trained(s))
        take_step(s, p->lr, sqrt(zl_block_sum_squares(&s->block, 0)), r);
    send_report(s, r);
}

static struct zl_report report_of(const struct zl_stage *s, const struct zl_packet *p)
{
    return (struct zl_report){
        .kind = p->kind, .stage = s->index, .last_of_step = p->last_of_step, .step = p->step, .micro = p->micro};
}

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

static void forward(struct zl_stage *s)
{
    const uint64_t start = zl_clock_ns();
    struct zl_packet *in = s->front;
    const uint32_t place = place_at(s, s->state.n);
    const uint64_t version = s->vertical_sync ? in->version : s->state.version;
    if (s->stash) {
        struct zl_packet *kept = (struct zl_packet *)(void *)(s->stash + place * s->stash_bytes);
        copy_packet(s, in, kept, &s->in_layout, s->in_layout.hidden ? zl_packet_at(in, s->in_layout.hidden) : NULL);
        release(s->in, s->before);
        in = kept;
    }
    const struct zl_tokens tok = tokens_of(s, in);
    use_version(s, version);
    const float *y = forward_of(s, slot_of(s, place), &tok, in);
    const uint64_t end = zl_clock_ns();
    zl_trace_span(s->trace, ZL_TRACE_FORWARD, start, end, s->index, in->micro, in->step);
    if (s->out) {
        copy_packet(s, in, s->room, &s->out_layout, y);
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
    const struct zl_tokens tok = tokens_of(s, p);
    uint64_t start = zl_clock_ns();
    use_version(s, s->pending[place].version);
    if (s->schedule->weights == ZL_WEIGHTS_REPLAYED && s->stash) {
        s->block.in_use = s->block.w;
        forward_of(s, slot, &tok, p);
        const uint64_t end = zl_clock_ns();
        zl_trace_span(s->trace, ZL_TRACE_REPLAY, start, end, s->index, p->micro, p->step);
        trace_counters(s, s->block.kept_bytes);
        start = end;
    } else if (s->stash && !s->in_layout.hidden) {
        input_of(s, p); /* other tokens were embedded meanwhile */
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
        if (s->state.has_early)
            s->state.has_early = 0;
        else
            release(s->back_in, s->behind);
    }
    if (s->block.spec.train)
        zl_trace_span(s->trace, ZL_TRACE_BACKWARD, start, zl_clock_ns(), s->index, p->micro, p->step);
}

static void backward(struct zl_stage *s)
{
    const uint64_t start = zl_clock_ns();
    const uint32_t place = s->state.first;
    struct zl_packet *p = pending_packet(s, place), kept = *p;
    struct zl_report r = report_of(s, p);
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
        end_step(s, &kept, &r);
    } else {
        s->state.finished++;
        send_report(s, &r);
    }
    if (!s->stash)
        release(s->in, s->before);
}

/* A stage of the chain of norms: add to the sum and pass it on to the stage before, or, at its end, take the step and tell the others. */
static void norm(struct zl_stage *s)
{
    double total;
    if (s->flow.has_sum) {
        const struct zl_packet *in = s->front;
        total = in->norm;
        release(s->in, s->before);
    } else {
        double sum = 0;
        if (!s->last) {
            sum = s->gradient->sum;
            release(s->back_in, s->behind);
        }
        sum = zl_block_sum_squares(&s->block, sum);
        if (s->back_out) {
            *s->back_room = (struct zl_gradient){.micro = s->flow.report.micro, .is_sum = 1, .sum = sum};
            publish(s->back_out, s->before);
            s->flow.has_sum = true;
            return;
        }
        total = sqrt(sum);
    }
    if (s->out) {
        *s->room = (struct zl_packet){.kind = ZL_NORM, .step = s->flow.report.step, .norm = total};
        publish(s->out, s->behind);
    }
    s->flow.ended = s->flow.has_sum = false;
    s->state.finished++;
    if (is_trained(s))
        take_step(s, s->flow.report.lr, total, &s->flow.report);
    send_report(s, &s->flow.report);
}

static void evaluate(struct zl_stage *s)
{
    const uint64_t start = zl_clock_ns();
    struct zl_packet *in = s->front;
    const uint32_t slot = slot_of(s, place_at(s, s->state.n));
    const struct zl_tokens tok = tokens_of(s, in);
    struct zl_report r = report_of(s, in);
    s->block.in_use = s->block.w;
    const float *y = forward_of(s, slot, &tok, in);
    if (s->out) {
        copy_packet(s, in, s->room, &s->out_layout, y);
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
    send_report(s, &r);
    release(s->in, s->before);
}

/* A packet without a micro-batch, to the stage behind. */
static void pass_on(struct zl_stage *s)
{
    if (s->out) {
        *s->room = *s->front;
        publish(s->out, s->behind);
    }
    release(s->in, s->before);
}

static void mark(struct zl_stage *s)
{
    const uint64_t start = zl_clock_ns();
    struct zl_packet *in = s->front;
    struct zl_stage_part part[ZL_STAGE_SECTIONS];
    const uint32_t had_early = s->state.has_early;
    if (gradient_on_its_way(s) && !had_early) {
        memcpy(s->early, s->gradient, s->gradient_bytes);
        s->state.has_early = 1;
    }
    const unsigned n = zl_stage_parts(s, false, part);
    for (unsigned i = 0; s->sink && s->sink->put && i < n; i++)
        if (s->sink->put(s->sink->context, in->generation, s->index, part[i].section, part[i].data, part[i].bytes))
            break; /* this generation is lost; the run goes on */
    s->state.has_early = had_early;
    struct zl_report r = report_of(s, in);
    r.generation = in->generation;
    r.forwarded = s->state.forwarded;
    r.finished = s->state.finished;
    r.updates = s->state.updates;
    r.busy_ns = zl_clock_ns() - start;
    zl_trace_span(s->trace, ZL_TRACE_CHECKPOINT, start, start + r.busy_ns, s->index, 0, in->step);
    send_report(s, &r);
    pass_on(s);
}

void zl_stage_run(struct zl_stage *s, enum zl_stage_next what)
{
    switch (what) {
    case ZL_STAGE_BACKWARD:
        backward(s);
        break;
    case ZL_STAGE_NORM:
        norm(s);
        break;
    case ZL_STAGE_FORWARD:
        forward(s);
        break;
    case ZL_STAGE_EVALUATE:
        evaluate(s);
        break;
    case ZL_STAGE_MARK:
        mark(s);
        break;
    case ZL_STAGE_DRAIN:
        s->flow.draining = true;
        pass_on(s);
        break;
    case ZL_STAGE_BROKEN:
    case ZL_STAGE_DONE:
    case ZL_STAGE_WAITS_INPUT:
    case ZL_STAGE_WAITS_GRADIENT:
    case ZL_STAGE_WAITS_SPACE:
        break;
    }
}

void zl_stage_revive(struct zl_stage *s)
{
    if (s->stash && s->schedule->weights == ZL_WEIGHTS_REPLAYED)
        return; /* that is made again anyway */
    if (s->state.n && !s->stash)
        s->front = zl_ring_try_peek(s->in, 0); /* as the look before its forward left it */
    for (uint32_t i = 0; i < s->state.n; i++) {
        const uint32_t place = place_at(s, i);
        struct zl_packet *p = pending_packet(s, place);
        const struct zl_tokens tok = tokens_of(s, p);
        use_version(s, s->pending[place].version);
        forward_of(s, slot_of(s, place), &tok, p);
    }
}

void zl_stage_end(struct zl_stage *s, bool broken)
{
    void (*end)(struct zl_ring *) = broken ? zl_ring_abort : zl_ring_close;
    if (broken)
        zl_ring_abort(s->in);
    if (s->out)
        end(s->out);
    if (s->back_out)
        end(s->back_out);
    if (broken && s->back_in)
        zl_ring_abort(s->back_in);
    zl_ring_close(s->reports);
    zl_bell_ring(s->before);
    zl_bell_ring(s->behind);
}
