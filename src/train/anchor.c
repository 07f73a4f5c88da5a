/* Anchors of readouts: see anchor.h. Record i is training example i: for each anchored stage the rows of its labelled positions. */
#include "train/anchor.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "kernel/gemm.h"
#include "model/base_pass.h"
#include "store/spill.h"
#include "train/hidden.h"

struct zl_anchor {
    const struct zl_setup *s;
    const struct zl_train_options *o;
    struct zl_spill *spill;
};

uint32_t zl_anchor_stages(const struct zl_setup *s, const struct zl_train_options *o)
{
    uint32_t n = 0;
    for (uint32_t k = 0; o->anchor && k < s->partition.n; k++)
        n += zl_pipeline_anchored(&s->partition, k, &zl_schedules[o->schedule]);
    return n;
}

static uint64_t labelled(const struct zl_setup *s, uint64_t example)
{
    const struct zl_dataset *d = &s->corpus.train;
    const struct zl_example *e = &d->examples[example];
    uint64_t n = 0;
    for (uint32_t j = 1; j < e->n; j++)
        n += d->trained[e->first + j] != 0;
    return n;
}

/* Positions of the order that are examples for the first time; behind them it repeats itself. */
static uint64_t n_first(const struct zl_setup *s)
{
    const struct zl_micro_batch *last = &s->order.micro[s->order.n_micro - 1];
    const uint64_t n = last->first + last->n;
    return n < s->order.n_examples ? n : s->order.n_examples;
}

static uint64_t record_bytes(const struct zl_setup *s, const struct zl_train_options *o, uint64_t example)
{
    return labelled(s, example) * s->n_anchored * s->corpus.model.config.d * zl_hidden_size(o->spill_type);
}

uint64_t zl_anchor_file_bytes(const struct zl_setup *s, const struct zl_train_options *o)
{
    uint64_t sum = 0;
    for (uint64_t p = 0; s->n_anchored && p < n_first(s); p++)
        sum += zl_spill_room(record_bytes(s, o, zl_data_order_example(&s->order, p)));
    return sum;
}

static struct zl_spill_request request(const struct zl_setup *s)
{
    const uint64_t longest = s->corpus.train.report.longest;
    return (struct zl_spill_request){.what = "anchors of readouts",
                                     .largest = longest * s->n_anchored * s->corpus.model.config.d * sizeof(float),
                                     .records = s->corpus.train.n_examples};
}

uint64_t zl_anchor_memory(const struct zl_setup *s)
{
    const struct zl_spill_request r = request(s);
    return s->n_anchored ? zl_spill_memory(&r) : 0;
}

/* ---- the pass before the first step ---- */

struct pass {
    struct zl_anchor *a;
    struct zl_base_pass base;
    uint32_t stage[ZL_STAGES_MAX];
    struct zl_packet *packet;
    struct zl_packet_layout layout;
    float *row[2]; /* [tokens][d] labelled rows of x, and what the map makes of them */
    float *c;      /* [n_anchored][tokens][d] of the micro-batch's labelled rows */
};

/* c of one stage for all labelled rows of the micro-batch; returns how many. */
static int64_t anchor(struct pass *p, uint32_t i, const struct zl_tokens *tok, const int32_t *labels, const float *y)
{
    const struct zl_setup *s = p->a->s;
    const int64_t d = s->corpus.model.config.d;
    const size_t row = (size_t)d * sizeof(float);
    float *c = p->c + (size_t)i * (size_t)s->pipeline.tokens * (size_t)d;
    int64_t n = 0;
    for (int64_t t = 0; t < tok->t; t++)
        if (labels[t] >= 0) {
            memcpy(p->row[0] + n * d, p->base.saved[i] + t * d, row);
            memcpy(c + n++ * d, y + t * d, row);
        }
    const float *mapped = p->row[0];
    if (s->readouts.a[p->stage[i]] && n) {
        struct zl_gemm g = {.m = n, .n = d, .n_terms = 1, .c = p->row[1], .ldc = d, .bias = s->readouts.b[p->stage[i]]};
        g.term[0] = (struct zl_gemm_term){.a = p->row[0], .lda = d, .b = s->readouts.a[p->stage[i]], .b_type = ZL_F32,
                                          .b_layout = ZL_B_NK, .ldb = d, .k = d, .alpha = 1};
        zl_gemm(&p->base.block.team, &g);
        mapped = p->row[1];
    }
    for (int64_t j = 0; j < n * d; j++)
        c[j] -= mapped[j];
    return n;
}

