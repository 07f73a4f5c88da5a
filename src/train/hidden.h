/* Hidden states as they are spilled: float32, or rounded to bfloat16. */
#ifndef ZL_TRAIN_HIDDEN_H
#define ZL_TRAIN_HIDDEN_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernel/dequant.h"
#include "train/options.h"

static inline uint64_t zl_hidden_size(enum zl_spill_type type) /* of a number */
{
    return type == ZL_SPILL_BF16 ? 2 : sizeof(float);
}

/* To the nearest, ties to even; what is not a number stays none. */
static inline uint16_t zl_hidden_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void zl_hidden_store(enum zl_spill_type type, void *to, const float *x, uint64_t n)
{
    if (type == ZL_SPILL_F32)
        memcpy(to, x, n * sizeof(float));
    else
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = zl_hidden_round(x[i]);
}

static inline void zl_hidden_load(enum zl_spill_type type, const void *from, float *x, uint64_t n)
{
    zl_dequant(type == ZL_SPILL_BF16 ? ZL_BF16 : ZL_F32, from, x, (int64_t)n);
}

#endif
