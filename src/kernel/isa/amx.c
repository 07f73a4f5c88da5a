/*
 * The tile of bfloat16 pairs by AMX: see kernel/pairs.h. Its registers are matrices of 16 rows of 64 bytes: one holds 16 x 16 sums, one 16 words
 * of 16 rows of activations, one 16 columns of 16 words of weights; a panel of weights is such columns as it stands, and a panel of
 * activations is [words / 16][32 rows][16 words], what is left behind the last whole 16 words [32 rows][words left]. So nothing of it is
 * transposed.
 *
 * A run of pairs is summed 16 words at a time: the even elements' products are one chain of fused multiply-adds in the order of k, from
 * zero, the odd ones' another, and the sum of both is added to the result; numbers below the smallest normal one are zero
 * throughout. zl_gemm_ref_tiles() is that in plain C, to the bit.
 */
#include "config.h"

#include "kernel/pairs.h"

#include <immintrin.h>
#include <stdbool.h>

#include "kernel/isa/vec.h"

enum {
    PN = ZL_TILES_PN,
    PM = ZL_TILES_PM,
    SIDE = ZL_TILES_SIDE, /* rows, and words of a row, of a register */
    LINE = SIDE * 4       /* bytes of a row of a register */
};

/* gcc doesn't know that a register's load reads memory. */
#define WRITTEN() __asm__ volatile("" ::: "memory")

static void begin(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } all = {.palette = 1,
             .row_bytes = {LINE, LINE, LINE, LINE, LINE, LINE, LINE, LINE},
             .rows = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE}};
    _Static_assert(sizeof all == 64, "TILECFG");
    _tile_loadconfig(&all);
}

static void end(void)
{
    _tile_release();
}

/* n <= 32 elements of a row, side by side, to 16 words; zeros behind them. */
V_INLINE __m512i words_of(const float *a, int64_t n)
{
    const __mmask32 some = (__mmask32)((UINT64_C(1) << n) - 1);
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps((__mmask16)(some >> SIDE), a + SIDE), _mm512_maskz_loadu_ps((__mmask16)some, a));
}

/* Rows [0, m) of [kc] elements side by side; those behind them up to the end of a register of zeros. */
static void rows_m(const float *a, int64_t lda, int m, int64_t kc, float *dst)
{
    const int64_t step = 2 * SIDE, left = kc % step, words = zl_pairs_words(left);
    const int rows = m <= SIDE ? SIDE : PM;
    float *last = dst + kc / step * SIDE * PM;
    for (int i = 0; i < rows; i++, a += lda) {
        float *to = dst + i * SIDE;
        if (i < m)
            for (int64_t k = 0; k + step <= kc; k += step, to += PM * SIDE)
                _mm512_store_si512(to, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(a + k + SIDE), _mm512_loadu_ps(a + k)));
        else
            for (int64_t k = 0; k + step <= kc; k += step, to += PM * SIDE)
                _mm512_store_si512(to, _mm512_setzero_si512());
        if (left)
            _mm512_mask_storeu_epi32(last + i * words, (__mmask16)((1u << words) - 1), words_of(a + kc - left, i < m ? left : 0));
    }
}

static void tiles_m(const float *a, int64_t lda, int transposed, int m, int64_t kc, float *dst)
{
    if (!transposed) {
        rows_m(a, lda, m, kc, dst);
        return;
    }
    float some[PM][2 * SIDE];
    for (int64_t k = 0; k < kc; k += 2 * SIDE, dst += SIDE * PM) {
        const int64_t n = kc - k < 2 * SIDE ? kc - k : 2 * SIDE;
        for (int64_t e = 0; e < n; e++)
            for (int i = 0; i < m; i++)
                some[i][e] = a[(k + e) * lda + i];
        rows_m(some[0], 2 * SIDE, m, n, dst);
    }
}

/* Sums of a tile, in memory between runs. */
struct sums {
    _Alignas(64) float at[PM][PN];
};

/* Activations stream by from the second-level cache and are not to push the weights out of the first: their loads say so.
 *
 * The registers: sums 0 1 of the upper rows, 2 3 of the lower ones; activations 4 and 5; weights 6 and 7. R and C, rows and columns of
 * registers, are constants. */
