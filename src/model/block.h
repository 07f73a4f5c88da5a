/*
 * A block: a run of consecutive layers with their adapters, the look-ahead behind them, a readout and an optimizer: all that one
 * stage needs to train by itself. Plain backpropagation is the block of all layers. Knows no rings and no other block.
 *
 *     x ── own layers ──▶ y (handed on) ── shadow layers ──▶ u ── map ──▶ z ── final norm, head ──▶ local loss
 *
 * Shadow layers are the model's next frozen layers with adapters of the block's own; they are scaffolding and never exported.
 */
#ifndef ZL_MODEL_BLOCK_H
#define ZL_MODEL_BLOCK_H

#include <stdbool.h>

#include "model/kept.h"
#include "model/layer.h"

struct zl_block_spec {
    uint32_t first, n_own; /* layers first .. first + n_own - 1 */
    uint32_t n_shadow;     /* look-ahead behind them */
    bool train;            /* false: forward only, activations are not kept */
    bool has_loss;         /* false: nothing behind the own layers (a frozen block) */
    enum zl_recompute recompute; /* what the backward makes again */
    enum zl_compute compute;     /* in which the layers multiply by their frozen weights */
    const struct zl_lora_spec *lora; /* NULL: no adapters, or those of `adapter`; its `first` counts with an adapter too */
    const struct zl_adapter *adapter; /* start from these weights (own layers; the shadow starts from them too where it has the same layers) */
    uint64_t seed;
    bool map;                   /* an affine map stands behind the last layer */
    const float *map_a, *map_b; /* z = A u + b, [d][d] and [d]; needed when the block computes, not for its plan */
    bool train_map;             /* the block trains a copy of the map with its adapters: given as the block opens, map_a and map_b are what it starts from */
    float belief;               /* share of the loss that is KL(readout of the block before || own) instead of cross-entropy; 0: none */
    bool belief_map;            /* the block before has a map, */
    const float *belief_a, *belief_b; /* this one */
    const int32_t *subset;      /* token ids that the local softmax runs over, ascending; NULL: all */
    const int32_t *subset_index; /* [vocab] position in subset or -1 */
    int64_t n_subset;
    int64_t tokens;  /* the most tokens of a micro-batch */
    int64_t keep_tokens; /* micro-batches up to so many tokens are computed as `recompute` says; a larger one computes again in as
                            many layers as it must to live in the memory of those. 0: all */
    int64_t longest; /* the longest sequence */
    bool halves;     /* keep activations as bfloat16: see model/kept.h */
    uint32_t slots;  /* micro-batches that may be forwarded and wait for their backward at one time; 0: 1 */
    bool need_dx;    /* the backward's d loss / d x is wanted, in dx: goes back through all layers */
    const struct zl_arena *lent; /* activations and scratch live here, beside those of other blocks that never compute at the same time;
                                    not owned, at least activation_bytes + scratch_bytes + 64 of the plan; NULL: the block's own */
    const struct zl_arena *lent_state; /* likewise adapters and optimizer, at least state_bytes: whoever lends it sees to it that a block
                                          that opens finds zeros there, and one that computes what it left there */
    const struct zl_tensor *local_head; /* the rows `subset` of the output head, copied together; NULL: they are taken out of the model's */
};

/* What the backward of a micro-batch computes again: what `mode` says, but one mode less in so many layers, those behind the first that
 * trains. */
struct zl_again {
    enum zl_recompute mode;
    uint32_t spared;
};

struct zl_optimizer {
    float lr, beta1, beta2, eps, weight_decay, clip; /* clip 0: none */
};

