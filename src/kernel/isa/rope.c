/* Rotary position embedding of one token's heads: the loop of zl_rope. The token's cosines and
 * sines are laid out once, as the vectors want them, and serve all heads. */
#include "kernel/loops.h"

#include "kernel/isa/vec.h"

#if VL == 16
#define SWAP_PAIRS 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#elif VL == 8
#define SWAP_PAIRS 1, 0, 3, 2, 5, 4, 7, 6
#else
#define SWAP_PAIRS 1, 0, 3, 2
#endif

/* a' = a c - b s, b' = b c + a s */
static void halves(float *a, float *b, const float *c, const float *s, int half)
{
    for (int i = 0; i < half; i += VL) {
        int n = half - i;
        vf vc = v_load(c + i), vs = v_load(s + i);
        vf u = v_load_left(a + i, n), v = v_load_left(b + i, n);
        v_store_left(a + i, v_fma(u, vc, -(v * vs)), n);
        v_store_left(b + i, v_fma(v, vc, u * vs), n);
    }
}

/* The same on pairs: c holds each cosine twice, s each sine negated and as it is. */
static void pairs(float *x, const float *c, const float *s, int head_dim)
{
    for (int i = 0; i < head_dim; i += VL) {
        int n = head_dim - i;
        vf v = v_load_left(x + i, n);
        v = v_fma(v, v_load(c + i), V_SHUFFLE(v, v, SWAP_PAIRS) * v_load(s + i));
        v_store_left(x + i, v, n);
    }
}

void ZL_ISA(zl_rope_row)(int heads, int head_dim, float *x, const float *cs, int sign,
                         int interleaved)
{
    float c[ZL_ROPE_DIM + VL], s[ZL_ROPE_DIM + VL], f = (float)sign;
    int half = head_dim / 2, used = interleaved ? head_dim : half;
    for (int j = 0; j < half; j++)
        if (interleaved) {
            c[2 * j] = c[2 * j + 1] = cs[2 * j];
            s[2 * j] = -f * cs[2 * j + 1];
            s[2 * j + 1] = f * cs[2 * j + 1];
        } else {
            c[j] = cs[2 * j];
            s[j] = f * cs[2 * j + 1];
        }
    v_store(c + used, (vf){0});
    v_store(s + used, (vf){0});
    for (int h = 0; h < heads; h++, x += head_dim)
        if (interleaved)
            pairs(x, c, s, head_dim);
        else
            halves(x, x + half, c, s, half);
}
