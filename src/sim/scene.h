/*
 * From a model and a machine in a few numbers to what the simulation needs: the cut of train, what each stage costs, who runs it. Costs
 * are given for one core of speed 1; a core group of n cores of speed v takes cost / v (serial + (1 - serial) / n).
 */
#ifndef ZL_SIM_SCENE_H
#define ZL_SIM_SCENE_H

#include "pipe/partition.h"
#include "pipe/placement.h"
#include "pipe/schedule.h"
#include "sim/sim.h"

#define ZL_SIM_GROUPS 64

struct zl_sim_group {
    uint32_t cores;
    double speed;
};

struct zl_scene {
    enum zl_schedule_kind kind;
    struct zl_schedule schedule;
    uint64_t window; /* of steps, of a sweep */
    uint64_t stages, interleave; /* interleave: parts of the model a stage, >= 1 */
    uint64_t micro, steps, ring_depth;
    enum zl_placement placement;

    /* the model, for a micro-batch on one core of speed 1 */
    uint64_t layers;
    double layer_ns, backward; /* forward of a layer; its backward in terms of that */
    double readout_ns;         /* final norm, head and loss, forward and backward */
    double update_ns;          /* of a layer's adapters */
    uint64_t layer_bytes, input_bytes; /* kept by a layer for its backward; a stage's input */
    enum zl_readout_kind readout;
    uint64_t look_ahead;       /* 0: see zl_partition_look_ahead() */
    const uint64_t *bounds, *freeze;
    uint32_t n_bounds, n_freeze;
    /* costs of stages given outright, [stages x interleave], NULL: by the layers */
    const double *forward_ns, *loss_ns, *backward_ns;

    /* the machine */
    struct zl_sim_group group[ZL_SIM_GROUPS]; /* n_groups == 0: `cores` cores of speed 1, shared out evenly */
    uint32_t n_groups, cores;
    double serial; /* share of the work that a second core does not shorten */
};

struct zl_sim_plan {
    struct zl_partition partition;
    struct zl_sim_group group[ZL_SIM_STAGES]; /* of each worker */
    struct zl_sim_request request;
};

/* ZL_EUSAGE with the sentence when the numbers do not fit together. */
int zl_scene_plan(const struct zl_scene *s, struct zl_sim_plan *plan, struct zl_error *err);

#endif