struct zl_block {
    struct zl_block_spec spec;
    const struct zl_model *model;
    struct zl_team team;
    struct zl_lora own, shadow;
    uint64_t n_own, n;  /* floats of the own adapters, of all that w holds: own adapters, the shadow's, a map that trains */
    uint64_t n_map;     /* floats of a map that trains, A then b, at the end of w; 0: none */
    uint32_t lead;      /* own layers at the front that do not train and that no gradient goes back through: forward only, nothing kept */
    uint64_t still;     /* floats of their adapters, at the front of w: no update moves them */
    float *w, *g, *m, *v; /* [n] weights, gradients, moments; g, m, v NULL when not training */
    const float *in_use;  /* weights that forward and backward compute with: w, or older ones [n] that the owner kept */
    struct zl_acts *all_acts; /* [slots][n_own + n_shadow layers] */
    struct zl_acts *acts; /* of the selected slot; the last one's y is u */
    struct zl_kept *all_kept, *kept; /* likewise, of activations kept as bfloat16; NULL: they are not */
    struct zl_again *agains; /* [slots] */
    struct zl_work work;
    float *rows[3];     /* [tokens][d]: u, z and normed rows at the labelled positions */
    float *believed[2]; /* likewise, of the readout of the block before; NULL without belief */
    float *rstd, *loss; /* [tokens] */
    int32_t *row_at, *target, *argmax; /* [tokens] */
    const float *anchor; /* [labelled positions][d] to be added to the readout's rows z before a loss that trains; the owner sets it. NULL: none */
    float *dx;          /* [tokens][d] of the selected slot */
    float *gradient;    /* dx where activations are kept as bfloat16 */
    struct zl_arena state, activations;
    uint64_t slot_bytes, fixed_mark; /* of the arena: what a slot may take; where the slots begin, behind scratch and working memory */
    uint32_t slot;                   /* the selected one */
    uint64_t kept_bytes;             /* activations of the micro-batch that was forwarded last, kept until its backward is done */
    struct zl_again again;           /* of its micro-batch */
    uint64_t loss_end_ns;            /* zl_clock_ns when the last loss was known and its backward through the layers began */
};

/* Bytes that a block will take, without taking them. tokens and longest: 1 to 2^31 - 1, as positions in a micro-batch are int32. */
struct zl_block_plan {
    uint64_t state_bytes, activation_bytes, scratch_bytes;
    uint64_t slot_bytes; /* of the activations: what one micro-batch keeps until its backward */
    uint64_t n;          /* floats of own and shadow adapters, and of a map that trains */
};
int zl_block_plan(const struct zl_model *m, const struct zl_block_spec *spec, int threads, struct zl_block_plan *plan,
                  struct zl_error *err);

int zl_block_open(struct zl_block *b, const struct zl_model *m, const struct zl_block_spec *spec, int threads,
                  struct zl_error *err);
void zl_block_close(struct zl_block *b);

/* Own layers on x [t][d], activations into a slot (0 in a block with one); x must stay until the slot's backward is done. Returns y
 * [t][d], valid until the slot's backward or next forward. */
const float *zl_block_forward(struct zl_block *b, uint32_t slot, const struct zl_tokens *tok, const float *x);

/* What follows zl_block_forward on the same slot and tokens: look-ahead, readout, loss over the labelled positions; when the block trains and
 * `backward`, gradients are added to g: d (weight * sum of losses) / d w. labels[t]: the id to be predicted at position t, or -1.
 * Positions whose label is outside the subset are left out (and not counted). With belief the gradient is that of the mixed loss. */
struct zl_loss {
    double sum;       /* cross-entropy, nats */
    uint64_t n, correct; /* labelled positions; those where the likeliest token is the label */
};
void zl_block_loss(struct zl_block *b, uint32_t slot, const struct zl_tokens *tok, const int32_t *labels, float weight,
                   bool backward, struct zl_loss *out);

/* What follows it in a block whose gradient comes from the block behind: dy [t][d] is d (weighted loss) / d y. Gradients are added to g;
 * d loss / d x lies in b->dx until the next call when the spec asks for it. Own layers only. */
void zl_block_backward(struct zl_block *b, uint32_t slot, const struct zl_tokens *tok, const float *dy);

/* Clip by the norm over the block's own and shadow gradients, AdamW step `step` (from 1), zero the gradients. A map that trains is not in
 * the norm, is scaled by the same factor, and does not decay: weight decay would draw it to 0, which is no map. Returns the norm before
 * clipping; without a finite norm, or without any gradient (norm 0: no label was among the tokens), nothing is updated: weight decay
 * and old moments move nothing either. */
double zl_block_update(struct zl_block *b, const struct zl_optimizer *o, int64_t step);

/* The same in two parts, for a norm over several blocks: sum plus the squares of this block's gradients, layer by layer from the last
 * to the first, so that a chain of blocks adds in the order of one block of all layers; and the update by the norm of all. Returns
 * whether it was made. */
double zl_block_sum_squares(const struct zl_block *b, double sum);
bool zl_block_step(struct zl_block *b, const struct zl_optimizer *o, int64_t step, double norm);

/* After two updates every A and B has seen a gradient. Name the first tensor that has not (its first moment is exactly zero), or "". */
void zl_block_unmoved(const struct zl_block *b, char *name, size_t size);

#endif
