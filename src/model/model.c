/*
 * Opening a base model: shape, tensors by role, vectors as float32, rotary angles. See model.h. Prefixes that exporters put before or
 * leave off the names ("model.", "base_model.model.") go through one table.
 */
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format/grow.h"
#include "kernel/dequant.h"

struct loader {
    struct zl_model *m;
    bool gguf;
    bool *used; /* by index in the tensor table */
    const char *add, *strip; /* what turns the table's Hugging Face names into the file's */
    struct zl_error *err;
};

static uint32_t dim(const struct zl_config *c, enum zl_dim d)
{
    switch (d) {
    case ZL_DIM_D:
        return c->d;
    case ZL_DIM_FFN:
        return c->ffn;
    case ZL_DIM_Q:
        return c->heads * c->head_dim;
    case ZL_DIM_KV:
        return c->kv_heads * c->head_dim;
    case ZL_DIM_NONE:
        break;
    }
    return 1;
}

uint32_t zl_linear_out(const struct zl_config *c, enum zl_role role)
{
    return dim(c, c->arch->roles[role].out);
}

uint32_t zl_linear_in(const struct zl_config *c, enum zl_role role)
{
    return dim(c, c->arch->roles[role].in);
}

uint32_t zl_linear_row(const struct zl_config *c, enum zl_role role, uint32_t hf_row)
{
    if (!c->rope_interleaved || (role != ZL_W_Q && role != ZL_W_K))
        return hf_row;
    uint32_t head = hf_row / c->head_dim, j = hf_row % c->head_dim, half = c->head_dim / 2;
    return head * c->head_dim + (j < half ? 2 * j : 2 * (j - half) + 1);
}

uint64_t zl_model_layer_bytes(const struct zl_model *m, uint32_t first, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t i = first; i < first + n; i++)
        for (int role = 0; role < ZL_LINEARS; role++)
            bytes += m->layer[i].linear[role].bytes;
    return bytes;
}

void zl_model_layer_advise(const struct zl_model *m, uint32_t first, uint32_t n, enum zl_advice advice)
{
    for (uint32_t i = first; i < first + n; i++)
        for (int role = 0; role < ZL_LINEARS; role++)
            zl_tensors_advise(m->layer[i].linear[role].data, m->layer[i].linear[role].bytes, advice);
}

static const struct zl_named_tensor *find(struct loader *l, const char *name)
{
    char full[256];
    if (!l->gguf) {
        size_t skip = strlen(l->strip);
        if (skip && strncmp(name, l->strip, skip) == 0)
            name += skip;
        snprintf(full, sizeof full, "%s%s", l->add, name);
        name = full;
    }
    const struct zl_named_tensor *t = zl_tensors_find(l->m->tensors, name);
    if (t)
        for (size_t i = 0; i < zl_tensors_count(l->m->tensors); i++)
            if (zl_tensors_at(l->m->tensors, i) == t)
                l->used[i] = true;
    return t;
}

/* A tensor [out][in] (or a vector [out] when in is 0). 1: optional and absent. */
static int take(struct loader *l, const char *name, uint64_t out, uint64_t in, bool optional, struct zl_tensor *t)
{
    const struct zl_named_tensor *n = find(l, name);
    if (!n && optional)
        return 1;
    if (!n)
        return zl_fail(l->err, ZL_EINPUT, "%s: the tensor %s%s is missing", l->m->path, l->add, name);
    if (n->t.type == ZL_OTHER)
        return zl_fail(l->err, ZL_EINPUT, "%s: the tensor %s has type %s, which is not supported", n->file, n->name,
                       n->type_name);
    bool fits = in ? n->t.n_dims == 2 && n->t.shape[0] == out && n->t.shape[1] == in
                   : n->t.n_dims == 1 && n->t.shape[0] == out;
    if (!fits) {
        char found[96] = "", want[64];
        for (int i = 0, at = 0; i < n->t.n_dims && at < 80; i++)
            at += snprintf(found + at, sizeof found - (size_t)at, "[%llu]", (unsigned long long)n->t.shape[i]);
        if (in)
            snprintf(want, sizeof want, "[%llu][%llu]", (unsigned long long)out, (unsigned long long)in);
        else
            snprintf(want, sizeof want, "[%llu]", (unsigned long long)out);
        return zl_fail(l->err, ZL_EINPUT, "%s: the tensor %s has shape %s, expected %s", n->file, n->name, found, want);
    }
    *t = n->t;
    l->m->weight_bytes += n->t.bytes;
    return 0;
}

