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

/* Widths of panels: of weights, of activations; the same where tiles are registers, of so many rows and words. */
enum { ZL_PAIRS_PN = 32, ZL_PAIRS_PM = 12, ZL_TILES_PN = 32, ZL_TILES_PM = 32, ZL_TILES_SIDE = 16 };

static inline int64_t zl_pairs_words(int64_t k)
{
    return (k + 1) / 2;
}

/* A run of K of a tile: words of bfloat16 pairs, or of float32. */
struct zl_run {
    int pairs;
    int64_t words;
};

typedef void zl_pairs_pack_fn(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn, float alpha, float *dst);

struct zl_pairs {
    const char *name; /* "avx512bf16 12x32" */
    int pn, pm;       /* widths of panels, of weights and of activations */
    /* As zl_pack_nk and zl_pack_kn, alpha times the elements, rounded. pn is the width or half of it. */
    zl_pairs_pack_fn *nk, *kn;
    /* As zl_pack_m, for width pm, but in an order of its own, as many bytes. */
    void (*m)(const float *a, int64_t lda, int transposed, int m, int64_t kc, float *dst);
    /* c[r][0..n) = beta c + alpha times the sum of the runs, one after the other; m <= pm, n <= pn, beta 0 or 1; with 0,
     * c may be garbage. Panels of float32 are [k][width]. Asks as far as the words go. */
    void (*tile)(int m, int n, int n_runs, const struct zl_run *runs, const float *mpanel, const float *npanel, int pn,
                 float alpha, float beta, float *c, int64_t ldc, struct zl_ask *ask);
    /* Around all tiles of a thread; NULL: nothing to do. */
    void (*begin)(void), (*end)(void);
};

/* The fastest that there is; NULL where zl_compute_missing(ZL_COMPUTE_BF16). */
const struct zl_pairs *zl_pairs_get(void);

extern const struct zl_pairs zl_pairs_avx512bf16, zl_pairs_amx;
extern zl_pairs_pack_fn zl_pairs_nk_avx512bf16, zl_pairs_kn_avx512bf16;

#endif
