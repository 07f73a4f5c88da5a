/*
 * Products whose weights go through no panel: see unpacked.h. Few rows (generation) are memory's work, not arithmetic's: a row of weights is
 * read once and multiplied as it is taken apart. In 8-bit integers that is so for any number of rows.
 *
 * Columns of C are shared out, and an element is computed by one thread in the order of its terms and of k.
 */
#include "config.h"

#include "kernel/unpacked.h"

#include <assert.h>
#include <string.h>

#include "kernel/bytes.h"
#include "kernel/pack.h"

enum {
    COLUMNS = 16,      /* parts are cut at multiples of these */
    WORTH = 1 << 16,   /* products that are worth a part: some microseconds */
    ROUNDED = 16       /* rows of activations that are rounded in one part */
};

/* How a term is added to C. */
enum way {
    PACKED, /* not here */
    BYTES,  /* in 8-bit integers */
    DOT,    /* each row of activations by each stored row of weights */
    READY   /* weights that lie as a panel does: an adapter's B */
};

struct job {
    const struct zl_gemm *g;
    const struct zl_bytes *bytes;
    enum way way[ZL_GEMM_TERMS];
    struct zl_byte_rows rounded[ZL_GEMM_TERMS];
    int terms;
    int64_t parts;
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static enum way way_of(const struct zl_team *team, const struct zl_gemm *g, const struct zl_gemm_term *t)
{
    const bool few = g->m <= (team->compute == ZL_COMPUTE_BF16 ? 1 : ZL_GEMM_FEW);
    const bool by_rows = !t->a_transposed || (g->m == 1 && t->lda == 1);
    if (t->b_layout == ZL_B_NK && by_rows) {
        if (team->compute == ZL_COMPUTE_INT8 && t->frozen && zl_compute_has(ZL_COMPUTE_INT8, t->b_type))
            return BYTES;
        return few ? DOT : PACKED;
    }
    return few && !t->a_transposed && t->b_type == ZL_F32 && !t->b_rows && g->n % COLUMNS == 0 && (uintptr_t)t->b % sizeof(float) == 0
               ? READY
               : PACKED;
}

static void columns(void *arg, int64_t part)
{
    const struct job *j = arg;
    const struct zl_gemm *g = j->g;
    const int64_t units = ceil_div(g->n, COLUMNS), n0 = units * part / j->parts * COLUMNS;
    const int64_t end = units * (part + 1) / j->parts * COLUMNS, n = (end < g->n ? end : g->n) - n0;
    float *c = g->c + n0;
    for (int64_t i = 0; i < g->m && !g->accumulate; i++)
        for (int64_t e = 0; e < n; e++)
            c[i * g->ldc + e] = g->bias ? g->bias[n0 + e] : 0;
    for (int i = 0; i < j->terms; i++) {
        const struct zl_gemm_term *t = &g->term[i];
        struct zl_weight w = {t->b_type, t->b, zl_pack_row_bytes(t->b_type, t->ldb), t->b_rows};
        struct zl_strip s = {t->a, t->lda, 1, t->k};
        struct zl_ask nothing = {0};
        switch (j->way[i]) {
        case BYTES:
            j->bytes->dot(&w, n0, n, g->m, &j->rounded[i], t->alpha, c, g->ldc);
            break;
        case DOT:
            ZL_ISA_PICK(zl_dot)(&w, n0, n, t->k, (int)g->m, t->a, t->lda, t->alpha, c, g->ldc);
            break;
        case READY:
            ZL_ISA_PICK(zl_skinny)((int)g->m, 1, &s, (const float *)t->b + n0, t->ldb, (int)n, t->alpha, 1, c, g->ldc, &nothing);
            break;
        case PACKED:
            break;
        }
    }
}

/* Into how many parts: of some microseconds each, and a few for each thread, since one may come late. */
static int64_t parts_of(const struct zl_team *team, const struct zl_gemm *g, int terms)
{
    const int64_t units = ceil_div(g->n, COLUMNS), most = 4 * team->threads;
    int64_t k = 0;
    for (int i = 0; i < terms; i++)
        k += g->term[i].k;
    int64_t parts = team->threads == 1 ? 1 : ceil_div(g->m, ZL_DOT_ROWS) * g->n * k / WORTH + 1;
    parts = parts < most ? parts : most;
    return parts < units ? parts : units;
}

struct rounding {
    const struct job *j;
    int term;
};

static void round_some(void *arg, int64_t part)
{
    const struct rounding *r = arg;
    const struct zl_gemm_term *t = &r->j->g->term[r->term];
    const int64_t from = part * ROUNDED, m = r->j->g->m - from < ROUNDED ? r->j->g->m - from : ROUNDED;
    r->j->bytes->round(&r->j->rounded[r->term], from, m, t->k, t->a + from * t->lda, t->lda);
}

/* Bytes of scratch for a row of activations, rounded for each term that wants it. */
static uint64_t row_bytes(const struct job *j)
{
    uint64_t bytes = 0;
    for (int i = 0; i < j->terms; i++)
        if (j->way[i] == BYTES)
            bytes += zl_byte_row_bytes(j->g->term[i].k);
    return bytes;
}

static void compute(const struct zl_team *team, struct job *j)
{
    char *memory = team->scratch;
    for (int i = 0; i < j->terms; i++) {
        const int64_t k = j->g->term[i].k;
        if (j->way[i] != BYTES)
            continue;
        j->rounded[i] = zl_byte_rows_at(memory, j->g->m, k);
        memory += (uint64_t)j->g->m * zl_byte_row_bytes(k);
        zl_team_share(team, ceil_div(j->g->m, ROUNDED), round_some, &(struct rounding){j, i});
    }
    j->parts = parts_of(team, j->g, j->terms);
    zl_team_share(team, j->parts, columns, j);
}

bool zl_gemm_unpacked(const struct zl_team *team, struct zl_gemm *g)
{
    struct job j = {.g = g, .bytes = team->compute == ZL_COMPUTE_INT8 ? zl_bytes_get() : NULL};
    while (j.terms < g->n_terms && (j.way[j.terms] = way_of(team, g, &g->term[j.terms])) != PACKED)
        j.terms++;
    if (j.terms == 0)
        return false;
    /* As many rows at once as the scratch holds rounded. */
    const uint64_t bytes = row_bytes(&j);
    int64_t rows = g->m;
    if (bytes && (uint64_t)rows > team->scratch_bytes / bytes)
        rows = (int64_t)(team->scratch_bytes / bytes);
    assert(rows > 0);
    for (int64_t m0 = 0; m0 < g->m; m0 += rows) {
        struct zl_gemm some = *g;
        some.m = g->m - m0 < rows ? g->m - m0 : rows;
        some.c += m0 * g->ldc;
        for (int i = 0; i < j.terms; i++)
            some.term[i].a += m0 * some.term[i].lda;
        j.g = &some;
        compute(team, &j);
    }
    g->accumulate = true;
    g->bias = NULL;
    g->n_terms -= j.terms;
    memmove(g->term, g->term + j.terms, (size_t)g->n_terms * sizeof *g->term);
    return true;
}
