/*
 * Weights stored along K (NK), LANES rows at a time, a row a lane: the quants of one unit are transposed as bytes, four times less
 * work than as floats, and come out of the arithmetic as vectors along N. Scales are vectors then, one a row.
 *
 * Included once for each thing to do with the vectors: NAME(T) names the function, SINK are its further parameters, and PUT(k, v)
 * takes elements 32 u + k, 0 <= k < 32, of rows p[0..LANES). ADVANCE goes to the next
 * unit.
 */
#include "kernel/isa/lanes-vec.h"

static inline __attribute__((always_inline)) void NAME(q8_0)(const uint8_t *const *p, int64_t u, SINK)
{
    vf d = halves(column(p, u * 34));
#pragma GCC unroll 8
    for (int half = 0; half < 32; half += 16) {
        vu v[4];
        columns(p, u * 34 + 2 + half, v);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
#pragma GCC unroll 4
            for (int b = 0; b < 4; b++)
                PUT(half + 4 * c + b, d * signed_byte(v[c], b));
    }
}

static inline __attribute__((always_inline)) void NAME(q4_0)(const uint8_t *const *p, int64_t u, SINK)
{
    vf d = halves(column(p, u * 18));
    vu v[4];
    columns(p, u * 18 + 2, v);
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++)
#pragma GCC unroll 4
        for (int b = 0; b < 4; b++) {
            PUT(4 * c + b, d * four_bits(v[c], 8 * b, 8));
            PUT(4 * c + b + 16, d * four_bits(v[c], 8 * b + 4, 8));
        }
}

static inline __attribute__((always_inline)) void NAME(q4_1)(const uint8_t *const *p, int64_t u, SINK)
{
    vu scales = column(p, u * 20), v[4];
    vf d = halves(scales), m = halves(scales >> 16);
    columns(p, u * 20 + 4, v);
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++)
#pragma GCC unroll 4
        for (int b = 0; b < 4; b++) {
            PUT(4 * c + b, d * four_bits(v[c], 8 * b, 0) + m);
            PUT(4 * c + b + 16, d * four_bits(v[c], 8 * b + 4, 0) + m);
        }
}

static inline __attribute__((always_inline)) void NAME(q5_0)(const uint8_t *const *p, int64_t u, SINK)
{
    vf d = halves(column(p, u * 22));
    vu h = column(p, u * 22 + 2), v[4];
    columns(p, u * 22 + 6, v);
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++)
#pragma GCC unroll 4
        for (int b = 0; b < 4; b++) {
            int k = 4 * c + b;
            PUT(k, d * five_bits(v[c], 8 * b, h, k, 16));
            PUT(k + 16, d * five_bits(v[c], 8 * b + 4, h, k + 16, 16));
        }
}

static inline __attribute__((always_inline)) void NAME(q5_1)(const uint8_t *const *p, int64_t u, SINK)
{
    vu scales = column(p, u * 24), h = column(p, u * 24 + 4), v[4];
    vf d = halves(scales), m = halves(scales >> 16);
    columns(p, u * 24 + 8, v);
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++)
#pragma GCC unroll 4
        for (int b = 0; b < 4; b++) {
            int k = 4 * c + b;
            PUT(k, d * five_bits(v[c], 8 * b, h, k, 0) + m);
            PUT(k + 16, d * five_bits(v[c], 8 * b + 4, h, k + 16, 0) + m);
        }
}

static inline __attribute__((always_inline)) void NAME(q4_K)(const uint8_t *const *p, int64_t u, SINK)
{
    int64_t at = u / 8 * 144;
    int j = (int)(u % 8);
    vu head[4], v[4];
    vf ds, ms;
    columns(p, at, head);
    scales_K(head, j, &ds, &ms);
#pragma GCC unroll 8
    for (int half = 0; half < 32; half += 16) {
        columns(p, at + 16 + j / 2 * 32 + half, v);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            vu q = v[c] >> (j & 1) * 4;
#pragma GCC unroll 4
            for (int b = 0; b < 4; b++)
                PUT(half + 4 * c + b, ds * four_bits(q, 8 * b, 0) - ms);
        }
    }
}

