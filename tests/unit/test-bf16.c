/*
 * zl_gemm in bfloat16 against its plain-C reference, whose operands are rounded alike: every stored type, both layouts, edges,
 * float32 terms in between, and the same bits for any team. Skipped where the CPU has no such instructions.
 */
#include "tests/unit/operands.h"

#include <math.h>

#include "kernel/isa.h"

static bool missing(void)
{
    const char *why = zl_compute_missing(ZL_COMPUTE_BF16);
    if (why)
        print_message("skipped: %s\n", why);
    return why != NULL;
}

struct spec {
    int64_t k;
    enum zl_type type;
    enum zl_layout layout;
    bool frozen, transposed, rows;
    float alpha;
};

struct result {
    double worst, bound; /* against the reference of the same format */
    double rounding;     /* against the one in float32, as a share of the root of the sum of squares of the products */
};

static void fill_term(struct zl_gemm_term *t, const struct spec *s, int64_t m, int64_t n, void **b, int32_t **rows)
{
    const int64_t block = zl_type_info[s->type].block, width = s->layout == ZL_B_NK ? s->k : n;
    const int64_t needed = s->layout == ZL_B_NK ? n : s->k, there = s->rows ? needed * 2 + 1 : needed;
    *t = (struct zl_gemm_term){.k = s->k, .alpha = s->alpha, .a_transposed = s->transposed, .frozen = s->frozen,
                               .b_type = s->type, .b_layout = s->layout};
    t->lda = (s->transposed ? m : s->k) + 5;
    t->a = matrix(s->transposed ? s->k : m, t->lda);
    t->ldb = (width + block - 1) / block * block + block;
    t->b = *b = stored(s->type, there, t->ldb, 0);
    if (s->rows) {
        *rows = take(needed * sizeof **rows);
        for (int64_t r = 0; r < needed; r++)
            (*rows)[r] = (int32_t)(zl_random_u64(42, ZL_STREAM_TEST, 2, counter++) % there);
        t->b_rows = *rows;
    }
}

/* With 1, 2 and 3 threads: equal bits, near the reference, nothing written beside C. */
static struct result compare(int64_t m, int64_t n, int n_terms, const struct spec *specs, bool accumulate, bool bias)
{
    struct zl_gemm g = {.m = m, .n = n, .n_terms = n_terms, .ldc = n + 3, .accumulate = accumulate};
    void *b[ZL_GEMM_TERMS] = {0};
    int32_t *rows[ZL_GEMM_TERMS] = {0};
    double k_total = 0;
    for (int i = 0; i < n_terms; i++) {
        fill_term(&g.term[i], &specs[i], m, n, &b[i], &rows[i]);
        k_total += specs[i].k;
    }
    const size_t bytes = m * g.ldc * sizeof(float);
    float *start = matrix(m, g.ldc), *bias_values = matrix(1, n), *c[5];
    g.bias = bias ? bias_values : NULL;
    for (int v = 0; v < 5; v++) {
        g.c = c[v] = take(bytes);
        memcpy(c[v], start, bytes);
        if (v < 2) {
            zl_gemm_ref_in(v ? ZL_COMPUTE_BF16 : ZL_COMPUTE_F32, &g);
            continue;
        }
        struct zl_team team = team_of(v - 1);
        team.compute = ZL_COMPUTE_BF16;
        zl_gemm(&team, &g);
        free(team.scratch);
    }
    struct result r = {0};
    double scale = 1, squares = 0, errors = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t at = i * g.ldc + j;
            double got = c[2][at], error = fabs(got - c[1][at]), f32 = c[0][at];
            r.worst = fmax(r.worst, isnan(error) ? INFINITY : error);
            scale = fmax(scale, fabs(f32));
            errors += (got - f32) * (got - f32);
            squares += f32 * f32;
        }
    r.rounding = m && n ? sqrt(errors / fmax(squares, 1e-30)) : 0;
    r.bound = scale * 2e-7 * (4 + sqrt(k_total));
    if (r.worst > r.bound)
        print_message("m %lld n %lld terms %d first: k %lld %s layout %d: residual %.3g bound %.3g\n", (long long)m,
                      (long long)n, n_terms, (long long)specs[0].k, zl_type_info[specs[0].type].name, specs[0].layout,
                      r.worst, r.bound);
    assert_true(r.worst <= r.bound);
    assert_memory_equal(c[2], c[3], bytes);
    assert_memory_equal(c[2], c[4], bytes);
    for (int64_t i = 0; i < m; i++)
        assert_memory_equal(c[2] + i * g.ldc + n, start + i * g.ldc + n, 3 * sizeof(float));
    for (int v = 0; v < 5; v++)
        free(c[v]);
    for (int i = 0; i < n_terms; i++) {
        free((void *)g.term[i].a);
        free(b[i]);
        free(rows[i]);
    }
    free(start);
    free(bias_values);
    return r;
}

