/*
 * Causal grouped-query attention over packed sequences, tiled with an online softmax (Dao et al., FlashAttention-2, 2023):
 * no T x T matrix, no padding; sequences never see each other. Query head h reads key/value head h / (heads / kv_heads).
 */
#ifndef ZL_KERNEL_ATTENTION_H
#define ZL_KERNEL_ATTENTION_H

#include <stdint.h>

#include "kernel/team.h"

/* Queries are rows [q_begin, q_begin + q_len) of q; keys rows [kv_begin, kv_begin + kv_len) of k and v. Query i sees the keys
 * j <= i + kv_len - q_len: with kv_len > q_len the leading keys are a cache (generation). kv_len >= q_len >= 1. */
struct zl_attn_seq {
    int64_t q_begin, q_len, kv_begin, kv_len;
};

struct zl_attn {
    int heads, kv_heads, head_dim; /* head_dim any value 1..256 (24, 64, 80, 96, 128 …) */
    float scale;                   /* usually 1/sqrt(head_dim) */
    int n_seqs;
    const struct zl_attn_seq *seqs;
    const float *q, *k, *v; /* rows [..][heads*head_dim], [..][kv_heads*head_dim] */
    int64_t ldq, ldk, ldv;  /* row strides in floats: q, k, v may be columns of one buffer */
};

uint64_t zl_attention_scratch_bytes(int threads, int heads, int kv_heads, int head_dim, int64_t longest, int64_t total_tokens);

/* out [T][heads*head_dim] (row stride ldo); lse [T][heads] = log sum exp of the scaled scores, kept for the backward (may be NULL). */
void zl_attention(const struct zl_team *team, const struct zl_attn *a, float *out, int64_t ldo, float *lse);

/* Gradients from dout and the saved out, lse: dq, dk, dv with the row strides of q, k, v (ldq, ldk, ldv); overwritten, not
 * accumulated. Needs q_len == kv_len in every sequence. They may not alias the inputs. */
void zl_attention_backward(const struct zl_team *team, const struct zl_attn *a, const float *out, const float *dout,
                           int64_t ldo, const float *lse, float *dq, float *dk, float *dv);

#endif
