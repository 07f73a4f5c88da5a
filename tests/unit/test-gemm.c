/* zl_gemm against the plain-C reference, for every stored type, layout and awkward shape; and its bits for any team. */
#include "tests/unit/test.h"

#include <math.h>

#include "kernel/dequant.h"
#include "kernel/gemm.h"
#include "kernel/micro.h"
#include "kernel/pack.h"
#include "tests/unit/operands.h"

struct spec {
    int64_t k;
    enum zl_type type;
    enum zl_layout layout;
    bool transposed, rows;
    float alpha;
    int misalign;
};

/* Build, compute with 1, 2 and 3 threads, compare with the reference; bits must agree between teams. */
static void compare(int64_t m, int64_t n, int n_terms, const struct spec *specs, bool accumulate, bool bias)
{
    struct zl_gemm g = {.m = m, .n = n, .n_terms = n_terms, .ldc = n + 3, .accumulate = accumulate};
    void *garbage[3 * ZL_GEMM_TERMS];
    int n_garbage = 0;
    double k_total = 0;
    for (int i = 0; i < n_terms; i++) {
        const struct spec *s = &specs[i];
        int64_t block = zl_type_info[s->type].block;
        struct zl_gemm_term *t = &g.term[i];
        t->k = s->k;
        t->alpha = s->alpha;
        t->a_transposed = s->transposed;
        t->lda = (s->transposed ? m : s->k) + 5;
        t->a = garbage[n_garbage++] = matrix(s->transposed ? s->k : m, t->lda);
        t->b_type = s->type;
        t->b_layout = s->layout;
        int64_t needed = s->layout == ZL_B_NK ? n : s->k, width = s->layout == ZL_B_NK ? s->k : n;
        t->ldb = (width + block - 1) / block * block + block;
        int64_t there = s->rows ? needed * 2 + 1 : needed;
        void *b = garbage[n_garbage++] = stored(s->type, there, t->ldb, s->misalign);
        t->b = (char *)b + s->misalign;
        if (s->rows) {
            int32_t *rows = garbage[n_garbage++] = take(needed * sizeof *rows);
            for (int64_t r = 0; r < needed; r++)
                rows[r] = (int32_t)(zl_random_u64(42, ZL_STREAM_TEST, 2, counter++) % there);
            t->b_rows = rows;
        }
        k_total += s->k;
    }
    float *start = matrix(m, g.ldc), *bias_values = matrix(1, n);
    float *c[4];
    if (bias)
        g.bias = bias_values;
    for (int v = 0; v < 4; v++) {
        c[v] = take(m * g.ldc * sizeof(float));
        if (accumulate)
            memcpy(c[v], start, m * g.ldc * sizeof(float));
        g.c = c[v];
        if (v == 0) {
            zl_gemm_ref(&g);
            continue;
        }
        struct zl_team team = team_of(v);
        zl_gemm(&team, &g);
        free(team.scratch);
    }
    double worst = 0, scale = 1;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double want = c[0][i * g.ldc + j], got = c[1][i * g.ldc + j];
            worst = fmax(worst, isnan(got) ? INFINITY : fabs(got - want));
            scale = fmax(scale, fabs(want));
        }
    /* rounding of a sum of k products of numbers of the order of one, with room for the larger ones */
    double bound = scale * 2e-7 * (4 + sqrt(k_total));
    if (worst > bound)
        print_message("m %lld n %lld terms %d first: k %lld %s layout %d: residual %.3g bound %.3g\n", (long long)m,
                      (long long)n, n_terms, (long long)specs[0].k, zl_type_info[specs[0].type].name,
                      specs[0].layout, worst, bound);
    assert_true(worst <= bound);
    for (int v = 2; v < 4; v++)
        assert_memory_equal(c[1], c[v], m * g.ldc * sizeof(float));
    for (int64_t i = 0; i < m; i++) /* nothing written beside C */
        for (int64_t j = n; j < g.ldc; j++)
            assert_memory_equal(&c[1][i * g.ldc + j], &c[0][i * g.ldc + j], 4);
    static double worst_ratio;
    if (worst / bound > worst_ratio) {
        worst_ratio = worst / bound;
        print_message("largest residual so far %.3g, bound %.3g\n", worst, bound);
    }
    for (int i = 0; i < n_garbage; i++)
        free(garbage[i]);
    for (int v = 0; v < 4; v++)
        free(c[v]);
    free(start);
    free(bias_values);
}

