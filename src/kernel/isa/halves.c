/* float32 to bfloat16, rounded to nearest even, and back. A NaN stays one. */
#include "kernel/loops.h"

#include <string.h>

enum { CHUNK = 16 };

static inline __attribute__((always_inline)) uint16_t narrow(uint32_t u)
{
    const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

void ZL_ISA(zl_narrow_range)(int64_t n, const float *x, uint16_t *y)
{
    uint32_t u[CHUNK];
    int64_t i = 0;
    for (; i + CHUNK <= n; i += CHUNK) {
        memcpy(u, x + i, sizeof u);
        for (int j = 0; j < CHUNK; j++)
            y[i + j] = narrow(u[j]);
    }
    memcpy(u, x + i, (size_t)(n - i) * sizeof *u);
    for (int j = 0; i + j < n; j++)
        y[i + j] = narrow(u[j]);
}

void ZL_ISA(zl_widen_range)(int64_t n, const uint16_t *x, float *y)
{
    uint32_t u[CHUNK];
    int64_t i = 0;
    for (; i + CHUNK <= n; i += CHUNK) {
        for (int j = 0; j < CHUNK; j++)
            u[j] = (uint32_t)x[i + j] << 16;
        memcpy(y + i, u, sizeof u);
    }
    for (int j = 0; i + j < n; j++)
        u[j] = (uint32_t)x[i + j] << 16;
    memcpy(y + i, u, (size_t)(n - i) * sizeof *u);
}
