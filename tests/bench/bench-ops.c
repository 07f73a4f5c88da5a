/*
 * Speed of the kernels around the matrix products, at the shapes of SmolLM2-135M: GFLOP/s where
 * arithmetic counts, GB/s (each array once in and once out) where memory does. The best of several
 * repetitions, since other programs disturb. Run by hand: bench-ops [-t THREADS] [-r REPETITIONS]
 * [NAME…]      NAME: the beginning of what to measure
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernel/attention.h"
#include "kernel/head.h"
#include "kernel/ops.h"

enum {
    D = 576,
    F = 1536,
    HEADS = 9,
    KV_HEADS = 3,
    HEAD_DIM = 64,
    VOCAB = 49152,
    LD = (HEADS + 2 * KV_HEADS) * HEAD_DIM
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
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

static float *floats(int64_t n)
{
    float *x = take((uint64_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 2654435761u) >> 8 & 0xffff) / 32768 - 1;
    return x;
}

static struct zl_team team = {.threads = 1};
static int repetitions = 20;

/* What all measurements share: plenty of each. */
static struct {
    int64_t t;
    float *x, *y, *z, *u, *v, *w, *cs, *rstd;
    int32_t *pos;
    uint8_t *weight;
    struct zl_attn attn;
    struct zl_attn_seq seq[8];
    struct zl_head head;
} b;

static void norm(void)
{
    zl_rmsnorm(&team, b.t, D, b.x, b.w, 1e-5f, b.y, b.rstd);
}

static void norm_backward(void)
{
    zl_rmsnorm_backward(&team, b.t, D, b.y, b.x, b.w, b.rstd, b.z, 1);
}

static void rope(void)
{
    zl_rope(&team, b.t, HEADS + KV_HEADS, HEAD_DIM, b.x, LD, b.pos, b.cs, 1, 0);
}

static void gated(void)
{
    zl_gated(&team, ZL_SILU, b.t, F, b.x, b.x + F, 2 * F, b.y, F);
}

static void gated_backward(void)
{
    zl_gated_backward(&team, ZL_SILU, b.t, F, b.y, F, b.x, b.x + F, 2 * F, b.z, b.z + F, b.u);
}

static void gated_erf(void)
{
    zl_gated(&team, ZL_GELU_ERF, b.t, F, b.x, b.x + F, 2 * F, b.y, F);
}

static void add(void)
{
    zl_add(&team, b.t * D, b.x, b.y);
}

static volatile double sink;

static void squares(void)
{
    sink = zl_sum_squares(b.x, b.t * D);
}

static void adamw(void)
{
    static const struct zl_adamw o = {1e-3f, 0.9f, 0.99f, 1e-8f, 0.01f};
    zl_adamw_step(&o, 1, b.t * D, 1, b.x, b.y, b.z, b.u);
}

static void attention(void)
{
    zl_attention(&team, &b.attn, b.y, D, b.rstd);
}

static void attention_backward(void)
{
    zl_attention_backward(&team, &b.attn, b.y, b.u, D, b.rstd, b.z, b.z + D,
                          b.z + D + KV_HEADS * HEAD_DIM);
}

static void head(void)
{
    zl_head_loss(&team, &b.head, b.t, b.u, b.pos, 1, b.rstd, NULL, b.y);
}

static void head_evaluation(void)
{
    zl_head_loss(&team, &b.head, b.t, b.u, b.pos, 1, b.rstd, NULL, NULL);
}

/* Work a token: bytes, or floating-point operations; for attention a token and a key that it sees.
 */
static const struct {
    const char *name;
    void (*run)(void);
    double bytes, flops;
    int pairs;
} all[] = {
    {"norm", norm, 8 * D, 0, 0},
    {"norm-backward", norm_backward, 16 * D, 0, 0},
    {"rope", rope, 8 * D, 0, 0},
    {"gated-silu", gated, 12 * F, 0, 0},
    {"gated-silu-backward", gated_backward, 24 * F, 0, 0},
    {"gated-gelu-erf", gated_erf, 12 * F, 0, 0},
    {"add", add, 12 * D, 0, 0},
    {"sum-squares", squares, 4 * D, 0, 0},
    {"adamw", adamw, 28 * D, 0, 0},
    {"attention", attention, 0, 4.0 * D, 1},
    {"attention-backward", attention_backward, 0, 10.0 * D, 1},
    {"head", head, 0, 4.0 * D *VOCAB, 0},
    {"head-evaluation", head_evaluation, 0, 2.0 * D *VOCAB, 0},
};

static void prepare(int64_t most)
{
    b.x = floats(most * 2 * F), b.y = floats(most * F), b.z = floats(most * 2 * F);
    b.u = floats(most * F), b.w = floats(2 * F), b.cs = floats(most * HEAD_DIM),
    b.rstd = floats(most * HEADS);
    b.pos = take((uint64_t)most * sizeof *b.pos);
    for (int32_t i = 0; i < most; i++)
        b.pos[i] = i;
    int64_t bytes = (int64_t)VOCAB * D / 32 * 34;
    b.weight = take((uint64_t)bytes);
    for (int64_t i = 0; i < bytes; i++)
        b.weight[i] = i % 34 == 0 ? 0x66 : i % 34 == 1 ? 0x18 : (uint8_t)((i * 2654435761u) >> 13);
    b.head = (struct zl_head){.type = ZL_Q8_0, .weight = b.weight, .vocab = VOCAB, .d = D};
    b.attn = (struct zl_attn){
        HEADS, KV_HEADS, HEAD_DIM, 0.125f, 1, b.seq, b.x, b.x + D, b.x + D + KV_HEADS * HEAD_DIM,
        LD,    LD,       LD};
    uint64_t a = zl_attention_scratch_bytes(team.threads, HEADS, KV_HEADS, HEAD_DIM, most, most);
    uint64_t h = zl_head_scratch_bytes(team.threads, D, most);
    team.scratch_bytes = a > h ? a : h;
    team.scratch = take(team.scratch_bytes);
}

static int wanted(const char *name, char *const *names)
{
    if (!*names)
        return 1;
    for (; *names; names++)
        if (strncmp(name, *names, strlen(*names)) == 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    static const int64_t ts[] = {256, 512, 2048};
    for (int c; (c = getopt(argc, argv, "t:r:")) != -1;)
        if (c == 't')
            team.threads = atoi(optarg);
        else if (c == 'r')
            repetitions = atoi(optarg);
        else
            return 2;
    prepare(ts[2]);
    printf("%-22s %6s %10s %10s %8s   (%d threads)\n", "", "T", "us", "GFLOP/s", "GB/s",
           team.threads);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; wanted(all[i].name, argv + optind) && k < 3; k++) {
            if (k == 2 && !all[i].pairs)
                continue;
            b.t = ts[k];
            b.seq[0] = (struct zl_attn_seq){0, b.t, 0, b.t};
            double best = 1e9;
            int times = all[i].flops > 1e7 ? 3 : repetitions;
            for (int r = 0; r < times; r++) {
                double t = now();
                all[i].run();
                t = now() - t;
                best = t < best ? t : best;
            }
            double n = (double)b.t * (all[i].pairs ? ((double)b.t + 1) / 2 : 1);
            printf("%-22s %6d %10.1f %10.1f %8.1f\n", all[i].name, (int)b.t, best * 1e6,
                   n * all[i].flops / best * 1e-9, n * all[i].bytes / best * 1e-9);
        }
    return 0;
}
