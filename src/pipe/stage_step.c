/* The end of a stage's step: the norm of the gradients, the update, and older weights for those who still need them. See stage_impl.h. */
#include "pipe/stage_impl.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

void zl_stage_use_version(struct zl_stage *s, uint64_t version)
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

void zl_stage_end_step(struct zl_stage *s, const struct zl_packet *p, struct zl_report *r)
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
    zl_stage_send_report(s, r);
}

void zl_stage_norm(struct zl_stage *s)
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
    zl_stage_send_report(s, &s->flow.report);
}
