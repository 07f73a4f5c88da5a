/*
 * Operands into panels, once for each instruction set; see kernel/pack.h. The general way dequantizes 32 elements of a row at a
 * time into a tile that stays in the first-level cache, which is then transposed; the usual shapes have faster ones.
 */
#include "config.h"

#include "kernel/gemm.h"
#include "kernel/isa/lanes512.h"
#include "kernel/isa/unit.h"
#include "kernel/pack.h"

static inline const uint8_t *row_at(const struct zl_weight *w, int64_t i)
{
    return (const uint8_t *)w->data + (w->rows ? w->rows[i] : i) * w->row_bytes;
}

/* Elements [from, from + n) of a row, n <= ZL_UKR_WIDEST, from anywhere: whole units through a buffer. */
static void piece(enum zl_type type, const uint8_t *row, int64_t from, int n, float *restrict x)
{
    float buffer[ZL_UKR_WIDEST + 64];
    int64_t first = from / 32, last = (from + n + 31) / 32;
    switch (type) {
#define CASE(T, name)                                                                            \
    case T:                                                                                      \
        for (int64_t u = first; u < last; u++)                                                   \
            unit_##name(row, u, buffer + (u - first) * 32);                                      \
        break;
        EACH_QUANT(CASE)
#undef CASE
    default:
        plain(type, row, from, n, x);
        return;
    }
    memcpy(x, buffer + from % 32, (size_t)n * sizeof *x);
}

/* A panel of 32 columns that begins with a unit: straight into place. */
static void kn_units(const struct zl_weight *w, int64_t u, int64_t k0, int64_t kc, float *dst)
{
    switch (w->type) {
#define CASE(T, name)                                                                            \
    case T:                                                                                      \
        for (int64_t k = 0; k < kc; k++)                                                         \
            unit_##name(row_at(w, k0 + k), u, dst + k * 32);                                     \
        break;
        EACH_QUANT(CASE)
#undef CASE
    case ZL_F32:
        for (int64_t k = 0; k < kc; k++)
            plain(ZL_F32, row_at(w, k0 + k), u * 32, 32, dst + k * 32);
        break;
    case ZL_F16:
        for (int64_t k = 0; k < kc; k++)
            plain(ZL_F16, row_at(w, k0 + k), u * 32, 32, dst + k * 32);
        break;
    default:
        for (int64_t k = 0; k < kc; k++)
            plain(ZL_BF16, row_at(w, k0 + k), u * 32, 32, dst + k * 32);
    }
}

void ZL_ISA(zl_pack_kn)(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn,
                        float *dst)
{
    if (pn == 32 && n == 32 && n0 % 32 == 0) {
        kn_units(w, n0 / 32, k0, kc, dst);
        return;
    }
    for (int64_t k = 0; k < kc; k++, dst += pn) {
        piece(w->type, row_at(w, k0 + k), n0, n, dst);
        for (int j = n; j < pn; j++)
            dst[j] = 0;
    }
}

/* At most 32 elements of K through a tile of rows. */
static void nk_tile(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int kc, int pn, float *dst)
{
    float tile[ZL_UKR_WIDEST][32];
    for (int j = 0; j < n; j++)
        piece(w->type, row_at(w, n0 + j), k0, kc, tile[j]);
    for (int i = 0; i < kc; i++) {
        for (int j = 0; j < n; j++)
            dst[i * pn + j] = tile[j][i];
        for (int j = n; j < pn; j++)
            dst[i * pn + j] = 0;
    }
}

#ifdef __AVX512F__
#define NK_LANES 16

/* Units [u, end) of up to sixteen rows. */
static void nk_lanes(enum zl_type type, const uint8_t *const p[16], int rows, int64_t u, int64_t end, int pn,
                     float *dst)
{
    __mmask16 keep = (__mmask16)((1 << rows) - 1);
    switch (type) {
#define CASE(T, name)                                                                            \
    case T:                                                                                      \
        for (; u < end; u++, dst += 32 * pn)                                                     \
            lanes_##name(p, u, keep, dst, pn);                                                   \
        break;
        EACH_QUANT(CASE)
        CASE(ZL_F32, f32)
        CASE(ZL_F16, f16)
        CASE(ZL_BF16, bf16)
#undef CASE
    default:
        break;
    }
}
#endif

