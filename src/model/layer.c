/*
 * One decoder layer: see layer.h. Every product of a frozen weight takes the adapter along as extra columns of K:
 *   forward   y  = [x | xa] [W | s B]^T          with xa = x A^T, one product for the modules that share x
 *   backward  dx = [dy ... | dxa] [W ... ; A]     with dxa = s dy B, over all modules that share x
 *   dB^T += s xa^T dy,   dA += dxa^T x.
 */
#include "model/layer.h"

#include <string.h>

#include "kernel/gemm.h"
#include "kernel/ops.h"

struct ctx {
    const struct zl_team *team;
    const struct zl_model *m;
    const struct zl_layer_weights *weights;
    const struct zl_lora_layer *l;
    const float *w;
    float *grad;
    int64_t t;
    float **xa; /* per group */
    float *dxa;
};

static uint32_t dim_q(const struct zl_config *c)
{
    return c->heads * c->head_dim;
}

static uint32_t dim_kv(const struct zl_config *c)
{
    return c->kv_heads * c->head_dim;
}

static float *floats(struct zl_arena *a, uint64_t n)
{
    return zl_arena_take(a, n * sizeof(float));
}

void zl_acts_take(struct zl_arena *a, struct zl_acts *acts, const struct zl_config *c, const struct zl_lora_layer *l, int64_t t)
{
    const struct zl_acts none = {0};
    zl_acts_share(a, acts, &none, ZL_RECOMPUTE_NONE, c, l, t);
}

void zl_acts_share(struct zl_arena *a, struct zl_acts *acts, const struct zl_acts *first, enum zl_recompute recompute,
                   const struct zl_config *c, const struct zl_lora_layer *l, int64_t t)
{
    const uint64_t n = (uint64_t)t;
    const bool keep_attention = recompute != ZL_RECOMPUTE_FULL, keep_mlp = recompute == ZL_RECOMPUTE_NONE;
    acts->rstd_attn = floats(a, n);
    acts->rstd_mlp = floats(a, n);
    acts->qkv = keep_attention ? floats(a, n * (dim_q(c) + 2 * (uint64_t)dim_kv(c))) : first->qkv;
    acts->ao = keep_attention ? floats(a, n * dim_q(c)) : first->ao;
    acts->lse = keep_attention ? floats(a, n * c->heads) : first->lse;
    acts->mid = keep_attention ? floats(a, n * c->d) : first->mid;
    acts->gate_up = keep_mlp ? floats(a, n * 2 * (uint64_t)c->ffn) : first->gate_up;
    for (int g = 0; g < ZL_GROUPS; g++) /* the last one's is not made again: that would take the whole forward */
        acts->xa[g] = keep_attention || g == ZL_G_DOWN ? floats(a, n * l->group_r[g]) : first->xa[g];
    acts->y = floats(a, n * c->d);
}

uint64_t zl_work_width(const struct zl_config *c)
{
    uint64_t attention = 2 * ((uint64_t)dim_q(c) + dim_kv(c)); /* gradients of q, k, v and of attention's output */
    return attention > c->ffn ? attention : c->ffn;
}

void zl_work_take(struct zl_arena *a, struct zl_work *w, const struct zl_config *c, const struct zl_lora *l, int64_t t,
                  bool backward)
{
    uint64_t n = (uint64_t)t, wide = zl_work_width(c), ranks = 0;
    for (uint32_t i = 0; i < l->n; i++)
        for (int g = 0; g < ZL_GROUPS; g++)
            if (ranks < l->layer[i].group_r[g])
                ranks = l->layer[i].group_r[g];
    *w = (struct zl_work){0};
    w->xn = floats(a, n * c->d);
    w->wide = floats(a, n * wide);
    if (!backward)
        return;
    w->dxn = floats(a, n * c->d);
    w->dxa = floats(a, n * ranks);
}

