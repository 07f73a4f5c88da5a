/*
 * The kernels around the matrix products, at the shapes of SmolLM2-135M: operations a second where arithmetic counts, bytes (each array
 * once in and once out) where memory does. Attention counts the products of the mathematics: two a pair of query and key forward, four
 * backward, although the backward makes the scores again.
 */
#include "config.h"

#include <stdlib.h>

#include "bench/blocks.h"
#include "bench/measure.h"
#include "bench/shapes.h"
#include "kernel/attention.h"
#include "kernel/head.h"
#include "kernel/ops.h"

/* Arrays that all share: plenty of each. */
struct set {
    const struct zl_shape *s;
    struct zl_team team;
    int64_t t, ld; /* tokens; row of queries, keys and values */
    float *x, *y, *z, *u, *v, *w, *cs, *small;
    int32_t *positions;
    uint8_t *weight;
    struct zl_attn_seq seq;
    struct zl_attn attn;
    struct zl_head head;
};

static void norm(void *context)
{
    struct set *b = context;
    zl_rmsnorm(&b->team, b->t, b->s->d, b->x, b->w, 1e-5f, b->y, b->small);
}

static void norm_backward(void *context)
{
    struct set *b = context;
    zl_rmsnorm_backward(&b->team, b->t, b->s->d, b->y, b->x, b->w, b->small, b->z, 0);
}

static void rope(void *context)
{
    struct set *b = context;
    zl_rope(&b->team, b->t, (int)(b->s->heads + b->s->kv_heads), (int)b->s->head_dim, b->x, b->ld, b->positions, b->cs, 1, 0);
}

static void gated(void *context)
{
    struct set *b = context;
    const int64_t f = b->s->ffn;
    zl_gated(&b->team, ZL_SILU, b->t, f, b->x, b->x + f, 2 * f, b->y, f);
}

static void gated_backward(void *context)
{
    struct set *b = context;
    const int64_t f = b->s->ffn;
    zl_gated_backward(&b->team, ZL_SILU, b->t, f, b->y, f, b->x, b->x + f, 2 * f, b->z, b->z + f, b->u);
}

static void add(void *context)
{
    struct set *b = context;
    zl_add(&b->team, b->t * b->s->d, b->x, b->z);
}

static void squares(void *context)
{
    struct set *b = context;
    volatile double sink = zl_sum_squares(b->x, b->t * b->s->d);
    (void)sink;
}

static void adamw(void *context)
{
    struct set *b = context;
    static const struct zl_adamw o = {1e-3f, 0.9f, 0.99f, 1e-8f, 0.01f};
    zl_adamw_step(&o, 1, b->t * b->s->d, 1, b->x, b->y, b->z, b->v);
}

static void attention(void *context)
{
    struct set *b = context;
    zl_attention(&b->team, &b->attn, b->y, b->s->d, b->small);
}

static void attention_backward(void *context)
{
    struct set *b = context;
    const int64_t q = b->s->heads * b->s->head_dim, kv = b->s->kv_heads * b->s->head_dim;
    zl_attention_backward(&b->team, &b->attn, b->y, b->u, b->s->d, b->small, b->z, b->z + q, b->z + q + kv);
}

static void head(void *context)
{
    struct set *b = context;
    zl_head_loss(&b->team, &b->head, b->t, b->u, b->positions, 1, b->small, NULL, b->y);
}

static void head_evaluation(void *context)
{
    struct set *b = context;
    zl_head_loss(&b->team, &b->head, b->t, b->u, b->positions, 1, b->small, NULL, NULL);
}

/* Bytes a token in units of d and of the MLP's width; operations a token in units of d, for attention a pair of query and key, for the
 * head a token of the vocabulary. The arrays are filled anew before each, for the values that one leaves are no input of the next. */
static const struct {
    const char *name;
    void (*run)(void *context);
    double bytes_d, bytes_ffn, pair_flops, vocabulary_flops;
} all[] = {
    {"norm", norm, 8, 0, 0, 0},
    {"norm_backward", norm_backward, 12, 0, 0, 0},
    {"rope", rope, 0, 0, 0, 0}, /* its width is that of queries and keys */
    {"gated", gated, 0, 12, 0, 0},
    {"gated_backward", gated_backward, 0, 24, 0, 0},
    {"add", add, 12, 0, 0, 0},
    {"sum_squares", squares, 4, 0, 0, 0},
    {"adamw", adamw, 28, 0, 0, 0},
    {"attention", attention, 0, 0, 4, 0},
    {"attention_backward", attention_backward, 0, 0, 8, 0},
    {"head", head, 0, 0, 0, 4},
    {"head_evaluation", head_evaluation, 0, 0, 0, 2},
};