static int take_vector(struct loader *l, const char *name, uint64_t n, bool optional, const float **out)
{
    struct zl_tensor t;
    *out = NULL;
    int rc = take(l, name, n, 0, optional, &t);
    if (rc)
        return rc < 0 ? rc : 0;
    float *v = zl_arena_take(&l->m->vectors, n * sizeof(float));
    if (v)
        zl_dequant(t.type, t.data, v, (int64_t)n);
    *out = v;
    return 0;
}

static int take_layer(struct loader *l, uint32_t index)
{
    const struct zl_config *c = &l->m->config;
    struct zl_layer_weights *w = &l->m->layer[index];
    const float *vectors[ZL_ROLES] = {0};
    for (int role = 0; role < ZL_ROLES; role++) {
        const struct zl_role_info *info = &c->arch->roles[role];
        const char *pattern = l->gguf ? info->gguf : info->hf;
        char name[160];
        int rc;
        bool optional = info->optional;
        if (!pattern)
            continue;
        if (optional && !l->gguf) { /* config.json says whether they are used, whatever the file holds */
            if (!c->attention_bias)
                continue;
            optional = false;
        }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name, sizeof name, pattern, index);
#pragma GCC diagnostic pop
        if (role < ZL_LINEARS)
            rc = take(l, name, dim(c, info->out), dim(c, info->in), optional, &w->linear[role]);
        else
            rc = take_vector(l, name, dim(c, info->out), optional, &vectors[role]);
        if (rc < 0)
            return rc;
    }
    w->norm_attn = vectors[ZL_W_NORM_ATTN];
    w->norm_mlp = vectors[ZL_W_NORM_MLP];
    w->bias_q = vectors[ZL_B_Q];
    w->bias_k = vectors[ZL_B_K];
    w->bias_v = vectors[ZL_B_V];
    w->bias_o = vectors[ZL_B_O];
    if (c->rope_interleaved && (w->bias_q || w->bias_k))
        return zl_fail(l->err, ZL_EINPUT, "%s: biases on permuted q and k are not supported", l->m->path);
    return 0;
}

/* Names in checkpoints of fine-tuners and of bare backbones differ by a prefix: find which one this file uses. */
static void choose_prefix(struct loader *l)
{
    static const struct {
        const char *add, *strip;
    } prefixes[] = {
        {"", ""},
        {"", "model."},          /* the backbone alone */
        {"model.", ""},          /* a wrapper's member */
        {"base_model.model.", ""}, /* PEFT */
        {"language_model.", ""}, /* the text part of a larger model */
        {"module.", ""},         /* data-parallel training */
        {"_orig_mod.", ""},      /* a compiled module */
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        l->add = prefixes[i].add;
        l->strip = prefixes[i].strip;
        if (find(l, l->m->config.arch->hf_embed))
            return;
    }
    l->add = l->strip = "";
}

static int take_rope(struct loader *l, uint64_t positions)
{
    struct zl_model *m = l->m;
    const struct zl_config *c = &m->config;
    uint32_t half = c->head_dim / 2;
    const float *divisors = NULL;
    if (l->gguf && take_vector(l, c->arch->gguf_rope_freqs, half, true, &divisors) < 0)
        return ZL_EINPUT;
    double inv_freq[128], factor;
    if (zl_rope_frequencies(c, divisors, positions, inv_freq, &factor, l->err))
        return ZL_EINPUT;
    m->positions = positions;
    m->rope = zl_arena_take(&m->vectors, positions * half * 2 * sizeof(float));
    if (!m->rope)
        return zl_fail(l->err, ZL_EMEMORY, "%s: the table of rotary angles does not fit", m->path);
    for (uint64_t p = 0; p < positions; p++)
        for (uint32_t j = 0; j < half; j++) {
            double angle = (double)p * inv_freq[j];
            m->rope[(p * half + j) * 2] = (float)(cos(angle) * factor);
            m->rope[(p * half + j) * 2 + 1] = (float)(sin(angle) * factor);
        }
    return 0;
}

