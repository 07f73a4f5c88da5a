/*
 * How long the blocks of a sweep are busy, for `zerolock plan`: each is made, given the beginning of the run's first example, and dropped
 * again, so that the probe takes no more memory than the run. What stands before a block does not matter for its time: all get the
 * embedded tokens.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "kernel/dequant.h"
#include "train/sweep.h"

#define TOKENS 128 /* of the example, at most */
#define WARM 8     /* of them to touch the weights with */

struct probe {
    struct zl_packet *packet;
    struct zl_packet_layout layout;
    float *x, *map; /* [tokens][d]; a map of zeros */
};

static double run(struct zl_block *b, const struct probe *p, int64_t tokens)
{
    const struct zl_attn_seq seq = {.q_len = (int32_t)tokens, .kv_len = (int32_t)tokens};
    const struct zl_tokens tok = {.t = tokens, .positions = zl_packet_at(p->packet, p->layout.positions), .n_seqs = 1, .seqs = &seq};
    struct zl_loss loss;
    const uint64_t start = zl_clock_ns();
    zl_block_forward(b, 0, &tok, p->x);
    if (b->spec.has_loss)
        zl_block_loss(b, 0, &tok, zl_packet_at(p->packet, p->layout.labels), 1e-3f, true, &loss);
    return 1e-9 * (double)(zl_clock_ns() - start);
}

static int probe_block(const struct zl_setup *s, const struct probe *p, uint32_t k, int64_t tokens, double *busy, struct zl_error *err)
{
    const struct zl_model *m = &s->corpus.model;
    struct zl_block_spec spec = zl_pipeline_block(&s->partition, k, &s->pipeline);
    struct zl_block b;
    spec.map_a = p->map;
    spec.map_b = p->map;
    int rc = zl_block_open(&b, m, &spec, s->threads, err);
    if (rc)
        return rc;
    run(&b, p, tokens < WARM ? tokens : WARM);
    *busy = run(&b, p, tokens);
    zl_block_close(&b);
    zl_model_layer_advise(m, spec.first, spec.n_own + spec.n_shadow, ZL_ADVICE_DONE);
    return 0;
}

int zl_sweep_probe(const struct zl_setup *s, const struct zl_train_options *o, double *busy, uint64_t *tokens, struct zl_error *err)
{
    const struct zl_model *m = &s->corpus.model;
    const size_t d = m->config.d, rows = (size_t)s->pipeline.tokens;
    struct probe p = {.layout = zl_packet_layout(rows, (uint64_t)s->pipeline.seqs, 0)};
    p.packet = aligned_alloc(64, (p.layout.bytes + 63) / 64 * 64);
    p.x = malloc(rows * d * sizeof *p.x);
    p.map = calloc(d * d, sizeof *p.map);
    int rc = p.packet && p.x && p.map ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc) {
        *p.packet = (struct zl_packet){0};
        zl_corpus_fill(&s->corpus.train, &s->order, 0, &p.layout, p.packet);
        const struct zl_attn_seq *first = zl_packet_at(p.packet, p.layout.seqs);
        *tokens = (uint64_t)(first->q_len < TOKENS ? first->q_len : TOKENS);
        zl_dequant_rows(m->embed.type, m->embed.data, (int64_t)d, zl_packet_at(p.packet, p.layout.ids), (int64_t)*tokens, p.x);
    }
    for (uint32_t k = 0; !rc && k < s->partition.n; k++) {
        rc = zl_hooks_check(o->hooks, err);
        if (!rc)
            rc = probe_block(s, &p, k, (int64_t)*tokens, &busy[k], err);
    }
    free(p.packet);
    free(p.x);
    free(p.map);
    return rc;
}
