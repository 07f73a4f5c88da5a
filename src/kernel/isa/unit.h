/*
 * One unit: 32 consecutive elements of a stored row, the largest piece that every quantized type can hand out with one or two
 * scales. unit_T(row, u, x) writes elements [32 u, 32 u + 32) of `row` to x[32], half_T(row, i, x) elements [16 i, 16 i + 16) to x[16]:
 * here plain loops that the compiler turns into the vectors of the instruction set at hand, in unit512.h by hand. The arithmetic is that of the reference (dequant.c), product by product.
 */
#ifndef ZL_KERNEL_ISA_UNIT_H
#define ZL_KERNEL_ISA_UNIT_H

#include <stdint.h>
#include <string.h>

#include "kernel/dequant.h"

#ifdef __F16C__
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

static inline uint16_t u16_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

static inline uint32_t u32_at(const uint8_t *p)
{
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

static inline float half_at(const uint8_t *p)
{
#ifdef __F16C__
    return _cvtsh_ss(u16_at(p));
#elif defined __aarch64__
    __fp16 h;
    memcpy(&h, p, sizeof h);
    return (float)h;
#else
    return zl_f16_to_f32(u16_at(p));
#endif
}

static inline void halves_at(const uint8_t *p, int64_t n, float *restrict x)
{
#if defined __AVX512F__
    for (; n >= 16; n -= 16, p += 32, x += 16)
        _mm512_storeu_ps(x, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)));
#elif defined __F16C__
    for (; n >= 8; n -= 8, p += 16, x += 8)
        _mm256_storeu_ps(x, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)));
#elif defined __aarch64__
    for (; n >= 4; n -= 4, p += 8, x += 4)
        vst1q_f32(x, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))));
#endif
    for (; n > 0; n--, p += 2, x++)
        *x = half_at(p);
}

static inline float bf16_at(const uint8_t *p)
{
    uint32_t u = (uint32_t)u16_at(p) << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* The (scale, minimum) pair j of a K block, see dequant.c. */
static inline void scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

static inline void half_q8_0(const uint8_t *row, int64_t i, float *restrict x)
{
    const uint8_t *b = row + i / 2 * 34, *q = b + 2 + i % 2 * 16;
    float d = half_at(b);
    for (int e = 0; e < 16; e++)
        x[e] = d * (float)(int8_t)q[e];
}

static inline void half_q4_0(const uint8_t *row, int64_t i, float *restrict x)
{
    const uint8_t *b = row + i / 2 * 18;
    const int low = (int)(i % 2) * 4;
    float d = half_at(b);
    for (int e = 0; e < 16; e++)
        x[e] = d * (float)((b[2 + e] >> low & 15) - 8);
}

static inline void half_q4_1(const uint8_t *row, int64_t i, float *restrict x)
{
    const uint8_t *b = row + i / 2 * 20;
    const int low = (int)(i % 2) * 4;
    float d = half_at(b), m = half_at(b + 2);
    for (int e = 0; e < 16; e++)
        x[e] = d * (float)(b[4 + e] >> low & 15) + m;
}

static inline void half_q5_0(const uint8_t *row, int64_t i, float *restrict x)
{
    const uint8_t *b = row + i / 2 * 22;
    const int low = (int)(i % 2) * 4;
    float d = half_at(b);
    uint32_t h = u32_at(b + 2) >> i % 2 * 16;
    for (int e = 0; e < 16; e++)
        x[e] = d * (float)((int)((uint32_t)(b[6 + e] >> low & 15) | (h >> e & 1) << 4) - 16);
}

static inline void half_q5_1(const uint8_t *row, int64_t i, float *restrict x)
{
    const uint8_t *b = row + i / 2 * 24;
    const int low = (int)(i % 2) * 4;
    float d = half_at(b), m = half_at(b + 2);
    uint32_t h = u32_at(b + 4) >> i % 2 * 16;
    for (int e = 0; e < 16; e++)
        x[e] = d * (float)(int)((uint32_t)(b[8 + e] >> low & 15) | (h >> e & 1) << 4) + m;
}

static inline void half_q4_K(const uint8_t *row, int64_t i, float *restrict x)
{
    const uint8_t *b = row + i / 16 * 144;
    int j = (int)(i / 2 % 8), sc, mn, low = (j & 1) * 4;
    scale_min(b + 4, j, &sc, &mn);
    float ds = half_at(b) * (float)sc, ms = half_at(b + 2) * (float)mn;
    const uint8_t *q = b + 16 + j / 2 * 32 + i % 2 * 16;
    for (int e = 0; e < 16; e++)
        x[e] = ds * (float)(q[e] >> low & 15) - ms;
}

static inline void half_q5_K(const uint8_t *row, int64_t i, float *restrict x)
{
    const uint8_t *b = row + i / 16 * 176;
    int j = (int)(i / 2 % 8), sc, mn, low = (j & 1) * 4;
    scale_min(b + 4, j, &sc, &mn);
    float ds = half_at(b) * (float)sc, ms = half_at(b + 2) * (float)mn;
    const uint8_t *h = b + 16 + i % 2 * 16, *q = b + 48 + j / 2 * 32 + i % 2 * 16;
    for (int e = 0; e < 16; e++)
        x[e] = ds * (float)((q[e] >> low & 15) | (h[e] >> j & 1) << 4) - ms;
}

static inline void half_q6_K(const uint8_t *row, int64_t i, float *restrict x)
{
    const uint8_t *b = row + i / 16 * 210;
    int j = (int)(i / 2 % 8), low = (j & 2) * 2, high = (j & 3) * 2;
    const uint8_t *q = b + j / 4 * 64 + (j & 1) * 32 + i % 2 * 16, *h = b + 128 + j / 4 * 32 + i % 2 * 16;
    float ds = half_at(b + 208) * (float)(int8_t)b[192 + i % 16];
    for (int e = 0; e < 16; e++)
        x[e] = ds * (float)(((q[e] >> low & 15) | (h[e] >> high & 3) << 4) - 32);
}

/* EACH_QUANT(F): F(type, name) for every quantized type. */
#define EACH_QUANT(F)                                                                            \
    F(ZL_Q8_0, q8_0)                                                                             \
    F(ZL_Q4_0, q4_0)                                                                             \
    F(ZL_Q4_1, q4_1)                                                                             \
    F(ZL_Q5_0, q5_0)                                                                             \
    F(ZL_Q5_1, q5_1)                                                                             \
    F(ZL_Q4_K, q4_K)                                                                             \
    F(ZL_Q5_K, q5_K)                                                                             \
    F(ZL_Q6_K, q6_K)

#ifdef __AVX512F__
#include "kernel/isa/unit512.h"
#else
#define UNIT(T, name)                                                                            \
    static inline void unit_##name(const uint8_t *row, int64_t u, float *restrict x)             \
    {                                                                                            \
        half_##name(row, 2 * u, x);                                                              \
        half_##name(row, 2 * u + 1, x + 16);                                                     \
    }
EACH_QUANT(UNIT)
#undef UNIT
#endif

/* Elements [from, from + n) of a row of a plain type. */
static inline void plain(enum zl_type type, const uint8_t *row, int64_t from, int64_t n, float *restrict x)
{
    switch (type) {
    case ZL_F32:
        memcpy(x, row + from * 4, (size_t)n * 4);
        break;
    case ZL_F16:
        halves_at(row + from * 2, n, x);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            x[i] = bf16_at(row + (from + i) * 2);
    }
}

#endif
