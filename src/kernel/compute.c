/* Which number formats this CPU multiplies in, and the one copy of the kernels that do. See compute.h and pairs.h. */
#include "config.h"

#include "kernel/compute.h"

#include <stddef.h>

#include "kernel/bytes.h"
#include "kernel/isa.h"
#include "kernel/pairs.h"

#ifdef ZL_ISA_X86
#include <cpuid.h>
#endif

#ifdef ZL_ISA_X86
/* The compiler's run-time asks CPUID and, for what needs AVX-512's registers, whether the system saves them. */
static const char *missing_bf16(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512bf16"))
        return "this CPU has no AVX512-BF16";
    return zl_isa_get() == ZL_ISA_AVX512 ? NULL : "it needs AVX-512, which this CPU lacks or ZEROLOCK_ISA leaves out";
}

static const char *missing_int8(void)
{
    return zl_isa_get() != ZL_ISA_BASELINE ? NULL : "it needs AVX2, which this CPU lacks or ZEROLOCK_ISA leaves out";
}

/* Known to CPUID, but not to every compiler's run-time. */
static bool has_avxvnni(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 4 & 1);
}
#else
static const char *missing_bf16(void)
{
    return "there are kernels for it on x86-64 with AVX512-BF16 only";
}

static const char *missing_int8(void)
{
    return "there are kernels for it on x86-64 with AVX2 only";
}
#endif

const char *zl_compute_missing(enum zl_compute compute)
{
    return compute == ZL_COMPUTE_BF16 ? missing_bf16() : compute == ZL_COMPUTE_INT8 ? missing_int8() : NULL;
}

bool zl_compute_has(enum zl_compute compute, enum zl_type type)
{
    /* What is stored in blocks are integers of at most 8 bits. */
    return compute != ZL_COMPUTE_INT8 || zl_type_info[type].block > 1;
}

const struct zl_bytes *zl_bytes_get(void)
{
#ifdef ZL_ISA_X86
    if (missing_int8())
        return NULL;
    if (zl_isa_get() == ZL_ISA_AVX512 && __builtin_cpu_supports("avx512vnni"))
        return &zl_bytes_avx512vnni;
    /* AVX2 that was asked for is AVX2 alone, so that tests reach that copy everywhere. */
    return has_avxvnni() && zl_isa_best() == zl_isa_get() ? &zl_bytes_avxvnni : &zl_bytes_avx2;
#else
    return NULL;
#endif
}

const struct zl_pairs *zl_pairs_get(void)
{
#ifdef ZL_ISA_X86
    return missing_bf16() ? NULL : &zl_pairs_avx512bf16;
#else
    return NULL;
#endif
}