static void every_type_and_layout_agrees_with_the_reference(void **state)
{
    (void)state;
    if (missing())
        skip();
    static const int64_t ms[] = {2, 3, 7, 12, 13, 40};
    for (int type = 0; type < ZL_TYPES; type++)
        for (int layout = 0; layout < 2; layout++) {
            double worst = 0, rounding = 0;
            for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
                struct spec s = {layout == 0 ? 512 : 70, type, layout, true, i & 1, i % 3 == 1, 1};
                struct result r = compare(ms[i], layout == 0 ? 37 + 20 * i : 256, 1, &s, false, false);
                worst = fmax(worst, r.worst / r.bound);
                rounding = fmax(rounding, r.rounding);
            }
            print_message("%-5s %s: residual %.2f of its bound; to float32 %.1e of the result, bound 4e-3\n",
                          zl_type_info[type].name, layout ? "kn" : "nk", worst, rounding);
            assert_true(rounding < 4e-3); /* two roundings of at most 2^-9 each, of random sign */
        }
}

static void odd_shapes_agree(void **state)
{
    (void)state;
    if (missing())
        skip();
    static const int64_t sizes[][3] = {{2, 1, 1},     {2, 31, 5},   {5, 1, 1000},   {13, 65, 641}, {37, 191, 33},
                                       {97, 8, 1153}, {520, 40, 50}, {1020, 33, 7}, {3, 400, 1281}, {24, 17, 63}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int v = 0; v < 8; v++) {
            struct spec s = {sizes[i][2], v & 4 ? ZL_BF16 : ZL_F32, v & 1, true, v >> 1 & 1, false, 1};
            compare(sizes[i][0], sizes[i][1], 1, &s, false, false);
        }
}

static void every_number_of_rows_and_columns_agrees(void **state)
{
    (void)state;
    if (missing())
        skip();
    for (int64_t m = 2; m <= 26; m++)
        for (int64_t n = 1; n <= 34; n += 3) {
            struct spec s[] = {{33, ZL_F16, m & 1, true, n & 1, false, 1}, {3, ZL_F32, ZL_B_KN, false, false, false, 1}};
            compare(m, n, 2, s, m % 3 == 0, m % 3 == 1);
        }
}

static void quantized_range_may_end_inside_a_block(void **state)
{
    (void)state;
    if (missing())
        skip();
    for (int type = ZL_Q8_0; type < ZL_TYPES; type++) {
        struct spec s = {300, type, ZL_B_NK, true, false, false, 1};
        compare(20, 50, 1, &s, false, false);
        s = (struct spec){41, type, ZL_B_KN, true, false, false, 1};
        compare(20, 300, 1, &s, false, false);
    }
}

static void large_k_is_grouped(void **state)
{
    (void)state;
    if (missing())
        skip();
    struct spec s = {5001, ZL_F32, ZL_B_NK, true, false, false, 1};
    compare(216, 20, 1, &s, false, true);
    s = (struct spec){30720, ZL_Q8_0, ZL_B_NK, true, false, false, 1};
    compare(4, 33, 1, &s, true, false);
}

static void float32_terms_stay_float32(void **state)
{
    (void)state;
    if (missing())
        skip();
    static const struct spec forward[] = {{576, ZL_Q4_1, ZL_B_NK, true, false, false, 1},
                                          {8, ZL_F32, ZL_B_KN, false, false, false, 2}};
    static const struct spec backward[] = {{576, ZL_Q4_1, ZL_B_KN, true, false, false, 1},
                                           {192, ZL_Q8_0, ZL_B_KN, true, false, false, 1},
                                           {192, ZL_Q4_0, ZL_B_KN, true, false, false, 1},
                                           {24, ZL_F32, ZL_B_KN, false, false, false, 1}};
    static const struct spec adapter_first[] = {{8, ZL_F32, ZL_B_KN, false, false, false, 2},
                                                {1536, ZL_Q4_0, ZL_B_KN, true, true, true, 0.5f},
                                                {3, ZL_F32, ZL_B_KN, false, true, false, 1}};
    for (int v = 0; v < 3; v++) {
        compare(50, 96, 2, forward, v == 1, v == 2);
        compare(50, 96, 4, backward, v == 1, v == 2);
        compare(30, 96, 3, adapter_first, v == 1, v == 2);
    }
    /* Nothing frozen: the bits of float32. */
    enum { M = 50, N = 70, K = 300 };
    float *a = matrix(M, K), *b = matrix(N, K), *c[2];
    for (int v = 0; v < 2; v++) {
        struct zl_gemm g = {.m = M, .n = N, .n_terms = 1, .c = c[v] = take(M * N * sizeof(float)), .ldc = N};
        g.term[0] = (struct zl_gemm_term){.a = a, .lda = K, .b = b, .b_type = ZL_F32, .ldb = K, .k = K, .alpha = 1};
        struct zl_team team = team_of(1);
        team.compute = v ? ZL_COMPUTE_BF16 : ZL_COMPUTE_F32;
        zl_gemm(&team, &g);
        free(team.scratch);
    }
    assert_memory_equal(c[0], c[1], M * N * sizeof(float));
    free(a), free(b), free(c[0]), free(c[1]);
}

