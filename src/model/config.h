/*
 * What a decoder's shape is, whatever file it came from. Filled by config_hf.c from config.json or by config_gguf.c from
 * GGUF metadata, then checked once here: everything downstream may trust it.
 */
#ifndef ZL_MODEL_CONFIG_H
#define ZL_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "format/gguf.h"
#include "kernel/ops.h"

struct zl_arch; /* model/arch.h */

enum zl_rope_kind { ZL_ROPE_PLAIN, ZL_ROPE_LINEAR, ZL_ROPE_LLAMA3, ZL_ROPE_YARN, ZL_ROPE_DYNAMIC };

struct zl_rope_config {
    enum zl_rope_kind kind;
    double theta;
    double factor;
    double low_freq, high_freq;           /* llama3 */
    double beta_fast, beta_slow;          /* yarn */
    double attention_factor;              /* yarn; 0: by the formula 0.1 ln(factor) + 1 */
    uint64_t original_positions;          /* llama3, yarn, dynamic */
};

struct zl_config {
    const struct zl_arch *arch;
    uint32_t layers, heads, kv_heads, head_dim;
    uint32_t d;   /* hidden size */
    uint32_t ffn; /* MLP width */
    uint32_t vocab;
    uint32_t max_positions;
    double norm_eps;
    enum zl_activation act;
    bool tied;             /* the head is the embedding */
    bool attention_bias;   /* config.json only: optional biases are in use, and then none may be missing */
    bool rope_interleaved; /* rows of q and k are permuted for neighbouring pairs (llama in GGUF) */
    struct zl_rope_config rope;
};

/* Read and check config.json of a folder, or the metadata of a GGUF file. ZL_EINPUT names the key, what it holds and what was expected;
 * after 0 every size is within bounds that its products fit in 64 bits. */
int zl_config_from_hf(const char *dir, struct zl_config *c, struct zl_error *err);
int zl_config_from_gguf(const struct zl_gguf *g, struct zl_config *c, struct zl_error *err);

/* Ranges and divisibility, with `where` (the file) in the message. */
int zl_config_check(const struct zl_config *c, const char *where, struct zl_error *err);

/* Inverse frequencies [head_dim/2] and the factor that cos and sin are multiplied by (1 but for yarn). divisors (may be
 * NULL): rope_freqs.weight of a GGUF file, which stands for llama3 scaling; linear and yarn scaling come on top. positions: the longest sequence that will be
 * used; `dynamic` scaling beyond the original context is refused. */
int zl_rope_frequencies(const struct zl_config *c, const float *divisors, uint64_t positions, double *inv_freq,
                        double *attention_factor, struct zl_error *err);

#endif