/* xa of a group: x A^T for all its modules at once. */
static void down_project(const struct ctx *c, enum zl_group g, const float *x, int64_t in)
{
    int64_t r = c->l->group_r[g];
    if (!r)
        return;
    struct zl_gemm p = {.m = c->t, .n = r, .n_terms = 1, .c = c->xa[g], .ldc = r, .part = ZL_PART_LORA};
    p.term[0] = (struct zl_gemm_term){.a = x, .lda = in, .b = c->w + c->l->group_a[g], .b_type = ZL_F32,
                                      .b_layout = ZL_B_NK, .ldb = in, .k = in, .alpha = 1};
    zl_gemm(c->team, &p);
}

/* y (+)= x W^T + s xa B^T + bias. */
static void linear(const struct ctx *c, enum zl_role role, const float *x, float *y, int64_t ldy, bool accumulate,
                   const float *bias)
{
    const struct zl_tensor *weight = &c->weights->linear[role];
    const struct zl_lora_module *mod = &c->l->module[role];
    int64_t out = (int64_t)weight->shape[0], in = (int64_t)weight->shape[1];
    enum zl_group g = zl_group_of[role];
    struct zl_gemm p = {.m = c->t, .n = out, .n_terms = 1, .c = y, .ldc = ldy, .accumulate = accumulate, .bias = bias,
                        .part = ZL_PART_FORWARD};
    p.term[0] = (struct zl_gemm_term){.a = x, .lda = in, .b = weight->data, .b_type = weight->type,
                                      .b_layout = ZL_B_NK, .ldb = in, .k = in, .alpha = 1, .frozen = true};
    if (mod->r) {
        p.n_terms = 2;
        p.term[1] = (struct zl_gemm_term){.a = c->xa[g] + mod->column, .lda = c->l->group_r[g], .b = c->w + mod->bt,
                                          .b_type = ZL_F32, .b_layout = ZL_B_KN, .ldb = out, .k = mod->r,
                                          .alpha = mod->scale};
    }
    zl_gemm(c->team, &p);
}

/* One module's part of the backward before the shared product: its columns of dxa = s dy B, and dB^T += s xa^T dy. */
static void module_backward(const struct ctx *c, enum zl_role role, const float *dy, int64_t ldy)
{
    const struct zl_lora_module *mod = &c->l->module[role];
    enum zl_group g = zl_group_of[role];
    int64_t r = mod->r, ranks = c->l->group_r[g], out = (int64_t)c->weights->linear[role].shape[0];
    if (!r)
        return;
    struct zl_gemm p = {.m = c->t, .n = r, .n_terms = 1, .c = c->dxa + mod->column, .ldc = ranks, .part = ZL_PART_LORA};
    p.term[0] = (struct zl_gemm_term){.a = dy, .lda = ldy, .b = c->w + mod->bt, .b_type = ZL_F32, .b_layout = ZL_B_NK,
                                      .ldb = out, .k = out, .alpha = mod->scale};
    zl_gemm(c->team, &p);
    struct zl_gemm q = {.m = r, .n = out, .n_terms = 1, .c = c->grad + mod->bt, .ldc = out, .accumulate = true,
                        .part = ZL_PART_LORA};
    q.term[0] = (struct zl_gemm_term){.a = c->xa[g] + mod->column, .lda = ranks, .a_transposed = true, .b = dy,
                                      .b_type = ZL_F32, .b_layout = ZL_B_KN, .ldb = ldy, .k = c->t,
                                      .alpha = mod->scale};
    zl_gemm(c->team, &q);
}

/* dA += dxa^T x of a whole group. */
static void group_grad(const struct ctx *c, enum zl_group g, const float *x, int64_t in)
{
    int64_t r = c->l->group_r[g];
    if (!r)
        return;
    struct zl_gemm p = {.m = r, .n = in, .n_terms = 1, .c = c->grad + c->l->group_a[g], .ldc = in, .accumulate = true,
                        .part = ZL_PART_LORA};
    p.term[0] = (struct zl_gemm_term){.a = c->dxa, .lda = r, .a_transposed = true, .b = x, .b_type = ZL_F32,
                                      .b_layout = ZL_B_KN, .ldb = in, .k = c->t, .alpha = 1};
    zl_gemm(c->team, &p);
}

