/*
 * Forward attention of a single query (attention_block.h): nothing to tile, every key and value is read once, as it lies. Lanes run along
 * the head; the scores of a vector of keys are summed together. The softmax is online, block by block, as in attention.c.
 */
#include "kernel/attention_block.h"

#include "kernel/isa/softmax.h"

enum { BLOCK = ZL_ATTN_BLOCK, WIDEST = 256, TOGETHER = 4 /* vectors of values that are summed in registers */ };

/* s[0..n) = q . k_j, n <= BLOCK; -infinity for what fills the last vector. */
static void scores(int64_t n, int64_t d, const float *q, const float *k, int64_t ldk, float *s)
{
    const int64_t whole = d / VL * VL;
    for (int64_t j = 0; j < n; j += VL) {
        vf x[VL];
        for (int64_t r = 0; r < VL; r++) {
            const float *key = k + (j + r < n ? j + r : n - 1) * ldk;
            vf sum = {0};
            for (int64_t c = 0; c < whole; c += VL)
                sum = v_fma(v_load(q + c), v_load(key + c), sum);
            if (whole < d)
                sum = v_fma(v_load(q + whole), v_load_n(key + whole, d - whole), sum);
            x[r] = sum;
        }
        v_store(s + j, v_sums(x));
    }
    for (int64_t j = n; j % VL; j++)
        s[j] = -__builtin_inff();
}

/* o[c..c + V vectors) = factor o + sum of s_j v_j. V is constant after inlining; the last vector may reach over the head's end. */
V_INLINE void values(const int V, int64_t n, int64_t left, const float *s, const float *v, int64_t ldv, float factor, float *o)
{
    vf sum[TOGETHER];
    V_EACH(i, V)
        sum[i] = v_load(o + i * VL) * factor;
    for (int64_t j = 0; j < n; j++)
        V_EACH(i, V)
            sum[i] = v_fma(v_set(s[j]), V > 1 ? v_load(v + j * ldv + i * VL) : v_load_left(v + j * ldv, left), sum[i]);
    V_EACH(i, V)
        v_store(o + i * VL, sum[i]);
}

void ZL_ISA(zl_attn_one)(const struct zl_attn *a, const struct zl_attn_seq *seq, int head, int64_t q0,
                         float *out, int64_t ldo, float *lse)
{
    const int64_t d = a->head_dim, kv = head / (a->heads / a->kv_heads);
    const int64_t row = seq->q_begin + q0, n = q0 + seq->kv_len - seq->q_len + 1;
    const float *k = a->k + seq->kv_begin * a->ldk + kv * d, *v = a->v + seq->kv_begin * a->ldv + kv * d;
    float q[WIDEST] = {0}, o[WIDEST] = {0}, s[BLOCK], max = -__builtin_inff();
    vf sum = {0}; /* lanes of one sum */

    for (int64_t i = 0; i < d; i++)
        q[i] = a->q[row * a->ldq + head * d + i] * a->scale;
    for (int64_t j0 = 0; j0 < n; j0 += BLOCK, k += BLOCK * a->ldk, v += BLOCK * a->ldv) {
        const int64_t m = n - j0 < BLOCK ? n - j0 : BLOCK;
        scores(m, d, q, k, a->ldk, s);
        vf largest = v_set(max);
        for (int64_t j = 0; j < m; j += VL)
            largest = v_max(largest, v_load(s + j));
        float old = max;
        for (int i = 0; i < VL; i++)
            max = largest[i] > max ? largest[i] : max;
        vf factor = softmax_column((m + VL - 1) / VL, s, VL, v_set(old), v_set(max), &sum);
        int64_t c = 0;
        for (; c + TOGETHER * VL <= d; c += TOGETHER * VL)
            values(TOGETHER, m, 0, s, v + c, a->ldv, factor[0], o + c);
        for (; c < d; c += VL)
            values(1, m, d - c, s, v + c, a->ldv, factor[0], o + c);
    }
    const float total = v_sum(sum), rest = 1.0f / total;
    float *to = out + row * ldo + head * d;
    for (int64_t c = 0; c < d; c += VL)
        v_store_left(to + c, v_load(o + c) * rest, d - c);
    if (lse)
        lse[row * a->heads + head] = max + v_log(v_set(total))[0];
}