static inline __attribute__((always_inline)) void NAME(q5_K)(const uint8_t *const *p, int64_t u, SINK)
{
    int64_t at = u / 8 * 176;
    int j = (int)(u % 8);
    vu head[4], v[4], h[4];
    vf ds, ms;
    columns(p, at, head);
    scales_K(head, j, &ds, &ms);
#pragma GCC unroll 8
    for (int half = 0; half < 32; half += 16) {
        columns(p, at + 48 + j / 2 * 32 + half, v);
        columns(p, at + 16 + half, h);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            vu q = v[c] >> (j & 1) * 4, t = h[c] >> j;
#pragma GCC unroll 4
            for (int b = 0; b < 4; b++)
                PUT(half + 4 * c + b, ds * five_bits(q, 8 * b, t, 8 * b, 0) - ms);
        }
    }
}

static inline __attribute__((always_inline)) void NAME(q6_K)(const uint8_t *const *p, int64_t u, SINK)
{
    int64_t at = u / 8 * 210;
    int j = (int)(u % 8);
    vf d = halves(column(p, at + 206) >> 16);
    /* the unit's two scales are the lower or the upper half of four bytes */
    vu sc = column(p, at + 192 + (j & 6) * 2) >> (j & 1) * 16, v[4], h[4];
#pragma GCC unroll 8
    for (int half = 0; half < 2; half++) {
        vf ds = d * signed_byte(sc, half);
        columns(p, at + j / 4 * 64 + (j & 1) * 32 + half * 16, v);
        columns(p, at + 128 + j / 4 * 32 + half * 16, h);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) { /* four elements in the bytes of a lane */
            vu four = v[c] >> (j & 2) * 2 & 0x0f0f0f0f, two = h[c] >> (j & 3) * 2 & 0x03030303;
            vu q = (four | two << 4) ^ 0x20202020; /* less 32: the sign extends from bit 5 */
#pragma GCC unroll 4
            for (int b = 0; b < 4; b++)
                PUT(half * 16 + 4 * c + b, ds * signed_six(q, b));
        }
    }
}

/* The plain types in the same shape: 32 elements from 32 u on. */
static inline __attribute__((always_inline)) void NAME(f32)(const uint8_t *const *p, int64_t u, SINK)
{
#pragma GCC unroll 8
    for (int k = 0; k < 32; k += LANES) {
        vu v[LANES];
        lines(p, (u * 32 + k) * 4, v);
#pragma GCC unroll 16
        for (int c = 0; c < LANES; c++)
            PUT(k + c, (vf)v[c]);
    }
}

static inline __attribute__((always_inline)) void NAME(bf16)(const uint8_t *const *p, int64_t u, SINK)
{
#pragma GCC unroll 8
    for (int k = 0; k < 32; k += 2 * LANES) {
        vu v[LANES];
        lines(p, (u * 32 + k) * 2, v);
#pragma GCC unroll 16
        for (int c = 0; c < LANES; c++) {
            PUT(k + 2 * c, (vf)(v[c] << 16));
            PUT(k + 2 * c + 1, (vf)(v[c] & 0xffff0000));
        }
    }
}

static inline __attribute__((always_inline)) void NAME(f16)(const uint8_t *const *p, int64_t u, SINK)
{
#pragma GCC unroll 8
    for (int k = 0; k < 32; k += 2 * LANES) {
        vu v[LANES];
        lines(p, (u * 32 + k) * 2, v);
#pragma GCC unroll 16
        for (int c = 0; c < LANES; c++) {
            PUT(k + 2 * c, halves(v[c]));
            PUT(k + 2 * c + 1, halves(v[c] >> 16));
        }
    }
}

/* Units [u, end) of LANES rows. */
static void NAME(units)(enum zl_type type, const uint8_t *const *p, int64_t u, int64_t end, SINK)
{
    switch (type) {
#define CASE(T, name)                                                                            \
    case T:                                                                                      \
        for (; u < end; u++, ADVANCE)                                                            \
            NAME(name)(p, u, SINK_ARGS);                                                         \
        break;
        EACH_QUANT(CASE)
        CASE(ZL_F32, f32)
        CASE(ZL_F16, f16)
        CASE(ZL_BF16, bf16)
#undef CASE
    default:
        break;
    }
}

#undef NAME
#undef SINK
#undef SINK_ARGS
#undef PUT
#undef ADVANCE
