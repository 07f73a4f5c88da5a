/*
 * Operands into panels, once for each instruction set; see kernel/pack.h. The general way dequantizes 32 elements of a row at a
 * time into a tile that stays in the first-level cache, which is then transposed; the usual shapes have faster ones.
 */
#include "config.h"

#include "kernel/micro.h"
#include "kernel/isa/unit.h"
#include "kernel/pack.h"

#define NAME(T)     lanes_##T
#define SINK        float *dst, int pn
#define SINK_ARGS   dst, pn
#define PUT(k, v)   put(dst + (k) * pn, v)
#define ADVANCE     dst += 32 * pn
#include "kernel/isa/lanes.h"

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

/* A panel of 32 or 16 columns that begins with a unit or a half of one: straight into place. */
static void kn_units(const struct zl_weight *w, int64_t u, int64_t k0, int64_t kc, float *dst)
{
    switch (w->type) {
#define CASE(T, name)                                                                            \
    case T:                                                                                      \
        for (int64_t k = 0; k < kc; k++)                                                         \
            unit_##name(zl_weight_row(w, k0 + k), u, dst + k * 32);                                     \
        break;
        EACH_QUANT(CASE)
#undef CASE
#define CASE(T)                                                                                  \
    case T:                                                                                      \
        for (int64_t k = 0; k < kc; k++)                                                         \
            plain(T, zl_weight_row(w, k0 + k), u * 32, 32, dst + k * 32);                               \
        break;
        CASE(ZL_F32)
        CASE(ZL_F16)
        CASE(ZL_BF16)
#undef CASE
    default:
        break;
    }
}

static void kn_halves(const struct zl_weight *w, int64_t i, int64_t k0, int64_t kc, float *dst)
{
    switch (w->type) {
#define CASE(T, name)                                                                            \
    case T:                                                                                      \
        for (int64_t k = 0; k < kc; k++)                                                         \
            half_##name(zl_weight_row(w, k0 + k), i, dst + k * 16);                                     \
        break;
        EACH_QUANT(CASE)
#undef CASE
#define CASE(T)                                                                                  \
    case T:                                                                                      \
        for (int64_t k = 0; k < kc; k++)                                                         \
            plain(T, zl_weight_row(w, k0 + k), i * 16, 16, dst + k * 16);                               \
        break;
        CASE(ZL_F32)
        CASE(ZL_F16)
        CASE(ZL_BF16)
#undef CASE
    default:
        break;
    }
}

void ZL_ISA(zl_pack_kn)(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn,
                        float *dst)
{
    if (pn == 32 && n == 32 && n0 % 32 == 0) {
        kn_units(w, n0 / 32, k0, kc, dst);
        return;
    }
    if (pn == 16 && n == 16 && n0 % 16 == 0) {
        kn_halves(w, n0 / 16, k0, kc, dst);
        return;
    }
    for (int64_t k = 0; k < kc; k++, dst += pn) {
        piece(w->type, zl_weight_row(w, k0 + k), n0, n, dst);
        for (int j = n; j < pn; j++)
            dst[j] = 0;
    }
}

/* At most 32 elements of K through a tile of rows. */
static void nk_tile(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int kc, int pn, float *dst)
{
    float tile[ZL_UKR_WIDEST][32];
    for (int j = 0; j < n; j++)
        piece(w->type, zl_weight_row(w, n0 + j), k0, kc, tile[j]);
    for (int i = 0; i < kc; i++) {
        for (int j = 0; j < n; j++)
            dst[i * pn + j] = tile[j][i];
        for (int j = n; j < pn; j++)
            dst[i * pn + j] = 0;
    }
}

