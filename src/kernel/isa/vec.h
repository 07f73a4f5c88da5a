/*
 * Vectors of floats, as wide as the instruction set of this copy has them, and what the kernels do
 * with them. Every operation treats its lanes alike, so a row's end goes through the same
 * instructions as its middle (v_load_n, v_store_n) and a result never depends on where in a row, or
 * on what address, an element stands.
 *
 * Not a portability library: only what isa/ needs. The compilers' vector extensions do the rest of
 * the arithmetic.
 */
#ifndef ZL_KERNEL_ISA_VEC_H
#define ZL_KERNEL_ISA_VEC_H

#include <stdint.h>
#include <string.h>

#include "kernel/isa.h"

#if defined __AVX512F__ || defined __AVX2__ || defined __SSE2__
#include <immintrin.h>
#elif defined __ARM_NEON
#include <arm_neon.h>
#endif

#if defined __AVX512F__
#define VL       16 /* lanes */
#define VX(name) _mm512_##name
#elif defined __AVX2__
#define VL       8
#define VX(name) _mm256_##name
#else
#define VL       4
#define VX(name) _mm_##name
#endif

/* For loops over an array of vectors of constant length, so that it lives in registers. */
#ifdef __clang__
#define V_UNROLL _Pragma("clang loop unroll(full)")
#else
#define V_UNROLL _Pragma("GCC unroll 16")
#endif
#define V_EACH(i, n) V_UNROLL for (int i = 0; i < (n); i++)

typedef float vf __attribute__((vector_size(VL * 4), may_alias));
typedef int32_t vi __attribute__((vector_size(VL * 4), may_alias));
typedef float vf_unaligned __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef int32_t vi_unaligned __attribute__((vector_size(VL * 4), aligned(4), may_alias));

#define V_INLINE static inline __attribute__((always_inline, unused))

V_INLINE vf v_set(float x)
{
    return x - (vf){0};
}

V_INLINE vf v_load(const float *p)
{
    return *(const vf_unaligned *)p;
}

V_INLINE void v_store(float *p, vf v)
{
    *(vf_unaligned *)p = v;
}

/* The first n < VL lanes; the others read as zero and are not written. */
V_INLINE vf v_load_n(const float *p, int64_t n)
{
#if defined __AVX512F__
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
#endif
}

V_INLINE void v_store_n(float *p, vf v, int64_t n)
{
#if defined __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    memcpy(p, &v, (size_t)n * sizeof *p);
#endif
}

/* What is left of a row: n lanes, or all where n is VL or more. */
V_INLINE vf v_load_left(const float *p, int64_t n)
{
    return n >= VL ? v_load(p) : v_load_n(p, n);
}

V_INLINE void v_store_left(float *p, vf v, int64_t n)
{
    if (n >= VL)
        v_store(p, v);
    else
        v_store_n(p, v, n);
}

