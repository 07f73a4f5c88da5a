/*
 * Products in bfloat16 by AMX: the bits of zl_gemm are those of its plain-C emulation, for every stored type, edge and mixture of terms; and
 * the emulation, which runs everywhere, is near the reference in double. Where the processor or the system has no AMX, that is all.
 */
#include "tests/unit/operands.h"

#include <math.h>

#include "kernel/pairs.h"

/* C of the emulation and of zl_gemm, from the same start. */
static void compare(struct zl_gemm *g, double *worst)
{
    const size_t bytes = g->m * g->ldc * sizeof(float);
    float *start = matrix(g->m, g->ldc), *emulated = take(bytes), *computed = take(bytes), *exact = take(bytes);
    memcpy(emulated, start, bytes);
    memcpy(computed, start, bytes);
    memcpy(exact, start, bytes);
    g->c = emulated;
    zl_gemm_ref_tiles(g);
    g->c = exact;
    zl_gemm_ref_in(ZL_COMPUTE_BF16, g);
    double k = 0, scale = 1;
    for (int t = 0; t < g->n_terms; t++)
        k += g->term[t].k;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++)
            scale = fmax(scale, fabs(exact[i * g->ldc + j]));
    const double bound = scale * 2e-7 * (4 + sqrt(k));
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const double error = fabs(emulated[i * g->ldc + j] - exact[i * g->ldc + j]);
            *worst = fmax(*worst, isnan(error) ? INFINITY : error / bound);
        }
    assert_true(*worst <= 1);
    g->c = computed;
    for (int threads = 1; threads <= 2 && !zl_tiles_missing(); threads++) {
        struct zl_team team = team_of(threads);
        team.compute = ZL_COMPUTE_BF16;
        memcpy(computed, start, bytes);
        zl_gemm(&team, g);
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->ldc; j++)
                if (memcmp(&computed[i * g->ldc + j], &emulated[i * g->ldc + j], sizeof(float)))
                    fail_msg("m %lld n %lld k %lld terms %d threads %d: element %lld %lld is %a, emulated %a", (long long)g->m, (long long)g->n,
                             (long long)g->term[0].k, g->n_terms, threads, (long long)i, (long long)j, computed[i * g->ldc + j],
                             emulated[i * g->ldc + j]);
        free(team.scratch);
    }
    free(start), free(emulated), free(computed), free(exact);
}

struct spec {
    int64_t k;
    enum zl_type type;
    enum zl_layout layout;
    bool frozen, transposed;
    float alpha;
};

static void term_of(struct zl_gemm_term *t, const struct spec *s, int64_t m, int64_t n)
{
    const int64_t block = zl_type_info[s->type].block, width = s->layout == ZL_B_NK ? s->k : n;
    *t = (struct zl_gemm_term){.k = s->k, .alpha = s->alpha, .a_transposed = s->transposed, .frozen = s->frozen, .b_type = s->type, .b_layout = s->layout};
    t->lda = (s->transposed ? m : s->k) + 3;
    t->a = matrix(s->transposed ? s->k : m, t->lda);
    t->ldb = (width + block - 1) / block * block + block;
    t->b = stored(s->type, s->layout == ZL_B_NK ? n : s->k, t->ldb, 0);
}

static void compare_terms(int64_t m, int64_t n, int n_terms, const struct spec *specs, bool accumulate, bool bias, double *worst)
{
    struct zl_gemm g = {.m = m, .n = n, .n_terms = n_terms, .ldc = n + 3, .accumulate = accumulate};
    float *values = matrix(1, n);
    g.bias = bias ? values : NULL;
    for (int i = 0; i < n_terms; i++)
        term_of(&g.term[i], &specs[i], m, n);
    compare(&g, worst);
    for (int i = 0; i < n_terms; i++) {
        free((void *)g.term[i].a);
        free((void *)g.term[i].b);
    }
    free(values);
}

static void every_type_and_layout_has_the_emulation_s_bits(void **state)
{
    (void)state;
    for (int type = 0; type < ZL_TYPES; type++)
        for (int layout = 0; layout < 2; layout++) {
            double worst = 0;
            const struct spec s = {layout ? 96 : 704, type, layout, true, false, 1};
            compare_terms(40, 70, 1, &s, false, false, &worst);
            print_message("%-5s %s: the emulation is off by %.2f of the bound\n", zl_type_info[type].name, layout ? "kn" : "nk", worst);
        }
}