/* dx = sum over modules of dy_i W_i  +  dxa A. dys[i], lds[i]: the gradient behind each module. */
static void input_grad(const struct ctx *c, enum zl_group g, int n, const enum zl_role *roles, const float *const *dys,
                       const int64_t *lds, float *dx, int64_t in)
{
    struct zl_gemm p = {.m = c->t, .n = in, .n_terms = n, .c = dx, .ldc = in, .part = ZL_PART_BACKWARD};
    for (int i = 0; i < n; i++) {
        const struct zl_tensor *weight = &c->weights->linear[roles[i]];
        p.term[i] = (struct zl_gemm_term){.a = dys[i], .lda = lds[i], .b = weight->data, .b_type = weight->type,
                                          .b_layout = ZL_B_KN, .ldb = in, .k = (int64_t)weight->shape[0], .alpha = 1,
                                          .frozen = true};
    }
    if (c->l->group_r[g])
        p.term[p.n_terms++] = (struct zl_gemm_term){.a = c->dxa, .lda = c->l->group_r[g], .b = c->w + c->l->group_a[g],
                                                    .b_type = ZL_F32, .b_layout = ZL_B_KN, .ldb = in,
                                                    .k = c->l->group_r[g], .alpha = 1};
    zl_gemm(c->team, &p);
}

static void residual(int64_t t, int64_t d, const float *x, const float *bias, float *y)
{
    memcpy(y, x, (size_t)(t * d) * sizeof(float));
    for (int64_t i = 0; bias && i < t; i++)
        for (int64_t j = 0; j < d; j++)
            y[i * d + j] += bias[j];
}

static struct zl_attn attention_of(const struct zl_config *c, const struct zl_tokens *tok, const float *qkv)
{
    int64_t q = dim_q(c), kv = dim_kv(c), ld = q + 2 * kv;
    return (struct zl_attn){.heads = (int)c->heads, .kv_heads = (int)c->kv_heads, .head_dim = (int)c->head_dim,
                            .scale = 1.0f / __builtin_sqrtf((float)c->head_dim), .n_seqs = tok->n_seqs,
                            .seqs = tok->seqs, .q = qkv, .k = qkv + q, .v = qkv + q + kv, .ldq = ld, .ldk = ld,
                            .ldv = ld};
}

/* Append this call's keys and values to the cache and let attention read them there. */
static void use_cache(struct zl_attn *a, const struct zl_kv *kv, struct zl_attn_seq *seq, int64_t t, int64_t width)
{
    for (int64_t i = 0; i < t; i++) {
        memcpy(kv->k + (kv->at + i) * width, a->k + i * a->ldk, (size_t)width * sizeof(float));
        memcpy(kv->v + (kv->at + i) * width, a->v + i * a->ldv, (size_t)width * sizeof(float));
    }
    *seq = (struct zl_attn_seq){.q_begin = 0, .q_len = t, .kv_begin = 0, .kv_len = kv->at + t};
    a->seqs = seq;
    a->n_seqs = 1;
    a->k = kv->k;
    a->v = kv->v;
    a->ldk = a->ldv = width;
}

