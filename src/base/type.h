/*
 * Element types of stored tensors: how many bytes, in which blocks. Layouts are those of GGUF (block quantization) and
 * safetensors (plain types, little-endian). Converting them to float32 is the business of kernel/dequant.h.
 */
#ifndef ZL_BASE_TYPE_H
#define ZL_BASE_TYPE_H

#include <stdbool.h>
#include <stdint.h>

enum zl_type {
    ZL_F32,
    ZL_F16,
    ZL_BF16,
    ZL_Q8_0,
    ZL_Q4_0,
    ZL_Q4_1,
    ZL_Q5_0,
    ZL_Q5_1,
    ZL_Q4_K,
    ZL_Q5_K,
    ZL_Q6_K,
    ZL_TYPES, /* how many we compute with */
    ZL_OTHER = ZL_TYPES /* present in a file, of known or unknown size, but nothing we compute with */
};

struct zl_type_info {
    const char *name;      /* "q4_1" */
    uint32_t block;        /* elements a block; 1 for plain types */
    uint32_t block_bytes;  /* bytes a block */
    uint32_t gguf;         /* ggml's number */
    const char *safetensors; /* dtype string, or NULL */
};

extern const struct zl_type_info zl_type_info[ZL_TYPES];

/* A stored tensor, row-major, outermost dimension first (so a linear layer is [out][in] whatever the file's habit).
 * data points into a mapping owned by the file's handle and may be misaligned: read it through memcpy or unaligned
 * loads only. */
struct zl_tensor {
    enum zl_type type;
    int n_dims;         /* 0..4; missing dimensions are 1 */
    uint64_t shape[4];
    const void *data;
    uint64_t bytes;
};

/* Number of elements; rows = elements / last dimension. The product was checked when the file was opened. */
uint64_t zl_tensor_elements(const struct zl_tensor *t);

/* Bytes of `elements` consecutive elements (a whole number of blocks); false when that overflows or splits a block. */
bool zl_type_bytes(enum zl_type type, uint64_t elements, uint64_t *bytes);

/* *out = a * b; false on overflow. */
static inline bool zl_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool zl_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif
