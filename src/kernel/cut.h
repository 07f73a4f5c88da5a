/*
 * Where the concatenated K of a product is cut into blocks: by the terms' own k and format alone, so that neither threads nor M nor N
 * move a rounding. Internal to gemm.c.
 */
#ifndef ZL_KERNEL_CUT_H
#define ZL_KERNEL_CUT_H

#include "kernel/gemm.h"
#include "kernel/pairs.h"

/* In words: a float32 element, or a pair of bfloat16 ones. */
enum {
    ZL_CUT_WORDS = 320, /* of K a block: a panel of weights of 32 x 320 words fits 48 KiB */
    ZL_CUT_RIDE = 64,   /* more, for a short term that rides in the block of the one before: an adapter of usual rank */
    ZL_CUT_MOST = ZL_CUT_WORDS + ZL_CUT_RIDE
};

/* A run of K inside one term; a block is one or more of them. */
struct zl_cut_piece {
    int term;
    int64_t k0, kc, words;
    bool pairs;
};

struct zl_cut_block {
    struct zl_cut_piece piece[ZL_GEMM_TERMS];
    int n_pieces;
    int64_t words;
    float alpha; /* of the result, where its terms have that in common; else 1, and each term's own is its weights' */
};

/* Walks the concatenated K. */
struct zl_cursor {
    int term;
    int64_t k0;
};

static inline int64_t zl_cut_total(const struct zl_gemm *g)
{
    int64_t k = 0;
    for (int t = 0; t < g->n_terms; t++)
        k += g->term[t].k;
    return k;
}

/* The size that makes a term's blocks nearly equal, a multiple of the largest unit a quantized row can be cut at. */
static inline int64_t zl_cut_size(int64_t k, bool pairs)
{
    const int64_t most = pairs ? 2 * ZL_CUT_WORDS : ZL_CUT_WORDS, blocks = (k + most - 1) / most;
    return blocks ? ((k + blocks - 1) / blocks + 31) / 32 * 32 : 0;
}

/* The next block: a part of a term, and behind its end such terms as fit as a whole. It has no words at the end.
 * bf16: frozen terms are made of pairs. */
static inline struct zl_cut_block zl_cut_next(const struct zl_gemm *g, bool bf16, struct zl_cursor *at)
{
    struct zl_cut_block b = {.n_pieces = 0};
    while (at->term < g->n_terms) {
        const bool pairs = bf16 && g->term[at->term].frozen;
        const int64_t k = g->term[at->term].k;
        int64_t take = k - at->k0, words = pairs ? zl_pairs_words(take) : take;
        if (b.n_pieces && b.words + words > (words <= ZL_CUT_RIDE ? ZL_CUT_MOST : ZL_CUT_WORDS))
            break;
        if (!b.n_pieces && take > zl_cut_size(k, pairs)) {
            take = zl_cut_size(k, pairs);
            words = pairs ? zl_pairs_words(take) : take;
        }
        if (take > 0)
            b.piece[b.n_pieces++] = (struct zl_cut_piece){at->term, at->k0, take, words, pairs};
        b.words += words;
        at->k0 += take;
        if (at->k0 < k)
            break;
        *at = (struct zl_cursor){at->term + 1, 0};
    }
    b.alpha = b.words >= 64 ? g->term[b.piece[0].term].alpha : 1; /* short: the panel is smaller than the result */
    for (int i = 1; i < b.n_pieces; i++)
        if (g->term[b.piece[i].term].alpha != b.alpha)
            b.alpha = 1;
    return b;
}

#endif
