/*
 * Backward attention on blocks (attention_block.h). With scores S = scale Q K^T, weights
 * P = exp(S - lse) and delta = rowsum(dO * O):
 *
 *     dV = P^T dO,   dS = P * (dO V^T - delta),   dQ = scale dS K,   dK = dS^T (scale Q)
 *
 * S, P and dS live one block at a time, transposed. A block of queries is loaded once with scale in
 * it; dQ gets scale at the end.
 */
#include "kernel/attention_block.h"

#include "kernel/isa/softmax.h"
#include "kernel/isa/tile.h"

enum { BLOCK = ZL_ATTN_BLOCK };

/* A thread's blocks. Rows are dp floats, transposed ones BLOCK. */
struct blocks {
    const struct zl_attn *a;
    const struct zl_attn_grad *g;
    const struct zl_attn_seq *seq;
    int64_t d, dp;
    int head, kv;
    int64_t i0, n, lanes;      /* queries */
    float *qt, *q, *got;       /* scale * Q, transposed and by rows, and dO transposed */
    struct rows go, k;
    float *copy_go, *copy_k;
    float *lse, *delta, *dq;
    int64_t j0, m;             /* keys */
    float *dk, *dv;
    float *p, *ds;             /* [keys][queries] */
};

static void load_queries(struct blocks *b, int head, int64_t i0)
{
    const struct zl_attn *a = b->a;
    const struct zl_attn_grad *g = b->g;
    const int64_t d = b->d, dp = b->dp, left = b->seq->q_len - i0, row = b->seq->q_begin + i0;
    b->head = head;
    b->i0 = i0;
    b->n = left < BLOCK ? left : BLOCK;
    b->lanes = (b->n + VL - 1) / VL * VL;
    const float *q = a->q + row * a->ldq + head * d, *go = g->dout + row * g->ldo + head * d;
    const float *o = g->out + row * g->ldo + head * d;
    transpose(b->n, d, q, a->ldq, a->scale, b->qt, BLOCK);
    transpose(b->n, d, go, g->ldo, 1, b->got, BLOCK);
    pad(b->n, d, q, a->ldq, a->scale, b->q, dp);
    b->go = rows_of(b->n, d, go, g->ldo, b->copy_go, dp);
    for (int64_t i = 0; i < b->lanes; i++) {
        vf s = {0};
        for (int64_t j = 0; i < b->n && j < d; j += VL)
            s = v_fma(v_load(b->go.p + i * b->go.ld + j), v_load_left(o + i * g->ldo + j, d - j),
                      s);
        b->delta[i] = i < b->n ? v_sum(s) : 0;
        b->lse[i] = i < b->n ? g->lse[(row + i) * a->heads + head] : 0;
    }
}

static void load_keys(struct blocks *b, int64_t j0)
{
    int64_t left = b->seq->kv_len - j0, ld = b->a->ldk;
    b->j0 = j0;
    b->m = left < BLOCK ? left : BLOCK;
    b->k = rows_of(b->m, b->d, b->a->k + (b->seq->kv_begin + j0) * ld + b->kv * b->d, ld, b->copy_k,
                   b->dp);
}

/* P and dS from S and dO V^T, with exact zeros where a query may not look. */
static void weights(const struct blocks *b)
{
    const int64_t diagonal = b->i0 - b->j0;
    for (int64_t k = 0; k < b->m; k++) {
        float *p = b->p + k * BLOCK, *ds = b->ds + k * BLOCK;
        for (int64_t c = 0; c < b->lanes; c += VL) {
            vf w = v_exp2((v_load(p + c) - v_load(b->lse + c)) * LOG2_E);
            v_store(p + c, w);
            v_store(ds + c, w * (v_load(ds + c) - v_load(b->delta + c)));
        }
        for (int64_t c = 0; c < b->lanes && c + diagonal < k; c += VL) {
            const vi hidden = v_below(k - diagonal - c);
            v_store(p + c, v_select(hidden, (vf){0}, v_load(p + c)));
            v_store(ds + c, v_select(hidden, (vf){0}, v_load(ds + c)));
        }
    }
}