/* The examples of the micro-batch into their records. */
static int put(struct pass *p, uint64_t micro, struct zl_error *err)
{
    struct zl_anchor *a = p->a;
    const struct zl_setup *s = a->s;
    const struct zl_micro_batch *m = &s->order.micro[micro];
    const uint64_t d = s->corpus.model.config.d, stage = (uint64_t)s->pipeline.tokens * d, size = zl_hidden_size(a->o->spill_type);
    int rc = 0;
    for (uint64_t at = m->first, row = 0; !rc && at < m->first + m->n && at < s->order.n_examples; at++) {
        const uint64_t example = zl_data_order_example(&s->order, at), n = labelled(s, example);
        unsigned char *to = n ? zl_spill_make(a->spill, err) : NULL;
        if (n && !to)
            return ZL_ESYSTEM;
        for (uint32_t i = 0; i < s->n_anchored && n; i++)
            zl_hidden_store(a->o->spill_type, to + i * n * d * size, p->c + i * stage + row * d, n * d);
        rc = n ? zl_spill_put(a->spill, example, err) : 0;
        row += n;
    }
    return rc;
}

static int run(struct pass *p, struct zl_error *err)
{
    const struct zl_setup *s = p->a->s;
    int rc = 0;
    for (uint64_t i = 0; !rc && i < s->order.n_micro && s->order.micro[i].first < s->order.n_examples; i++) {
        *p->packet = (struct zl_packet){0};
        zl_corpus_fill(&s->corpus.train, &s->order, i, &p->layout, p->packet);
        const struct zl_tokens tok = {.t = p->packet->n_tokens, .positions = zl_packet_at(p->packet, p->layout.positions),
                                      .n_seqs = (int)p->packet->n_seqs, .seqs = zl_packet_at(p->packet, p->layout.seqs)};
        const float *y = zl_base_pass_run(&p->base, zl_packet_at(p->packet, p->layout.ids), &tok);
        for (uint32_t k = 0; k < s->n_anchored; k++)
            anchor(p, k, &tok, zl_packet_at(p->packet, p->layout.labels), y);
        rc = put(p, i, err);
        if (!rc)
            rc = zl_hooks_check(p->a->o->hooks, err);
    }
    return rc ? rc : zl_spill_flush(p->a->spill, err);
}

static int run_all(struct zl_anchor *a, struct zl_error *err)
{
    const struct zl_setup *s = a->s;
    const int64_t tokens = s->pipeline.tokens;
    const size_t rows = ((size_t)tokens * s->corpus.model.config.d * sizeof(float) + 63) / 64 * 64;
    struct pass p = {.a = a, .layout = zl_packet_layout((uint64_t)tokens, (uint64_t)s->pipeline.seqs, 0)};
    uint32_t landing[ZL_STAGES_MAX], n = 0;
    for (uint32_t k = 0; k < s->partition.n; k++)
        if (zl_pipeline_anchored(&s->partition, k, s->pipeline.schedule)) {
            const struct zl_cut *c = &s->partition.cut[k];
            landing[n] = c->first + c->n_own + c->n_shadow;
            p.stage[n++] = k;
        }
    p.packet = aligned_alloc(64, (p.layout.bytes + 63) / 64 * 64);
    p.c = aligned_alloc(64, rows * n);
    for (int i = 0; i < 2; i++)
        p.row[i] = aligned_alloc(64, rows);
    int rc = p.packet && p.c && p.row[0] && p.row[1] ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc)
        rc = zl_base_pass_open(&p.base, &s->corpus.model, s->threads, s->pipeline.compute, tokens, s->pipeline.longest, landing, n, err);
    if (!rc)
        rc = run(&p, err);
    zl_base_pass_close(&p.base);
    free(p.packet);
    free(p.c);
    free(p.row[0]);
    free(p.row[1]);
    return rc;
}

