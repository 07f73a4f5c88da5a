/*
 * The belief of the block before, as the published form of block-local training adds it to a local loss:
 *     alpha CE + (1 - alpha) KL(p || q),   p: the readout of the block before, q: this one's,
 * where p is constant. What the block before read out is its output, which is this block's input, so nothing more has to travel.
 *
 * With h the normed rows and g = E_p[row of the head] - row of the target, which is what zl_head_loss gives for p,
 *     d KL / d h = E_q[row] - E_p[row] = g_q - g_p,
 * so that the gradient of the whole is that of the cross-entropy less (1 - alpha) times the one that p's own cross-entropy has.
 */
#include "model/block_impl.h"

#include <string.h>

#include "kernel/gemm.h"

void zl_block_believe(struct zl_block *b, const struct zl_head *head, int64_t n, float weight, float *dzn)
{
    const struct zl_model *m = b->model;
    const int64_t d = m->config.d;
    const float share = b->spec.belief;
    float *rows = b->believed[0];
    for (int64_t i = 0; i < n; i++)
        memcpy(rows + i * d, b->acts[0].x + b->row_at[i] * d, (size_t)d * sizeof(float));
    if (b->spec.belief_map) {
        struct zl_gemm p = {.m = n, .n = d, .n_terms = 1, .c = b->believed[1], .ldc = d, .bias = b->spec.belief_b, .part = ZL_PART_FORWARD};
        p.term[0] = (struct zl_gemm_term){
            .a = rows, .lda = d, .b = b->spec.belief_a, .b_type = ZL_F32, .b_layout = ZL_B_NK, .ldb = d, .k = d, .alpha = 1};
        zl_gemm(&b->team, &p);
        rows = b->believed[1];
    }
    float *hp = b->believed[0];
    zl_rmsnorm(&b->team, n, d, rows, m->norm, (float)m->config.norm_eps, hp, NULL);
    zl_head_loss(&b->team, head, n, hp, b->target, weight, b->loss, NULL, hp);
    for (int64_t i = 0; i < n * d; i++)
        dzn[i] -= share * hp[i];
}
