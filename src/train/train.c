/*
 * The training run: reads and checks everything, plans and allocates everything, drives the pipeline, writes the adapter. See train.h.
 * It is the only thread beside the stages: it fills micro-batches in at the front and books reports at the back.
 */
#include "train/train.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "pipe/pipeline.h"
#include "store/run.h"
#include "train/corpus.h"
#include "train/ledger.h"
#include "train/metrics.h"
#include "train/readouts.h"
#include "train/setup.h"

#define FEW_STEPS 10     /* after fewer an adapter has hardly begun to learn, and the user is told */
#define WAIT_NS 20000000 /* how long the driver waits for a slot or a report before it looks around */
#define MOST_SKIPPED 3   /* steps in a row without a finite gradient before the run gives up */

struct driver {
    const struct zl_train_options *o;
    struct zl_setup *s;
    struct zl_pipeline pipeline;
    struct zl_ledger ledger;
    struct zl_run run;
    struct zl_progress progress;
    uint64_t start_ns, last_step_ns, last_pss_ns;
    uint64_t since_ns; /* the end of the step or evaluation before the step under way */
    uint64_t tokens_done, peak_pss, peak_private;
    uint64_t steps_done;
    double first_eval, last_eval, last_loss;
    uint64_t last_eval_step;
    uint32_t skipped_in_a_row;
    const char *stopped_by; /* NULL: nobody */
    struct zl_error *err;
    int rc;
};

/* Warm-up from lr/W to lr over W steps, then linear or cosine to 0 behind the last step, or constant. step counts from 1. */
double zl_learning_rate(const struct zl_train_options *o, uint64_t step, uint64_t steps)
{
    double i = (double)step - 1, n = (double)steps, w = floor(o->warmup * n + 0.5);
    if (i < w)
        return o->lr * (i + 1) / w;
    double left = n > w ? (n - i) / (n - w) : 1;
    switch (o->lr_schedule) {
    case ZL_LR_LINEAR:
        return o->lr * left;
    case ZL_LR_COSINE:
        return o->lr * 0.5 * (1 + cos(3.14159265358979323846 * (1 - left)));
    case ZL_LR_CONSTANT:
        break;
    }
    return o->lr;
}

static void sample_memory(struct driver *d, bool now)
{
    uint64_t t = zl_clock_ns(), private_bytes = 0;
    if (!now && t - d->last_pss_ns < 1000000000u)
        return;
    uint64_t pss = zl_memory_pss(&private_bytes);
    d->last_pss_ns = t;
    if (pss > d->peak_pss)
        d->peak_pss = pss;
    if (private_bytes > d->peak_private)
        d->peak_private = private_bytes;
}

static void fail(struct driver *d, int rc)
{
    if (!d->rc)
        d->rc = rc;
}

static void book_step(struct driver *d, const struct zl_step_record *r)
{
    const struct zl_step *step = &d->s->order.steps[r->step - 1];
    const uint64_t t = zl_clock_ns();
    sample_memory(d, r->step == d->s->order.n_steps);
    d->tokens_done += step->n_tokens;
    d->steps_done = r->step;
    uint32_t last = d->pipeline.n - 1;
    d->last_loss = r->n[last] ? r->loss_sum[last] / (double)r->n[last] : (double)NAN;
    const struct zl_micro_batch *end = &d->s->order.micro[step->first_micro + step->n_micro - 1];
    struct zl_moment now = {
        .lr = zl_learning_rate(d->o, r->step, d->s->order.n_steps),
        .seconds = (double)(t - d->start_ns) * 1e-9,
        .tokens_per_second = (double)step->n_tokens / ((double)(t - d->since_ns) * 1e-9),
        .stall_seconds = zl_pipeline_wait_seconds(&d->pipeline),
        .tokens = step->n_tokens,
        .trained_tokens = step->n_trained,
        .tokens_total = d->tokens_done,
        .peak_pss_bytes = d->peak_pss,
        .peak_private_bytes = d->peak_private,
        .epoch = (double)(end->first + end->n) / (double)d->s->order.n_examples,
    };
    d->last_step_ns = d->since_ns = t;
    if (zl_run_metric(&d->run, zl_metrics_step(r, d->pipeline.n, &now), d->err))
        fail(d, ZL_ESYSTEM);
    if (r->unmoved[0])
        zl_warn("the gradient of %s has been exactly zero for two steps: this adapter does not learn", r->unmoved);
    bool skipped = false;
    for (uint32_t k = 0; k < d->pipeline.n; k++)
        skipped |= r->skipped[k];
    d->skipped_in_a_row = skipped ? d->skipped_in_a_row + 1 : 0;
    if (skipped)
        zl_warn("step %llu: a gradient is zero or not finite, the update was left out", (unsigned long long)r->step);
    if (d->skipped_in_a_row >= MOST_SKIPPED)
        fail(d, zl_fail(d->err, ZL_EINPUT,
                        "%d steps in a row gave gradients that are zero or not finite; a lower --lr or a look at the data may help",
                        MOST_SKIPPED));
    zl_progress_update(&d->progress, r->step, d->tokens_done, d->last_loss);
    if (d->o->hooks && d->o->hooks->step)
        d->o->hooks->step(d->o->hooks->context, r->step, d->s->order.n_steps, d->last_loss, now.tokens_per_second);
}

