/*
 * The readouts of a sweep, fitted without the model ever being whole in memory: see sweep_impl.h. The samples go through a few layers at a
 * time; behind each map's landing layer their hidden states are spilled, and when the last layer is done, one map after the other takes
 * its input and the final states from the disk. The sums are those of zl_readout_fit in the same order: the maps have the same bits.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/dequant.h"
#include "train/sweep_impl.h"

struct fit {
    struct zl_sweep *w;
    struct zl_samples samples;
    struct zl_map map[ZL_STAGES_MAX];
    uint32_t stage_of[ZL_STAGES_MAX], n;
    struct zl_block forward; /* of the layers under way */
    struct zl_map_work *work;
    float *saved; /* [tokens][d] a map's input */
};

/* Set `set` of sample i: the inputs of map 0, 1, …, then the running states. */
static uint64_t record_of(const struct fit *f, uint32_t set, size_t i)
{
    return set * f->samples.n + i;
}

static size_t sample_bytes(const struct fit *f, size_t i)
{
    return (size_t)f->samples.sample[i].tok.t * f->w->s->corpus.model.config.d * sizeof(float);
}

static int put(struct fit *f, uint32_t set, size_t i, const float *rows, struct zl_error *err)
{
    void *to = zl_spill_make(f->w->hidden, err);
    if (!to)
        return ZL_ESYSTEM;
    memcpy(to, rows, sample_bytes(f, i));
    return zl_spill_put(f->w->hidden, record_of(f, set, i), err);
}

/* All samples through layers first .. first + n - 1. */
static int pass(struct fit *f, uint32_t first, uint32_t n, struct zl_error *err)
{
    struct zl_sweep *w = f->w;
    const struct zl_model *m = &w->s->corpus.model;
    const struct zl_block_spec spec = {.first = first, .n_own = n, .tokens = w->s->order.largest_micro_tokens,
                                       .longest = w->s->corpus.train.report.longest, .lent = &w->activations};
    int rc = zl_block_open(&f->forward, m, &spec, w->threads, err);
    zl_model_layer_advise(m, first, n, ZL_ADVICE_SOON);
    for (size_t i = 0; !rc && i < f->samples.n; i++) {
        const struct zl_sample *sample = &f->samples.sample[i];
        const float *x = w->x;
        if (first == 0)
            zl_sweep_embed(w, sample->ids, sample->tok.t, w->x);
        else if (!(x = zl_spill_get(w->hidden, record_of(f, f->n, i), err)))
            rc = ZL_ESYSTEM;
        if (!rc && first && i + 1 < f->samples.n)
            zl_spill_fetch(w->hidden, record_of(f, f->n, i + 1));
        const float *y = rc ? NULL : zl_block_forward(&f->forward, 0, &sample->tok, x);
        for (uint32_t k = 0; !rc && k < f->n; k++)
            if (f->map[k].landing == first + n)
                rc = put(f, k, i, y, err);
        if (!rc)
            rc = put(f, f->n, i, y, err);
        if (!rc)
            rc = zl_hooks_check(w->o->hooks, err);
    }
    zl_block_close(&f->forward);
    zl_model_layer_advise(m, first, n, ZL_ADVICE_DONE);
    if (first == 0)
        zl_tensors_advise(m->embed.data, m->embed.bytes, ZL_ADVICE_DONE);
    return rc;
}

static int solve(struct fit *f, uint32_t k, struct zl_error *err)
{
    struct zl_sweep *w = f->w;
    const int64_t d = w->s->corpus.model.config.d;
    struct zl_map_sums *sums = NULL;
    int rc = zl_map_sums_open(&sums, d, err);
    for (size_t i = 0; !rc && i < f->samples.n; i++) {
        const float *x = zl_spill_get(w->hidden, record_of(f, k, i), err), *y = NULL;
        if (x) {
            memcpy(f->saved, x, sample_bytes(f, i));
            y = zl_spill_get(w->hidden, record_of(f, f->n, i), err);
        }
        if (y)
            zl_map_sums_add(sums, f->work, &f->samples.sample[i].tok, f->saved, y);
        rc = !y ? ZL_ESYSTEM : zl_hooks_check(w->o->hooks, err);
    }
    if (!rc)
        rc = zl_map_sums_solve(sums, d, &f->map[k], err);
    zl_map_sums_close(sums);
    if (!rc) {
        float *to = (float *)(void *)w->map.base;
        memcpy(to, f->map[k].a, (size_t)(d * d) * sizeof(float));
        memcpy(to + d * d, f->map[k].b, (size_t)d * sizeof(float));
        rc = zl_spill_save(w->states, zl_sweep_map_record(f->stage_of[k]), to, err);
    }
    zl_map_free(&f->map[k]);
    return rc;
}

/* The team of the products is that of a block that is open: its scratch lies in the lent activations. */
static int solve_all(struct fit *f, struct zl_error *err)
{
    struct zl_sweep *w = f->w;
    const struct zl_model *m = &w->s->corpus.model;
    const int64_t tokens = w->s->order.largest_micro_tokens;
    const struct zl_block_spec spec = {.first = 0, .n_own = 1, .tokens = tokens, .longest = w->s->corpus.train.report.longest,
                                       .lent = &w->activations};
    int rc = zl_block_open(&f->forward, m, &spec, w->threads, err);
    f->saved = malloc((size_t)tokens * m->config.d * sizeof(float));
    if (!rc && !f->saved)
        rc = zl_fail(err, ZL_EMEMORY, "out of memory while fitting the readouts");
    if (!rc)
        rc = zl_map_work_open(&f->work, &f->forward.team, m->config.d, tokens, err);
    for (uint32_t k = 0; !rc && k < f->n; k++)
        rc = solve(f, k, err);
    zl_map_work_close(f->work);
    zl_block_close(&f->forward);
    free(f->saved);
    return rc;
}

int zl_sweep_fit(struct zl_sweep *w, struct zl_error *err)
{
    const struct zl_setup *s = w->s;
    const uint32_t layers = s->corpus.model.config.layers;
    struct fit f = {.w = w};
    for (uint32_t k = 0; k < s->partition.n; k++) {
        const struct zl_cut *c = &s->partition.cut[k];
        if (!c->map)
            continue;
        f.map[f.n] = (struct zl_map){.landing = c->first + c->n_own + c->n_shadow};
        f.stage_of[f.n++] = k;
    }
    if (f.n == 0)
        return 0;
    int rc = zl_samples_make(&s->corpus, &s->order, 0, &f.samples, err);
    if (rc)
        return rc;
    w->s->readouts.tokens = f.samples.tokens;
    if (f.samples.tokens > 4096)
        zl_note("fitting %u readout%s on %llu tokens", f.n, f.n == 1 ? "" : "s", (unsigned long long)f.samples.tokens);
    for (uint32_t set = 0; set <= f.n; set++)
        for (size_t i = 0; i < f.samples.n; i++)
            w->bytes[record_of(&f, set, i)] = sample_bytes(&f, i);
    zl_spill_layout(w->hidden, w->bytes, (f.n + 1) * f.samples.n);
    for (uint32_t first = 0; !rc && first < layers;) {
        uint32_t end = layers - first < s->sweep.layers ? layers : first + s->sweep.layers;
        for (uint32_t k = f.n; k-- > 0;)
            if (f.map[k].landing > first && f.map[k].landing < end)
                end = f.map[k].landing;
        rc = pass(&f, first, end - first, err);
        first = end;
    }
    if (!rc)
        rc = zl_spill_flush(w->hidden, err);
    if (!rc)
        rc = solve_all(&f, err);
    zl_samples_free(&f.samples);
    return rc;
}
