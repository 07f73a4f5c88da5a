/*
 * The head on blocks, for one thread: the loops of head.c, compiled for each instruction set.
 * Internal to this layer.
 *
 * The candidates (the vocabulary or the subset) are cut into chunks and these into parts, by their
 * number and d alone. A task is a part and a group of rows: it goes through the part's chunks, each
 * dequantized once for both products, with a running maximum, and leaves what head.c needs to join
 * the parts. As in attention, logits are held transposed, [candidates][rows].
 */
#ifndef ZL_KERNEL_HEAD_BLOCK_H
#define ZL_KERNEL_HEAD_BLOCK_H

#include <stdint.h>

#include "kernel/head.h"
#include "kernel/isa.h"

enum {
    ZL_HEAD_PARTS = 8,
    ZL_HEAD_PANEL = 32,      /* rows whose logits are computed together */
    ZL_HEAD_CHUNK_MOST = 128 /* candidates */
};

/* Candidates a chunk: so many that it stays in a second-level cache of 1 MB beside a panel of rows.
 */
static inline int64_t zl_head_chunk(int64_t d)
{
    int64_t n = (1 << 16) / d / 8 * 8;
    return n < 32 ? 32 : n > ZL_HEAD_CHUNK_MOST ? ZL_HEAD_CHUNK_MOST : n;
}

/* A row of floats in scratch: whole vectors, and an odd number of cache lines, lest rows meet in
 * the same sets of a cache. */
static inline int64_t zl_head_row(int64_t d)
{
    return ((d + 15) / 16 | 1) * 16;
}

/* The result of one part for a group of rows; arrays over the group's rows. */
struct zl_head_part {
    float *max, *sum, *target; /* target: its logit, written by the part that has the target */
    int32_t *best;             /* the candidate whose logit is max */
    float *acc; /* sum of exp(logit - max) * E, rows of zl_head_row(d); NULL: no gradient wanted */
};

/* ht: the rows' panels, [panel][d][32], zero where there is no row. scratch:
 * zl_head_task_floats(d). */
ZL_ISA_DECLARE(void, zl_head_panels, (int64_t rows, int64_t d, const float *h, float *ht));
ZL_ISA_DECLARE(void, zl_head_run,
               (const struct zl_head *head, int64_t from, int64_t to, int64_t rows, const float *ht,
                const int32_t *targets, const struct zl_head_part *part, float *scratch));
/* dh = weight * (acc / sum - e) over the parts: acc and factor of each, factor being exp(max_part -
 * max) / sum. */
ZL_ISA_DECLARE(void, zl_head_join,
               (int64_t d, int parts, const float *const *acc, const float *factor, const float *e,
                float weight, float *dh));

static inline int64_t zl_head_task_floats(int64_t d)
{
    return zl_head_chunk(d) * (zl_head_row(d) + ZL_HEAD_PANEL) + 4 * ZL_HEAD_PANEL;
}

#endif
