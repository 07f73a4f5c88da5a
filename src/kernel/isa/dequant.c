/* Stored rows to float32, once for each instruction set: zl_dequant's work. See unit.h. */
#include "config.h"

#include "kernel/isa/unit.h"
#include "kernel/pack.h"

void ZL_ISA(zl_dequant_isa)(enum zl_type type, const void *src, float *dst, int64_t n)
{
    switch (type) {
#define CASE(T, name)                                                                            \
    case T:                                                                                      \
        for (int64_t u = 0; u < n / 32; u++)                                                     \
            unit_##name(src, u, dst + u * 32);                                                   \
        break;
        EACH_QUANT(CASE)
#undef CASE
    default:
        plain(type, src, 0, n, dst);
    }
}

void ZL_ISA(zl_dequant_unit)(enum zl_type type, const uint8_t *row, int64_t u, float *dst)
{
    switch (type) {
#define CASE(T, name)                                                                            \
    case T:                                                                                      \
        unit_##name(row, u, dst);                                                                \
        break;
        EACH_QUANT(CASE)
#undef CASE
    default:
        plain(type, row, u * 32, 32, dst);
    }
}
