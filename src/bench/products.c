/*
 * Matrix products at the shapes of training: each linear layer forward (y = x W^T) and backward (dx = dy W), from weights in their stored
 * type. In training a weight comes from memory each time it is used, so several copies of it take turns, together larger than
 * the last cache, in small pages as a mapped file has them.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "bench/blocks.h"
#include "bench/measure.h"
#include "bench/shapes.h"

#define LEAST_BYTES (UINT64_C(48) << 20) /* of all copies: also where the caches are unknown or small */
#define MOST_BYTES (UINT64_C(256) << 20)

struct layer {
    int64_t in, out;
};

enum { LAYERS = 5 };

static void layers_of(const struct zl_shape *s, struct layer *l)
{
    const int64_t d = s->d, kv = (int64_t)s->kv_heads * s->head_dim;
    const struct layer all[LAYERS] = {{d, d}, {d, kv}, {d, s->ffn}, {s->ffn, d}, {d, s->vocab}};
    memcpy(l, all, sizeof all);
}

static uint64_t weight_bytes(enum zl_type type, const struct layer *l)
{
    return (uint64_t)(l->in * l->out) / zl_type_info[type].block * zl_type_info[type].block_bytes;
}

/* What all products share. */
struct pool {
    struct zl_team team;
    uint8_t *weights; /* of one type at a time */
    uint64_t weight_bytes;
    float *floats; /* A, and C behind it */
};

struct product {
    const struct pool *pool;
    struct zl_gemm g;
    uint64_t bytes, copies, turn;
};

static void run(void *context)
{
    struct product *p = context;
    p->g.term[0].b = p->pool->weights + p->turn * p->bytes;
    p->turn = p->turn + 1 < p->copies ? p->turn + 1 : 0;
    zl_gemm(&p->pool->team, &p->g);
}

static void measure(struct zl_bench *b, const struct pool *pool, const char *model, enum zl_type type, const struct layer *l,
                    enum zl_layout layout, int64_t m)
{
    const bool forward = layout == ZL_B_NK;
    struct zl_bench_product r = {.model = model, .type = type, .layout = layout, .in = l->in, .out = l->out, .m = m};
    struct product p = {.pool = pool, .bytes = weight_bytes(type, l)};
    const int64_t k = forward ? l->in : l->out, n = forward ? l->out : l->in;
    p.copies = pool->weight_bytes / p.bytes;
    for (int64_t i = 0; i < m * k; i++) /* neither results nor zeros: growing and vanishing numbers have other speeds */
        pool->floats[i] = (float)((i * 7919 & 0xfff) - 2048) / 2048;
    p.g = (struct zl_gemm){.m = m, .n = n, .n_terms = 1, .c = pool->floats + (m * k + 15) / 16 * 16, .ldc = n};
    p.g.term[0] = (struct zl_gemm_term){
        .a = pool->floats, .lda = k, .b_type = type, .b_layout = layout, .ldb = l->in, .k = k, .alpha = 1, .frozen = true};
    r.seconds = zl_bench_time(b->group.n, run, &p, b->o->quick ? 0.02 : 0.2);
    r.gflops = 2.0 * (double)m * (double)l->in * (double)l->out / r.seconds * 1e-9;
    r.share = r.gflops / b->peak;
    b->sink->product(b->sink->context, &r);
}

/* Types and rows that were asked for, or the usual ones; fewer of them when it must be quick. */
struct plan {
    enum zl_type type[ZL_TYPES];
    int64_t rows[64];
    int n_types, n_rows, n_shapes, n_layers;
};

