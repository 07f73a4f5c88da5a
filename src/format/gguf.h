/* GGUF v2/v3 (little-endian): typed metadata beside tensors. Strings and arrays point into the
 * mapping's copies owned by the handle. */
#ifndef ZL_FORMAT_GGUF_H
#define ZL_FORMAT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/tensors.h"

struct zl_gguf;

int zl_gguf_open(const char *path, struct zl_gguf **out, struct zl_error *err);
void zl_gguf_close(struct zl_gguf *g);
const char *zl_gguf_path(const struct zl_gguf *g);

/* The tensors of the file, shapes turned outermost first. Owned by g. */
const struct zl_tensors *zl_gguf_tensors(const struct zl_gguf *g);

/* Metadata by key. 0: found and of a fitting type (any integer type that holds the value for u64;
 * f32 or f64 for f64); 1: absent
 * (*out untouched, no error); negative: present with another type or range, and err says which key
 * and what was expected. */
int zl_gguf_u64(const struct zl_gguf *g, const char *key, uint64_t *out, struct zl_error *err);
int zl_gguf_f64(const struct zl_gguf *g, const char *key, double *out, struct zl_error *err);
int zl_gguf_bool(const struct zl_gguf *g, const char *key, bool *out, struct zl_error *err);
int zl_gguf_string(const struct zl_gguf *g, const char *key, const char **out, size_t *len,
                   struct zl_error *err);

struct zl_gguf_str {
    const char *s; /* not NUL-terminated; may hold any byte */
    uint64_t len;
};
int zl_gguf_strings(const struct zl_gguf *g, const char *key, const struct zl_gguf_str **out,
                    uint64_t *n, struct zl_error *err);
int zl_gguf_f32s(const struct zl_gguf *g, const char *key, const float **out, uint64_t *n,
                 struct zl_error *err);
int zl_gguf_i32s(const struct zl_gguf *g, const char *key, const int32_t **out, uint64_t *n,
                 struct zl_error *err);

/* Iterate over all keys for `inspect`: name, and a short printable form of the value. false past
 * the end. */
bool zl_gguf_describe(const struct zl_gguf *g, size_t i, const char **key, char *value,
                      size_t value_size);

#endif