static int lay_out(struct zl_anchor *a, const char *dir, struct zl_error *err)
{
    const struct zl_setup *s = a->s;
    struct zl_spill_request r = request(s);
    r.dir = dir;
    r.bytes = zl_anchor_file_bytes(s, a->o);
    if (a->o->spill_limit && r.bytes > a->o->spill_limit)
        return zl_fail(err, ZL_EUSAGE, "--spill-limit of %.1f MiB is too little for --anchor on: the anchors take %.1f MiB",
                       (double)a->o->spill_limit / 1048576, (double)r.bytes / 1048576);
    uint64_t *bytes = calloc((size_t)r.records + 1, sizeof *bytes);
    if (!bytes)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    for (uint64_t p = 0; p < n_first(s); p++) {
        const uint64_t example = zl_data_order_example(&s->order, p);
        bytes[example] = record_bytes(s, a->o, example);
    }
    int rc = zl_spill_open(&a->spill, &r, err);
    if (!rc)
        zl_spill_layout(a->spill, bytes, r.records);
    free(bytes);
    return rc;
}

int zl_anchor_open(struct zl_anchor **out, const struct zl_setup *s, const struct zl_train_options *o, const char *spill_dir,
                   double *seconds, struct zl_error *err)
{
    const double start = zl_clock_seconds();
    struct zl_anchor *a = *out = calloc(1, sizeof *a);
    if (!a)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    *a = (struct zl_anchor){.s = s, .o = o};
    int rc = lay_out(a, spill_dir, err);
    if (!rc)
        rc = run_all(a, err);
    const double took = zl_clock_seconds() - start;
    *seconds += took;
    if (!rc)
        zl_note("the base model went over %llu examples in %.1f s to anchor %u readout%s", (unsigned long long)n_first(s), took,
                s->n_anchored, s->n_anchored == 1 ? "" : "s");
    if (rc) {
        zl_anchor_close(a);
        *out = NULL;
    }
    return rc;
}

void zl_anchor_close(struct zl_anchor *a)
{
    if (!a)
        return;
    zl_spill_close(a->spill);
    free(a);
}

/* ---- while training ---- */

int zl_anchor_gather(struct zl_anchor *a, uint64_t micro, struct zl_packet *p, const struct zl_packet_layout *l, struct zl_error *err)
{
    const struct zl_setup *s = a->s;
    const struct zl_micro_batch *m = &s->order.micro[micro];
    const uint64_t d = s->corpus.model.config.d, size = zl_hidden_size(a->o->spill_type);
    uint64_t row = 0;
    for (uint64_t at = m->first; at < m->first + m->n; at++) {
        const uint64_t example = zl_data_order_example(&s->order, at), n = labelled(s, example);
        if (!n)
            continue;
        const unsigned char *record = zl_spill_get(a->spill, example, err);
        if (!record)
            return ZL_ESYSTEM;
        const uint64_t next = at + 1 < m->first + m->n ? zl_data_order_example(&s->order, at + 1) : example;
        if (next != example && labelled(s, next))
            zl_spill_fetch(a->spill, next);
        for (uint32_t i = 0; i < l->n_anchors; i++) {
            float *to = zl_packet_at(p, l->anchors + i * l->anchor_bytes);
            zl_hidden_load(a->o->spill_type, record + i * n * d * size, to + row * d, n * d);
        }
        row += n;
    }
    return 0;
}
