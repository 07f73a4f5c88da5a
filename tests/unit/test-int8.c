/*
 * zl_gemm in 8-bit integers against its plain-C reference, whose activations are rounded alike: every type that is stored as integers, few
 * rows and many, what does not divide, float32 terms beside; the same bits for any team, any number of rows and any instruction set.
 */
#include "config.h"

#include "tests/unit/operands.h"

#include <math.h>

#include "kernel/bytes.h"
#include "kernel/isa.h"

static bool missing(void)
{
    const char *why = zl_compute_missing(ZL_COMPUTE_INT8);
    if (why)
        print_message("skipped: %s\n", why);
    return why != NULL;
}

struct operands {
    struct zl_gemm g;
    float *a, *adapter_a, *adapter_b, *start;
    void *b;
    int32_t *rows;
};

/* [m][k] by a weight of `type`, an adapter of rank 8 beside it. */
static struct operands operands(enum zl_type type, int64_t m, int64_t n, int64_t k, bool adapter, bool rows)
{
    const int64_t block = zl_type_info[type].block, ldb = (k + block - 1) / block * block;
    struct operands o = {.a = matrix(m, k + 3), .b = stored(type, rows ? 2 * n : n, ldb, 0), .start = matrix(m, n + 3)};
    for (int64_t i = 0; i < m * (k + 3); i += 67) /* some that stand out, as models have them */
        o.a[i] *= 50;
    o.g = (struct zl_gemm){.m = m, .n = n, .n_terms = adapter ? 2 : 1, .ldc = n + 3};
    o.g.term[0] = (struct zl_gemm_term){.a = o.a, .lda = k + 3, .b = o.b, .b_type = type, .ldb = ldb, .k = k, .alpha = 1, .frozen = true};
    if (rows) {
        o.rows = take(n * sizeof *o.rows);
        for (int64_t i = 0; i < n; i++)
            o.rows[i] = (int32_t)(zl_random_u64(42, ZL_STREAM_TEST, 2, counter++) % (2 * n));
        o.g.term[0].b_rows = o.rows;
    }
    if (adapter) {
        o.adapter_a = matrix(m, 8);
        o.adapter_b = matrix(8, n);
        o.g.term[1] = (struct zl_gemm_term){.a = o.adapter_a, .lda = 8, .b = o.adapter_b, .b_type = ZL_F32, .b_layout = ZL_B_KN, .ldb = n,
                                            .k = 8, .alpha = 2};
    }
    return o;
}

static void drop(struct operands *o)
{
    free(o->a), free(o->b), free(o->start), free(o->adapter_a), free(o->adapter_b), free(o->rows);
}

static float *computed(struct zl_gemm g, const float *start, int threads, enum zl_compute compute)
{
    const size_t bytes = (size_t)(g.m * g.ldc) * sizeof(float);
    g.c = take(bytes);
    memcpy(g.c, start, bytes);
    if (threads == 0) {
        zl_gemm_ref_in(compute, &g);
        return g.c;
    }
    struct zl_team team = team_of(threads);
    team.compute = compute;
    zl_gemm(&team, &g);
    free(team.scratch);
    return g.c;
}

/* The largest difference to the reference, as a share of what rounding allows; and the difference to float32 by root of mean squares. */
static double compare(const struct operands *o, double *to_f32)
{
    const struct zl_gemm *g = &o->g;
    const size_t bytes = (size_t)(g->m * g->ldc) * sizeof(float);
    float *want = computed(*g, o->start, 0, ZL_COMPUTE_INT8), *f32 = computed(*g, o->start, 0, ZL_COMPUTE_F32);
    float *got = computed(*g, o->start, 1, ZL_COMPUTE_INT8);
    double worst = 0, scale = 1, errors = 0, squares = 0;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const int64_t at = i * g->ldc + j;
            worst = fmax(worst, isnan(got[at]) ? INFINITY : fabs(got[at] - want[at]));
            scale = fmax(scale, fabs(want[at]));
            errors += (got[at] - f32[at]) * (got[at] - f32[at]);
            squares += f32[at] * f32[at];
        }
    for (int64_t i = 0; i < g->m; i++)
        assert_memory_equal(got + i * g->ldc + g->n, o->start + i * g->ldc + g->n, 3 * sizeof(float));
    for (int threads = 2; threads <= 3; threads++) {
        float *again = computed(*g, o->start, threads, ZL_COMPUTE_INT8);
        assert_memory_equal(got, again, bytes);
        free(again);
    }
    free(want), free(f32), free(got);
    *to_f32 = sqrt(errors / fmax(squares, 1e-30));
    return worst / (scale * 4e-7 * (4 + sqrt(g->term[0].k)));
}

