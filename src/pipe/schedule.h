/*
 * Schedules as data: what a stage does next follows from a few facts about the schedule, the stage's place and its own inputs, never from
 * time. The rule, for every schedule: forward micro-batches in order; after a forward, when more than `ahead` of them wait for
 * their backward, run the oldest one's; where the schedule flushes, run the rest at the end of a step; update when the
 * step's last backward is done.
 */
#ifndef ZL_PIPE_SCHEDULE_H
#define ZL_PIPE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum zl_schedule_kind {
    ZL_SCHEDULE_BP,
    ZL_SCHEDULE_ZEROLOCK,
    ZL_SCHEDULE_GPIPE,
    ZL_SCHEDULE_1F1B,
    ZL_SCHEDULE_PIPEDREAM,
    ZL_SCHEDULE_ASYNC,
    ZL_SCHEDULE_SWEEP, /* no pipeline: src/train/sweep.h */
    ZL_SCHEDULES
};

enum zl_stage_weights {
    ZL_WEIGHTS_CURRENT, /* the backward finds the weights of its forward unchanged */
    ZL_WEIGHTS_STASHED, /* it takes the weights of its forward from a stash, and its gradient goes to the current ones */
    ZL_WEIGHTS_REPLAYED /* the forward is made again with the current weights, from the stored input */
};

#define ZL_AHEAD_STEP UINT32_MAX /* all micro-batches of a step */

struct zl_schedule {
    bool local;  /* every stage has a loss of its own: nothing comes back over a boundary */
    bool single; /* one stage holds all layers */
    bool flush;  /* the pipeline runs empty at the end of a step, and the gradient's norm is that of all stages */
    enum zl_stage_weights weights;
    uint32_t (*ahead)(uint32_t stage, uint32_t stages); /* forwards that may wait for their backward after one has run */
};

extern const struct zl_schedule zl_schedules[ZL_SCHEDULES];
extern const char *const zl_schedule_names[ZL_SCHEDULES + 1]; /* as users write them; NULL behind the last */

/* How many micro-batches stage k of K can hold that wait for their backward, the running one included, when a step has at most
 * `micro` of them. */
uint32_t zl_schedule_in_flight(const struct zl_schedule *s, uint32_t stage, uint32_t stages, uint64_t micro);

#endif
