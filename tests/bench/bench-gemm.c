/*
 * Speed of the matrix product at the shapes of a small model, beside the peak of this core's fused multiply-adds, which is measured
 * first. Each number is the best of several repetitions, since other programs disturb. Run by hand:
 *     bench-gemm [-t THREADS] [-r REPETITIONS] [-m M] [-k TYPE] [-c f32|bf16]
 * -c bf16: percentages are of the float32 peak all the same. Times are the processor's with one thread.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernel/gemm.h"
#include "kernel/pack.h"

static clockid_t clock_used = CLOCK_MONOTONIC;

static double now(void)
{
    struct timespec t;
    clock_gettime(clock_used, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *take(uint64_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 4095) / 4096 * 4096);
    if (!p)
        exit(1);
    memset(p, 0, bytes);
    return p;
}

/* The microkernel alone on panels in the first-level cache, k long enough for C not to matter. */
static double peak(void)
{
    const struct zl_ukr *u = zl_ukr_get();
    enum { K = 256, CALLS = 400 };
    float *m = take((uint64_t)u->pm * K * 4 + 256), *n = take((uint64_t)u->pn * K * 4 + 256);
    float *c = take((uint64_t)u->pm * (uint64_t)u->pn * 4);
    double best = 1e9;
    for (int r = 0; r < 30; r++) {
        double t = now();
        for (int i = 0; i < CALLS; i++)
            u->run(u, K, m, n, 1, c, u->pn);
        t = now() - t;
        best = t < best ? t : best;
    }
    free(m), free(n), free(c);
    return 2.0 * u->pm * u->pn * K * CALLS / best * 1e-9;
}

static void fill(enum zl_type type, uint8_t *p, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        p[i] = type == ZL_F32 || type == ZL_F16 || type == ZL_BF16 ? 0 : (uint8_t)((i * 2654435761u) >> 13 & 0x3b);
}

/* Best seconds of zl_gemm. Several copies of the weight take turns, as a model's layers do, up to some 40 MB. */
static double measure(const struct zl_team *team, enum zl_type type, enum zl_layout layout, int64_t m, int64_t n,
                      int64_t k, int repetitions)
{
    int64_t ldb = layout == ZL_B_NK ? k : n, rows = layout == ZL_B_NK ? n : k;
    int64_t bytes = zl_pack_row_bytes(type, ldb) * rows;
    int64_t copies = 40000000 / bytes;
    copies = copies < 1 ? 1 : copies > 30 ? 30 : copies;
    uint8_t *b = take((uint64_t)(bytes * copies));
    fill(type, b, bytes * copies);
    float *a = take((uint64_t)(m * k) * 4), *c = take((uint64_t)(m * n) * 4);
    for (int64_t i = 0; i < m * k; i++)
        a[i] = (float)(i % 17) - 8;
    struct zl_gemm g = {.m = m, .n = n, .n_terms = 1, .c = c, .ldc = n};
    double best = 1e9;
    for (int r = 0; r < repetitions; r++) {
        g.term[0] = (struct zl_gemm_term){.a = a, .lda = k, .b = b + r % copies * bytes, .b_type = type,
                                          .b_layout = layout, .ldb = ldb, .k = k, .alpha = 1, .frozen = true};
        double t = now();
        zl_gemm(team, &g);
        t = now() - t;
        best = t < best ? t : best;
    }
    free(a), free(b), free(c);
    return best;
}

int main(int argc, char **argv)
{
    static const enum zl_type types[] = {ZL_F32, ZL_BF16, ZL_Q8_0, ZL_Q4_1, ZL_Q4_K};
    static const int64_t shapes[][2] = {{576, 576}, {576, 192}, {576, 1536}, {1536, 576}, {576, 49152}};
    static const int64_t ms[] = {1, 8, 32, 128, 256, 512};
    int only_threads = 0, repetitions = 40, only_m = 0;
    const char *only_type = NULL;
    enum zl_compute compute = ZL_COMPUTE_F32;
    for (int o; (o = getopt(argc, argv, "t:r:m:k:c:")) != -1;)
        switch (o) {
        case 't': only_threads = atoi(optarg); break;
        case 'r': repetitions = atoi(optarg); break;
        case 'm': only_m = atoi(optarg); break;
        case 'k': only_type = optarg; break;
        case 'c': compute = strcmp(optarg, "bf16") == 0 ? ZL_COMPUTE_BF16 : ZL_COMPUTE_F32; break;
        default: return 2;
        }
    if (zl_compute_missing(compute)) {
        fprintf(stderr, "bench-gemm: -c bf16: %s\n", zl_compute_missing(compute));
        return 1;
    }
    clock_used = CLOCK_THREAD_CPUTIME_ID;
    double top = peak();
    printf("microkernel %s, alone %.1f GFLOP/s a core\n", zl_ukr_get()->name, top);
    for (int threads = 1; threads <= 2; threads++) {
        if (only_threads && threads != only_threads)
            continue;
        struct zl_team team = {.threads = threads, .scratch_bytes = zl_gemm_scratch_bytes(threads), .compute = compute};
        clock_used = threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
        team.scratch = take(team.scratch_bytes);
        printf("\n%d thread%s; GFLOP/s (%% of %d x peak)\n%-6s %-22s", threads, threads > 1 ? "s" : "", threads, "type", "K x N");
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
            if (!only_m || only_m == ms[i])
                printf("     M=%-8lld", (long long)ms[i]);
        puts("");
        for (size_t y = 0; y < sizeof types / sizeof *types; y++)
            for (size_t s = 0; s < 2 * (sizeof shapes / sizeof *shapes); s++) {
                enum zl_layout layout = s % 2 ? ZL_B_KN : ZL_B_NK;
                int64_t k = shapes[s / 2][layout], n = shapes[s / 2][!layout];
                /* K blocks need rows of 256: the nearest wider model */
                int64_t unit = zl_type_info[types[y]].block == 256 ? 256 : 1;
                k = (k + unit - 1) / unit * unit, n = (n + unit - 1) / unit * unit;
                if (only_type && strcmp(only_type, zl_type_info[types[y]].name) != 0)
                    continue;
                printf("%-6s %5lld x %-5lld %-8s", zl_type_info[types[y]].name, (long long)k, (long long)n,
                       layout == ZL_B_NK ? "forward" : "backward");
                for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
                    if (only_m && only_m != ms[i])
                        continue;
                    int64_t work = ms[i] * n * k;
                    int reps = work > 1000000000 ? 3 : repetitions;
                    double t = measure(&team, types[y], layout, ms[i], n, k, reps);
                    double gflops = 2.0 * (double)work / t * 1e-9;
                    printf("  %6.1f (%3.0f%%)", gflops, 100 * gflops / top / threads);
                }
                puts("");
                fflush(stdout);
            }
        free(team.scratch);
    }
    return 0;
}
