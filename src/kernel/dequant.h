/*
 * Stored weights to float32. The plain-C functions here state what every fast path must compute, bit for bit
 * (each product rounded once, no fused multiply-add: that is what ggml's C code and its Python twin give).
 */
#ifndef ZL_KERNEL_DEQUANT_H
#define ZL_KERNEL_DEQUANT_H

#include <stdint.h>

#include "base/type.h"

/* Reference: n elements (whole blocks) from src (any alignment) to dst. */
void zl_dequant_ref(enum zl_type type, const void *src, float *dst, int64_t n);

/* The same numbers by the fastest code this CPU has. */
void zl_dequant(enum zl_type type, const void *src, float *dst, int64_t n);

/* Rows ids[0..n) of a [rows][cols] tensor to out[n][cols]: the embedding look-up. ids are in range: checked by the caller. */
void zl_dequant_rows(enum zl_type type, const void *src, int64_t cols, const int32_t *ids, int64_t n, float *out);

float zl_f16_to_f32(uint16_t h);
float zl_bf16_to_f32(uint16_t h);

#endif
