/* What runs over weights and gradients as flat arrays: sums, squares, AdamW. */
#include "kernel/loops.h"

#include "kernel/isa/vec.h"

void ZL_ISA(zl_add_range)(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0, left = n; i < n; i += VL, left -= VL)
        v_store_left(y + i, v_load_left(y + i, left) + v_load_left(x + i, left), left);
}

/* Thirty-two chains, whatever the vectors' width: the same bits everywhere. */
double ZL_ISA(zl_sum_squares_range)(const float *x, int64_t n)
{
    enum { CHAINS = 32 };
    double s[CHAINS] = {0};
    int64_t i = 0;
    for (; i + CHAINS <= n; i += CHAINS)
        for (int j = 0; j < CHAINS; j++)
            s[j] += (double)x[i + j] * (double)x[i + j];
    for (int j = 0; i < n; i++, j++)
        s[j] += (double)x[i] * (double)x[i];
    for (int half = CHAINS / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            s[j] += s[j + half];
    return s[0];
}

struct moments {
    vf p, m, v;
};

V_INLINE struct moments step(const struct zl_adamw_constants *c, vf g, struct moments x)
{
    g *= c->clip;
    x.m = v_fma(v_set(c->beta1), x.m, c->rest1 * g);
    x.v = v_fma(v_set(c->beta2), x.v, c->rest2 * g * g);
    x.p = v_fma(x.p, v_set(c->decay),
                -(c->rate * x.m / v_fma(v_sqrt(x.v), v_set(c->unbias2), v_set(c->eps))));
    return x;
}

void ZL_ISA(zl_adamw_range)(const struct zl_adamw_constants *c, int64_t n, const float *g, float *p,
                            float *m, float *v)
{
    for (int64_t i = 0, left = n; i < n; i += VL, left -= VL) {
        struct moments x = {v_load_left(p + i, left), v_load_left(m + i, left),
                            v_load_left(v + i, left)};
        x = step(c, v_load_left(g + i, left), x);
        v_store_left(p + i, x.p, left);
        v_store_left(m + i, x.m, left);
        v_store_left(v + i, x.v, left);
    }
}
