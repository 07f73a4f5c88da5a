/*
 * The units of unit.h in AVX-512. A row's unit of 4 bits has sixteen possible values: they are computed once, as a table in a
 * register, and looked up (vpermps takes the low four bits of an index and ignores the rest). Included by unit.h.
 */
#ifndef ZL_KERNEL_ISA_UNIT512_H
#define ZL_KERNEL_ISA_UNIT512_H

#include <immintrin.h>

/* 0, 1 … 15 */
static inline __m512 ramp(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline __m512i bytes_at(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* q4_0, q4_1: 16 bytes, low nibbles first. */
static inline void look_up_4(const uint8_t *q, __m512 table, float *x)
{
    __m512i i = bytes_at(q);
    _mm512_storeu_ps(x, _mm512_permutexvar_ps(i, table));
    _mm512_storeu_ps(x + 16, _mm512_permutexvar_ps(_mm512_srli_epi32(i, 4), table));
}

/* q5_0, q5_1: the same with a fifth bit that chooses the table. */
static inline void look_up_5(const uint8_t *q, uint32_t h, __m512 low, __m512 high, float *x)
{
    __m512i i = bytes_at(q), j = _mm512_srli_epi32(i, 4);
    __m512 v = _mm512_permutexvar_ps(i, low), w = _mm512_permutexvar_ps(j, low);
    _mm512_storeu_ps(x, _mm512_mask_permutexvar_ps(v, (__mmask16)h, i, high));
    _mm512_storeu_ps(x + 16, _mm512_mask_permutexvar_ps(w, (__mmask16)(h >> 16), j, high));
}

static inline void unit_q8_0(const uint8_t *row, int64_t u, float *restrict x)
{
    const uint8_t *b = row + u * 34;
    __m512 d = _mm512_set1_ps(half_at(b));
    for (int i = 0; i < 32; i += 16) {
        __m128i q = _mm_loadu_si128((const __m128i *)(const void *)(b + 2 + i));
        _mm512_storeu_ps(x + i, _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q))));
    }
}

static inline void unit_q4_0(const uint8_t *row, int64_t u, float *restrict x)
{
    const uint8_t *b = row + u * 18;
    __m512 d = _mm512_set1_ps(half_at(b));
    look_up_4(b + 2, _mm512_mul_ps(d, _mm512_sub_ps(ramp(), _mm512_set1_ps(8))), x);
}

static inline void unit_q4_1(const uint8_t *row, int64_t u, float *restrict x)
{
    const uint8_t *b = row + u * 20;
    __m512 d = _mm512_set1_ps(half_at(b)), m = _mm512_set1_ps(half_at(b + 2));
    look_up_4(b + 4, _mm512_add_ps(_mm512_mul_ps(d, ramp()), m), x);
}

static inline void unit_q5_0(const uint8_t *row, int64_t u, float *restrict x)
{
    const uint8_t *b = row + u * 22;
    __m512 d = _mm512_set1_ps(half_at(b));
    __m512 low = _mm512_mul_ps(d, _mm512_sub_ps(ramp(), _mm512_set1_ps(16)));
    look_up_5(b + 6, u32_at(b + 2), low, _mm512_mul_ps(d, ramp()), x);
}

static inline void unit_q5_1(const uint8_t *row, int64_t u, float *restrict x)
{
    const uint8_t *b = row + u * 24;
    __m512 d = _mm512_set1_ps(half_at(b)), m = _mm512_set1_ps(half_at(b + 2));
    __m512 low = _mm512_add_ps(_mm512_mul_ps(d, ramp()), m);
    __m512 high = _mm512_add_ps(_mm512_mul_ps(d, _mm512_add_ps(ramp(), _mm512_set1_ps(16))), m);
    look_up_5(b + 8, u32_at(b + 4), low, high, x);
}

static inline void unit_q4_K(const uint8_t *row, int64_t u, float *restrict x)
{
    const uint8_t *b = row + u / 8 * 144;
    int j = (int)(u % 8), sc, mn;
    scale_min(b + 4, j, &sc, &mn);
    __m512 ds = _mm512_set1_ps(half_at(b) * (float)sc);
    __m512 ms = _mm512_set1_ps(half_at(b + 2) * (float)mn);
    __m512 table = _mm512_sub_ps(_mm512_mul_ps(ds, ramp()), ms);
    const uint8_t *q = b + 16 + j / 2 * 32;
    __m128i low = _mm_cvtsi32_si128((j & 1) * 4);
    for (int i = 0; i < 32; i += 16)
        _mm512_storeu_ps(x + i, _mm512_permutexvar_ps(_mm512_srl_epi32(bytes_at(q + i), low), table));
}

static inline void unit_q5_K(const uint8_t *row, int64_t u, float *restrict x)
{
    const uint8_t *b = row + u / 8 * 176;
    int j = (int)(u % 8), sc, mn;
    scale_min(b + 4, j, &sc, &mn);
    __m512 ds = _mm512_set1_ps(half_at(b) * (float)sc);
    __m512 ms = _mm512_set1_ps(half_at(b + 2) * (float)mn);
    __m512 table = _mm512_sub_ps(_mm512_mul_ps(ds, ramp()), ms);
    __m512 high = _mm512_sub_ps(_mm512_mul_ps(ds, _mm512_add_ps(ramp(), _mm512_set1_ps(16))), ms);
    const uint8_t *q = b + 48 + j / 2 * 32;
    __m128i low = _mm_cvtsi32_si128((j & 1) * 4), bit = _mm_set1_epi8((char)(1 << j));
    for (int i = 0; i < 32; i += 16) {
        __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(b + 16 + i));
        __m512i k = _mm512_srl_epi32(bytes_at(q + i), low);
        __m512 v = _mm512_permutexvar_ps(k, table);
        _mm512_storeu_ps(x + i, _mm512_mask_permutexvar_ps(v, _mm_test_epi8_mask(h, bit), k, high));
    }
}

static inline void unit_q6_K(const uint8_t *row, int64_t u, float *restrict x)
{
    const uint8_t *b = row + u / 8 * 210;
    int j = (int)(u % 8);
    __m128i low = _mm_cvtsi32_si128((j & 2) * 2), high = _mm_cvtsi32_si128((j & 3) * 2);
    float d = half_at(b + 208);
    const uint8_t *q = b + j / 4 * 64 + (j & 1) * 32, *h = b + 128 + j / 4 * 32;
    for (int i = 0; i < 32; i += 16) {
        __m512 ds = _mm512_set1_ps(d * (float)(int8_t)b[192 + j * 2 + i / 16]);
        __m512i four = _mm512_and_si512(_mm512_srl_epi32(bytes_at(q + i), low), _mm512_set1_epi32(15));
        __m512i two = _mm512_and_si512(_mm512_srl_epi32(bytes_at(h + i), high), _mm512_set1_epi32(3));
        __m512i v = _mm512_or_si512(four, _mm512_slli_epi32(two, 4));
        v = _mm512_sub_epi32(v, _mm512_set1_epi32(32));
        _mm512_storeu_ps(x + i, _mm512_mul_ps(ds, _mm512_cvtepi32_ps(v)));
    }
}

#endif
