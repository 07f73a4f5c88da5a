/*
 * What the readouts miss of the base model, token by token, spilled once for all epochs: c = y - A x - b, where x is the base model's hidden
 * state at a readout's landing layer, y the one before the final norm. An anchored readout is z = A u + b + c: at the start, where u is x, it is
 * the model's own prediction, and training moves it by A (u - x).
 *
 * One pass of the base model over the examples that the run takes, before the first step. An example is a record, as every epoch packs
 * others into a micro-batch, with its labelled positions only.
 */
#ifndef ZL_TRAIN_ANCHOR_H
#define ZL_TRAIN_ANCHOR_H

#include "train/setup.h"

struct zl_anchor;

/* How many stages are anchored: 0 where the options do not ask for it or each one reads out through the whole model. */
uint32_t zl_anchor_stages(const struct zl_setup *s, const struct zl_train_options *o);
/* What it takes: bytes of the file, of memory while training. */
uint64_t zl_anchor_file_bytes(const struct zl_setup *s, const struct zl_train_options *o);
uint64_t zl_anchor_memory(const struct zl_setup *s);

/* The pass, with the readouts fitted. *seconds is added to. */
int zl_anchor_open(struct zl_anchor **out, const struct zl_setup *s, const struct zl_train_options *o, const char *spill_dir,
                   double *seconds, struct zl_error *err);
void zl_anchor_close(struct zl_anchor *a); /* NULL does nothing */

/* Anchors of a micro-batch of the run's order into its packet. */
int zl_anchor_gather(struct zl_anchor *a, uint64_t micro, struct zl_packet *p, const struct zl_packet_layout *l, struct zl_error *err);

#endif
