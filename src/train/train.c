/*
 * The training run: reads and checks everything, plans and allocates everything, drives the pipeline, writes the adapter. See train.h.
 * It is the only thread beside the stages: it fills micro-batches in at the front and books reports at the back.
 */
#include "train/train.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "pipe/pipeline.h"
#include "store/run.h"
#include "train/corpus.h"
#include "train/frozen.h"
#include "train/journal.h"
#include "train/ledger.h"
#include "train/readouts.h"
#include "train/setup.h"
#include "train/sweep.h"
#include "train/trace.h"

#define FEW_STEPS 10     /* after fewer an adapter has hardly begun to learn, and the user is told */
#define WAIT_NS 20000000 /* how long the driver waits for a slot or a report before it looks around */

struct driver {
    const struct zl_train_options *o;
    struct zl_setup *s;
    struct zl_pipeline pipeline;
    struct zl_sweep *sweep;
    struct zl_frozen *frozen; /* NULL: all stages compute */
    struct zl_ledger ledger;
    struct zl_run run;
    struct zl_journal journal;
    struct zl_tracing tracing;
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
            zl_journal_step(&d->journal, &step, zl_pipeline_wait_seconds(&d->pipeline));
            break;
        case ZL_NEWS_EVAL:
            zl_journal_eval(&d->journal, &eval);
            break;
        case ZL_NEWS_NONE:
            break;
        }
    }
    return any;
}

static struct zl_packet *slot(struct driver *d)
{
    struct zl_packet *m = NULL;
    while (!zl_journal_stopping(&d->journal) && !(m = zl_pipeline_slot(&d->pipeline, 0)))
        if (!book_reports(d, WAIT_NS / 20))
            if ((m = zl_pipeline_slot(&d->pipeline, WAIT_NS)))
                break;
    return m;
}

