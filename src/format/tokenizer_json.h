/*
 * What the files that read tokenizer.json share: typed access to JSON whose failures are one
 * sentence that names the file, the place, what was found and what was expected. Included by
 * tokenizer_json.c, tokenizer_pipeline.c and tokenizer_dir.c only.
 */
#ifndef ZL_FORMAT_TOKENIZER_JSON_H
#define ZL_FORMAT_TOKENIZER_JSON_H

#include "format/tokenizer_impl.h"

#include <jansson.h>

struct zl_json {
    const char *file;
    struct zl_error *err; /* not NULL */
};

/* Parse a file; NULL with err filled. With may_be_absent a missing file gives NULL and no error. */
json_t *zl_json_load(const struct zl_json *r, bool may_be_absent);

/* "a string", "null", … for messages. */
const char *zl_json_kind(const json_t *v);

/* Member `key` of o; `where` names o. 0 found, 1 absent or null, negative: o is no object or the
 * member of another type. */
int zl_json_object(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                   json_t **out);
int zl_json_array(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                  json_t **out);
int zl_json_string(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                   const char **out, size_t *len);
int zl_json_bool(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                 bool *out);
int zl_json_int(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                int64_t *out);

/* The same, with absence an error. */
int zl_json_need(const struct zl_json *r, int found, const char *where, const char *key);

/* A part of the root object: a stage, or a Sequence of stages in the member `list`. */
typedef int zl_json_read_fn(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t);
struct zl_json_type {
    const char *name;
    zl_json_read_fn *read;
};
struct zl_json_part {
    const char *name, *list;
    const struct zl_json_type *types;
    size_t n_types;
};
int zl_json_stage(const struct zl_json *r, const struct zl_json_part *part, const json_t *stage,
                  struct zl_tokenizer *t, int depth);

/* "pattern": {"String": "…"} or {"Regex": "…"} */
int zl_json_pattern(const struct zl_json *r, const json_t *stage, const char *where,
                    const char **text, size_t *len, bool *regex);
/* A short string, copied: its limit bounds how much a replacement can make a text grow. */
enum { ZL_JSON_MAX_CONTENT = 64 };
int zl_json_content(const struct zl_json *r, const json_t *stage, const char *where,
                    const char *key, char **out, size_t *len);
/* prepend_scheme, or add_prefix_space of older files. */
int zl_json_prepend_scheme(const struct zl_json *r, const json_t *stage, const char *where,
                           enum zl_prepend *out);

/* tokenizer_pipeline.c reads normalizer, pre_tokenizer, post_processor and, by tokenizer_decoder.c,
 * decoder. */
int zl_json_pipeline(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t);
int zl_json_decoder(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t);

#endif
