/*
 * The loops of the matrix product around the microkernel; the contract is in gemm.h, packing in pack.h.
 *
 *   for blocks of M (MC rows)                               C rows
 *     for groups of K blocks that fit the shared buffer     activations packed by all threads, then a barrier
 *       for panels of N (pn columns)                        divided over the threads
 *         for K blocks (KC)                                 weights dequantized into a panel in the first-level cache
 *           for panels of M (pm rows)                       activations stream by from the second level; C += panel x panel
 *
 * Invariant: an element of C is computed by one thread as one chain: K block by K block, each block's sum in the order of k.
 * Where K is cut depends on the terms' k alone, so neither threads nor M nor N change a bit of it; and a term is cut by its own k, so one
 * of zeros behind others (a fresh adapter) changes nothing either.
 */
#include "config.h"

#include "kernel/gemm.h"

#include <assert.h>
#include <omp.h>
#include <string.h>

#include "kernel/cut.h"
#include "kernel/micro.h"
#include "kernel/pack.h"
#include "kernel/pairs.h"
#include "kernel/unpacked.h"

/* Not taken from the sizes of caches: activations stream well from any level, and fewer rows a block mean dequantizing all weights more
 * often. 264 to 1020 rows, and a buffer for one K block or for all, came within the 2 % by which repeats differ (Zen 4). */
