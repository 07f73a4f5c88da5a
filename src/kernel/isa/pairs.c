/*
 * Panels of bfloat16 pairs and the tile that multiplies them: see kernel/pairs.h. Compiled once, for AVX512-BF16. Dequantizing and
 * transposing are the float32 packers' work: weights go through a piece of a float32 panel that stays in the first-level cache,
 * activations are rounded row by row and then transposed as words.
 */
#include "config.h"

#include "kernel/pairs.h"

#include <immintrin.h>

#include "kernel/isa/vec.h"

enum {
    PN = ZL_PAIRS_PN,
    PM = ZL_PAIRS_PM,
    PIECE = 64,          /* elements of K of a float32 panel at a time */
    STRIP = 320,         /* words of a row at a time */
    STRIP_LD = STRIP + 16 /* an odd number of cache lines, lest twelve rows meet in the same sets of a cache */
};

/* The first n lanes of sixteen. */
V_INLINE __mmask16 lanes(int n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1);
}

/* Sixteen words: even elements of K from e, odd ones from o. */
V_INLINE __m512i words(__m512 e, __m512 o)
{
    const __m512i zip = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5,
                                         20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(zip, (__m512i)_mm512_cvtne2ps_pbh(o, e));
}

/* dst[words][width] from src[kc][width], width a constant: whole vectors, or fewer lanes than one has. */
V_INLINE void zip_rows(const float *src, int64_t kc, const int width, float alpha, float *dst)
{
    const __mmask16 mask = lanes(width);
    const __m512 factor = _mm512_set1_ps(alpha);
    for (int64_t k = 0; k < kc; k += 2, src += 2 * width, dst += width)
        V_EACH(j, (width + 15) / 16)
        {
            __m512 e = _mm512_maskz_loadu_ps(mask, src + 16 * j), o = _mm512_setzero_ps();
            if (k + 1 < kc)
                o = _mm512_maskz_loadu_ps(mask, src + width + 16 * j);
            _mm512_mask_storeu_epi32(dst + 16 * j, mask, words(_mm512_mul_ps(factor, e), _mm512_mul_ps(factor, o)));
        }
}

V_INLINE void weights(zl_pack_nk_fn *pack, const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn,
                      float alpha, float *dst)
{
    _Alignas(64) float panel[PIECE * PN];
    for (int64_t k = 0; k < kc; k += PIECE, dst += PIECE / 2 * pn) {
        int64_t some = kc - k < PIECE ? kc - k : PIECE;
        pack(w, n0, n, k0 + k, some, pn, panel);
        if (pn == PN)
            zip_rows(panel, some, PN, alpha, dst);
        else
            zip_rows(panel, some, PN / 2, alpha, dst);
    }
}

void zl_pairs_nk_avx512bf16(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn, float alpha, float *dst)
{
    weights(zl_pack_nk_avx512, w, n0, n, k0, kc, pn, alpha, dst);
}

void zl_pairs_kn_avx512bf16(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn, float alpha, float *dst)
{
    weights(zl_pack_kn_avx512, w, n0, n, k0, kc, pn, alpha, dst);
}

