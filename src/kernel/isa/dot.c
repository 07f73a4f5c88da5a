/*
 * A few rows of activations times weights stored along K: what generating a token is made of. Bound by how fast weights come from memory
 * and are taken apart, so each row of weights is read once, from its beginning to its end, as the memory likes it best, nothing of it is
 * written anywhere, and its scales are factored out: sum of (d q + m) a = sum over units of d (sum of q a) + m (sum of a).
 *
 * Lanes run along K and are added at a row's end. The order of a sum depends on K alone, neither on how many rows of activations there
 * are nor on where a row of weights stands; but it is not that of a tile: few rows may differ in their last bits from the same among many.
 */
#include "config.h"

#include "kernel/isa/quants.h"
#include "kernel/pack.h"

enum {
    SEGMENT = 8192,           /* of K at a time: longer rows are walked in pieces */
    UNITS = SEGMENT / 32,
    ROWS = ZL_DOT_ROWS
};

/* x[i][r] = the lanes of the sum for row i of activations and row r < n_rows <= VL of weights, of units [u, u + n); zero for r >= n_rows.
 * sums[i]: 0, the sum of a unit of row i, 0, 0. */
typedef void rows_fn(const uint8_t *const *rows, int n_rows, int64_t u, int64_t n, const float *a, int64_t lda,
                     const v4 (*sums)[UNITS], vf (*x)[VL]);

V_INLINE v4 fma4(v4 a, v4 b, v4 c)
{
#if defined __FMA__
    return (v4)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
#elif defined __aarch64__
    return (v4)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

V_INLINE vf widened(v4 x)
{
#if VL == 16
    return (vf)_mm512_zextps128_ps512((__m128)x);
#elif VL == 8
    return (vf)_mm256_zextps128_ps256((__m128)x);
#else
    return x;
#endif
}

/* One unit by one row of activations. */
V_INLINE void sum_unit(const enum kind kind, const vf *q, const float *a, v4 scale, vf sum[2])
{
    if (kind == AS_IT_IS) {
        EACH_VECTOR(v)
            sum[v & 1] = v_fma(q[v], v_load(a + v * VL), sum[v & 1]);
        return;
    }
    const int half = UNIT_VECTORS / 2;
    vf x = q[0] * v_load(a), y = x;
    if (kind == SCALED_BY_HALVES)
        y = q[half] * v_load(a + 16);
    for (int v = 1; v < half; v++)
        x = v_fma(q[v], v_load(a + v * VL), x);
    for (int v = kind == SCALED_BY_HALVES ? half + 1 : half; v < UNIT_VECTORS; v++)
        if (kind == SCALED_BY_HALVES)
            y = v_fma(q[v], v_load(a + v * VL), y);
        else
            x = v_fma(q[v], v_load(a + v * VL), x);
    sum[0] = v_fma(v_set(scale[0]), x, sum[0]);
    if (kind == SCALED_BY_HALVES)
        sum[1] = v_fma(v_set(scale[1]), y, sum[1]);
}

/* M rows of activations; M and kind constants after inlining. */
#define ROWS_OF(M, name, kind)                                                                   \
    static void rows_##M##_##name(const uint8_t *const *rows, int n_rows, int64_t u, int64_t n, const float *a, int64_t lda, \
                                  const v4 (*sums)[UNITS], vf (*x)[VL])                          \
    {                                                                                            \
        float block[16];                                                                         \
        for (int r = 0; r < VL; r++) {                                                           \
            vf sum[M][2] = {{{0}}};                                                              \
            v4 minima[M] = {{0}};                                                                \
            for (int64_t j = 0; r < n_rows && j < n; j++) {                                      \
                prepare_##name(rows[r], u + j, block);                                           \
                v4 scale = scale_##name(rows[r], u + j, block);                                  \
                vf q[UNIT_VECTORS];                                                              \
                quants_##name(rows[r], u + j, q);                                                \
                V_EACH(i, M)                                                                     \
                {                                                                                \
                    sum_unit(kind, q, a + i * lda + j * 32, scale, sum[i]);                      \
                    if (kind == SCALED_FROM)                                                     \
                        minima[i] = fma4(scale, sums[i][j], minima[i]);                          \
                }                                                                                \
            }                                                                                    \
            V_EACH(i, M)                                                                         \
            {                                                                                    \
                x[i][r] = sum[i][0] + sum[i][1];                                                 \
                if (kind == SCALED_FROM)                                                         \
                    x[i][r] += widened(minima[i]);                                               \
            }                                                                                    \
        }                                                                                        \
    }