static void every_integer_type_agrees_with_the_reference(void **state)
{
    (void)state;
    if (missing())
        skip();
    static const int64_t shapes[][3] = {{1, 40, 512}, {2, 33, 768}, {3, 64, 256}, {4, 7, 1024}, {7, 50, 512}, {37, 48, 256}, {70, 1, 512}};
    for (int type = 0; type < ZL_TYPES; type++) {
        if (!zl_compute_has(ZL_COMPUTE_INT8, type))
            continue;
        double worst = 0, rounding = 0, to_f32;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int v = 0; v < 6; v++) {
                struct operands o = operands(type, shapes[i][0], shapes[i][1], shapes[i][2] + (v == 3 ? -13 : 0), v & 1, v == 2);
                float *bias = matrix(1, o.g.n);
                o.g.accumulate = v == 4;
                o.g.bias = v == 5 ? bias : NULL;
                o.g.term[0].alpha = v == 4 ? -0.5f : 1;
                worst = fmax(worst, compare(&o, &to_f32));
                if (v < 2)
                    rounding = fmax(rounding, to_f32);
                free(bias);
                drop(&o);
            }
        print_message("%-5s residual %.2f of its bound; to float32 %.1e of the result, bound 4e-2\n", zl_type_info[type].name, worst, rounding);
        assert_true(worst <= 1);
        assert_true(rounding > 1e-5 && rounding < 4e-2); /* of numbers fifty times the others only a few bits are left to these */
    }
}

static void weights_that_are_no_integers_stay_float32(void **state)
{
    (void)state;
    if (missing())
        skip();
    for (int v = 0; v < 4; v++) {
        static const enum zl_type types[] = {ZL_F32, ZL_F16, ZL_BF16, ZL_Q4_1};
        struct operands o = operands(types[v], v == 1 ? 1 : 20, 48, 96, false, false);
        o.g.term[0].frozen = v < 3; /* an integer type that is not frozen */
        float *f32 = computed(o.g, o.start, 1, ZL_COMPUTE_F32), *int8 = computed(o.g, o.start, 1, ZL_COMPUTE_INT8);
        assert_memory_equal(f32, int8, (size_t)(o.g.m * o.g.ldc) * sizeof(float));
        free(f32), free(int8);
        drop(&o);
    }
    /* Stored along N, as in the backward. */
    struct operands o = operands(ZL_Q8_0, 20, 96, 96, false, false);
    o.g.term[0].b_layout = ZL_B_KN;
    float *f32 = computed(o.g, o.start, 1, ZL_COMPUTE_F32), *int8 = computed(o.g, o.start, 1, ZL_COMPUTE_INT8);
    assert_memory_equal(f32, int8, (size_t)(o.g.m * o.g.ldc) * sizeof(float));
    free(f32), free(int8);
    drop(&o);
}

