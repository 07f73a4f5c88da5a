/*
 * Operands into panels, once for each instruction set; see kernel/pack.h. Weights that are stored along K (NK) are dequantized
 * 32 elements of a row at a time into a tile that stays in the first-level cache, which is then transposed.
 */
#include "config.h"

#include "kernel/gemm.h"
#include "kernel/isa/unit.h"
#include "kernel/pack.h"

static inline const uint8_t *row_at(const struct zl_weight *w, int64_t i)
{
    return (const uint8_t *)w->data + (w->rows ? w->rows[i] : i) * w->row_bytes;
}

/* Elements [from, from + n) of a row, n <= ZL_UKR_WIDEST, from anywhere: whole units through a buffer. */
static void piece(enum zl_type type, const uint8_t *row, int64_t from, int n, float *restrict x)
{
    float buffer[ZL_UKR_WIDEST + 64];
    int64_t first = from / 32, last = (from + n + 31) / 32;
    switch (type) {
#define CASE(T, name)                                                                            \
    case T:                                                                                      \
        for (int64_t u = first; u < last; u++)                                                   \
            unit_##name(row, u, buffer + (u - first) * 32);                                      \
        break;
        EACH_QUANT(CASE)
#undef CASE
    default:
        plain(type, row, from, n, x);
        return;
    }
    memcpy(x, buffer + from % 32, (size_t)n * sizeof *x);
}

void ZL_ISA(zl_pack_kn)(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn,
                        float *dst)
{
    for (int64_t k = 0; k < kc; k++, dst += pn) {
        piece(w->type, row_at(w, k0 + k), n0, n, dst);
        for (int j = n; j < pn; j++)
            dst[j] = 0;
    }
}

void ZL_ISA(zl_pack_nk)(const struct zl_weight *w, int64_t n0, int n, int64_t k0, int64_t kc, int pn,
                        float *dst)
{
    float tile[ZL_UKR_WIDEST][32];
    for (int j = n; j < pn; j++)
        memset(tile[j], 0, sizeof tile[j]);
    for (int64_t k = 0; k < kc; k += 32, dst += 32 * pn) {
        int part = (int)(kc - k < 32 ? kc - k : 32);
        for (int j = 0; j < n; j++)
            piece(w->type, row_at(w, n0 + j), k0 + k, part, tile[j]);
        for (int i = 0; i < part; i++)
            for (int j = 0; j < pn; j++)
                dst[i * pn + j] = tile[j][i];
    }
}

void ZL_ISA(zl_pack_m)(const float *a, int64_t lda, int transposed, int m, int64_t kc, float alpha,
                       int pm, float *dst)
{
    int64_t row = transposed ? 1 : lda, column = transposed ? lda : 1;
    for (int64_t k = 0; k < kc; k++, dst += pm) {
        for (int i = 0; i < m; i++)
            dst[i] = alpha * a[i * row + k * column];
        for (int i = m; i < pm; i++)
            dst[i] = 0;
    }
}