static void every_type_and_layout_agrees_with_the_reference(void **state)
{
    (void)state;
    static const int64_t ms[] = {1, 3, 7, 12, 13, 40};
    for (int type = 0; type < ZL_TYPES; type++)
        for (int layout = 0; layout < 2; layout++)
            for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
                struct spec s = {layout == 0 ? 512 : 70, type, layout, i & 1, i % 3 == 1, 1, 0};
                compare(ms[i], layout == 0 ? 37 + 20 * i : 256, 1, &s, false, false);
            }
}

static void odd_shapes_agree(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 33, 8},   {2, 31, 5},   {5, 1, 1000},  {13, 65, 321},
                                       {37, 191, 33}, {97, 8, 577}, {600, 40, 50}, {1100, 33, 7}, {3, 400, 641}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int v = 0; v < 8; v++) {
            struct spec s = {sizes[i][2], v & 4 ? ZL_BF16 : ZL_F32, v & 1, v >> 1 & 1, false, 1, 0};
            compare(sizes[i][0], sizes[i][1], 1, &s, false, false);
        }
}

static void quantized_range_may_end_inside_a_block(void **state)
{
    (void)state;
    for (int type = ZL_Q8_0; type < ZL_TYPES; type++) {
        struct spec s = {300, type, ZL_B_NK, false, false, 1, 0};
        compare(20, 50, 1, &s, false, false);
        s = (struct spec){40, type, ZL_B_KN, false, false, 1, 0};
        compare(20, 300, 1, &s, false, false);
    }
}

static void terms_add_up(void **state)
{
    (void)state;
    static const struct spec terms[] = {{576, ZL_Q4_1, ZL_B_NK, false, false, 1, 0},
                                        {8, ZL_F32, ZL_B_NK, false, false, 2, 0},
                                        {17, ZL_F32, ZL_B_KN, true, true, 0.25f, 0},
                                        {320, ZL_Q8_0, ZL_B_NK, true, true, -1, 0}};
    for (int n_terms = 1; n_terms <= 4; n_terms++)
        for (int v = 0; v < 3; v++)
            compare(50, 70, n_terms, terms, v == 1, v == 2);
    static const struct spec lora_first[] = {{8, ZL_F32, ZL_B_KN, false, false, 2, 0},
                                             {1536, ZL_Q4_0, ZL_B_KN, false, false, 1, 0},
                                             {3, ZL_F32, ZL_B_KN, true, false, 1, 0}};
    compare(30, 96, 3, lora_first, true, false);
}

static void weights_may_be_misaligned(void **state)
{
    (void)state;
    for (int type = 0; type < ZL_TYPES; type++)
        for (int at = 1; at < 4; at += 2) {
            struct spec s = {256, type, at == 1 ? ZL_B_NK : ZL_B_KN, false, false, 1, at};
            compare(14, 256, 1, &s, false, false);
        }
}

static void k_of_nothing_gives_bias_or_zero(void **state)
{
    (void)state;
    struct spec s = {0, ZL_F32, ZL_B_NK, false, false, 1, 0};
    compare(5, 7, 1, &s, false, false);
    compare(5, 7, 1, &s, false, true);
    compare(5, 7, 1, &s, true, false);
    compare(5, 7, 0, &s, false, true);
    struct spec none = {64, ZL_Q4_0, ZL_B_NK, false, false, 1, 0};
    compare(0, 7, 1, &none, false, false);
    compare(7, 0, 1, &none, false, false);
}

static void large_k_is_grouped(void **state)
{
    (void)state;
    struct spec s = {5000, ZL_F32, ZL_B_NK, false, false, 1, 0};
    compare(300, 40, 1, &s, false, true);
    s = (struct spec){30720, ZL_Q8_0, ZL_B_NK, false, false, 1, 0};
    compare(4, 33, 1, &s, true, false);
}

