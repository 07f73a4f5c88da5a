/* The small operations: references against finite differences, fast kernels against references,
 * edges of shapes and of numbers. */
#include "kernel/dequant.h"
#include "kernel/ops.h"
#include "kernel/profile.h"
#include "kernel/reference.h"
#include "tests/unit/near.h"

static const int64_t widths[] = {1, 7, 15, 16, 17, 24, 33, 64, 80, 576, 577};
#define FOR_EACH(i, list) for (size_t i = 0; i < sizeof list / sizeof *list; i++)

/* sum_i c_i y_i as a function of x, for one operation at a time. */
struct scalar {
    enum { NORM, ROPE, GATED } op;
    int64_t t, d;
    enum zl_activation act;
    int interleaved;
    double *x, *w, *up, *c, *y, *rstd, *cs;
    int32_t *pos;
};

static double value(void *arg)
{
    struct scalar *s = arg;
    if (s->op == NORM)
        zl_rmsnorm_ref(s->t, s->d, s->x, s->w, 1e-5, s->y, s->rstd);
    else if (s->op == GATED)
        zl_gated_ref(s->act, s->t, s->d, s->x, s->up, s->d, s->y, s->d);
    else {
        memcpy(s->y, s->x, (size_t)(s->t * s->d) * sizeof *s->y);
        zl_rope_ref(s->t, 1, (int)s->d, s->y, s->d, s->pos, s->cs, 1, s->interleaved);
    }
    double sum = 0;
    for (int64_t i = 0; i < s->t * s->d; i++)
        sum += s->c[i] * s->y[i];
    return sum;
}

static double *doubles(int64_t n, double amplitude, uint64_t *seed)
{
    double *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = amplitude * near_random(seed);
    return x;
}

static void check_slopes(struct scalar *s, double *x, const double *gradient, const char *what)
{
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < s->t * s->d; i++) {
        worst = fmax(worst, fabs(near_slope(value, s, x + i) - gradient[i]));
        largest = fmax(largest, fabs(gradient[i]));
    }
    print_message("  %s: residual %.2e, bound 1e-08\n", what, worst / largest);
    assert_true(worst / largest < 1e-8);
}

static void references_agree_with_finite_differences(void **state)
{
    (void)state;
    uint64_t seed = 1;
    enum { T = 3, D = 8, N = T * D };
    int32_t pos[T] = {0, 3, 1};
    double g[N], g2[N], rstd[T];
    struct scalar s = {.t = T, .d = D, .pos = pos, .rstd = rstd};
    s.x = doubles(N, 2, &seed), s.w = doubles(D, 1, &seed), s.up = doubles(N, 1, &seed);
    s.c = doubles(N, 1, &seed), s.y = doubles(N, 1, &seed), s.cs = doubles(4 * D, 1, &seed);

    s.op = NORM;
    value(&s);
    zl_rmsnorm_backward_ref(T, D, s.c, s.x, s.w, rstd, g, 0);
    check_slopes(&s, s.x, g, "rmsnorm");

    for (int i = 0; i < 4 * D; i += 2) {
        double angle = s.cs[i];
        s.cs[i] = cos(angle), s.cs[i + 1] = sin(angle);
    }
    for (s.op = ROPE; s.interleaved < 2; s.interleaved++) {
        memcpy(g, s.c, sizeof g);
        zl_rope_ref(T, 1, D, g, D, pos, s.cs, -1, s.interleaved);
        check_slopes(&s, s.x, g, s.interleaved ? "rope, pairs" : "rope, halves");
    }

    s.op = GATED;
    for (int act = 0; act < 4; act++) {
        static const char *name[] = {"silu", "gelu tanh", "gelu erf", "relu"};
        s.act = act;
        zl_gated_backward_ref(act, T, D, s.c, D, s.x, s.up, D, g, g2, 0);
        check_slopes(&s, s.x, g, name[act]);
        check_slopes(&s, s.up, g2, "its other factor");
    }
    free(s.x), free(s.w), free(s.up), free(s.c), free(s.y), free(s.cs);
}

