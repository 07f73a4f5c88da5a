/* Architectures as tables: see arch.h. Names are those of Hugging Face's modules and of the GGUF specification. */
#include "model/arch.h"

#include <stddef.h>
#include <string.h>

const char *const zl_linear_names[ZL_LINEARS] = {
    [ZL_W_Q] = "q_proj",       [ZL_W_K] = "k_proj",   [ZL_W_V] = "v_proj",       [ZL_W_O] = "o_proj",
    [ZL_W_GATE] = "gate_proj", [ZL_W_UP] = "up_proj", [ZL_W_DOWN] = "down_proj",
};

#define HF "model.layers.%u."
#define GG "blk.%u."

static const struct zl_role_info llama_roles[ZL_ROLES] = {
    [ZL_W_Q] = {HF "self_attn.q_proj.weight", GG "attn_q.weight", ZL_DIM_Q, ZL_DIM_D, false},
    [ZL_W_K] = {HF "self_attn.k_proj.weight", GG "attn_k.weight", ZL_DIM_KV, ZL_DIM_D, false},
    [ZL_W_V] = {HF "self_attn.v_proj.weight", GG "attn_v.weight", ZL_DIM_KV, ZL_DIM_D, false},
    [ZL_W_O] = {HF "self_attn.o_proj.weight", GG "attn_output.weight", ZL_DIM_D, ZL_DIM_Q, false},
    [ZL_W_GATE] = {HF "mlp.gate_proj.weight", GG "ffn_gate.weight", ZL_DIM_FFN, ZL_DIM_D, false},
    [ZL_W_UP] = {HF "mlp.up_proj.weight", GG "ffn_up.weight", ZL_DIM_FFN, ZL_DIM_D, false},
    [ZL_W_DOWN] = {HF "mlp.down_proj.weight", GG "ffn_down.weight", ZL_DIM_D, ZL_DIM_FFN, false},
    [ZL_W_NORM_ATTN] = {HF "input_layernorm.weight", GG "attn_norm.weight", ZL_DIM_D, ZL_DIM_NONE, false},
    [ZL_W_NORM_MLP] = {HF "post_attention_layernorm.weight", GG "ffn_norm.weight", ZL_DIM_D, ZL_DIM_NONE,
                       false},
    [ZL_B_Q] = {HF "self_attn.q_proj.bias", GG "attn_q.bias", ZL_DIM_Q, ZL_DIM_NONE, true},
    [ZL_B_K] = {HF "self_attn.k_proj.bias", GG "attn_k.bias", ZL_DIM_KV, ZL_DIM_NONE, true},
    [ZL_B_V] = {HF "self_attn.v_proj.bias", GG "attn_v.bias", ZL_DIM_KV, ZL_DIM_NONE, true},
    [ZL_B_O] = {HF "self_attn.o_proj.bias", GG "attn_output.bias", ZL_DIM_D, ZL_DIM_NONE, true},
};

static const struct zl_arch archs[] = {
    {
        .name = "llama",
        .gguf_name = "llama",
        .act = ZL_SILU,
        .gguf_permutes_qk = true,
        .roles = llama_roles,
        .hf_embed = "model.embed_tokens.weight",
        .hf_norm = "model.norm.weight",
        .hf_head = "lm_head.weight",
        .gguf_embed = "token_embd.weight",
        .gguf_norm = "output_norm.weight",
        .gguf_head = "output.weight",
        .gguf_rope_freqs = "rope_freqs.weight",
    },
};

const struct zl_arch *zl_arch_by_hf(const char *model_type)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (strcmp(archs[i].name, model_type) == 0)
            return &archs[i];
    return NULL;
}

const struct zl_arch *zl_arch_by_gguf(const char *name)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (strcmp(archs[i].gguf_name, name) == 0)
            return &archs[i];
    return NULL;
}

const char *zl_arch_names(void)
{
    return "llama";
}
