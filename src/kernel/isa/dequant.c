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