void ZL_ISA(zl_pack_nk)(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn,
                        float *dst)
{
    int64_t done = 0;
#ifdef NK_LANES
    if (pn % NK_LANES == 0 && k0 % 32 == 0) {
        done = kc / 32 * 32;
        for (int j0 = 0; j0 < pn; j0 += NK_LANES) {
            const uint8_t *p[NK_LANES];
            int rows = n - j0 < 0 ? 0 : n - j0 < NK_LANES ? n - j0 : NK_LANES;
            for (int j = 0; j < NK_LANES; j++) /* lanes without a row read the first one, to no effect */
                p[j] = row_at(w, n0 + (j < rows ? j0 + j : 0));
            nk_lanes(w->type, p, rows, k0 / 32, k0 / 32 + done / 32, pn, dst + j0);
        }
    }
#endif
    for (int64_t k = done; k < kc; k += 32)
        nk_tile(w, n0, n, k0 + k, (int)(kc - k < 32 ? kc - k : 32), pn, dst + k * pn);
}

#ifdef __AVX512F__
/* Twelve rows, sixteen k at a time: 4 x 4 transposed inside the quarters of registers, each quarter stored where it belongs. */
static int64_t m_twelve(const float *a, int64_t lda, int64_t kc, float alpha, float *dst)
{
    const __m512 scale = _mm512_set1_ps(alpha);
    int64_t k = 0;
    for (; k + 16 <= kc; k += 16, dst += 16 * 12)
        for (int g = 0; g < 12; g += 4) {
            __m512 q[4], v[4];
            for (int i = 0; i < 4; i++)
                q[i] = _mm512_mul_ps(scale, _mm512_loadu_ps(a + (g + i) * lda + k));
            __m512d s = _mm512_castps_pd(_mm512_unpacklo_ps(q[0], q[1]));
            __m512d t = _mm512_castps_pd(_mm512_unpackhi_ps(q[0], q[1]));
            __m512d x = _mm512_castps_pd(_mm512_unpacklo_ps(q[2], q[3]));
            __m512d y = _mm512_castps_pd(_mm512_unpackhi_ps(q[2], q[3]));
            v[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(s, x));
            v[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(s, x));
            v[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(t, y));
            v[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(t, y));
            for (int c = 0; c < 4; c++) {
                _mm_storeu_ps(dst + c * 12 + g, _mm512_castps512_ps128(v[c]));
                _mm_storeu_ps(dst + (4 + c) * 12 + g, _mm512_extractf32x4_ps(v[c], 1));
                _mm_storeu_ps(dst + (8 + c) * 12 + g, _mm512_extractf32x4_ps(v[c], 2));
                _mm_storeu_ps(dst + (12 + c) * 12 + g, _mm512_extractf32x4_ps(v[c], 3));
            }
        }
    return k;
}
#endif

/* Rows of K that lie side by side (a transposed): copied, in vectors where the width is known. */
static inline void m_copy(const float *a, int64_t lda, int64_t kc, float alpha, int pm, float *restrict dst)
{
    for (int64_t k = 0; k < kc; k++, dst += pm, a += lda)
        for (int i = 0; i < pm; i++)
            dst[i] = alpha * a[i];
}

void ZL_ISA(zl_pack_m)(const float *a, int64_t lda, int transposed, int m, int64_t kc, float alpha,
                       int pm, float *dst)
{
    int64_t row = transposed ? 1 : lda, column = transposed ? lda : 1, k = 0;
    if (transposed && m == pm) {
        if (pm == 12)
            m_copy(a, lda, kc, alpha, 12, dst);
        else if (pm == 6)
            m_copy(a, lda, kc, alpha, 6, dst);
        else
            m_copy(a, lda, kc, alpha, pm, dst);
        return;
    }
#ifdef __AVX512F__
    if (!transposed && m == 12 && pm == 12)
        k = m_twelve(a, lda, kc, alpha, dst);
#endif
    for (dst += k * pm; k < kc; k++, dst += pm) {
        for (int i = 0; i < m; i++)
            dst[i] = alpha * a[i * row + k * column];
        for (int i = m; i < pm; i++)
            dst[i] = 0;
    }
}
