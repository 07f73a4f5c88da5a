/*
 * One row of activations times weights stored along K: what generating a token is made of. Bound by how fast weights come from memory
 * and are taken apart; so nothing is packed, and four sums a lane run side by side. Their order is fixed (element k goes to
 * sum k mod 4), but not that of a tile: a row alone may differ in its last bits from the same row among others.
 */
#include "config.h"

#include "kernel/pack.h"

#define NAME(T)     dot_##T
#define SINK        const float *a, vf *sum
#define SINK_ARGS   a, s
#define PUT(k, v)   sum[(k) & 3] = fuse(a[k], v, sum[(k) & 3])
#define ADVANCE     a += 32
#define BEGIN       vf s[4] = {sum[0], sum[1], sum[2], sum[3]} /* in registers: nothing can point at them */
#define END         memcpy(sum, s, sizeof s)
#include "kernel/isa/lanes.h"

enum { STEP = 512 }; /* elements of a row asked for ahead of their use */

static void rows_at(const struct zl_weight *w, int64_t first, int64_t end, const uint8_t **p)
{
    for (int64_t r = 0; r < LANES; r++) /* a lane without a row takes the last one */
        p[r] = zl_weight_row(w, first + r < end ? first + r : end - 1);
}

void ZL_ISA(zl_dot)(const struct zl_weight *w, int64_t n0, int64_t n, int64_t kc, const float *a, float alpha,
                    float *out)
{
    const int64_t whole = kc / 32 * 32;
    const uint8_t *p[LANES], *next[LANES];
    float last[32] = {0};
    memcpy(last, a + whole, (size_t)(kc - whole) * sizeof *a);
    rows_at(w, n0, n0 + n, next);
    fetch(w->type, next, 0, kc < STEP ? kc : STEP);
    for (int64_t j = 0; j < n; j += LANES) {
        vf sum[4] = {{0}, {0}, {0}, {0}};
        float x[LANES];
        memcpy(p, next, sizeof p);
        if (j + LANES < n)
            rows_at(w, n0 + j + LANES, n0 + n, next);
        for (int64_t k = 0; k < whole; k += STEP) {
            int64_t end = k + STEP < whole ? k + STEP : whole;
            if (end < whole)
                fetch(w->type, p, end, whole - end < STEP ? whole - end : STEP);
            else if (j + LANES < n)
                fetch(w->type, next, 0, kc < STEP ? kc : STEP);
            dot_units(w->type, p, k / 32, end / 32, a + k, sum);
        }
        vf total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        memcpy(x, &total, sizeof x);
        for (int64_t r = 0; r < LANES && j + r < n; r++) {
            if (whole < kc) {
                float unit[32];
                if (zl_type_info[w->type].block == 1)
                    plain(w->type, p[r], whole, kc - whole, unit);
                else
                    ZL_ISA(zl_dequant_unit)(w->type, p[r], whole / 32, unit);
                for (int64_t k = 0; k < kc - whole; k++)
                    x[r] = ZL_FMA(last[k], unit[k], x[r]);
            }
            out[j + r] += alpha * x[r];
        }
    }
}
