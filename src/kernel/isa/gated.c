/*
 * Gated activations, forward and backward: the loops of zl_gated. Both passes go through act(),
 * which gives a value and, where it is asked for, the slope; what is not used the compiler drops.
 */
#include "kernel/loops.h"

#include "kernel/isa/vec.h"

struct curve {
    vf value, slope;
};

/* The logistic s(u) = 1/(1 + exp(-u)), and s (1 - s) without the difference's loss of digits. */
struct logistic {
    vf s, slope;
};

V_INLINE struct logistic logistic(vf u)
{
    vf e = v_exp(-u), s = 1.0f / (1.0f + e);
    return (struct logistic){s, s * e * s};
}

V_INLINE struct curve silu(vf x)
{
    struct logistic l = logistic(x);
    return (struct curve){x * l.s, v_fma(x, l.slope, l.s)};
}

/* x/2 (1 + tanh w) = x s(2 w), w = sqrt(2/pi) (x + 0.044715 x^3). Beyond |x| = 1e6 nothing changes,
 * and x^3 would overflow. */
V_INLINE struct curve gelu_tanh(vf x)
{
    vf y = v_min(v_set(1e6f), v_max(v_set(-1e6f), x)), y2 = y * y;
    vf u = y * v_fma(y2, v_set(2 * 0.7978845608f * 0.044715f), v_set(2 * 0.7978845608f));
    vf du = v_fma(y2, v_set(6 * 0.7978845608f * 0.044715f), v_set(2 * 0.7978845608f));
    struct logistic l = logistic(u);
    return (struct curve){x * l.s, v_fma(y * l.slope, du, l.s)};
}

/* x F(x), F the normal distribution: F(-|x|) = erfc(z)/2 with z = |x|/sqrt(2), and erfc(z) =
 * exp(-z^2) t P(t) with t = 1/(1 + 0.35 z), P fitted to a relative error of 1e-8 on z in [0, 14],
 * beyond which exp(-z^2) is 0. */
V_INLINE struct curve gelu_erf(vf x)
{
    static const float fit[] = {-0.177905374f, 0.226780336f, -0.0891494206f,
                                0.139030441f,  0.117596937f, 0.161215824f,
                                0.185708179f,  0.197408178f, 0.197469585f};
    vf y = v_min(v_set(1e6f), v_max(v_set(-1e6f), x)), z = v_max(y, -y) * 0.70710678f;
    vf t = 1.0f / v_fma(z, v_set(0.35f), v_set(1.0f)), p = v_set(0.0418453258f);
    vf e = v_exp2(y * y * -0.72134752f);
    for (unsigned i = 0; i < sizeof fit / sizeof *fit; i++)
        p = v_fma(p, t, v_set(fit[i]));
    vf tail = 0.5f * e * t * p, below = v_select(x < 0.0f, tail, 1.0f - tail);
    return (struct curve){x * below, v_fma(y * 0.39894228f, e, below)};
}

V_INLINE struct curve act_of(const enum zl_activation act, vf x)
{
    switch (act) {
    case ZL_SILU:
        return silu(x);
    case ZL_GELU_TANH:
        return gelu_tanh(x);
    case ZL_GELU_ERF:
        return gelu_erf(x);
    default:
        return (struct curve){v_max(x, v_set(0.0f)), v_select(x > 0.0f, v_set(1.0f), v_set(0.0f))};
    }
}

V_INLINE void forward(const enum zl_activation act, int64_t f, const float *gate, const float *up,
                      float *h)
{
    for (int64_t i = 0, n = f; i < f; i += VL, n -= VL)
        v_store_left(h + i, act_of(act, v_load_left(gate + i, n)).value * v_load_left(up + i, n),
                     n);
}

V_INLINE void backward(const enum zl_activation act, int64_t f, const float *dh, const float *gate,
                       const float *up, float *dgate, float *dup, float *h)
{
    for (int64_t i = 0, n = f; i < f; i += VL, n -= VL) {
        vf u = v_load_left(up + i, n), g = v_load_left(dh + i, n);
        struct curve a = act_of(act, v_load_left(gate + i, n));
        v_store_left(dgate + i, g * u * a.slope, n);
        v_store_left(dup + i, g * a.value, n);
        if (h)
            v_store_left(h + i, a.value * u, n);
    }
}

void ZL_ISA(zl_gated_row)(enum zl_activation act, int64_t f, const float *gate, const float *up,
                          float *h)
{
    switch (act) {
    case ZL_SILU:
        forward(ZL_SILU, f, gate, up, h);
        break;
    case ZL_GELU_TANH:
        forward(ZL_GELU_TANH, f, gate, up, h);
        break;
    case ZL_GELU_ERF:
        forward(ZL_GELU_ERF, f, gate, up, h);
        break;
    case ZL_RELU:
        forward(ZL_RELU, f, gate, up, h);
    }
}

void ZL_ISA(zl_gated_backward_row)(enum zl_activation act, int64_t f, const float *dh,
                                   const float *gate, const float *up, float *dgate, float *dup,
                                   float *h)
{
    switch (act) {
    case ZL_SILU:
        backward(ZL_SILU, f, dh, gate, up, dgate, dup, h);
        break;
    case ZL_GELU_TANH:
        backward(ZL_GELU_TANH, f, dh, gate, up, dgate, dup, h);
        break;
    case ZL_GELU_ERF:
        backward(ZL_GELU_ERF, f, dh, gate, up, dgate, dup, h);
        break;
    case ZL_RELU:
        backward(ZL_RELU, f, dh, gate, up, dgate, dup, h);
    }
}
