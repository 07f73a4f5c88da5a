/*
 * The inner loops of ops.c, a row or a range at a time, for one thread, compiled for each
 * instruction set. The shapes and meanings are those of ops.h. Internal to this layer.
 */
#ifndef ZL_KERNEL_LOOPS_H
#define ZL_KERNEL_LOOPS_H

#include <stdint.h>

#include "kernel/isa.h"
#include "kernel/ops.h"

ZL_ISA_DECLARE(void, zl_rmsnorm_rows,
               (int64_t t, int64_t d, const float *x, const float *w, float eps, float *y,
                float *rstd));
ZL_ISA_DECLARE(void, zl_rmsnorm_backward_rows,
               (int64_t t, int64_t d, const float *dy, const float *x, const float *w,
                const float *rstd, float *dx, int accumulate));

#define ZL_ROPE_DIM 1024 /* the largest head_dim */
/* One token's row; cs is its entry of the table. */
ZL_ISA_DECLARE(void, zl_rope_row,
               (int heads, int head_dim, float *x, const float *cs, int sign, int interleaved));

ZL_ISA_DECLARE(void, zl_gated_row,
               (enum zl_activation act, int64_t f, const float *gate, const float *up, float *h));
ZL_ISA_DECLARE(void, zl_gated_backward_row,
               (enum zl_activation act, int64_t f, const float *dh, const float *gate,
                const float *up, float *dgate, float *dup, float *h));

ZL_ISA_DECLARE(void, zl_add_range, (int64_t n, const float *x, float *y));
ZL_ISA_DECLARE(void, zl_narrow_range, (int64_t n, const float *x, uint16_t *y));
ZL_ISA_DECLARE(void, zl_widen_range, (int64_t n, const uint16_t *x, float *y));
ZL_ISA_DECLARE(double, zl_sum_squares_range, (const float *x, int64_t n));

/* The constants of one AdamW step, rounded from double once. */
struct zl_adamw_constants {
    float clip, decay, beta1, rest1, beta2, rest2; /* decay = 1 - lr wd, rest = 1 - beta */
    float rate, unbias2, eps; /* lr / (1 - beta1^step), 1 / sqrt(1 - beta2^step) */
};
ZL_ISA_DECLARE(void, zl_adamw_range,
               (const struct zl_adamw_constants *c, int64_t n, const float *g, float *p, float *m,
                float *v));

#endif
