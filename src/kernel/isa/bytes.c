/*
 * Products in 8-bit integers: see kernel/bytes.h. Vectors of 256 bits, a unit each; compiled for AVX2, whose multiplication adds two products
 * in 16 bits (none of ours overflows), and for the two encodings of VNNI, which adds four in 32. Sums of integers are exact, and what
 * follows in float32 is the same in all copies, so their bits are too.
 */
#include "config.h"

#include "kernel/bytes.h"

#include "kernel/isa/quants.h"

#define BYTES static inline __attribute__((always_inline, unused)) __m256i

enum { COLUMNS = 8, TOGETHER = 4 /* rows of activations */ };

BYTES load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Eight sums of four products, added to c: u unsigned and below 64, or s signed; q signed, above -128. */
BYTES add_products(__m256i c, __m256i u, __m256i q)
{
#if defined __AVX512VNNI__
    return _mm256_dpbusd_epi32(c, u, q);
#elif defined __AVXVNNI__
    return _mm256_dpbusd_avx_epi32(c, u, q);
#else
    return _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_maddubs_epi16(u, q), _mm256_set1_epi16(1)));
#endif
}

BYTES add_signed_products(__m256i c, __m256i s, __m256i q)
{
    return add_products(c, _mm256_abs_epi8(s), _mm256_sign_epi8(q, s));
}

/* Low nibbles of 16 bytes, then the high ones. */
BYTES nibbles_of_16(const uint8_t *p)
{
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_and_si256(_mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)), _mm256_set1_epi8(15));
}

/* Bit i of h as the fifth of byte i. */
BYTES fifth_bits_of(uint32_t h)
{
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i v = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)h), which), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(v, bit), _mm256_set1_epi8(16));
}

/* `mask` of each byte of p, `shift` bits up. */
BYTES bits_of_32(const uint8_t *p, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(load(p), _mm_cvtsi32_si128(shift)), _mm256_set1_epi8((char)mask));
}

BYTES bytes_q8_0(const uint8_t *row, int64_t u)
{
    return load(row + u * 34 + 2);
}

BYTES bytes_q4_0(const uint8_t *row, int64_t u)
{
    return nibbles_of_16(row + u * 18 + 2);
}

BYTES bytes_q4_1(const uint8_t *row, int64_t u)
{
    return nibbles_of_16(row + u * 20 + 4);
}

BYTES bytes_q5_0(const uint8_t *row, int64_t u)
{
    return _mm256_or_si256(nibbles_of_16(row + u * 22 + 6), fifth_bits_of(u32_at(row + u * 22 + 2)));
}

BYTES bytes_q5_1(const uint8_t *row, int64_t u)
{
    return _mm256_or_si256(nibbles_of_16(row + u * 24 + 8), fifth_bits_of(u32_at(row + u * 24 + 4)));
}

BYTES bytes_q4_K(const uint8_t *row, int64_t u)
{
    return bits_of_32(row + u / 8 * 144 + 16 + u % 8 / 2 * 32, (int)(u & 1) * 4, 15);
}

BYTES bytes_q5_K(const uint8_t *row, int64_t u)
{
    const uint8_t *b = row + u / 8 * 176;
    return _mm256_or_si256(bits_of_32(b + 48 + u % 8 / 2 * 32, (int)(u & 1) * 4, 15),
                           _mm256_slli_epi16(bits_of_32(b + 16, (int)(u % 8), 1), 4));
}

BYTES bytes_q6_K(const uint8_t *row, int64_t u)
{
    const int j = (int)(u % 8);
    const uint8_t *b = row + u / 8 * 210;
    return _mm256_or_si256(bits_of_32(b + j / 4 * 64 + (j & 1) * 32, (j & 2) * 2, 15),
                           _mm256_slli_epi16(bits_of_32(b + 128 + j / 4 * 32, (j & 3) * 2, 3), 4));
}

/* What is stored above the element's own integer: 2^shift; 0 for none, and for signed bytes. */
enum { LESS_q8_0 = 0, LESS_q4_0 = 3, LESS_q4_1 = 0, LESS_q5_0 = 4, LESS_q5_1 = 0, LESS_q4_K = 0, LESS_q5_K = 0, LESS_q6_K = 5 };

