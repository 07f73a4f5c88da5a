/*
 * What each kernel of ops.h, attention.h and head.h must compute, in plain C and in double: the same arguments less the team, with
 * double for float. Not fast, not threaded, no scratch. The tests hold the fast kernels to these, and these to finite
 * differences; nothing else calls them.
 */
#ifndef ZL_KERNEL_REFERENCE_H
#define ZL_KERNEL_REFERENCE_H

#include <stdint.h>

#include "kernel/attention.h"
#include "kernel/head.h"
#include "kernel/ops.h"

void zl_rmsnorm_ref(int64_t t, int64_t d, const double *x, const double *w, double eps, double *y, double *rstd);
void zl_rmsnorm_backward_ref(int64_t t, int64_t d, const double *dy, const double *x, const double *w, const double *rstd,
                             double *dx, int accumulate);
void zl_rope_ref(int64_t t, int heads, int head_dim, double *x, int64_t ld, const int32_t *positions, const double *cs,
                 int sign, int interleaved);
double zl_activation_ref(enum zl_activation act, double x, double *derivative);
void zl_gated_ref(enum zl_activation act, int64_t t, int64_t f, const double *gate, const double *up, int64_t ldg, double *h,
                  int64_t ldh);
void zl_gated_backward_ref(enum zl_activation act, int64_t t, int64_t f, const double *dh, int64_t ldh, const double *gate,
                           const double *up, int64_t ldg, double *dgate, double *dup, double *h);
void zl_adamw_step_ref(const struct zl_adamw *o, int64_t step, int64_t n, double clip, const double *g, double *p, double *m,
                       double *v);

/* a gives the shapes, the sequences and the strides; its q, k, v are not read. */
void zl_attention_ref(const struct zl_attn *a, const double *q, const double *k, const double *v, double *out, int64_t ldo,
                      double *lse);
void zl_attention_backward_ref(const struct zl_attn *a, const double *q, const double *k, const double *v, const double *out,
                               const double *dout, int64_t ldo, const double *lse, double *dq, double *dk, double *dv);

/* e is the dequantized weight [vocab][d]; head->weight and head->type are not read. */
void zl_head_loss_ref(const struct zl_head *head, const double *e, int64_t rows, const double *h, const int32_t *targets,
                      double weight, double *loss, int32_t *argmax, double *dh);

#endif