#define ROW(T, name, kind)                                                                       \
    ROWS_OF(1, name, kind)                                                                       \
    ROWS_OF(2, name, kind)                                                                       \
    ROWS_OF(4, name, kind)

EACH_STORED(ROW)
#undef ROW
#undef ROWS_OF

static rows_fn *const rows_fns[ZL_TYPES][3] = {
#define ENTRY(T, name, kind) [T] = {rows_1_##name, rows_2_##name, rows_4_##name},
    EACH_STORED(ENTRY)
#undef ENTRY
};

/* out[i][j] += alpha times units [u, u + units) of the product, i < m, j < n; m is 1, 2 or 4. */
static void segment(const struct zl_weight *w, int64_t n0, int64_t n, int64_t u, int64_t units, int m, const float *a, int64_t lda,
                    float alpha, float *out, int64_t ldo)
{
    v4 sums[ROWS][UNITS];
    for (int i = 0; i < m; i++)
        for (int64_t j = 0; j < units; j++) {
            vf x = {0};
            EACH_VECTOR(v)
                x += v_load(a + i * lda + j * 32 + v * VL);
            sums[i][j] = (v4){0, v_sum(x), 0, 0};
        }
    for (int64_t j = 0; j < n; j += VL) {
        const uint8_t *rows[VL];
        vf x[ROWS][VL];
        const int64_t some = n - j < VL ? n - j : VL;
        for (int64_t r = 0; r < some; r++)
            rows[r] = zl_weight_row(w, n0 + j + r);
        rows_fns[w->type][m / 2](rows, (int)some, u, units, a, lda, sums, x);
        for (int i = 0; i < m; i++) {
            float *to = out + i * ldo + j;
            v_store_left(to, v_fma(v_set(alpha), v_sums(x[i]), v_load_left(to, some)), some);
        }
    }
}

/* The elements behind the last whole unit, one after the other. */
static void tail(const struct zl_weight *w, int64_t n0, int64_t n, int64_t from, int64_t kc, int m, const float *a, int64_t lda,
                 float alpha, float *out, int64_t ldo)
{
    for (int64_t j = 0; j < n; j++) {
        float unit[32];
        const uint8_t *row = zl_weight_row(w, n0 + j);
        if (zl_type_info[w->type].block == 1)
            plain(w->type, row, from, kc - from, unit);
        else
            ZL_ISA(zl_dequant_unit)(w->type, row, from / 32, unit);
        for (int i = 0; i < m; i++) {
            float x = 0;
            for (int64_t k = from; k < kc; k++)
                x = ZL_FMA(a[i * lda + k], unit[k - from], x);
            out[i * ldo + j] = ZL_FMA(alpha, x, out[i * ldo + j]);
        }
    }
}

void ZL_ISA(zl_dot)(const struct zl_weight *w, int64_t n0, int64_t n, int64_t kc, int m, const float *a, int64_t lda, float alpha,
                    float *out, int64_t ldo)
{
    const int64_t whole = kc / 32 * 32;
    for (int some; m > 0; m -= some, a += some * lda, out += some * ldo) {
        some = m >= 4 ? 4 : m >= 2 ? 2 : 1;
        for (int64_t k = 0; k < whole; k += SEGMENT)
            segment(w, n0, n, k / 32, (whole - k < SEGMENT ? whole - k : SEGMENT) / 32, some, a + k, lda, alpha, out, ldo);
        if (whole < kc)
            tail(w, n0, n, whole, kc, some, a, lda, alpha, out, ldo);
    }
}
