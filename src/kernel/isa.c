/*
 * Which instruction set the kernels use. Where it has no microkernel of ours, ukr.c takes BLIS's.
 */
#include "config.h"

#include "kernel/isa.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum zl_isa zl_isa_best(void)
{
#ifdef ZL_ISA_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi2"))
        return ZL_ISA_BASELINE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return ZL_ISA_AVX2;
    return ZL_ISA_AVX512;
#else
    return ZL_ISA_BASELINE;
#endif
}

/* What ZEROLOCK_ISA names, or -1. */
static int wish(void)
{
    static const char *const names[] = {[ZL_ISA_BASELINE] = "baseline", [ZL_ISA_AVX2] = "avx2", [ZL_ISA_AVX512] = "avx512"};
    const char *name = getenv("ZEROLOCK_ISA");
    for (int i = 0; name && i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

enum zl_isa zl_isa_get(void)
{
    /* Every thread that finds it empty computes the same value: relaxed is enough. */
    static _Atomic int known = -1;
    int isa = atomic_load_explicit(&known, memory_order_relaxed);
    if (isa >= 0)
        return (enum zl_isa)isa;
    isa = (int)zl_isa_best();
    if (wish() >= 0 && wish() < isa)
        isa = wish();
    atomic_store_explicit(&known, isa, memory_order_relaxed);
    return (enum zl_isa)isa;
}

bool zl_isa_asked(void)
{
    return wish() >= 0;
}
