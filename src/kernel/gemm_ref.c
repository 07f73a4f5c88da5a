/* The matrix product in plain C, every sum in double, or as tiles add it up: what gemm.c must compute. For tests: it allocates, and takes its
 * time. */
#include "config.h"

#include "kernel/gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cut.h"
#include "kernel/dequant.h"
#include "kernel/pack.h"

static void *allocate(uint64_t n, uint64_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

/* To the nearest bfloat16, to even where two are as near. */
static float to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if ((u & 0x7f800000) == 0)
        u &= 0x80000000;
    else if ((u & 0x7fffffff) > 0x7f800000)
        u |= 0x400000;
    else
        u += 0x7fff + (u >> 16 & 1);
    return zl_bf16_to_f32((uint16_t)(u >> 16));
}

/* a[m][k], and in 8 bits: element k of its unit's 32, rounded to a 127th of the largest of them. */
static double activation(const struct zl_gemm_term *t, int64_t m, int64_t k, bool int8)
{
    const int64_t row = t->a_transposed ? 1 : t->lda, column = t->a_transposed ? t->lda : 1;
    const float x = t->a[m * row + k * column];
    float largest = 0;
    if (!int8)
        return (double)x;
    for (int64_t i = k / 32 * 32; i < t->k && i < k / 32 * 32 + 32; i++)
        largest = fmaxf(largest, fabsf(t->a[m * row + i * column]));
    const float d = largest / 127, inverse = 1 / d;
    return d > 0 ? (double)d * (double)rintf(x * inverse) : 0;
}

/* sum[M][N] += alpha A B, row by stored row of B. */
static void add_term(const struct zl_gemm *g, const struct zl_gemm_term *t, bool bf16, bool int8, double *sum)
{
    float *row = allocate((uint64_t)t->ldb, sizeof *row);
    bool nk = t->b_layout == ZL_B_NK;
    for (int64_t r = 0; r < (nk ? g->n : t->k); r++) {
        int64_t stored = t->b_rows ? t->b_rows[r] : r;
        zl_dequant_ref(t->b_type, (const char *)t->b + stored * zl_pack_row_bytes(t->b_type, t->ldb), row,
                       t->ldb);
        for (int64_t m = 0; m < g->m; m++)
            for (int64_t i = 0; i < (nk ? t->k : g->n); i++) {
                int64_t k = nk ? i : r, n = nk ? r : i;
                double a = activation(t, m, k, int8);
                if (bf16)
                    a = (double)to_bf16((float)a);
                sum[m * g->n + n] += (double)t->alpha * a * (double)(bf16 ? to_bf16(row[i]) : row[i]);
            }
    }
    free(row);
}

void zl_gemm_ref_in(enum zl_compute compute, const struct zl_gemm *g)
{
    double *sum = allocate((uint64_t)g->m * (uint64_t)g->n, sizeof *sum);
    for (int t = 0; t < g->n_terms; t++)
        add_term(g, &g->term[t], compute == ZL_COMPUTE_BF16 && g->term[t].frozen,
                 compute == ZL_COMPUTE_INT8 && g->term[t].frozen && g->term[t].b_layout == ZL_B_NK && zl_compute_has(ZL_COMPUTE_INT8, g->term[t].b_type), sum);
    for (int64_t m = 0; m < g->m; m++)
        for (int64_t n = 0; n < g->n; n++) {
            float *c = &g->c[m * g->ldc + n];
            double start = g->accumulate ? *c : g->bias ? g->bias[n] : 0;
            *c = (float)(start + sum[m * g->n + n]);
        }
    free(sum);
}

void zl_gemm_ref(const struct zl_gemm *g)
{
    zl_gemm_ref_in(ZL_COMPUTE_F32, g);
}

/* A term's weights in float32, row by stored row that is used. */
static float *dequantized(const struct zl_gemm *g, const struct zl_gemm_term *t)
{
    const int64_t rows = t->b_layout == ZL_B_NK ? g->n : t->k;
    float *b = allocate((uint64_t)(rows * t->ldb), sizeof *b);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t stored = t->b_rows ? t->b_rows[r] : r;
        zl_dequant_ref(t->b_type, (const char *)t->b + stored * zl_pack_row_bytes(t->b_type, t->ldb), b + r * t->ldb, t->ldb);
    }
    return b;
}

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* sum after a piece of a block: 32 elements of K at a time are one operation, which begins two chains at zero and adds both to the sum. */
static float after(float sum, const struct zl_gemm_term *t, const struct zl_cut_piece *p, const float *b, float alpha, int64_t m, int64_t n)
{
    const int64_t a_row = t->a_transposed ? 1 : t->lda, a_column = t->a_transposed ? t->lda : 1;
    const int64_t b_row = t->b_layout == ZL_B_NK ? 1 : t->ldb, b_column = t->b_layout == ZL_B_NK ? t->ldb : 1;
    const float *x = t->a + m * a_row, *w = b + n * b_column;
    for (int64_t k = 0; k < p->kc;) {
        float even_odd[2] = {0, 0};
        const int64_t end = p->pairs && k + 32 < p->kc ? k + 32 : p->kc;
        if (p->pairs)
            sum = flushed(sum);
        for (; k < end; k++) {
            const float u = x[(p->k0 + k) * a_column], v = alpha * w[(p->k0 + k) * b_row];
            if (p->pairs)
                even_odd[k & 1] = flushed(fmaf(to_bf16(u), to_bf16(v), even_odd[k & 1]));
            else
                sum = fmaf(u, v, sum);
        }
        if (p->pairs)
            sum = flushed(sum + flushed(even_odd[0] + even_odd[1]));
    }
    return sum;
}

void zl_gemm_ref_tiles(const struct zl_gemm *g)
{
    float *b[ZL_GEMM_TERMS];
    struct zl_cursor at = {0, 0};
    struct zl_cut_block block;
    for (int t = 0; t < g->n_terms; t++)
        b[t] = dequantized(g, &g->term[t]);
    for (bool first = true; (block = zl_cut_next(g, true, &at)).words > 0; first = false)
        for (int64_t m = 0; m < g->m; m++)
            for (int64_t n = 0; n < g->n; n++) {
                float *c = &g->c[m * g->ldc + n], sum = 0;
                for (int i = 0; i < block.n_pieces; i++) {
                    const struct zl_gemm_term *t = &g->term[block.piece[i].term];
                    sum = after(sum, t, &block.piece[i], b[block.piece[i].term], t->alpha != block.alpha ? t->alpha : 1, m, n);
                }
                sum *= block.alpha;
                *c = !first || g->accumulate ? sum + *c : g->bias ? sum + g->bias[n] : sum;
            }
    for (int t = 0; t < g->n_terms; t++)
        free(b[t]);
}
