/*
 * The number format in which products of frozen weights are multiplied. Sums are float32 in all of them, and so is everything
 * else: adapters, their gradients, attention, norms, the loss.
 */
#ifndef ZL_KERNEL_COMPUTE_H
#define ZL_KERNEL_COMPUTE_H

enum zl_compute {
    ZL_COMPUTE_F32,
    ZL_COMPUTE_BF16 /* both operands rounded to the nearest bfloat16, to even; numbers below the smallest normal one are zero */
};

/* NULL where products can be computed so; else why not: "this CPU has no AVX512-BF16". */
const char *zl_compute_missing(enum zl_compute compute);

#endif
