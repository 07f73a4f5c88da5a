/* XXH3-128 as it stands in our files: 16 bytes in the canonical order (big-endian), without a seed. */
#ifndef ZL_STORE_HASH_H
#define ZL_STORE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

struct zl_hash {
    unsigned char byte[16];
};

static inline struct zl_hash zl_hash_of(const void *data, size_t bytes)
{
    XXH128_canonical_t c;
    struct zl_hash out;
    XXH128_canonicalFromHash(&c, XXH3_128bits(data, bytes));
    memcpy(out.byte, c.digest, sizeof out.byte);
    return out;
}

static inline bool zl_hash_equal(const struct zl_hash *a, const void *stored)
{
    return memcmp(a->byte, stored, sizeof a->byte) == 0;
}

#endif
