/* All element types that GGUF files may hold, by ggml's number: sizes for those that we compute
 * with and for those that we only list. */
#ifndef ZL_FORMAT_GGUF_TYPES_H
#define ZL_FORMAT_GGUF_TYPES_H

#include "base/type.h"

struct zl_ggml_type {
    const char *name;
    uint32_t block, block_bytes; /* elements a block, bytes a block */
    enum zl_type type;           /* ZL_OTHER: listed only */
};

/* NULL: a number that ggml has not given, or has withdrawn. */
const struct zl_ggml_type *zl_ggml_type(uint32_t number);

#endif
