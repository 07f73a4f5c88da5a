/* What a run tells while it goes: see journal.h. */
#include "train/journal.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/events.h"
#include "train/metrics.h"

#define MOST_SKIPPED 3 /* steps in a row without a finite gradient before the run gives up */

void zl_journal_open(struct zl_journal *j, const struct zl_train_options *o, const struct zl_setup *s, struct zl_run *run,
                     struct zl_error *err)
{
    *j = (struct zl_journal){.o = o, .s = s, .run = run, .err = err, .opened_ns = zl_clock_ns(), .first_eval = (double)NAN, .last_eval = (double)NAN};
}

void zl_journal_feeds(struct zl_journal *j, uint64_t micro)
{
    if (!j->under_way)
        zl_event_under_way(j->run, micro, (double)(zl_clock_ns() - j->opened_ns) * 1e-9);
    j->under_way = true;
}

static void sample_memory(struct zl_journal *j, bool now)
{
    uint64_t t = zl_clock_ns(), private_bytes = 0;
    if (!now && t - j->last_pss_ns < 1000000000u)
        return;
    uint64_t pss = zl_memory_pss(&private_bytes);
    j->last_pss_ns = t;
    if (pss > j->peak_pss)
        j->peak_pss = pss;
    if (private_bytes > j->peak_private)
        j->peak_private = private_bytes;
}

void zl_journal_fail(struct zl_journal *j, int rc)
{
    if (!j->rc)
        j->rc = rc;
}

void zl_journal_together(struct zl_journal *j, uint64_t tokens)
{
    j->together = (double)tokens / ((double)(zl_clock_ns() - j->since_ns) * 1e-9);
}

void zl_journal_progress(struct zl_journal *j, double steps, double tokens)
{
    sample_memory(j, false);
    zl_progress_update(&j->progress, j->steps_done + (uint64_t)steps, j->tokens_done - j->tokens_before + (uint64_t)tokens,
                       j->steps_done ? j->last_loss : (double)NAN);
}

static struct zl_step_size size_of(const struct zl_journal *j, uint64_t step)
{
    const struct zl_step *s = &j->s->order.steps[step - 1];
    return j->course ? zl_course_size(j->course, step) : (struct zl_step_size){s->n_micro, s->n_tokens, s->n_trained};
}

uint64_t zl_journal_tokens(const struct zl_journal *j, uint64_t step)
{
    uint64_t tokens = 0;
    for (uint64_t i = 1; i <= step; i++)
        tokens += size_of(j, i).n_tokens;
    return tokens;
}

struct zl_tally zl_journal_tally(const struct zl_journal *j)
{
    const uint64_t now = zl_clock_ns();
    return (struct zl_tally){.steps_done = j->steps_done,
                             .tokens_done = j->tokens_done,
                             .evaluations = j->evaluations,
                             .seconds = j->start_ns ? (double)(now - j->start_ns) * 1e-9 : 0,
                             .step_seconds = j->start_ns ? (double)(now - j->since_ns) * 1e-9 : 0,
                             .first_eval = j->first_eval,
                             .last_eval = j->last_eval,
                             .last_eval_step = j->last_eval_step,
                             .peak_pss = j->peak_pss,
                             .peak_private = j->peak_private,
                             .skipped_in_a_row = j->skipped_in_a_row};
}

void zl_journal_resume(struct zl_journal *j, const struct zl_tally *t)
{
    j->steps_done = t->steps_done;
    j->tokens_done = j->tokens_before = t->tokens_done;
    j->evaluations = t->evaluations;
    j->first_eval = t->first_eval;
    j->last_eval = t->last_eval;
    j->last_eval_step = t->last_eval_step;
    j->peak_pss = t->peak_pss;
    j->peak_private = t->peak_private;
    j->skipped_in_a_row = t->skipped_in_a_row;
    if (j->s->eval_order.n_micro && !t->evaluations)
        return; /* the clock begins with the evaluation that is under way */
    zl_journal_begin(j);
    j->start_ns -= (uint64_t)(t->seconds * 1e9);
    j->last_step_ns = j->since_ns;
    j->since_ns -= (uint64_t)(t->step_seconds * 1e9);
}

