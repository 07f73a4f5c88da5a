/*
 * The small operations around the matrix products, each forward and backward, on row-major float32 activations. T = tokens of a
 * micro-batch. Rows are divided over the team; a row is computed by one thread. For each there is a plain-C reference
 * in double, `<name>_ref` with the same arguments less the team and double for float, declared in kernel/reference.h.
 */
#ifndef ZL_KERNEL_OPS_H
#define ZL_KERNEL_OPS_H

#include <stdint.h>

#include "kernel/team.h"

/* y[t] = x[t] / sqrt(mean(x[t]^2) + eps) * w, w [d]; rstd[t] = 1 / sqrt(...) is kept for the backward. x, y [T][d] contiguous.
 * rstd may be NULL. y may be x. */
void zl_rmsnorm(const struct zl_team *team, int64_t t, int64_t d, const float *x, const float *w, float eps, float *y,
                float *rstd);

/* dx[t] (+)= d loss/d x of the above given dy; w is frozen, so no gradient for it. accumulate: dx += (the residual path is
 * already in dx), else dx =. dx may be dy when not accumulating. */
void zl_rmsnorm_backward(const struct zl_team *team, int64_t t, int64_t d, const float *dy, const float *x, const float *w,
                         const float *rstd, float *dx, int accumulate);

/* Rotary position embedding in place on `heads` heads of head_dim in rows of x (row stride ld), by table cs:
 * cs[p][head_dim/2][2] = (cos, sin) of position p; positions[t] < the table's rows.
 * sign +1 rotates, -1 rotates back (the backward). interleaved: pairs (2j, 2j+1) (llama GGUF files), else (j, j + head_dim/2). */
void zl_rope(const struct zl_team *team, int64_t t, int heads, int head_dim, float *x, int64_t ld, const int32_t *positions,
             const float *cs, int sign, int interleaved);

enum zl_activation { ZL_SILU, ZL_GELU_TANH, ZL_GELU_ERF, ZL_RELU };

/* h = act(gate) * up; each [T][f], row strides ldg for gate and up, ldh for h. */
void zl_gated(const struct zl_team *team, enum zl_activation act, int64_t t, int64_t f, const float *gate, const float *up,
              int64_t ldg, float *h, int64_t ldh);

/* From dh (row stride ldh) and the saved gate and up: dgate, dup (row stride ldg); they may overwrite gate and up. When h is
 * not NULL it also receives act(gate)*up again, at row stride ldh (needed for the gradient of the layer behind); h may be dh. */
void zl_gated_backward(const struct zl_team *team, enum zl_activation act, int64_t t, int64_t f, const float *dh, int64_t ldh,
                       const float *gate, const float *up, int64_t ldg, float *dgate, float *dup, float *h);

/* y[i] += x[i], n elements. */
void zl_add(const struct zl_team *team, int64_t n, const float *x, float *y);

/* y[n] = x[n] as bfloat16, rounded to nearest even (a NaN stays one), and back, exactly. */
void zl_narrow(const struct zl_team *team, int64_t n, const float *x, uint16_t *y);
void zl_widen(const struct zl_team *team, int64_t n, const uint16_t *x, float *y);

/* Sum of squares in double in one fixed order, whatever the team. */
double zl_sum_squares(const float *x, int64_t n);

/* One AdamW step (Loshchilov and Hutter 2019) on n weights, after clipping: g is first multiplied by `clip`;
 * p <- p(1 - lr wd); m <- b1 m + (1-b1) g; v <- b2 v + (1-b2) g^2; p <- p - lr/(1-b1^step) * m / (sqrt(v)/sqrt(1-b2^step) + eps).
 * step counts from 1. */
struct zl_adamw {
    float lr, beta1, beta2, eps, weight_decay;
};
void zl_adamw_step(const struct zl_adamw *o, int64_t step, int64_t n, float clip, const float *g, float *p, float *m, float *v);

/* softmax(x / temperature) etc. for sampling stay in train/generate; here only what training and evaluation share. */

#endif