static void numbers_at_the_ends_of_the_range_round_as_the_reference_does(void **state)
{
    (void)state;
    if (missing())
        skip();
    /* ties to even and odd, just beside them, the smallest normal number and what is below it, the largest that stays finite */
    static const float a[] = {0x1.01p0f,  0x1.03p0f,    0x1.010002p0f, 0x1.00fffep0f, -0x1.01p0f,
                              0x1p-126f,  0x1.8p-127f,  0x1.fefffep127f, 0.0f,        -0.0f};
    enum { K = sizeof a / sizeof *a };
    float one[K][K] = {{0}}, rows[2][K], c[2][K], want[2][K];
    memcpy(rows[0], a, sizeof a);
    memcpy(rows[1], a, sizeof a);
    for (int i = 0; i < K; i++)
        one[i][i] = 1;
    struct zl_gemm g = {.m = 2, .n = K, .n_terms = 1, .c = c[0], .ldc = K};
    g.term[0] = (struct zl_gemm_term){.a = rows[0], .lda = K, .b = one, .b_type = ZL_F32, .ldb = K, .k = K, .alpha = 1,
                                      .frozen = true};
    struct zl_team team = team_of(1);
    team.compute = ZL_COMPUTE_BF16;
    zl_gemm(&team, &g);
    free(team.scratch);
    g.c = want[0];
    zl_gemm_ref_in(ZL_COMPUTE_BF16, &g);
    for (int i = 0; i < K; i++) {
        print_message("%a -> %a, expected %a\n", a[i], c[0][i], want[0][i]);
        assert_true(c[0][i] == want[0][i] && c[1][i] == want[0][i]);
    }
}

static void rows_do_not_depend_on_how_many_there_are(void **state)
{
    (void)state;
    if (missing())
        skip();
    enum { M = 64, N = 100, K = 608 };
    float *a = matrix(M, K), *whole = take(M * N * sizeof *whole), *part = take(M * N * sizeof *part);
    void *b = stored(ZL_Q4_1, N, K, 0);
    struct zl_gemm g = {.m = M, .n = N, .n_terms = 1, .c = whole, .ldc = N};
    g.term[0] = (struct zl_gemm_term){.a = a, .lda = K, .b = b, .b_type = ZL_Q4_1, .ldb = K, .k = K, .alpha = 1,
                                      .frozen = true};
    struct zl_team team = team_of(2);
    team.compute = ZL_COMPUTE_BF16;
    zl_gemm(&team, &g);
    for (int64_t m0 = 0, step = 2; m0 < M; m0 += step, step = step % 12 + 2) {
        step = step > M - m0 ? M - m0 : step;
        g.m = step;
        g.term[0].a = a + m0 * K;
        g.c = part + m0 * N;
        zl_gemm(&team, &g);
        if (step > 1)
            assert_memory_equal(whole + m0 * N, part + m0 * N, step * N * sizeof *whole);
    }
    free(team.scratch), free(a), free(whole), free(part), free(b);
}

static void float32_is_never_missing_and_a_lowered_instruction_set_has_no_bf16(void **state)
{
    (void)state;
    assert_null(zl_compute_missing(ZL_COMPUTE_F32));
    if (zl_isa_get() != ZL_ISA_AVX512)
        assert_non_null(zl_compute_missing(ZL_COMPUTE_BF16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_layout_agrees_with_the_reference),
        cmocka_unit_test(odd_shapes_agree),
        cmocka_unit_test(every_number_of_rows_and_columns_agrees),
        cmocka_unit_test(quantized_range_may_end_inside_a_block),
        cmocka_unit_test(large_k_is_grouped),
        cmocka_unit_test(float32_terms_stay_float32),
        cmocka_unit_test(numbers_at_the_ends_of_the_range_round_as_the_reference_does),
        cmocka_unit_test(rows_do_not_depend_on_how_many_there_are),
        cmocka_unit_test(float32_is_never_missing_and_a_lowered_instruction_set_has_no_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
