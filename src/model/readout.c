/* Fitting the ridge map: see readout.h. Sums are shifted by the first sample's mean, so float32 products lose nothing to it. */
#include "model/readout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/grow.h"
#include "kernel/gemm.h"
#include "model/base_pass.h"
#include "model/spd.h"

struct zl_map_sums {
    float *xx, *xr;  /* [d][d] */
    double *x, *r;   /* [d] weighted, shifted */
    float *x0, *r0;  /* [d] the shift */
    double weight;   /* of all rows */
    bool shifted;
};

struct zl_map_work {
    const struct zl_team *team;
    int64_t d;
    float *wx, *xs, *rs; /* [tokens][d] weighted shifted x; shifted x and r of the kept rows */
    double *weight;      /* [tokens] */
};

static int no_memory(struct zl_error *err)
{
    return zl_fail(err, ZL_EMEMORY, "out of memory while fitting the readouts");
}

int zl_map_work_open(struct zl_map_work **out, const struct zl_team *team, int64_t d, int64_t tokens, struct zl_error *err)
{
    const size_t rows = (size_t)(tokens * d);
    struct zl_map_work *w = calloc(1, sizeof *w);
    if ((*out = w))
        *w = (struct zl_map_work){.team = team,
                                  .d = d,
                                  .wx = calloc(rows, sizeof(float)),
                                  .xs = calloc(rows, sizeof(float)),
                                  .rs = calloc(rows, sizeof(float)),
                                  .weight = calloc((size_t)tokens, sizeof(double))};
    return w && w->wx && w->xs && w->rs && w->weight ? 0 : no_memory(err);
}

void zl_map_work_close(struct zl_map_work *w)
{
    if (!w)
        return;
    free(w->wx);
    free(w->xs);
    free(w->rs);
    free(w->weight);
    free(w);
}

int zl_map_sums_open(struct zl_map_sums **out, int64_t d, struct zl_error *err)
{
    const size_t n = (size_t)d;
    struct zl_map_sums *s = *out = calloc(1, sizeof *s);
    int rc = zl_array_check((uint64_t)d * (uint64_t)d, 3 * sizeof(float) + 3 * sizeof(double), "numbers of a readout's map", err);
    if (rc)
        return rc;
    if (s)
        *s = (struct zl_map_sums){.xx = calloc(n * n, sizeof(float)),
                                  .xr = calloc(n * n, sizeof(float)),
                                  .x = calloc(n, sizeof(double)),
                                  .r = calloc(n, sizeof(double)),
                                  .x0 = calloc(n, sizeof(float)),
                                  .r0 = calloc(n, sizeof(float))};
    return s && s->xx && s->xr && s->x && s->r && s->x0 && s->r0 ? 0 : no_memory(err);
}

void zl_map_sums_close(struct zl_map_sums *s)
{
    if (!s)
        return;
    free(s->xx);
    free(s->xr);
    free(s->x);
    free(s->r);
    free(s->x0);
    free(s->r0);
    free(s);
}

/* Products of the sample's rows into the sums. */
static void accumulate(struct zl_map_sums *s, struct zl_map_work *f, const struct zl_tokens *tok, const float *x_rows, const float *y_rows)
{
    const int64_t d = f->d;
    int64_t n = 0;
    for (int64_t i = 0; i < tok->t; i++) {
        if (tok->positions[i] == 0)
            continue;
        const float *x = x_rows + i * d, *yt = y_rows + i * d;
        float w = (float)f->weight[i];
        for (int64_t j = 0; j < d; j++) {
            float xs = x[j] - s->x0[j], rs = (yt[j] - x[j]) - s->r0[j];
            f->xs[n * d + j] = xs;
            f->rs[n * d + j] = rs;
            f->wx[n * d + j] = w * xs;
            s->x[j] += f->weight[i] * (double)xs;
            s->r[j] += f->weight[i] * (double)rs;
        }
        n++;
    }
    struct zl_gemm p = {.m = d, .n = d, .n_terms = 1, .c = s->xx, .ldc = d, .accumulate = true};
    p.term[0] = (struct zl_gemm_term){.a = f->wx, .lda = d, .a_transposed = true, .b = f->xs, .b_type = ZL_F32,
                                      .b_layout = ZL_B_KN, .ldb = d, .k = n, .alpha = 1};
    zl_gemm(f->team, &p);
    p.c = s->xr;
    p.term[0].b = f->rs;
    zl_gemm(f->team, &p);
}

static void set_shift(struct zl_map_sums *s, int64_t d, const struct zl_tokens *tok, const float *x_rows, const float *y_rows)
{
    int64_t n = 0;
    for (int64_t i = 0; i < tok->t; i++)
        n += tok->positions[i] != 0;
    for (int64_t j = 0; j < d; j++) {
        double x = 0, r = 0;
        for (int64_t i = 0; i < tok->t; i++)
            if (tok->positions[i] != 0) {
                x += (double)x_rows[i * d + j];
                r += (double)y_rows[i * d + j] - (double)x_rows[i * d + j];
            }
        s->x0[j] = n ? (float)(x / (double)n) : 0;
        s->r0[j] = n ? (float)(r / (double)n) : 0;
    }
}

