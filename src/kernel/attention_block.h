/*
 * Attention on blocks, for one thread: the loops of attention.c, compiled for each instruction set.
 * Internal to this layer.
 *
 * Scores are held transposed, [keys][queries], so that a vector's lanes are queries: the softmax
 * needs no sums across lanes, and the block of weights serves as either operand of the next product
 * as it stands (isa/tile.h).
 */
#ifndef ZL_KERNEL_ATTENTION_BLOCK_H
#define ZL_KERNEL_ATTENTION_BLOCK_H

#include <stdint.h>

#include "kernel/attention.h"
#include "kernel/isa.h"

enum {
    ZL_ATTN_BLOCK = 64, /* queries and keys a block */
    ZL_ATTN_PAD = 16    /* rows in scratch are whole vectors of the widest kind */
};

static inline int64_t zl_attn_padded(int64_t head_dim)
{
    return (head_dim + ZL_ATTN_PAD - 1) / ZL_ATTN_PAD * ZL_ATTN_PAD;
}

/* Floats of scratch for a thread's blocks, forward or backward. */
static inline int64_t zl_attn_block_floats(int64_t head_dim)
{
    return 8 * ZL_ATTN_BLOCK * zl_attn_padded(head_dim) + (2 * ZL_ATTN_BLOCK + 4) * ZL_ATTN_BLOCK;
}

/* One block of queries, starting at q0 of its sequence, of one head, against all the keys that it
 * sees. */
ZL_ISA_DECLARE(void, zl_attn_forward,
               (const struct zl_attn *a, const struct zl_attn_seq *seq, int head, int64_t q0,
                float *scratch, float *out, int64_t ldo, float *lse));

/* The same where the block has a single query: what generation is made of. */
ZL_ISA_DECLARE(void, zl_attn_one,
               (const struct zl_attn *a, const struct zl_attn_seq *seq, int head, int64_t q0,
                float *out, int64_t ldo, float *lse));

struct zl_attn_grad {
    const float *out, *dout;
    int64_t ldo;
    const float *lse;
    float *dq, *dk, *dv;
};

/* What a call of zl_attn_backward gives. Each sum has the same order in all three, so the bits do
 * not tell how work was cut. */
enum zl_attn_part {
    ZL_ATTN_DQ = 1, /* one block of queries of one query head: `block`, `head` */
    ZL_ATTN_DKV,    /* one block of keys of one key/value head, over its query heads */
    ZL_ATTN_BOTH /* all of a sequence and a key/value head; `sums` holds 2 * padded head_dim * keys
                  */
};
ZL_ISA_DECLARE(void, zl_attn_backward,
               (const struct zl_attn *a, const struct zl_attn_grad *g,
                const struct zl_attn_seq *seq, enum zl_attn_part part, int head, int64_t block,
                float *scratch, float *sums));

#endif