void zl_journal_step(struct zl_journal *j, const struct zl_step_record *r, double stall_seconds)
{
    const struct zl_step *step = &j->s->order.steps[r->step - 1];
    const struct zl_step_size size = size_of(j, r->step);
    const uint64_t t = zl_clock_ns();
    sample_memory(j, r->step == j->s->order.n_steps);
    j->tokens_done += size.n_tokens;
    j->steps_done = r->step;
    uint32_t last = j->s->partition.n - 1;
    j->last_loss = r->n[last] ? r->loss_sum[last] / (double)r->n[last] : (double)NAN;
    const struct zl_micro_batch *end = &j->s->order.micro[step->first_micro + step->n_micro - 1];
    struct zl_moment now = {
        .lr = zl_learning_rate(j->o, r->step, j->s->order.n_steps),
        .seconds = (double)(t - j->start_ns) * 1e-9,
        .tokens_per_second = j->together > 0 ? j->together : (double)size.n_tokens / ((double)(t - j->since_ns) * 1e-9),
        .stall_seconds = stall_seconds,
        .checkpoint_seconds = j->checkpoint_seconds,
        .tokens = size.n_tokens,
        .trained_tokens = size.n_trained,
        .tokens_total = j->tokens_done,
        .peak_pss_bytes = j->peak_pss,
        .peak_private_bytes = j->peak_private,
        .epoch = (double)(end->first + end->n) / (double)j->s->order.n_examples,
    };
    j->last_step_ns = j->since_ns = t;
    if (j->admits && step->n_micro)
        zl_event_admitted(j->run, r->step, step->first_micro, step->first_micro + step->n_micro - 1);
    zl_event_step(j->run, r, j->s->partition.n);
    if (zl_run_metric(j->run, zl_metrics_step(r, j->s->partition.n, &now), j->err))
        zl_journal_fail(j, ZL_ESYSTEM);
    if (r->unmoved[0])
        zl_warn("the gradient of %s has been exactly zero for two steps: this adapter does not learn", r->unmoved);
    bool skipped = false;
    for (uint32_t k = 0; k < j->s->partition.n; k++)
        skipped |= r->skipped[k];
    j->skipped_in_a_row = skipped ? j->skipped_in_a_row + 1 : 0;
    if (skipped)
        zl_warn("step %llu: a gradient is zero or not finite, the update was left out", (unsigned long long)r->step);
    if (j->skipped_in_a_row >= MOST_SKIPPED)
        zl_journal_fail(j, zl_fail(j->err, ZL_EINPUT,
                                   "%d steps in a row gave gradients that are zero or not finite; a lower --lr or a look at the data "
                                   "may help", MOST_SKIPPED));
    zl_progress_update(&j->progress, r->step, j->tokens_done - j->tokens_before, j->last_loss);
    if (j->o->hooks && j->o->hooks->step)
        j->o->hooks->step(j->o->hooks->context, r->step, j->s->order.n_steps, j->last_loss, now.tokens_per_second);
}

void zl_journal_begin(struct zl_journal *j)
{
    j->since_ns = zl_clock_ns();
    j->start_ns = j->since_ns - (uint64_t)(j->head_start * 1e9);
    zl_progress_open(&j->progress, 2, "training", "step", j->s->order.n_steps, j->o->quiet);
}

void zl_journal_eval(struct zl_journal *j, const struct zl_eval_record *r)
{
    double loss = r->n ? r->loss_sum / (double)r->n : (double)NAN;
    if (r->step == 0)
        j->first_eval = loss;
    j->last_eval = loss;
    j->last_eval_step = r->step;
    j->evaluations++;
    j->since_ns = zl_clock_ns();
    if (r->step == 0)
        zl_journal_begin(j);
    if (zl_run_metric(j->run, zl_metrics_eval(r, (double)(j->since_ns - j->start_ns) * 1e-9), j->err))
        zl_journal_fail(j, ZL_ESYSTEM);
    zl_note("held-out loss after step %llu: %.4f (%llu tokens)", (unsigned long long)r->step, loss,
            (unsigned long long)r->n);
}

bool zl_journal_stopping(struct zl_journal *j)
{
    if (!j->rc && (j->stopped_by = zl_hooks_stop(j->o->hooks)))
        j->rc = ZL_ESTOPPED; /* the sentence comes when what is under way has been finished and counted */
    return j->rc != 0;
}

int zl_journal_finish(struct zl_journal *j)
{
    zl_progress_close(&j->progress);
    if (j->stopped_by)
        zl_fail(j->err, ZL_ESTOPPED, "stopped by %s after step %llu of %llu", j->stopped_by, (unsigned long long)j->steps_done,
                (unsigned long long)j->s->order.n_steps);
    return j->rc;
}

void zl_journal_say_result(const struct zl_journal *j)
{
    double seconds = (double)(j->last_step_ns - j->start_ns) * 1e-9;
    zl_note("%llu step%s, %llu tokens in %.1f s: %.0f tokens/s, peak memory %.0f MiB", (unsigned long long)j->steps_done,
            j->steps_done == 1 ? "" : "s", (unsigned long long)j->tokens_done, seconds,
            seconds > 0 ? (double)j->tokens_done / seconds : 0.0, (double)j->peak_pss / 1048576.0);
    if (j->last_eval_step == j->steps_done)
        zl_note("held-out loss %.4f before, %.4f after", j->first_eval, j->last_eval);
}
