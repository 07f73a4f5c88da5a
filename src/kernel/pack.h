/*
 * Packing: operands of a matrix product into the panels of a microkernel (struct zl_ukr in micro.h), [k][width] floats, weights
 * dequantized on the way. Internal to this layer: gemm.c, and kernels that bring their own loops (head, attention).
 * Each is compiled for every instruction set; the panels hold the same bits on all of them.
 */
#ifndef ZL_KERNEL_PACK_H
#define ZL_KERNEL_PACK_H

#include <stdint.h>

#include "base/type.h"
#include "kernel/ask.h"
#include "kernel/isa.h"

/* The weight's side of a product: rows of `ld` elements of a stored type, any alignment. */
struct zl_weight {
    enum zl_type type;
    const void *data;
    int64_t row_bytes;
    const int32_t *rows; /* row i is stored row rows[i]; NULL = identity */
};

static inline const uint8_t *zl_weight_row(const struct zl_weight *w, int64_t i)
{
    return (const uint8_t *)w->data + (w->rows ? w->rows[i] : i) * w->row_bytes;
}

static inline int64_t zl_pack_row_bytes(enum zl_type type, int64_t cols)
{
    return cols / (int64_t)zl_type_info[type].block * (int64_t)zl_type_info[type].block_bytes;
}

/* dst[k][pn] = element k0 + k of row n0 + j, for k < kc, j < n <= pn; anything for n <= j < pn. k0 is a multiple of 32 for quantized
 * types; their last, partly used unit of 32 elements must exist in the row. */
typedef void zl_pack_nk_fn(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn,
                           float *dst);
/* dst[k][pn] = element n0 + j of row k0 + k. n0 is anything. */
typedef zl_pack_nk_fn zl_pack_kn_fn;
/* dst[k][pm] = a[i][k] (row stride lda), or a[k][i] with `transposed`, for k < kc, i < m <= pm; zero for the rest. a points at
 * the first element wanted. */
typedef void zl_pack_m_fn(const float *a, int64_t lda, int transposed, int m, int64_t kc, int pm, float *dst);

/* A run of K of some rows of activations: a[r * row + k * column]. */
struct zl_strip {
    const float *a;
    int64_t row, column, kc;
};

/* c[r][0..n) = beta c + alpha times the strips, one after the other, times the panel [k][pn] of their concatenated K; r < m. beta is 0 or 1;
 * with 0, c may be garbage. n <= pn, or pn is the row stride of a matrix and n a multiple of 16. Asks as
 * far as k goes. */
typedef void zl_skinny_fn(int m, int n_strips, const struct zl_strip *strips, const float *panel, int64_t pn,
                          int n, float alpha, float beta, float *c, int64_t ldc, struct zl_ask *ask);

/* out[i][j] += alpha * sum over k < kc of a[i][k] * element k of row n0 + j, i < m, j < n: few rows of activations (generation). Weights are
 * read once for every ZL_DOT_ROWS of them and never written anywhere. kc may end inside a unit that exists. */
#define ZL_DOT_ROWS 4 /* at a time */
typedef void zl_dot_fn(const struct zl_weight *w, int64_t n0, int64_t n, int64_t kc, int m, const float *a, int64_t lda,
                       float alpha, float *out, int64_t ldo);

ZL_ISA_DECLARE(void, zl_dequant_isa, (enum zl_type type, const void *src, float *dst, int64_t n));
ZL_ISA_DECLARE(void, zl_dequant_unit, (enum zl_type type, const uint8_t *row, int64_t u, float *dst));
extern zl_pack_nk_fn zl_pack_nk_baseline, zl_pack_nk_avx2, zl_pack_nk_avx512;
extern zl_pack_kn_fn zl_pack_kn_baseline, zl_pack_kn_avx2, zl_pack_kn_avx512;
extern zl_skinny_fn zl_skinny_baseline, zl_skinny_avx2, zl_skinny_avx512;
extern zl_dot_fn zl_dot_baseline, zl_dot_avx2, zl_dot_avx512;
extern zl_pack_m_fn zl_pack_m_baseline, zl_pack_m_avx2, zl_pack_m_avx512;

#endif
