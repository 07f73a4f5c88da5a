/* Fitting the ridge map: see readout.h. Sums are shifted by the first sample's mean, so float32 products lose nothing to it. */
#include "model/readout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/grow.h"
#include "kernel/dequant.h"
#include "kernel/gemm.h"
#include "model/block.h"

struct sums { /* of one map */
    float *xx, *xr;      /* [d][d] */
    double *x, *r;       /* [d] weighted, shifted */
    float *x0, *r0;      /* [d] the shift */
    float *saved;        /* [tokens][d] hidden at the landing layer of the running sample */
};

struct fit {
    const struct zl_model *m;
    struct zl_block block; /* forward only, all layers, no adapters */
    struct zl_map *maps;
    struct sums *sums;
    uint32_t n;
    float *x, *wx, *xs, *rs; /* [tokens][d] embedding; weighted shifted x; shifted x and r of the kept rows */
    double total_weight;
    bool shifted;
};

static void *take(void **list, size_t *n, uint64_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (p)
        list[(*n)++] = p;
    return p;
}

/* Add one sample's rows to a map's sums. y: the final hidden states. */
static void accumulate(struct fit *f, struct sums *s, const struct zl_tokens *tok, const float *y, const double *weight)
{
    const int64_t d = f->m->config.d;
    int64_t n = 0;
    for (int64_t i = 0; i < tok->t; i++) {
        if (tok->positions[i] == 0)
            continue;
        const float *x = s->saved + i * d, *yt = y + i * d;
        float w = (float)weight[i];
        for (int64_t j = 0; j < d; j++) {
            float xs = x[j] - s->x0[j], rs = (yt[j] - x[j]) - s->r0[j];
            f->xs[n * d + j] = xs;
            f->rs[n * d + j] = rs;
            f->wx[n * d + j] = w * xs;
            s->x[j] += weight[i] * (double)xs;
            s->r[j] += weight[i] * (double)rs;
        }
        n++;
    }
    struct zl_gemm p = {.m = d, .n = d, .n_terms = 1, .c = s->xx, .ldc = d, .accumulate = true};
    p.term[0] = (struct zl_gemm_term){.a = f->wx, .lda = d, .a_transposed = true, .b = f->xs, .b_type = ZL_F32,
                                      .b_layout = ZL_B_KN, .ldb = d, .k = n, .alpha = 1};
    zl_gemm(&f->block.team, &p);
    p.c = s->xr;
    p.term[0].b = f->rs;
    zl_gemm(&f->block.team, &p);
}

static void set_shift(struct fit *f, struct sums *s, const struct zl_tokens *tok, const float *y)
{
    const int64_t d = f->m->config.d;
    int64_t n = 0;
    for (int64_t i = 0; i < tok->t; i++)
        n += tok->positions[i] != 0;
    for (int64_t j = 0; j < d; j++) {
        double x = 0, r = 0;
        for (int64_t i = 0; i < tok->t; i++)
            if (tok->positions[i] != 0) {
                x += (double)s->saved[i * d + j];
                r += (double)y[i * d + j] - (double)s->saved[i * d + j];
            }
        s->x0[j] = n ? (float)(x / (double)n) : 0;
        s->r0[j] = n ? (float)(r / (double)n) : 0;
    }
}

static void run_sample(struct fit *f, const struct zl_sample *sample, double *weight)
{
    const struct zl_model *m = f->m;
    const int64_t d = m->config.d;
    const struct zl_tokens *tok = &sample->tok;
    zl_dequant_rows(m->embed.type, m->embed.data, d, sample->ids, tok->t, f->x);
    const float *h = f->x;
    struct zl_block *b = &f->block;
    for (uint32_t i = 0; i < m->config.layers; i++) {
        b->acts[i].x = h;
        zl_layer_forward(&b->team, m, i, &b->own.layer[i], b->w, tok, &b->acts[i], &b->work, NULL);
        h = b->acts[i].y;
        for (uint32_t k = 0; k < f->n; k++)
            if (f->maps[k].landing == i + 1)
                memcpy(f->sums[k].saved, h, (size_t)(tok->t * d) * sizeof(float));
    }
    for (int64_t i = 0; i < tok->t; i++) {
        double s = 0;
        for (int64_t j = 0; j < d; j++)
            s += (double)h[i * d + j] * (double)h[i * d + j];
        weight[i] = s > 0 ? (double)d / s : 0;
        if (tok->positions[i] != 0)
            f->total_weight += weight[i];
    }
    for (uint32_t k = 0; k < f->n; k++) {
        if (!f->shifted)
            set_shift(f, &f->sums[k], tok, h);
        accumulate(f, &f->sums[k], tok, h, weight);
    }
    f->shifted = true;
}

/* In place: the lower triangle of c becomes its Cholesky factor. false: not positive definite. */
static bool cholesky(double *c, int64_t d)
{
    for (int64_t j = 0; j < d; j++) {
        double s = c[j * d + j];
        for (int64_t k = 0; k < j; k++)
            s -= c[j * d + k] * c[j * d + k];
        if (!(s > 0) || !isfinite(s))
            return false;
        double l = sqrt(s);
        c[j * d + j] = l;
#pragma omp parallel for schedule(static)
        for (int64_t i = j + 1; i < d; i++) {
            double t = c[i * d + j];
            for (int64_t k = 0; k < j; k++)
                t -= c[i * d + k] * c[j * d + k];
            c[i * d + j] = t / l;
        }
    }
    return true;
}

