/* Driving a pipeline: see drive.h. */
#include "train/drive.h"

#include "base/log.h"
#include "train/anchor.h"
#include "train/events.h"
#include "train/frozen.h"

#define WAIT_NS 20000000 /* how long the driver waits for a slot or a report before it looks around */

/* ---- the back: reports --------------------------------------------------------------------------- */

static void book_steps(struct zl_driver *d)
{
    struct zl_step_record step;
    while (!d->trouble.what && zl_ledger_next(&d->ledger, &step)) {
        if (d->checkpointing->writer && (d->trouble = zl_health_judge(&d->health, &step, &d->course)).what)
            return;
        d->journal->checkpoint_seconds = zl_checkpointing_stall(d->checkpointing);
        zl_journal_step(d->journal, &step, zl_pipeline_wait_seconds(&d->pipeline));
    }
}

/* Book all reports that are there; waits for one up to timeout_ns. */
static bool book_reports(struct zl_driver *d, int64_t timeout_ns)
{
    struct zl_report report;
    struct zl_eval_record eval;
    bool any = false;
    while (zl_pipeline_report(&d->pipeline, any ? 0 : timeout_ns, &report)) {
        any = true;
        if (report.kind == ZL_MARK)
            zl_checkpointing_passed(d->checkpointing, &report);
        switch (zl_ledger_book(&d->ledger, &report, &eval)) {
        case ZL_NEWS_EVAL:
            zl_journal_eval(d->journal, &eval);
            break;
        case ZL_NEWS_CUT:
            zl_checkpointing_cut(d->checkpointing, &d->ledger);
            break;
        case ZL_NEWS_NONE:
            break;
        }
        book_steps(d);
    }
    zl_checkpointing_look(d->checkpointing);
    return any;
}

/* ---- the front ----------------------------------------------------------------------------------- */

static bool stopping(struct zl_driver *d)
{
    return d->trouble.what || zl_journal_stopping(d->journal);
}

/* A slot to fill, or NULL: the run stops. */
static struct zl_packet *slot(struct zl_driver *d)
{
    struct zl_packet *m = NULL;
    while (!stopping(d) && !(m = zl_pipeline_slot(&d->pipeline, 0)))
        if (!book_reports(d, WAIT_NS / 20))
            if ((m = zl_pipeline_slot(&d->pipeline, WAIT_NS)))
                break;
    return m;
}

static void admit(struct zl_driver *d, uint64_t micro)
{
    d->first_admitted = d->admits ? d->first_admitted : micro;
    d->last_admitted = micro;
    d->admits = true;
}

static void say_admitted(struct zl_driver *d, uint64_t step)
{
    if (d->admits)
        zl_event_admitted(d->run, step, d->first_admitted, d->last_admitted);
    d->admits = false;
}

/* What was computed of a micro-batch before the run: by the frozen stages at the front, by the base model. */
static bool fill_hidden(struct zl_driver *d, uint64_t micro, struct zl_packet *m)
{
    const struct zl_packet_layout *l = &d->pipeline.feed_layout;
    int rc = 0;
    if (d->frozen)
        rc = zl_frozen_gather(d->frozen, m->kind == ZL_EVAL, micro, zl_packet_at(m, l->hidden), d->journal->err);
    if (!rc && d->anchor && m->kind == ZL_TRAIN)
        rc = zl_anchor_gather(d->anchor, micro, m, l, d->journal->err);
    if (rc)
        zl_journal_fail(d->journal, rc);
    return rc == 0;
}

/* Fill a slot and send it. False: the run fails. */
static bool send(struct zl_driver *d, const struct zl_feed_item *item, struct zl_packet *m)
{
    const struct zl_setup *s = d->s;
    const bool train = item->what == ZL_FEED_TRAIN;
    *m = (struct zl_packet){.kind = train ? ZL_TRAIN : ZL_EVAL, .step = item->step};
    if (train) {
        m->last_of_step = item->last_of_step;
        m->weight = item->weight;
        m->inspect = item->inspect;
        m->lr = (float)zl_learning_rate(d->o, item->step, s->order.n_steps);
    }
    zl_corpus_fill(train ? &s->corpus.train : &s->corpus.held_out, train ? &s->order : &s->eval_order, item->micro,
                   &d->pipeline.feed_layout, m);
    if (!fill_hidden(d, item->micro, m))
        return false;
    zl_journal_feeds(d->journal, item->micro);
    if (train)
        admit(d, item->micro);
    if (train && item->last_of_step) /* before the step can be whole */
        say_admitted(d, item->step);
    zl_pipeline_send(&d->pipeline, m);
    return true;
}

