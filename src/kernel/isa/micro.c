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

#ifdef __aarch64__
#define PANEL_VECTORS 4
#else
#define PANEL_VECTORS 2
#endif
enum { ROWS = VL == 16 ? 12 : 6, VECTORS = PANEL_VECTORS, PN = VECTORS * VL, STEP = ZL_ASK_STEP };

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

/* STEP of them. NEON multiplies by a lane: two k of six activations are three loads, not twelve. */
#ifdef __aarch64__
#define MULTIPLY_STEP()                                                                          \
    do {                                                                                         \
        vf x[STEP * ROWS / VL];                                                                  \
        V_EACH(v, STEP * ROWS / VL)                                                              \
            x[v] = v_load(m + v * VL);                                                           \
        V_EACH(i, STEP)                                                                          \
            V_EACH(v, VECTORS)                                                                   \
            {                                                                                    \
                const vf w = v_load(b + i * PN + v * VL);                                        \
                V_EACH(r, ROWS)                                                                  \
                    sum[r][v] = v_fma_lane(w, x[(i * ROWS + r) / VL], (i * ROWS + r) % VL, sum[r][v]); \
            }                                                                                    \
        b += STEP * PN;                                                                          \
        m += STEP * ROWS;                                                                        \
    } while (0)
#else
#define MULTIPLY_STEP()                                                                          \
    V_EACH(i, STEP)                                                                              \
        MULTIPLY()
#endif

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
        MULTIPLY_STEP();
    }
    for (; k >= STEP; k -= STEP) {
        zl_ask_next(&next);
        MULTIPLY_STEP();
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