/* X = (L L')^-1 R for all columns of r [d][d], in place; rows are the unknowns, so every inner loop is contiguous. */
static void solve(const double *l, double *r, int64_t d)
{
#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < d; from += 64) {
        int64_t to = from + 64 < d ? from + 64 : d;
        for (int64_t i = 0; i < d; i++) {
            for (int64_t k = 0; k < i; k++)
                for (int64_t j = from; j < to; j++)
                    r[i * d + j] -= l[i * d + k] * r[k * d + j];
            for (int64_t j = from; j < to; j++)
                r[i * d + j] /= l[i * d + i];
        }
        for (int64_t i = d - 1; i >= 0; i--) {
            for (int64_t k = i + 1; k < d; k++)
                for (int64_t j = from; j < to; j++)
                    r[i * d + j] -= l[k * d + i] * r[k * d + j];
            for (int64_t j = from; j < to; j++)
                r[i * d + j] /= l[i * d + i];
        }
    }
}

static int finish(const struct fit *f, const struct sums *s, struct zl_map *map, struct zl_error *err)
{
    const int64_t d = f->m->config.d;
    const size_t square = (size_t)(d * d);
    double *c = malloc(square * sizeof *c), *r = malloc(square * sizeof *r), trace = 0, gain = 0;
    map->a = calloc(square, sizeof(float));
    map->b = calloc((size_t)d, sizeof(float));
    int rc = c && r && map->a && map->b ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory for a ridge map of width %d", (int)d);
    if (rc)
        goto out;
    const double w = f->total_weight;
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) {
            double mi = s->x[i] / w;
            c[i * d + j] = (double)s->xx[i * d + j] / w - mi * (s->x[j] / w);
            r[i * d + j] = (double)s->xr[i * d + j] / w - mi * (s->r[j] / w);
        }
    for (int64_t i = 0; i < d; i++)
        trace += c[i * d + i];
    for (int64_t i = 0; i < d; i++)
        c[i * d + i] += 1e-2 * trace / (double)d;
    double *cov = malloc(square * sizeof *cov);
    if (!cov) {
        rc = zl_fail(err, ZL_EMEMORY, "out of memory for a ridge map of width %d", (int)d);
        goto out;
    }
    memcpy(cov, r, square * sizeof *cov);
    if (!(trace > 0) || !cholesky(c, d)) {
        rc = zl_fail(err, ZL_EINPUT, "the ridge map behind layer %u cannot be fitted: the hidden states do not vary",
                     map->landing);
    } else {
        solve(c, r, d);
        for (int64_t i = 0; i < d; i++) {
            double b = (double)s->x0[i] + s->x[i] / w + (double)s->r0[i] + s->r[i] / w;
            for (int64_t j = 0; j < d; j++) {
                double a = r[j * d + i] + (i == j);
                map->a[i * d + j] = (float)a;
                b -= a * ((double)s->x0[j] + s->x[j] / w);
                gain += r[j * d + i] * cov[j * d + i];
            }
            map->b[i] = (float)b;
        }
        map->explained = gain;
    }
    free(cov);
out:
    free(c);
    free(r);
    return rc;
}

int zl_readout_fit(const struct zl_model *m, int threads, const struct zl_sample *samples, size_t n_samples, int64_t tokens,
                   int64_t longest, struct zl_map *maps, uint32_t n, struct zl_error *err)
{
    const uint64_t d = m->config.d, rows = (uint64_t)tokens * d * sizeof(float);
    struct fit f = {.m = m, .maps = maps, .n = n};
    const struct zl_block_spec spec = {.first = 0, .n_own = m->config.layers, .tokens = tokens, .longest = longest};
    void **owned = calloc(8 + 7 * (size_t)n, sizeof *owned);
    size_t n_owned = 0;
    double *weight = NULL;
    if (!owned)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    int rc = zl_array_check(d * d, 3 * sizeof(float) * n + 3 * sizeof(double), "numbers of the readouts' maps", err);
    if (!rc)
        rc = zl_block_open(&f.block, m, &spec, threads, err);
    if (rc)
        goto out;
    f.sums = take(owned, &n_owned, n * sizeof *f.sums);
    f.x = take(owned, &n_owned, rows);
    f.wx = take(owned, &n_owned, rows);
    f.xs = take(owned, &n_owned, rows);
    f.rs = take(owned, &n_owned, rows);
    weight = take(owned, &n_owned, (uint64_t)tokens * sizeof *weight);
    bool all = n_owned == 6;
    for (uint32_t k = 0; all && k < n; k++) {
        struct sums *s = &f.sums[k];
        s->xx = take(owned, &n_owned, d * d * sizeof(float));
        s->xr = take(owned, &n_owned, d * d * sizeof(float));
        s->x = take(owned, &n_owned, d * sizeof(double));
        s->r = take(owned, &n_owned, d * sizeof(double));
        s->x0 = take(owned, &n_owned, d * sizeof(float));
        s->r0 = take(owned, &n_owned, d * sizeof(float));
        s->saved = take(owned, &n_owned, rows);
        all = n_owned == 6 + 7 * ((size_t)k + 1);
    }
    if (!all) {
        rc = zl_fail(err, ZL_EMEMORY, "out of memory while fitting the readouts");
        goto out;
    }
    for (size_t i = 0; i < n_samples; i++)
        run_sample(&f, &samples[i], weight);
    for (uint32_t k = 0; !rc && k < n; k++)
        rc = finish(&f, &f.sums[k], &maps[k], err);
out:
    zl_block_close(&f.block);
    for (size_t i = 0; i < n_owned; i++)
        free(owned[i]);
    free(owned);
    return rc;
}

void zl_map_free(struct zl_map *map)
{
    free(map->a);
    free(map->b);
    map->a = map->b = NULL;
}
