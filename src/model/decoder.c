/* Generation with a key/value cache: see decoder.h. */
#include "model/decoder.h"

#include <stdlib.h>

#include "kernel/dequant.h"
#include "kernel/gemm.h"
#include "kernel/ops.h"

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

int zl_decoder_open(struct zl_decoder *d, const struct zl_model *m, const struct zl_adapter *adapter, int64_t capacity,
                    int64_t chunk, enum zl_compute compute, int threads, struct zl_error *err)
{
    const struct zl_config *c = &m->config;
    const uint64_t kv = (uint64_t)c->kv_heads * c->head_dim, rows = padded((uint64_t)capacity * kv * sizeof(float));
    *d = (struct zl_decoder){.model = m, .capacity = capacity, .chunk = chunk < capacity ? chunk : capacity};
    const struct zl_block_spec spec = {.n_own = c->layers, .adapter = adapter, .compute = compute, .tokens = d->chunk, .longest = capacity};
    const uint64_t bytes = 2 * c->layers * rows + padded((uint64_t)d->chunk * sizeof(int32_t)) +
                           padded((uint64_t)d->chunk * c->d * sizeof(float)) + padded(c->vocab * sizeof(float));
    d->kv = calloc(c->layers, sizeof *d->kv);
    int rc = d->kv ? zl_block_open(&d->block, m, &spec, threads, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc)
        rc = zl_arena_open(&d->cache, "the key/value cache", bytes, err);
    if (rc) {
        zl_decoder_close(d);
        return rc;
    }
    for (uint32_t i = 0; i < c->layers; i++) {
        d->kv[i].k = zl_arena_take(&d->cache, rows);
        d->kv[i].v = zl_arena_take(&d->cache, rows);
    }
    d->positions = zl_arena_take(&d->cache, (uint64_t)d->chunk * sizeof(int32_t));
    d->x = zl_arena_take(&d->cache, (uint64_t)d->chunk * c->d * sizeof(float));
    d->logits = zl_arena_take(&d->cache, c->vocab * sizeof(float));
    return 0;
}

void zl_decoder_close(struct zl_decoder *d)
{
    zl_block_close(&d->block);
    zl_arena_close(&d->cache);
    free(d->kv);
    *d = (struct zl_decoder){0};
}

void zl_decoder_reset(struct zl_decoder *d)
{
    d->at = 0;
    for (uint32_t i = 0; i < d->model->config.layers; i++)
        d->kv[i].at = 0;
}

/* One chunk through all layers; returns its hidden states. */
static const float *forward(struct zl_decoder *d, const int32_t *ids, int64_t n)
{
    const struct zl_model *m = d->model;
    struct zl_block *b = &d->block;
    const struct zl_attn_seq seq = {0, n, 0, n};
    const struct zl_tokens tok = {.t = n, .positions = d->positions, .n_seqs = 1, .seqs = &seq};
    zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, ids, n, d->x);
    for (int64_t i = 0; i < n; i++)
        d->positions[i] = (int32_t)(d->at + i);
    const float *h = d->x;
    for (uint32_t i = 0; i < m->config.layers; i++) {
        b->acts[i].x = h;
        zl_layer_forward(&b->team, m, i, &b->own.layer[i], b->w, &tok, &b->acts[i], &b->work, &d->kv[i]);
        d->kv[i].at += n;
        h = b->acts[i].y;
    }
    d->at += n;
    return h;
}

const float *zl_decoder_feed(struct zl_decoder *d, const int32_t *ids, int64_t n)
{
    const struct zl_model *m = d->model;
    const int64_t width = m->config.d;
    if (n < 1 || n > d->capacity - d->at)
        return NULL;
    const float *h = NULL;
    int64_t last = 0;
    for (int64_t i = 0; i < n; i += last) {
        last = n - i < d->chunk ? n - i : d->chunk;
        h = forward(d, ids + i, last);
    }
    zl_rmsnorm(&d->block.team, 1, width, h + (last - 1) * width, m->norm, (float)m->config.norm_eps, d->x, NULL);
    struct zl_gemm p = {.m = 1, .n = m->config.vocab, .n_terms = 1, .c = d->logits, .ldc = m->config.vocab};
    p.term[0] = (struct zl_gemm_term){.a = d->x, .lda = width, .b = m->head.data, .b_type = m->head.type,
                                      .b_layout = ZL_B_NK, .ldb = width, .k = width, .alpha = 1};
    zl_gemm(&d->block.team, &p);
    return d->logits;
}