static void add_block(const struct blocks *b, int want_q, int want_kv)
{
    const struct zl_attn *a = b->a;
    const int64_t key = b->seq->kv_begin + b->j0, dp = b->dp, diagonal = b->i0 - b->j0;
    product(&(struct product){.rows = b->m, .lanes = b->lanes, .k = b->d,
                              .a = b->k.p, .lda = b->k.ld,
                              .b = b->qt, .ldb = BLOCK,
                              .c = b->p, .ldc = BLOCK, .mode = TILE_SET,
                              .mask = TILE_LANES_ARE_QUERIES, .diagonal = diagonal});
    product(&(struct product){.rows = b->m, .lanes = b->lanes, .k = b->d,
                              .a = a->v + key * a->ldv + b->kv * b->d, .lda = a->ldv,
                              .b = b->got, .ldb = BLOCK,
                              .c = b->ds, .ldc = BLOCK, .mode = TILE_SET,
                              .mask = TILE_LANES_ARE_QUERIES, .diagonal = diagonal});
    weights(b);
    if (want_kv) {
        product(&(struct product){.rows = b->m, .lanes = dp, .k = b->n,
                                  .a = b->p, .lda = BLOCK,
                                  .b = b->go.p, .ldb = b->go.ld,
                                  .c = b->dv, .ldc = dp, .mode = TILE_ADD,
                                  .mask = TILE_K_ARE_QUERIES, .diagonal = diagonal});
        product(&(struct product){.rows = b->m, .lanes = dp, .k = b->n,
                                  .a = b->ds, .lda = BLOCK,
                                  .b = b->q, .ldb = dp,
                                  .c = b->dk, .ldc = dp, .mode = TILE_ADD,
                                  .mask = TILE_K_ARE_QUERIES, .diagonal = diagonal});
    }
    if (want_q)
        product(&(struct product){.rows = b->n, .lanes = dp, .k = b->m,
                                  .a = b->ds, .lda = BLOCK, .a_by_k = 1,
                                  .b = b->k.p, .ldb = b->k.ld,
                                  .c = b->dq, .ldc = dp, .mode = TILE_ADD,
                                  .mask = TILE_ROWS_ARE_QUERIES, .diagonal = diagonal});
}

static void store(int64_t rows, int64_t d, const float *from, int64_t dp, float factor, float *to,
                  int64_t ld)
{
    for (int64_t i = 0; i < rows; i++, from += dp, to += ld)
        for (int64_t j = 0; j < d; j += VL)
            v_store_left(to + j, v_load(from + j) * factor, d - j);
}

static void clear(float *x, int64_t n)
{
    memset(x, 0, (size_t)n * sizeof *x);
}

static void store_queries(const struct blocks *b)
{
    store(b->n, b->d, b->dq, b->dp, b->a->scale,
          b->g->dq + (b->seq->q_begin + b->i0) * b->a->ldq + b->head * b->d, b->a->ldq);
}

static void store_keys(const struct blocks *b, int64_t j0, int64_t m, const float *dk,
                       const float *dv)
{
    int64_t row = b->seq->kv_begin + j0, column = b->kv * b->d;
    store(m, b->d, dk, b->dp, 1, b->g->dk + row * b->a->ldk + column, b->a->ldk);
    store(m, b->d, dv, b->dp, 1, b->g->dv + row * b->a->ldv + column, b->a->ldv);
}

static void queries_alone(struct blocks *b, int head, int64_t i0)
{
    load_queries(b, head, i0);
    clear(b->dq, b->n * b->dp);
    for (int64_t j0 = 0; j0 <= i0; j0 += BLOCK) {
        load_keys(b, j0);
        add_block(b, 1, 0);
    }
    store_queries(b);
}

static void keys_alone(struct blocks *b, int group, int64_t j0)
{
    load_keys(b, j0);
    clear(b->dk, b->m * b->dp);
    clear(b->dv, b->m * b->dp);
    for (int h = 0; h < group; h++)
        for (int64_t i0 = j0; i0 < b->seq->q_len; i0 += BLOCK) {
            load_queries(b, b->kv * group + h, i0);
            add_block(b, 0, 1);
        }
    store_keys(b, j0, b->m, b->dk, b->dv);
}

static void both(struct blocks *b, int group, float *sums)
{
    const int64_t t = b->seq->q_len;
    float *dk = sums, *dv = dk + t * b->dp;
    clear(sums, 2 * t * b->dp);
    for (int h = 0; h < group; h++)
        for (int64_t i0 = 0; i0 < t; i0 += BLOCK) {
            load_queries(b, b->kv * group + h, i0);
            clear(b->dq, b->n * b->dp);
            for (int64_t j0 = 0; j0 <= i0; j0 += BLOCK) {
                load_keys(b, j0);
                b->dk = dk + j0 * b->dp;
                b->dv = dv + j0 * b->dp;
                add_block(b, 1, 1);
            }
            store_queries(b);
        }
    store_keys(b, 0, t, dk, dv);
}

void ZL_ISA(zl_attn_backward)(const struct zl_attn *a, const struct zl_attn_grad *g,
                              const struct zl_attn_seq *seq, enum zl_attn_part part, int head,
                              int64_t block, float *scratch, float *sums)
{
    const int group = a->heads / a->kv_heads;
    struct blocks b = {.a = a, .g = g, .seq = seq, .d = a->head_dim};
    b.dp = zl_attn_padded(b.d);
    float **of[] = {&b.qt, &b.q, &b.got, &b.copy_go, &b.dq, &b.copy_k, &b.dk, &b.dv};
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++, scratch += BLOCK * b.dp)
        *of[i] = scratch;
    b.p = scratch;
    b.ds = b.p + BLOCK * BLOCK;
    b.lse = b.ds + BLOCK * BLOCK;
    b.delta = b.lse + BLOCK;
    b.kv = part == ZL_ATTN_DQ ? head / group : head;
    if (part == ZL_ATTN_DQ)
        queries_alone(&b, head, block * BLOCK);
    else if (part == ZL_ATTN_DKV)
        keys_alone(&b, group, block * BLOCK);
    else
        both(&b, group, sums);
}
