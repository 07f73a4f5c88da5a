/* Inside of struct zl_gguf, shared by gguf.c (reading) and gguf_meta.c (values by key). */
#ifndef ZL_FORMAT_GGUF_IMPL_H
#define ZL_FORMAT_GGUF_IMPL_H

#include "format/gguf.h"

enum zl_gguf_type { /* the format's own numbers */
                    GGUF_U8,
                    GGUF_I8,
                    GGUF_U16,
                    GGUF_I16,
                    GGUF_U32,
                    GGUF_I32,
                    GGUF_F32,
                    GGUF_BOOL,
                    GGUF_STRING,
                    GGUF_ARRAY,
                    GGUF_U64,
                    GGUF_I64,
                    GGUF_F64,
                    GGUF_TYPES
};

struct zl_gguf_type_info {
    const char *name;
    uint32_t bytes; /* of one value; 0: strings and arrays */
};
extern const struct zl_gguf_type_info zl_gguf_type_info[GGUF_TYPES];

struct zl_gguf_kv {
    const char *key;
    enum zl_gguf_type type, element; /* element: of an array */
    uint64_t count;                  /* elements of an array, bytes of a string */
    const unsigned char *data;       /* first value byte, in the mapping; may be misaligned */
    void
        *copy; /* aligned elements of f32 and i32/u32 arrays, struct zl_gguf_str of string arrays */
};

struct zl_gguf {
    const char *path; /* in tensors' pool */
    struct zl_tensors *tensors;
    struct zl_gguf_kv *kv; /* in file order */
    size_t n_kv, capacity;
    size_t *by_key;
};

const struct zl_gguf_kv *zl_gguf_find(const struct zl_gguf *g, const char *key);
int zl_gguf_index(struct zl_gguf *g, struct zl_error *err); /* sorts by_key; refuses duplicates */

#endif
