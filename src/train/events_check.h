/*
 * The proof, from events.jsonl and the checkpoints that are there, that every micro-batch of a run was trained on once in every stage, whatever
 * failed: what was admitted and updated is followed line by line, each restoration takes it back to the cut that it names, and the stages' own
 * counters in the checkpoints must agree with the lines.
 */
#ifndef ZL_TRAIN_EVENTS_CHECK_H
#define ZL_TRAIN_EVENTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct zl_events_proof {
    bool any;             /* there is such a file with something in it */
    bool finished;        /* the run came to its end */
    bool torn;            /* its end was lost when the power went */
    uint64_t lines;
    uint64_t steps_done, steps;
    uint64_t micro_batches; /* of the steps that are whole, each updated once in each stage */
    uint32_t stages;
    uint64_t left_out;    /* micro-batches that were skipped for their numbers */
    uint64_t restored, died;
    uint64_t checkpoints; /* whose counters were compared */
};

/* 0 when it holds; ZL_EINPUT names the line and what contradicts what. */
int zl_events_check(const char *run_dir, struct zl_events_proof *proof, struct zl_error *err);

#endif