static float *floats(struct zl_bench *b, int64_t n)
{
    return b->err->code ? NULL : zl_bench_take(b, (uint64_t)n * sizeof(float));
}

static void fill(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 7919 & 0xfff) - 2048) / 2048;
}

static int open_set(struct zl_bench *b, struct set *s, int64_t most)
{
    const struct zl_shape *shape = s->s = &zl_shapes[ZL_SHAPE_SMOLLM2];
    const int64_t d = shape->d, f = shape->ffn, hd = shape->head_dim, kv = shape->kv_heads * hd;
    const int threads = b->group.n;
    uint64_t attn = zl_attention_scratch_bytes(threads, (int)shape->heads, (int)shape->kv_heads, (int)hd, most, most);
    uint64_t loss = zl_head_scratch_bytes(threads, d, most), seed = 1;
    const uint64_t blocks = (uint64_t)shape->vocab * (uint64_t)d / 32;
    s->ld = d + 2 * kv;
    s->team = (struct zl_team){.threads = threads, .scratch_bytes = attn > loss ? attn : loss};
    s->x = floats(b, most * 2 * f), s->y = floats(b, most * f), s->z = floats(b, most * 2 * f);
    s->u = floats(b, most * f), s->v = floats(b, most * d), s->w = floats(b, d), s->cs = floats(b, most * hd);
    s->small = floats(b, most * shape->heads);
    s->positions = (int32_t *)floats(b, most);
    s->team.scratch = floats(b, (int64_t)(s->team.scratch_bytes / sizeof(float)) + 1);
    s->weight = (uint8_t *)floats(b, (int64_t)blocks * 34 / 4 + 1);
    if (b->err->code)
        return b->err->code;
    for (int32_t i = 0; i < most; i++)
        s->positions[i] = i;
    fill(s->w, d), fill(s->cs, most * hd);
    zl_blocks_random(ZL_Q8_0, s->weight, blocks, &seed);
    s->head = (struct zl_head){.type = ZL_Q8_0, .weight = s->weight, .vocab = shape->vocab, .d = d};
    s->attn = (struct zl_attn){.heads = (int)shape->heads,
                               .kv_heads = (int)shape->kv_heads,
                               .head_dim = (int)hd,
                               .scale = 0.125f,
                               .n_seqs = 1,
                               .seqs = &s->seq,
                               .q = s->x,
                               .k = s->x + d,
                               .v = s->x + d + kv,
                               .ldq = s->ld,
                               .ldk = s->ld,
                               .ldv = s->ld};
    return 0;
}

static void close_set(struct set *s)
{
    free(s->x), free(s->y), free(s->z), free(s->u), free(s->v), free(s->w), free(s->cs), free(s->small);
    free(s->positions), free(s->weight), free(s->team.scratch);
}

/* Arrays as a step leaves them to kernel i. */
static void prepare(struct set *s, size_t i, int64_t t)
{
    const int64_t f = s->s->ffn;
    s->t = t;
    s->seq = (struct zl_attn_seq){0, t, 0, t};
    fill(s->x, t * 2 * f), fill(s->u, t * f);
    fill(s->z, t * 2 * f);
    for (int64_t j = 0; j < t * s->s->d; j++)
        s->v[j] = 1; /* a second moment is not negative */
    fill(s->y, t * f);
    if (all[i].run == norm_backward)
        norm(s);
    if (all[i].run == attention_backward)
        attention(s);
}

int zl_bench_kernels(struct zl_bench *b)
{
    static const int64_t tokens[] = {256, 2048};
    struct set s = {0};
    const int n_tokens = b->o->quick ? 1 : 2;
    int rc = open_set(b, &s, tokens[n_tokens - 1]);
    for (size_t i = 0; i < sizeof all / sizeof all[0] && !rc; i++)
        for (int k = 0; k < n_tokens && !rc; k++) {
            const double t = (double)tokens[k], d = s.s->d;
            struct zl_bench_kernel r = {.name = all[i].name, .tokens = tokens[k]};
            prepare(&s, i, tokens[k]);
            r.seconds = zl_bench_time(b->group.n, all[i].run, &s, b->o->quick ? 0.02 : 0.2);
            double bytes = t * (all[i].bytes_d * d + all[i].bytes_ffn * s.s->ffn);
            if (all[i].run == rope)
                bytes = t * 8 * (s.s->heads + s.s->kv_heads) * s.s->head_dim;
            double flops = d * t * (all[i].pair_flops * (t + 1) / 2 + all[i].vocabulary_flops * s.s->vocab);
            r.gbytes = bytes / r.seconds * 1e-9;
            r.gflops = flops / r.seconds * 1e-9;
            r.share = r.gflops / b->peak;
            b->sink->kernel(b->sink->context, &r);
            rc = zl_bench_stopped(b);
        }
    close_set(&s);
    return rc;
}