static void norm_matches_reference(void **state)
{
    (void)state;
    uint64_t seed = 2;
    FOR_EACH(i, widths) {
        int64_t t = 5, d = widths[i], n = t * d;
        print_message(" d %d\n", (int)d);
        float *x = near_floats(n, 3, &seed), *w = near_floats(d, 2, &seed),
              *dy = near_floats(n, 1, &seed);
        float *y = near_floats(n, 1, &seed), *dx = near_floats(n, 1, &seed),
              *rstd = near_floats(t, 1, &seed);
        double *rx = near_doubles(x, n), *rw = near_doubles(w, d), *rdy = near_doubles(dy, n);
        double *ry = near_doubles(y, n), *rdx = near_doubles(dx, n), *rrstd = near_doubles(rstd, t);
        struct zl_team one = {.threads = 1};
        zl_rmsnorm(&one, t, d, x, w, 1e-5f, y, rstd);
        zl_rmsnorm_ref(t, d, rx, rw, 1e-5f, ry, rrstd);
        near_check("y", y, ry, n, 1e-6);
        near_check("rstd", rstd, rrstd, t, 1e-6);
        zl_rmsnorm_backward(&one, t, d, dy, x, w, rstd, dx, 1);
        zl_rmsnorm_backward_ref(t, d, rdy, rx, rw, rrstd, rdx, 1);
        near_check("dx added", dx, rdx, n, 2e-6);
        zl_rmsnorm_backward(&one, t, d, dy, x, w, rstd, dy, 0);
        zl_rmsnorm_backward_ref(t, d, rdy, rx, rw, rrstd, rdx, 0);
        near_check("dx in dy's place", dy, rdx, n, d == 1 ? 1 : 2e-6);
        zl_rmsnorm(&one, t, d, x, w, 1e-5f, x, NULL);
        near_check("y in x's place", x, ry, n, 1e-6);
        free(x), free(w), free(dy), free(y), free(dx), free(rstd);
        free(rx), free(rw), free(rdy), free(ry), free(rdx), free(rrstd);
    }
}

static void norm_of_zeros_and_of_huge_rows_is_finite(void **state)
{
    (void)state;
    float x[32] = {0}, w[32], y[32], rstd[2];
    for (int i = 0; i < 16; i++)
        x[16 + i] = 1e15f, w[i] = 1;
    struct zl_team one = {.threads = 1};
    zl_rmsnorm(&one, 2, 16, x, w, 1e-6f, y, rstd);
    for (int i = 0; i < 16; i++) {
        assert_true(y[i] == 0);
        assert_true(fabsf(y[16 + i] - 1) < 1e-6);
    }
}

static void rope_matches_reference_and_turns_back(void **state)
{
    (void)state;
    uint64_t seed = 3;
    static const int dims[] = {2, 6, 24, 64, 80, 96, 128, 256};
    FOR_EACH(i, dims)
        for (int inter = 0; inter < 2; inter++) {
            int hd = dims[i], heads = 3;
            int64_t t = 4, ld = heads * hd + 5, n = t * ld;
            int32_t pos[] = {0, 6, 2, 2};
            float *x = near_floats(n, 2, &seed), *before = near_copy(x, n),
                  *cs = near_floats(7 * hd, 1, &seed);
            for (int64_t k = 0; k < 7 * hd; k += 2) {
                float angle = 3 * cs[k];
                cs[k] = cosf(angle), cs[k + 1] = sinf(angle);
            }
            double *rx = near_doubles(x, n), *rcs = near_doubles(cs, 7 * hd),
                   *rb = near_doubles(before, n);
            struct zl_team one = {.threads = 1};
            zl_rope(&one, t, heads, hd, x, ld, pos, cs, 1, inter);
            zl_rope_ref(t, heads, hd, rx, ld, pos, rcs, 1, inter);
            print_message(" head_dim %d, %s\n", hd, inter ? "pairs" : "halves");
            near_check("rotated", x, rx, n, 3e-7);
            for (int64_t k = 0; k < t; k++)
                assert_memory_equal(x + k * ld + heads * hd, before + k * ld + heads * hd,
                                    5 * sizeof *x);
            zl_rope(&one, t, heads, hd, x, ld, pos, cs, -1, inter);
            near_check("and back", x, rb, n, 5e-7);
            free(x), free(before), free(cs), free(rx), free(rcs), free(rb);
        }
}

