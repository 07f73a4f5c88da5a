/* Which number formats this CPU multiplies in, and the one copy of the kernels that do. See compute.h and pairs.h. */
#include "config.h"

#include "kernel/compute.h"

#include <stddef.h>

#include "kernel/isa.h"
#include "kernel/pairs.h"

#ifdef ZL_ISA_X86
/* The compiler's run-time asks CPUID and, for what needs AVX-512's registers, whether the system saves them. */
static const char *missing_bf16(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512bf16"))
        return "this CPU has no AVX512-BF16";
    return zl_isa_get() == ZL_ISA_AVX512 ? NULL : "it needs AVX-512, which this CPU lacks or ZEROLOCK_ISA leaves out";
}
#else
static const char *missing_bf16(void)
{
    return "there are kernels for it on x86-64 with AVX512-BF16 only";
}
#endif

const char *zl_compute_missing(enum zl_compute compute)
{
    return compute == ZL_COMPUTE_BF16 ? missing_bf16() : NULL;
}

const struct zl_pairs *zl_pairs_get(void)
{
#ifdef ZL_ISA_X86
    return missing_bf16() ? NULL : &zl_pairs_avx512bf16;
#else
    return NULL;
#endif
}