void ZL_ISA(zl_pack_nk)(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn,
                        float *dst)
{
    int64_t done = pn % LANES == 0 && k0 % 32 == 0 ? kc / 32 * 32 : 0;
    for (int j0 = 0; j0 < pn && done; j0 += LANES) {
        const uint8_t *p[LANES];
        for (int j = 0; j < LANES; j++) /* a lane without a row takes the first one */
            p[j] = zl_weight_row(w, n0 + (j0 + j < n ? j0 + j : 0));
        fetch(w->type, p, k0, done);
        lanes_units(w->type, p, k0 / 32, k0 / 32 + done / 32, dst + j0, pn);
    }
    for (int64_t k = done; k < kc; k += 32)
        nk_tile(w, n0, n, k0 + k, (int)(kc - k < 32 ? kc - k : 32), pn, dst + k * pn);
}

#ifdef __AVX512F__
/* Four rows, sixteen k: v[c] quarter q = the four rows' element 4 q + c. */
static inline void four_rows(const float *a, int64_t lda, __m512 v[4])
{
    __m512 q[4];
    for (int i = 0; i < 4; i++)
        q[i] = _mm512_loadu_ps(a + i * lda);
    __m512d s = _mm512_castps_pd(_mm512_unpacklo_ps(q[0], q[1]));
    __m512d t = _mm512_castps_pd(_mm512_unpackhi_ps(q[0], q[1]));
    __m512d x = _mm512_castps_pd(_mm512_unpacklo_ps(q[2], q[3]));
    __m512d y = _mm512_castps_pd(_mm512_unpackhi_ps(q[2], q[3]));
    v[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(s, x));
    v[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(s, x));
    v[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(t, y));
    v[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(t, y));
}

/* The quarters q of a, b, c, d side by side, to dst[q * 48]. */
static inline void quarters(__m512 a, __m512 b, __m512 c, __m512 d, float *dst)
{
    __m512 s = _mm512_shuffle_f32x4(a, b, 0x44), t = _mm512_shuffle_f32x4(c, d, 0x44);
    __m512 x = _mm512_shuffle_f32x4(a, b, 0xee), y = _mm512_shuffle_f32x4(c, d, 0xee);
    _mm512_storeu_ps(dst, _mm512_shuffle_f32x4(s, t, 0x88));
    _mm512_storeu_ps(dst + 48, _mm512_shuffle_f32x4(s, t, 0xdd));
    _mm512_storeu_ps(dst + 96, _mm512_shuffle_f32x4(x, y, 0x88));
    _mm512_storeu_ps(dst + 144, _mm512_shuffle_f32x4(x, y, 0xdd));
}

/* Twelve rows: four k of them are three whole registers, so that no store straddles cache lines. */
static int64_t m_twelve(const float *a, int64_t lda, int64_t kc, float *dst)
{
    int64_t k = 0;
    for (; k + 16 <= kc; k += 16, a += 16, dst += 16 * 12) {
        __m512 x[4], y[4], z[4];
        four_rows(a, lda, x);
        four_rows(a + 4 * lda, lda, y);
        four_rows(a + 8 * lda, lda, z);
        quarters(x[0], y[0], z[0], x[1], dst);
        quarters(y[1], z[1], x[2], y[2], dst + 16);
        quarters(z[2], x[3], y[3], z[3], dst + 32);
    }
    return k;
}
#endif

#ifdef __AVX2__
/* Six rows, eight k at a time: four rows and two. */
static int64_t m_six(const float *a, int64_t lda, int64_t kc, float *dst)
{
    int64_t k = 0;
    for (; k + 8 <= kc; k += 8, a += 8, dst += 8 * 6) {
        __m256 q[6], v[4], w[2];
        for (int i = 0; i < 6; i++)
            q[i] = _mm256_loadu_ps(a + i * lda);
        __m256d s = _mm256_castps_pd(_mm256_unpacklo_ps(q[0], q[1]));
        __m256d t = _mm256_castps_pd(_mm256_unpackhi_ps(q[0], q[1]));
        __m256d x = _mm256_castps_pd(_mm256_unpacklo_ps(q[2], q[3]));
        __m256d y = _mm256_castps_pd(_mm256_unpackhi_ps(q[2], q[3]));
        v[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(s, x));
        v[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(s, x));
        v[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(t, y));
        v[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(t, y));
        w[0] = _mm256_unpacklo_ps(q[4], q[5]);
        w[1] = _mm256_unpackhi_ps(q[4], q[5]);
        for (int half = 0; half < 2; half++)
            for (int c = 0; c < 4; c++) {
                float *to = dst + (4 * half + c) * 6;
                __m128 two = half ? _mm256_extractf128_ps(w[c / 2], 1) : _mm256_castps256_ps128(w[c / 2]);
                _mm_storeu_ps(to, half ? _mm256_extractf128_ps(v[c], 1) : _mm256_castps256_ps128(v[c]));
                if (c & 1)
                    _mm_storeh_pi((__m64 *)(void *)(to + 4), two);
                else
                    _mm_storel_pi((__m64 *)(void *)(to + 4), two);
            }
    }
    return k;
}
#endif

