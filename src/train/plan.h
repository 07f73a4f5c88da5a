/* The plan of a run before the run: the cut, memory by part, and a forecast of speed from a few seconds' probe. */
#ifndef ZL_TRAIN_PLAN_H
#define ZL_TRAIN_PLAN_H

#include <stdio.h>

#include "base/error.h"
#include "train/options.h"

/* Plan the run that `o` describes and print it to f as people read it. Nothing is written to o->output. */
int zl_plan_run(const struct zl_train_options *o, FILE *f, struct zl_error *err);

#endif
