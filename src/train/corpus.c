/* Reading what a run needs, and cutting micro-batches from it: see corpus.h. */
#include "train/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/dequant.h"
#include "train/adapter.h"
#include "train/loaded.h"

/* Ids beyond the embedding would read past it: refused here, once. Rows of zeros among the used ones get a warning. */
static int check_ids(const struct zl_corpus *c, const struct zl_dataset *d, struct zl_error *err)
{
    const struct zl_model *m = &c->model;
    const uint32_t vocab = m->config.vocab;
    bool *seen = calloc(vocab, sizeof *seen);
    float *row = malloc(m->config.d * sizeof *row);
    int rc = seen && row ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    for (uint64_t i = 0; !rc && i < d->n_tokens; i++) {
        if (d->tokens[i] < 0 || (uint32_t)d->tokens[i] >= vocab)
            rc = zl_fail(err, ZL_EINPUT, "%s: the tokenizer gave the id %d, but the embedding has %u rows", m->path,
                         d->tokens[i], vocab);
        else
            seen[d->tokens[i]] = true;
    }
    for (uint32_t id = 0; !rc && id < vocab; id++) {
        if (!seen[id])
            continue;
        const int32_t one = (int32_t)id;
        bool zero = true;
        zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, &one, 1, row);
        for (uint32_t j = 0; zero && j < m->config.d; j++)
            zero = row[j] == 0;
        size_t len = 0;
        const char *name = zl_tokenizer_token(c->tokenizer, one, &len);
        if (zero)
            zl_warn("the data uses the token %d \"%.*s\", whose embedding is all zeros: this model never learned it", one,
                    (int)len, name ? name : "");
    }
    free(seen);
    free(row);
    return rc;
}

static int open_model(struct zl_corpus *c, const struct zl_corpus_request *r, struct zl_error *err)
{
    const uint64_t positions = r->positions > r->max_length ? r->positions : r->max_length;
    if (!r->loaded) {
        int rc = zl_model_open(r->model, positions, &c->model, err);
        if (!rc && r->adapter)
            rc = zl_adapter_load(r->adapter, &c->model, r->into, err);
        return rc ? rc : zl_model_tokenizer(&c->model, &c->tokenizer, err);
    }
    c->model = r->loaded->model;
    c->tokenizer = r->loaded->tokenizer;
    c->lent = true;
    if (positions > c->model.positions)
        return zl_fail(err, ZL_EUSAGE, "%s was opened for %llu positions, but sequences of %llu are asked for", c->model.path,
                       (unsigned long long)c->model.positions, (unsigned long long)positions);
    return 0;
}

int zl_corpus_open(struct zl_corpus *c, const struct zl_corpus_request *r, struct zl_error *err)
{
    *c = (struct zl_corpus){0};
    const struct zl_data_options o = {.max_length = (uint32_t)r->max_length, .add_bos_eos = true};
    int rc = open_model(c, r, err);
    if (!rc)
        rc = zl_dataset_load(r->data, r->n_data, c->tokenizer, &o, &c->train, err);
    if (!rc && !r->quiet)
        zl_data_report_print(&c->train.report, r->data[0], stderr);
    if (!rc && r->held_out_file)
        rc = zl_dataset_load(&r->held_out_file, 1, c->tokenizer, &o, &c->held_out, err);
    else if (!rc && r->held_out_share > 0)
        rc = zl_dataset_split(&c->train, r->held_out_share, r->seed, &c->held_out, err);
    if (!rc && r->held_out_file && !r->quiet)
        zl_data_report_print(&c->held_out.report, r->held_out_file, stderr);
    if (!rc && c->train.report.longest > c->model.config.max_positions)
        zl_warn("the longest example has %u tokens, beyond the %u positions that the model was made for", c->train.report.longest,
                c->model.config.max_positions);
    if (!rc)
        rc = check_ids(c, &c->train, err);
    if (!rc)
        rc = check_ids(c, &c->held_out, err);
    if (rc)
        zl_corpus_close(c);
    return rc;
}

void zl_corpus_close(struct zl_corpus *c)
{
    zl_dataset_free(&c->train);
    zl_dataset_free(&c->held_out);
    if (!c->lent) {
        zl_tokenizer_close(c->tokenizer);
        zl_model_close(&c->model);
    }
    c->model = (struct zl_model){0};
    c->tokenizer = NULL;
}

void zl_corpus_fill(const struct zl_dataset *d, const struct zl_data_order *o, uint64_t i, const struct zl_packet_layout *l,
                    struct zl_packet *m)
{
    int32_t *ids = zl_packet_at(m, l->ids), *labels = zl_packet_at(m, l->labels);
    int32_t *positions = zl_packet_at(m, l->positions);
    struct zl_attn_seq *seqs = zl_packet_at(m, l->seqs);
    const struct zl_micro_batch *micro = &o->micro[i];
    uint32_t t = 0, n = 0;
    for (uint64_t p = micro->first; p < micro->first + micro->n; p++) {
        const struct zl_example *e = &d->examples[zl_data_order_example(o, p)];
        const int32_t *tokens = d->tokens + e->first;
        const uint8_t *trained = d->trained + e->first;
        seqs[n++] = (struct zl_attn_seq){.q_begin = t, .q_len = e->n, .kv_begin = t, .kv_len = e->n};
        for (uint32_t j = 0; j < e->n; j++, t++) {
            ids[t] = tokens[j];
            positions[t] = (int32_t)j;
            labels[t] = j + 1 < e->n && trained[j + 1] ? tokens[j + 1] : -1;
        }
    }
    m->n_tokens = t;
    m->n_seqs = n;
    m->micro = i;
}

int zl_corpus_vocabulary(const struct zl_dataset *d, uint32_t vocab, int32_t **ids, int64_t *n, int32_t **index,
                         struct zl_error *err)
{
    *ids = malloc(vocab * sizeof **ids);
    *index = malloc(vocab * sizeof **index);
    if (!*ids || !*index)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    for (uint32_t i = 0; i < vocab; i++)
        (*index)[i] = -1;
    for (uint64_t i = 0; i < d->n_tokens; i++)
        (*index)[d->tokens[i]] = 0;
    *n = 0;
    for (uint32_t i = 0; i < vocab; i++)
        if ((*index)[i] == 0) {
            (*index)[i] = (int32_t)*n;
            (*ids)[(*n)++] = (int32_t)i;
        }
    return 0;
}
