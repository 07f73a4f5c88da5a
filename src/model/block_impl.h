/* What the files of a block share. */
#ifndef ZL_MODEL_BLOCK_IMPL_H
#define ZL_MODEL_BLOCK_IMPL_H

#include "kernel/head.h"
#include "model/block.h"

static inline uint32_t zl_block_layers(const struct zl_block *b)
{
    return b->spec.n_own + b->spec.n_shadow;
}

static inline const struct zl_lora_layer *zl_block_lora(const struct zl_block *b, uint32_t i)
{
    return i < b->spec.n_own ? &b->own.layer[i] : &b->shadow.layer[i - b->spec.n_own];
}

/* What the backward of layer i computes again. */
static inline enum zl_recompute zl_block_mode(const struct zl_block *b, struct zl_again again, uint32_t i)
{
    return i > b->lead && i - b->lead <= again.spared ? again.mode - 1 : again.mode;
}

/* Give the selected slot a micro-batch of so many tokens: its layers' activations, and what will be computed again. */
void zl_block_arrange(struct zl_block *b, int64_t tokens);
/* Go on with the micro-batch of a slot. */
void zl_block_select(struct zl_block *b, uint32_t slot);

/* dzn [n][d], the gradient of the cross-entropy of the labelled rows at the final norm's output: make it that of the loss with belief. */
void zl_block_believe(struct zl_block *b, const struct zl_head *head, int64_t n, float weight, float *dzn);

#endif
