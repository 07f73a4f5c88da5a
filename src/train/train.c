/*
 * The training run: reads and checks everything, plans and allocates everything, has the pipeline driven (drive.h), writes the adapter. See
 * train.h.
 */
#include "train/train.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/run.h"
#include "train/anchor.h"
#include "train/drive.h"
#include "train/events.h"
#include "train/freeze.h"
#include "train/frozen.h"
#include "train/maps.h"
#include "train/sweep.h"
#include "train/trace.h"

#define FEW_STEPS 10     /* after fewer an adapter has hardly begun to learn, and the user is told */
#define LAST_NS  600000000000ll /* for a disk to take the last checkpoint; what takes longer is broken */

struct work {
    const struct zl_train_options *o;
    struct zl_setup *s;
    struct zl_driver driver;
    struct zl_checkpointing checkpointing;
    struct zl_resume resume;
    struct zl_sweep *sweep;
    struct zl_frozen *frozen; /* NULL: all stages compute */
    struct zl_anchor *anchor; /* NULL: no stage is anchored */
    struct zl_run run;
    struct zl_journal journal;
    struct zl_tracing tracing;
    char *maps_to_write; /* where, or NULL */
    uint64_t saved;      /* of a sweep: the step of its last checkpoint */
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

static int write_adapter(struct work *d)
{
    const struct zl_lora *parts[ZL_STAGES_MAX];
    struct zl_adapter adapter;
    struct zl_adapter_config config = d->s->adapter_config;
    struct zl_error err = {0};
    int rc = d->sweep ? zl_sweep_adapters(d->sweep, parts, &err) : 0;
    for (uint32_t k = 0; !d->sweep && k < d->driver.pipeline.n; k++)
        parts[k] = &d->driver.pipeline.stage[k].block.own;
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
static int check_place(struct work *d)
{
    char *dir = zl_run_path(&d->run, "adapter");
    int rc = dir ? zl_adapter_check_place(dir, d->journal.err) : zl_fail(d->journal.err, ZL_EMEMORY, "out of memory");
    free(dir);
    return rc;
}

static int begin_trace(struct work *d)
{
    const struct zl_data_order *o = &d->s->order;
    const uint64_t evaluations = 2 + (d->o->eval_every ? o->n_steps / d->o->eval_every : 0);
    const uint64_t micro = o->n_micro + evaluations * d->s->eval_order.n_micro;
    d->s->pipeline.trace = zl_tracing_begin(&d->tracing, micro, d->s->partition.n, d->s->places.n_workers, d->journal.err);
    return d->o->trace && !d->s->pipeline.trace ? ZL_EMEMORY : 0;
}

/* What the run was matters more than its picture: a trace that cannot be written is an error of its own behind everything else. */
static int end_trace(struct work *d)
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

/* What is left when the feeding is over, whatever the reason. */
static int finish(struct work *d)
{
    const int end = zl_journal_finish(&d->journal);
    zl_checkpointing_look(&d->checkpointing);
    int rc = d->journal.steps_done ? write_adapter(d) : 0;
    const int traced = end_trace(d);
    zl_checkpointing_settle(&d->checkpointing, LAST_NS);
    if (!zl_run_is_there(&d->run) && !end && !rc)
        rc = zl_fail(d->journal.err, ZL_ESYSTEM, "%s is gone or has been replaced: of this run it holds the adapter alone", d->run.dir);
    zl_event_end(&d->run, end == ZL_ESTOPPED ? "stopped" : end || rc ? "failed" : "finished", end || rc ? d->journal.err->text : NULL,
                 d->journal.steps_done);
    return end ? end : rc ? rc : traced;
}

/* The rows of a micro-batch as FILE:LINE. */
static json_t *name_rows(const struct zl_setup *s, uint64_t micro)
{
    const struct zl_micro_batch *m = &s->order.micro[micro];
    const struct zl_dataset *data = &s->corpus.train;
    json_t *rows = json_array();
    for (uint64_t p = m->first; p < m->first + m->n; p++) {
        const struct zl_example *e = &data->examples[zl_data_order_example(&s->order, p)];
        char text[1100];
        snprintf(text, sizeof text, "%.1000s:%llu", data->files[e->file], (unsigned long long)e->line);
        json_array_append_new(rows, json_string(text));
    }
    return rows;
}

static void leave_out(struct work *d, const struct zl_trouble *t)
{
    json_t *rows = name_rows(d->s, t->micro);
    char *text = json_dumps(rows, JSON_COMPACT | JSON_ENCODE_ANY);
    zl_left_out_add(&d->driver.course.left_out, t->micro);
    zl_warn("step %llu: micro-batch %llu is left out, %s; its rows: %s", (unsigned long long)t->step, (unsigned long long)t->micro, t->why,
            text ? text : "?");
    free(text);
    zl_event_skipped(&d->run, t->step, t->micro, t->why, rows);
    zl_append_sync(&d->run.events);
}

static void say_start(struct work *d, const char *because);

/* A step's numbers are bad: to the newest checkpoint before it, or to the beginning, and on from there without what was to blame. */
static int go_back(struct work *d, const struct zl_trouble *t)
{
    const struct zl_run_id id = d->resume.id;
    zl_checkpointing_settle(&d->checkpointing, LAST_NS);
    zl_checkpointing_drop(&d->checkpointing);
    zl_driver_shut(&d->driver);
    zl_resume_free(&d->resume);
    if (t->what == ZL_HEALTH_LEAVE_OUT)
        leave_out(d, t);
    else
        d->driver.course.inspect = t->step;
    zl_progress_close(&d->journal.progress);
    int rc = zl_resume_back(&d->resume, d->run.dir, &id, t->micro, d->journal.err);
    if (!rc)
        rc = zl_resume_journal(&d->resume, &d->run, &d->journal, d->journal.err);
    if (!rc)
        say_start(d, t->why);
    return rc;
}

static int run_pipeline(struct work *d)
{
    int rc = begin_trace(d);
    while (!rc) {
        rc = zl_driver_open(&d->driver, &d->resume, d->journal.err);
        if (rc)
            return rc;
        zl_driver_run(&d->driver);
        const struct zl_trouble t = d->driver.trouble;
        if (t.what == ZL_HEALTH_GIVE_UP)
            zl_journal_fail(&d->journal, zl_fail(d->journal.err, ZL_EINPUT,
                                                 "step %llu: %s, after %d micro-batches shortly before it were left out for the like; a lower "
                                                 "--lr or a look at the data may help", (unsigned long long)t.step, t.why, ZL_HEALTH_MOST));
        if (t.what == ZL_HEALTH_GOOD || d->journal.rc)
            return finish(d);
        rc = go_back(d, &t);
    }
    return rc;
}

static void sweep_border(void *context, uint64_t step)
{
    struct work *d = context;
    if (zl_checkpointing_due(&d->checkpointing, step, step == d->s->order.n_steps) &&
        zl_checkpointing_sweep(&d->checkpointing, d->sweep, step))
        d->saved = step;
}

static int run_sweep(struct work *d)
{
    int rc = begin_trace(d);
    if (!rc)
        rc = zl_resume_sweep(&d->resume, d->sweep, d->journal.err);
    d->saved = d->resume.standing.tally.steps_done;
    d->journal.admits = true;
    if (rc)
        return rc;
    zl_journal_feeds(&d->journal, d->resume.standing.micro);
    zl_sweep_run(d->sweep, &d->journal, sweep_border, d);
    if (d->journal.rc == ZL_ESTOPPED && d->journal.steps_done > d->saved)
        zl_checkpointing_sweep(&d->checkpointing, d->sweep, d->journal.steps_done);
    return finish(d);
}

/* Readouts as the run began with them, or fitted now. */
static int make_readouts(struct work *d)
{
    struct zl_setup *s = d->s;
    const int64_t width = s->corpus.model.config.d;
    const char *before = d->resume.standing.maps;
    char *path = zl_run_path(&d->run, ZL_MAPS_FILE), now[33];
    struct zl_error why = {0};
    if (!path)
        return zl_fail(d->journal.err, ZL_EMEMORY, "out of memory");
    if (zl_resume_any(&d->resume) && before[0] && zl_maps_read(path, &s->partition, width, before, &s->readouts, &why) == 0) {
        free(path);
        return 0;
    }
    int rc = s->readouts.tokens ? 0 : zl_setup_readouts(s, d->o, 0, d->journal.err);
    zl_maps_hash(&s->readouts, s->partition.n, width, now);
    if (!rc && zl_resume_any(&d->resume) && strcmp(before, now) != 0 && !d->o->force)
        rc = zl_fail(d->journal.err, ZL_EINPUT, "%s, and fitting them again gives others here; --force goes on with those", why.text);
    d->maps_to_write = rc == 0 && now[0] ? path : NULL;
    if (!d->maps_to_write)
        free(path);
    return rc;
}

/* What a run of this setup should be told. */
static void remark(const struct work *d)
{
    const struct zl_train_options *o = d->o;
    const unsigned long long steps = d->s->order.n_steps;
    if (o->anchor && !d->s->n_anchored)
        zl_note("--anchor on has no effect: no readout leaves out a part of the model");
    if (o->cache_frozen && !d->s->n_cached && d->s->partition.cut[0].frozen)
        zl_note("--cache-frozen has no effect in a run that takes no example twice");
    if (d->s->eval_order.n_micro && o->eval_every >= steps)
        zl_note("--eval-every %llu has no effect in a run of %llu steps", (unsigned long long)o->eval_every, steps);
    if (!o->steps && steps < FEW_STEPS)
        zl_note("little data: only %llu step%s; more --epochs%s make more", steps, steps == 1 ? "" : "s",
                o->batch_tokens ? " or smaller --batch-tokens" : "");
}

static int describe(struct work *d)
{
    char id[ZL_RUN_ID_TEXT];
    json_t *about = zl_setup_describe(d->s, d->o);
    zl_run_id_text(&d->resume.id, id);
    json_object_set_new(about, "run", json_string(id));
    return zl_run_write_json(&d->run, "run.json", about, d->journal.err);
}

/* The folder becomes this run's, from its beginning or from where it goes on. */
static int take_folder(struct work *d)
{
    struct zl_error *err = d->journal.err;
    int rc = zl_resume_any(&d->resume) ? zl_resume_journal(&d->resume, &d->run, &d->journal, err) : zl_run_begin(&d->run, err);
    if (!rc && d->o->configuration)
        rc = zl_run_write_text(&d->run, "config.yaml", d->o->configuration, err);
    if (!rc)
        rc = describe(d);
    if (!rc && d->maps_to_write)
        rc = zl_maps_write(d->maps_to_write, &d->s->readouts, d->s->partition.n, d->s->corpus.model.config.d, err);
    return rc;
}

static void say_start(struct work *d, const char *because)
{
    const struct zl_standing *s = &d->resume.standing;
    zl_event_start(&d->run, &(struct zl_event_start){.run = d->resume.id,
                                                     .generation = d->resume.generation.generation,
                                                     .step = s->tally.steps_done,
                                                     .micro = s->micro,
                                                     .steps = d->s->order.n_steps,
                                                     .n_micro = d->s->order.n_micro,
                                                     .stages = d->s->partition.n,
                                                     .because = because});
    if (zl_resume_any(&d->resume) || because)
        zl_note("going on behind step %llu of %llu", (unsigned long long)s->tally.steps_done, (unsigned long long)d->s->order.n_steps);
}

/* The process begins: how the one before it ended, and what was decided to be left out behind the checkpoint that it goes on from. */
static int say_first(struct work *d)
{
    const char *died = d->o->died && d->o->died[0] ? d->o->died : NULL;
    char *path = zl_run_path(&d->run, "events.jsonl");
    bool ended = true;
    int rc = path ? 0 : zl_fail(d->journal.err, ZL_EMEMORY, "out of memory");
    if (!rc && zl_resume_any(&d->resume))
        rc = zl_events_before(path, &d->driver.course.left_out, &ended, d->journal.err);
    if (!rc && !ended)
        zl_event_died(&d->run, died ? died : "it ended without a word");
    if (!rc)
        say_start(d, NULL);
    if (!rc && died && !zl_resume_any(&d->resume))
        zl_event_died(&d->run, died);
    free(path);
    return rc;
}

/* Find out whether the first stage trains, and go on as if that had been asked for. */
static int decide_freeze(struct work *d, struct zl_train_options *o)
{
    static uint64_t front[] = {0};
    struct zl_freeze_probe p;
    int rc = zl_setup_readouts(d->s, o, 0, d->journal.err);
    if (!rc)
        rc = zl_freeze_probe(d->s, o, &p, d->journal.err);
    if (rc)
        return rc;
    o->freeze = (struct zl_numbers){front, p.freeze};
    if (!p.steps)
        zl_note("--freeze auto: a run of %llu steps is too short for a probe, all stages train", (unsigned long long)d->s->order.n_steps);
    else
        zl_note("--freeze auto: after %llu steps the loss on the next ones is down from %.4f to %.4f with stage 0 frozen, to %.4f without: it %s",
                (unsigned long long)p.steps, p.before, p.frozen, p.trained, p.freeze ? "is frozen" : "trains");
    return p.freeze ? zl_setup_cut_again(d->s, o, d->journal.err) : 0;
}

/* What was said before the first step by the process before this one is not said again. */
static void hush(const struct zl_train_options *o, bool on)
{
    if (o->again)
        zl_log_quiet(on || o->quiet);
}

/* Everything up to the first micro-batch. */
static int prepare(struct work *d, struct zl_train_options *o)
{
    struct zl_error *err = d->journal.err;
    json_t *identity = NULL;
    hush(o, false);
    int rc = o->resume ? zl_resume_find(&d->resume, &d->run, o->force, err) : zl_run_id_make(&d->resume.id, err);
    if (rc)
        return rc;
    hush(o, true);
    zl_resume_options(&d->resume, o);
    rc = zl_setup_make(d->s, o, err);
    if (!rc && zl_freeze_auto(o))
        rc = decide_freeze(d, o);
    if (!rc && !(identity = zl_identity_make(d->s, o)))
        rc = zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc)
        rc = zl_resume_check(&d->resume, identity, o->force, err);
    const char *spill_dir = o->spill_dir ? o->spill_dir : o->output;
    if (!rc && d->s->n_cached)
        rc = zl_frozen_open(&d->frozen, d->s, o, spill_dir, &d->journal.head_start, err);
    d->driver.frozen = d->frozen;
    if (!rc && o->schedule == ZL_SCHEDULE_SWEEP)
        rc = zl_sweep_open(&d->sweep, d->s, o, spill_dir, d->frozen, err);
    else if (!rc)
        rc = make_readouts(d);
    if (!rc && d->s->n_anchored)
        rc = zl_anchor_open(&d->anchor, d->s, o, spill_dir, &d->journal.head_start, err);
    d->driver.anchor = d->anchor;
    if (!rc)
        remark(d);
    if (!rc) /* from here on there is something to finish: look at once, then at every micro-batch */
        rc = zl_hooks_check(o->hooks, err);
    hush(o, false);
    if (!rc)
        rc = take_folder(d);
    if (rc) {
        json_decref(identity);
        return rc;
    }
    rc = zl_checkpointing_open(&d->checkpointing, d->s, o, &d->run, &d->journal, &d->resume.id, identity, err);
    if (!rc)
        rc = say_first(d);
    if (!rc)
        rc = zl_health_open(&d->driver.health, o->max_spike, err);
    d->checkpointing.health = &d->driver.health;
    return rc;
}

int zl_train_run(const struct zl_train_options *asked, struct zl_error *err)
{
    struct zl_train_options o = *asked;
    struct zl_setup setup = {0};
    struct zl_error own = {0};
    struct work d = {.o = &o, .s = &setup};
    const enum zl_run_mode mode = o.resume ? ZL_RUN_CONTINUE : o.force ? ZL_RUN_OVERWRITE : ZL_RUN_FRESH;
    err = err ? err : &own;
    zl_journal_open(&d.journal, &o, &setup, &d.run, err);
    d.driver = (struct zl_driver){
        .o = &o, .s = &setup, .run = &d.run, .journal = &d.journal, .checkpointing = &d.checkpointing};
    zl_course_begin(&d.driver.course, &setup, o.eval_every);
    d.journal.course = &d.driver.course;
    int rc = zl_run_open(&d.run, o.output, mode, err);
    if (rc)
        return rc;
    rc = check_place(&d);
    if (!rc)
        rc = zl_tracing_open(&d.tracing, o.trace, err);
    if (!rc)
        rc = prepare(&d, &o);
    if (!rc)
        rc = o.schedule == ZL_SCHEDULE_SWEEP ? run_sweep(&d) : run_pipeline(&d);
    if (d.journal.steps_done && (!rc || rc == ZL_ESTOPPED))
        zl_journal_say_result(&d.journal);
    zl_sweep_close(d.sweep);
    zl_frozen_close(d.frozen);
    zl_anchor_close(d.anchor);
    zl_driver_close(&d.driver);
    zl_checkpointing_close(&d.checkpointing);
    zl_resume_free(&d.resume);
    zl_tracing_close(&d.tracing);
    zl_setup_free(&setup);
    free(d.maps_to_write);
    const int closed = zl_run_close(&d.run, err);
    return rc ? rc : closed;
}
