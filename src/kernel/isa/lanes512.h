/*
 * Weights stored along K (NK), sixteen rows at a time, a row a lane: the quants of one unit are transposed as bytes, four times
 * less work than as floats, and come out of the arithmetic in the panel's order. Scales are vectors then, one a row. AVX-512.
 * lanes_T(p, u, keep, dst, pn) writes elements [32 u, 32 u + 32) of rows p[0..16) to dst[k * pn + lane]; lanes outside
 * `keep` get zero.
 */
#ifndef ZL_KERNEL_ISA_LANES512_H
#define ZL_KERNEL_ISA_LANES512_H

#include "kernel/isa/unit.h"

#ifdef __AVX512F__

/* Sixteen bytes at offset `at` of each row: v[c] lane r = their c-th four bytes in row r. A register takes rows r, r + 4, r + 8,
 * r + 12 into its quarters, so that transposing 4 x 4 inside the quarters leaves the rows in order. */
static inline void columns(const uint8_t *const p[16], int64_t at, __m512i v[4])
{
    __m512i q[4];
    for (int i = 0; i < 4; i++) {
#define QUARTER(r) _mm_loadu_si128((const __m128i *)(const void *)(p[r] + at))
        q[i] = _mm512_castsi128_si512(QUARTER(i));
        q[i] = _mm512_mask_broadcast_i32x4(q[i], 0x00f0, QUARTER(i + 4));
        q[i] = _mm512_mask_broadcast_i32x4(q[i], 0x0f00, QUARTER(i + 8));
        q[i] = _mm512_mask_broadcast_i32x4(q[i], 0xf000, QUARTER(i + 12));
#undef QUARTER
    }
    __m512i a = _mm512_unpacklo_epi32(q[0], q[1]), b = _mm512_unpackhi_epi32(q[0], q[1]);
    __m512i c = _mm512_unpacklo_epi32(q[2], q[3]), d = _mm512_unpackhi_epi32(q[2], q[3]);
    v[0] = _mm512_unpacklo_epi64(a, c);
    v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d);
    v[3] = _mm512_unpackhi_epi64(b, d);
}

/* Four bytes at offset `at` of each row. */
static inline __m512i column(const uint8_t *const p[16], int64_t at)
{
    __m512i v = _mm512_setzero_si512();
    for (int r = 0; r < 16; r++)
        v = _mm512_mask_set1_epi32(v, (__mmask16)(1 << r), (int)u32_at(p[r] + at));
    return v;
}

static inline __m512 low_half(__m512i v)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

static inline __m512 high_half(__m512i v)
{
    return low_half(_mm512_srli_epi32(v, 16));
}

/* d q, or d q + m, or d q - m; the last operation also clears the lanes that are no rows. */
static inline void put(float *dst, __mmask16 keep, __m512 d, __m512 q)
{
    _mm512_storeu_ps(dst, _mm512_maskz_mul_ps(keep, d, q));
}

static inline void put_plus(float *dst, __mmask16 keep, __m512 d, __m512 q, __m512 m)
{
    _mm512_storeu_ps(dst, _mm512_maskz_add_ps(keep, _mm512_mul_ps(d, q), m));
}

static inline void put_minus(float *dst, __mmask16 keep, __m512 d, __m512 q, __m512 m)
{
    _mm512_storeu_ps(dst, _mm512_maskz_sub_ps(keep, _mm512_mul_ps(d, q), m));
}

/* Byte b of each lane, signed. */
static inline __m512 signed_byte(__m512i v, int b)
{
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(v, (unsigned)(24 - 8 * b)), 24));
}

/* Four bits from bit s of each lane, looked up. */
static inline __m512 four_bits(__m512i v, int s, __m512 table)
{
    return _mm512_permutexvar_ps(_mm512_srli_epi32(v, (unsigned)s), table);
}

static inline void lanes_q8_0(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    __m512 d = low_half(column(p, u * 34));
    for (int half = 0; half < 32; half += 16) {
        __m512i v[4];
        columns(p, u * 34 + 2 + half, v);
        for (int c = 0; c < 4; c++)
            for (int b = 0; b < 4; b++)
                put(dst + (half + 4 * c + b) * pn, keep, d, signed_byte(v[c], b));
    }
}