/* a * b + c, fused where the instruction set has it. */
V_INLINE vf v_fma(vf a, vf b, vf c)
{
#if defined __FMA__
    return (vf)VX(fmadd_ps)(a, b, c);
#elif defined __ARM_FEATURE_FMA && defined __ARM_NEON
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

#ifdef __aarch64__
/* a * b[lane] + c: one instruction where `lane`, 0 .. 3, is constant after inlining. gcc 12 makes it of the intrinsic too, but copies
 * registers that it could add to, and then has too few of them for a microkernel. */
V_INLINE vf v_fma_lane(vf a, vf b, const int lane, vf c)
{
#if defined __OPTIMIZE__ && !defined __clang__
    __asm__("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(c) : "w"(a), "w"(b), "i"(lane));
    return c;
#else
    const float32x4_t x = (float32x4_t)a, y = (float32x4_t)b, z = (float32x4_t)c;
    switch (lane) {
    case 0:
        return (vf)vfmaq_laneq_f32(z, x, y, 0);
    case 1:
        return (vf)vfmaq_laneq_f32(z, x, y, 1);
    case 2:
        return (vf)vfmaq_laneq_f32(z, x, y, 2);
    default:
        return (vf)vfmaq_laneq_f32(z, x, y, 3);
    }
#endif
}
#endif

/* a > b ? a : b and its like, which is b where either is NaN. */
V_INLINE vf v_max(vf a, vf b)
{
#if defined __SSE2__
    return (vf)VX(max_ps)(a, b);
#else
    vi m = a > b;
    return (vf)(((vi)a & m) | ((vi)b & ~m));
#endif
}

V_INLINE vf v_min(vf a, vf b)
{
#if defined __SSE2__
    return (vf)VX(min_ps)(a, b);
#else
    vi m = a < b;
    return (vf)(((vi)a & m) | ((vi)b & ~m));
#endif
}

V_INLINE vf v_sqrt(vf a)
{
#if defined __SSE2__
    return (vf)VX(sqrt_ps)(a);
#elif defined __aarch64__
    return (vf)vsqrtq_f32((float32x4_t)a);
#else
    for (int i = 0; i < VL; i++)
        a[i] = __builtin_sqrtf(a[i]);
    return a;
#endif
}

/* m ? a : b, lane by lane, for m of all ones or zeros. */
V_INLINE vf v_select(vi m, vf a, vf b)
{
    return (vf)(((vi)a & m) | ((vi)b & ~m));
}

/* Lanes of a and b by turns: the first halves of both (lo) or the second halves (hi). */
#if VL == 16
#define V_LO_INDEX 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define V_HI_INDEX 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif VL == 8
#define V_LO_INDEX 0, 8, 1, 9, 2, 10, 3, 11
#define V_HI_INDEX 4, 12, 5, 13, 6, 14, 7, 15
#else
#define V_LO_INDEX 0, 4, 1, 5
#define V_HI_INDEX 2, 6, 3, 7
#endif
#ifdef __clang__
#define V_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define V_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif

/* The sum of the lanes: halves are added to halves. */
#if VL == 16
#define V_FAR_INDEX(half) \
    half, 1 + half, 2 + half, 3 + half, 4 + half, 5 + half, 6 + half, 7 + half, half, half, half, half, half, half, half, half
#elif VL == 8
#define V_FAR_INDEX(half) half, 1 + half, 2 + half, 3 + half, half, half, half, half
#else
#define V_FAR_INDEX(half) half, 1 + half, half, half
#endif
V_INLINE float v_sum(vf v)
{
#if VL > 8
    v += V_SHUFFLE(v, v, V_FAR_INDEX(8));
#endif
#if VL > 4
    v += V_SHUFFLE(v, v, V_FAR_INDEX(4));
#endif
    v += V_SHUFFLE(v, v, V_FAR_INDEX(2));
    v += V_SHUFFLE(v, v, V_FAR_INDEX(1));
    return v[0];
}

/* Lanes below n, all ones, the others zeros; n may be anything. */
V_INLINE vi v_below(int64_t n)
{
    static const int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return *(const vi_unaligned *)numbers < (int32_t)(n < 0 ? 0 : n < VL ? n : VL);
}

/* x[i][j] <- x[j][i]: log2(VL) rounds of a perfect shuffle. */
V_INLINE void v_transpose(vf x[VL])
{
    V_UNROLL for (int round = 1; round < VL; round *= 2)
    {
        vf y[VL];
        V_EACH(i, VL / 2)
        {
            y[2 * i] = V_SHUFFLE(x[i], x[i + VL / 2], V_LO_INDEX);
            y[2 * i + 1] = V_SHUFFLE(x[i], x[i + VL / 2], V_HI_INDEX);
        }
        V_EACH(i, VL)
            x[i] = y[i];
    }
}

/* The sums of the lanes of VL vectors, the i-th in lane i: halves are added to halves as in v_sum. x is used up. */
V_INLINE vf v_sums(vf x[VL])
{
    V_UNROLL for (int half = VL / 2; half; half /= 2)
        V_EACH(i, half)
            x[i] = V_SHUFFLE(x[i], x[i + half], V_LO_INDEX) + V_SHUFFLE(x[i], x[i + half], V_HI_INDEX);
    return x[0];
}

/* Polynomials of degree 6 by Remez's exchange, relative error 3e-9; 1.5 * 2^23 + 127 added to a
 * small number leaves its nearest integer, biased as an exponent, in the low bits. What lies below
 * the smallest normal number becomes exactly 0. */
#define V_ROUND 12583039.0f

/* 2^x for x <= 127. NaN stays NaN. */
V_INLINE vf v_exp2(vf x)
{
    x = v_max(v_set(-127.0f), x);
    vf t = x + V_ROUND, f = x - (t - V_ROUND);
    vf p = v_fma(v_set(1.559467816e-4f), f, v_set(1.34066439e-3f));
    p = v_fma(p, f, v_set(9.617692973e-3f));
    p = v_fma(p, f, v_set(5.550310551e-2f));
    p = v_fma(p, f, v_set(2.402265278e-1f));
    p = v_fma(p, f, v_set(6.93147215e-1f));
    p = v_fma(p, f, v_set(1.0f));
    return p * (vf)((vi)t << 23);
}

/* e^x; from x = 88.37 on, e^88.37. The reduction by n ln 2 takes ln 2 in two parts, the first with
 * 9 bits. */
V_INLINE vf v_exp(vf x)
{
    x = v_min(v_set(88.37f), v_max(v_set(-88.0f), x));
    vf t = v_fma(x, v_set(1.44269504f), v_set(V_ROUND)), n = t - V_ROUND;
    vf r = v_fma(n, v_set(2.12194440e-4f), v_fma(n, v_set(-0.693359375f), x));
    vf p = v_fma(v_set(1.381461326e-3f), r, v_set(8.368709824e-3f));
    p = v_fma(p, r, v_set(4.166838736e-2f));
    p = v_fma(p, r, v_set(1.666652069e-1f));
    p = v_fma(p, r, v_set(4.999999345e-1f));
    p = v_fma(p, r * r, r) + 1.0f;
    return p * (vf)((vi)t << 23);
}

/* ln x for normal x > 0: x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and ln(1 + f) = f -
 * f^2/2 + f^3 q(f), q fitted to a relative error of 6e-9. */
V_INLINE vf v_log(vf x)
{
    vi bits = (vi)x, n = (bits - 0x3f3504f3) >> 23;
    vf f = (vf)(bits - (n << 23)) - 1.0f, e = __builtin_convertvector(n, vf);
    vf q = v_fma(v_set(-0.0763450973f), f, v_set(0.127615964f));
    q = v_fma(q, f, v_set(-0.131601867f));
    q = v_fma(q, f, v_set(0.142017557f));
    q = v_fma(q, f, v_set(-0.166233567f));
    q = v_fma(q, f, v_set(0.200012269f));
    q = v_fma(q, f, v_set(-0.250008211f));
    q = v_fma(q, f, v_set(0.333333317f));
    vf f2 = f * f;
    q = v_fma(q, f * f2, v_fma(v_set(-0.5f), f2, e * -2.12194440e-4f));
    return v_fma(e, v_set(0.693359375f), q + f);
}

#endif
