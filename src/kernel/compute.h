/*
 * The number format in which products of frozen weights are multiplied. Results are float32 in all of them, and so is everything
 * else: adapters, their gradients, attention, norms, the loss.
 */
#ifndef ZL_KERNEL_COMPUTE_H
#define ZL_KERNEL_COMPUTE_H

#include <stdbool.h>

#include "base/type.h"

enum zl_compute {
    ZL_COMPUTE_F32,
    ZL_COMPUTE_BF16, /* both operands rounded to the nearest bfloat16, to even; numbers below the smallest normal one are zero */
    ZL_COMPUTE_INT8  /* forward only, by weights stored as integers along K: activations rounded to 8 bits, 32 of a row together (bytes.h);
                        other products in float32 */
};

/* NULL where products can be computed so; else why not: "this CPU has no AVX512-BF16". */
const char *zl_compute_missing(enum zl_compute compute);

/* NULL where bfloat16 is multiplied by AMX, which adds up in another order than AVX512-BF16; else why not: "this CPU has no AMX". */
const char *zl_tiles_missing(void);

/* Whether weights of this type are multiplied so; those of others are in float32. */
bool zl_compute_has(enum zl_compute compute, enum zl_type type);

#endif
