/*
 * Inside of struct zl_tensors, shared by the readers of each format (safetensors.c, gguf.c) and by
 * nobody else. A reader maps files, adds tensors, and closes with zl_tensors_index(); after that
 * nothing changes, so many threads may read.
 */
#ifndef ZL_FORMAT_TENSORS_IMPL_H
#define ZL_FORMAT_TENSORS_IMPL_H

#include <stdbool.h>

#include "format/tensors.h"

struct zl_guard_entry;

struct zl_mapped {
    const char *path; /* kept in the pool */
    const unsigned char *base;
    uint64_t size;
    struct zl_guard_entry *guard;
};

struct zl_pool_chunk { /* strings of the table live in a chain of these */
    struct zl_pool_chunk *next;
    size_t used, size;
    char bytes[];
};

struct zl_metadata {
    const char *key, *value;
};

struct zl_tensors {
    struct zl_mapped *maps;
    size_t n_maps;
    struct zl_named_tensor *items; /* file after file, by position in it */
    size_t n, capacity;
    size_t *by_name; /* indices of items, names ascending */
    struct zl_metadata *meta;
    size_t n_meta, meta_capacity;
    struct zl_pool_chunk *pool;
};

struct zl_tensors *zl_tensors_new(struct zl_error *err);

/* Map a regular file of at least min_bytes, read-only, and register it with the guard. */
int zl_tensors_map(struct zl_tensors *s, const char *path, uint64_t min_bytes, const char *kind,
                   struct zl_mapped *out, struct zl_error *err);

/* A NUL-terminated copy that lives as long as s; NULL with err filled when memory is out. */
const char *zl_tensors_keep(struct zl_tensors *s, const char *text, size_t len,
                            struct zl_error *err);

int zl_tensors_add(struct zl_tensors *s, const struct zl_named_tensor *t, struct zl_error *err);
int zl_tensors_add_metadata(struct zl_tensors *s, const char *key, const char *value,
                            struct zl_error *err);

/* Order the tensors from index `first` on by their place in the file. */
void zl_tensors_sort_file(struct zl_tensors *s, size_t first);

/* Build the table of names; a name that is there twice is refused. */
int zl_tensors_index(struct zl_tensors *s, struct zl_error *err);

/* After the reader returned rc: index and hand s out, or close it. Returns the final code. */
int zl_tensors_finish(struct zl_tensors *s, int rc, struct zl_tensors **out, struct zl_error *err);

/* Add the tensors and metadata of one safetensors file, checked; names unique within the file. */
int zl_safetensors_read(struct zl_tensors *s, const char *path, struct zl_error *err);

/* Product of shape[0..n): false when it, or the product of the dimensions other than 0, does not
 * fit 63 bits. */
bool zl_shape_elements(const uint64_t *shape, size_t n, uint64_t *elements);

/* Room for one more in a growing array: *items of *capacity elements of `size` bytes, n in use. */
int zl_grow(void *items_pointer, size_t n, size_t *capacity, size_t size, struct zl_error *err);

/* guard.c: tell the SIGBUS handler about a mapping; NULL (no memory) only costs the file's name in
 * the message. */
struct zl_guard_entry *zl_guard_add(const void *base, uint64_t size, const char *path);
void zl_guard_remove(struct zl_guard_entry *e);

#endif
