/* Variants of the tiny model: see variant.h. */
#include "tests/unit/test.h"

#include <jansson.h>

#include "base/rng.h"
#include "kernel/dequant.h"
#include "tests/variant.h"

void variant_config(const struct tiny *t, const char *changes)
{
    char path[512];
    const char *key;
    json_t *value;
    snprintf(path, sizeof path, "%s/config.json", t->model);
    json_t *config = json_load_file(path, 0, NULL), *change = json_loads(changes, 0, NULL);
    assert_non_null(config);
    assert_non_null(change);
    json_object_foreach(change, key, value)
        if (json_is_null(value))
            json_object_del(config, key);
        else
            json_object_set(config, key, value);
    assert_int_equal(json_dump_file(config, path, JSON_INDENT(1)), 0);
    json_decref(change);
    json_decref(config);
}

struct zl_safetensors_entry *variant_find(const struct variant_tensors *v, const char *name)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->e[i].name, name) == 0)
            return &v->e[i];
    fail_msg("the tiny model has no tensor %s", name);
    return NULL;
}

void variant_drop(struct variant_tensors *v, const char *name)
{
    *variant_find(v, name) = v->e[v->n - 1];
    v->n--;
}

void variant_weights(const struct tiny *t, void (*edit)(struct variant_tensors *v, const void *arg), const void *arg)
{
    char path[512];
    struct zl_error err = {0};
    struct zl_tensors *old;
    snprintf(path, sizeof path, "%s/model.safetensors", t->model);
    if (zl_safetensors_open(path, &old, &err))
        fail_msg("%s", err.text);
    struct variant_tensors v = {.n = zl_tensors_count(old)};
    v.e = calloc(v.n + 8, sizeof *v.e);
    for (size_t i = 0; i < v.n; i++) {
        const struct zl_named_tensor *from = zl_tensors_at(old, i);
        v.e[i] = (struct zl_safetensors_entry){.name = from->name, .n_dims = from->t.n_dims, .data = from->t.data};
        memcpy(v.e[i].shape, from->t.shape, sizeof v.e[i].shape);
    }
    edit(&v, arg);
    if (zl_safetensors_write(path, v.e, v.n, NULL, &err))
        fail_msg("%s", err.text);
    free(v.e);
    zl_tensors_close(old);
}

void variant_open(const struct tiny *t, uint64_t positions, struct zl_model *m)
{
    struct zl_error err = {0};
    if (zl_model_open(t->model, positions, m, &err))
        fail_msg("%s", err.text);
}

void batch_make(struct batch *b, const struct zl_model *m, const int64_t *lengths, int n, uint32_t vocab, uint32_t seed)
{
    int64_t t = 0, at = 0;
    for (int s = 0; s < n; s++)
        t += lengths[s];
    const size_t ints = (size_t)t * sizeof(int32_t);
    *b = (struct batch){.ids = malloc(ints), .labels = malloc(ints), .positions = malloc(ints)};
    b->seqs = calloc((size_t)n, sizeof *b->seqs);
    b->x = aligned_alloc(64, ((size_t)t * m->config.d * sizeof(float) + 63) / 64 * 64);
    for (int64_t i = 0; i < t; i++)
        b->ids[i] = (int32_t)(zl_random_u64(seed, ZL_STREAM_TEST, 1, (uint64_t)i) % vocab);
    for (int s = 0; s < n; at += lengths[s++]) {
        b->seqs[s] = (struct zl_attn_seq){at, lengths[s], at, lengths[s]};
        b->longest = lengths[s] > b->longest ? lengths[s] : b->longest;
        for (int64_t i = 0; i < lengths[s]; i++) {
            b->positions[at + i] = (int32_t)i;
            b->labels[at + i] = i + 1 < lengths[s] ? b->ids[at + i + 1] : -1;
        }
    }
    b->tok = (struct zl_tokens){.t = t, .positions = b->positions, .n_seqs = n, .seqs = b->seqs};
    zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, b->ids, t, b->x);
}

void batch_free(struct batch *b)
{
    free(b->ids);
    free(b->labels);
    free(b->positions);
    free(b->seqs);
    free(b->x);
}
