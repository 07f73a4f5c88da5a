/*
 * Matrix products for training with frozen, stored weights:
 *
 *     C[M][N]  =  (accumulate ? C : bias or 0)  +  sum over terms t of  alpha_t * A_t[M][K_t] * B_t[K_t][N]
 *
 * M counts tokens, N the other dimension of the result; both are the row-major C's. A is float32 activations; B is a weight
 * in its stored type or float32. The terms are concatenated along K, so a LoRA update (K = rank) rides in the base
 * product and C is written once. B is dequantized straight into panels of a microkernel; nothing else of it is kept.
 *
 * The result's bits do not depend on team->threads: K is cut at places that depend on the shapes alone, each term by its own k. So a
 * later term of zeros (an adapter that was not trained yet) leaves the bits of the product without it.
 *
 * A team with another number format than float32 (compute.h) rounds both operands of `frozen` terms to it, in the panels; they are
 * still summed in float32. A single row is memory's work: it stays in float32.
 *
 * A row of C has the same bits whatever M is, among more than ZL_GEMM_FEW; fewer are added up in another order.
 */
#ifndef ZL_KERNEL_GEMM_H
#define ZL_KERNEL_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/type.h"
#include "kernel/profile.h"
#include "kernel/team.h"

enum zl_layout {
    ZL_B_NK, /* stored [N][K]: y = x W^T with W [out][in], the forward of a linear layer */
    ZL_B_KN  /* stored [K][N]: dx = dy W with W [out][in], its backward */
};

struct zl_gemm_term {
    const float *a;     /* [M][K], row stride lda elements; or [K][M] with a_transposed */
    int64_t lda;
    bool a_transposed;
    const void *b;      /* rows of `ldb` elements (a whole number of blocks), any alignment for stored types */
    enum zl_type b_type;
    enum zl_layout b_layout;
    int64_t ldb;
    const int32_t *b_rows; /* optional: row i of B is stored row b_rows[i] (a restricted vocabulary); NULL = identity */
    int64_t k;
    float alpha;        /* multiplies B's elements; 1.0f costs nothing */
    bool frozen;        /* B is a model's frozen weight: multiplied in the team's number format, which is float32 for all others */
};

#define ZL_GEMM_TERMS 4
#define ZL_GEMM_FEW 4 /* rows */

struct zl_gemm {
    int64_t m, n;
    int n_terms;
    struct zl_gemm_term term[ZL_GEMM_TERMS];
    float *c; /* [M][N], row stride ldc */
    int64_t ldc;
    bool accumulate;    /* C += ... (residual, gradients); excludes bias */
    const float *bias;  /* [N] or NULL */
    enum zl_part part;  /* whose time it is, where the team has a profile; changes nothing else */
};

/* Scratch that any zl_gemm call with up to `threads` threads needs: a constant of the machine's blocking. */
uint64_t zl_gemm_scratch_bytes(int threads);

/* Compute. Sizes are the caller's promise (asserted). m, n or all k may be 0. */
void zl_gemm(const struct zl_team *team, const struct zl_gemm *g);

/* The same in plain C, in double, for the tests; with the operands of frozen terms rounded as `compute` says. */
void zl_gemm_ref(const struct zl_gemm *g);
void zl_gemm_ref_in(enum zl_compute compute, const struct zl_gemm *g);

/* What ZL_COMPUTE_BF16 computes by AMX for more than one row, to the bit: each operation on a register, element by element. */
void zl_gemm_ref_tiles(const struct zl_gemm *g);

#endif
