/*
 * A few rows of activations times a panel of weights: the rows that don't fill a microkernel's tile, and all of them when a model
 * generates. Activations are read where they lie; nothing of them is packed. Full tiles are the microkernel's.
 *
 * Each element is one chain of fused multiply-adds in the order of k, the same as in the microkernel, so a row has the same bits
 * here and there. See kernel/pack.h for the contract.
 */
#include "config.h"

#include "kernel/pack.h"

#include <stdbool.h>
#include <string.h>

#if defined __AVX512F__
#include <immintrin.h>
typedef __m512 vec;
#define LANES          16
#define ROWS           12
#define LOAD(p)        _mm512_loadu_ps(p)
#define STORE(p, v)    _mm512_storeu_ps(p, v)
#define SPLAT(x)       _mm512_set1_ps(x)
#define FMA(a, b, c)   _mm512_fmadd_ps(a, b, c)
#elif defined __FMA__
#include <immintrin.h>
typedef __m256 vec;
#define LANES          8
#define ROWS           6
#define LOAD(p)        _mm256_loadu_ps(p)
#define STORE(p, v)    _mm256_storeu_ps(p, v)
#define SPLAT(x)       _mm256_set1_ps(x)
#define FMA(a, b, c)   _mm256_fmadd_ps(a, b, c)
#elif defined __ARM_NEON && defined __ARM_FEATURE_FMA
#include <arm_neon.h>
typedef float32x4_t vec;
#define LANES          4
#define ROWS           12
#define LOAD(p)        vld1q_f32(p)
#define STORE(p, v)    vst1q_f32(p, v)
#define SPLAT(x)       vdupq_n_f32(x)
#define FMA(a, b, c)   vfmaq_f32(c, a, b)
#else
typedef float vec __attribute__((vector_size(16)));
#define LANES          4
#define ROWS           6
#define SPLAT(x)       ((vec){x, x, x, x})
#define FMA(a, b, c)   ((a) * (b) + (c))
static inline vec LOAD(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void STORE(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}
#endif

#define UNROLLED _Pragma("GCC unroll 12") /* or the sums are kept in memory */

/* c[0..n) = beta c + alpha v, n <= LANES. */
static inline void finish(vec v, int n, float alpha, float beta, float *c)
{
    v *= SPLAT(alpha);
    if (n >= LANES) {
        if (beta != 0)
            v += LOAD(c);
        STORE(c, v);
        return;
    }
    float x[LANES];
    STORE(x, v);
    for (int i = 0; i < n; i++)
        c[i] = beta == 0 ? x[i] : x[i] + c[i];
}

/* R rows times V vectors of a panel, R and V constants after inlining. */
static inline __attribute__((always_inline)) void block(const int R, const int V, int n_strips,
                                                        const struct zl_strip *strips, int64_t m0,
                                                        const float *panel, int64_t pn, int n, float alpha, float beta,
                                                        float *c, int64_t ldc, struct zl_ask *ask)
{
    vec sum[12][2];
    struct zl_ask next = *ask;
    UNROLLED for (int r = 0; r < R; r++)
        UNROLLED for (int v = 0; v < V; v++)
            sum[r][v] = SPLAT(0);
    for (const struct zl_strip *s = strips; s < strips + n_strips; s++) {
        const float *a = s->a + m0 * s->row;
        const int64_t row = s->row, column = s->column;
        for (int64_t k = 0; k < s->kc; k++, panel += pn, a += column) {
            vec b[2];
            if (k % ZL_ASK_STEP == 0)
                zl_ask_next(&next);
            UNROLLED for (int v = 0; v < V; v++)
                b[v] = LOAD(panel + v * LANES);
            UNROLLED for (int r = 0; r < R; r++) {
                vec x = SPLAT(a[r * row]);
                UNROLLED for (int v = 0; v < V; v++)
                    sum[r][v] = FMA(x, b[v], sum[r][v]);
            }
        }
    }
    *ask = next;
    UNROLLED for (int r = 0; r < R; r++)
        UNROLLED for (int v = 0; v < V; v++)
            finish(sum[r][v], n - v * LANES, alpha, beta, c + (m0 + r) * ldc + v * LANES);
}

/* One column of the panel: for widths that are no multiple of a vector. */
static void column(int m, int n_strips, const struct zl_strip *strips, const float *panel, int64_t pn, float alpha, float beta,
                   float *c, int64_t ldc)
{
    for (int r = 0; r < m; r++) {
        const float *b = panel;
        float sum = 0;
        for (const struct zl_strip *s = strips; s < strips + n_strips; s++)
            for (int64_t k = 0; k < s->kc; k++, b += pn)
                sum = ZL_FMA(s->a[r * s->row + k * s->column], *b, sum);
        sum *= alpha;
        c[r * ldc] = beta == 0 ? sum : sum + c[r * ldc];
    }
}

/* As many rows at a time as the registers hold: R rows of V vectors. */
#define CASE(R, V)                                                                               \
    if (left >= R) {                                                                             \
        block(R, V, n_strips, strips, r, panel, pn, n, alpha, beta, c, ldc, ask);                       \
        r += R;                                                                                  \
        continue;                                                                                \
    }

static void two_vectors(int m, int n_strips, const struct zl_strip *strips, const float *panel, int64_t pn, int n,
                        float alpha, float beta, float *c, int64_t ldc, struct zl_ask *ask)
{
    for (int64_t r = 0; r < m;) {
        int left = m - (int)r;
#if ROWS >= 12
        CASE(12, 2)
        CASE(11, 2)
        CASE(10, 2)
        CASE(9, 2)
        CASE(8, 2)
        CASE(7, 2)
#endif
        CASE(6, 2)
        CASE(5, 2)
        CASE(4, 2)
        CASE(3, 2)
        CASE(2, 2)
        CASE(1, 2)
    }
}

static void one_vector(int m, int n_strips, const struct zl_strip *strips, const float *panel, int64_t pn, int n,
                       float alpha, float beta, float *c, int64_t ldc, struct zl_ask *ask)
{
    for (int64_t r = 0; r < m;) {
        int left = m - (int)r;
        CASE(12, 1)
        CASE(8, 1)
        CASE(4, 1)
        CASE(3, 1)
        CASE(2, 1)
        CASE(1, 1)
    }
}
#undef CASE

void ZL_ISA(zl_skinny)(int m, int n_strips, const struct zl_strip *strips, const float *panel, int64_t pn, int n,
                       float alpha, float beta, float *c, int64_t ldc, struct zl_ask *ask)
{
    int j = 0;
    for (; j + 2 * LANES <= pn && n - j > LANES; j += 2 * LANES)
        two_vectors(m, n_strips, strips, panel + j, pn, n - j, alpha, beta, c + j, ldc, ask);
    for (; j + LANES <= pn && j < n; j += LANES)
        one_vector(m, n_strips, strips, panel + j, pn, n - j, alpha, beta, c + j, ldc, ask);
    for (; j < n; j++)
        column(m, n_strips, strips, panel + j, pn, alpha, beta, c + j, ldc);
}
