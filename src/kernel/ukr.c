/*
 * BLIS's single-precision gemm microkernel behind struct zl_ukr: the one file that knows BLIS. It does not use BLIS's own loops,
 * threads or packing.
 *
 * BLIS picks its kernels by the CPU's family and model; a CPU younger than the library gets the `generic` C kernel, a sixth of the
 * speed (BLIS 0.9 on AMD family 26: 44 instead of 270 GFLOP/s). So we look at the instruction sets ourselves and, before BLIS
 * wakes up, name the configuration in BLIS_ARCH_TYPE, as its documentation lets a user do: skx with AVX-512 (32x12), haswell with
 * AVX2 (6x16; the zen configurations have the same kernel). A value that the user has set stays. The value is the enum's
 * number, which 0.9 and later all read, and only of a configuration that this BLIS was built with: it aborts on others.
 *
 * Kernels that prefer columns get the operands exchanged, C^T = B^T A^T, so that C's contiguous dimension lies along theirs.
 */
#include "config.h"

#include "kernel/gemm.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <blis.h>
#pragma GCC diagnostic pop

#include "kernel/isa.h"

/* The kernel's type from BLIS 0.9 on (earlier ones lack m and n). 1.0 has `const void *` for the pointers: the same call. */
typedef void ukr_fn(dim_t m, dim_t n, dim_t k, float *restrict alpha, float *restrict a,
                    float *restrict b, float *restrict beta, float *restrict c, inc_t rs_c,
                    inc_t cs_c, auxinfo_t *restrict data, cntx_t *restrict cntx);
#ifndef ZL_BLIS_UKR_DT
_Static_assert(__builtin_types_compatible_p(sgemm_ukr_ft, ukr_fn *), "BLIS 0.9 or later is needed");
#endif

static void run(const struct zl_ukr *u, int64_t k, const float *mpanel, const float *npanel, float beta,
                float *c, int64_t ldc)
{
    auxinfo_t data;
    memset(&data, 0, sizeof data);
    float one = 1, *a = (float *)mpanel, *b = (float *)npanel;
    ukr_fn *fn = (ukr_fn *)u->fn;
    bli_auxinfo_set_next_a(u->flip ? b : a, &data);
    bli_auxinfo_set_next_b(u->flip ? a : b, &data);
    if (u->flip)
        fn(u->pn, u->pm, k, &one, b, a, &beta, c, 1, ldc, &data, u->cntx);
    else
        fn(u->pm, u->pn, k, &one, a, b, &beta, c, ldc, 1, &data, u->cntx);
}

static void name_configuration(void)
{
    int arch = -1;
#ifdef ZL_ISA_X86
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#ifdef BLIS_CONFIG_HASWELL
    if (avx2)
        arch = BLIS_ARCH_HASWELL;
#endif
#ifdef BLIS_CONFIG_SKX
    if (avx512)
        arch = BLIS_ARCH_SKX;
#endif
    (void)avx512;
#endif
    char text[16];
    snprintf(text, sizeof text, "%d", arch);
    if (arch >= 0)
        setenv("BLIS_ARCH_TYPE", text, 0);
}

static struct zl_ukr chosen;

static void choose(void)
{
    static char name[64];
    name_configuration();
    bli_init();
    /* BLIS 0.9 takes and gives pointers to non-const where 1.0 has const. */
    cntx_t *cntx = (cntx_t *)bli_gks_query_cntx();
#ifdef ZL_BLIS_UKR_DT
    void_fp fn = bli_cntx_get_ukr_dt(BLIS_FLOAT, BLIS_GEMM_UKR, cntx);
    bool by_rows = bli_cntx_ukr_prefers_rows_dt(BLIS_FLOAT, BLIS_GEMM_UKR, cntx);
#else
    void_fp fn = bli_cntx_get_l3_vir_ukr_dt(BLIS_FLOAT, BLIS_GEMM_UKR, cntx);
    bool by_rows = bli_cntx_l3_vir_ukr_prefers_rows_dt(BLIS_FLOAT, BLIS_GEMM_UKR, cntx);
#endif
    int mr = (int)bli_cntx_get_blksz_def_dt(BLIS_FLOAT, BLIS_MR, cntx);
    int nr = (int)bli_cntx_get_blksz_def_dt(BLIS_FLOAT, BLIS_NR, cntx);
    /* Kernels with padded panels exist for machines that broadcast in memory; none is x86 or ARM. */
    assert(bli_cntx_get_blksz_max_dt(BLIS_FLOAT, BLIS_MR, cntx) == mr);
    assert(bli_cntx_get_blksz_max_dt(BLIS_FLOAT, BLIS_NR, cntx) == nr);
    assert(mr <= ZL_UKR_WIDEST && nr <= ZL_UKR_WIDEST);
    snprintf(name, sizeof name, "%s %dx%d", bli_arch_string(bli_arch_query_id()), mr, nr);
    chosen = (struct zl_ukr){.name = name, .run = run, .fn = (void *)fn, .cntx = cntx};
    chosen.flip = !by_rows;
    chosen.pn = by_rows ? nr : mr;
    chosen.pm = by_rows ? mr : nr;
}

const struct zl_ukr *zl_ukr_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return &chosen;
}
