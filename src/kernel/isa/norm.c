/* RMSNorm forward and backward, row by row: the loops of zl_rmsnorm. A row stays in the first-level
 * cache for its second pass. */
#include "kernel/loops.h"

#include "kernel/isa/vec.h"

/* sum of x^2: four chains, so that the adder's latency does not show. */
static float square_sum(int64_t d, const float *x)
{
    vf s[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * VL <= d; i += 4 * VL)
        for (int j = 0; j < 4; j++) {
            vf v = v_load(x + i + j * VL);
            s[j] = v_fma(v, v, s[j]);
        }
    for (; i < d; i += VL) {
        vf v = v_load_left(x + i, d - i);
        s[0] = v_fma(v, v, s[0]);
    }
    return v_sum((s[0] + s[1]) + (s[2] + s[3]));
}

void ZL_ISA(zl_rmsnorm_rows)(int64_t t, int64_t d, const float *x, const float *w, float eps,
                             float *y, float *rstd)
{
    for (int64_t row = 0; row < t; row++, x += d, y += d) {
        float r = 1 / __builtin_sqrtf(square_sum(d, x) / (float)d + eps);
        for (int64_t i = 0, left = d; i < d; i += VL, left -= VL)
            v_store_left(y + i, v_load_left(x + i, left) * r * v_load_left(w + i, left), left);
        if (rstd)
            rstd[row] = r;
    }
}

static float triple_sum(int64_t d, const float *x, const float *y, const float *z)
{
    vf s[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * VL <= d; i += 4 * VL)
        for (int j = 0; j < 4; j++) {
            int64_t at = i + j * VL;
            s[j] = v_fma(v_load(x + at) * v_load(y + at), v_load(z + at), s[j]);
        }
    for (; i < d; i += VL) {
        int64_t n = d - i;
        s[0] = v_fma(v_load_left(x + i, n) * v_load_left(y + i, n), v_load_left(z + i, n), s[0]);
    }
    return v_sum((s[0] + s[1]) + (s[2] + s[3]));
}

/* dx = r (dy w) - x r^3/d sum(dy w x) */
void ZL_ISA(zl_rmsnorm_backward_rows)(int64_t t, int64_t d, const float *dy, const float *x,
                                      const float *w, const float *rstd, float *dx, int accumulate)
{
    for (int64_t row = 0; row < t; row++, x += d, dy += d, dx += d) {
        float r = rstd[row];
        vf vr = v_set(r), back = v_set(-(r * triple_sum(d, dy, w, x) / (float)d) * r * r);
        for (int64_t i = 0; i < d; i += VL) {
            int64_t n = d - i;
            vf g = v_fma(v_load_left(x + i, n), back,
                         v_load_left(dy + i, n) * v_load_left(w + i, n) * vr);
            if (accumulate)
                g += v_load_left(dx + i, n);
            v_store_left(dx + i, g, n);
        }
    }
}
