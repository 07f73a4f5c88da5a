/*
 * Which microkernel multiplies: ours (isa/micro.c) where there is AVX2, AVX-512 or NEON, else BLIS's sgemm microkernel behind struct zl_ukr. This
 * is the one file that knows BLIS, and it does not use BLIS's own loops, threads or packing.
 *
 * BLIS's kernels want an exact tile, the products as they are, and nothing asked for: what is left they get here, around them. Those that
 * prefer columns get the operands exchanged, C^T = B^T A^T, so that C's contiguous dimension lies along theirs.
 */
#include "config.h"

#include "kernel/micro.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
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

/* A full tile. */
static void blis(const struct zl_ukr *u, int64_t k, const float *mpanel, const float *npanel, float beta, float *c, int64_t ldc)
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

static void merge(const float *restrict spare, int n, float alpha, float beta, float *restrict c)
{
    if (beta == 0)
        for (int j = 0; j < n; j++)
            c[j] = alpha * spare[j];
    else
        for (int j = 0; j < n; j++)
            c[j] += alpha * spare[j];
}

/* At the right edge, or scaled, through a spare tile. */
static void run(const struct zl_ukr *u, int64_t k, const float *mpanel, const float *npanel, int n, float alpha, float beta,
                float *c, int64_t ldc, struct zl_ask *ask)
{
    for (int64_t i = 0; i < k / ZL_ASK_STEP; i++)
        zl_ask_next(ask);
    if (n == u->pn && alpha == 1) {
        blis(u, k, mpanel, npanel, beta, c, ldc);
        return;
    }
    _Alignas(64) float spare[ZL_UKR_WIDEST * ZL_UKR_WIDEST];
    blis(u, k, mpanel, npanel, 0, spare, u->pn);
    for (int i = 0; i < u->pm; i++)
        merge(spare + i * u->pn, n, alpha, beta, c + i * ldc);
}

static struct zl_ukr chosen;

static void choose_blis(void)
{
    static char name[64];
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

static void choose(void)
{
    switch (zl_isa_get()) {
#ifdef ZL_ISA_X86
    case ZL_ISA_AVX512:
        chosen = (struct zl_ukr){.name = "avx512 12x32", .pn = 32, .pm = 12, .run = zl_micro_avx512};
        break;
    case ZL_ISA_AVX2:
        chosen = (struct zl_ukr){.name = "avx2 6x16", .pn = 16, .pm = 6, .run = zl_micro_avx2};
        break;
#endif
    default:
#ifdef __aarch64__ /* its baseline has multiply-adds */
        chosen = (struct zl_ukr){.name = "neon 6x16", .pn = 16, .pm = 6, .run = zl_micro_baseline};
        (void)choose_blis;
#else
        choose_blis();
#endif
    }
}

const struct zl_ukr *zl_ukr_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return &chosen;
}
