/*
 * For tests that hold float kernels to double references: numbers that repeat, arrays in both
 * types, residuals against bounds.
 */
#ifndef ZL_TEST_NEAR_H
#define ZL_TEST_NEAR_H

#include <math.h>

#include "kernel/team.h"
#include "tests/unit/test.h"

/* Uniform in [-1, 1), from a seed that moves on. */
static inline float near_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((int32_t)(*seed >> 32)) * 0x1p-31f;
}

/* n floats, exactly as large as asked, so that a sanitizer sees the first step too far. */
static inline float *near_floats(int64_t n, float amplitude, uint64_t *seed)
{
    float *x = malloc((size_t)n * sizeof *x + !n);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = amplitude * near_random(seed);
    return x;
}

static inline double *near_doubles(const float *x, int64_t n)
{
    double *y = malloc((size_t)n * sizeof *y + !n);
    assert_non_null(y);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
    return y;
}

static inline float *near_copy(const float *x, int64_t n)
{
    float *y = malloc((size_t)n * sizeof *y + !n);
    assert_non_null(y);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

/* A team with scratch full of NaN: nothing in it may be relied upon. */
static inline struct zl_team near_team(int threads, uint64_t bytes)
{
    struct zl_team t = {.threads = threads, .scratch = aligned_alloc(64, (bytes + 64) / 64 * 64), .scratch_bytes = bytes};
    assert_non_null(t.scratch);
    memset(t.scratch, 0xff, bytes);
    return t;
}

/* max |x - y| over max |y| at most `bound`, everything finite. */
static inline void near_check(const char *what, const float *x, const double *y, int64_t n,
                              double bound)
{
    double worst = 0, largest = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        assert_true(isfinite(x[i]));
        worst = fmax(worst, fabs(x[i] - y[i]));
        largest = fmax(largest, fabs(y[i]));
    }
    print_message("  %s: residual %.2e, bound %.0e\n", what, worst / largest, bound);
    assert_true(worst / largest <= bound);
}

/* The derivative of f() by a number *x, by central differences in double. */
static inline double near_slope(double (*f)(void *), void *arg, double *x)
{
    double at = *x, h = 1e-5 * fmax(1, fabs(at));
    *x = at + h;
    double up = f(arg);
    *x = at - h;
    double down = f(arg);
    *x = at;
    return (up - down) / (2 * h);
}

#endif
