/*
 * The vectors of lanes.h: as wide as the instruction set has them, in the compiler's own vector notation, with intrinsics for the few
 * things that it doesn't express: transposing, halves, looking up.
 */
#ifndef ZL_KERNEL_ISA_LANES_VEC_H
#define ZL_KERNEL_ISA_LANES_VEC_H

#include "kernel/isa/unit.h"

#if defined __AVX512F__
#define LANES 16
#elif defined __AVX2__
#define LANES 8
#else
#define LANES 4
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef int32_t vs __attribute__((vector_size(4 * LANES)));

static inline void put(float *dst, vf v)
{
    memcpy(dst, &v, sizeof v);
}

static inline vf to_float(vu v)
{
    return __builtin_convertvector((vs)v, vf);
}

/* Byte b of each lane, signed; six bits of it, signed. */
static inline vf signed_byte(vu v, int b)
{
    return to_float((vu)((vs)(v << (24 - 8 * b)) >> 24));
}

static inline vf signed_six(vu v, int b)
{
    return to_float((vu)((vs)(v << (26 - 8 * b)) >> 26));
}

/* Four bytes at offset `at` of each row. */
static inline vu column(const uint8_t *const *p, int64_t at)
{
    uint32_t x[LANES];
    vu v;
    for (int r = 0; r < LANES; r++)
        x[r] = u32_at(p[r] + at);
    memcpy(&v, x, sizeof v);
    return v;
}

/*
 * Sixteen bytes at offset `at` of each row: v[c] lane r = their c-th four bytes in row r. A register takes row r into its first quarter
 * and rows r + 4, r + 8, r + 12 into its others, as far as it has them; transposing 4 x 4 inside the quarters leaves the rows
 * in order.
 */
#define QUARTER(r) _mm_loadu_si128((const __m128i *)(const void *)(p[r] + at))
#if defined __AVX512F__
static inline void columns(const uint8_t *const *p, int64_t at, vu v[4])
{
    __m512i q[4];
    for (int i = 0; i < 4; i++) {
        q[i] = _mm512_castsi128_si512(QUARTER(i));
        q[i] = _mm512_mask_broadcast_i32x4(q[i], 0x00f0, QUARTER(i + 4));
        q[i] = _mm512_mask_broadcast_i32x4(q[i], 0x0f00, QUARTER(i + 8));
        q[i] = _mm512_mask_broadcast_i32x4(q[i], 0xf000, QUARTER(i + 12));
    }
    __m512i a = _mm512_unpacklo_epi32(q[0], q[1]), b = _mm512_unpackhi_epi32(q[0], q[1]);
    __m512i c = _mm512_unpacklo_epi32(q[2], q[3]), d = _mm512_unpackhi_epi32(q[2], q[3]);
    v[0] = (vu)_mm512_unpacklo_epi64(a, c);
    v[1] = (vu)_mm512_unpackhi_epi64(a, c);
    v[2] = (vu)_mm512_unpacklo_epi64(b, d);
    v[3] = (vu)_mm512_unpackhi_epi64(b, d);
}
#elif defined __AVX2__
static inline void columns(const uint8_t *const *p, int64_t at, vu v[4])
{
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(QUARTER(i)), QUARTER(i + 4), 1);
    __m256i a = _mm256_unpacklo_epi32(q[0], q[1]), b = _mm256_unpackhi_epi32(q[0], q[1]);
    __m256i c = _mm256_unpacklo_epi32(q[2], q[3]), d = _mm256_unpackhi_epi32(q[2], q[3]);
    v[0] = (vu)_mm256_unpacklo_epi64(a, c);
    v[1] = (vu)_mm256_unpackhi_epi64(a, c);
    v[2] = (vu)_mm256_unpacklo_epi64(b, d);
    v[3] = (vu)_mm256_unpackhi_epi64(b, d);
}
#elif defined __SSE2__
static inline void columns(const uint8_t *const *p, int64_t at, vu v[4])
{
    __m128i a = _mm_unpacklo_epi32(QUARTER(0), QUARTER(1)), b = _mm_unpackhi_epi32(QUARTER(0), QUARTER(1));
    __m128i c = _mm_unpacklo_epi32(QUARTER(2), QUARTER(3)), d = _mm_unpackhi_epi32(QUARTER(2), QUARTER(3));
    v[0] = (vu)_mm_unpacklo_epi64(a, c);
    v[1] = (vu)_mm_unpackhi_epi64(a, c);
    v[2] = (vu)_mm_unpacklo_epi64(b, d);
    v[3] = (vu)_mm_unpackhi_epi64(b, d);
}
#elif defined __aarch64__
#define WORDS(r)   vreinterpretq_u32_u8(vld1q_u8(p[r] + at))
#define DOUBLES(v) vreinterpretq_u64_u32(v)
static inline void columns(const uint8_t *const *p, int64_t at, vu v[4])
{
    const uint32x4x2_t a = vtrnq_u32(WORDS(0), WORDS(1)), b = vtrnq_u32(WORDS(2), WORDS(3));
    v[0] = (vu)vtrn1q_u64(DOUBLES(a.val[0]), DOUBLES(b.val[0]));
    v[1] = (vu)vtrn1q_u64(DOUBLES(a.val[1]), DOUBLES(b.val[1]));
    v[2] = (vu)vtrn2q_u64(DOUBLES(a.val[0]), DOUBLES(b.val[0]));
    v[3] = (vu)vtrn2q_u64(DOUBLES(a.val[1]), DOUBLES(b.val[1]));
}
#undef WORDS
#undef DOUBLES
#else
static inline void columns(const uint8_t *const *p, int64_t at, vu v[4])
{
    for (int c = 0; c < 4; c++)
        v[c] = column(p, at + 4 * c);
}
#endif
#undef QUARTER

