/*
 * The checkpoints of a run: when one is due, what its text says, and what becomes of it. A driver asks at each border between steps whether
 * one is due, sends the marker, hands the cut in when all stages have passed it, and lets this look after the rest between micro-batches.
 *
 * Invariant: a generation that has its name holds only numbers that were found sound: its text, without which it is not complete, is held
 * back until every step that was fed before it is whole and judged. So the newest one is always the state to go back to.
 */
#ifndef ZL_TRAIN_CHECKPOINTING_H
#define ZL_TRAIN_CHECKPOINTING_H

#include "store/checkpoint.h"
#include "train/identity.h"
#include "train/journal.h"
#include "train/standing.h"

struct zl_checkpointing {
    const struct zl_train_options *o;
    const struct zl_setup *s;
    struct zl_run *run;
    struct zl_journal *journal;
    const struct zl_health *health; /* NULL: nothing is known */
    struct zl_run_id id;
    json_t *identity;
    char maps[33];
    struct zl_checkpoints *writer; /* NULL: none are written */
    struct zl_snapshot_sink sink;  /* constant from the opening on, so that a pipeline can hold it */
    uint64_t begun_ns;             /* when the last one was begun, or the run */
    /* the one whose text is still to come */
    bool open;
    uint64_t generation, step;
    struct zl_place at;
    uint64_t micro;
    struct zl_left_out left_out;
    struct zl_tally tally;
    char *text;                    /* made from the cut, held back until the steps before it are judged */
    struct zl_checkpoint_totals before; /* of writers that were closed */
};

/* Bytes of memory and of a file that the checkpoints of a planned run take; nothing when o->keep is 0. */
int zl_checkpointing_plan(const struct zl_setup *s, const struct zl_train_options *o, uint64_t *memory_bytes, uint64_t *file_bytes,
                          struct zl_error *err);

/* id: the run's; identity: what zl_identity_make gave, a reference that is taken. Checks the space on the disk. */
int zl_checkpointing_open(struct zl_checkpointing *c, const struct zl_setup *s, const struct zl_train_options *o, struct zl_run *run,
                          struct zl_journal *journal, const struct zl_run_id *id, json_t *identity, struct zl_error *err);
void zl_checkpointing_close(struct zl_checkpointing *c);

/* Behind `step`: is it time? `last`: the run's end, where it always is. */
bool zl_checkpointing_due(const struct zl_checkpointing *c, uint64_t step, bool last);

/* Begin one behind `step`, with the course standing where it goes on. False: not now, the disk is still at work on two. */
bool zl_checkpointing_begin(struct zl_checkpointing *c, const struct zl_course *course, uint64_t step, struct zl_ledger *ledger);

/* A report of the marker. With the last stage's the evaluations before it are all booked. */
void zl_checkpointing_passed(struct zl_checkpointing *c, const struct zl_report *r);
/* The cut is complete. */
void zl_checkpointing_cut(struct zl_checkpointing *c, const struct zl_ledger *ledger);

/* Hand a text on whose time has come, and say what became of generations. Between micro-batches. */
void zl_checkpointing_look(struct zl_checkpointing *c);

/* Give up the one that is under way. */
void zl_checkpointing_drop(struct zl_checkpointing *c);

/* Wait until all that was begun is written, for at most so long. */
void zl_checkpointing_settle(struct zl_checkpointing *c, int64_t timeout_ns);

/* The whole state of a halted pipeline (workers joined, reports booked), written before this returns. False: it was not written, which has
 * been said. */
bool zl_checkpointing_halted(struct zl_checkpointing *c, struct zl_pipeline *l, const struct zl_course *course, const struct zl_ledger *ledger);

/* The state of a sweep between windows, likewise. */
struct zl_sweep;
bool zl_checkpointing_sweep(struct zl_checkpointing *c, struct zl_sweep *w, uint64_t step);

/* For metrics: seconds that the stages have spent handing their state in. */
double zl_checkpointing_stall(const struct zl_checkpointing *c);

#endif