static void gated_activations_match_reference(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int act = 0; act < 4; act++)
        FOR_EACH(i, widths) {
            int64_t t = 3, f = widths[i], ldg = f + 3, ldh = f + 1, n = t * ldg, nh = t * ldh;
            float *gate = near_floats(n, 8, &seed), *up = near_floats(n, 1, &seed),
                  *dh = near_floats(nh, 1, &seed);
            float *h = near_floats(nh, 1, &seed), *again = near_copy(h, nh);
            double *rgate = near_doubles(gate, n), *rup = near_doubles(up, n),
                   *rdh = near_doubles(dh, nh);
            double *rh = near_doubles(h, nh), *rdg = near_doubles(gate, n),
                   *rdu = near_doubles(up, n);
            struct zl_team one = {.threads = 1};
            print_message(" activation %d, f %d\n", act, (int)f);
            zl_gated(&one, act, t, f, gate, up, ldg, h, ldh);
            zl_gated_ref(act, t, f, rgate, rup, ldg, rh, ldh);
            near_check("h", h, rh, nh, 5e-7);
            zl_gated_backward(&one, act, t, f, dh, ldh, gate, up, ldg, gate, up, again);
            zl_gated_backward_ref(act, t, f, rdh, ldh, rgate, rup, ldg, rdg, rdu, rh);
            near_check("dgate in gate's place", gate, rdg, n, 5e-7);
            near_check("dup in up's place", up, rdu, n, 5e-7);
            assert_memory_equal(h, again, (size_t)nh * sizeof *h);
            free(gate), free(up), free(dh), free(h), free(again);
            free(rgate), free(rup), free(rdh), free(rh), free(rdg), free(rdu);
        }
}

/* Value by value, so that small results count as much as large ones. */
static void activations_are_right_from_small_to_huge(void **state)
{
    (void)state;
    enum { N = 4001 };
    static float x[N], one[N], h[N], dg[N], du[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) * 0.01f, one[i] = 1;
    static const float special[] = {0, 1e-30f, -1e-30f, 1e4f, -1e4f, 1e12f, -1e12f, 3e38f};
    memcpy(x, special, sizeof special);
    struct zl_team team = {.threads = 1};
    for (int act = 0; act < 4; act++) {
        double worst = 0, slopes = 0;
        zl_gated(&team, act, 1, N, x, one, N, h, N);
        zl_gated_backward(&team, act, 1, N, one, N, x, one, N, dg, du, NULL);
        for (int i = 0; i < N; i++) {
            double slope, y = zl_activation_ref(act, x[i], &slope);
            /* relative, where the result does not vanish beside 1 */
            worst = fmax(worst, fabs(h[i] - y) / fmax(fabs(y), 1e-3));
            slopes = fmax(slopes, fabs(dg[i] - (isfinite(slope) ? slope : x[i] > 0)) / 1.1);
            assert_true(h[i] == du[i]);
        }
        print_message("  activation %d: residual %.2e, of slopes %.2e, bound 1e-06\n", act, worst,
                      slopes);
        assert_true(worst < 1e-6 && slopes < 1e-6);
    }
}

static void adamw_matches_reference_over_steps(void **state)
{
    (void)state;
    uint64_t seed = 5;
    enum { N = 1003 };
    struct zl_adamw o = {3e-3f, 0.9f, 0.99f, 1e-8f, 0.01f};
    float *p = near_floats(N, 1, &seed), *m = near_floats(N, 0, &seed),
          *v = near_floats(N, 0, &seed);
    double *rp = near_doubles(p, N), *rm = near_doubles(m, N), *rv = near_doubles(v, N);
    for (int step = 1; step <= 20; step++) {
        float *g = near_floats(N, 0.1f, &seed);
        g[0] = 0, g[1] = 1e-20f, g[2] = 1e10f;
        double *rg = near_doubles(g, N);
        zl_adamw_step(&o, step, N, 0.5f, g, p, m, v);
        zl_adamw_step_ref(&o, step, N, 0.5f, rg, rp, rm, rv);
        free(g), free(rg);
    }
    near_check("p", p, rp, N, 1e-6);
    near_check("m", m, rm, N, 1e-6);
    near_check("v", v, rv, N, 2e-6);
    free(p), free(m), free(v), free(rp), free(rm), free(rv);
}

static void sum_of_squares_is_that_of_doubles(void **state)
{
    (void)state;
    uint64_t seed = 6;
    FOR_EACH(i, widths) {
        float *x = near_floats(widths[i], 1e18f, &seed);
        double s = 0;
        for (int64_t k = 0; k < widths[i]; k++)
            s += (double)x[k] * x[k];
        assert_true(fabs(zl_sum_squares(x, widths[i]) - s) <= 1e-13 * s);
        free(x);
    }
    assert_true(zl_sum_squares(NULL, 0) == 0);
}

