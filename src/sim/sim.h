/*
 * Schedules on paper: what every stage does when, for given costs, by the rule that the engine follows (pipe/schedule.h), computed
 * without a thread or a clock. Time is whole nanoseconds, so a simulation is the same everywhere and closed forms hold exactly.
 *
 * A stage's next operation follows from its own past alone: F(m) in order; B(oldest) when more than `ahead` micro-batches wait for it,
 * or when the step is over and the schedule flushes; the update behind the step's last B. An operation is ready when its input has
 * come (activations from before, gradients from behind) and its output has a place to go to. A worker that is free takes the first
 * ready operation of its stages: backward before forward, then the oldest micro-batch, then the deeper stage.
 */
#ifndef ZL_SIM_SIM_H
#define ZL_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "pipe/trace.h"

#define ZL_SIM_STAGES 256
#define ZL_SIM_OPERATIONS 4000000 /* stages times micro-batches, at most */

/* What a stage's work on a micro-batch takes on its worker, and what it keeps. */
struct zl_sim_cost {
    uint64_t forward_ns, loss_ns, backward_ns;
    uint64_t update_ns;        /* once a step */
    uint64_t activation_bytes; /* kept from the forward to the end of the backward */
    uint64_t input_bytes;      /* of it, the stage's input: all that is kept where the forward is replayed */
};

struct zl_sim_request {
    uint32_t stages, workers;
    uint64_t micro, steps;    /* micro-batches a step; steps */
    const uint64_t *step_micro; /* [steps], where steps differ; NULL: `micro` each */
    bool local;               /* no gradient comes back over a boundary */
    bool flush;               /* empty at the end of a step; a stage updates when all have their gradients */
    bool replay;              /* the forward is made again before the backward */
    bool frozen[ZL_SIM_STAGES]; /* forward only */
    uint64_t ahead[ZL_SIM_STAGES]; /* micro-batches that may wait for their backward after a forward */
    uint32_t worker[ZL_SIM_STAGES]; /* who runs the stage, below `workers` */
    bool common;              /* every worker runs every stage, one at a time, whatever `worker` says */
    struct zl_sim_cost cost[ZL_SIM_STAGES];
    /* What one span of a micro-batch takes, where they differ; of an update the step's last one. NULL: the stage's cost. */
    uint64_t (*span_ns)(void *context, uint32_t stage, enum zl_trace_kind kind, uint64_t micro);
    void *context;
    uint64_t ring_depth;      /* micro-batches that a stage may have put before the next one */
    uint64_t window;          /* block by block over so many steps (sweep); 0: no */
};

struct zl_sim_stage {
    uint64_t busy_ns;
    uint64_t begin_ns, end_ns; /* of its first and last operation */
    uint64_t peak_micro;       /* micro-batches between forward and backward, at most */
    uint64_t peak_bytes;
};

struct zl_sim_worker {
    uint64_t busy_ns, begin_ns, end_ns;
};

struct zl_sim_result {
    uint64_t makespan_ns;
    uint64_t peak_bytes; /* live activations of all stages at one moment */
    struct zl_sim_stage stage[ZL_SIM_STAGES];
    struct zl_sim_worker worker[ZL_SIM_STAGES];
    struct zl_trace_event *event; /* [n] spans, operation by operation in the order of their begins */
    uint64_t n;
};

/* ZL_EUSAGE for a request that is no pipeline, or one that can never finish (a gradient waited for that needs a later forward). Free
 * the result after success. */
int zl_sim_run(const struct zl_sim_request *r, struct zl_sim_result *out, struct zl_error *err);
void zl_sim_free(struct zl_sim_result *r);

/* Shares of a worker's time in which it does nothing: of the whole run; and after its first operation, until its last one. */
double zl_sim_bubble(const struct zl_sim_result *r, uint32_t worker);
double zl_sim_wait(const struct zl_sim_result *r, uint32_t worker);
/* The same for all workers together. */
double zl_sim_bubble_all(const struct zl_sim_result *r, uint32_t workers);
double zl_sim_wait_all(const struct zl_sim_result *r, uint32_t workers);

#endif
