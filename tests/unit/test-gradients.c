/*
 * The gradients that the fast kernels give, against central differences of the references in double: nothing stands between a kernel
 * that training calls and the slope of the function that it is said to have. Shapes have edges: several blocks, none of them full.
 */
#include "kernel/attention.h"
#include "kernel/dequant.h"
#include "kernel/gemm.h"
#include "kernel/head.h"
#include "kernel/ops.h"
#include "kernel/reference.h"
#include "tests/unit/near.h"

/* A function of n numbers x, and its gradient as a kernel gave it. */
static void check_slopes(const char *what, double (*value)(void *), void *arg, double *x, const float *gradient, int64_t n,
                         double bound)
{
    double worst = 0, largest = 0;
    const int64_t step = n > 60 ? n / 60 : 1;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)gradient[i]));
    for (int64_t i = 0; i < n; i += step) {
        double residual = fabs(near_slope(value, arg, x + i) - gradient[i]);
        worst = isnan(residual) ? INFINITY : fmax(worst, residual);
    }
    print_message("  %s: residual %.2e of the largest, bound %.0e\n", what, worst / largest, bound);
    assert_true(largest > 0 && worst / largest <= bound);
}

static double weighted(const double *y, const double *c, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += y[i] * c[i];
    return sum;
}

/* Rows of inputs and of a loss's weights, in both types. */
struct rows {
    int64_t t, d;
    float *x, *c;
    double *xd, *cd, *y;
};

static struct rows rows_make(int64_t t, int64_t d, float amplitude, uint64_t *seed)
{
    struct rows r = {t, d, near_floats(t * d, amplitude, seed), near_floats(t * d, 1, seed), NULL, NULL, NULL};
    r.xd = near_doubles(r.x, t * d);
    r.cd = near_doubles(r.c, t * d);
    r.y = near_doubles(r.x, t * d);
    return r;
}

static void rows_free(struct rows *r)
{
    free(r->x), free(r->c), free(r->xd), free(r->cd), free(r->y);
}

struct norm {
    struct rows r;
    double *w, *rstd;
};

static double norm_value(void *arg)
{
    struct norm *s = arg;
    zl_rmsnorm_ref(s->r.t, s->r.d, s->r.xd, s->w, 1e-5, s->r.y, s->rstd);
    return weighted(s->r.y, s->r.cd, s->r.t * s->r.d);
}

static void the_norm_has_its_slope(void **state)
{
    (void)state;
    enum { T = 7, D = 83 };
    uint64_t seed = 1;
    double rstd_d[T];
    float *w = near_floats(D, 1, &seed), rstd[T], y[T * D], dx[T * D];
    struct norm s = {rows_make(T, D, 2, &seed), near_doubles(w, D), rstd_d};
    struct zl_team team = near_team(2, 64);
    zl_rmsnorm(&team, T, D, s.r.x, w, 1e-5f, y, rstd);
    zl_rmsnorm_backward(&team, T, D, s.r.c, s.r.x, w, rstd, dx, 0);
    check_slopes("rmsnorm", norm_value, &s, s.r.xd, dx, T * D, 1e-6);
    rows_free(&s.r);
    free(w), free(s.w), free(team.scratch);
}

struct gated {
    struct rows gate, up;
    enum zl_activation act;
};

static double gated_value(void *arg)
{
    struct gated *s = arg;
    zl_gated_ref(s->act, s->gate.t, s->gate.d, s->gate.xd, s->up.xd, s->gate.d, s->gate.y, s->gate.d);
    return weighted(s->gate.y, s->gate.cd, s->gate.t * s->gate.d);
}

static void gated_units_have_their_slopes(void **state)
{
    (void)state;
    enum { T = 5, F = 77, N = T * F };
    static const char *const names[] = {"silu", "gelu tanh", "gelu erf", "relu"};
    uint64_t seed = 2;
    float dgate[N], dup[N];
    struct gated s = {rows_make(T, F, 4, &seed), rows_make(T, F, 2, &seed), ZL_SILU};
    struct zl_team team = near_team(2, 64);
    for (int act = ZL_SILU; act <= ZL_RELU; act++) {
        s.act = (enum zl_activation)act;
        zl_gated_backward(&team, s.act, T, F, s.gate.c, F, s.gate.x, s.up.x, F, dgate, dup, NULL);
        check_slopes(names[act], gated_value, &s, s.gate.xd, dgate, N, 1e-6);
        check_slopes("its other factor", gated_value, &s, s.up.xd, dup, N, 1e-6);
    }
    rows_free(&s.gate), rows_free(&s.up), free(team.scratch);
}

struct rope {
    struct rows r;
    double *cs;
    int32_t *positions;
    int heads, interleaved;
};