/* What is told about speed is about training: it begins behind the evaluation of the base model. */
static void begin_clock(struct driver *d)
{
    d->start_ns = d->since_ns = zl_clock_ns();
    zl_progress_open(&d->progress, 2, "training", "step", d->s->order.n_steps, d->o->quiet);
}

static void book_eval(struct driver *d, const struct zl_eval_record *r)
{
    double loss = r->n ? r->loss_sum / (double)r->n : (double)NAN;
    if (r->step == 0)
        d->first_eval = loss;
    d->last_eval = loss;
    d->last_eval_step = r->step;
    d->since_ns = zl_clock_ns();
    if (r->step == 0)
        begin_clock(d);
    if (zl_run_metric(&d->run, zl_metrics_eval(r, (double)(d->since_ns - d->start_ns) * 1e-9), d->err))
        fail(d, ZL_ESYSTEM);
    zl_note("held-out loss after step %llu: %.4f (%llu tokens)", (unsigned long long)r->step, loss,
            (unsigned long long)r->n);
}

/* Book all reports that are there; waits for one up to timeout_ns. */
static bool book_reports(struct driver *d, int64_t timeout_ns)
{
    struct zl_report report;
    struct zl_step_record step;
    struct zl_eval_record eval;
    bool any = false;
    while (zl_pipeline_report(&d->pipeline, any ? 0 : timeout_ns, &report)) {
        any = true;
        switch (zl_ledger_book(&d->ledger, &report, &step, &eval)) {
        case ZL_NEWS_STEP:
            book_step(d, &step);
            break;
        case ZL_NEWS_EVAL:
            book_eval(d, &eval);
            break;
        case ZL_NEWS_NONE:
            break;
        }
    }
    return any;
}

/* Stop feeding? After a failure, or when the caller wants it. */
static bool stopping(struct driver *d)
{
    if (!d->rc && (d->stopped_by = zl_hooks_stop(d->o->hooks)))
        d->rc = ZL_ESTOPPED; /* the sentence comes when what is under way has been finished and counted */
    return d->rc != 0;
}

static struct zl_packet *slot(struct driver *d)
{
    struct zl_packet *m = NULL;
    while (!stopping(d) && !(m = zl_pipeline_slot(&d->pipeline, 0)))
        if (!book_reports(d, WAIT_NS / 20))
            if ((m = zl_pipeline_slot(&d->pipeline, WAIT_NS)))
                break;
    return m;
}

static void feed_eval(struct driver *d, uint64_t after_step)
{
    const struct zl_data_order *o = &d->s->eval_order;
    for (uint64_t i = 0; i < o->n_micro; i++) {
        struct zl_packet *m = slot(d);
        if (!m)
            return;
        *m = (struct zl_packet){.kind = ZL_EVAL, .step = after_step};
        zl_corpus_fill(&d->s->corpus.held_out, o, i, &d->pipeline.feed_layout, m);
        zl_pipeline_send(&d->pipeline);
    }
}

static void feed_step(struct driver *d, uint64_t step)
{
    const struct zl_data_order *o = &d->s->order;
    const struct zl_step *s = &o->steps[step - 1];
    for (uint64_t i = 0; i < s->n_micro; i++) {
        struct zl_packet *m = slot(d);
        if (!m)
            return;
        *m = (struct zl_packet){.kind = ZL_TRAIN,
                                 .step = step,
                                 .last_of_step = i + 1 == s->n_micro,
                                 .weight = s->n_trained ? (float)(1.0 / (double)s->n_trained) : 0,
                                 .lr = (float)zl_learning_rate(d->o, step, o->n_steps)};
        zl_corpus_fill(&d->s->corpus.train, o, s->first_micro + i, &d->pipeline.feed_layout, m);
        zl_pipeline_send(&d->pipeline);
        book_reports(d, 0);
    }
}

static void drive(struct driver *d)
{
    const uint64_t steps = d->s->order.n_steps;
    const bool eval = d->s->eval_order.n_micro > 0;
    if (eval)
        feed_eval(d, 0); /* and when that is booked, the first step begins */
    else
        begin_clock(d);
    for (uint64_t step = 1; step <= steps && !stopping(d); step++) {
        feed_step(d, step);
        if (eval && (step == steps || (d->o->eval_every && step % d->o->eval_every == 0)))
            feed_eval(d, step);
    }
    zl_pipeline_finish(&d->pipeline);
    while (!zl_pipeline_done(&d->pipeline))
        book_reports(d, WAIT_NS);
    book_reports(d, 0);
}

