/* What a stage does when a checkpoint's marker passes: its state goes to the sink, and nothing stops. See stage_impl.h. */
#include "pipe/stage_impl.h"

#include <string.h>

#include "base/clock.h"

/* When a marker passes, a pipeline that never runs empty has gradients on their way. Of the micro-batches that wait here for their backward,
 * the stage behind has run the backward of all but as many as wait there at most; that is so before its own marker, which comes later
 * than all gradients before it. So how many there are does not depend on time. */
static uint32_t on_their_way(const struct zl_stage *s)
{
    return s->early_most && s->back_in && s->state.n > s->ahead_behind ? s->state.n - s->ahead_behind : 0;
}

bool zl_stage_sees_early(struct zl_stage *s)
{
    const uint32_t n = on_their_way(s), had = s->state.n_early;
    return n <= had || zl_ring_look(s->back_in, n - had - 1);
}

void zl_stage_mark(struct zl_stage *s)
{
    const uint64_t start = zl_clock_ns();
    struct zl_packet *in = s->front;
    struct zl_stage_part part[ZL_STAGE_SECTIONS];
    const uint32_t had = s->state.n_early;
    for (const uint32_t n = on_their_way(s); s->state.n_early < n; s->state.n_early++)
        memcpy(s->early + s->state.n_early * s->gradient_bytes, zl_ring_look(s->back_in, s->state.n_early - had), s->gradient_bytes);
    const unsigned n = zl_stage_parts(s, false, part);
    for (unsigned i = 0; s->sink && s->sink->put && i < n; i++)
        if (s->sink->put(s->sink->context, in->generation, s->index, part[i].section, part[i].data, part[i].bytes))
            break; /* this generation is lost; the run goes on */
    s->state.n_early = had; /* the others are still in their ring */
    struct zl_report r = zl_stage_report(s, in);
    r.generation = in->generation;
    r.forwarded = s->state.forwarded;
    r.finished = s->state.finished;
    r.updates = s->state.updates;
    r.busy_ns = zl_clock_ns() - start;
    zl_trace_span(s->trace, ZL_TRACE_CHECKPOINT, start, start + r.busy_ns, s->index, 0, in->step);
    zl_stage_send_report(s, &r);
    zl_stage_pass_on(s);
}
