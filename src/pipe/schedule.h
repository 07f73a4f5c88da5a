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
#define ZL_LAG_USUAL  2
#define ZL_LAG_MAX    64

struct zl_schedule {
    bool local;  /* every stage has a loss of its own: nothing comes back over a boundary */
    bool single; /* one stage holds all layers */
    bool flush;  /* the pipeline runs empty at the end of a step, and the gradient's norm is that of all stages */
    enum zl_stage_weights weights;
    uint32_t (*ahead)(uint32_t stage, uint32_t stages, uint32_t lag); /* see zl_schedule_ahead */
    uint32_t lag; /* micro-batches that a stage is ahead of the next one with its forwards when both run a backward; 1 is the least that
                     lets both work at one time, more of them even out micro-batches of different size. Decides which weights a gradient
                     meets. 0: it has no meaning */
};

extern const struct zl_schedule zl_schedules[ZL_SCHEDULES];
extern const char *const zl_schedule_names[ZL_SCHEDULES + 1]; /* as users write them; NULL behind the last */

/* A schedule as its users have it: async's lag (0: the usual one) and whether it replays are theirs to choose. */
struct zl_schedule zl_schedule_make(enum zl_schedule_kind kind, uint32_t lag, bool replay);

/* Forwards of stage k of K that may wait for their backward after one has run. */
uint32_t zl_schedule_ahead(const struct zl_schedule *s, uint32_t stage, uint32_t stages);

/* How many micro-batches stage k of K can hold that wait for their backward, the running one included, when a step has at most
 * `micro` of them. */
uint32_t zl_schedule_in_flight(const struct zl_schedule *s, uint32_t stage, uint32_t stages, uint64_t micro);

#endif
