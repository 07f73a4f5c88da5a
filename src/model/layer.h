/*
 * One decoder layer, forward and backward, with its adapters: pre-norm attention and gated MLP (the llama family). Knows nothing of
 * threads beyond its team, of stages or of losses. What the backward needs is kept in struct zl_acts; what is cheap to make
 * again (the normed inputs, the gated product) is made again.
 */
#ifndef ZL_MODEL_LAYER_H
#define ZL_MODEL_LAYER_H

#include "base/arena.h"
#include "kernel/attention.h"
#include "kernel/team.h"
#include "model/lora.h"
#include "model/model.h"

/* The tokens of a micro-batch: whole sequences one after the other. */
struct zl_tokens {
    int64_t t;
    const int32_t *positions; /* [t] within each sequence */
    int n_seqs;
    const struct zl_attn_seq *seqs;
};

/* What one layer keeps of a forward for its backward. x is the input (not owned), y the output: the next layer's x. */
struct zl_acts {
    const float *x;           /* [t][d] */
    float *rstd_attn, *rstd_mlp; /* [t] */
    float *qkv;               /* [t][q + 2 kv], rotated */
    float *ao;                /* [t][q]: attention's output before o_proj */
    float *lse;               /* [t][heads] */
    float *mid;               /* [t][d]: after the attention's residual */
    float *gate_up;           /* [t][2 ffn]; the backward overwrites it */
    float *xa[ZL_GROUPS];     /* [t][sum of ranks]: A x of each group */
    float *y;                 /* [t][d] */
};

/* Buffers that live only inside one layer's forward or backward; shared by all layers of a stage. */
struct zl_work {
    float *xn;       /* [t][d] */
    float *dxn;      /* [t][d] */
    float *wide;     /* [t][max(ffn, 2 q + 2 kv)] */
    float *dxa;      /* [t][largest sum of ranks] */
};

/* What the backward computes again instead of keeping it: nothing but norms and the gated product (always cheap); also gate and up
 * (half of a layer's forward, over half of its memory); or the whole layer from its input. The bits are the same. */
enum zl_recompute { ZL_RECOMPUTE_NONE, ZL_RECOMPUTE_SELECTIVE, ZL_RECOMPUTE_FULL };

/* Take the above for up to t tokens from an arena (a counting arena gives the plan's numbers). */
void zl_acts_take(struct zl_arena *a, struct zl_acts *acts, const struct zl_config *c, const struct zl_lora_layer *l, int64_t t);
/* The same for a layer that shares with `first` what `recompute` makes again. */
void zl_acts_share(struct zl_arena *a, struct zl_acts *acts, const struct zl_acts *first, enum zl_recompute recompute,
                   const struct zl_config *c, const struct zl_lora_layer *l, int64_t t);
uint64_t zl_work_width(const struct zl_config *c); /* of the wide buffer */
void zl_work_take(struct zl_arena *a, struct zl_work *w, const struct zl_config *c, const struct zl_lora *l, int64_t t,
                  bool backward);

/* Keys and values kept for generation: rows 0..  of one sequence. */
struct zl_kv {
    float *k, *v; /* [capacity][kv] */
    int64_t at;   /* rows already there */
};

/* y = layer(x). acts->x is set by the caller. w: the adapters' flat vector. kv: NULL in training; else the tokens follow those in
 * kv, are appended to it, and see them (one sequence). */
void zl_layer_forward(const struct zl_team *team, const struct zl_model *m, uint32_t index, const struct zl_lora_layer *l,
                      const float *w, const struct zl_tokens *tok, struct zl_acts *acts, struct zl_work *work,
                      const struct zl_kv *kv);

/* Make again what this layer shared with others since its forward; before its backward. */
void zl_layer_again(const struct zl_team *team, const struct zl_model *m, uint32_t index, const struct zl_lora_layer *l,
                    const float *w, const struct zl_tokens *tok, struct zl_acts *acts, struct zl_work *work,
                    enum zl_recompute recompute);

/* dx: in d loss / d y, out d loss / d x when need_dx, else garbage. grad += gradients of the adapters (same layout as w). */
void zl_layer_backward(const struct zl_team *team, const struct zl_model *m, uint32_t index, const struct zl_lora_layer *l,
                       const float *w, float *grad, const struct zl_tokens *tok, struct zl_acts *acts, struct zl_work *work,
                       float *dx, bool need_dx);

#endif
