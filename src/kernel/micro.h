/*
 * The microkernel in use: the product of two packed panels. ukr.c chooses.
 */
#ifndef ZL_KERNEL_MICRO_H
#define ZL_KERNEL_MICRO_H

#include <stdint.h>

#include "kernel/ask.h"
#include "kernel/isa.h"

#define ZL_UKR_WIDEST 64 /* no panel is wider */
#define ZL_UKR_SLACK 64  /* floats behind a panel that a microkernel may read ahead: they exist, their value is nothing */

struct zl_ukr;

/* C[pm][0..n) (row stride ldc) = beta C + alpha times the sum over k of mpanel[k][pm] * npanel[k][pn], n <= pn. beta is 0 or 1; with 0,
 * C may be garbage. Panels are packed k-major, aligned to 64. Asks as far as k goes. */
typedef void zl_ukr_fn(const struct zl_ukr *u, int64_t k, const float *mpanel, const float *npanel, int n, float alpha, float beta,
                       float *c, int64_t ldc, struct zl_ask *ask);

/* The microkernel in use. */
struct zl_ukr {
    const char *name; /* "avx512 12x32" */
    int pn;  /* panel width along C's contiguous dimension (N) */
    int pm;  /* panel width along C's rows (M) */
    zl_ukr_fn *run;
    void *fn, *cntx; /* BLIS's */
    int flip;        /* BLIS's kernel prefers columns: operands are exchanged */
};

/* Choose the microkernel for this CPU: ours where zl_isa_get() has one, else BLIS's. Idempotent and thread-safe. */
const struct zl_ukr *zl_ukr_get(void);

/* Ours; to be called through struct zl_ukr. */
extern zl_ukr_fn zl_micro_baseline, zl_micro_avx2, zl_micro_avx512;

#endif