static int list_unused(struct loader *l)
{
    size_t n = zl_tensors_count(l->m->tensors);
    l->m->unused = calloc(n + 1, sizeof *l->m->unused);
    if (!l->m->unused)
        return zl_fail(l->err, ZL_EMEMORY, "out of memory");
    for (size_t i = 0; i < n; i++)
        if (!l->used[i])
            l->m->unused[l->m->n_unused++] = strdup(zl_tensors_at(l->m->tensors, i)->name);
    return 0;
}

static int load(struct loader *l, uint64_t positions)
{
    struct zl_model *m = l->m;
    const struct zl_config *c = &m->config;
    const struct zl_arch *arch = c->arch;
    uint64_t vectors = (uint64_t)(c->layers + 1) * (4 * ((uint64_t)c->d + 64) + 3 * ((uint64_t)zl_linear_out(c, ZL_W_Q) + 64)) *
                           sizeof(float) + (positions + 2) * c->head_dim * sizeof(float) + 65536;
    m->layer = calloc(c->layers, sizeof *m->layer);
    l->used = calloc(zl_tensors_count(m->tensors) + 1, sizeof *l->used);
    if (!m->layer || !l->used)
        return zl_fail(l->err, ZL_EMEMORY, "out of memory");
    if (zl_array_check(positions, c->head_dim * sizeof(float), "positions, whose rotary angles are tabled", l->err) ||
        zl_arena_open(&m->vectors, "norms and rotary angles", vectors, l->err))
        return ZL_EMEMORY;
    l->add = l->strip = "";
    if (!l->gguf)
        choose_prefix(l);
    int rc = take(l, l->gguf ? arch->gguf_embed : arch->hf_embed, c->vocab, c->d, false, &m->embed);
    if (!rc)
        rc = take_vector(l, l->gguf ? arch->gguf_norm : arch->hf_norm, c->d, false, &m->norm);
    if (!rc && c->tied) {
        find(l, l->gguf ? arch->gguf_head : arch->hf_head); /* some files store the tied head again */
        m->head = m->embed;
    } else if (!rc) {
        rc = take(l, l->gguf ? arch->gguf_head : arch->hf_head, c->vocab, c->d, false, &m->head);
    }
    for (uint32_t i = 0; !rc && i < c->layers; i++)
        rc = take_layer(l, i);
    if (!rc)
        rc = take_rope(l, positions);
    return rc ? rc : list_unused(l);
}

int zl_model_open(const char *path, uint64_t positions, struct zl_model *m, struct zl_error *err)
{
    struct stat st;
    *m = (struct zl_model){0};
    if (stat(path, &st))
        return zl_fail_errno(err, ZL_EINPUT, "%s", path);
    m->path = strdup(path);
    struct loader l = {.m = m, .gguf = !S_ISDIR(st.st_mode), .err = err};
    int rc;
    if (l.gguf) {
        rc = zl_gguf_open(path, &m->gguf, err);
        if (!rc)
            rc = zl_config_from_gguf(m->gguf, &m->config, err);
        if (!rc)
            m->tensors = zl_gguf_tensors(m->gguf);
    } else {
        rc = zl_config_from_hf(path, &m->config, err);
        if (!rc)
            rc = zl_safetensors_open_dir(path, &m->safetensors, err);
        m->tensors = m->safetensors;
    }
    if (!rc)
        rc = load(&l, positions);
    free(l.used);
    if (rc)
        zl_model_close(m);
    return rc;
}

void zl_model_close(struct zl_model *m)
{
    for (uint32_t i = 0; i < m->n_unused; i++)
        free(m->unused[i]);
    free(m->unused);
    free(m->layer);
    zl_arena_close(&m->vectors);
    zl_tensors_close(m->safetensors);
    zl_gguf_close(m->gguf);
    free(m->path);
    *m = (struct zl_model){0};
}

int zl_model_tokenizer(const struct zl_model *m, struct zl_tokenizer **out, struct zl_error *err)
{
    int rc = m->gguf ? zl_tokenizer_open_gguf(m->gguf, out, err) : zl_tokenizer_open_dir(m->path, out, err);
    if (rc)
        return rc;
    if ((uint32_t)zl_tokenizer_size(*out) > m->config.vocab) {
        rc = zl_fail(err, ZL_EINPUT, "%s: the tokenizer has ids up to %d, but the embedding only %u rows", m->path,
                     zl_tokenizer_size(*out) - 1, m->config.vocab);
        zl_tokenizer_close(*out);
        *out = NULL;
    }
    return rc;
}