static inline void lanes_q4_0(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    const __m512 table = _mm512_sub_ps(ramp(), _mm512_set1_ps(8));
    __m512 d = low_half(column(p, u * 18));
    __m512i v[4];
    columns(p, u * 18 + 2, v);
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < 4; b++) {
            put(dst + (4 * c + b) * pn, keep, d, four_bits(v[c], 8 * b, table));
            put(dst + (4 * c + b + 16) * pn, keep, d, four_bits(v[c], 8 * b + 4, table));
        }
}

static inline void lanes_q4_1(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    __m512i scales = column(p, u * 20), v[4];
    __m512 d = low_half(scales), m = high_half(scales);
    columns(p, u * 20 + 4, v);
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < 4; b++) {
            put_plus(dst + (4 * c + b) * pn, keep, d, four_bits(v[c], 8 * b, ramp()), m);
            put_plus(dst + (4 * c + b + 16) * pn, keep, d, four_bits(v[c], 8 * b + 4, ramp()), m);
        }
}

/* Four bits from bit s of v and a fifth from bit t of h, less `minus`. */
static inline __m512 five_bits(__m512i v, int s, __m512i h, int t, float minus)
{
    const __m512 low = _mm512_sub_ps(ramp(), _mm512_set1_ps(minus));
    const __m512 high = _mm512_add_ps(low, _mm512_set1_ps(16));
    __mmask16 fifth = _mm512_test_epi32_mask(h, _mm512_set1_epi32((int)(1u << t)));
    __m512i q = _mm512_srli_epi32(v, (unsigned)s);
    return _mm512_mask_permutexvar_ps(_mm512_permutexvar_ps(q, low), fifth, q, high);
}

static inline void lanes_q5_0(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    __m512 d = low_half(column(p, u * 22));
    __m512i h = column(p, u * 22 + 2), v[4];
    columns(p, u * 22 + 6, v);
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < 4; b++) {
            int k = 4 * c + b;
            put(dst + k * pn, keep, d, five_bits(v[c], 8 * b, h, k, 16));
            put(dst + (k + 16) * pn, keep, d, five_bits(v[c], 8 * b + 4, h, k + 16, 16));
        }
}

static inline void lanes_q5_1(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    __m512i scales = column(p, u * 24), h = column(p, u * 24 + 4), v[4];
    __m512 d = low_half(scales), m = high_half(scales);
    columns(p, u * 24 + 8, v);
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < 4; b++) {
            int k = 4 * c + b;
            put_plus(dst + k * pn, keep, d, five_bits(v[c], 8 * b, h, k, 0), m);
            put_plus(dst + (k + 16) * pn, keep, d, five_bits(v[c], 8 * b + 4, h, k + 16, 0), m);
        }
}

/* Scale and minimum of unit j of a K block from its first sixteen bytes: (d sc), (m mn). See dequant.c for the bits. */
static inline void scales_K(const __m512i head[4], int j, __m512 *ds, __m512 *ms)
{
    const __m512i low4 = _mm512_set1_epi32(15), top2 = _mm512_set1_epi32(48);
    __m128i byte = _mm_cvtsi32_si128(8 * (j & 3));
    __m512i s = _mm512_srl_epi32(head[1], byte), m = _mm512_srl_epi32(head[2], byte);
    if (j < 4) {
        s = _mm512_and_si512(s, _mm512_set1_epi32(63));
        m = _mm512_and_si512(m, _mm512_set1_epi32(63));
    } else {
        __m512i l = _mm512_srl_epi32(head[3], byte), h = _mm512_srli_epi32(l, 4);
        s = _mm512_and_si512(_mm512_srli_epi32(s, 2), top2);
        m = _mm512_and_si512(_mm512_srli_epi32(m, 2), top2);
        s = _mm512_or_si512(_mm512_and_si512(l, low4), s);
        m = _mm512_or_si512(_mm512_and_si512(h, low4), m);
    }
    *ds = _mm512_mul_ps(low_half(head[0]), _mm512_cvtepi32_ps(s));
    *ms = _mm512_mul_ps(high_half(head[0]), _mm512_cvtepi32_ps(m));
}

static inline void lanes_q4_K(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    int64_t at = u / 8 * 144;
    int j = (int)(u % 8);
    __m512i head[4], v[4];
    __m512 ds, ms;
    columns(p, at, head);
    scales_K(head, j, &ds, &ms);
    __m128i low = _mm_cvtsi32_si128((j & 1) * 4);
    for (int half = 0; half < 32; half += 16) {
        columns(p, at + 16 + j / 2 * 32 + half, v);
        for (int c = 0; c < 4; c++) {
            __m512i q = _mm512_srl_epi32(v[c], low);
            for (int b = 0; b < 4; b++)
                put_minus(dst + (half + 4 * c + b) * pn, keep, ds, four_bits(q, 8 * b, ramp()), ms);
        }
    }
}