/* What the frozen stages at the front made of a micro-batch, where that was computed before. */
static bool fill_hidden(struct driver *d, uint64_t micro, struct zl_packet *m)
{
    if (!d->frozen)
        return true;
    int rc = zl_frozen_gather(d->frozen, m->kind == ZL_EVAL, micro, zl_packet_at(m, d->pipeline.feed_layout.hidden), d->journal.err);
    if (rc)
        zl_journal_fail(&d->journal, rc);
    return rc == 0;
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
        if (!fill_hidden(d, i, m))
            return;
        zl_pipeline_send(&d->pipeline, m);
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
        if (!fill_hidden(d, s->first_micro + i, m))
            return;
        zl_pipeline_send(&d->pipeline, m);
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
        zl_journal_begin(&d->journal);
    for (uint64_t step = 1; step <= steps && !zl_journal_stopping(&d->journal); step++) {
        feed_step(d, step);
        struct zl_packet *end = step == steps ? slot(d) : NULL;
        if (end) /* the last evaluation is that of the adapter that is written */
            zl_pipeline_drain(&d->pipeline, end);
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
    struct zl_error err = {0};
    int rc = d->sweep ? zl_sweep_adapters(d->sweep, parts, &err) : 0;
    for (uint32_t k = 0; !d->sweep && k < d->pipeline.n; k++)
        parts[k] = &d->pipeline.stage[k].block.own;
    if (!rc)
        rc = zl_lora_export(parts, d->s->partition.n, &d->s->corpus.model.config, &adapter, &err);
    char *dir = rc ? NULL : zl_run_path(&d->run, "adapter");
    if (dir) {
        rc = zl_adapter_write(dir, &config, &adapter, &err);
        if (!rc)
            zl_note("adapter written to %s", dir);
    }
    if (!rc || dir)
        zl_adapter_free(&adapter);
    free(dir);
    if (rc && d->journal.err && !d->journal.err->code)
        *d->journal.err = err;
    else if (rc) /* the sentence of the end is taken, but that what was learned is lost is news of its own */
        zl_warn("the adapter of the steps done could not be written: %s", err.text);
    return rc;
}

/* Hours of training should not end with the news that the adapter has no place. */
static int check_place(struct driver *d)
{
    char *dir = zl_run_path(&d->run, "adapter");
    int rc = dir ? zl_adapter_check_place(dir, d->journal.err) : zl_fail(d->journal.err, ZL_EMEMORY, "out of memory");
    free(dir);
    return rc;
}

static int begin_trace(struct driver *d)
{
    const struct zl_data_order *o = &d->s->order;
    const uint64_t evaluations = 2 + (d->o->eval_every ? o->n_steps / d->o->eval_every : 0);
    const uint64_t micro = o->n_micro + evaluations * d->s->eval_order.n_micro;
    d->s->pipeline.trace = zl_tracing_begin(&d->tracing, micro, d->s->partition.n, d->s->places.n_workers, d->journal.err);
    return d->o->trace && !d->s->pipeline.trace ? ZL_EMEMORY : 0;
}

/* What the run was matters more than its picture: a trace that cannot be written is an error of its own behind everything else. */
static int end_trace(struct driver *d)
{
    struct zl_error err = {0};
    if (!d->s->pipeline.trace)
        return 0;
    int rc = zl_tracing_end(&d->tracing, zl_setup_describe(d->s, d->o), &err);
    if (rc && d->journal.err && !d->journal.err->code)
        *d->journal.err = err;
    else if (rc)
        zl_warn("%s", err.text);
    return rc;
}

static int run_pipeline(struct driver *d)
{
    struct zl_setup *s = d->s;
    char note[256] = "";
    int rc = begin_trace(d);
    if (rc)
        return rc;
    rc = zl_pipeline_open(&d->pipeline, &s->corpus.model, &s->partition, &s->pipeline, note, d->journal.err);
    if (rc)
        return rc;
    if (note[0])
        zl_note("%s", note);
    uint32_t in_flight = 2;
    for (uint32_t k = 0; k < s->partition.n; k++)
        in_flight += s->pipeline.ring_depth + s->plan.in_flight[k] + 2;
    rc = zl_ledger_open(&d->ledger, s->partition.n, s->eval_order.n_micro, in_flight, d->journal.err);
    if (!rc)
        rc = zl_pipeline_start(&d->pipeline, d->journal.err);
    if (rc)
        return rc;
    drive(d);
    zl_pipeline_join(&d->pipeline);
    const int end = zl_journal_finish(&d->journal);
    rc = d->journal.steps_done ? write_adapter(d) : 0;
    const int traced = end_trace(d);
    return end ? end : rc ? rc : traced;
}

static int run_sweep(struct driver *d)
{
    int rc = begin_trace(d);
    if (rc)
        return rc;
    zl_sweep_run(d->sweep, &d->journal);
    const int end = zl_journal_finish(&d->journal);
    rc = d->journal.steps_done ? write_adapter(d) : 0;
    const int traced = end_trace(d);
    return end ? end : rc ? rc : traced;
}

int zl_train_run(const struct zl_train_options *o, struct zl_error *err)
{
    struct zl_setup setup = {0};
    struct driver d = {.o = o, .s = &setup};
    zl_journal_open(&d.journal, o, &setup, &d.run, err);
    int rc = zl_run_open(&d.run, o->output, o->force, err);
    if (rc)
        return rc;
    rc = check_place(&d);
    if (!rc)
        rc = zl_tracing_open(&d.tracing, o->trace, err);
    if (rc) {
        zl_run_close(&d.run);
        return rc;
    }
    rc = zl_setup_make(&setup, o, err);
    const bool sweep = o->schedule == ZL_SCHEDULE_SWEEP;
    if (!rc && o->cache_frozen && !setup.n_cached && setup.partition.cut[0].frozen)
        zl_note("--cache-frozen has no effect in a run that takes no example twice");
    const char *spill_dir = o->spill_dir ? o->spill_dir : o->output;
    if (!rc && setup.n_cached)
        rc = zl_frozen_open(&d.frozen, &setup, o, spill_dir, &d.journal.head_start, err);
    if (!rc && sweep)
        rc = zl_sweep_open(&d.sweep, &setup, o, spill_dir, d.frozen, err);
    else if (!rc)
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
        rc = sweep ? run_sweep(&d) : run_pipeline(&d);
    if (d.journal.steps_done && (!rc || rc == ZL_ESTOPPED))
        zl_journal_say_result(&d.journal);
    zl_sweep_close(d.sweep);
    zl_frozen_close(d.frozen);
    zl_pipeline_close(&d.pipeline);
    zl_tracing_close(&d.tracing);
    zl_ledger_close(&d.ledger);
    zl_setup_free(&setup);
    zl_run_close(&d.run);
    return rc;
}