static int make_plan(struct zl_bench *b, struct plan *p)
{
    static const enum zl_type types[] = {ZL_F32, ZL_BF16, ZL_Q8_0, ZL_Q4_1, ZL_Q4_K}, quick_types[] = {ZL_Q8_0, ZL_Q4_1};
    static const int64_t rows[] = {1, 8, 32, 128, 512, 2048}, quick_rows[] = {1, 32, 512};
    const struct zl_bench_options *o = b->o;
    const bool quick = o->quick;
    *p = (struct plan){.n_types = quick ? 2 : 5, .n_rows = quick ? 3 : 6, .n_shapes = quick ? 1 : ZL_SHAPES};
    p->n_layers = quick ? LAYERS - 1 : LAYERS;
    memcpy(p->type, quick ? quick_types : types, (size_t)p->n_types * sizeof *types);
    memcpy(p->rows, quick ? quick_rows : rows, (size_t)p->n_rows * sizeof *rows);
    if (o->types.n > ZL_TYPES || o->rows.n > sizeof p->rows / sizeof p->rows[0])
        return zl_fail(b->err, ZL_EUSAGE, "so many types or row counts make no sense");
    for (size_t i = 0; i < o->types.n; i++)
        if (!zl_type_find(o->types.v[i], &p->type[i]))
            return zl_fail(b->err, ZL_EUSAGE, "there is no weight type '%s'", o->types.v[i]);
    for (size_t i = 0; i < o->rows.n; i++)
        p->rows[i] = (int64_t)o->rows.v[i];
    p->n_types = o->types.n ? (int)o->types.n : p->n_types;
    p->n_rows = o->rows.n ? (int)o->rows.n : p->n_rows;
    return 0;
}

static int open_pool(struct zl_bench *b, const struct plan *p, struct pool *pool)
{
    int64_t most_rows = 0, most_columns = 0; /* of A and C together */
    for (int i = 0; i < p->n_rows; i++)
        most_rows = p->rows[i] > most_rows ? p->rows[i] : most_rows;
    pool->weight_bytes = 2 * b->cores.l3_bytes;
    pool->weight_bytes = pool->weight_bytes < LEAST_BYTES  ? LEAST_BYTES
                         : pool->weight_bytes > MOST_BYTES ? MOST_BYTES
                                                           : pool->weight_bytes;
    for (int s = 0; s < p->n_shapes; s++) {
        struct layer l[LAYERS];
        layers_of(&zl_shapes[s], l);
        for (int i = 0; i < p->n_layers; i++) {
            most_columns = l[i].in + l[i].out > most_columns ? l[i].in + l[i].out : most_columns;
            for (int t = 0; t < p->n_types; t++)
                if (weight_bytes(p->type[t], &l[i]) > pool->weight_bytes)
                    pool->weight_bytes = weight_bytes(p->type[t], &l[i]);
        }
    }
    pool->team = (struct zl_team){
        .threads = b->group.n, .scratch_bytes = zl_gemm_scratch_bytes(b->group.n), .compute = b->o->compute};
    pool->team.scratch = zl_bench_take(b, pool->team.scratch_bytes);
    if (pool->team.scratch)
        pool->floats = zl_bench_take(b, ((uint64_t)most_rows * (uint64_t)most_columns + 16) * sizeof(float));
    if (pool->floats)
        pool->weights = zl_bench_take(b, pool->weight_bytes);
    if (!pool->weights)
        return ZL_EMEMORY;
    /* advice: where it is not taken the figures are a little rosier */
    madvise(pool->weights, pool->weight_bytes / 4096 * 4096, MADV_NOHUGEPAGE);
    return 0;
}

static int measure_type(struct zl_bench *b, const struct plan *p, struct pool *pool, enum zl_type type)
{
    uint64_t seed = 1;
    int rc = 0;
    zl_blocks_random(type, pool->weights, pool->weight_bytes / zl_type_info[type].block_bytes, &seed);
    for (int s = 0; s < p->n_shapes; s++) {
        struct layer l[LAYERS];
        layers_of(&zl_shapes[s], l);
        for (int i = 0; i < p->n_layers; i++) {
            if (l[i].in % zl_type_info[type].block) {
                const struct zl_bench_skipped skipped = {zl_shapes[s].name, type, l[i].in, l[i].out};
                b->sink->skipped(b->sink->context, &skipped);
                continue;
            }
            for (int layout = ZL_B_NK; layout <= ZL_B_KN; layout++)
                for (int r = 0; r < p->n_rows && !rc; r++) {
                    measure(b, pool, zl_shapes[s].name, type, &l[i], (enum zl_layout)layout, p->rows[r]);
                    rc = zl_bench_stopped(b);
                }
        }
    }
    return rc;
}

int zl_bench_products(struct zl_bench *b)
{
    struct plan p;
    struct pool pool = {0};
    int rc = make_plan(b, &p);
    if (!rc)
        rc = open_pool(b, &p, &pool);
    for (int t = 0; t < p.n_types && !rc; t++)
        rc = measure_type(b, &p, &pool, p.type[t]);
    free(pool.team.scratch);
    free(pool.floats);
    free(pool.weights);
    return rc;
}
