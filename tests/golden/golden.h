/*
 * What the golden tests share: opening a reference folder, its batches as packed tokens, and comparing with the tolerances that the
 * references' own README measured.
 */
#ifndef ZL_GOLDEN_H
#define ZL_GOLDEN_H

#include "tests/unit/test.h"

#include "format/adapter.h"
#include "model/block.h"

struct golden {
    struct zl_model model;
    struct zl_tensors *ref;
};

/* One batch: all sequences one after the other; labels moved so that labels[t] is what position t predicts, -1 where nothing. */
struct golden_batch {
    struct zl_tokens tok;
    int32_t *ids, *labels, *positions;
    struct zl_attn_seq *seqs;
    int64_t longest;
    uint64_t n_labels;
};

/* model and reference file below the shared folder; skips the test where they are absent. */
void golden_open(struct golden *g, const char *model, const char *reference, uint64_t positions);
void golden_close(struct golden *g);

const struct zl_tensor *golden_tensor(const struct golden *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
double golden_scalar(const struct golden *g, int64_t i, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* prefix.input_ids, .labels (may be absent), .seq_offsets (absent: one sequence). */
void golden_batch(const struct golden *g, const char *prefix, struct golden_batch *b);
void golden_batch_free(struct golden_batch *b);

/* Embedding rows of the batch, [t][d], malloc'd. */
float *golden_embed(const struct golden *g, const struct golden_batch *b);

/* Largest absolute difference and root mean square of the difference relative to the reference's; prints both with their bounds and
 * fails beyond either. */
void golden_close_to(const char *what, const float *got, const struct zl_tensor *want, double abs_bound, double rms_bound);
void golden_scalar_close_to(const char *what, double got, double want, double bound);

/* Logits [rows][vocab] of hidden states before the final norm, malloc'd. */
float *golden_logits(const struct golden *g, struct zl_block *b, const float *hidden, int64_t rows);

/* Compare a flat vector in a block's layout (gradients or weights) with the tensors `prefix` + PEFT name of the own layers. */
void golden_flat_close_to(const struct golden *g, const struct zl_block *b, const float *flat, const char *prefix, double abs_bound,
                          double rms_bound);

#endif
