/*
 * A file or directory of named tensors, opened read-only and mapped: safetensors (one file, or the shards that an
 * index names) or GGUF. The names are the file's own. All counts, lengths, offsets and shapes are checked against the
 * file's size before anything is allocated; see the format's own file for its byte table.
 */
#ifndef ZL_FORMAT_TENSORS_H
#define ZL_FORMAT_TENSORS_H

#include <stddef.h>

#include "base/error.h"
#include "base/type.h"

struct zl_named_tensor {
    const char *name;
    struct zl_tensor t;      /* type ZL_OTHER where we do not compute with it */
    const char *type_name;   /* as the file calls it: "F8_E4M3", "iq4_xs": for messages */
    const char *file;        /* which file holds it */
};

struct zl_tensors; /* owns mappings and names */

int zl_safetensors_open(const char *path, struct zl_tensors **out, struct zl_error *err);

/* A Hugging Face directory: model.safetensors, or the shards of model.safetensors.index.json (every name of weight_map must be in
 * the shard it names). */
int zl_safetensors_open_dir(const char *dir, struct zl_tensors **out, struct zl_error *err);

void zl_tensors_close(struct zl_tensors *s);

size_t zl_tensors_count(const struct zl_tensors *s);
const struct zl_named_tensor *zl_tensors_at(const struct zl_tensors *s, size_t i); /* in file order */
const struct zl_named_tensor *zl_tensors_find(const struct zl_tensors *s, const char *name); /* NULL: absent */

/* Value of a __metadata__ key of a safetensors file, or NULL. */
const char *zl_tensors_metadata(const struct zl_tensors *s, const char *key);

/* Writing: header with sorted names, data aligned to 64, every tensor float32. Written to `path` + a temporary suffix, fsynced,
 * renamed, folder fsynced: the file appears whole or not at all. metadata: key, value, key, value, …, NULL; or NULL. */
struct zl_safetensors_entry {
    const char *name;
    int n_dims;
    uint64_t shape[4];
    const float *data;
};
int zl_safetensors_write(const char *path, const struct zl_safetensors_entry *entries, size_t n,
                         const char *const *metadata, struct zl_error *err);

#endif