static void attention_forward(const struct ctx *c, const struct zl_tokens *tok, struct zl_acts *acts, struct zl_work *work,
                              const struct zl_kv *kv)
{
    const struct zl_config *cfg = &c->m->config;
    const struct zl_layer_weights *wt = c->weights;
    const int64_t t = c->t, d = cfg->d, q = dim_q(cfg), kvd = dim_kv(cfg), ld = q + 2 * kvd;
    zl_rmsnorm(c->team, t, d, acts->x, wt->norm_attn, (float)cfg->norm_eps, work->xn, acts->rstd_attn);
    down_project(c, ZL_G_QKV, work->xn, d);
    linear(c, ZL_W_Q, work->xn, acts->qkv, ld, false, wt->bias_q);
    linear(c, ZL_W_K, work->xn, acts->qkv + q, ld, false, wt->bias_k);
    linear(c, ZL_W_V, work->xn, acts->qkv + q + kvd, ld, false, wt->bias_v);
    zl_rope(c->team, t, (int)(cfg->heads + cfg->kv_heads), (int)cfg->head_dim, acts->qkv, ld, tok->positions, c->m->rope, 1,
            cfg->rope_interleaved);
    struct zl_attn a = attention_of(cfg, tok, acts->qkv);
    struct zl_attn_seq seq;
    if (kv)
        use_cache(&a, kv, &seq, t, kvd);
    zl_attention(c->team, &a, acts->ao, q, acts->lse);
    down_project(c, ZL_G_O, acts->ao, q);
    residual(t, d, acts->x, wt->bias_o, acts->mid);
    linear(c, ZL_W_O, acts->ao, acts->mid, d, true, NULL);
}

static void gate_up_forward(const struct ctx *c, struct zl_acts *acts, struct zl_work *work)
{
    const struct zl_config *cfg = &c->m->config;
    const int64_t t = c->t, d = cfg->d, f = cfg->ffn;
    zl_rmsnorm(c->team, t, d, acts->mid, c->weights->norm_mlp, (float)cfg->norm_eps, work->xn, acts->rstd_mlp);
    down_project(c, ZL_G_GATE_UP, work->xn, d);
    linear(c, ZL_W_GATE, work->xn, acts->gate_up, 2 * f, false, NULL);
    linear(c, ZL_W_UP, work->xn, acts->gate_up + f, 2 * f, false, NULL);
}

static void down_forward(const struct ctx *c, struct zl_acts *acts, struct zl_work *work)
{
    const struct zl_config *cfg = &c->m->config;
    const int64_t t = c->t, d = cfg->d, f = cfg->ffn;
    zl_gated(c->team, cfg->act, t, f, acts->gate_up, acts->gate_up + f, 2 * f, work->wide, f);
    down_project(c, ZL_G_DOWN, work->wide, f);
    residual(t, d, acts->mid, NULL, acts->y);
    linear(c, ZL_W_DOWN, work->wide, acts->y, d, true, NULL);
}

void zl_layer_forward(const struct zl_team *team, const struct zl_model *m, uint32_t index, const struct zl_lora_layer *l,
                      const float *w, const struct zl_tokens *tok, struct zl_acts *acts, struct zl_work *work,
                      const struct zl_kv *kv)
{
    const struct ctx c = {.team = team, .m = m, .weights = &m->layer[index], .l = l, .w = w, .t = tok->t, .xa = acts->xa};
    attention_forward(&c, tok, acts, work, kv);
    gate_up_forward(&c, acts, work);
    down_forward(&c, acts, work);
}

void zl_layer_again(const struct zl_team *team, const struct zl_model *m, uint32_t index, const struct zl_lora_layer *l,
                    const float *w, const struct zl_tokens *tok, struct zl_acts *acts, struct zl_work *work,
                    enum zl_recompute recompute)
{
    const struct ctx c = {.team = team, .m = m, .weights = &m->layer[index], .l = l, .w = w, .t = tok->t, .xa = acts->xa};
    if (recompute == ZL_RECOMPUTE_FULL)
        attention_forward(&c, tok, acts, work, NULL);
    if (recompute != ZL_RECOMPUTE_NONE)
        gate_up_forward(&c, acts, work);
}

