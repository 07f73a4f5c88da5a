/*
 * Generation with a key/value cache: one sequence, forward only, weights read straight from their stored form. Used by
 * `zerolock generate` and by exact-match evaluation. Sampling is not here.
 */
#ifndef ZL_MODEL_DECODER_H
#define ZL_MODEL_DECODER_H

#include "model/block.h"

struct zl_decoder {
    const struct zl_model *model;
    struct zl_block block; /* all layers, forward only */
    struct zl_kv *kv;      /* [layers] */
    struct zl_arena cache;
    int64_t capacity, chunk, at; /* positions; tokens at once; positions used */
    int32_t *positions;
    float *x, *logits; /* [chunk][d], [vocab] */
};

/* capacity: the most positions of prompt and answer together. chunk: tokens of a prompt computed at once. compute: the format in
 * which the layers multiply by their weights; in bfloat16 only a prompt's are, a single token stays in float32. */
int zl_decoder_open(struct zl_decoder *d, const struct zl_model *m, const struct zl_adapter *adapter, int64_t capacity,
                    int64_t chunk, enum zl_compute compute, int threads, struct zl_error *err);
void zl_decoder_close(struct zl_decoder *d);
void zl_decoder_reset(struct zl_decoder *d); /* forget the sequence */

/* Append n >= 1 tokens; returns the logits [vocab] behind the last one, or NULL when they do not fit into the capacity. */
const float *zl_decoder_feed(struct zl_decoder *d, const int32_t *ids, int64_t n);

#endif
