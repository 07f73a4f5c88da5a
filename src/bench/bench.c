/*
 * The order of the measurements, and what they share: see bench.h, measure.h. Kernels are measured on a thread of their own, because it is
 * pinned and the caller's must not be: a step's stages take their cores from it.
 */
#include "config.h"

#include "bench/measure.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "train/setup.h"

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double zl_bench_now(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double zl_bench_time(int threads, void (*run)(void *context), void *context, double budget)
{
    const double round = 1e-3; /* short beside a time slice, so that of many rounds some are undisturbed; long beside the clock */
    const clockid_t clock = threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
    double start = zl_bench_now(), t = seconds(clock), best;
    run(context);
    best = seconds(clock) - t;
    if (best < 1) { /* what caches and pages were not ready for is little beside more than that */
        t = seconds(clock);
        run(context);
        best = seconds(clock) - t;
    }
    const int calls = best >= round ? 1 : best <= round / 10000 ? 10000 : (int)(round / best) + 1;
    do {
        t = seconds(clock);
        for (int i = 0; i < calls; i++)
            run(context);
        t = (seconds(clock) - t) / calls;
        best = t < best ? t : best;
    } while (zl_bench_now() - start < budget);
    return best;
}

int zl_bench_stopped(const struct zl_bench *b)
{
    return zl_hooks_check(b->o->hooks, b->err);
}

void *zl_bench_take(struct zl_bench *b, uint64_t bytes)
{
    bytes = (bytes / 4096 + 1) * 4096;
    void *p = bytes <= zl_memory_available() / 2 ? aligned_alloc(4096, bytes) : NULL;
    if (p)
        return memset(p, 0, bytes);
    zl_fail(b->err, ZL_EMEMORY, "there are not %llu MiB of memory to measure with", (unsigned long long)(bytes >> 20));
    return NULL;
}

static bool wanted(const struct zl_bench_options *o, const char *part)
{
    for (size_t i = 0; i < o->only.n; i++)
        if (strcmp(o->only.v[i], part) == 0)
            return true;
    return o->only.n == 0;
}

static void *kernels(void *context)
{
    struct zl_bench *b = context;
    zl_cores_pin_team(&b->group);
    int rc = zl_bench_peak(b);
    if (!rc && wanted(b->o, "gemm"))
        rc = zl_bench_products(b);
    if (!rc && wanted(b->o, "ops"))
        rc = zl_bench_kernels(b);
    return rc ? b : NULL;
}

/* What the user should know before waiting for figures. */
static void note_conditions(const struct zl_bench_options *o)
{
    double load;
    if (getloadavg(&load, 1) == 1 && load > 1)
        zl_note("some %d programs are computing here: figures will be too low, above all with several threads", (int)(load + 0.5));
    if (!o->quick && wanted(o, "gemm") && !o->rows.n && !o->types.n)
        zl_note("measuring all products takes some minutes; --quick takes seconds");
}

int zl_bench_run(const struct zl_bench_options *o, const struct zl_bench_sink *sink, struct zl_error *err)
{
    struct zl_error own = {0};
    struct zl_bench b = {.o = o, .sink = sink, .err = err ? err : &own};
    pthread_t thread;
    void *failed = NULL;
    int rc = zl_cores_detect(&b.cores, b.err);
    if (!rc)
        rc = zl_cores_divide(&b.cores, (int)(o->threads > ZL_CORES_MAX ? ZL_CORES_MAX : o->threads), 1, NULL, &b.group, b.err);
    if (!rc)
        rc = zl_setup_check_compute(o->compute, b.err);
    if (rc)
        return rc;
    note_conditions(o);
    if (pthread_create(&thread, NULL, kernels, &b))
        return zl_fail(err, ZL_ESYSTEM, "a thread cannot be started");
    pthread_join(thread, &failed);
    if (failed)
        return b.err->code;
    return wanted(o, "step") ? zl_bench_training(&b) : 0;
}
