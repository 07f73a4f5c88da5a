/* The checkpoints of a run: see checkpointing.h. */
#include "train/checkpointing.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "kernel/isa.h"
#include "train/events.h"
#include "train/maps.h"
#include "train/sweep.h"

#define BUFFER_MOST  (64ull << 20) /* memory for snapshots without a limit: a generation that is larger is handed in at the disk's speed */
#define BUFFER_TIGHT (1ull << 19)  /* with --memory-limit, and for the state of a pipeline that does not run any more */
#define WRITE_NS     600000000000ll /* for a disk to take the last one; what takes longer is broken */

static void add_parts(struct zl_checkpoint_part *parts, uint32_t *n, uint32_t stage, const uint64_t bytes[ZL_STAGE_SECTIONS])
{
    for (uint32_t section = 0; section < ZL_STAGE_SECTIONS; section++)
        if (bytes[section])
            parts[(*n)++] = (struct zl_checkpoint_part){stage, section, bytes[section]};
}

/* The parts of every generation of a run, from its plan. */
static uint32_t parts_of(const struct zl_setup *s, struct zl_checkpoint_part parts[ZL_STAGES_MAX * ZL_STAGE_SECTIONS])
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->partition.n; k++)
        add_parts(parts, &n, k, s->plan.part_bytes[k]);
    return n;
}

static struct zl_checkpoints_options options_of(const struct zl_setup *s, const struct zl_train_options *o, const struct zl_checkpoint_part *parts,
                                                uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += parts[i].bytes;
    const bool tight = o->memory_limit || o->schedule == ZL_SCHEDULE_SWEEP;
    (void)s;
    return (struct zl_checkpoints_options){.parts = parts,
                                           .n_parts = n,
                                           .keep = (uint32_t)o->keep,
                                           .buffer_bytes = tight ? BUFFER_TIGHT : bytes > BUFFER_MOST ? BUFFER_MOST : 0};
}

int zl_checkpointing_plan(const struct zl_setup *s, const struct zl_train_options *o, uint64_t *memory_bytes, uint64_t *file_bytes,
                          struct zl_error *err)
{
    struct zl_checkpoint_part parts[ZL_STAGES_MAX * ZL_STAGE_SECTIONS];
    const uint32_t n = parts_of(s, parts);
    const struct zl_checkpoints_options wanted = options_of(s, o, parts, n);
    *memory_bytes = *file_bytes = 0;
    return o->keep ? zl_checkpoints_plan(&wanted, memory_bytes, file_bytes, err) : 0;
}

/* A pipeline holds this for as long as it lives, whichever writer there is behind it. */
static int put(void *context, uint64_t generation, uint32_t stage, uint32_t section, const void *data, uint64_t bytes)
{
    struct zl_checkpointing *c = context;
    return c->writer ? zl_checkpoint_put(c->writer, generation, stage, section, data, bytes) : ZL_ESTOPPED;
}

int zl_checkpointing_open(struct zl_checkpointing *c, const struct zl_setup *s, const struct zl_train_options *o, struct zl_run *run,
                          struct zl_journal *journal, const struct zl_run_id *id, json_t *identity, struct zl_error *err)
{
    struct zl_checkpoint_part parts[ZL_STAGES_MAX * ZL_STAGE_SECTIONS];
    char note[256] = "";
    *c = (struct zl_checkpointing){.o = o, .s = s, .run = run, .journal = journal, .id = *id, .identity = identity, .begun_ns = zl_clock_ns()};
    c->sink = (struct zl_snapshot_sink){put, c};
    zl_maps_hash(&s->readouts, s->partition.n, s->corpus.model.config.d, c->maps);
    if (!o->keep)
        return 0;
    struct zl_checkpoints_options wanted = options_of(s, o, parts, parts_of(s, parts));
    wanted.run = *id;
    int rc = zl_checkpoints_open(&c->writer, run->dir, &wanted, note, err);
    if (!rc && note[0])
        zl_note("%s", note);
    return rc;
}

static void forget(struct zl_checkpointing *c)
{
    free(c->text);
    c->text = NULL;
    c->open = false;
}

static void close_writer(struct zl_checkpointing *c)
{
    struct zl_checkpoint_totals t;
    if (!c->writer)
        return;
    zl_checkpoint_totals(c->writer, &t);
    c->before.put_ns += t.put_ns;
    zl_checkpoints_close(c->writer);
    c->writer = NULL;
}

void zl_checkpointing_close(struct zl_checkpointing *c)
{
    close_writer(c);
    forget(c);
    json_decref(c->identity);
    c->identity = NULL;
}

bool zl_checkpointing_due(const struct zl_checkpointing *c, uint64_t step, bool last)
{
    if (!c->writer || (c->open && !last))
        return false;
    const double minutes = (double)(zl_clock_ns() - c->begun_ns) * 1e-9 / 60;
    return last || (c->o->checkpoint_every && step % c->o->checkpoint_every == 0) ||
           (c->o->checkpoint_minutes > 0 && minutes >= c->o->checkpoint_minutes);
}

