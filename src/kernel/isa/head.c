/* One part of the vocabulary against a group of rows: the loops of zl_head_loss (head_block.h). */
#include "kernel/head_block.h"

#include "kernel/dequant.h"
#include "kernel/isa/softmax.h"
#include "kernel/isa/tile.h"
#include "kernel/pack.h"

enum { PANEL = ZL_HEAD_PANEL };

void ZL_ISA(zl_head_panels)(int64_t rows, int64_t d, const float *h, float *ht)
{
    for (int64_t r = 0; r < rows; r += PANEL, ht += d * PANEL) {
        int64_t n = rows - r < PANEL ? rows - r : PANEL;
        if (n < PANEL)
            memset(ht, 0, (size_t)(d * PANEL) * sizeof *ht);
        transpose(n, d, h + r * d, d, 1, ht, PANEL);
    }
}

static void load_chunk(const struct zl_head *head, int64_t from, int64_t n, float *e, int64_t ld)
{
    const int64_t bytes = zl_pack_row_bytes(head->type, head->d);
    for (int64_t i = 0; i < n; i++) {
        int64_t id = head->subset ? head->subset[from + i] : from + i;
        const uint8_t *row = (const uint8_t *)head->weight + id * bytes;
        ZL_ISA(zl_dequant_isa)(head->type, row, e + i * ld, head->d);
    }
}

/* The largest of each lane so far and which candidate it is: of equal ones the first. */
static void largest(int64_t n, int64_t from, const float *s, float *max, int32_t *best)
{
    for (int64_t c = 0; c < PANEL; c += VL) {
        vf m = v_load(max + c);
        vi at = *(const vi_unaligned *)(best + c);
        for (int64_t i = 0; i < n; i++) {
            vf x = v_load(s + i * PANEL + c);
            vi here = (vi){0} + (int32_t)(from + i);
            at = (vi)v_select(x > m, (vf)here, (vf)at);
            m = v_max(x, m);
        }
        v_store(max + c, m);
        *(vi_unaligned *)(best + c) = at;
    }
}

void ZL_ISA(zl_head_run)(const struct zl_head *head, int64_t from, int64_t to, int64_t rows,
                         const float *ht, const int32_t *targets, const struct zl_head_part *part,
                         float *scratch)
{
    const int64_t d = head->d, ld = zl_head_row(d), chunk = zl_head_chunk(d);
    float *e = scratch, *s = e + chunk * ld, *factor = s + chunk * PANEL;
    int64_t panels = (rows + PANEL - 1) / PANEL;
    for (int64_t i = 0; i < panels * PANEL; i++) {
        part->max[i] = -__builtin_inff();
        part->sum[i] = part->target[i] = 0;
        part->best[i] = (int32_t)from;
    }
    if (part->acc)
        memset(part->acc, 0, (size_t)(rows * ld) * sizeof *part->acc);
    for (int64_t i = 0; i < chunk; i++) /* what pads a row is read as lanes of a product */
        for (int64_t j = d; j < ld; j++)
            e[i * ld + j] = 0;

    for (; from < to; from += chunk) {
        int64_t n = to - from < chunk ? to - from : chunk;
        load_chunk(head, from, n, e, ld);
        for (int64_t r = 0; r < rows; r += PANEL) {
            int64_t m = rows - r < PANEL ? rows - r : PANEL;
            product(&(struct product){.rows = n, .lanes = (m + VL - 1) / VL * VL, .k = d,
                                      .a = e, .lda = ld,
                                      .b = ht + r * d, .ldb = PANEL,
                                      .c = s, .ldc = PANEL, .mode = TILE_SET});
            for (int64_t i = 0; i < m; i++)
                if (targets[r + i] >= from && targets[r + i] < from + n)
                    part->target[r + i] = s[(targets[r + i] - from) * PANEL + i];
            float old[PANEL];
            memcpy(old, part->max + r, sizeof old);
            largest(n, from, s, part->max + r, part->best + r);
            for (int64_t c = 0; c < m; c += VL) {
                vf sum = v_load(part->sum + r + c), max = v_load(part->max + r + c);
                v_store(factor + c, softmax_column(n, s + c, PANEL, v_load(old + c), max, &sum));
                v_store(part->sum + r + c, sum);
            }
            if (part->acc)
                product(&(struct product){.rows = m, .lanes = (d + VL - 1) / VL * VL, .k = n,
                                          .a = s, .lda = PANEL, .a_by_k = 1,
                                          .b = e, .ldb = ld,
                                          .c = part->acc + r * ld, .ldc = ld,
                                          .mode = TILE_SCALE, .scale = factor});
        }
    }
}

void ZL_ISA(zl_head_join)(int64_t d, int parts, const float *const *acc, const float *factor,
                          const float *e, float weight, float *dh)
{
    for (int64_t j = 0; j < d; j += VL) {
        vf x = -v_load_left(e + j, d - j);
        for (int i = 0; i < parts; i++)
            x = v_fma(v_load(acc[i] + j), v_set(factor[i]), x);
        v_store_left(dh + j, x * weight, d - j);
    }
}
