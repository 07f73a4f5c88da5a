/*
 * Architectures as tables: which tensors a layer has, under which names, with which shapes. Adding a family of decoders
 * means adding a row here (and, where its arithmetic is new, a case in layer.c); schedules never look inside.
 */
#ifndef ZL_MODEL_ARCH_H
#define ZL_MODEL_ARCH_H

#include <stdbool.h>

#include "kernel/ops.h"

enum zl_role { /* tensors of one layer */
    ZL_W_Q,
    ZL_W_K,
    ZL_W_V,
    ZL_W_O,
    ZL_W_GATE,
    ZL_W_UP,
    ZL_W_DOWN,
    ZL_LINEARS, /* those before are the linear layers that can carry an adapter */
    ZL_W_NORM_ATTN = ZL_LINEARS,
    ZL_W_NORM_MLP,
    ZL_B_Q,
    ZL_B_K,
    ZL_B_V,
    ZL_B_O,
    ZL_ROLES
};

enum zl_dim { ZL_DIM_NONE, ZL_DIM_D, ZL_DIM_FFN, ZL_DIM_Q, ZL_DIM_KV }; /* q = heads * head_dim, kv = kv_heads * head_dim */

struct zl_role_info {
    const char *hf;   /* printf pattern with one %u: the layer; the module's own name is this less ".weight" */
    const char *gguf;
    enum zl_dim out, in; /* shape [out][in]; in == NONE: a vector [out] */
    bool optional;
};

struct zl_arch {
    const char *name;        /* config.json's model_type */
    const char *gguf_name;   /* general.architecture */
    enum zl_activation act;
    bool gguf_permutes_qk;   /* converter permutes rows of q and k, rope on neighbours */
    const struct zl_role_info *roles; /* [ZL_ROLES]; hf == NULL: the family has no such tensor */
    const char *hf_embed, *hf_norm, *hf_head; /* with the prefix "model." where the family has it */
    const char *gguf_embed, *gguf_norm, *gguf_head, *gguf_rope_freqs;
};

/* By either name; NULL: not one of ours. zl_arch_names lists ours for the error message. */
const struct zl_arch *zl_arch_by_hf(const char *model_type);
const struct zl_arch *zl_arch_by_gguf(const char *name);
const char *zl_arch_names(void);

/* Short module names as in PEFT's target_modules, in the order of enum zl_role: "q_proj", … */
extern const char *const zl_linear_names[ZL_LINEARS];

#endif
