/* Which number formats this CPU multiplies in, and the one copy of the kernels that do. See compute.h and pairs.h. */
#include "config.h"

#include "kernel/compute.h"

#include <stdatomic.h>
#include <stddef.h>

#include "kernel/bytes.h"
#include "kernel/isa.h"
#include "kernel/pairs.h"

#ifdef ZL_ISA_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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

#ifdef ZL_HAVE_AMX
enum { REQUEST_STATE = 0x1023, TILES = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */

/* The registers are 8 KiB a thread, so Linux (from 5.16 on) gives them only to a process that asks for them. */
static const char *find_missing_tiles(void)
{
    unsigned eax, ebx, ecx, edx;
    if (missing_bf16())
        return missing_bf16();
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(edx >> 22 & 1) || !(edx >> 24 & 1))
        return "this CPU has no AMX";
    __asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    if ((eax >> 17 & 3) != 3)
        return "the system doesn't save AMX's registers";
    if (zl_isa_asked())
        return "ZEROLOCK_ISA leaves AMX out";
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILES) ? "the system refuses AMX's registers" : NULL;
}
#else
static const char *find_missing_tiles(void)
{
    return "this program was built without kernels for AMX";
}
#endif

const char *zl_tiles_missing(void)
{
    static _Atomic(const char *) known;
    /* Asked of the system once, since it decides once; whoever finds it empty finds the same: relaxed is enough. */
    const char *why = atomic_load_explicit(&known, memory_order_relaxed);
    if (!why) {
        why = find_missing_tiles();
        why = why ? why : "";
        atomic_store_explicit(&known, why, memory_order_relaxed);
    }
    return *why ? why : NULL;
}

const struct zl_pairs *zl_pairs_get(void)
{
    if (missing_bf16())
        return NULL;
#ifdef ZL_HAVE_AMX
    if (!zl_tiles_missing())
        return &zl_pairs_amx;
#endif
#ifdef ZL_ISA_X86
    return &zl_pairs_avx512bf16;
#else
    return NULL;
#endif
}