/* Send a checkpoint's marker if it is time. */
static void border(struct zl_driver *d, uint64_t step)
{
    const bool last = step == d->s->order.n_steps;
    if (!zl_checkpointing_due(d->checkpointing, step, last))
        return;
    while (!zl_checkpointing_begin(d->checkpointing, &d->course, step, &d->ledger)) {
        if (!last || stopping(d))
            return; /* the disk is slower than the interval */
        book_reports(d, WAIT_NS);
    }
    struct zl_packet *m = slot(d);
    if (m) {
        zl_pipeline_mark(&d->pipeline, m, step, d->checkpointing->generation);
    } else {
        zl_checkpointing_drop(d->checkpointing);
        zl_ledger_cut_off(&d->ledger);
    }
}

/* Feed one thing. False: it stays to be fed, the run stops. */
static bool feed(struct zl_driver *d, const struct zl_feed_item *item)
{
    struct zl_packet *m = NULL;
    switch (item->what) {
    case ZL_FEED_TRAIN:
    case ZL_FEED_EVAL:
        m = slot(d);
        if (!m || !send(d, item, m))
            return false;
        break;
    case ZL_FEED_DRAIN:
        m = slot(d);
        if (m)
            zl_pipeline_drain(&d->pipeline, m);
        break;
    case ZL_FEED_NOTHING:
        zl_ledger_nothing(&d->ledger, item->step);
        book_steps(d);
        return true;
    case ZL_FEED_BORDER:
        if (item->step)
            border(d, item->step);
        return true;
    case ZL_FEED_END:
        return true;
    }
    if (item->what == ZL_FEED_TRAIN)
        book_reports(d, 0);
    return m != NULL;
}

/* ---- the run ------------------------------------------------------------------------------------- */

static void halt(struct zl_driver *d)
{
    zl_pipeline_halt(&d->pipeline);
    while (!zl_pipeline_over(&d->pipeline))
        book_reports(d, WAIT_NS / 20);
    zl_pipeline_join(&d->pipeline);
    book_reports(d, 0);
    zl_ledger_cut_off(&d->ledger);
}

/* Stopped anywhere: `at` is what would have come next. */
static void stop(struct zl_driver *d, struct zl_place at)
{
    halt(d);
    d->course.at = at;
    say_admitted(d, at.step);
    if (d->journal->rc == ZL_ESTOPPED && !d->trouble.what)
        zl_checkpointing_halted(d->checkpointing, &d->pipeline, &d->course, &d->ledger);
    else
        zl_checkpointing_drop(d->checkpointing);
}

void zl_driver_run(struct zl_driver *d)
{
    struct zl_place next = d->course.at;
    bool going = !stopping(d), end = false;
    if (!d->s->eval_order.n_micro && !d->journal->start_ns)
        zl_journal_begin(d->journal);
    while (going && !end) {
        const struct zl_feed_item item = zl_course_next(&d->course);
        end = item.what == ZL_FEED_END;
        going = feed(d, &item) && !d->trouble.what;
        if (going)
            next = d->course.at;
    }
    if (going) {
        zl_pipeline_finish(&d->pipeline);
        while (!zl_pipeline_done(&d->pipeline) && (going = !stopping(d)))
            book_reports(d, WAIT_NS);
    }
    if (going) {
        zl_pipeline_join(&d->pipeline);
        book_reports(d, 0);
    } else {
        stop(d, next);
    }
    zl_checkpointing_look(d->checkpointing);
}

int zl_driver_open(struct zl_driver *d, struct zl_resume *resume, struct zl_error *err)
{
    struct zl_setup *s = d->s;
    char note[256] = "";
    uint32_t in_flight = 2;
    s->pipeline.sink = &d->checkpointing->sink;
    int rc = zl_pipeline_open(&d->pipeline, &s->corpus.model, &s->partition, &s->pipeline, note, err);
    if (rc)
        return rc;
    if (note[0])
        zl_note("%s", note);
    for (uint32_t k = 0; k < s->partition.n; k++)
        in_flight += s->pipeline.ring_depth + s->plan.in_flight[k] + 2;
    rc = zl_ledger_open(&d->ledger, s->partition.n, s->eval_order.n_micro, in_flight, err);
    if (!rc)
        rc = zl_resume_pipeline(resume, &d->pipeline, err);
    for (uint32_t i = 0; i < resume->standing.n_begun && !rc; i++)
        rc = zl_ledger_resume(&d->ledger, &resume->standing.begun[i], err);
    d->ledger.eval = resume->standing.eval;
    zl_health_resume(&d->health, &resume->standing.vitals);
    d->trouble = (struct zl_trouble){.what = ZL_HEALTH_GOOD};
    d->admits = false;
    d->ledger.whole = resume->standing.tally.steps_done;
    d->course.at = resume->standing.at;
    for (uint32_t i = 0; i < resume->standing.left_out.n; i++)
        zl_left_out_add(&d->course.left_out, resume->standing.left_out.micro[i]);
    return rc ? rc : zl_pipeline_start(&d->pipeline, err);
}

void zl_driver_shut(struct zl_driver *d)
{
    zl_pipeline_close(&d->pipeline);
    zl_ledger_close(&d->ledger);
}

void zl_driver_close(struct zl_driver *d)
{
    zl_driver_shut(d);
    zl_health_close(&d->health);
}
