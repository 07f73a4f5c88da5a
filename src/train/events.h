/*
 * What happened to a run, one JSON object a line in RUN/events.jsonl: zerolock-events(5). Written behind the fact and with the stages' own
 * numbers, so that it can be proved from the file alone that every update was made once, whatever failed and when: events_check.h.
 */
#ifndef ZL_TRAIN_EVENTS_H
#define ZL_TRAIN_EVENTS_H

#include "store/checkpoint.h"
#include "store/run.h"
#include "train/ledger.h"

/* A process begins to work on the run: from the beginning (generation 0), or from a generation. */
struct zl_event_start {
    struct zl_run_id run;
    uint64_t generation, step, micro;
    uint64_t steps, n_micro; /* of the whole run */
    uint32_t stages;
    const char *because;     /* of a restoration while the process lives: NULL or what happened */
};
void zl_event_start(struct zl_run *r, const struct zl_event_start *e);

/* What a process that goes on must know: the micro-batches that the file says are left out, added to those of `out`, and whether the last process
 * ended in order. */
struct zl_left_out;
int zl_events_before(const char *path, struct zl_left_out *out, bool *ended, struct zl_error *err);

/* The process feeds its first micro-batch, so many seconds after it began to prepare. */
void zl_event_under_way(struct zl_run *r, uint64_t micro, double seconds);
/* Micro-batches first..last of a step have been fed. */
void zl_event_admitted(struct zl_run *r, uint64_t step, uint64_t first, uint64_t last);
/* All of a stage's micro-batches of a step, so many, have been reported, and its update was made or left out. */
void zl_event_step(struct zl_run *r, const struct zl_step_record *s, uint32_t stages);
/* A micro-batch will not be trained on; rows: "file:line" of its examples. Takes the reference. */
void zl_event_skipped(struct zl_run *r, uint64_t step, uint64_t micro, const char *why, json_t *rows);
/* The stages' numbers at the cut of a generation that is about to be written; then what became of it. */
void zl_event_cut(struct zl_run *r, uint64_t generation, uint64_t step, uint64_t micro, const struct zl_stage_count *count, uint32_t stages);
void zl_event_checkpoint(struct zl_run *r, const struct zl_checkpoint_event *e);
/* The process ends in order. */
void zl_event_end(struct zl_run *r, const char *event, const char *why, uint64_t step);
/* The process before this one ended without a word. */
void zl_event_died(struct zl_run *r, const char *how);

#endif