static int write_adapter(struct driver *d)
{
    const struct zl_lora *parts[ZL_STAGES_MAX];
    struct zl_adapter adapter;
    struct zl_adapter_config config = d->s->adapter_config;
    for (uint32_t k = 0; k < d->pipeline.n; k++)
        parts[k] = &d->pipeline.stage[k].block.own;
    struct zl_error err = {0};
    int rc = zl_lora_export(parts, d->pipeline.n, &d->s->corpus.model.config, &adapter, &err);
    char *dir = rc ? NULL : zl_run_path(&d->run, "adapter");
    if (dir) {
        rc = zl_adapter_write(dir, &config, &adapter, &err);
        if (!rc)
            zl_note("adapter written to %s", dir);
    }
    if (!rc || dir)
        zl_adapter_free(&adapter);
    free(dir);
    if (rc && d->err && !d->err->code)
        *d->err = err;
    else if (rc) /* the sentence of the end is taken, but that what was learned is lost is news of its own */
        zl_warn("the adapter of the steps done could not be written: %s", err.text);
    return rc;
}

/* Hours of training should not end with the news that the adapter has no place. */
static int check_place(struct driver *d)
{
    char *dir = zl_run_path(&d->run, "adapter");
    int rc = dir ? zl_adapter_check_place(dir, d->err) : zl_fail(d->err, ZL_EMEMORY, "out of memory");
    free(dir);
    return rc;
}

static int run_pipeline(struct driver *d)
{
    struct zl_setup *s = d->s;
    char note[256] = "";
    int rc = zl_pipeline_open(&d->pipeline, &s->corpus.model, &s->partition, &s->pipeline, note, d->err);
    if (rc)
        return rc;
    if (note[0])
        zl_note("%s", note);
    uint32_t in_flight = (s->pipeline.ring_depth + 2) * s->partition.n + 2;
    rc = zl_ledger_open(&d->ledger, s->partition.n, s->eval_order.n_micro, in_flight, d->err);
    if (!rc)
        rc = zl_pipeline_start(&d->pipeline, d->err);
    if (rc)
        return rc;
    drive(d);
    zl_progress_close(&d->progress);
    zl_pipeline_join(&d->pipeline);
    if (d->stopped_by)
        zl_fail(d->err, ZL_ESTOPPED, "stopped by %s after step %llu of %llu", d->stopped_by, (unsigned long long)d->steps_done,
                (unsigned long long)s->order.n_steps);
    rc = d->steps_done ? write_adapter(d) : 0;
    return d->rc ? d->rc : rc;
}

static void say_result(const struct driver *d)
{
    double seconds = (double)(d->last_step_ns - d->start_ns) * 1e-9;
    zl_note("%llu step%s, %llu tokens in %.1f s: %.0f tokens/s, peak memory %.0f MiB", (unsigned long long)d->steps_done,
            d->steps_done == 1 ? "" : "s", (unsigned long long)d->tokens_done, seconds,
            seconds > 0 ? (double)d->tokens_done / seconds : 0.0, (double)d->peak_pss / 1048576.0);
    if (d->last_eval_step == d->steps_done)
        zl_note("held-out loss %.4f before, %.4f after", d->first_eval, d->last_eval);
}

int zl_train_run(const struct zl_train_options *o, struct zl_error *err)
{
    struct zl_setup setup;
    struct driver d = {.o = o, .s = &setup, .err = err, .first_eval = (double)NAN, .last_eval = (double)NAN};
    int rc = zl_run_open(&d.run, o->output, o->force, err);
    if (rc)
        return rc;
    rc = check_place(&d);
    if (rc) {
        zl_run_close(&d.run);
        return rc;
    }
    rc = zl_setup_make(&setup, o, err);
    if (!rc)
        rc = zl_setup_readouts(&setup, o, 0, err);
    if (!rc && setup.eval_order.n_micro && o->eval_every >= setup.order.n_steps)
        zl_note("--eval-every %llu has no effect in a run of %llu steps", (unsigned long long)o->eval_every,
                (unsigned long long)setup.order.n_steps);
    if (!rc && !o->steps && setup.order.n_steps < FEW_STEPS)
        zl_note("little data: only %llu step%s; more --epochs or smaller --batch-tokens make more",
                (unsigned long long)setup.order.n_steps, setup.order.n_steps == 1 ? "" : "s");
    if (!rc) /* from here on there is something to finish: look at once, then at every micro-batch */
        rc = zl_hooks_check(o->hooks, err);
    if (!rc)
        rc = zl_run_begin(&d.run, err);
    if (!rc && o->configuration)
        rc = zl_run_write_text(&d.run, "config.yaml", o->configuration, err);
    if (!rc)
        rc = zl_run_write_json(&d.run, "run.json", zl_setup_describe(&setup, o), err);
    if (!rc)
        rc = run_pipeline(&d);
    if (d.steps_done && (!rc || rc == ZL_ESTOPPED))
        say_result(&d);
    zl_pipeline_close(&d.pipeline);
    zl_ledger_close(&d.ledger);
    zl_setup_free(&setup);
    zl_run_close(&d.run);
    return rc;
}
