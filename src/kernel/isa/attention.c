/*
 * Forward attention of one block of queries (attention_block.h), after Dao, FlashAttention-2, 2023:
 * key block after key block, with a running maximum and sum, and the output rescaled when the
 * maximum grows.
 */
#include "kernel/attention_block.h"

#include "kernel/isa/softmax.h"
#include "kernel/isa/tile.h"

enum { BLOCK = ZL_ATTN_BLOCK };

/* Scores that the query may not see become -infinity. */
static void hide(int64_t keys, int64_t lanes, int64_t diagonal, float *s)
{
    for (int64_t k = clip(diagonal + 1, keys); k < keys; k++)
        for (int64_t c = 0; c < lanes && c + diagonal < k; c += VL) {
            float *at = s + k * BLOCK + c;
            v_store(at, v_select(v_below(k - diagonal - c), v_set(-__builtin_inff()), v_load(at)));
        }
}

static void softmax(int64_t keys, int64_t lanes, float *s, float *max, float *sum, float *factor)
{
    for (int64_t c = 0; c < lanes; c += VL) {
        vf old = v_load(max + c), now = old, l = v_load(sum + c);
        for (int64_t k = 0; k < keys; k++)
            now = v_max(now, v_load(s + k * BLOCK + c));
        v_store(factor + c, softmax_column(keys, s + c, BLOCK, old, now, &l));
        v_store(max + c, now);
        v_store(sum + c, l);
    }
}

void ZL_ISA(zl_attn_forward)(const struct zl_attn *a, const struct zl_attn_seq *seq, int head,
                             int64_t q0, float *scratch, float *out, int64_t ldo, float *lse)
{
    const int64_t d = a->head_dim, dp = zl_attn_padded(d), kv = head / (a->heads / a->kv_heads);
    const int64_t n = seq->q_len - q0 < BLOCK ? seq->q_len - q0 : BLOCK;
    if (n == 1) {
        ZL_ISA(zl_attn_one)(a, seq, head, q0, out, ldo, lse);
        return;
    }
    const int64_t lanes = (n + VL - 1) / VL * VL, row = seq->q_begin + q0;
    const int64_t offset = q0 + seq->kv_len - seq->q_len; /* key that the first query sees last */
    float *qt = scratch, *copy = qt + BLOCK * dp, *o = copy + BLOCK * dp, *s = o + BLOCK * dp;
    float *max = s + BLOCK * BLOCK, *sum = max + BLOCK, *factor = sum + BLOCK;

    transpose(n, d, a->q + row * a->ldq + head * d, a->ldq, a->scale, qt, BLOCK);
    for (int64_t i = 0; i < lanes; i++) {
        max[i] = -__builtin_inff();
        sum[i] = 0;
    }
    memset(o, 0, (size_t)(n * dp) * sizeof *o);
    for (int64_t k0 = 0; k0 < offset + n; k0 += BLOCK) {
        const int64_t m = offset + n - k0 < BLOCK ? offset + n - k0 : BLOCK;
        const int64_t diagonal = offset - k0, key = seq->kv_begin + k0;
        struct rows v = rows_of(m, d, a->v + key * a->ldv + kv * d, a->ldv, copy, dp);
        product(&(struct product){.rows = m, .lanes = lanes, .k = d,
                                  .a = a->k + key * a->ldk + kv * d, .lda = a->ldk,
                                  .b = qt, .ldb = BLOCK,
                                  .c = s, .ldc = BLOCK, .mode = TILE_SET,
                                  .mask = TILE_LANES_ARE_QUERIES, .diagonal = diagonal});
        hide(m, lanes, diagonal, s);
        softmax(m, lanes, s, max, sum, factor);
        product(&(struct product){.rows = n, .lanes = dp, .k = m,
                                  .a = s, .lda = BLOCK, .a_by_k = 1,
                                  .b = v.p, .ldb = v.ld,
                                  .c = o, .ldc = dp, .mode = TILE_SCALE, .scale = factor,
                                  .mask = TILE_ROWS_ARE_QUERIES, .diagonal = diagonal});
    }
    for (int64_t c = 0; c < lanes; c += VL) {
        vf l = v_load(sum + c);
        v_store(factor + c, 1.0f / l);
        v_store(max + c, v_load(max + c) + v_log(l));
    }
    for (int64_t i = 0; i < n; i++) {
        float *to = out + (row + i) * ldo + head * d;
        for (int64_t j = 0; j < d; j += VL)
            v_store_left(to + j, v_load(o + i * dp + j) * factor[i], d - j);
        if (lse)
            lse[(row + i) * a->heads + head] = max[i];
    }
}