static void results_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { T = 37, D = 3001, HD = 100, HEADS = 30 };
    uint64_t seed = 7;
    float *x = near_floats(T * D, 2, &seed), *w = near_floats(D, 1, &seed),
          *dy = near_floats(T * D, 1, &seed);
    float *cs = near_floats(T * HD, 1, &seed), *first[5] = {0};
    int32_t pos[T];
    for (int i = 0; i < T; i++)
        pos[i] = i;
    for (int threads = 1; threads <= 3; threads++) {
        struct zl_team team = {.threads = threads};
        float *out[5], rstd[T];
        for (int i = 0; i < 5; i++)
            out[i] = near_copy(x, T * D);
        zl_rmsnorm(&team, T, D, x, w, 1e-5f, out[0], rstd);
        zl_rmsnorm_backward(&team, T, D, dy, x, w, rstd, out[1], 1);
        zl_rope(&team, T, HEADS, HD, out[2], D, pos, cs, 1, 0);
        zl_gated(&team, ZL_SILU, T, D, x, dy, D, out[3], D);
        zl_gated_backward(&team, ZL_SILU, T, D, dy, D, x, x, D, out[4], out[0], NULL);
        zl_add(&team, T * D, x, out[4]);
        for (int i = 0; i < 5; i++)
            if (threads == 1)
                first[i] = out[i];
            else {
                assert_memory_equal(out[i], first[i], T * D * sizeof(float));
                free(out[i]);
            }
    }
    for (int i = 0; i < 5; i++)
        free(first[i]);
    free(x), free(w), free(dy), free(cs);
}

/* Every half there is comes back; between two neighbours the nearer one is taken, on ties the even one; NaN stays NaN. */
static void halves_are_rounded_to_nearest_even(void **state)
{
    (void)state;
    enum { N = 65536 };
    struct zl_team two = {.threads = 2};
    float *x = malloc(N * sizeof *x);
    uint16_t *h = malloc(N * sizeof *h), *back = malloc(N * sizeof *back);
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < N; i++)
        h[i] = (uint16_t)i;
    zl_widen(&two, N, h, x);
    zl_narrow(&two, N, x, back);
    for (uint32_t i = 0; i < N; i++)
        wrong += isnan(x[i]) ? !isnan(zl_bf16_to_f32(back[i])) : back[i] != h[i];
    assert_int_equal(wrong, 0);
    for (uint32_t low = 0x7fff; low <= 0x8001; low++) {
        for (uint32_t i = 0; i < N; i++) {
            uint32_t u = i << 16 | low;
            memcpy(&x[i], &u, sizeof u);
        }
        zl_narrow(&two, N, x, back);
        for (uint32_t i = 0; i < N; i++) {
            const bool up = low > 0x8000 || (low == 0x8000 && (i & 1));
            wrong += isnan(x[i]) ? !isnan(zl_bf16_to_f32(back[i])) : back[i] != i + up;
        }
    }
    print_message("  %llu of %d halves wrong (bound 0)\n", (unsigned long long)wrong, 4 * N);
    assert_int_equal(wrong, 0);
    free(x), free(h), free(back);
}

static void nothing_to_do_is_fine(void **state)
{
    (void)state;
    struct zl_team one = {.threads = 1};
    zl_rmsnorm(&one, 0, 16, NULL, NULL, 1, NULL, NULL);
    zl_gated(&one, ZL_SILU, 0, 16, NULL, NULL, 16, NULL, 16);
    zl_add(&one, 0, NULL, NULL);
    zl_rope(&one, 0, 1, 16, NULL, 16, NULL, NULL, 1, 0);
}

static void a_profile_counts_each_kernel_under_its_part(void **state)
{
    (void)state;
    struct zl_profile profile = {0};
    struct zl_team team = {.threads = 1, .profile = &profile};
    float x[16] = {1}, w[16] = {1}, y[16], rstd;
    zl_rmsnorm(&team, 1, 16, x, w, 1e-5f, y, &rstd);
    zl_rmsnorm_backward(&team, 1, 16, y, x, w, &rstd, x, 1);
    zl_gated(&team, ZL_SILU, 1, 16, x, w, 16, y, 16);
    for (int part = 0; part < ZL_PARTS; part++) {
        assert_non_null(zl_part_names[part]);
        assert_int_equal(profile.calls[part], part == ZL_PART_NORM ? 2 : part == ZL_PART_GATED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_agree_with_finite_differences),
        cmocka_unit_test(norm_matches_reference),
        cmocka_unit_test(norm_of_zeros_and_of_huge_rows_is_finite),
        cmocka_unit_test(rope_matches_reference_and_turns_back),
        cmocka_unit_test(gated_activations_match_reference),
        cmocka_unit_test(activations_are_right_from_small_to_huge),
        cmocka_unit_test(adamw_matches_reference_over_steps),
        cmocka_unit_test(sum_of_squares_is_that_of_doubles),
        cmocka_unit_test(results_do_not_depend_on_threads),
        cmocka_unit_test(halves_are_rounded_to_nearest_even),
        cmocka_unit_test(nothing_to_do_is_fine),
        cmocka_unit_test(a_profile_counts_each_kernel_under_its_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
