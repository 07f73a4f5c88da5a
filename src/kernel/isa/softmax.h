/*
 * The online softmax of one column of lanes: scores s[n][VL lanes] (rows lds apart) against the
 * maximum and the sum so far. A lane is a query, or a labelled row of the head; everything is
 * vertical.
 */
#ifndef ZL_KERNEL_ISA_SOFTMAX_H
#define ZL_KERNEL_ISA_SOFTMAX_H

#include "kernel/isa/vec.h"

#define LOG2_E 1.44269504f

/* s <- exp(s - max), max being the new one; *sum <- *sum exp(old - max) + the sum of these. Gives
 * exp(old - max), by which all that was summed under the old maximum is to be multiplied. The
 * difference comes first: with scores of 1e4 it is still exact. */
V_INLINE vf softmax_column(int64_t n, float *s, int64_t lds, vf old, vf max, vf *sum)
{
    vf factor = v_exp2((old - max) * LOG2_E), a = {0}, b = {0};
    int64_t i = 0;
    for (; i + 2 <= n; i += 2, s += 2 * lds) {
        vf p = v_exp2((v_load(s) - max) * LOG2_E), q = v_exp2((v_load(s + lds) - max) * LOG2_E);
        v_store(s, p);
        v_store(s + lds, q);
        a += p;
        b += q;
    }
    if (i < n) {
        vf p = v_exp2((v_load(s) - max) * LOG2_E);
        v_store(s, p);
        a += p;
    }
    *sum = v_fma(*sum, factor, a + b);
    return factor;
}

#endif
