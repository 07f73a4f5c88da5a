/* What the measurements share: the run they belong to, a clock, and repeating. Internal to this layer. */
#ifndef ZL_BENCH_MEASURE_H
#define ZL_BENCH_MEASURE_H

#include "bench/bench.h"
#include "pipe/cores.h"

struct zl_bench {
    const struct zl_bench_options *o;
    const struct zl_bench_sink *sink;
    struct zl_error *err;
    struct zl_cores cores;
    struct zl_core_group group;
    double peak; /* GFLOP/s of all threads together */
};

/* The parts. The first three compute on the calling thread, which is pinned with its team; they return 0 or a negative code. */
int zl_bench_peak(struct zl_bench *b);
int zl_bench_products(struct zl_bench *b);
int zl_bench_kernels(struct zl_bench *b);
int zl_bench_training(struct zl_bench *b);

/* Seconds of a clock that only goes forward. */
double zl_bench_now(void);

/* Seconds a call of run(context), which computes with so many threads: the best of the rounds that fit into `budget` seconds, at least two.
 * A round is one call, or as many as take a millisecond. The first call of all is not counted if it takes less than a second. With one
 * thread, seconds are the processor's. */
double zl_bench_time(int threads, void (*run)(void *context), void *context, double budget);

/* ZL_ESTOPPED with the sentence when whoever started this wants it to stop. */
int zl_bench_stopped(const struct zl_bench *b);

/* aligned, zeroed, malloc'd; NULL with the sentence in b->err where there is no room for it. */
void *zl_bench_take(struct zl_bench *b, uint64_t bytes);

#endif