enum {
    MC = 576,               /* rows of C a block, at most */
    GROUP_FLOATS = 1 << 19, /* the shared buffer of packed activations */
    GROUP_BLOCKS = 64,
    ROWS_WORTH = 64,        /* rows of C that are worth making all panels of weights for */
    ROWS_MOST = 1 << 28,    /* multiply-adds of a thread in a product so short that meeting costs more than making them */
    SLACK = ZL_UKR_SLACK,
    LINE = ZL_ASK_LINE
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

struct kernels {
    const struct zl_ukr *u;
    const struct zl_pairs *pairs; /* NULL: all in float32 */
    int pn, pm;                   /* panels of weights, of activations */
    zl_pack_nk_fn *nk;
    zl_pack_kn_fn *kn;
    zl_pack_m_fn *m;
    zl_skinny_fn *skinny;
};

/* The block's weights as a panel of `width` columns, times what its alpha leaves of their terms'. */
static void pack_weights(const struct kernels *f, const struct zl_gemm *g, const struct zl_cut_block *b, int64_t n0, int n,
                         int width, float *dst)
{
    for (int i = 0; i < b->n_pieces; i++) {
        const struct zl_gemm_term *t = &g->term[b->piece[i].term];
        struct zl_weight w = {t->b_type, t->b, zl_pack_row_bytes(t->b_type, t->ldb), t->b_rows};
        const struct zl_cut_piece *p = &b->piece[i];
        const bool nk = t->b_layout == ZL_B_NK;
        if (p->pairs)
            (nk ? f->pairs->nk : f->pairs->kn)(&w, n0, n, p->k0, p->kc, width, t->alpha != b->alpha ? t->alpha : 1, dst);
        else
            (nk ? f->nk : f->kn)(&w, n0, n, p->k0, p->kc, width, dst);
        if (!p->pairs && t->alpha != b->alpha)
            for (int64_t e = 0; e < p->kc * width; e++)
                dst[e] *= t->alpha;
        dst += p->words * width;
    }
}

/* What pack_weights() will read for a block and a panel: the rows of its first term, which are nearly all. Weights come from memory, once
 * each time they are used; the tiles computed before give them time to arrive. */
static struct zl_ask ask_for(const struct zl_gemm *g, const struct zl_cut_block *b, int64_t n0, int64_t n)
{
    const struct zl_cut_piece *p = &b->piece[0];
    const struct zl_gemm_term *t = &g->term[p->term];
    const int64_t unit = zl_type_info[t->b_type].block, bytes = zl_type_info[t->b_type].block_bytes;
    const int64_t stride = zl_pack_row_bytes(t->b_type, t->ldb);
    const bool nk = t->b_layout == ZL_B_NK;
    const int64_t row = nk ? n0 : p->k0, rows = nk ? n : p->kc, from = nk ? p->k0 : n0, to = from + (nk ? p->kc : n);
    const char *at = (const char *)t->b + row * stride + from / unit * bytes;
    /* a row's last line may be one more than these where rows begin anywhere: then the next row brings it, or nobody */
    struct zl_ask a = {.at = at, .lines = ceil_div((ceil_div(to, unit) - from / unit) * bytes + (stride % LINE ? LINE / 2 : 0), LINE)};
    a.jump = stride - a.lines * LINE;
    a.left = t->b_rows ? 0 : rows * a.lines;
    return a;
}

/* Where the activations of a block lie, from row m0 on. */
static void strips_of(const struct zl_gemm *g, const struct zl_cut_block *b, int64_t m0, struct zl_strip *s)
{
    for (int i = 0; i < b->n_pieces; i++) {
        const struct zl_gemm_term *t = &g->term[b->piece[i].term];
        int64_t row = t->a_transposed ? 1 : t->lda, column = t->a_transposed ? t->lda : 1;
        s[i] = (struct zl_strip){t->a + m0 * row + b->piece[i].k0 * column, row, column, b->piece[i].kc};
    }
}

static void pack_activations(const struct kernels *f, const struct zl_gemm *g, const struct zl_cut_block *b,
                             int64_t m0, int m, float *dst)
{
    struct zl_strip s[ZL_GEMM_TERMS];
    strips_of(g, b, m0, s);
    for (int i = 0; i < b->n_pieces; i++) {
        bool transposed = s[i].row == 1 && g->term[b->piece[i].term].a_transposed;
        const int64_t lda = transposed ? s[i].column : s[i].row;
        if (b->piece[i].pairs)
            f->pairs->m(s[i].a, lda, transposed, m, s[i].kc, dst);
        else
            f->m(s[i].a, lda, transposed, m, s[i].kc, f->pm, dst);
        dst += b->piece[i].words * f->pm;
    }
}

static void tile_pairs(const struct zl_pairs *f, const struct zl_cut_block *b, const float *mpanel, const float *npanel, int m,
                       int n, int pn, float beta, float *c, int64_t ldc, struct zl_ask *ask)
{
    struct zl_run runs[ZL_GEMM_TERMS];
    for (int i = 0; i < b->n_pieces; i++)
        runs[i] = (struct zl_run){b->piece[i].pairs, b->piece[i].words};
    f->tile(m, n, b->n_pieces, runs, mpanel, npanel, pn, b->alpha, beta, c, ldc, ask);
}

/* A call, as each of its threads holds it. */
struct job {
    struct kernels f;
    const struct zl_gemm *g;
    float *shared;                    /* packed activations of the group */
    unsigned char *own;               /* each thread's panel of weights and spare tile */
    int64_t m0, m;                    /* rows of C */
    struct zl_cut_block block[GROUP_BLOCKS]; /* of the group */
    int n_blocks;
    int64_t packed;                   /* panels of rows whose activations are packed, of the rows; the rest is skinny */
    int first;                        /* the group opens the sum */
};

static uint64_t thread_bytes(void)
{
    uint64_t floats = (uint64_t)ZL_UKR_WIDEST * ZL_CUT_MOST + SLACK;
    return (floats * sizeof(float) + 127) / 128 * 128;
}

uint64_t zl_gemm_scratch_bytes(int threads)
{
    return (GROUP_FLOATS + SLACK) * sizeof(float) + (uint64_t)threads * thread_bytes();
}

/* Into how many parts the rows are cut, beside the panels of N, so that the busiest thread has least to do; a panel of weights
 * costs about as much to make as two tiles to use. */
static int64_t row_parts(int threads, int64_t n_panels, int64_t m_panels)
{
    int64_t best = 1, least = INT64_MAX;
    for (int64_t parts = 1; parts <= threads && parts <= m_panels; parts++) {
        int64_t cost = ceil_div(n_panels * parts, threads) * (ceil_div(m_panels, parts) + 2);
        if (cost < least) {
            least = cost;
            best = parts;
        }
    }
    return best;
}

static int width(const struct job *j, int64_t n0)
{
    return (int)(j->g->n - n0 < j->f.pn ? j->g->n - n0 : j->f.pn);
}

/* A float32 matrix that already looks like a panel, its rows of K one after the other; or NULL. */
static const float *ready_panel(const struct zl_gemm *g, const struct zl_cut_block *b, int64_t n0)
{
    const struct zl_gemm_term *t = &g->term[b->piece[0].term];
    if (b->n_pieces != 1 || t->alpha != b->alpha || t->b_type != ZL_F32 || t->b_layout != ZL_B_KN || t->b_rows || (uintptr_t)t->b % sizeof(float))
        return NULL;
    return (const float *)t->b + b->piece[0].k0 * t->ldb + n0;
}

/* Rows [m0, m0 + m) by a panel, unpacked. Few rows spare a panel that is ready the copying. */
static void skinny(const struct job *j, const struct zl_cut_block *b, const float *weights, int64_t pn, int64_t m0, int m,
                   int64_t n0, int n, float beta, struct zl_ask *ask)
{
    struct zl_strip s[ZL_GEMM_TERMS];
    strips_of(j->g, b, m0, s);
    j->f.skinny(m, b->n_pieces, s, weights, pn, n, b->alpha, beta, j->g->c + m0 * j->g->ldc + n0, j->g->ldc,
                ask);
}

/* The panel of N at n0 for M panels [from, to): all K blocks of the group. next: the panel that this thread is likely to do then. */
static void panel(const struct job *j, int64_t n0, int64_t from, int64_t to, int64_t next)
{
    const struct zl_gemm *g = j->g;
    const int pm = j->f.pm, n = width(j, n0);
    const bool narrow = n <= j->f.pn / 2; /* half the kernel's width would be wasted */
    const int pn = narrow ? j->f.pn / 2 : j->f.pn;
    float *own = (float *)(j->own + (uint64_t)omp_get_thread_num() * thread_bytes());
    const float *activations = j->shared;
    for (int b = 0; b < j->n_blocks; b++) {
        const struct zl_cut_block *block = &j->block[b];
        const bool opens = j->first && b == 0 && !g->accumulate;
        const float beta = opens && !g->bias ? 0 : 1;
        const float *weights = j->m < pm && !j->f.pairs && n % 16 == 0 ? ready_panel(g, block, n0) : NULL;
        const int64_t stride = weights ? g->term[block->piece[0].term].ldb : pn;
        if (!weights) {
            pack_weights(&j->f, g, block, n0, n, pn, own);
            weights = own;
        }
        struct zl_ask nothing = {0}, ask = nothing;
        if (b + 1 < j->n_blocks)
            ask = ask_for(g, block + 1, n0, n);
        else if (next < g->n)
            ask = ask_for(g, j->block, next, width(j, next));
        const int64_t asking = ceil_div(ask.left, block->words / ZL_ASK_STEP + 1); /* tiles, the last: lest it be forgotten again */
        for (int64_t i = from; i < to; i++) {
            struct zl_ask *soon = to - i <= asking + 1 ? &ask : &nothing;
            const int rows = (int)(j->m - i * pm < pm ? j->m - i * pm : pm);
            float *c = g->c + (j->m0 + i * pm) * g->ldc + n0;
            if (opens && g->bias)
                for (int r = 0; r < rows; r++)
                    memcpy(c + r * g->ldc, g->bias + n0, (size_t)n * sizeof *c);
            if (j->f.pairs)
                tile_pairs(j->f.pairs, block, activations + i * pm * block->words, weights, rows, n, pn, beta, c, g->ldc,
                           soon);
            else if (i < j->packed && !narrow)
                j->f.u->run(j->f.u, block->words, activations + i * pm * block->words, weights, n, block->alpha, beta, c, g->ldc,
                            soon);
            else
                skinny(j, block, weights, stride, j->m0 + i * pm, rows, n0, n, beta, soon);
        }
        activations += j->packed * pm * block->words;
    }
}

/* Only full panels of rows are packed, the rest is skinny; and all is where N is narrow. Pairs are always packed. */
static int64_t packed_panels(const struct job *j)
{
    if (j->f.pairs)
        return ceil_div(j->m, j->f.pm);
    return j->g->n > j->f.pn / 2 ? j->m / j->f.pm : 0;
}

/* Each thread packs and multiplies rows of its own by all weights: nobody waits, and activations stay in the cache of the core that wrote
 * them, since what runs over rows before and behind is shared out likewise. Every thread then makes every panel of weights. */
static void group_by_rows(const struct job *j)
{
    const int pm = j->f.pm, pn = j->f.pn;
    const int64_t m_panels = ceil_div(j->m, pm), threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t from = m_panels * thread / threads, to = m_panels * (thread + 1) / threads;
    struct zl_ask ask = ask_for(j->g, j->block, 0, width(j, 0));
    float *dst = j->shared;
    while (ask.left > 0)
        zl_ask_next(&ask);
    for (int b = 0; b < j->n_blocks && j->packed; b++) {
        for (int64_t i = from; i < to && i < j->packed; i++)
            pack_activations(&j->f, j->g, &j->block[b], j->m0 + i * pm, (int)(j->m - i * pm < pm ? j->m - i * pm : pm),
                             dst + i * pm * j->block[b].words);
        dst += j->packed * pm * j->block[b].words;
    }
    for (int64_t n0 = 0; n0 < j->g->n; n0 += pn)
        panel(j, n0, from, to, n0 + pn);
}

static bool by_rows(const struct job *j)
{
    const int64_t threads = omp_get_num_threads();
    return ceil_div(j->m, j->f.pm) * j->f.pm >= ROWS_WORTH * threads && j->m * j->g->n < ROWS_MOST * threads / zl_cut_total(j->g);
}

/* One group of K blocks of one block of rows, shared by the threads of the region it is called in. */
static void group(const struct job *j)
{
    const int pm = j->f.pm, pn = j->f.pn;
    const int64_t m_panels = ceil_div(j->m, pm), n_panels = ceil_div(j->g->n, pn);
    const int threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t parts = row_parts(threads, n_panels, m_panels);
    float *dst = j->shared;
    if (thread < n_panels * parts) {
        struct zl_ask ask = ask_for(j->g, j->block, thread / parts * pn, width(j, thread / parts * pn));
        while (ask.left > 0)
            zl_ask_next(&ask);
    }
    for (int b = 0; b < j->n_blocks && j->packed; b++) {
#pragma omp for schedule(static) nowait
        for (int64_t i = 0; i < j->packed; i++)
            pack_activations(&j->f, j->g, &j->block[b], j->m0 + i * pm, (int)(j->m - i * pm < pm ? j->m - i * pm : pm),
                             dst + i * pm * j->block[b].words);
        dst += j->packed * pm * j->block[b].words;
    }
    if (j->packed) {
#pragma omp barrier
    }
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < n_panels * parts; i++) {
        int64_t part = i % parts;
        panel(j, i / parts * pn, m_panels * part / parts, m_panels * (part + 1) / parts,
              (i + threads) / parts * pn);
    }
}

