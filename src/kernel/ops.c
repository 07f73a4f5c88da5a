/*
 * The small operations of ops.h: rows divided over the team, the loops themselves in isa/. A row is
 * computed by one thread, in the same way whichever it is. Little work stays on the calling thread,
 * since waking a team costs some microseconds.
 */
#include "config.h"

#include "kernel/ops.h"

#include <assert.h>
#include <math.h>
#include <omp.h>

#include "kernel/loops.h"
#include "kernel/profile.h"

/* Floats that are worth a second thread. */
enum { WORTH = 1 << 14 };

static int threads_for(const struct zl_team *team, int64_t floats)
{
    int64_t most = floats / WORTH + 1;
    return team->threads < most ? team->threads : (int)most;
}

/* Thread i's share of n things among `of`. */
static int64_t share(int64_t n, int i, int of)
{
    return n / of * i + (i < n % of ? i : n % of);
}

void zl_rmsnorm(const struct zl_team *team, int64_t t, int64_t d, const float *x, const float *w,
                float eps, float *y, float *rstd)
{
    ZL_PROFILE(team, ZL_PART_NORM);
    int threads = threads_for(team, t * d);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        int me = omp_get_thread_num(), of = omp_get_num_threads();
        int64_t from = share(t, me, of), to = share(t, me + 1, of);
        ZL_ISA_PICK(zl_rmsnorm_rows)
        (to - from, d, x + from * d, w, eps, y + from * d, rstd ? rstd + from : 0);
    }
}

void zl_rmsnorm_backward(const struct zl_team *team, int64_t t, int64_t d, const float *dy,
                         const float *x, const float *w, const float *rstd, float *dx,
                         int accumulate)
{
    ZL_PROFILE(team, ZL_PART_NORM);
    int threads = threads_for(team, t * d);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        int me = omp_get_thread_num(), of = omp_get_num_threads();
        int64_t from = share(t, me, of), to = share(t, me + 1, of);
        ZL_ISA_PICK(zl_rmsnorm_backward_rows)
        (to - from, d, dy + from * d, x + from * d, w, rstd + from, dx + from * d, accumulate);
    }
}

void zl_rope(const struct zl_team *team, int64_t t, int heads, int head_dim, float *x, int64_t ld,
             const int32_t *positions, const float *cs, int sign, int interleaved)
{
    ZL_PROFILE(team, ZL_PART_ROPE);
    assert(head_dim % 2 == 0 && head_dim <= ZL_ROPE_DIM);
    int threads = threads_for(team, t * heads * head_dim);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < t; i++)
        ZL_ISA_PICK(zl_rope_row)
    (heads, head_dim, x + i * ld, cs + (int64_t)positions[i] * head_dim, sign, interleaved);
}

void zl_gated(const struct zl_team *team, enum zl_activation act, int64_t t, int64_t f,
              const float *gate, const float *up, int64_t ldg, float *h, int64_t ldh)
{
    ZL_PROFILE(team, ZL_PART_GATED);
    int threads = threads_for(team, t * f);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < t; i++)
        ZL_ISA_PICK(zl_gated_row)(act, f, gate + i * ldg, up + i * ldg, h + i * ldh);
}

void zl_gated_backward(const struct zl_team *team, enum zl_activation act, int64_t t, int64_t f,
                       const float *dh, int64_t ldh, const float *gate, const float *up,
                       int64_t ldg, float *dgate, float *dup, float *h)
{
    ZL_PROFILE(team, ZL_PART_GATED);
    int threads = threads_for(team, t * f);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < t; i++)
        ZL_ISA_PICK(zl_gated_backward_row)
    (act, f, dh + i * ldh, gate + i * ldg, up + i * ldg, dgate + i * ldg, dup + i * ldg,
     h ? h + i * ldh : 0);
}

void zl_add(const struct zl_team *team, int64_t n, const float *x, float *y)
{
    int threads = threads_for(team, n);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        int me = omp_get_thread_num(), of = omp_get_num_threads();
        int64_t from = share(n, me, of), to = share(n, me + 1, of);
        ZL_ISA_PICK(zl_add_range)(to - from, x + from, y + from);
    }
}

void zl_narrow(const struct zl_team *team, int64_t n, const float *x, uint16_t *y)
{
    int threads = threads_for(team, n);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        int me = omp_get_thread_num(), of = omp_get_num_threads();
        int64_t from = share(n, me, of), to = share(n, me + 1, of);
        ZL_ISA_PICK(zl_narrow_range)(to - from, x + from, y + from);
    }
}

void zl_widen(const struct zl_team *team, int64_t n, const uint16_t *x, float *y)
{
    int threads = threads_for(team, n);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        int me = omp_get_thread_num(), of = omp_get_num_threads();
        int64_t from = share(n, me, of), to = share(n, me + 1, of);
        ZL_ISA_PICK(zl_widen_range)(to - from, x + from, y + from);
    }
}

double zl_sum_squares(const float *x, int64_t n)
{
    return ZL_ISA_PICK(zl_sum_squares_range)(x, n);
}

void zl_adamw_step(const struct zl_adamw *o, int64_t step, int64_t n, float clip, const float *g,
                   float *p, float *m, float *v)
{
    double b1 = (double)o->beta1, b2 = (double)o->beta2, lr = (double)o->lr;
    struct zl_adamw_constants c = {
        .clip = clip,
        .decay = (float)(1 - lr * (double)o->weight_decay),
        .beta1 = o->beta1,
        .rest1 = (float)(1 - b1),
        .beta2 = o->beta2,
        .rest2 = (float)(1 - b2),
        .rate = (float)(lr / (1 - pow(b1, (double)step))),
        .unbias2 = (float)(1 / sqrt(1 - pow(b2, (double)step))),
        .eps = o->eps,
    };
    ZL_ISA_PICK(zl_adamw_range)(&c, n, g, p, m, v);
}
