/*
 * The hidden states behind the frozen stages that stand at the front, spilled once for all epochs: what such a stage makes of an example is
 * the same each time, so it is made once, before the first step, and the stages behind are fed from the disk. An example is a record,
 * since every epoch packs other examples into a micro-batch.
 */
#ifndef ZL_TRAIN_FROZEN_H
#define ZL_TRAIN_FROZEN_H

#include "train/setup.h"

struct zl_frozen;

/* How many stages that is: 0 where the options do not ask for it, no stage at the front is frozen, or no example comes twice. */
uint32_t zl_frozen_stages(const struct zl_setup *s, const struct zl_train_options *o);
/* What it takes: bytes of the file, of memory while training. */
uint64_t zl_frozen_file_bytes(const struct zl_setup *s, const struct zl_train_options *o);
uint64_t zl_frozen_memory(const struct zl_setup *s);

/* Send all examples, of the training and the held-out data, through the s->n_cached stages, one stage in memory at a time. *seconds: what
 * it took. */
int zl_frozen_open(struct zl_frozen **out, const struct zl_setup *s, const struct zl_train_options *o, const char *spill_dir,
                   double *seconds, struct zl_error *err);
void zl_frozen_close(struct zl_frozen *f); /* NULL does nothing */

/* The hidden states [tokens][d] of a micro-batch of the run's order, or of the evaluation's. */
int zl_frozen_gather(struct zl_frozen *f, bool held_out, uint64_t micro, float *hidden, struct zl_error *err);

#endif