static void a_row_does_not_depend_on_the_others(void **state)
{
    (void)state;
    if (missing())
        skip();
    struct operands o = operands(ZL_Q5_1, 23, 40, 320, false, false);
    float *whole = computed(o.g, o.start, 2, ZL_COMPUTE_INT8);
    for (int64_t m0 = 0, step = 1; m0 < 23; m0 += step, step = step % 6 + 1) {
        struct zl_gemm g = o.g;
        g.m = step = step < 23 - m0 ? step : 23 - m0;
        g.term[0].a += m0 * g.term[0].lda;
        float *part = computed(g, o.start, 1, ZL_COMPUTE_INT8);
        for (int64_t i = 0; i < step; i++)
            assert_memory_equal(part + i * g.ldc, whole + (m0 + i) * g.ldc, 40 * sizeof(float));
        free(part);
    }
    free(whole);
    drop(&o);
}

static void more_rows_than_the_scratch_holds_are_taken_in_turns(void **state)
{
    (void)state;
    if (missing())
        skip();
    struct operands o = operands(ZL_Q4_0, 70, 5, 32768, false, false);
    double to_f32, worst = compare(&o, &to_f32);
    print_message("residual %.2f of its bound\n", worst);
    assert_true(worst <= 1);
    drop(&o);
}

static void what_is_not_finite_shows(void **state)
{
    (void)state;
    if (missing())
        skip();
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int v = 0; v < 3; v++)
        for (int at = 0; at < 64; at += 9) {
            struct operands o = operands(ZL_Q8_0, 2, 8, 64, false, false);
            o.a[at] = bad[v];
            float *c = computed(o.g, o.start, 1, ZL_COMPUTE_INT8);
            for (int j = 0; j < 8; j++)
                assert_true(!isfinite(c[j]) && isfinite(c[o.g.ldc + j]));
            free(c);
            drop(&o);
        }
}

static void zeros_and_numbers_near_zero_give_zero(void **state)
{
    (void)state;
    if (missing())
        skip();
    struct operands o = operands(ZL_Q4_1, 1, 8, 64, false, false);
    for (int i = 0; i < 64; i++)
        o.a[i] = i < 32 ? 0 : 1e-44f;
    float *c = computed(o.g, o.start, 1, ZL_COMPUTE_INT8);
    for (int j = 0; j < 8; j++)
        assert_true(fabsf(c[j]) < 1e-40f);
    free(c);
    drop(&o);
}

#ifdef ZL_ISA_X86
static void all_copies_have_the_same_bits(void **state)
{
    (void)state;
    const struct zl_bytes *mine = missing() ? NULL : zl_bytes_get();
    if (!mine || mine == &zl_bytes_avx2) {
        print_message("skipped: AVX2's is the only copy that runs here\n");
        skip();
    }
    enum { M = 7, N = 19, K = 512 };
    for (int type = 0; type < ZL_TYPES; type++) {
        if (!zl_compute_has(ZL_COMPUTE_INT8, type))
            continue;
        struct operands o = operands(type, M, N, K, false, false);
        float c[2][M * N] = {{0}};
        struct zl_weight w = {type, o.b, zl_pack_row_bytes(type, K), NULL};
        for (int v = 0; v < 2; v++) {
            const struct zl_bytes *b = v ? &zl_bytes_avx2 : mine;
            void *memory = take(M * zl_byte_row_bytes(K));
            struct zl_byte_rows r = zl_byte_rows_at(memory, M, K);
            b->round(&r, 0, M, K, o.a, K + 3);
            b->dot(&w, 0, N, M, &r, 1, c[v], N);
            free(memory);
        }
        assert_memory_equal(c[0], c[1], sizeof c[0]);
        drop(&o);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_integer_type_agrees_with_the_reference),
        cmocka_unit_test(weights_that_are_no_integers_stay_float32),
        cmocka_unit_test(a_row_does_not_depend_on_the_others),
        cmocka_unit_test(more_rows_than_the_scratch_holds_are_taken_in_turns),
        cmocka_unit_test(what_is_not_finite_shows),
        cmocka_unit_test(zeros_and_numbers_near_zero_give_zero),
#ifdef ZL_ISA_X86
        cmocka_unit_test(all_copies_have_the_same_bits),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
