/*
 * The reference dequantization, in plain C, and the choice of the fast one. The block layouts are ggml's, as the GGUF
 * specification and its C structures give them (little-endian throughout; halves are IEEE binary16):
 *
 *   q8_0   32   d f16, q i8[32]                                    x = d q
 *   q4_0   32   d f16, q u4[32]                                    x = d (q - 8)
 *   q4_1   32   d f16, m f16, q u4[32]                             x = d q + m
 *   q5_0   32   d f16, h u32, q u4[32]                             x = d (q + 16 h - 16)
 *   q5_1   32   d f16, m f16, h u32, q u4[32]                      x = d (q + 16 h) + m
 *   q4_K  256   d f16, m f16, s u8[12], q u4[256]                  x = (d sc) q - (m mn)
 *   q5_K  256   d f16, m f16, s u8[12], h u1[256], q u4[256]       x = (d sc) (q + 16 h) - (m mn)
 *   q6_K  256   q u4[256], h u2[256], sc i8[16], d f16             x = (d sc) (q + 16 h - 32)
 *
 * u4[32]: the low nibbles of 16 bytes are elements 0..15, the high ones 16..31. In a K block the nibbles of 32 bytes are 64 elements
 * (q6_K: of 64 bytes, 128). sc and mn: eight pairs of 6 bits in 12 bytes, see scale_min().
 */
#include "config.h"

#include "kernel/dequant.h"

#include <assert.h>
#include <string.h>

#include "kernel/isa.h"
#include "kernel/pack.h"

float zl_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float zl_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
    uint32_t u;
    float f;
    if (exponent == 31) /* infinity; a NaN becomes quiet, as the CPU's conversion makes it */
        u = sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0);
    else if (exponent)
        u = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        f = (float)mantissa * 0x1p-24f;
        memcpy(&u, &f, sizeof u);
        u |= sign;
    }
    memcpy(&f, &u, sizeof f);
    return f;
}

static float half_at(const uint8_t *p)
{
    return zl_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The j-th of eight (scale, minimum) pairs: bytes 0-3 scales, 4-7 minima (6 bits each) of the first four; bytes 8-11 the
 * low nibbles of the last four pairs, whose upper two bits are the top bits of bytes 0-7. */
static void scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

static void block_q8_0(const uint8_t *b, float *x)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        x[i] = d * (float)(int8_t)b[2 + i];
}

static void block_q4_0(const uint8_t *b, float *x)
{
    float d = half_at(b);
    for (int i = 0; i < 16; i++) {
        x[i] = d * (float)((b[2 + i] & 15) - 8);
        x[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
    }
}

static void block_q4_1(const uint8_t *b, float *x)
{
    float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < 16; i++) {
        x[i] = d * (float)(b[4 + i] & 15) + m;
        x[i + 16] = d * (float)(b[4 + i] >> 4) + m;
    }
}

static void block_q5_0(const uint8_t *b, float *x)
{
    float d = half_at(b);
    uint32_t h = u32_at(b + 2);
    for (int i = 0; i < 16; i++) {
        x[i] = d * (float)((int)((b[6 + i] & 15) | (h >> i & 1) << 4) - 16);
        x[i + 16] = d * (float)((int)((uint32_t)(b[6 + i] >> 4) | (h >> (i + 16) & 1) << 4) - 16);
    }
}

static void block_q5_1(const uint8_t *b, float *x)
{
    float d = half_at(b), m = half_at(b + 2);
    uint32_t h = u32_at(b + 4);
    for (int i = 0; i < 16; i++) {
        x[i] = d * (float)((b[8 + i] & 15) | (h >> i & 1) << 4) + m;
        x[i + 16] = d * (float)((uint32_t)(b[8 + i] >> 4) | (h >> (i + 16) & 1) << 4) + m;
    }
}

static void block_q4_K(const uint8_t *b, float *x)
{
    float d = half_at(b), m = half_at(b + 2);
    for (int j = 0; j < 8; j++) {
        int sc, mn;
        scale_min(b + 4, j, &sc, &mn);
        float ds = d * (float)sc, ms = m * (float)mn;
        const uint8_t *q = b + 16 + j / 2 * 32;
        for (int i = 0; i < 32; i++)
            x[j * 32 + i] = ds * (float)(j & 1 ? q[i] >> 4 : q[i] & 15) - ms;
    }
}

static void block_q5_K(const uint8_t *b, float *x)
{
    float d = half_at(b), m = half_at(b + 2);
    for (int j = 0; j < 8; j++) {
        int sc, mn;
        scale_min(b + 4, j, &sc, &mn);
        float ds = d * (float)sc, ms = m * (float)mn;
        const uint8_t *h = b + 16, *q = b + 48 + j / 2 * 32;
        for (int i = 0; i < 32; i++)
            x[j * 32 + i] = ds * (float)((j & 1 ? q[i] >> 4 : q[i] & 15) + (h[i] >> j & 1) * 16) - ms;
    }
}

static void block_q6_K(const uint8_t *b, float *x)
{
    float d = half_at(b + 208);
    const int8_t *sc = (const int8_t *)b + 192;
    for (int j = 0; j < 8; j++) {
        const uint8_t *q = b + j / 4 * 64 + (j & 1) * 32, *h = b + 128 + j / 4 * 32;
        int low = (j & 2) * 2, high = (j & 3) * 2;
        for (int i = 0; i < 32; i++)
            x[j * 32 + i] = d * (float)sc[j * 2 + i / 16] *
                            (float)(((q[i] >> low & 15) | (h[i] >> high & 3) << 4) - 32);
    }
}

void zl_dequant_ref(enum zl_type type, const void *src, float *dst, int64_t n)
{
    static void (*const block[ZL_TYPES])(const uint8_t *, float *) = {
        [ZL_Q8_0] = block_q8_0, [ZL_Q4_0] = block_q4_0, [ZL_Q4_1] = block_q4_1,
        [ZL_Q5_0] = block_q5_0, [ZL_Q5_1] = block_q5_1, [ZL_Q4_K] = block_q4_K,
        [ZL_Q5_K] = block_q5_K, [ZL_Q6_K] = block_q6_K,
    };
    const uint8_t *p = src;
    int64_t width = zl_type_info[type].block, bytes = zl_type_info[type].block_bytes;
    assert(type < ZL_TYPES && n % width == 0);
    for (int64_t i = 0; i < n; i += width, p += bytes) {
        if (type == ZL_F32)
            memcpy(dst + i, p, sizeof *dst);
        else if (type == ZL_F16)
            dst[i] = half_at(p);
        else if (type == ZL_BF16)
            dst[i] = zl_bf16_to_f32((uint16_t)(p[0] | p[1] << 8));
        else
            block[type](p, dst + i);
    }
}

void zl_dequant(enum zl_type type, const void *src, float *dst, int64_t n)
{
    assert(type < ZL_TYPES && n % (int64_t)zl_type_info[type].block == 0);
    ZL_ISA_PICK(zl_dequant_isa)(type, src, dst, n);
}

void zl_dequant_rows(enum zl_type type, const void *src, int64_t cols, const int32_t *ids, int64_t n,
                     float *out)
{
    const uint8_t *base = src;
    int64_t row_bytes = zl_pack_row_bytes(type, cols);
    for (int64_t i = 0; i < n; i++)
        zl_dequant(type, base + ids[i] * row_bytes, out + i * cols, cols);
}
