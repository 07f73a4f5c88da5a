/* The training run as a whole: from options to a run folder. */
#ifndef ZL_TRAIN_TRAIN_H
#define ZL_TRAIN_TRAIN_H

#include "base/error.h"
#include "train/options.h"

/* Do the run that `o` describes. Talks through base/log.h and base/progress.h. 0, or a negative code with the sentence in err;
 * ZL_ESTOPPED when o->hooks asked for it, with the run's folder in a good state. */
int zl_train_run(const struct zl_train_options *o, struct zl_error *err);

#endif
