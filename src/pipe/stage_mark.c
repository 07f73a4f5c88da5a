/* What a stage does when a checkpoint's marker passes: its state goes to the sink, and nothing stops. See stage_impl.h. */
#include "pipe/stage_impl.h"

#include <string.h>

#include "base/clock.h"

/* When a marker passes, a pipeline that never runs empty has gradients on their way. The stage behind is one micro-batch further
 * with its backwards once it has sent one before its own marker, which is so as soon as this one holds as many as it can. */
bool zl_stage_gradient_on_its_way(const struct zl_stage *s)
{
    return !s->schedule->flush && s->back_in && s->ahead > 0 && s->state.n == s->ahead;
}

void zl_stage_mark(struct zl_stage *s)
{
    const uint64_t start = zl_clock_ns();
    struct zl_packet *in = s->front;
    struct zl_stage_part part[ZL_STAGE_SECTIONS];
    const uint32_t had_early = s->state.has_early;
    if (zl_stage_gradient_on_its_way(s) && !had_early) {
        memcpy(s->early, s->gradient, s->gradient_bytes);
        s->state.has_early = 1;
    }
    const unsigned n = zl_stage_parts(s, false, part);
    for (unsigned i = 0; s->sink && s->sink->put && i < n; i++)
        if (s->sink->put(s->sink->context, in->generation, s->index, part[i].section, part[i].data, part[i].bytes))
            break; /* this generation is lost; the run goes on */
    s->state.has_early = had_early;
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