bool zl_checkpointing_begin(struct zl_checkpointing *c, const struct zl_course *course, uint64_t step, struct zl_ledger *ledger)
{
    if (c->open || zl_checkpoint_begin(c->writer, step, &c->generation))
        return false;
    c->open = true;
    c->step = step;
    c->at = course->at;
    c->micro = zl_course_micro(course);
    c->left_out = course->left_out;
    c->begun_ns = zl_clock_ns();
    if (ledger)
        zl_ledger_cut_begin(ledger, c->generation, step);
    return true;
}

void zl_checkpointing_passed(struct zl_checkpointing *c, const struct zl_report *r)
{
    if (c->open && r->generation == c->generation && r->stage + 1 == c->s->partition.n)
        c->tally = zl_journal_tally(c->journal);
}

static const char *isa(enum zl_compute compute)
{
    if (compute == ZL_COMPUTE_BF16 && !zl_tiles_missing())
        return "amx";
    switch (zl_isa_get()) {
    case ZL_ISA_AVX512:
        return "avx512";
    case ZL_ISA_AVX2:
        return "avx2";
    default:
        return "baseline";
    }
}

static char *text_of(const struct zl_checkpointing *c, struct zl_standing *s)
{
    s->at = c->at;
    s->micro = c->micro;
    s->tally = c->tally;
    s->left_out = c->left_out;
    s->n_stages = c->s->partition.n;
    s->ring_depth = c->s->pipeline.ring_depth;
    s->micro_batch_tokens = (uint64_t)c->s->pipeline.keep_tokens;
    memcpy(s->maps, c->maps, sizeof s->maps);
    strcpy(s->isa, isa(c->s->pipeline.compute));
    s->identity = c->identity;
    return zl_standing_text(s);
}

/* Lines that the text counts on are on the disk before it is. */
static void hand_on(struct zl_checkpointing *c, char *text)
{
    struct zl_error err = {0};
    zl_append_sync(&c->run->metrics);
    zl_append_sync(&c->run->events);
    if (zl_checkpoint_text(c->writer, c->generation, text, strlen(text), &err)) {
        zl_warn("no checkpoint behind step %llu: %s", (unsigned long long)c->step, err.text);
        zl_checkpoint_drop(c->writer, c->generation);
    }
}

void zl_checkpointing_cut(struct zl_checkpointing *c, const struct zl_ledger *ledger)
{
    const struct zl_ledger_cut *cut = &ledger->cut;
    struct zl_standing s = {.begun = cut->open_step, .n_begun = cut->n};
    if (!c->open || cut->generation != c->generation)
        return;
    memcpy(s.count, cut->count, sizeof s.count);
    if (cut->whole > c->tally.steps_done)
        c->tally.step_seconds = 0; /* they went into a step that is whole */
    c->tally.steps_done = cut->whole;
    c->tally.tokens_done = zl_journal_tokens(c->journal, cut->whole);
    if (c->health)
        s.vitals = zl_health_behind(c->health, cut->whole);
    c->text = text_of(c, &s);
    zl_event_cut(c->run, c->generation, c->step, c->micro, cut->count, c->s->partition.n);
    if (!c->text)
        zl_checkpointing_drop(c);
}

static void tell(struct zl_checkpointing *c, const struct zl_checkpoint_event *e)
{
    zl_event_checkpoint(c->run, e);
    if (e->rc)
        zl_warn("the checkpoint behind step %llu is not written: %s; training goes on", (unsigned long long)e->step, e->why);
    else if (e->why[0])
        zl_warn("%s", e->why);
}

void zl_checkpointing_look(struct zl_checkpointing *c)
{
    struct zl_checkpoint_event e;
    if (!c->writer)
        return;
    if (c->text && c->journal->steps_done >= c->step && !c->journal->rc) {
        hand_on(c, c->text);
        forget(c);
    }
    while (zl_checkpoint_poll(c->writer, &e))
        tell(c, &e);
}

void zl_checkpointing_drop(struct zl_checkpointing *c)
{
    if (c->open)
        zl_checkpoint_drop(c->writer, c->generation);
    forget(c);
}

void zl_checkpointing_settle(struct zl_checkpointing *c, int64_t timeout_ns)
{
    if (c->writer && c->generation)
        zl_checkpoint_wait(c->writer, c->generation, timeout_ns);
    zl_checkpointing_look(c);
}

/* A writer for one generation with parts of its own; the one of the run ends. */
static int change_writer(struct zl_checkpointing *c, const struct zl_checkpoint_part *parts, uint32_t n, struct zl_error *err)
{
    struct zl_checkpoints_options wanted = options_of(c->s, c->o, parts, n);
    char note[256];
    wanted.run = c->id;
    wanted.buffer_bytes = BUFFER_TIGHT;
    zl_checkpointing_settle(c, 0);
    zl_checkpointing_drop(c);
    close_writer(c);
    if (!zl_run_is_there(c->run)) /* another one may be somebody else's */
        return zl_fail(err, ZL_ESYSTEM, "%s is gone", c->run->dir);
    return zl_checkpoints_open(&c->writer, c->run->dir, &wanted, note, err);
}

