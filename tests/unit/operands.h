/*
 * Operands for tests of products: matrices that repeat, weights of every stored type, a team with scratch full of NaN.
 */
#ifndef ZL_TEST_OPERANDS_H
#define ZL_TEST_OPERANDS_H

#include "base/rng.h"
#include "kernel/gemm.h"
#include "tests/unit/test.h"

static uint64_t counter; /* of random numbers */

static inline float uniform(void) /* [-1, 1) */
{
    return zl_random_unit(42, ZL_STREAM_TEST, 0, counter++) * 2 - 1;
}

static inline void *take(uint64_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(p);
    memset(p, 0xff, (bytes + 127) / 64 * 64); /* NaN */
    return p;
}

static inline float *matrix(int64_t rows, int64_t ld)
{
    float *p = take(rows * ld * sizeof *p);
    for (int64_t i = 0; i < rows * ld; i++)
        p[i] = uniform();
    return p;
}

/* Blocks of random bytes with sane scales, so that the elements are of the order of one. `at` bytes of misalignment. */
static inline void *stored(enum zl_type type, int64_t rows, int64_t ld, int at)
{
    int64_t n = rows * ld / zl_type_info[type].block, bytes = zl_type_info[type].block_bytes;
    uint8_t *p = (uint8_t *)take(n * bytes + 64) + at;
    for (int64_t i = 0; i < n; i++) {
        uint8_t *b = p + i * bytes;
        float f = uniform();
        uint32_t u;
        memcpy(&u, &f, 4);
        if (type == ZL_F32) {
            memcpy(b, &f, 4);
            continue;
        }
        if (type == ZL_BF16) {
            memcpy(b, (uint8_t *)&u + 2, 2);
            continue;
        }
        for (int64_t j = 0; j < bytes; j++)
            b[j] = zl_random_u64(42, ZL_STREAM_TEST, 1, counter++) & 255;
        /* halves below 2^-5 or so: sign kept, exponent 0..9 */
        static const struct { int first, second; } scales[ZL_TYPES] = {
            [ZL_F16] = {0, -1}, [ZL_Q8_0] = {0, -1}, [ZL_Q4_0] = {0, -1}, [ZL_Q4_1] = {0, 2},
            [ZL_Q5_0] = {0, -1}, [ZL_Q5_1] = {0, 2}, [ZL_Q4_K] = {0, 2}, [ZL_Q5_K] = {0, 2},
            [ZL_Q6_K] = {208, -1}};
        int top = type == ZL_F16 ? 0x3b : type >= ZL_Q4_K ? 0x0f : 0x23;
        b[scales[type].first + 1] = (b[scales[type].first + 1] & 0x80) | (b[scales[type].first + 1] & 0x7f) % top;
        if (scales[type].second >= 0)
            b[scales[type].second + 1] = (b[scales[type].second + 1] & 0x80) | (b[scales[type].second + 1] & 0x7f) % top;
    }
    return p - at;
}

static inline struct zl_team team_of(int threads)
{
    struct zl_team t = {.threads = threads, .scratch_bytes = zl_gemm_scratch_bytes(threads)};
    t.scratch = take(t.scratch_bytes);
    return t;
}

#endif