static void every_edge_has_the_emulation_s_bits(void **state)
{
    (void)state;
    double worst = 0;
    for (int64_t m = 2; m <= 66; m += m < 34 ? 1 : 16)
        for (int64_t n = 1; n <= 49; n += 6) {
            const struct spec s = {1 + (m * 13 + n * 7) % 75, m & 1 ? ZL_F32 : ZL_BF16, m >> 1 & 1, true, n & 1, 1};
            compare_terms(m, n, 1, &s, m % 3 == 0, m % 3 == 1, &worst);
        }
    for (int64_t k = 1; k <= 67; k++) {
        const struct spec s = {k, ZL_F32, k & 1, true, false, 1};
        compare_terms(5, 33, 1, &s, false, false, &worst);
    }
    print_message("the emulation is off by %.2f of the bound\n", worst);
}

static void adapters_ride_in_float32(void **state)
{
    (void)state;
    double worst = 0;
    static const struct spec forward[] = {{576, ZL_Q4_1, ZL_B_NK, true, false, 1}, {8, ZL_F32, ZL_B_KN, false, false, 2}};
    static const struct spec backward[] = {{320, ZL_Q4_1, ZL_B_KN, true, false, 1},
                                           {96, ZL_Q8_0, ZL_B_KN, true, false, 1},
                                           {96, ZL_Q4_0, ZL_B_KN, true, false, 1},
                                           {24, ZL_F32, ZL_B_KN, false, false, 1}};
    static const struct spec adapter_first[] = {{11, ZL_F32, ZL_B_KN, false, false, 2},
                                                {1536, ZL_Q4_0, ZL_B_KN, true, true, 0.5f},
                                                {3, ZL_F32, ZL_B_KN, false, true, 1}};
    for (int v = 0; v < 3; v++) {
        compare_terms(50, 96, 2, forward, v == 1, v == 2, &worst);
        compare_terms(50, 96, 4, backward, v == 1, v == 2, &worst);
        compare_terms(30, 80, 3, adapter_first, v == 1, v == 2, &worst);
    }
    print_message("the emulation is off by %.2f of the bound\n", worst);
}

/* Products and sums that vanish, inputs that aren't normal, infinities. */
static void ends_of_the_range_have_the_emulation_s_bits(void **state)
{
    (void)state;
    enum { M = 33, N = 40, K = 70 };
    float *a = matrix(M, K), *b = matrix(K, N);
    static const float ends[] = {0x1p-126f, 0x1.8p-127f, -0x1p-100f, 0x1p-30f, 0x1p100f, -0x1.fep127f, 0.0f, -0.0f, 0x1p-64f, 1, INFINITY};
    for (int i = 0; i < M * K; i++)
        a[i] = i % 3 ? ends[(i * 5 + i / 7) % (i / K % 8 ? 10 : 11)] : a[i];
    for (int i = 0; i < K * N; i++)
        b[i] = i % 5 ? ends[(i * 3 + i / 11) % 10] : b[i];
    float c[2][M * N];
    struct zl_gemm g = {.m = M, .n = N, .n_terms = 1, .c = c[0], .ldc = N};
    g.term[0] = (struct zl_gemm_term){.a = a, .lda = K, .b = b, .b_type = ZL_F32, .b_layout = ZL_B_KN, .ldb = N, .k = K, .alpha = 1, .frozen = true};
    zl_gemm_ref_tiles(&g);
    if (zl_tiles_missing())
        print_message("skipped: %s\n", zl_tiles_missing());
    else {
        struct zl_team team = team_of(1);
        team.compute = ZL_COMPUTE_BF16;
        g.c = c[1];
        zl_gemm(&team, &g);
        free(team.scratch);
        int finite = 0;
        for (int i = 0; i < M * N; i++) {
            finite += isfinite(c[0][i]) != 0;
            if (isnan(c[0][i]) ? !isnan(c[1][i]) : memcmp(&c[0][i], &c[1][i], sizeof(float)) != 0)
                fail_msg("element %d is %a, emulated %a", i, c[1][i], c[0][i]);
        }
        print_message("%d of %d elements are finite\n", finite, M * N);
        assert_true(finite > M * N / 10);
    }
    free(a), free(b);
}

static void a_set_that_is_asked_for_leaves_amx_out(void **state)
{
    (void)state;
    const char *why = zl_tiles_missing();
    const struct zl_pairs *p = zl_pairs_get();
    print_message("%s%s%s\n", p ? p->name : "no bf16", why ? ": " : "", why ? why : "");
    if (zl_isa_asked())
        assert_non_null(why);
    if (p)
        assert_string_equal(p->name, why ? "avx512bf16 12x32" : "amx 32x32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_layout_has_the_emulation_s_bits),
        cmocka_unit_test(every_edge_has_the_emulation_s_bits),
        cmocka_unit_test(adapters_ride_in_float32),
        cmocka_unit_test(ends_of_the_range_have_the_emulation_s_bits),
        cmocka_unit_test(a_set_that_is_asked_for_leaves_amx_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