/* The last generation is whole: hand its text on and wait. */
static bool conclude(struct zl_checkpointing *c, struct zl_standing *s)
{
    struct zl_checkpoint_event e = {.rc = ZL_EMEMORY, .why = "out of memory", .step = c->step};
    char *text = text_of(c, s);
    if (text) {
        zl_event_cut(c->run, c->generation, c->step, c->micro, s->count, c->s->partition.n);
        hand_on(c, text);
        zl_checkpoint_wait(c->writer, c->generation, WRITE_NS);
        if (!zl_checkpoint_poll(c->writer, &e))
            snprintf(e.why, sizeof e.why, "the disk does not answer");
    }
    free(text);
    forget(c);
    tell(c, &e);
    return e.rc == 0;
}

bool zl_checkpointing_halted(struct zl_checkpointing *c, struct zl_pipeline *l, const struct zl_course *course, const struct zl_ledger *ledger)
{
    struct zl_pipeline_part found[ZL_STAGES_MAX * ZL_STAGE_SECTIONS];
    struct zl_checkpoint_part parts[ZL_STAGES_MAX * ZL_STAGE_SECTIONS];
    struct zl_step_record *begun = calloc(ledger->n_open + 1u, sizeof *begun);
    struct zl_standing s = {.begun = begun, .n_begun = ledger->n_open, .eval = ledger->eval, .halted = true};
    struct zl_error err = {0};
    if (!c->o->keep) {
        free(begun);
        return false;
    }
    const uint32_t n = zl_pipeline_parts(l, found);
    for (uint32_t i = 0; i < n; i++)
        parts[i] = (struct zl_checkpoint_part){found[i].stage, found[i].section, found[i].bytes};
    int rc = begun ? change_writer(c, parts, n, &err) : zl_fail(&err, ZL_EMEMORY, "out of memory");
    for (uint32_t i = 0; begun && i < ledger->n_open; i++)
        begun[i] = *zl_ledger_begun(ledger, i);
    for (uint32_t k = 0; k < l->n; k++)
        s.count[k] = (struct zl_stage_count){l->stage[k].state.forwarded, l->stage[k].state.finished, l->stage[k].state.updates};
    bool written = false;
    if (c->health)
        s.vitals = c->health->now;
    if (!rc && zl_checkpointing_begin(c, course, c->journal->steps_done, NULL)) {
        c->tally = zl_journal_tally(c->journal);
        zl_pipeline_put(l, &c->sink, c->generation); /* what goes wrong there shows in the end */
        written = conclude(c, &s);
    } else {
        zl_warn("the state where the run stops is not written: %s", err.text);
    }
    free(begun);
    return written;
}

/* ---- sweeps -------------------------------------------------------------------------------------- */

struct sweep_put {
    struct zl_checkpointing *c;
    struct zl_standing *standing;
    uint64_t micro;
};

static int put_block(void *context, uint32_t k, struct zl_block *b, int64_t *updates, struct zl_error *err)
{
    const struct sweep_put *p = context;
    struct zl_stage_state state = {.forwarded = p->micro, .finished = p->micro, .updates = (uint64_t)*updates};
    struct zl_stage stage = {.block = *b, .state = state, .schedule = p->c->s->pipeline.schedule, .in_flight = 1};
    struct zl_stage_part part[ZL_STAGE_SECTIONS];
    (void)err;
    p->standing->count[k] = (struct zl_stage_count){state.forwarded, state.finished, state.updates};
    for (unsigned i = 0, n = zl_stage_parts(&stage, false, part); i < n; i++)
        if (put(p->c, p->c->generation, k, part[i].section, part[i].data, part[i].bytes))
            break;
    return 0;
}

bool zl_checkpointing_sweep(struct zl_checkpointing *c, struct zl_sweep *w, uint64_t step)
{
    const uint64_t steps = c->s->order.n_steps;
    struct zl_course course;
    struct zl_standing s = {0};
    struct zl_error err = {0};
    zl_course_begin(&course, c->s, c->o->eval_every);
    course.at.step = step + 1;
    zl_checkpointing_settle(c, WRITE_NS); /* nobody is kept waiting by it but this one */
    if (!c->writer || !zl_checkpointing_begin(c, &course, step, NULL))
        return false;
    struct sweep_put p = {c, &s, step < steps ? c->s->order.steps[step].first_micro : c->s->order.n_micro};
    c->tally = zl_journal_tally(c->journal);
    c->tally.step_seconds = 0; /* a window that was stopped is computed anew */
    if (zl_sweep_visit(w, false, &step, put_block, &p, &err)) {
        zl_warn("no checkpoint behind step %llu: %s", (unsigned long long)step, err.text);
        zl_checkpointing_drop(c);
        return false;
    }
    return conclude(c, &s);
}

double zl_checkpointing_stall(const struct zl_checkpointing *c)
{
    struct zl_checkpoint_totals t = {0};
    if (c->writer)
        zl_checkpoint_totals(c->writer, &t);
    return (double)(c->before.put_ns + t.put_ns) * 1e-9;
}
