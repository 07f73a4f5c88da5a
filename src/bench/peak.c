/* The peak: how many multiply-adds a second a core does, by instruction set, alone and beside the others; and the microkernel with its
 * panels in the first-level cache, which is what a matrix product can hope for. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bench/measure.h"
#include "kernel/micro.h"
#include "kernel/pairs.h"
#include "kernel/peak.h"

enum { ROUNDS = 100000, K = 256 };

typedef double run_fn(int64_t rounds, float *sink);

static run_fn *const runs[ZL_ISAS] = {
    [ZL_ISA_BASELINE] = zl_peak_run_baseline,
#ifdef ZL_ISA_X86
    [ZL_ISA_AVX2] = zl_peak_run_avx2,
    [ZL_ISA_AVX512] = zl_peak_run_avx512,
#endif
};

struct loop {
    run_fn *run;
    double flops;
};

static void one(void *context)
{
    struct loop *l = context;
    float x;
    l->flops = l->run(ROUNDS, &x);
    volatile float sink = x; /* the result counts */
    (void)sink;
}

/* All threads of the team run the loop; the region ends with the slowest. */
static void all(void *context)
{
    struct loop *l = context;
#pragma omp parallel
    {
        struct loop mine = *l;
        one(&mine);
    }
}

struct tile {
    const struct zl_ukr *u;
    float *m, *n, *c;
};

static void tiles(void *context)
{
    const struct tile *t = context;
    struct zl_ask ask = {0};
    for (int i = 0; i < 64; i++)
        t->u->run(t->u, K, t->m, t->n, t->u->pn, 1, 1, t->c, t->u->pn, &ask);
}

static int microkernel(struct zl_bench *b, double budget, struct zl_bench_peak *p)
{
    const struct zl_ukr *u = zl_ukr_get();
    float *memory = zl_bench_take(b, (3 * ZL_UKR_WIDEST * K + ZL_UKR_SLACK) * sizeof(float));
    if (!memory)
        return ZL_EMEMORY;
    struct tile t = {u, memory, memory + u->pm * K, memory + (u->pm + u->pn) * K + ZL_UKR_SLACK};
    p->microkernel = u->name;
    p->microkernel_gflops = 64 * 2.0 * u->pm * u->pn * K / zl_bench_time(1, tiles, &t, budget) * 1e-9;
    free(memory);
    return 0;
}

struct pairs {
    const struct zl_pairs *f;
    float *m, *n, *c;
};

static void pair_tiles(void *context)
{
    const struct pairs *t = context;
    const struct zl_run whole = {.pairs = 1, .words = K};
    struct zl_ask ask = {0};
    if (t->f->begin)
        t->f->begin();
    for (int i = 0; i < 64; i++)
        t->f->tile(t->f->pm, t->f->pn, 1, &whole, t->m, t->n, t->f->pn, 1, 1, t->c, t->f->pn, &ask);
    if (t->f->end)
        t->f->end();
}

static int microkernel_bf16(struct zl_bench *b, double budget, struct zl_bench_peak *p)
{
    const struct zl_pairs *f = zl_pairs_get();
    float *memory = zl_bench_take(b, 3 * ZL_UKR_WIDEST * K * sizeof(float));
    if (!memory)
        return ZL_EMEMORY;
    struct pairs t = {f, memory, memory + f->pm * K, memory + (f->pm + f->pn) * K};
    p->bf16 = f->name;
    p->no_amx = zl_tiles_missing();
    p->bf16_gflops = 64 * 2.0 * f->pm * f->pn * 2 * K / zl_bench_time(1, pair_tiles, &t, budget) * 1e-9;
    free(memory);
    return 0;
}

/* "model name : ..." of the first processor. */
static void name_cpu(char *out, size_t size)
{
    char *text = NULL;
    out[0] = '\0';
    if (zl_file_read("/proc/cpuinfo", 1 << 22, &text, NULL, NULL))
        return;
    const char *line = strstr(text, "model name"), *colon = line ? strchr(line, ':') : NULL;
    size_t n = colon ? strcspn(colon, "\n") : 0;
    if (n > 2) {
        n = n - 2 < size - 1 ? n - 2 : size - 1;
        memcpy(out, colon + 2, n);
        out[n] = '\0';
    }
    free(text);
}

int zl_bench_peak(struct zl_bench *b)
{
    const double budget = b->o->quick ? 0.05 : 0.3;
    struct zl_bench_peak p = {.threads = b->group.n, .compute = b->o->compute, .isa = zl_isa_get()};
    struct loop fastest = {0};
    name_cpu(p.cpu, sizeof p.cpu);
    for (int isa = 0; isa <= (int)p.isa; isa++) {
        struct loop l = {.run = runs[isa]};
        double seconds = zl_bench_time(1, one, &l, budget);
        p.isa_gflops[isa] = l.flops / seconds * 1e-9;
        if (p.isa_gflops[isa] <= p.gflops)
            continue;
        p.gflops = p.isa_gflops[isa];
        fastest = l;
    }
    p.all_gflops = fastest.flops / zl_bench_time(p.threads, all, &fastest, budget) * 1e-9;
    int rc = microkernel(b, budget, &p);
    if (!rc && p.compute == ZL_COMPUTE_BF16)
        rc = microkernel_bf16(b, budget, &p);
    b->peak = p.gflops * b->group.n;
    if (!rc && !(rc = zl_bench_stopped(b)))
        b->sink->peak(b->sink->context, &p);
    return rc;
}
