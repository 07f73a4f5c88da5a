/*
 * Stored rows taken apart in the order they lie in: quants_T(row, u, q) gives elements [32 u, 32 u + 32) of a row as the integers that
 * are stored, scale_T(row, u, x) what belongs to them, by the type's kind, in its first lanes. prepare_T(row, u, x) comes before, for each u
 * from a multiple of 8 on, and keeps in x[16] what a larger block's units share.
 *
 * For sums of products that factor the scales out (dot.c); who wants elements themselves takes unit.h.
 */
#ifndef ZL_KERNEL_ISA_QUANTS_H
#define ZL_KERNEL_ISA_QUANTS_H

#include "kernel/isa/unit.h"
#include "kernel/isa/vec.h"

enum { UNIT_VECTORS = 32 / VL };

enum kind {
    AS_IT_IS,        /* an element is what quants_T gives */
    SCALED,          /* times lane 0 */
    SCALED_FROM,     /* times lane 0, plus lane 1; lanes 2 and 3 are 0 */
    SCALED_BY_HALVES /* times lane 0 in the first half of the unit, times lane 1 in the second */
};

/* VL bytes, each in a lane. */
V_INLINE vi bytes_of(const uint8_t *p)
{
#if VL == 16
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
#elif VL == 8
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
#elif defined __aarch64__
    return (vi)vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(u32_at(p))))));
#else
    return (vi){p[0], p[1], p[2], p[3]};
#endif
}

V_INLINE vi signed_bytes_of(const uint8_t *p)
{
#if VL == 16
    return (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
#elif VL == 8
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
#elif defined __aarch64__
    return (vi)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(u32_at(p))))));
#else
    return (vi){(int8_t)p[0], (int8_t)p[1], (int8_t)p[2], (int8_t)p[3]};
#endif
}

V_INLINE vf to_floats(vi v)
{
    return __builtin_convertvector(v, vf);
}

/* Bits [shift, shift + 4) of bytes; shift is 0 or 4. */
V_INLINE vi nibbles(vi v, int shift)
{
    v >>= shift;
    if (shift == 0)
        v &= 15;
    return v;
}

/* Bits [from, from + VL) of h, each as the fifth of a lane. */
V_INLINE vi fifth_bits(uint32_t h, int from)
{
#if VL == 16
    return (vi)_mm512_maskz_set1_epi32((__mmask16)(h >> from), 16);
#else
    vi lane;
    for (int i = 0; i < VL; i++)
        lane[i] = from + i;
    return ((((vi){0} + (int32_t)h) >> lane) & 1) << 4;
#endif
}

#define EACH_VECTOR(i) V_EACH(i, UNIT_VECTORS)
#define EACH_VECTOR_OF_HALF(i) V_EACH(i, UNIT_VECTORS / 2)

V_INLINE void quants_q8_0(const uint8_t *row, int64_t u, vf *q)
{
    EACH_VECTOR(i)
        q[i] = to_floats(signed_bytes_of(row + u * 34 + 2 + i * VL));
}

V_INLINE void quants_of_four(const uint8_t *p, int minus, vf *q)
{
    EACH_VECTOR_OF_HALF(i)
    {
        vi v = bytes_of(p + i * VL);
        q[i] = to_floats(nibbles(v, 0) - minus);
        q[i + UNIT_VECTORS / 2] = to_floats(nibbles(v, 4) - minus);
    }
}

V_INLINE void quants_q4_0(const uint8_t *row, int64_t u, vf *q)
{
    quants_of_four(row + u * 18 + 2, 8, q);
}

V_INLINE void quants_q4_1(const uint8_t *row, int64_t u, vf *q)
{
    quants_of_four(row + u * 20 + 4, 0, q);
}

V_INLINE void quants_of_five(const uint8_t *p, int minus, vf *q)
{
    const uint32_t h = u32_at(p);
    EACH_VECTOR_OF_HALF(i)
    {
        vi v = bytes_of(p + 4 + i * VL);
        q[i] = to_floats((nibbles(v, 0) | fifth_bits(h, i * VL)) - minus);
        q[i + UNIT_VECTORS / 2] = to_floats((nibbles(v, 4) | fifth_bits(h, 16 + i * VL)) - minus);
    }
}

