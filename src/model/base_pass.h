/*
 * The base model forward, with its hidden states told at some of the layers: what readouts are fitted on and anchored to. No adapters, no
 * gradient; one micro-batch at a time.
 */
#ifndef ZL_MODEL_BASE_PASS_H
#define ZL_MODEL_BASE_PASS_H

#include "model/block.h"

struct zl_base_pass {
    struct zl_block block; /* forward only, all layers */
    float *x;              /* [tokens][d] embedding */
    uint32_t n;
    uint32_t *landing;     /* [n] layers below each told state: 1 .. layers */
    float **saved;         /* [n] [tokens][d] */
};

/* tokens, longest: of the largest micro-batch. On failure *p is still to be closed. */
int zl_base_pass_open(struct zl_base_pass *p, const struct zl_model *m, int threads, enum zl_compute compute, int64_t tokens, int64_t longest,
                      const uint32_t *landing, uint32_t n, struct zl_error *err);
void zl_base_pass_close(struct zl_base_pass *p);

/* Fills saved; returns the states before the final norm [tok->t][d], valid until the next run. */
const float *zl_base_pass_run(struct zl_base_pass *p, const int32_t *ids, const struct zl_tokens *tok);

#endif
