/*
 * The head: who computes what, and how the parts of the vocabulary are joined. The loops are in
 * isa/head.c.
 *
 * Rows are taken in blocks that bound the scratch, and a block in groups, as many as give the
 * threads enough tasks (a larger group dequantizes the vocabulary less often). Tasks are (part,
 * group); when all are done each row joins its parts in their order. Where rows are cut changes no
 * bit, since a row's numbers never meet another's; where the vocabulary is cut depends on its size
 * and d alone.
 */
#include "config.h"

#include "kernel/head.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernel/dequant.h"
#include "kernel/head_block.h"
#include "kernel/pack.h"
#include "kernel/profile.h"

enum { PARTS = ZL_HEAD_PARTS, PANEL = ZL_HEAD_PANEL };

static int64_t round_up(int64_t n, int64_t of)
{
    return (n + of - 1) / of * of;
}

/* Rows a block: 256, fewer where d is large. */
static int64_t block_rows(int64_t d, int64_t rows)
{
    int64_t most = (1 << 19) / d / PANEL * PANEL;
    most = most > 256 ? 256 : most < 128 ? 128 : most;
    return rows < most ? round_up(rows, PANEL) : most;
}

/* Scratch: panels of the block's rows; each part's arrays; each thread's chunk. */
struct layout {
    int64_t rows;                    /* of a block */
    int64_t part_floats, part_words; /* acc; max, sum, target, best */
    int64_t thread_floats, all_floats;
};

static struct layout lay_out(int threads, int64_t d, int64_t rows)
{
    struct layout l = {.rows = block_rows(d, rows)};
    l.part_floats = l.rows * zl_head_row(d);
    l.part_words = 4 * l.rows;
    l.thread_floats = round_up(zl_head_task_floats(d) + zl_head_row(d), 16) + 16;
    l.all_floats = l.rows * d + PARTS * (l.part_floats + l.part_words) + threads * l.thread_floats;
    return l;
}

uint64_t zl_head_scratch_bytes(int threads, int64_t d, int64_t rows)
{
    return (uint64_t)lay_out(threads, d, rows).all_floats * sizeof(float);
}

struct job {
    const struct zl_head *head;
    struct layout l;
    int64_t candidates;
    float *ht, *parts, *threads;
    int64_t rows; /* of this block */
    const int32_t *targets;
    float weight, *loss, *dh;
    int32_t *argmax;
};

static struct zl_head_part part_of(const struct job *j, int part, int64_t row)
{
    float *p = j->parts + part * (j->l.part_floats + j->l.part_words), *w = p + j->l.part_floats;
    return (struct zl_head_part){.max = w + row,
                                 .sum = w + j->l.rows + row,
                                 .target = w + 2 * j->l.rows + row,
                                 .best = (int32_t *)(w + 3 * j->l.rows) + row,
                                 .acc = j->dh ? p + row * zl_head_row(j->head->d) : 0};
}

static int64_t part_begin(const struct job *j, int part)
{
    int64_t chunk = zl_head_chunk(j->head->d),
            n = (j->candidates + chunk - 1) / chunk * part / PARTS * chunk;
    return n < j->candidates ? n : j->candidates;
}

/* Row i of the block from its parts. e: room for a row of the weight. */
static void join(const struct job *j, int64_t i, float *e)
{
    struct zl_head_part part[PARTS];
    float max = -INFINITY, target = 0, factor[PARTS];
    int32_t best = 0;
    for (int p = 0; p < PARTS; p++) {
        part[p] = part_of(j, p, i);
        if (part_begin(j, p) == part_begin(j, p + 1))
            continue;
        /* A maximum that is not a number wins. */
        if (!(*part[p].max <= max)) {
            max = *part[p].max;
            best = *part[p].best;
        }
        if (j->targets[i] >= part_begin(j, p) && j->targets[i] < part_begin(j, p + 1))
            target = *part[p].target;
    }
    double sum = 0;
    for (int p = 0; p < PARTS; p++) {
        factor[p] = expf(*part[p].max - max);
        sum += (double)(*part[p].sum * factor[p]);
    }
    j->loss[i] = (float)((double)max - (double)target + log(sum));
    if (j->argmax)
        j->argmax[i] = best;
    if (!j->dh)
        return;
    const float *acc[PARTS];
    for (int p = 0; p < PARTS; p++) {
        acc[p] = part[p].acc;
        factor[p] = (float)((double)factor[p] / sum);
    }
    const struct zl_head *head = j->head;
    int32_t id = head->subset ? head->subset[j->targets[i]] : j->targets[i];
    zl_dequant_rows(head->type, head->weight, head->d, &id, 1, e);
    ZL_ISA_PICK(zl_head_join)(head->d, PARTS, acc, factor, e, j->weight, j->dh + i * head->d);
}

static void block(const struct zl_team *team, const struct job *j, const float *h)
{
    const int64_t d = j->head->d;
    /* Some three tasks a thread. */
    int64_t groups = (3 * team->threads + PARTS - 1) / PARTS,
            panels = (j->rows + PANEL - 1) / PANEL;
    int64_t group = (panels + groups - 1) / groups;
    groups = (panels + group - 1) / group;
#pragma omp parallel num_threads(team->threads) if (team->threads > 1)
    {
        float *scratch = j->threads + omp_get_thread_num() * j->l.thread_floats;
#pragma omp for schedule(static)
        for (int64_t p = 0; p < panels; p++) {
            int64_t left = j->rows - p * PANEL;
            ZL_ISA_PICK(zl_head_panels)
            (left < PANEL ? left : PANEL, d, h + p * PANEL * d, j->ht + p * PANEL * d);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < groups * PARTS; task++) {
            int part = (int)(task / groups);
            int64_t row = task % groups * group * PANEL, left = j->rows - row;
            struct zl_head_part result = part_of(j, part, row);
            ZL_ISA_PICK(zl_head_run)
            (j->head, part_begin(j, part), part_begin(j, part + 1),
             left < group * PANEL ? left : group * PANEL, j->ht + row * d, j->targets + row,
             &result, scratch);
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < j->rows; i++)
            join(j, i, scratch + zl_head_task_floats(d));
    }
}

void zl_head_loss(const struct zl_team *team, const struct zl_head *head, int64_t rows,
                  const float *h, const int32_t *targets, float weight, float *loss,
                  int32_t *argmax, float *dh)
{
    ZL_PROFILE(team, ZL_PART_HEAD);
    assert(team->scratch_bytes >= zl_head_scratch_bytes(team->threads, head->d, rows));
    struct job j = {.head = head, .l = lay_out(team->threads, head->d, rows), .weight = weight};
    j.candidates = head->subset ? head->n_subset : head->vocab;
    j.ht = team->scratch;
    j.parts = j.ht + j.l.rows * head->d;
    j.threads = j.parts + PARTS * (j.l.part_floats + j.l.part_words);
    for (int64_t row = 0; row < rows; row += j.l.rows) {
        j.rows = rows - row < j.l.rows ? rows - row : j.l.rows;
        j.targets = targets + row;
        j.loss = loss + row;
        j.argmax = argmax ? argmax + row : 0;
        j.dh = dh ? dh + row * head->d : 0;
        block(team, &j, h + row * head->d);
    }
}