static double rope_value(void *arg)
{
    struct rope *s = arg;
    memcpy(s->r.y, s->r.xd, (size_t)(s->r.t * s->r.d) * sizeof *s->r.y);
    zl_rope_ref(s->r.t, s->heads, (int)(s->r.d / s->heads), s->r.y, s->r.d, s->positions, s->cs, 1, s->interleaved);
    return weighted(s->r.y, s->r.cd, s->r.t * s->r.d);
}

static void rope_has_its_slope(void **state)
{
    (void)state;
    enum { T = 6, HEADS = 3, DIM = 22, N = T * HEADS * DIM };
    uint64_t seed = 3;
    int32_t positions[T] = {0, 5, 1, 4, 4, 2};
    float cs[6 * DIM];
    for (int i = 0; i < 6 * DIM; i += 2) {
        double angle = 3 * near_random(&seed);
        cs[i] = (float)cos(angle), cs[i + 1] = (float)sin(angle);
    }
    struct rope s = {rows_make(T, HEADS * DIM, 1, &seed), near_doubles(cs, 6 * DIM), positions, HEADS, 0};
    struct zl_team team = near_team(2, 64);
    for (; s.interleaved < 2; s.interleaved++) {
        float *dx = near_copy(s.r.c, N);
        zl_rope(&team, T, HEADS, DIM, dx, HEADS * DIM, positions, cs, -1, s.interleaved);
        check_slopes(s.interleaved ? "rope, pairs" : "rope, halves", rope_value, &s, s.r.xd, dx, N, 1e-6);
        free(dx);
    }
    rows_free(&s.r), free(s.cs), free(team.scratch);
}

struct attention {
    struct zl_attn a;
    struct rows r; /* queries, keys and values; the weights are those of the output, in rows of their own */
    double *out, *c;
    int64_t ldo;
};

static double attention_value(void *arg)
{
    struct attention *s = arg;
    const double *k = s->r.xd + s->ldo, *v = k + s->a.kv_heads * s->a.head_dim;
    zl_attention_ref(&s->a, s->r.xd, k, v, s->out, s->ldo, NULL);
    return weighted(s->out, s->c, s->r.t * s->ldo);
}

static void attention_has_its_slopes(void **state)
{
    (void)state;
    enum { HEADS = 4, KV = 2, DIM = 19, T = 150, LDO = HEADS * DIM, LD = LDO + 2 * KV * DIM };
    static const struct zl_attn_seq seqs[] = {{0, 131, 0, 131}, {131, 19, 131, 19}};
    uint64_t seed = 4;
    float *out = near_floats(T * LDO, 0, &seed), *dout = near_floats(T * LDO, 1, &seed), *lse = near_floats(T * HEADS, 0, &seed);
    float *dx = near_floats(T * LD, 0, &seed);
    for (int threads = 1; threads <= 8; threads += 7) { /* whole heads, blocks alone: see attention.c */
        struct attention s = {.r = rows_make(T, LD, 2, &seed), .ldo = LDO};
        s.out = near_doubles(out, T * LDO), s.c = near_doubles(dout, T * LDO);
        struct zl_team team = near_team(threads, zl_attention_scratch_bytes(threads, HEADS, KV, DIM, 131, T));
        s.a = (struct zl_attn){.heads = HEADS, .kv_heads = KV, .head_dim = DIM, .scale = 0.3f, .n_seqs = 2, .seqs = seqs,
                               .q = s.r.x, .k = s.r.x + LDO, .v = s.r.x + LDO + KV * DIM, .ldq = LD, .ldk = LD, .ldv = LD};
        zl_attention(&team, &s.a, out, LDO, lse);
        zl_attention_backward(&team, &s.a, out, dout, LDO, lse, dx, dx + LDO, dx + LDO + KV * DIM);
        check_slopes("attention", attention_value, &s, s.r.xd, dx, T * LD, 1e-6);
        rows_free(&s.r), free(s.out), free(s.c), free(team.scratch);
    }
    free(out), free(dout), free(lse), free(dx);
}

struct head {
    struct zl_head head;
    double *e, *h, *loss;
    const int32_t *targets;
    int64_t rows;
    double weight;
};

static double head_value(void *arg)
{
    struct head *s = arg;
    zl_head_loss_ref(&s->head, s->e, s->rows, s->h, s->targets, 1, s->loss, NULL, NULL);
    double sum = 0;
    for (int64_t i = 0; i < s->rows; i++)
        sum += s->weight * s->loss[i];
    return sum;
}

