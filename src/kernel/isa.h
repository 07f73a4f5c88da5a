/*
 * One binary for every CPU of an architecture: the sources in src/kernel/isa/ are compiled once for each instruction set, with
 * ZL_ISA_SUFFIX telling the copies apart, and one copy is picked at run time. Such a file defines its external functions
 * as ZL_ISA(name) and uses what its compiler flags allow (__AVX2__, __AVX512F__ …); the rest of the program calls
 * ZL_ISA_PICK(name), or a table that was filled through it.
 *
 * These files are compiled with -ffp-contract=off: a product is fused into a sum only where ZL_FMA says so, never where the
 * compiler likes to. The bits of a result may differ between instruction sets; stored weights may not (see dequant.h).
 */
#ifndef ZL_KERNEL_ISA_H
#define ZL_KERNEL_ISA_H

#include <stdbool.h>

enum zl_isa {
    ZL_ISA_BASELINE, /* what the compiler may assume of the architecture: SSE2, NEON … */
    ZL_ISA_AVX2,     /* with FMA and F16C */
    ZL_ISA_AVX512    /* F, BW, DQ, VL */
};

/* The best set that this CPU and this build have. The environment variable ZEROLOCK_ISA (baseline, avx2, avx512) lowers it, for
 * tests; it never raises it. Asked once, the same answer ever after. */
enum zl_isa zl_isa_get(void);
enum zl_isa zl_isa_best(void); /* without that variable */
bool zl_isa_asked(void);       /* whether it names a set: then nothing beyond that set is used, as AMX beyond avx512 */

#define ZL_ISA_JOIN_(a, b) a##b
#define ZL_ISA_JOIN(a, b)  ZL_ISA_JOIN_(a, b)

/* Inside src/kernel/isa/: the name of this copy of a function. */
#ifdef ZL_ISA_SUFFIX
#define ZL_ISA(name) ZL_ISA_JOIN(name, ZL_ISA_SUFFIX)
#endif

/* Declare all copies of a function or table: ZL_ISA_DECLARE(void, zl_add_loop, (int64_t n, const float *x, float *y)); */
#define ZL_ISA_DECLARE(ret, name, args) \
    ret name##_baseline args;           \
    ret name##_avx2 args;               \
    ret name##_avx512 args

/* The copy for this CPU. */
#ifdef ZL_ISA_X86
#define ZL_ISA_PICK(name)                            \
    (zl_isa_get() == ZL_ISA_AVX512 ? name##_avx512   \
     : zl_isa_get() == ZL_ISA_AVX2 ? name##_avx2     \
                                   : name##_baseline)
#else
#define ZL_ISA_PICK(name) (name##_baseline)
#endif

/* a * b + c, fused where the instruction set has it, with two roundings where it has not (never a call of libm's fmaf). */
#if defined __FMA__ || defined __ARM_FEATURE_FMA
#define ZL_FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define ZL_FMA(a, b, c) ((a) * (b) + (c))
#endif

#endif