static void mlp_backward(const struct ctx *c, struct zl_acts *acts, struct zl_work *work, float *dx)
{
    const struct zl_config *cfg = &c->m->config;
    const int64_t t = c->t, d = cfg->d, f = cfg->ffn;
    float *dh = work->wide, *h = dh; /* in place */
    module_backward(c, ZL_W_DOWN, dx, d);
    input_grad(c, ZL_G_DOWN, 1, (const enum zl_role[]){ZL_W_DOWN}, (const float *const[]){dx}, (const int64_t[]){d}, dh,
               f);
    float *dgate = acts->gate_up, *dup = acts->gate_up + f;
    zl_gated_backward(c->team, cfg->act, t, f, dh, f, dgate, dup, 2 * f, dgate, dup, h);
    group_grad(c, ZL_G_DOWN, h, f);
    module_backward(c, ZL_W_GATE, dgate, 2 * f);
    module_backward(c, ZL_W_UP, dup, 2 * f);
    zl_rmsnorm(c->team, t, d, acts->mid, c->weights->norm_mlp, (float)cfg->norm_eps, work->xn, NULL);
    group_grad(c, ZL_G_GATE_UP, work->xn, d);
    input_grad(c, ZL_G_GATE_UP, 2, (const enum zl_role[]){ZL_W_GATE, ZL_W_UP}, (const float *const[]){dgate, dup},
               (const int64_t[]){2 * f, 2 * f}, work->dxn, d);
    zl_rmsnorm_backward(c->team, t, d, work->dxn, acts->mid, c->weights->norm_mlp, acts->rstd_mlp, dx, 1);
}

static void attention_backward(const struct ctx *c, const struct zl_tokens *tok, struct zl_acts *acts, struct zl_work *work,
                               float *dx, bool need_dx)
{
    const struct zl_config *cfg = &c->m->config;
    const int64_t t = c->t, d = cfg->d, q = dim_q(cfg), kv = dim_kv(cfg), ld = q + 2 * kv;
    float *dqkv = work->wide, *dao = dqkv + t * ld;
    module_backward(c, ZL_W_O, dx, d);
    group_grad(c, ZL_G_O, acts->ao, q);
    input_grad(c, ZL_G_O, 1, (const enum zl_role[]){ZL_W_O}, (const float *const[]){dx}, (const int64_t[]){d}, dao, q);
    struct zl_attn a = attention_of(cfg, tok, acts->qkv);
    zl_attention_backward(c->team, &a, acts->ao, dao, q, acts->lse, dqkv, dqkv + q, dqkv + q + kv);
    zl_rope(c->team, t, (int)(cfg->heads + cfg->kv_heads), (int)cfg->head_dim, dqkv, ld, tok->positions, c->m->rope, -1,
            cfg->rope_interleaved);
    module_backward(c, ZL_W_Q, dqkv, ld);
    module_backward(c, ZL_W_K, dqkv + q, ld);
    module_backward(c, ZL_W_V, dqkv + q + kv, ld);
    if (c->l->group_r[ZL_G_QKV]) {
        zl_rmsnorm(c->team, t, d, acts->x, c->weights->norm_attn, (float)cfg->norm_eps, work->xn, NULL);
        group_grad(c, ZL_G_QKV, work->xn, d);
    }
    if (!need_dx)
        return;
    input_grad(c, ZL_G_QKV, 3, (const enum zl_role[]){ZL_W_Q, ZL_W_K, ZL_W_V},
               (const float *const[]){dqkv, dqkv + q, dqkv + q + kv}, (const int64_t[]){ld, ld, ld}, work->dxn, d);
    zl_rmsnorm_backward(c->team, t, d, work->dxn, acts->x, c->weights->norm_attn, acts->rstd_attn, dx, 1);
}

void zl_layer_backward(const struct zl_team *team, const struct zl_model *m, uint32_t index, const struct zl_lora_layer *l,
                       const float *w, float *grad, const struct zl_tokens *tok, struct zl_acts *acts, struct zl_work *work,
                       float *dx, bool need_dx)
{
    struct ctx c = {.team = team, .m = m, .weights = &m->layer[index], .l = l, .w = w, .grad = grad, .t = tok->t,
                    .xa = acts->xa, .dxa = work->dxa};
    mlp_backward(&c, acts, work, dx);
    attention_backward(&c, tok, acts, work, dx, need_dx);
}