/* Activations that do not fit the shared buffer at once follow each other in it, at other places: no thread may run ahead. */
static void threads_do_not_overtake_each_other(void **state)
{
    (void)state;
    enum { M = 500, N = 24, K = 2600, TIMES = 30 };
    const size_t bytes = M * N * sizeof(float);
    float *a = matrix(M, K), *b = matrix(N, K), *one = take(bytes), *more = take(bytes);
    struct zl_gemm g = {.m = M, .n = N, .n_terms = 1, .c = one, .ldc = N};
    g.term[0] = (struct zl_gemm_term){.a = a, .lda = K, .b = b, .b_type = ZL_F32, .ldb = K, .k = K, .alpha = 1};
    struct zl_team alone = team_of(1), team = team_of(3);
    zl_gemm(&alone, &g);
    g.c = more;
    for (int i = 0; i < TIMES; i++) {
        zl_gemm(&team, &g);
        assert_memory_equal(one, more, bytes);
    }
    free(alone.scratch), free(team.scratch), free(a), free(b), free(one), free(more);
}

static void few_rows_of_every_type_agree(void **state)
{
    (void)state;
    for (int type = 0; type < ZL_TYPES; type++)
        for (int64_t m = 1; m <= ZL_GEMM_FEW + 1; m++) {
            /* K longer than what is walked at once, and ending inside a unit; N no multiple of a vector */
            const struct spec terms[] = {{m == 2 ? 8192 + 512 : 768 + 7 * m, type, ZL_B_NK, false, m == 3, 1, 0},
                                         {8, ZL_F32, ZL_B_KN, false, false, 2, 0},
                                         {5, ZL_F32, ZL_B_NK, false, false, -1, 0}};
            for (int n_terms = 1; n_terms <= 3; n_terms++)
                compare(m, m == 4 ? 64 : 45, n_terms, terms, m & 1, !(m & 1));
        }
}

static void rows_do_not_depend_on_how_many_there_are(void **state)
{
    (void)state;
    enum { M = 64, N = 100, K = 608 };
    if (zl_ukr_get()->fn) {
        print_message("skipped: BLIS's kernel need not fuse products and sums where ours do\n");
        skip();
    }
    float *a = matrix(M, K), *whole = take(M * N * sizeof *whole), *part = take(M * N * sizeof *part);
    void *b = stored(ZL_Q4_1, N, K, 0);
    struct zl_gemm g = {.m = M, .n = N, .n_terms = 1, .c = whole, .ldc = N};
    g.term[0] = (struct zl_gemm_term){.a = a, .lda = K, .b = b, .b_type = ZL_Q4_1, .ldb = K, .k = K, .alpha = 1};
    struct zl_team team = team_of(2);
    zl_gemm(&team, &g);
    for (int64_t m0 = 0, step = ZL_GEMM_FEW + 1; m0 < M; m0 += g.m, step = step == 15 ? ZL_GEMM_FEW + 1 : step + 1) {
        g.m = M - m0 - step > ZL_GEMM_FEW ? step : M - m0;
        g.term[0].a = a + m0 * K;
        g.c = part + m0 * N;
        zl_gemm(&team, &g);
    }
    assert_memory_equal(whole, part, M * N * sizeof *whole);
    /* Few rows have an order of their own, which does not depend on how few they are either. */
    float first[N];
    for (g.m = 1; g.m <= ZL_GEMM_FEW; g.m++) {
        g.term[0].a = a;
        g.c = part;
        zl_gemm(&team, &g);
        if (g.m == 1)
            memcpy(first, part, sizeof first);
        assert_memory_equal(first, part, sizeof first);
    }
    free(team.scratch), free(a), free(whole), free(part), free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_layout_agrees_with_the_reference),
        cmocka_unit_test(odd_shapes_agree),
        cmocka_unit_test(quantized_range_may_end_inside_a_block),
        cmocka_unit_test(terms_add_up),
        cmocka_unit_test(weights_may_be_misaligned),
        cmocka_unit_test(k_of_nothing_gives_bias_or_zero),
        cmocka_unit_test(large_k_is_grouped),
        cmocka_unit_test(threads_do_not_overtake_each_other),
        cmocka_unit_test(few_rows_of_every_type_agree),
        cmocka_unit_test(rows_do_not_depend_on_how_many_there_are),
    };
    print_message("microkernel %s\n", zl_ukr_get()->name);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
