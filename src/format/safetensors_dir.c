/*
 * The weights of a Hugging Face directory: model.safetensors, or the shards that
 * model.safetensors.index.json names:
 *
 *     {"metadata": {…}, "weight_map": {TENSOR: SHARD, …}}      SHARD is the plain name of a file
 * beside the index
 *
 * Every tensor of weight_map must be in the shard that it names; tensors of a shard that weight_map
 * lacks are kept.
 */
#include "config.h"

#include "format/tensors_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/json_walk.h"
#include "format/quote.h"

enum {
    INDEX_LIMIT = 100000000, /* bytes of the index file */
    VALUE_LIMIT = 1 << 16    /* bytes of JSON text of one value in it */
};

struct place { /* one entry of weight_map */
    const char *tensor, *shard;
};

struct index {
    struct zl_tensors *s;
    const char *dir, *file;
    struct place *places;
    size_t n, capacity;
};

static int add_place(struct index *x, const json_t *tensor, const json_t *shard,
                     struct zl_error *err)
{
    const char *name = json_string_value(tensor), *file = json_string_value(shard);
    if (!file || !*file || strchr(file, '/') || !strcmp(file, "."))
        return zl_fail(
            err, ZL_EINPUT,
            "%s: weight_map of \"%s\" is %s%s, expected the name of a file in the same directory",
            x->file, zl_quote(name).s, file ? "the path " : "not text",
            file ? zl_quote(file).s : "");
    int rc = zl_grow(&x->places, x->n, &x->capacity, sizeof *x->places, err);
    if (rc)
        return rc;
    struct place p = {zl_tensors_keep(x->s, name, strlen(name), err),
                      zl_tensors_keep(x->s, file, strlen(file), err)};
    if (!p.tensor || !p.shard)
        return ZL_EMEMORY;
    x->places[x->n++] = p;
    return 0;
}

static int read_weight_map(struct index *x, struct zl_json_walk *w, struct zl_error *err)
{
    json_t *key, *value;
    int rc = zl_json_enter(w, err);
    while (!rc && (rc = zl_json_next(w, &key, err)) == 1) {
        rc = zl_json_value(w, VALUE_LIMIT, &value, err);
        if (!rc) {
            rc = add_place(x, key, value, err);
            json_decref(value);
        }
        json_decref(key);
    }
    return rc;
}

static int read_index(struct index *x, struct zl_json_walk *w, struct zl_error *err)
{
    json_t *key, *value;
    bool found = false;
    int rc = zl_json_enter(w, err);
    while (!rc && (rc = zl_json_next(w, &key, err)) == 1) {
        if (!strcmp(json_string_value(key), "weight_map")) {
            rc = found ? zl_fail(err, ZL_EINPUT,
                                 "%s: duplicate key \"weight_map\", expected it once", x->file)
                       : read_weight_map(x, w, err);
            found = true;
        } else if (!(rc = zl_json_value(w, VALUE_LIMIT, &value, err))) {
            json_decref(value);
        }
        json_decref(key);
    }
    if (!rc)
        rc = zl_json_finish(w, err);
    if (!rc && !x->n)
        rc = zl_fail(err, ZL_EINPUT,
                     "%s: names no tensors, expected an object \"weight_map\" with their files",
                     x->file);
    return rc;
}

static int compare_shards(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    int order = strcmp(a->shard, b->shard);
    return order ? order : strcmp(a->tensor, b->tensor);
}

/* Open every shard once, in the order of their names, and look for each tensor where weight_map has
 * it. */
static int read_shards(struct index *x, struct zl_error *err)
{
    char *path = NULL;
    int rc = 0;
    qsort(x->places, x->n, sizeof *x->places, compare_shards);
    for (size_t i = 0; i < x->n && !rc; i++) {
        if (i && !strcmp(x->places[i - 1].shard, x->places[i].shard))
            continue;
        free(path);
        if (asprintf(&path, "%s/%s", x->dir, x->places[i].shard) < 0) {
            path = NULL;
            rc = zl_fail(err, ZL_EMEMORY, "%s: no memory for a path", x->file);
        } else if (!(rc = zl_safetensors_read(x->s, path, err)) && x->s->n_maps > 4096) {
            rc = zl_fail(err, ZL_EINPUT, "%s: names more than 4096 files", x->file);
        }
    }
    free(path);
    if (!rc)
        rc = zl_tensors_index(x->s, err);
    for (size_t i = 0; i < x->n && !rc; i++) {
        const struct zl_named_tensor *t = zl_tensors_find(x->s, x->places[i].tensor);
        const char *name = t ? strrchr(t->file, '/') + 1 : NULL;
        if (!t)
            rc = zl_fail(err, ZL_EINPUT, "%s/%s: tensor \"%s\", which %s places there, is missing",
                         x->dir, x->places[i].shard, zl_quote(x->places[i].tensor).s, x->file);
        else if (strcmp(name, x->places[i].shard))
            rc = zl_fail(err, ZL_EINPUT, "%s: tensor \"%s\" is in %s, expected it in %s", x->file,
                         zl_quote(t->name).s, t->file, x->places[i].shard);
    }
    return rc;
}

static int read_sharded(struct zl_tensors *s, const char *dir, const char *file,
                        struct zl_error *err)
{
    struct zl_tensors *holder =
        zl_tensors_new(err); /* of the index file's own mapping, not needed later */
    struct index x = {.s = s, .dir = dir, .file = file};
    struct zl_mapped m;
    int rc = holder ? zl_tensors_map(holder, file, 2, "shard index", &m, err) : ZL_EMEMORY;
    if (!rc && m.size > INDEX_LIMIT)
        rc = zl_fail(err, ZL_EINPUT, "%s: %llu bytes long, expected at most %d", file,
                     (unsigned long long)m.size, INDEX_LIMIT);
    if (!rc) {
        struct zl_json_walk w;
        zl_json_walk_init(&w, file, 0, (const char *)m.base, m.size);
        rc = read_index(&x, &w, err);
    }
    zl_tensors_close(holder);
    if (!rc)
        rc = read_shards(&x, err);
    free(x.places);
    return rc;
}

static int no_weights(const char *dir, struct zl_error *err)
{
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                         "tf_model.h5", "flax_model.msgpack"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, others[i]);
        if (!access(path, F_OK))
            return zl_fail(
                err, ZL_EINPUT,
                "%s: holds %s but no model.safetensors; expected safetensors (convert it)", dir,
                others[i]);
    }
    return zl_fail(
        err, ZL_EINPUT,
        "%s: expected model.safetensors or model.safetensors.index.json in this directory", dir);
}

int zl_safetensors_open_dir(const char *dir, struct zl_tensors **out, struct zl_error *err)
{
    struct zl_tensors *s = zl_tensors_new(err);
    char *one = NULL, *index = NULL;
    int rc;
    if (!s)
        return ZL_EMEMORY;
    if (asprintf(&one, "%s/model.safetensors", dir) < 0 ||
        asprintf(&index, "%s/model.safetensors.index.json", dir) < 0)
        rc = zl_fail(err, ZL_EMEMORY, "%s: no memory for a path", dir);
    else if (!access(one, F_OK))
        rc = zl_safetensors_read(s, one, err);
    else if (!access(index, F_OK))
        rc = read_sharded(s, dir, index, err);
    else
        rc = no_weights(dir, err);
    free(one);
    free(index);
    return zl_tensors_finish(s, rc, out, err);
}
