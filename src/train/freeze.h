/*
 * --freeze auto: whether the stage at the front trains. On answers of a few words its adapters hardly matter, on running text they do, and no
 * look at the data tells beforehand; so a few steps of the run are made both ways, and the loss on the steps behind them decides. A function of
 * the setup alone: the same run decides the same.
 */
#ifndef ZL_TRAIN_FREEZE_H
#define ZL_TRAIN_FREEZE_H

#include "train/setup.h"

struct zl_freeze_probe {
    uint64_t steps;     /* made each way; 0: the run is too short for a probe, and nothing is frozen */
    double before, trained, frozen; /* mean loss on the steps behind those, of the base model and after both ways */
    bool freeze;
};

/* With the readouts fitted and nothing frozen. */
int zl_freeze_probe(const struct zl_setup *s, const struct zl_train_options *o, struct zl_freeze_probe *p, struct zl_error *err);

#endif