#define EACH_INTEGER(F)                                                                          \
    F(ZL_Q8_0, q8_0, SCALED)                                                                     \
    F(ZL_Q4_0, q4_0, SCALED)                                                                     \
    F(ZL_Q4_1, q4_1, SCALED_FROM)                                                                \
    F(ZL_Q5_0, q5_0, SCALED)                                                                     \
    F(ZL_Q5_1, q5_1, SCALED_FROM)                                                                \
    F(ZL_Q4_K, q4_K, SCALED_FROM)                                                                \
    F(ZL_Q5_K, q5_K, SCALED_FROM)                                                                \
    F(ZL_Q6_K, q6_K, SCALED_BY_HALVES)

static inline __m128 pair_at(const float *p)
{
    return _mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

/* What a unit's sums start from: minus 2^shift times the sum of its activations, each half's where that half's lanes are. */
BYTES start(const enum kind kind, const int shift, const int32_t *sum)
{
    if (shift == 0)
        return _mm256_setzero_si256();
    const __m128i both = _mm_slli_epi32(_mm_loadl_epi64((const __m128i *)(const void *)sum), shift);
    if (kind != SCALED_BY_HALVES)
        return _mm256_zextsi128_si256(both);
    return _mm256_permutevar8x32_epi32(_mm256_zextsi128_si256(both), _mm256_setr_epi32(0, 7, 7, 7, 1, 7, 7, 7));
}

/* The weights' scale in the lanes that it belongs to. */
static inline __m256 factor_of(const enum kind kind, __m128 w)
{
    if (kind == SCALED_BY_HALVES)
        return _mm256_set_m128(_mm_shuffle_ps(w, w, 0x55), _mm_shuffle_ps(w, w, 0));
    return _mm256_broadcastss_ps(w);
}

/* x[i] = the lanes of the sum for row `first` + i of activations, i < M. M and kind are constants after inlining. One chain of additions a
 * row: with a single row each waits for the one before, and is still faster than memory. */
#define ROWS_OF(M, name, kind)                                                                   \
    static void rows_##M##_##name(const uint8_t *row, const struct zl_byte_rows *r, int64_t first, __m256 *x) \
    {                                                                                            \
        const int64_t units = r->units;                                                          \
        const int8_t *q = r->q + first * units * 32;                                             \
        const float(*scale)[2] = (const float(*)[2])r->scale + first * units;                    \
        const int32_t(*less)[2] = (const int32_t(*)[2])r->sum + first * units;                   \
        float block[16];                                                                         \
        __m128 minima[M]; /* in lane 1 */                                                        \
        V_EACH(i, M)                                                                             \
        {                                                                                        \
            x[i] = _mm256_setzero_ps();                                                          \
            minima[i] = _mm_setzero_ps();                                                        \
        }                                                                                        \
        for (int64_t u = 0; u < units; u++) {                                                    \
            prepare_##name(row, u, block);                                                       \
            const __m128 w = (__m128)scale_##name(row, u, block);                                \
            const __m256 factor = factor_of(kind, w);                                            \
            const __m256i v = bytes_##name(row, u);                                              \
            V_EACH(i, M)                                                                         \
            {                                                                                    \
                const int64_t at = i * units + u;                                                \
                const __m256i a = load(q + at * 32), from = start(kind, LESS_##name, less[at]);  \
                const __m256i n = kind == SCALED && LESS_##name == 0 ? add_signed_products(from, v, a) : add_products(from, v, a); \
                x[i] = _mm256_fmadd_ps(_mm256_mul_ps(factor, _mm256_broadcast_ss(scale[at])), _mm256_cvtepi32_ps(n), x[i]); \
                if (kind == SCALED_FROM)                                                         \
                    minima[i] = _mm_fmadd_ps(w, pair_at(scale[at]), minima[i]);                  \
            }                                                                                    \
        }                                                                                        \
        if (kind == SCALED_FROM)                                                                 \
            V_EACH(i, M)                                                                         \
                x[i] = _mm256_add_ps(x[i], _mm256_zextps128_ps256(_mm_blend_ps(_mm_setzero_ps(), minima[i], 2))); \
    }
#define ROW(T, name, kind)                                                                       \
    ROWS_OF(1, name, kind)                                                                       \
    ROWS_OF(2, name, kind)                                                                       \
    ROWS_OF(4, name, kind)
EACH_INTEGER(ROW)
#undef ROW
#undef ROWS_OF

typedef void rows_fn(const uint8_t *row, const struct zl_byte_rows *r, int64_t first, __m256 *x);

static rows_fn *const rows_fns[ZL_TYPES][3] = {
#define ENTRY(T, name, kind) [T] = {rows_1_##name, rows_2_##name, rows_4_##name},
    EACH_INTEGER(ENTRY)
#undef ENTRY
};

/* The sums of the lanes of eight vectors. */
static inline __m256 sums_of(const __m256 *x)
{
    const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
    const __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(x[4], x[5]), _mm256_hadd_ps(x[6], x[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

static void dot(const struct zl_weight *w, int64_t n0, int64_t n, int64_t m, const struct zl_byte_rows *r, float alpha, float *out,
                int64_t ldo)
{
    for (int64_t j = 0; j < n; j += COLUMNS)
        for (int64_t i = 0, some; i < m; i += some) {
            __m256 x[TOGETHER][COLUMNS], one[TOGETHER];
            some = m - i >= 4 ? 4 : m - i >= 2 ? 2 : 1;
            for (int64_t c = 0; c < COLUMNS; c++) { /* a column that is not there takes the last one */
                rows_fns[w->type][some / 2](zl_weight_row(w, n0 + (j + c < n ? j + c : n - 1)), r, i, one);
                for (int64_t s = 0; s < some; s++)
                    x[s][c] = one[s];
            }
            for (int64_t s = 0; s < some; s++) {
                float sums[COLUMNS], *to = out + (i + s) * ldo + j;
                _mm256_storeu_ps(sums, sums_of(x[s]));
                for (int64_t c = 0; c < COLUMNS && j + c < n; c++)
                    to[c] = ZL_FMA(alpha, sums[c], to[c]);
            }
        }
}

static inline float largest_of(__m256 x)
{
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

/* One unit of 32 elements. */
static inline void round_unit(const float *a, int8_t *q, float scale[2], int32_t sum[2])
{
    __m256 x[4], most = _mm256_setzero_ps(), bad = most;
    __m256i i[4];
    V_EACH(v, 4)
    {
        x[v] = _mm256_loadu_ps(a + 8 * v);
        const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x[v]);
        most = _mm256_max_ps(most, size);
        bad = _mm256_or_ps(bad, _mm256_cmp_ps(size, _mm256_set1_ps(0x1.fffffep127f), _CMP_NLE_UQ));
    }
    float d = largest_of(most) / 127, inverse = d >= 0x1p-126f ? 1 / d : 0;
    if (_mm256_movemask_ps(bad)) {
        d = __builtin_nanf("");
        inverse = 0;
    }
    V_EACH(v, 4)
        i[v] = _mm256_and_si256(_mm256_cvtps_epi32(_mm256_mul_ps(x[v], _mm256_set1_ps(inverse))),
                                _mm256_set1_epi32(inverse != 0 ? -1 : 0));
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(i[0], i[1]), _mm256_packs_epi32(i[2], i[3]));
    _mm256_storeu_si256((__m256i *)(void *)q, _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    const __m256i halves = _mm256_hadd_epi32(_mm256_add_epi32(i[0], i[1]), _mm256_add_epi32(i[2], i[3]));
    const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    const __m128i sums = _mm_hadd_epi32(both, both);
    sum[0] = -_mm_cvtsi128_si32(sums);
    sum[1] = -_mm_extract_epi32(sums, 1);
    scale[0] = d;
    scale[1] = d * (float)-(sum[0] + sum[1]);
}

static void round_rows(const struct zl_byte_rows *r, int64_t from, int64_t m, int64_t k, const float *a, int64_t lda)
{
    for (int64_t i = 0; i < m; i++, a += lda)
        for (int64_t u = 0; u < r->units; u++) {
            const int64_t at = (from + i) * r->units + u, n = k - u * 32;
            float last[32] = {0};
            const float *unit = a + u * 32;
            if (n < 32)
                unit = memcpy(last, unit, (size_t)n * sizeof *last);
            round_unit(unit, r->q + at * 32, r->scale[at], r->sum[at]);
        }
}

#if defined __AVX512VNNI__
const struct zl_bytes zl_bytes_avx512vnni = {round_rows, dot};
#elif defined __AVXVNNI__
const struct zl_bytes zl_bytes_avxvnni = {round_rows, dot};
#else
const struct zl_bytes zl_bytes_avx2 = {round_rows, dot};
#endif
