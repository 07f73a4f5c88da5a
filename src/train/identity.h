/*
 * What a run's result follows from: model, rows, order, cut, adapter, optimizer, number formats. A run goes on only where all of it is
 * as it was. Threads, placement, ring depth, recomputation, checkpoints and talk do not belong to it: they change no bit of the result.
 */
#ifndef ZL_TRAIN_IDENTITY_H
#define ZL_TRAIN_IDENTITY_H

#include <jansson.h>

#include "train/setup.h"

/* A new object: what users call it -> a number, a word, or the XXH3-128 of a content. Of the model's tensors names, types, shapes and some pages
 * of each are looked at, so that large models are not read whole. NULL without memory. */
json_t *zl_identity_make(const struct zl_setup *s, const struct zl_train_options *o);

/* The differences as one sentence's part ("--lr was 0.003 and is 0.001; the training rows are others"), cut to `size`; returns how many. */
unsigned zl_identity_compare(const json_t *then, const json_t *now, char *text, size_t size);

#endif