V_INLINE void multiply(const int R, const int C, const float *m, const float *b, int64_t b_bytes)
{
    _tile_stream_loadd(4, m, LINE);
    _tile_loadd(6, b, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if (C > 1) {
        _tile_loadd(7, b + SIDE, b_bytes);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (R > 1) {
        _tile_stream_loadd(5, m + SIDE * SIDE, LINE);
        _tile_dpbf16ps(2, 5, 6);
        if (C > 1)
            _tile_dpbf16ps(3, 5, 7);
    }
}

/* The words behind the last whole register, as a register each with zeros behind them. */
V_INLINE void multiply_left(const int R, const int C, const float *m, const float *b, int pn, int64_t words)
{
    _Alignas(64) float rows[PM * SIDE], columns[SIDE * PN];
    const __mmask16 some = (__mmask16)((1u << words) - 1);
    for (int i = 0; i < R * SIDE; i++)
        _mm512_store_si512(rows + i * SIDE, _mm512_maskz_loadu_epi32(some, m + i * words));
    for (int64_t w = 0; w < SIDE; w++)
        for (int v = 0; v < C; v++)
            _mm512_store_si512(columns + w * PN + v * SIDE, w < words ? _mm512_load_si512(b + w * pn + v * SIDE) : _mm512_setzero_si512());
    WRITTEN();
    multiply(R, C, rows, columns, PN * 4);
    WRITTEN(); /* and read, before what stands there is something else */
}

V_INLINE void pairs(const int R, const int C, int64_t words, const float *m, const float *b, int pn, bool first, struct sums *s,
                    const float *c, int64_t ldc, struct zl_ask *ask)
{
    struct zl_ask next = *ask;
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        WRITTEN();
        _tile_loadd(0, &s->at[0][0], PN * 4);
        if (C > 1)
            _tile_loadd(1, &s->at[0][SIDE], PN * 4);
        if (R > 1)
            _tile_loadd(2, &s->at[SIDE][0], PN * 4);
        if (R > 1 && C > 1)
            _tile_loadd(3, &s->at[SIDE][SIDE], PN * 4);
    }
    int row = 0;
    for (; words >= SIDE; words -= SIDE, m += SIDE * PM, b += SIDE * pn) {
        multiply(R, C, m, b, pn * 4);
        for (int i = 0; i < 2 && row < R * SIDE; i++, row++) {
            _mm_prefetch((const char *)(c + row * ldc), _MM_HINT_T0);
            if (C > 1)
                _mm_prefetch((const char *)(c + row * ldc + SIDE), _MM_HINT_T0);
        }
        V_EACH(i, SIDE / ZL_ASK_STEP)
            zl_ask_next(&next);
    }
    if (words)
        multiply_left(R, C, m, b, pn, words);
    *ask = next;
    _tile_stored(0, &s->at[0][0], PN * 4);
    if (C > 1)
        _tile_stored(1, &s->at[0][SIDE], PN * 4);
    if (R > 1)
        _tile_stored(2, &s->at[SIDE][0], PN * 4);
    if (R > 1 && C > 1)
        _tile_stored(3, &s->at[SIDE][SIDE], PN * 4);
}

static void pairs_run(int m, int pn, int64_t words, const float *mpanel, const float *npanel, bool first, struct sums *s, const float *c,
                      int64_t ldc, struct zl_ask *ask)
{
    if (m > SIDE && pn > SIDE)
        pairs(2, 2, words, mpanel, npanel, pn, first, s, c, ldc, ask);
    else if (m > SIDE)
        pairs(2, 1, words, mpanel, npanel, pn, first, s, c, ldc, ask);
    else if (pn > SIDE)
        pairs(1, 2, words, mpanel, npanel, pn, first, s, c, ldc, ask);
    else
        pairs(1, 1, words, mpanel, npanel, pn, first, s, c, ldc, ask);
}

enum { TOGETHER = 8 }; /* rows of a float32 panel of weights in registers: an adapter of usual rank */

/* K rows, a constant, of a float32 panel. */
V_INLINE void some_floats(const int K, const int C, int m, const float *a, const float *b, int pn, struct sums *s)
{
    __m512 w[TOGETHER][2];
    V_EACH(k, K)
        V_EACH(v, C)
            w[k][v] = _mm512_load_ps(b + k * pn + v * SIDE);
    for (int r = 0; r < m; r++) {
        __m512 x[2];
        V_EACH(v, C)
            x[v] = _mm512_load_ps(&s->at[r][v * SIDE]);
        V_EACH(k, K)
        {
            const __m512 e = _mm512_set1_ps(a[k * PM + r]);
            V_EACH(v, C)
                x[v] = _mm512_fmadd_ps(e, w[k][v], x[v]);
        }
        V_EACH(v, C)
            _mm512_store_ps(&s->at[r][v * SIDE], x[v]);
    }
}

static void floats_run(int m, int pn, int64_t words, const float *a, const float *b, bool first, struct sums *s)
{
    if (first)
        memset(s, 0, sizeof *s);
    for (; words >= TOGETHER; words -= TOGETHER, a += TOGETHER * PM, b += TOGETHER * pn)
        if (pn > SIDE)
            some_floats(TOGETHER, 2, m, a, b, pn, s);
        else
            some_floats(TOGETHER, 1, m, a, b, pn, s);
    for (; words > 0; words--, a += PM, b += pn)
        if (pn > SIDE)
            some_floats(1, 2, m, a, b, pn, s);
        else
            some_floats(1, 1, m, a, b, pn, s);
}

V_INLINE void finish(int m, int n, float alpha, float beta, const struct sums *s, float *c, int64_t ldc)
{
    const __m512 factor = _mm512_set1_ps(alpha);
    const __mmask32 all = (__mmask32)(n >= PN ? 0xffffffffu : (1u << n) - 1);
    for (int r = 0; r < m; r++, c += ldc)
        V_EACH(v, 2)
        {
            const __mmask16 mask = (__mmask16)(all >> v * SIDE);
            __m512 x = _mm512_mul_ps(factor, _mm512_load_ps(&s->at[r][v * SIDE]));
            if (beta != 0)
                x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, c + v * SIDE));
            _mm512_mask_storeu_ps(c + v * SIDE, mask, x);
        }
}

static void tile(int m, int n, int n_runs, const struct zl_run *runs, const float *mpanel, const float *npanel, int pn,
                 float alpha, float beta, float *c, int64_t ldc, struct zl_ask *ask)
{
    struct sums s;
    for (int i = 0; i < n_runs; i++) {
        if (runs[i].pairs)
            pairs_run(m, pn, runs[i].words, mpanel, npanel, i == 0, &s, c, ldc, ask);
        else
            floats_run(m, pn, runs[i].words, mpanel, npanel, i == 0, &s);
        mpanel += runs[i].words * PM;
        npanel += runs[i].words * pn;
    }
    finish(m, n, alpha, beta, &s, c, ldc);
}

const struct zl_pairs zl_pairs_amx = {.name = "amx 32x32", .pn = PN, .pm = PM, .nk = zl_pairs_nk_avx512bf16, .kn = zl_pairs_kn_avx512bf16,
                                      .m = tiles_m, .tile = tile, .begin = begin, .end = end};
