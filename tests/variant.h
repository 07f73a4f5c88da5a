/*
 * Variants of the tiny model, made by editing its files, and batches of random tokens to run through it.
 */
#ifndef ZL_TESTS_VARIANT_H
#define ZL_TESTS_VARIANT_H

#include "format/tensors.h"
#include "model/block.h"
#include "tests/tiny.h"

/* Set keys of config.json: a JSON object as text; null removes a key. */
void variant_config(const struct tiny *t, const char *changes);

/* Rewrite model.safetensors after `edit` had its way with the entries: it may change names, shapes and data, drop or append (up to
 * 8 more). Names and data that it puts in must live until variant_weights returns. */
struct variant_tensors {
    struct zl_safetensors_entry *e;
    size_t n;
};
void variant_weights(const struct tiny *t, void (*edit)(struct variant_tensors *v, const void *arg), const void *arg);

struct zl_safetensors_entry *variant_find(const struct variant_tensors *v, const char *name);
void variant_drop(struct variant_tensors *v, const char *name);

/* Open the tiny model, failing the test otherwise. */
void variant_open(const struct tiny *t, uint64_t positions, struct zl_model *m);

/* Whole sequences of random ids below `vocab`, everything but the first token of each a label. */
struct batch {
    struct zl_tokens tok;
    int32_t *ids, *labels, *positions;
    struct zl_attn_seq *seqs;
    int64_t longest;
    float *x; /* [t][d] embedding rows */
};
void batch_make(struct batch *b, const struct zl_model *m, const int64_t *lengths, int n, uint32_t vocab, uint32_t seed);
void batch_free(struct batch *b);

#endif