static void head_and_loss_have_their_slope(void **state)
{
    (void)state;
    enum { VOCAB = 301, D = 45, ROWS = 37 };
    uint64_t seed = 5;
    float *e = near_floats(VOCAB * D, 1, &seed), *h = near_floats(ROWS * D, 1, &seed);
    float *dh = near_floats(ROWS * D, 0, &seed), loss[ROWS];
    int32_t targets[ROWS], ids[VOCAB / 2];
    double loss_d[ROWS];
    for (int subset = 0; subset < 2; subset++) {
        const int64_t n = subset ? VOCAB / 2 : VOCAB;
        struct head s = {.e = near_doubles(e, VOCAB * D), .loss = loss_d, .targets = targets, .rows = ROWS, .weight = 0.25};
        s.head = (struct zl_head){.weight = e, .vocab = VOCAB, .d = D, .subset = subset ? ids : NULL, .n_subset = n};
        s.h = near_doubles(h, ROWS * D);
        for (int32_t i = 0; i < VOCAB / 2; i++)
            ids[i] = 2 * i + 1;
        for (int i = 0; i < ROWS; i++)
            targets[i] = (int32_t)(i * 89 % n);
        struct zl_team team = near_team(2, zl_head_scratch_bytes(2, D, ROWS));
        zl_head_loss(&team, &s.head, ROWS, h, targets, 0.25f, loss, NULL, dh);
        check_slopes(subset ? "head, part of the vocabulary" : "head", head_value, &s, s.h, dh, ROWS * D, 1e-6);
        free(s.e), free(s.h), free(team.scratch);
    }
    free(e), free(h), free(dh);
}

/* Two linear layers with the same input and adapters of their own, as a layer's queries and keys: y_i = x W_i^T + s_i (x A_i^T) B_i^T. */
enum { LORA_T = 29, LORA_IN = 96, LORA_RANKS = 13, LORA_OUTS = 80 + 33 };
static const struct {
    int64_t out, rank, column; /* its first row of A, its first column of y */
    int64_t row;
    float scale;
} lora[] = {{80, 8, 0, 0, 2}, {33, 5, 80, 8, 0.5f}};

struct linear {
    double *x, *w, *a, *bt, *c; /* A of both one below the other; B^T [rank][out] of each one behind the other */
};

static double linear_value(void *arg)
{
    const struct linear *s = arg;
    double sum = 0;
    for (int64_t t = 0; t < LORA_T; t++) {
        double xa[LORA_RANKS] = {0};
        for (int64_t r = 0; r < LORA_RANKS; r++)
            for (int64_t k = 0; k < LORA_IN; k++)
                xa[r] += s->x[t * LORA_IN + k] * s->a[r * LORA_IN + k];
        const double *bt = s->bt;
        for (int i = 0; i < 2; bt += lora[i].rank * lora[i].out, i++)
            for (int64_t j = 0; j < lora[i].out; j++) {
                double y = 0, update = 0;
                for (int64_t k = 0; k < LORA_IN; k++)
                    y += s->x[t * LORA_IN + k] * s->w[(lora[i].column + j) * LORA_IN + k];
                for (int64_t r = 0; r < lora[i].rank; r++)
                    update += xa[lora[i].row + r] * bt[r * lora[i].out + j];
                sum += s->c[t * LORA_OUTS + lora[i].column + j] * (y + lora[i].scale * update);
            }
    }
    return sum;
}

static void product(const struct zl_team *team, int64_t m, int64_t n, float *c, int64_t ldc, int terms,
                    const struct zl_gemm_term *term)
{
    struct zl_gemm g = {.m = m, .n = n, .n_terms = terms, .c = c, .ldc = ldc};
    memcpy(g.term, term, (size_t)terms * sizeof *term);
    zl_gemm(team, &g);
}