#ifdef __aarch64__
/* Six rows, four k at a time: four rows and two. */
static int64_t m_six(const float *a, int64_t lda, int64_t kc, float *dst)
{
    int64_t k = 0;
    for (; k + 4 <= kc; k += 4, a += 4, dst += 4 * 6) {
        const float32x4x2_t s = vtrnq_f32(vld1q_f32(a), vld1q_f32(a + lda));
        const float32x4x2_t t = vtrnq_f32(vld1q_f32(a + 2 * lda), vld1q_f32(a + 3 * lda));
        const float32x4x2_t u = vtrnq_f32(vld1q_f32(a + 4 * lda), vld1q_f32(a + 5 * lda));
        for (int c = 0; c < 2; c++) {
            vst1q_f32(dst + 6 * c, vcombine_f32(vget_low_f32(s.val[c]), vget_low_f32(t.val[c])));
            vst1_f32(dst + 6 * c + 4, vget_low_f32(u.val[c]));
            vst1q_f32(dst + 6 * c + 12, vcombine_f32(vget_high_f32(s.val[c]), vget_high_f32(t.val[c])));
            vst1_f32(dst + 6 * c + 16, vget_high_f32(u.val[c]));
        }
    }
    return k;
}
#endif

/* Rows of K that lie side by side (a transposed): copied, in vectors where the width is known. */
static inline void m_copy(const float *a, int64_t lda, int64_t kc, int pm, float *restrict dst)
{
    for (int64_t k = 0; k < kc; k++, dst += pm, a += lda)
        for (int i = 0; i < pm; i++)
            dst[i] = a[i];
}

/* Twelve, with a mask where there is one. */
static inline void m_twelve_copy(const float *a, int64_t lda, int64_t kc, float *dst)
{
#ifdef __AVX512F__
    for (int64_t k = 0; k < kc; k++, dst += 12, a += lda)
        _mm512_mask_storeu_ps(dst, 0x0fff, _mm512_maskz_loadu_ps(0x0fff, a));
#else
    m_copy(a, lda, kc, 12, dst);
#endif
}

void ZL_ISA(zl_pack_m)(const float *a, int64_t lda, int transposed, int m, int64_t kc, int pm,
                       float *dst)
{
    int64_t row = transposed ? 1 : lda, column = transposed ? lda : 1, k = 0;
    if (transposed && m == pm) {
        if (pm == 12)
            m_twelve_copy(a, lda, kc, dst);
        else if (pm == 6)
            m_copy(a, lda, kc, 6, dst);
        else
            m_copy(a, lda, kc, pm, dst);
        return;
    }
#ifdef __AVX512F__
    if (!transposed && m == 12 && pm == 12)
        k = m_twelve(a, lda, kc, dst);
#endif
#if defined __AVX2__ || defined __aarch64__
    if (!transposed && m == 6 && pm == 6)
        k = m_six(a, lda, kc, dst);
#endif
    for (dst += k * pm; k < kc; k++, dst += pm) {
        for (int i = 0; i < m; i++)
            dst[i] = a[i * row + k * column];
        for (int i = m; i < pm; i++)
            dst[i] = 0;
    }
}
