/* GGUF files written byte by byte, right or wrong as the caller wants, for tests and for the
 * fuzzer. */
#ifndef ZL_GGUF_BYTES_H
#define ZL_GGUF_BYTES_H

#include "tests/unit/format_files.h"

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

static inline void put_string(struct bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put_text(b, text);
}

static inline void put_header(struct bytes *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
    put_text(b, "GGUF");
    put_u32(b, version);
    put_u64(b, tensors);
    put_u64(b, keys);
}

static inline void put_key(struct bytes *b, const char *key, uint32_t type)
{
    put_string(b, key);
    put_u32(b, type);
}

static inline void put_tensor(struct bytes *b, const char *name, uint32_t n_dims,
                              const uint64_t *dims, uint32_t type, uint64_t offset)
{
    put_string(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims && i < 16; i++)
        put_u64(b, dims[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

static inline void put_padding(struct bytes *b, size_t to)
{
    put_zeros(b, (to - b->n % to) % to);
}

/* A whole valid file: every kind of value, an f32 vector "n" of 0..4 and a q8_0 matrix "w" of 3
 * rows and 64 columns. */
static inline void put_small(struct bytes *b, uint32_t version)
{
    put_header(b, version, 2, 12);
    put_key(b, "general.architecture", STRING), put_string(b, "llama");
    put_key(b, "u8", U8), put(b, "\xff", 1);
    put_key(b, "i16", I16), put(b, "\xfe\xff", 2);
    put_key(b, "u64", U64), put_u64(b, UINT64_MAX);
    put_key(b, "f32", F32), put(b, &(float){0.5f}, 4);
    put_key(b, "f64", F64), put(b, &(double){1e-5}, 8);
    put_key(b, "yes", BOOL), put(b, "\1", 1);
    put_key(b, "odd", BOOL), put(b, "\2", 1);
    put_key(b, "texts", ARRAY), put_u32(b, STRING), put_u64(b, 3);
    put_string(b, "a"), put_string(b, ""), put_string(b, "bc");
    put_key(b, "scores", ARRAY), put_u32(b, F32), put_u64(b, 2), put(b, (float[]){1.5f, -2}, 8);
    put_key(b, "types", ARRAY), put_u32(b, I32), put_u64(b, 2), put(b, (int32_t[]){1, -2}, 8);
    put_key(b, "nested", ARRAY), put_u32(b, ARRAY), put_u64(b, 1);
    put_u32(b, U16), put_u64(b, 2), put_u32(b, 7);
    put_tensor(b, "w", 2, (uint64_t[]){64, 3}, 8, 32);
    put_tensor(b, "n", 1, (uint64_t[]){5}, 0, 0);
    put_padding(b, 32);
    for (int i = 0; i < 5; i++)
        put(b, &(float){(float)i}, 4);
    put_padding(b, 32);
    put_zeros(b, 3 * 2 * 34);
}

#endif
