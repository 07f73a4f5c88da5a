/* Hidden states behind frozen stages: see frozen.h. Record i is example i of the training data, then those that are held out. */
#include "train/frozen.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/spill.h"
#include "train/hidden.h"

struct zl_frozen {
    const struct zl_setup *s;
    const struct zl_train_options *o;
    struct zl_spill *spill;
};

static uint64_t n_records(const struct zl_setup *s)
{
    return s->corpus.train.n_examples + s->corpus.held_out.n_examples;
}

static uint64_t tokens_of(const struct zl_setup *s, uint64_t record)
{
    const uint64_t n = s->corpus.train.n_examples;
    return record < n ? s->corpus.train.examples[record].n : s->corpus.held_out.examples[record - n].n;
}

static uint64_t record_bytes(const struct zl_setup *s, const struct zl_train_options *o, uint64_t record)
{
    return tokens_of(s, record) * s->corpus.model.config.d * zl_hidden_size(o->spill_type);
}

static uint64_t largest_bytes(const struct zl_setup *s)
{
    const uint64_t a = s->corpus.train.report.longest, b = s->corpus.held_out.report.longest;
    return (a > b ? a : b) * s->corpus.model.config.d * sizeof(float);
}

uint32_t zl_frozen_stages(const struct zl_setup *s, const struct zl_train_options *o)
{
    uint32_t n = 0;
    while (o->cache_frozen && n + 1 < s->partition.n && s->partition.cut[n].frozen)
        n++;
    const struct zl_micro_batch *last = s->order.n_micro ? &s->order.micro[s->order.n_micro - 1] : NULL; /* NULL: not planned yet */
    const bool once = last && last->first + last->n <= s->order.n_examples;
    return once && !(o->eval_every && s->corpus.held_out.n_examples) ? 0 : n;
}

uint64_t zl_frozen_file_bytes(const struct zl_setup *s, const struct zl_train_options *o)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; s->n_cached && i < n_records(s); i++)
        sum += zl_spill_room(record_bytes(s, o, i));
    return sum;
}

uint64_t zl_frozen_memory(const struct zl_setup *s)
{
    const struct zl_spill_request r = {.largest = largest_bytes(s), .records = n_records(s)};
    return s->n_cached ? zl_spill_memory(&r) : 0;
}

/* ---- the pass before the first step ---- */

struct pass {
    struct zl_frozen *f;
    const struct zl_dataset *data;
    const struct zl_data_order *order; /* of all examples, in their own */
    uint64_t first;                    /* record of its example 0 */
    struct zl_packet *packet;
    struct zl_packet_layout layout;
    float *x;
};

static int gather(struct zl_frozen *f, const struct zl_data_order *order, uint64_t micro, uint64_t first, float *x, struct zl_error *err)
{
    const struct zl_micro_batch *m = &order->micro[micro];
    const uint64_t d = f->s->corpus.model.config.d;
    for (uint64_t p = m->first; p < m->first + m->n; p++) {
        const uint64_t record = first + zl_data_order_example(order, p), n = tokens_of(f->s, record) * d;
        const void *spilled = zl_spill_get(f->spill, record, err);
        if (!spilled)
            return ZL_ESYSTEM;
        if (p + 1 < m->first + m->n)
            zl_spill_fetch(f->spill, first + zl_data_order_example(order, p + 1));
        zl_hidden_load(f->o->spill_type, spilled, x, n);
        x += n;
    }
    return 0;
}

static int scatter(struct pass *p, uint64_t micro, const float *y, struct zl_error *err)
{
    struct zl_frozen *f = p->f;
    const struct zl_micro_batch *m = &p->order->micro[micro];
    const uint64_t d = f->s->corpus.model.config.d;
    int rc = 0;
    for (uint64_t at = m->first; !rc && at < m->first + m->n; at++) {
        const uint64_t record = p->first + zl_data_order_example(p->order, at), n = tokens_of(f->s, record) * d;
        void *to = zl_spill_make(f->spill, err);
        if (!to)
            return ZL_ESYSTEM;
        zl_hidden_store(f->o->spill_type, to, y, n);
        rc = zl_spill_put(f->spill, record, err);
        y += n;
    }
    return rc;
}

/* All micro-batches of one data set through one stage. */
static int run(struct pass *p, struct zl_block *b, uint32_t k, struct zl_error *err)
{
    const struct zl_model *m = b->model;
    int rc = 0;
    for (uint64_t i = 0; !rc && i < p->order->n_micro; i++) {
        *p->packet = (struct zl_packet){0};
        zl_corpus_fill(p->data, p->order, i, &p->layout, p->packet);
        const struct zl_tokens tok = {.t = p->packet->n_tokens, .positions = zl_packet_at(p->packet, p->layout.positions),
                                      .n_seqs = (int)p->packet->n_seqs, .seqs = zl_packet_at(p->packet, p->layout.seqs)};
        if (k == 0)
            zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, zl_packet_at(p->packet, p->layout.ids), tok.t, p->x);
        else
            rc = gather(p->f, p->order, i, p->first, p->x, err);
        if (!rc)
            rc = scatter(p, i, zl_block_forward(b, 0, &tok, p->x), err);
        if (!rc)
            rc = zl_hooks_check(p->f->o->hooks, err);
    }
    return rc;
}

static int run_stage(struct pass passes[2], uint32_t k, struct zl_error *err)
{
    const struct zl_setup *s = passes[0].f->s;
    const struct zl_block_spec spec = zl_pipeline_block(&s->partition, k, &s->pipeline);
    struct zl_block block;
    zl_model_layer_advise(&s->corpus.model, spec.first, spec.n_own, ZL_ADVICE_SOON);
    int rc = zl_block_open(&block, &s->corpus.model, &spec, s->threads, err);
    if (rc)
        return rc;
    for (int i = 0; !rc && i < 2; i++)
        rc = run(&passes[i], &block, k, err);
    zl_block_close(&block);
    zl_model_layer_advise(&s->corpus.model, spec.first, spec.n_own, ZL_ADVICE_DONE);
    return rc;
}

static int run_all(struct zl_frozen *f, struct zl_error *err)
{
    const struct zl_setup *s = f->s;
    const struct zl_schedule_options all = {
        .batch_tokens = UINT64_C(1) << 40, .micro_batch_tokens = (uint64_t)s->pipeline.keep_tokens, .epochs = 1};
    struct zl_data_order order = {0};
    int rc = zl_data_order_plan(&s->corpus.train, &all, &order, err);
    const uint64_t examples = order.largest_micro_examples > s->eval_order.largest_micro_examples ? order.largest_micro_examples
                                                                                                  : s->eval_order.largest_micro_examples;
    const uint64_t tokens = (uint64_t)s->pipeline.tokens > order.largest_micro_tokens ? (uint64_t)s->pipeline.tokens : order.largest_micro_tokens;
    const struct zl_packet_layout layout = zl_packet_layout(tokens, examples, 0);
    struct zl_packet *packet = aligned_alloc(64, (layout.bytes + 63) / 64 * 64);
    float *x = aligned_alloc(64, (tokens * s->corpus.model.config.d * sizeof(float) + 63) / 64 * 64);
    if (!rc && (!packet || !x))
        rc = zl_fail(err, ZL_EMEMORY, "out of memory");
    struct pass passes[2] = {
        {.f = f, .data = &s->corpus.train, .order = &order, .packet = packet, .layout = layout, .x = x},
        {.f = f, .data = &s->corpus.held_out, .order = &s->eval_order, .first = s->corpus.train.n_examples, .packet = packet,
         .layout = layout, .x = x}};
    for (uint32_t k = 0; !rc && k < s->n_cached; k++)
        rc = run_stage(passes, k, err);
    zl_tensors_advise(s->corpus.model.embed.data, s->corpus.model.embed.bytes, ZL_ADVICE_DONE);
    zl_data_order_free(&order);
    free(packet);
    free(x);
    return rc ? rc : zl_spill_flush(f->spill, err);
}

static int lay_out(struct zl_frozen *f, const char *dir, struct zl_error *err)
{
    const struct zl_setup *s = f->s;
    const struct zl_spill_request r = {.what = "hidden states behind frozen stages", .dir = dir, .bytes = zl_frozen_file_bytes(s, f->o),
                                       .largest = largest_bytes(s), .records = n_records(s)};
    if (f->o->spill_limit && r.bytes > f->o->spill_limit)
        return zl_fail(err, ZL_EUSAGE, "--spill-limit of %.1f MiB is too little for --cache-frozen: the hidden states behind the frozen "
                       "stages take %.1f MiB", (double)f->o->spill_limit / 1048576, (double)r.bytes / 1048576);
    uint64_t *bytes = malloc((size_t)(r.records + 1) * sizeof *bytes);
    if (!bytes)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    for (uint64_t i = 0; i < r.records; i++)
        bytes[i] = record_bytes(s, f->o, i);
    int rc = zl_spill_open(&f->spill, &r, err);
    if (!rc)
        zl_spill_layout(f->spill, bytes, r.records);
    free(bytes);
    return rc;
}

int zl_frozen_open(struct zl_frozen **out, const struct zl_setup *s, const struct zl_train_options *o, const char *spill_dir,
                   double *seconds, struct zl_error *err)
{
    const double start = zl_clock_seconds();
    struct zl_frozen *f = *out = calloc(1, sizeof *f);
    if (!f)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    *f = (struct zl_frozen){.s = s, .o = o};
    int rc = lay_out(f, spill_dir, err);
    if (!rc)
        rc = run_all(f, err);
    *seconds = zl_clock_seconds() - start;
    if (!rc)
        zl_note("%llu examples went through %u frozen stage%s in %.1f s", (unsigned long long)n_records(s), s->n_cached,
                s->n_cached == 1 ? "" : "s", *seconds);
    if (rc) {
        zl_frozen_close(f);
        *out = NULL;
    }
    return rc;
}

void zl_frozen_close(struct zl_frozen *f)
{
    if (!f)
        return;
    zl_spill_close(f->spill);
    free(f);
}

int zl_frozen_gather(struct zl_frozen *f, bool held_out, uint64_t micro, float *hidden, struct zl_error *err)
{
    const struct zl_setup *s = f->s;
    return held_out ? gather(f, &s->eval_order, micro, s->corpus.train.n_examples, hidden, err)
                    : gather(f, &s->order, micro, 0, hidden, err);
}
