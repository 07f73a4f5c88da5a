/*
 * Products in 8-bit integers, of weights that are stored as integers of at most 8 bits along K: activations are rounded, 32 elements of a
 * row together, to integers of -127 .. 127 times a scale of their own; a unit's 32 products are summed exactly, as integers, and the sum is
 * scaled once, in float32. Nothing of a weight is written anywhere. Internal to this layer.
 *
 * There is a copy for each instruction that multiplies so; all give the same bits.
 */
#ifndef ZL_KERNEL_BYTES_H
#define ZL_KERNEL_BYTES_H

#include "kernel/pack.h"

/* Rounded activations: rows of `units` x 32 elements, zeros behind the k-th. */
struct zl_byte_rows {
    int64_t units;
    int8_t *q;                 /* [rows][units][32] */
    float (*scale)[2];         /* [rows][units]: of the elements, and their sum as it now is */
    int32_t (*sum)[2];         /* [rows][units]: minus the sum of the integers, of each half */
};

/* Bytes that a row takes, and the rows laid out in memory aligned to 64. */
static inline uint64_t zl_byte_row_bytes(int64_t k)
{
    return (uint64_t)((k + 31) / 32) * (32 + 2 * sizeof(float) + 2 * sizeof(int32_t));
}

static inline struct zl_byte_rows zl_byte_rows_at(void *memory, int64_t rows, int64_t k)
{
    const int64_t units = (k + 31) / 32;
    int8_t *q = memory;
    float(*scale)[2] = (float(*)[2])(void *)(q + rows * units * 32);
    return (struct zl_byte_rows){units, q, scale, (int32_t(*)[2])(void *)(scale + rows * units)};
}

struct zl_bytes {
    /* Round rows [from, from + m) of r from a, whose rows are lda apart. A unit that holds an infinity or a NaN gives NaN. */
    void (*round)(const struct zl_byte_rows *r, int64_t from, int64_t m, int64_t k, const float *a, int64_t lda);
    /* out[i][j] += alpha * row i of r times row n0 + j of w, i < m, j < n. */
    void (*dot)(const struct zl_weight *w, int64_t n0, int64_t n, int64_t m, const struct zl_byte_rows *r, float alpha, float *out,
                int64_t ldo);
};

/* NULL where zl_compute_missing(ZL_COMPUTE_INT8). */
const struct zl_bytes *zl_bytes_get(void);

extern const struct zl_bytes zl_bytes_avx2, zl_bytes_avxvnni, zl_bytes_avx512vnni;

#endif