V_INLINE void quants_q5_0(const uint8_t *row, int64_t u, vf *q)
{
    quants_of_five(row + u * 22 + 2, 16, q);
}

V_INLINE void quants_q5_1(const uint8_t *row, int64_t u, vf *q)
{
    quants_of_five(row + u * 24 + 4, 0, q);
}

V_INLINE void quants_q4_K(const uint8_t *row, int64_t u, vf *q)
{
    const uint8_t *p = row + u / 8 * 144 + 16 + u % 8 / 2 * 32;
    const int shift = (int)(u & 1) * 4;
    EACH_VECTOR(i)
        q[i] = to_floats(bytes_of(p + i * VL) >> shift & 15);
}

V_INLINE void quants_q5_K(const uint8_t *row, int64_t u, vf *q)
{
    const uint8_t *b = row + u / 8 * 176, *h = b + 16, *p = b + 48 + u % 8 / 2 * 32;
    const int j = (int)(u % 8), shift = (j & 1) * 4;
    EACH_VECTOR(i)
    {
        vi four = bytes_of(p + i * VL) >> shift & 15, fifth = bytes_of(h + i * VL) >> j & 1;
        q[i] = to_floats(four | fifth << 4);
    }
}

V_INLINE void quants_q6_K(const uint8_t *row, int64_t u, vf *q)
{
    const int j = (int)(u % 8), low = (j & 2) * 2, high = (j & 3) * 2;
    const uint8_t *b = row + u / 8 * 210, *p = b + j / 4 * 64 + (j & 1) * 32, *h = b + 128 + j / 4 * 32;
    EACH_VECTOR(i)
    {
        vi four = bytes_of(p + i * VL) >> low & 15, two = bytes_of(h + i * VL) >> high & 3;
        q[i] = to_floats((four | two << 4) - 32);
    }
}

V_INLINE void quants_f32(const uint8_t *row, int64_t u, vf *q)
{
    EACH_VECTOR(i)
        memcpy(&q[i], row + (u * 32 + i * VL) * 4, sizeof q[i]);
}

V_INLINE void quants_bf16(const uint8_t *row, int64_t u, vf *q)
{
    EACH_VECTOR(i)
    {
        const uint8_t *p = row + (u * 32 + i * VL) * 2;
#if VL == 16
        q[i] = (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)), 16);
#elif VL == 8
        q[i] = (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)), 16);
#elif defined __aarch64__
        q[i] = (vf)vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16);
#else
        q[i] = (vf){bf16_at(p), bf16_at(p + 2), bf16_at(p + 4), bf16_at(p + 6)};
#endif
    }
}