static void linear_layers_with_adapters_have_their_slopes(void **state)
{
    (void)state;
    enum { B_SIZE = 8 * 80 + 5 * 33 };
    uint64_t seed = 6;
    const enum zl_type type = ZL_Q8_0;
    const int64_t stride = LORA_IN / 32 * 34;
    uint8_t w[LORA_OUTS * (LORA_IN / 32 * 34)];
    for (int64_t i = 0; i < LORA_OUTS * LORA_IN / 32; i++) {
        w[i * 34] = 0, w[i * 34 + 1] = 0x20; /* a scale of 2^-7 */
        for (int j = 2; j < 34; j++)
            w[i * 34 + j] = (uint8_t)(int8_t)(100 * near_random(&seed));
    }
    float *wf = near_floats(LORA_OUTS * LORA_IN, 0, &seed);
    zl_dequant(type, w, wf, LORA_OUTS * LORA_IN);
    float *x = near_floats(LORA_T * LORA_IN, 1, &seed), *a = near_floats(LORA_RANKS * LORA_IN, 1, &seed);
    float *bt = near_floats(B_SIZE, 1, &seed), *db = near_floats(B_SIZE, 0, &seed);
    float *dy = near_floats(LORA_T * LORA_OUTS, 1, &seed), *xa = near_floats(LORA_T * LORA_RANKS, 0, &seed);
    float *dxa = near_floats(LORA_T * LORA_RANKS, 0, &seed), *dx = near_floats(LORA_T * LORA_IN, 0, &seed);
    float *da = near_floats(LORA_RANKS * LORA_IN, 0, &seed), *y = near_floats(LORA_T * LORA_OUTS, 0, &seed);
    struct zl_team team = near_team(2, zl_gemm_scratch_bytes(2));
    struct linear s = {near_doubles(x, LORA_T * LORA_IN), near_doubles(wf, LORA_OUTS * LORA_IN), near_doubles(a, LORA_RANKS * LORA_IN),
                       near_doubles(bt, B_SIZE), near_doubles(dy, LORA_T * LORA_OUTS)};

    /* the products of a training step, see model/layer.c */
    struct zl_gemm_term down = {.a = x, .lda = LORA_IN, .b = a, .ldb = LORA_IN, .k = LORA_IN, .alpha = 1}, back[3];
    product(&team, LORA_T, LORA_RANKS, xa, LORA_RANKS, 1, &down);
    double sum = 0;
    for (int64_t i = 0, b = 0; i < 2; b += lora[i].rank * lora[i].out, i++) {
        const uint8_t *wi = w + lora[i].column * stride;
        const float *dyi = dy + lora[i].column, *bi = bt + b;
        const struct zl_gemm_term forward[] = {
            {.a = x, .lda = LORA_IN, .b = wi, .b_type = type, .ldb = LORA_IN, .k = LORA_IN, .alpha = 1, .frozen = true},
            {.a = xa + lora[i].row, .lda = LORA_RANKS, .b = bi, .b_layout = ZL_B_KN, .ldb = lora[i].out, .k = lora[i].rank,
             .alpha = lora[i].scale}};
        const struct zl_gemm_term through_b = {
            .a = dyi, .lda = LORA_OUTS, .b = bi, .ldb = lora[i].out, .k = lora[i].out, .alpha = lora[i].scale};
        const struct zl_gemm_term to_b = {.a = xa + lora[i].row, .lda = LORA_RANKS, .a_transposed = true, .b = dyi,
                                          .b_layout = ZL_B_KN, .ldb = LORA_OUTS, .k = LORA_T, .alpha = lora[i].scale};
        product(&team, LORA_T, lora[i].out, y + lora[i].column, LORA_OUTS, 2, forward);
        product(&team, LORA_T, lora[i].rank, dxa + lora[i].row, LORA_RANKS, 1, &through_b);
        product(&team, lora[i].rank, lora[i].out, db + b, lora[i].out, 1, &to_b);
        back[i] = (struct zl_gemm_term){.a = dyi, .lda = LORA_OUTS, .b = wi, .b_type = type, .b_layout = ZL_B_KN, .ldb = LORA_IN,
                                        .k = lora[i].out, .alpha = 1, .frozen = true};
    }
    for (int64_t i = 0; i < LORA_T * LORA_OUTS; i++)
        sum += (double)y[i] * (double)dy[i];
    back[2] = (struct zl_gemm_term){
        .a = dxa, .lda = LORA_RANKS, .b = a, .b_layout = ZL_B_KN, .ldb = LORA_IN, .k = LORA_RANKS, .alpha = 1};
    product(&team, LORA_T, LORA_IN, dx, LORA_IN, 3, back);
    const struct zl_gemm_term to_a = {.a = dxa, .lda = LORA_RANKS, .a_transposed = true, .b = x, .b_layout = ZL_B_KN,
                                      .ldb = LORA_IN, .k = LORA_T, .alpha = 1};
    product(&team, LORA_RANKS, LORA_IN, da, LORA_IN, 1, &to_a);

    double value = linear_value(&s);
    print_message("  their sum: residual %.2e, bound 1e-05\n", fabs(sum - value) / fabs(value));
    assert_true(fabs(sum - value) <= 1e-5 * fabs(value));
    check_slopes("input", linear_value, &s, s.x, dx, LORA_T * LORA_IN, 1e-6);
    check_slopes("A", linear_value, &s, s.a, da, LORA_RANKS * LORA_IN, 1e-6);
    check_slopes("B", linear_value, &s, s.bt, db, B_SIZE, 1e-6);
    free(wf), free(x), free(a), free(bt), free(dy), free(xa), free(dxa), free(dx), free(da), free(db), free(y), free(team.scratch);
    free(s.x), free(s.w), free(s.a), free(s.bt), free(s.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norm_has_its_slope),
        cmocka_unit_test(gated_units_have_their_slopes),
        cmocka_unit_test(rope_has_its_slope),
        cmocka_unit_test(attention_has_its_slopes),
        cmocka_unit_test(head_and_loss_have_their_slope),
        cmocka_unit_test(linear_layers_with_adapters_have_their_slopes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
