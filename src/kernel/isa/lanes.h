/*
 * Weights stored along K (NK), LANES rows at a time, a row a lane: the quants of one unit are transposed as bytes, four times less
 * work than as floats, and come out of the arithmetic in the panel's order. Scales are vectors then, one a row.
 * lanes_T(p, u, dst, pn) writes elements [32 u, 32 u + 32) of rows p[0..LANES) to dst[k * pn + lane].
 */
#ifndef ZL_KERNEL_ISA_LANES_H
#define ZL_KERNEL_ISA_LANES_H

#include "kernel/isa/lanes-vec.h"

static inline void lanes_q8_0(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    vf d = halves(column(p, u * 34));
    for (int half = 0; half < 32; half += 16) {
        vu v[4];
        columns(p, u * 34 + 2 + half, v);
        for (int c = 0; c < 4; c++)
            for (int b = 0; b < 4; b++)
                put(dst + (half + 4 * c + b) * pn, d * signed_byte(v[c], b));
    }
}

static inline void lanes_q4_0(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    vf d = halves(column(p, u * 18));
    vu v[4];
    columns(p, u * 18 + 2, v);
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < 4; b++) {
            put(dst + (4 * c + b) * pn, d * four_bits(v[c], 8 * b, 8));
            put(dst + (4 * c + b + 16) * pn, d * four_bits(v[c], 8 * b + 4, 8));
        }
}

static inline void lanes_q4_1(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    vu scales = column(p, u * 20), v[4];
    vf d = halves(scales), m = halves(scales >> 16);
    columns(p, u * 20 + 4, v);
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < 4; b++) {
            put(dst + (4 * c + b) * pn, d * four_bits(v[c], 8 * b, 0) + m);
            put(dst + (4 * c + b + 16) * pn, d * four_bits(v[c], 8 * b + 4, 0) + m);
        }
}

static inline void lanes_q5_0(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    vf d = halves(column(p, u * 22));
    vu h = column(p, u * 22 + 2), v[4];
    columns(p, u * 22 + 6, v);
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < 4; b++) {
            int k = 4 * c + b;
            put(dst + k * pn, d * five_bits(v[c], 8 * b, h, k, 16));
            put(dst + (k + 16) * pn, d * five_bits(v[c], 8 * b + 4, h, k + 16, 16));
        }
}

static inline void lanes_q5_1(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    vu scales = column(p, u * 24), h = column(p, u * 24 + 4), v[4];
    vf d = halves(scales), m = halves(scales >> 16);
    columns(p, u * 24 + 8, v);
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < 4; b++) {
            int k = 4 * c + b;
            put(dst + k * pn, d * five_bits(v[c], 8 * b, h, k, 0) + m);
            put(dst + (k + 16) * pn, d * five_bits(v[c], 8 * b + 4, h, k + 16, 0) + m);
        }
}

/* Scale and minimum of unit j of a K block from its first sixteen bytes: d sc and m mn. See dequant.c for the bits. */
static inline void scales_K(const vu head[4], int j, vf *ds, vf *ms)
{
    vu s = head[1] >> (8 * (j & 3)), m = head[2] >> (8 * (j & 3)), l = head[3] >> (8 * (j & 3));
    if (j < 4) {
        s &= 63;
        m &= 63;
    } else {
        s = (l & 15) | (s >> 2 & 48);
        m = (l >> 4 & 15) | (m >> 2 & 48);
    }
    *ds = halves(head[0]) * to_float(s);
    *ms = halves(head[0] >> 16) * to_float(m);
}

static inline void lanes_q4_K(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    int64_t at = u / 8 * 144;
    int j = (int)(u % 8);
    vu head[4], v[4];
    vf ds, ms;
    columns(p, at, head);
    scales_K(head, j, &ds, &ms);
    for (int half = 0; half < 32; half += 16) {
        columns(p, at + 16 + j / 2 * 32 + half, v);
        for (int c = 0; c < 4; c++) {
            vu q = v[c] >> (j & 1) * 4;
            for (int b = 0; b < 4; b++)
                put(dst + (half + 4 * c + b) * pn, ds * four_bits(q, 8 * b, 0) - ms);
        }
    }
}

static inline void lanes_q5_K(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    int64_t at = u / 8 * 176;
    int j = (int)(u % 8);
    vu head[4], v[4], h[4];
    vf ds, ms;
    columns(p, at, head);
    scales_K(head, j, &ds, &ms);
    for (int half = 0; half < 32; half += 16) {
        columns(p, at + 48 + j / 2 * 32 + half, v);
        columns(p, at + 16 + half, h);
        for (int c = 0; c < 4; c++) {
            vu q = v[c] >> (j & 1) * 4, t = h[c] >> j;
            for (int b = 0; b < 4; b++)
                put(dst + (half + 4 * c + b) * pn, ds * five_bits(q, 8 * b, t, 8 * b, 0) - ms);
        }
    }
}

static inline void lanes_q6_K(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    int64_t at = u / 8 * 210;
    int j = (int)(u % 8);
    vf d = halves(column(p, at + 206) >> 16);
    /* the unit's two scales are the lower or the upper half of four bytes */
    vu sc = column(p, at + 192 + (j & 6) * 2) >> (j & 1) * 16, v[4], h[4];
    for (int half = 0; half < 2; half++) {
        vf ds = d * signed_byte(sc, half);
        columns(p, at + j / 4 * 64 + (j & 1) * 32 + half * 16, v);
        columns(p, at + 128 + j / 4 * 32 + half * 16, h);
        for (int c = 0; c < 4; c++) { /* four elements in the bytes of a lane */
            vu four = v[c] >> (j & 2) * 2 & 0x0f0f0f0f, two = h[c] >> (j & 3) * 2 & 0x03030303;
            vu q = (four | two << 4) ^ 0x20202020; /* less 32: the sign extends from bit 5 */
            for (int b = 0; b < 4; b++)
                put(dst + (half * 16 + 4 * c + b) * pn, ds * signed_six(q, b));
        }
    }
}

/* The plain types in the same shape: 32 elements from 32 u on. */
static inline void lanes_f32(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    for (int k = 0; k < 32; k += 4) {
        vu v[4];
        columns(p, (u * 32 + k) * 4, v);
        for (int c = 0; c < 4; c++)
            put(dst + (k + c) * pn, (vf)v[c]);
    }
}

static inline void lanes_bf16(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    for (int k = 0; k < 32; k += 8) {
        vu v[4];
        columns(p, (u * 32 + k) * 2, v);
        for (int c = 0; c < 4; c++, dst += 2 * pn) {
            put(dst, (vf)(v[c] << 16));
            put(dst + pn, (vf)(v[c] & 0xffff0000));
        }
    }
}

static inline void lanes_f16(const uint8_t *const *p, int64_t u, float *dst, int pn)
{
    for (int k = 0; k < 32; k += 8) {
        vu v[4];
        columns(p, (u * 32 + k) * 2, v);
        for (int c = 0; c < 4; c++, dst += 2 * pn) {
            put(dst, halves(v[c]));
            put(dst + pn, halves(v[c] >> 16));
        }
    }
}

#endif
