/*
 * What parts of the model cost, and from that what a schedule would: the numbers behind the choice of places, the sharing out of cores and
 * the table of `zerolock plan`. Estimated from the sizes of the products, or measured on a few layers of the model.
 */
#ifndef ZL_TRAIN_COSTS_H
#define ZL_TRAIN_COSTS_H

#include "sim/sim.h"
#include "train/setup.h"

/* Nanoseconds a token on one core; of an estimate only the ratios mean anything. */
struct zl_costs {
    double layer_forward, layer_backward;
    double last_readout, local_readout; /* norm, head and loss, forward and backward, averaged over labelled tokens and others */
    double serial;                      /* share of the work that a team's second thread does not shorten */
    double core_share;                  /* what other programs left of a core while this was measured; the costs are those of a whole core */
};

void zl_costs_estimate(const struct zl_setup *s, struct zl_costs *c);
/* A few layers and the head on a micro-batch of usual size, with one thread and with all: takes about a step. After zl_setup_make. */
int zl_costs_measure(const struct zl_setup *s, struct zl_costs *c, struct zl_error *err);

/* The steps of a run with the setup's cut, places and groups, on paper: tokens a second. */
int zl_costs_speed(const struct zl_costs *c, const struct zl_setup *s, double *tokens_per_second, struct zl_error *err);

/* Work of a stage on a micro-batch of `tokens`, on one core. */
double zl_costs_of_stage(const struct zl_costs *c, const struct zl_setup *s, uint32_t stage);

#endif
