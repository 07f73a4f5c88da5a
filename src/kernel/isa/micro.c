/*
 * The microkernel of a matrix product, where there are vectors with fused multiply-adds: the shape and the panels of BLIS's kernels
 * (struct zl_ukr in micro.h), and what those leave to their caller: the right edge of C, a factor of the result, and asking for the
 * weights of the panel after this one.
 *
 * What it asks for, C's tile and then the weights, goes to the second-level cache and is spread over the loop. Asked for all at once,
 * much of it would be forgotten; and the rows of a C whose width is a power of two would push each other out of the first level.
 */
#include "config.h"

#include "kernel/isa.h"
#include "kernel/isa/vec.h"
#include "kernel/micro.h"

enum { ROWS = VL == 16 ? 12 : 6, VECTORS = 2, PN = VECTORS * VL, STEP = ZL_ASK_STEP };

/* One k: a row of each panel. */
#define MULTIPLY()                                                                               \
    do {                                                                                         \
        vf w[VECTORS];                                                                           \
        V_EACH(v, VECTORS)                                                                       \
            w[v] = v_load(b + v * VL);                                                           \
        V_EACH(r, ROWS)                                                                          \
        {                                                                                        \
            vf x = v_set(m[r]);                                                                  \
            V_EACH(v, VECTORS)                                                                   \
                sum[r][v] = v_fma(x, w[v], sum[r][v]);                                           \
        }                                                                                        \
        b += PN;                                                                                 \
        m += ROWS;                                                                               \
    } while (0)

void ZL_ISA(zl_micro)(const struct zl_ukr *u, int64_t k, const float *m, const float *b, int n, float alpha, float beta, float *c,
                      int64_t ldc, struct zl_ask *ask)
{
    vf sum[ROWS][VECTORS];
    struct zl_ask next = *ask;
    (void)u;
    V_EACH(r, ROWS)
    {
        V_EACH(v, VECTORS)
            sum[r][v] = (vf){0};
    }
    for (int row = 0; row < ROWS && k >= STEP; row++, k -= STEP) {
        __builtin_prefetch(c + row * ldc, 0, 2);
        __builtin_prefetch(c + row * ldc + n - 1, 0, 2);
        V_EACH(i, STEP)
            MULTIPLY();
    }
    for (; k >= STEP; k -= STEP) {
        zl_ask_next(&next);
        V_EACH(i, STEP)
            MULTIPLY();
    }
    for (; k > 0; k--)
        MULTIPLY();
    *ask = next;
    V_EACH(r, ROWS)
        V_EACH(v, VECTORS)
        {
            float *at = c + r * ldc + v * VL;
            const int64_t left = n - v * VL;
            vf x = sum[r][v] * alpha;
            if (left <= 0)
                continue;
            if (beta != 0)
                x += v_load_left(at, left);
            v_store_left(at, x, left);
        }
}
