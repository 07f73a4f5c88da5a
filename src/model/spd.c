/*
 * Cholesky factor and substitution: see spd.h. Blocked so that what is read over and over stays in a core's cache: a block of columns
 * of the factor, a strip of columns of the right sides. Sums have one order, whatever the threads.
 */
#include "model/spd.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { COLUMNS = 32, STRIP = 16 };

/* a . b in four sums, so that the additions do not wait for one another. */
static double dot(const double *a, const double *b, int64_t n)
{
    double s[4] = {0};
    int64_t k = 0;
    for (; k + 4 <= n; k += 4) {
        s[0] += a[k] * b[k];
        s[1] += a[k + 1] * b[k + 1];
        s[2] += a[k + 2] * b[k + 2];
        s[3] += a[k + 3] * b[k + 3];
    }
    for (; k < n; k++)
        s[0] += a[k] * b[k];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* Columns from .. to of the factor, where those before `from` are done: the square on the diagonal first, then the rows below it. */
static bool factor_columns(double *c, int64_t d, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        for (int64_t j = from; j <= i; j++) {
            const double t = c[i * d + j] - dot(c + i * d, c + j * d, j);
            if (i == j && (!(t > 0) || !isfinite(t)))
                return false;
            c[i * d + j] = i == j ? sqrt(t) : t / c[j * d + j];
        }
#pragma omp parallel for schedule(static)
    for (int64_t i = to; i < d; i++)
        for (int64_t j = from; j < to; j++)
            c[i * d + j] = (c[i * d + j] - dot(c + i * d, c + j * d, j)) / c[j * d + j];
    return true;
}

/* The lower triangle becomes the factor L, and the upper its transpose, so that both substitutions read rows. */
static bool factor(double *c, int64_t d)
{
    for (int64_t from = 0; from < d; from += COLUMNS)
        if (!factor_columns(c, d, from, from + COLUMNS < d ? from + COLUMNS : d))
            return false;
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < i; j++)
            c[j * d + i] = c[i * d + j];
    return true;
}

/* row -= sum of l[k] x[k] over k; row /= pivot. x: strips of STRIP columns. */
static void eliminate(double *row, const double *l, const double *x, int64_t n, double pivot)
{
    double t[STRIP];
    memcpy(t, row, sizeof t);
    for (int64_t k = 0; k < n; k++)
        for (int j = 0; j < STRIP; j++)
            t[j] -= l[k] * x[k * STRIP + j];
    for (int j = 0; j < STRIP; j++)
        row[j] = t[j] / pivot;
}

/* Columns of r through both triangles, in a strip of their own. */
static void substitute(const double *c, double *r, int64_t d, int64_t from, double *strip)
{
    const int64_t n = d - from < STRIP ? d - from : STRIP;
    memset(strip, 0, (size_t)(d * STRIP) * sizeof *strip);
    for (int64_t i = 0; i < d; i++)
        memcpy(strip + i * STRIP, r + i * d + from, (size_t)n * sizeof *strip);
    for (int64_t i = 0; i < d; i++)
        eliminate(strip + i * STRIP, c + i * d, strip, i, c[i * d + i]);
    for (int64_t i = d; i-- > 0;)
        eliminate(strip + i * STRIP, c + i * d + i + 1, strip + (i + 1) * STRIP, d - i - 1, c[i * d + i]);
    for (int64_t i = 0; i < d; i++)
        memcpy(r + i * d + from, strip + i * STRIP, (size_t)n * sizeof *strip);
}

uint64_t zl_spd_work(int64_t d)
{
    return (uint64_t)omp_get_max_threads() * (uint64_t)d * STRIP;
}

bool zl_spd_solve(double *c, double *r, int64_t d, double *work)
{
    if (!factor(c, d))
        return false;
#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < d; from += STRIP)
        substitute(c, r, d, from, work + omp_get_thread_num() * d * STRIP);
    return true;
}