/* Without any product: bias, zero, or what is there. */
static void no_product(const struct zl_gemm *g)
{
    for (int64_t i = 0; i < g->m && !g->accumulate; i++)
        for (int64_t j = 0; j < g->n; j++)
            g->c[i * g->ldc + j] = g->bias ? g->bias[j] : 0;
}

static void check(const struct zl_gemm *g)
{
    assert(g->m >= 0 && g->n >= 0 && g->n_terms >= 0 && g->n_terms <= ZL_GEMM_TERMS);
    assert(g->ldc >= g->n && !(g->accumulate && g->bias));
    for (int i = 0; i < g->n_terms; i++) {
        const struct zl_gemm_term *t = &g->term[i];
        assert(t->k >= 0 && t->lda >= (t->a_transposed ? g->m : t->k));
        assert(t->ldb >= (t->b_layout == ZL_B_NK ? t->k : g->n));
        assert(t->b_type < ZL_TYPES && t->ldb % (int64_t)zl_type_info[t->b_type].block == 0);
        (void)t;
    }
    (void)g;
}

/* What each thread of the region does: all walk the same blocks, and meet where group() shares work. */
static void walk(struct job j)
{
    const struct zl_gemm *g = j.g;
    const int pm = j.f.pm;
    const int64_t blocks = ceil_div(g->m, MC), mc = ceil_div(ceil_div(g->m, blocks), pm) * pm; /* nearly equal: each packs all weights */
    for (j.m0 = 0; j.m0 < g->m; j.m0 += mc) {
        struct zl_cursor at = {0, 0};
        struct zl_cut_block next = zl_cut_next(g, j.f.pairs != NULL, &at);
        j.m = g->m - j.m0 < mc ? g->m - j.m0 : mc;
        j.packed = packed_panels(&j);
        for (j.first = 1; next.words > 0; j.first = 0) {
            int64_t room = GROUP_FLOATS / (ceil_div(j.m, pm) * pm);
            for (j.n_blocks = 0; next.words > 0 && next.words <= room && j.n_blocks < GROUP_BLOCKS;) {
                j.block[j.n_blocks++] = next;
                room -= next.words;
                next = zl_cut_next(g, j.f.pairs != NULL, &at);
            }
            if (!by_rows(&j)) {
                group(&j);
                continue;
            }
            group_by_rows(&j);
            if (next.words > 0 || j.m0 + mc < g->m) { /* what comes next lies elsewhere in the buffer: over what others still read */
#pragma omp barrier
            }
        }
    }
}