static inline void lanes_q5_K(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    int64_t at = u / 8 * 176;
    int j = (int)(u % 8);
    __m512i head[4], v[4], h[4];
    __m512 ds, ms;
    columns(p, at, head);
    scales_K(head, j, &ds, &ms);
    __m128i low = _mm_cvtsi32_si128((j & 1) * 4), high = _mm_cvtsi32_si128(j);
    for (int half = 0; half < 32; half += 16) {
        columns(p, at + 48 + j / 2 * 32 + half, v);
        columns(p, at + 16 + half, h);
        for (int c = 0; c < 4; c++) {
            __m512i q = _mm512_srl_epi32(v[c], low), t = _mm512_srl_epi32(h[c], high);
            for (int b = 0; b < 4; b++)
                put_minus(dst + (half + 4 * c + b) * pn, keep, ds, five_bits(q, 8 * b, t, 8 * b, 0), ms);
        }
    }
}

static inline void lanes_q6_K(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    int64_t at = u / 8 * 210;
    int j = (int)(u % 8);
    const __m512i low4 = _mm512_set1_epi32(0x0f0f0f0f), low2 = _mm512_set1_epi32(0x03030303);
    __m128i low = _mm_cvtsi32_si128((j & 2) * 2), high = _mm_cvtsi32_si128((j & 3) * 2);
    __m512 d = high_half(column(p, at + 206));
    /* the unit's two scales are the lower or the upper half of four bytes */
    __m512i sc = _mm512_srl_epi32(column(p, at + 192 + (j & 6) * 2), _mm_cvtsi32_si128((j & 1) * 16)), v[4], h[4];
    for (int half = 0; half < 2; half++) {
        __m512 ds = _mm512_mul_ps(d, signed_byte(sc, half));
        columns(p, at + j / 4 * 64 + (j & 1) * 32 + half * 16, v);
        columns(p, at + 128 + j / 4 * 32 + half * 16, h);
        for (int c = 0; c < 4; c++) { /* four elements in the bytes of a lane */
            __m512i four = _mm512_and_si512(_mm512_srl_epi32(v[c], low), low4);
            __m512i two = _mm512_and_si512(_mm512_srl_epi32(h[c], high), low2);
            __m512i q = _mm512_or_si512(four, _mm512_slli_epi32(two, 4));
            q = _mm512_sub_epi8(q, _mm512_set1_epi8(32));
            for (int b = 0; b < 4; b++)
                put(dst + (half * 16 + 4 * c + b) * pn, keep, ds, signed_byte(q, b));
        }
    }
}

/* The plain types in the same shape: 32 elements from 32 u on. */
static inline void lanes_f32(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    for (int k = 0; k < 32; k += 4) {
        __m512i v[4];
        columns(p, (u * 32 + k) * 4, v);
        for (int c = 0; c < 4; c++)
            _mm512_storeu_si512(dst + (k + c) * pn, _mm512_maskz_mov_epi32(keep, v[c]));
    }
}

static inline void lanes_bf16(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    for (int k = 0; k < 32; k += 8) {
        __m512i v[4];
        columns(p, (u * 32 + k) * 2, v);
        for (int c = 0; c < 4; c++, dst += 2 * pn) {
            _mm512_storeu_si512(dst, _mm512_maskz_slli_epi32(keep, v[c], 16));
            _mm512_storeu_si512(dst + pn, _mm512_maskz_and_epi32(keep, v[c], upper));
        }
    }
}

static inline void lanes_f16(const uint8_t *const p[16], int64_t u, __mmask16 keep, float *dst, int pn)
{
    for (int k = 0; k < 32; k += 8) {
        __m512i v[4];
        columns(p, (u * 32 + k) * 2, v);
        for (int c = 0; c < 4; c++, dst += 2 * pn) {
            _mm512_storeu_ps(dst, _mm512_maskz_mov_ps(keep, low_half(v[c])));
            _mm512_storeu_ps(dst + pn, _mm512_maskz_mov_ps(keep, high_half(v[c])));
        }
    }
}

#endif
#endif