V_INLINE void quants_f16(const uint8_t *row, int64_t u, vf *q)
{
    EACH_VECTOR(i)
    {
        const uint8_t *p = row + (u * 32 + i * VL) * 2;
#if VL == 16
        q[i] = (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
#elif VL == 8
        q[i] = (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
#elif defined __aarch64__
        q[i] = (vf)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
#else
        q[i] = (vf){half_at(p), half_at(p + 2), half_at(p + 4), half_at(p + 6)};
#endif
    }
}

/* A unit's scales: see enum kind. */
typedef float v4 __attribute__((vector_size(16), may_alias));

V_INLINE v4 two_halves(const uint8_t *p)
{
#ifdef __F16C__
    return (v4)_mm_cvtph_ps(_mm_cvtsi32_si128((int)u32_at(p)));
#elif defined __aarch64__
    return (v4)vcvt_f32_f16(vreinterpret_f16_u64(vdup_n_u64(u32_at(p))));
#else
    return (v4){half_at(p), half_at(p + 2), 0, 0};
#endif
}

V_INLINE v4 one_half(const uint8_t *p)
{
#if defined __F16C__ || defined __aarch64__
    return two_halves(p);
#else
    return (v4){half_at(p), 0, 0, 0};
#endif
}

/* Types of 32 elements a block: nothing to prepare. */
#define SCALE(name, bytes, read)                                                                 \
    V_INLINE void prepare_##name(const uint8_t *row, int64_t u, float *x)                        \
    {                                                                                            \
        (void)row, (void)u, (void)x;                                                             \
    }                                                                                            \
    V_INLINE v4 scale_##name(const uint8_t *row, int64_t u, const float *x)                      \
    {                                                                                            \
        (void)x;                                                                                 \
        return read(row + u * bytes);                                                            \
    }
#define NONE(p) ((void)(p), (v4){0})
SCALE(f32, 0, NONE)
SCALE(f16, 0, NONE)
SCALE(bf16, 0, NONE)
SCALE(q8_0, 34, one_half)
SCALE(q4_0, 18, one_half)
SCALE(q4_1, 20, two_halves)
SCALE(q5_0, 22, one_half)
SCALE(q5_1, 24, two_halves)
#undef SCALE
#undef NONE

V_INLINE v4 prepared(const float *x, int64_t u)
{
    v4 v = {0};
    memcpy(&v, x + u % 8 * 2, 2 * sizeof *x);
    return v;
}

/* A K block's eight pairs of six bits (see dequant.c), four in a word. */
V_INLINE void pairs_of_six(const uint8_t *b, float *x)
{
    const uint32_t s = u32_at(b + 4), t = u32_at(b + 8), r = u32_at(b + 12);
    const uint32_t words[4] = {s & 0x3f3f3f3f, (r & 0x0f0f0f0f) | (s >> 2 & 0x30303030), t & 0x3f3f3f3f,
                               (r >> 4 & 0x0f0f0f0f) | (t >> 2 & 0x30303030)};
    const float d = half_at(b), m = -half_at(b + 2);
    uint8_t q[16];
    memcpy(q, words, sizeof q);
    for (int i = 0; i < 8; i++) {
        x[2 * i] = d * (float)q[i];
        x[2 * i + 1] = m * (float)q[8 + i];
    }
}

V_INLINE void prepare_q4_K(const uint8_t *row, int64_t u, float *x)
{
    if (u % 8 == 0)
        pairs_of_six(row + u / 8 * 144, x);
}

V_INLINE void prepare_q5_K(const uint8_t *row, int64_t u, float *x)
{
    if (u % 8 == 0)
        pairs_of_six(row + u / 8 * 176, x);
}

V_INLINE void prepare_q6_K(const uint8_t *row, int64_t u, float *x)
{
    const uint8_t *b = row + u / 8 * 210;
    if (u % 8)
        return;
    const float d = half_at(b + 208);
    for (int i = 0; i < 16; i++)
        x[i] = d * (float)(int8_t)b[192 + i];
}

#define SCALE(name)                                                                              \
    V_INLINE v4 scale_##name(const uint8_t *row, int64_t u, const float *x)                      \
    {                                                                                            \
        (void)row;                                                                               \
        return prepared(x, u);                                                                   \
    }
SCALE(q4_K)
SCALE(q5_K)
SCALE(q6_K)
#undef SCALE

/* EACH_STORED(F): F(type, name, kind). */
#define EACH_STORED(F)                                                                           \
    F(ZL_F32, f32, AS_IT_IS)                                                                     \
    F(ZL_F16, f16, AS_IT_IS)                                                                     \
    F(ZL_BF16, bf16, AS_IT_IS)                                                                   \
    F(ZL_Q8_0, q8_0, SCALED)                                                                     \
    F(ZL_Q4_0, q4_0, SCALED)                                                                     \
    F(ZL_Q4_1, q4_1, SCALED_FROM)                                                                \
    F(ZL_Q5_0, q5_0, SCALED)                                                                     \
    F(ZL_Q5_1, q5_1, SCALED_FROM)                                                                \
    F(ZL_Q4_K, q4_K, SCALED_FROM)                                                                \
    F(ZL_Q5_K, q5_K, SCALED_FROM)                                                                \
    F(ZL_Q6_K, q6_K, SCALED_BY_HALVES)

#endif
