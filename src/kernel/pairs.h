/*
 * Products in bfloat16: operands packed into panels of words, a word being two consecutive elements of K, the even one in its low
 * half (zero in the high half where K ends). A panel is [words][width], and takes the place of a float32 panel of half the
 * K in the loops of gemm.c. Internal to this layer.
 *
 * An instruction of this kind adds both products of a word to a float32 lane; an element of the result is one chain of these in the
 * order of k, whatever tile it falls into.
 */
#ifndef ZL_KERNEL_PAIRS_H
#define ZL_KERNEL_PAIRS_H

#include "kernel/pack.h"

enum { ZL_PAIRS_PN = 32, ZL_PAIRS_PM = 12 };

static inline int64_t zl_pairs_words(int64_t k)
{
    return (k + 1) / 2;
}

/* A run of K of a tile: words of bfloat16 pairs, or of float32. */
struct zl_run {
    int pairs;
    int64_t words;
};

struct zl_pairs {
    /* As zl_pack_nk and zl_pack_kn, alpha times the elements, rounded. pn is ZL_PAIRS_PN or half of it. */
    void (*nk)(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn, float alpha, float *dst);
    void (*kn)(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn, float alpha, float *dst);
    /* As zl_pack_m, for width ZL_PAIRS_PM. */
    void (*m)(const float *a, int64_t lda, int transposed, int m, int64_t kc, float *dst);
    /* c[r][0..n) = beta c + alpha times the sum of the runs, one after the other; m <= ZL_PAIRS_PM, n <= pn, beta 0 or 1; with 0,
     * c may be garbage. Asks as far as the words go. */
    void (*tile)(int m, int n, int n_runs, const struct zl_run *runs, const float *mpanel, const float *npanel, int pn,
                 float alpha, float beta, float *c, int64_t ldc, struct zl_ask *ask);
};

/* NULL where zl_compute_missing(ZL_COMPUTE_BF16). */
const struct zl_pairs *zl_pairs_get(void);

extern const struct zl_pairs zl_pairs_avx512bf16;

#endif
