/* Fitting the ridge maps of a partition: see readouts.h. */
#include "train/readouts.h"

#include <stdlib.h>
#include <string.h>

/* How many positions of the order hold about so many tokens, within the first epoch: the choice does not depend on how the order is cut
 * into micro-batches, so neither do the maps, but for rounding. */
static uint64_t count_positions(const struct zl_dataset *d, const struct zl_data_order *o, uint64_t wanted, uint64_t *tokens)
{
    uint64_t n = 0;
    const struct zl_micro_batch *end = &o->micro[o->n_micro - 1];
    *tokens = 0;
    while (n < o->n_examples && n < end->first + end->n && *tokens < wanted)
        *tokens += d->examples[zl_data_order_example(o, n++)].n;
    return n;
}

int zl_samples_make(const struct zl_corpus *c, const struct zl_data_order *o, uint64_t tokens, struct zl_samples *out, struct zl_error *err)
{
    *out = (struct zl_samples){0};
    const uint64_t positions =
        count_positions(&c->train, o, tokens ? tokens : 8 * (uint64_t)c->model.config.d, &out->tokens);
    while (out->n < o->n_micro && o->micro[out->n].first < positions)
        out->n++;
    const struct zl_packet_layout l = zl_packet_layout(o->largest_micro_tokens, o->largest_micro_examples, 0);
    const uint64_t each = (l.bytes + 63) / 64 * 64;
    struct zl_micro_batch *micro = malloc((out->n + 1) * sizeof *micro);
    struct zl_data_order part = *o; /* the same, but for its last micro-batch, which ends with the positions */
    out->sample = calloc(out->n + 1, sizeof *out->sample);
    out->memory = aligned_alloc(64, (out->n + 1) * each);
    if (!out->sample || !out->memory || !micro) {
        free(micro);
        zl_samples_free(out);
        return zl_fail(err, ZL_EMEMORY, "out of memory while fitting the readouts");
    }
    memcpy(micro, o->micro, out->n * sizeof *micro);
    struct zl_micro_batch *last = &micro[out->n - 1];
    last->n = positions - last->first < last->n ? positions - last->first : last->n;
    part.micro = micro;
    part.n_micro = out->n;
    for (size_t i = 0; i < out->n; i++) {
        struct zl_packet *m = (struct zl_packet *)(void *)(out->memory + i * each);
        zl_corpus_fill(&c->train, &part, i, &l, m);
        out->sample[i].ids = zl_packet_at(m, l.ids);
        out->sample[i].tok = (struct zl_tokens){.t = m->n_tokens,
                                                .positions = zl_packet_at(m, l.positions),
                                                .n_seqs = (int)m->n_seqs,
                                                .seqs = zl_packet_at(m, l.seqs)};
    }
    free(micro);
    return 0;
}

void zl_samples_free(struct zl_samples *s)
{
    free(s->sample);
    free(s->memory);
    *s = (struct zl_samples){0};
}

int zl_readouts_fit(const struct zl_corpus *c, const struct zl_data_order *o, const struct zl_partition *p, int threads,
                    uint64_t tokens, struct zl_readouts *out, struct zl_error *err)
{
    struct zl_map maps[ZL_STAGES_MAX];
    struct zl_samples samples;
    uint32_t n = 0, stage_of[ZL_STAGES_MAX];
    *out = (struct zl_readouts){0};
    for (uint32_t k = 0; k < p->n; k++)
        if (p->cut[k].map) {
            maps[n] = (struct zl_map){.landing = p->cut[k].first + p->cut[k].n_own + p->cut[k].n_shadow};
            stage_of[n++] = k;
        }
    if (n == 0)
        return 0;
    int rc = zl_samples_make(c, o, tokens, &samples, err);
    if (!rc)
        rc = zl_readout_fit(&c->model, threads, samples.sample, samples.n, o->largest_micro_tokens, c->train.report.longest, maps, n,
                            err);
    out->tokens = samples.tokens;
    for (uint32_t i = 0; i < n; i++) {
        out->map[stage_of[i]] = maps[i];
        out->a[stage_of[i]] = maps[i].a;
        out->b[stage_of[i]] = maps[i].b;
    }
    zl_samples_free(&samples);
    return rc;
}

void zl_readouts_free(struct zl_readouts *r)
{
    for (uint32_t k = 0; k < ZL_STAGES_MAX; k++)
        zl_map_free(&r->map[k]);
}