/* A whole vector at offset `at` of each row, which may be a cache line: v[c] lane r = its c-th four bytes in row r. Reads each line once,
 * while columns() would come back to it: rows that lie a power of two apart have pushed each other out of the cache by then. */
static inline void lines(const uint8_t *const *p, int64_t at, vu v[LANES])
{
#if defined __AVX512F__
    __m512i q[16], t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        q[i] = _mm512_loadu_si512(p[i] + at);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 4) { /* inside the quarters, four rows at a time */
        __m512i a = _mm512_unpacklo_epi32(q[i], q[i + 1]), b = _mm512_unpackhi_epi32(q[i], q[i + 1]);
        __m512i c = _mm512_unpacklo_epi32(q[i + 2], q[i + 3]), d = _mm512_unpackhi_epi32(q[i + 2], q[i + 3]);
        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 4; i++) { /* the quarters */
        __m512i a = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x44), b = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xee);
        __m512i c = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x44), d = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xee);
        v[i] = (vu)_mm512_shuffle_i32x4(a, c, 0x88);
        v[i + 4] = (vu)_mm512_shuffle_i32x4(a, c, 0xdd);
        v[i + 8] = (vu)_mm512_shuffle_i32x4(b, d, 0x88);
        v[i + 12] = (vu)_mm512_shuffle_i32x4(b, d, 0xdd);
    }
#elif defined __AVX2__
    columns(p, at, v);
    columns(p, at + 16, v + 4);
#else
    columns(p, at, v);
#endif
}

/* The lower half of each lane, as a binary16. */
static inline vf halves(vu v)
{
#if defined __AVX512F__
    return (vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)v));
#elif defined __AVX2__
    __m256i w = _mm256_and_si256((__m256i)v, _mm256_set1_epi32(0xffff));
    return (vf)_mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
#elif defined __aarch64__
    return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32((uint32x4_t)v)));
#else
    uint32_t h[LANES];
    float x[LANES];
    vf f;
    memcpy(h, &v, sizeof h);
    for (int r = 0; r < LANES; r++)
        x[r] = zl_f16_to_f32((uint16_t)h[r]);
    memcpy(&f, x, sizeof f);
    return f;
#endif
}

/* Four bits from bit s of each lane, less `minus`. */
static inline vf four_bits(vu v, int s, float minus)
{
#ifdef __AVX512F__
    return (vf)_mm512_permutexvar_ps((__m512i)(v >> s), ramp() - minus);
#else
    return to_float(v >> s & 15) - minus;
#endif
}

/* Four bits from bit s of v and a fifth from bit t of h, less `minus`. */
static inline vf five_bits(vu v, int s, vu h, int t, float minus)
{
#ifdef __AVX512F__
    const __m512 low = ramp() - minus, high = ramp() + (16 - minus);
    __mmask16 fifth = _mm512_test_epi32_mask((__m512i)h, _mm512_set1_epi32((int)(1u << t)));
    __m512i q = (__m512i)(v >> s);
    return (vf)_mm512_mask_permutexvar_ps(_mm512_permutexvar_ps(q, low), fifth, q, high);
#else
    return to_float((v >> s & 15) | (h >> t & 1) << 4) - minus;
#endif
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

/* Ask for elements [k0, k0 + kc) of LANES rows, all lines at once: who walks the rows in small steps would wait for each line. */
static inline void fetch(enum zl_type type, const uint8_t *const *p, int64_t k0, int64_t kc)
{
    const int64_t unit = zl_type_info[type].block, bytes = zl_type_info[type].block_bytes;
    const int64_t from = k0 / unit * bytes, to = (k0 + kc + unit - 1) / unit * bytes;
    for (int r = 0; r < LANES; r++)
        for (int64_t at = from; at < to; at += 64)
            __builtin_prefetch(p[r] + at, 0, 3);
}

#endif