void zl_map_sums_add(struct zl_map_sums *s, struct zl_map_work *w, const struct zl_tokens *tok, const float *x, const float *y)
{
    const int64_t d = w->d;
    for (int64_t i = 0; i < tok->t; i++) {
        double squares = 0;
        for (int64_t j = 0; j < d; j++)
            squares += (double)y[i * d + j] * (double)y[i * d + j];
        w->weight[i] = squares > 0 ? (double)d / squares : 0;
        if (tok->positions[i] != 0)
            s->weight += w->weight[i];
    }
    if (!s->shifted)
        set_shift(s, d, tok, x, y);
    s->shifted = true;
    accumulate(s, w, tok, x, y);
}

/* Covariance of x_i with r_j. */
static double with_rest(const struct zl_map_sums *s, int64_t d, int64_t i, int64_t j)
{
    const double w = s->weight;
    return (double)s->xr[i * d + j] / w - s->x[i] / w * (s->r[j] / w);
}

int zl_map_sums_solve(const struct zl_map_sums *s, int64_t d, struct zl_map *map, struct zl_error *err)
{
    const size_t square = (size_t)(d * d);
    double *c = malloc(square * sizeof *c), *r = malloc(square * sizeof *r), *work = malloc(zl_spd_work(d) * sizeof *work);
    double trace = 0, gain = 0;
    map->a = calloc(square, sizeof(float));
    map->b = calloc((size_t)d, sizeof(float));
    int rc = c && r && work && map->a && map->b ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory for a ridge map of width %d", (int)d);
    if (rc)
        goto out;
    const double w = s->weight;
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) {
            double mi = s->x[i] / w;
            c[i * d + j] = (double)s->xx[i * d + j] / w - mi * (s->x[j] / w);
            r[i * d + j] = with_rest(s, d, i, j);
        }
    for (int64_t i = 0; i < d; i++)
        trace += c[i * d + i];
    for (int64_t i = 0; i < d; i++)
        c[i * d + i] += 1e-2 * trace / (double)d;
    if (!(trace > 0) || !zl_spd_solve(c, r, d, work)) {
        rc = zl_fail(err, ZL_EINPUT, "the ridge map behind layer %u cannot be fitted: the hidden states do not vary",
                     map->landing);
    } else {
        for (int64_t i = 0; i < d; i++) {
            double b = (double)s->x0[i] + s->x[i] / w + (double)s->r0[i] + s->r[i] / w;
            for (int64_t j = 0; j < d; j++) {
                double a = r[j * d + i] + (i == j);
                map->a[i * d + j] = (float)a;
                b -= a * ((double)s->x0[j] + s->x[j] / w);
                gain += r[j * d + i] * with_rest(s, d, j, i);
            }
            map->b[i] = (float)b;
        }
        map->explained = gain;
    }
out:
    free(c);
    free(r);
    free(work);
    return rc;
}

int zl_readout_fit(const struct zl_model *m, int threads, const struct zl_sample *samples, size_t n_samples, int64_t tokens,
                   int64_t longest, struct zl_map *maps, uint32_t n, struct zl_error *err)
{
    const int64_t d = m->config.d;
    struct zl_base_pass pass = {0};
    struct zl_map_work *work = NULL;
    struct zl_map_sums **sums = calloc(n + 1, sizeof *sums);
    uint32_t *landing = calloc(n + 1, sizeof *landing);
    int rc = sums && landing ? 0 : no_memory(err);
    for (uint32_t k = 0; !rc && k < n; k++) {
        landing[k] = maps[k].landing;
        rc = zl_map_sums_open(&sums[k], d, err);
    }
    if (!rc)
        rc = zl_base_pass_open(&pass, m, threads, ZL_COMPUTE_F32, tokens, longest, landing, n, err);
    if (!rc)
        rc = zl_map_work_open(&work, &pass.block.team, d, tokens, err);
    for (size_t i = 0; !rc && i < n_samples; i++) {
        const float *y = zl_base_pass_run(&pass, samples[i].ids, &samples[i].tok);
        for (uint32_t k = 0; k < n; k++)
            zl_map_sums_add(sums[k], work, &samples[i].tok, pass.saved[k], y);
    }
    for (uint32_t k = 0; !rc && k < n; k++)
        rc = zl_map_sums_solve(sums[k], d, &maps[k], err);
    zl_base_pass_close(&pass);
    zl_map_work_close(work);
    for (uint32_t k = 0; sums && k < n; k++)
        zl_map_sums_close(sums[k]);
    free(sums);
    free(landing);
    return rc;
}

void zl_map_free(struct zl_map *map)
{
    free(map->a);
    free(map->b);
    map->a = map->b = NULL;
}