static struct kernels kernels_for(enum zl_compute compute, const struct zl_gemm *g)
{
    bool frozen = false;
    for (int t = 0; t < g->n_terms; t++)
        frozen = frozen || g->term[t].frozen;
    struct kernels f = {.u = zl_ukr_get(),
                        .nk = ZL_ISA_PICK(zl_pack_nk),
                        .kn = ZL_ISA_PICK(zl_pack_kn),
                        .m = ZL_ISA_PICK(zl_pack_m),
                        .skinny = ZL_ISA_PICK(zl_skinny)};
    if (compute == ZL_COMPUTE_BF16 && frozen) {
        f.pairs = zl_pairs_get();
        assert(f.pairs);
    }
    f.pn = f.pairs ? f.pairs->pn : f.u->pn;
    f.pm = f.pairs ? f.pairs->pm : f.u->pm;
    return f;
}

void zl_gemm(const struct zl_team *team, const struct zl_gemm *g)
{
    ZL_PROFILE(team, g->part);
    check(g);
    if (g->m == 0 || g->n == 0)
        return;
    if (zl_cut_total(g) == 0) {
        no_product(g);
        return;
    }
    assert(team->scratch_bytes >= zl_gemm_scratch_bytes(team->threads));
    struct zl_gemm rest = *g;
    if (zl_gemm_unpacked(team, &rest)) {
        g = &rest;
        if (zl_cut_total(g) == 0)
            return;
    }
    struct job j = {.g = g, .shared = team->scratch};
    j.f = kernels_for(team->compute, g);
    j.own = (unsigned char *)team->scratch + (GROUP_FLOATS + SLACK) * sizeof(float);
#pragma omp parallel num_threads(team->threads) if (team->threads > 1)
    {
        if (j.f.pairs && j.f.pairs->begin)
            j.f.pairs->begin();
        walk(j);
        if (j.f.pairs && j.f.pairs->end)
            j.f.pairs->end();
    }
}