/* n elements side by side to words. */
V_INLINE void row_words(const float *a, int64_t n, float *dst)
{
    int64_t k = 0;
    for (; k + 32 <= n; k += 32)
        _mm512_storeu_si512(dst + k / 2, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(a + k + 16), _mm512_loadu_ps(a + k)));
    if (k == n)
        return;
    const __mmask32 some = (__mmask32)((UINT64_C(1) << (n - k)) - 1);
    const __m512 low = _mm512_maskz_loadu_ps((__mmask16)some, a + k);
    const __m512 high = _mm512_maskz_loadu_ps((__mmask16)(some >> 16), a + k + 16);
    _mm512_mask_storeu_epi32(dst + k / 2, lanes((int)zl_pairs_words(n - k)),
                             (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

static void pairs_m(const float *a, int64_t lda, int transposed, int m, int64_t kc, float *dst)
{
    if (transposed) {
        float panel[PIECE * PM];
        for (int64_t k = 0; k < kc; k += PIECE, dst += PIECE / 2 * PM) {
            int64_t some = kc - k < PIECE ? kc - k : PIECE;
            zl_pack_m_avx512(a + k * lda, lda, 1, m, some, PM, panel);
            zip_rows(panel, some, PM, 1, dst);
        }
        return;
    }
    float strip[PM * STRIP_LD];
    for (int64_t k = 0; k < kc; k += 2 * STRIP, dst += STRIP * PM) {
        int64_t some = kc - k < 2 * STRIP ? kc - k : 2 * STRIP;
        for (int i = 0; i < m; i++)
            row_words(a + i * lda + k, some, strip + i * STRIP_LD);
        zl_pack_m_avx512(strip, STRIP_LD, 0, m, zl_pairs_words(some), PM, dst);
    }
}

/* R rows of V vectors, constants. */
V_INLINE void fixed(const int R, const int V, int n, int n_runs, const struct zl_run *runs, const float *m, const float *b,
                    int pn, float alpha, float beta, float *c, int64_t ldc, struct zl_ask *ask)
{
    struct zl_ask next = *ask;
    __m512 sum[PM][2];
    V_EACH(r, R)
    {
        _mm_prefetch((const char *)(c + r * ldc), _MM_HINT_T0);
        if (V > 1)
            _mm_prefetch((const char *)(c + r * ldc + 16), _MM_HINT_T0);
        V_EACH(v, V)
            sum[r][v] = _mm512_setzero_ps();
    }
    for (const struct zl_run *run = runs; run < runs + n_runs; run++) {
        const float *end = b + run->words * pn;
        if (run->pairs)
            for (int64_t at = 0; b < end; b += pn, m += PM, at++) {
                __m512i w[2];
                if (at % ZL_ASK_STEP == 0)
                    zl_ask_next(&next);
                V_EACH(v, V)
                    w[v] = _mm512_load_si512(b + 16 * v);
                V_EACH(r, R)
                {
                    __m512bh x = (__m512bh)_mm512_set1_ps(m[r]);
                    V_EACH(v, V)
                        sum[r][v] = _mm512_dpbf16_ps(sum[r][v], (__m512bh)w[v], x);
                }
            }
        else
            for (; b < end; b += pn, m += PM) {
                __m512 w[2];
                V_EACH(v, V)
                    w[v] = _mm512_load_ps(b + 16 * v);
                V_EACH(r, R)
                {
                    __m512 x = _mm512_set1_ps(m[r]);
                    V_EACH(v, V)
                        sum[r][v] = _mm512_fmadd_ps(x, w[v], sum[r][v]);
                }
            }
    }
    *ask = next;
    const __m512 factor = _mm512_set1_ps(alpha);
    V_EACH(v, V)
    {
        const __mmask16 mask = lanes(n - 16 * v);
        V_EACH(r, R)
        {
            float *at = c + r * ldc + 16 * v;
            __m512 x = _mm512_mul_ps(factor, sum[r][v]);
            if (beta != 0)
                x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, at));
            _mm512_mask_storeu_ps(at, mask, x);
        }
    }
}

#define HEIGHT(R)                                                                                \
    static void rows_##R(int n, int n_runs, const struct zl_run *runs, const float *m, const float *b, int pn, float alpha, \
                         float beta, float *c, int64_t ldc, struct zl_ask *ask)                  \
    {                                                                                            \
        if (n > 16)                                                                              \
            fixed(R, 2, n, n_runs, runs, m, b, pn, alpha, beta, c, ldc, ask);                    \
        else                                                                                     \
            fixed(R, 1, n, n_runs, runs, m, b, pn, alpha, beta, c, ldc, ask);                    \
    }
HEIGHT(1)
HEIGHT(2)
HEIGHT(3)
HEIGHT(4)
HEIGHT(5)
HEIGHT(6)
HEIGHT(7)
HEIGHT(8)
HEIGHT(9)
HEIGHT(10)
HEIGHT(11)
HEIGHT(12)
#undef HEIGHT

static void tile(int m, int n, int n_runs, const struct zl_run *runs, const float *mpanel, const float *npanel, int pn,
                 float alpha, float beta, float *c, int64_t ldc, struct zl_ask *ask)
{
    static void (*const rows[PM])(int, int, const struct zl_run *, const float *, const float *, int, float, float, float *,
                                  int64_t, struct zl_ask *) = {rows_1, rows_2, rows_3, rows_4,  rows_5,  rows_6,
                                              rows_7, rows_8, rows_9, rows_10, rows_11, rows_12};
    rows[m - 1](n, n_runs, runs, mpanel, npanel, pn, alpha, beta, c, ldc, ask);
}

const struct zl_pairs zl_pairs_avx512bf16 = {.name = "avx512bf16 12x32", .pn = PN, .pm = PM, .nk = zl_pairs_nk_avx512bf16, .kn = zl_pairs_kn_avx512bf16,
                                             .m = pairs_m, .tile = tile};
