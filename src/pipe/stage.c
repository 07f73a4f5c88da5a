/*
 * What a stage does next: see stage.h. Nothing waits here: an operation runs only when its packet, its gradient and the slots for its
 * results are there.
 */
#include "pipe/stage_impl.h"

static bool neighbour_gone(const struct zl_stage *s)
{
    const bool out_gone = s->out && (s->closed ? zl_ring_is_aborted(s->out) : zl_ring_is_closed(s->out));
    return zl_ring_is_aborted(s->in) || out_gone || (s->back_in && zl_ring_is_aborted(s->back_in)) ||
           (s->back_out && zl_ring_is_closed(s->back_out)) || zl_ring_is_aborted(s->reports);
}

static bool has_gradient(struct zl_stage *s)
{
    s->gradient = s->state.n_early ? (struct zl_gradient *)(void *)s->early : zl_ring_try_peek(s->back_in, 0);
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

static enum zl_stage_next next_norm(struct zl_stage *s)
{
    if (s->flow.has_sum && !has_packet(s))
        return zl_ring_is_done(s->in) ? ZL_STAGE_BROKEN : ZL_STAGE_WAITS_INPUT;
    if (!s->flow.has_sum && !s->last && !has_gradient(s))
        return await_gradient(s);
    const bool onward = s->flow.has_sum || !s->back_out; /* the norm goes on, or the sum goes back */
    return (onward ? has_room(s) : has_back_room(s)) ? ZL_STAGE_NORM : ZL_STAGE_WAITS_SPACE;
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
    if (s->front->kind == ZL_MARK && !zl_stage_sees_early(s))
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
    const struct zl_packet *p = what == ZL_STAGE_BACKWARD ? zl_stage_pending(s, s->state.first) : what == ZL_STAGE_NORM ? NULL : s->front;
    return p ? p->sequence : 0;
}

void zl_stage_run(struct zl_stage *s, enum zl_stage_next what)
{
    switch (what) {
    case ZL_STAGE_BACKWARD:
        zl_stage_backward(s);
        break;
    case ZL_STAGE_NORM:
        zl_stage_norm(s);
        break;
    case ZL_STAGE_FORWARD:
        zl_stage_forward(s);
        break;
    case ZL_STAGE_EVALUATE:
        zl_stage_evaluate(s);
        break;
    case ZL_STAGE_MARK:
        zl_stage_mark(s);
        break;
    case ZL_STAGE_DRAIN:
        s->flow.draining = true;
        zl_stage_pass_on(s);
        break;
    case ZL_STAGE_BROKEN:
    case ZL_STAGE_DONE:
    case ZL_STAGE_WAITS_INPUT:
    case ZL_STAGE_WAITS_GRADIENT:
    case ZL_STAGE_WAITS_SPACE:
        break;
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
