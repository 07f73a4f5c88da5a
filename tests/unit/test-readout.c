/*
 * The ridge map of a readout against the same in plain double: hidden states of a tiny model, weighted covariances with the exact means,
 * Gauss-Jordan elimination instead of Cholesky.
 */
#include "tests/unit/test.h"

#include <math.h>

#include "model/readout.h"
#include "model/spd.h"
#include "tests/variant.h"

enum { LAYERS = 5, D = 32, VOCAB = 260, SAMPLES = 4 };

static struct tiny tiny;
static struct zl_model model;

static int open_tiny(void **state)
{
    (void)state;
    tiny_make(&tiny, LAYERS, 1);
    variant_open(&tiny, 256, &model);
    return 0;
}

static int remove_tiny(void **state)
{
    (void)state;
    zl_model_close(&model);
    tiny_remove(&tiny);
    return 0;
}

/* Hidden states behind the landing layer and behind the last of all rows but the first of each sequence, one after the other. */
static int64_t collect(const struct batch *batch, uint32_t landing, double *x, double *y)
{
    struct zl_block b;
    struct zl_error err = {0};
    int64_t n = 0;
    const struct zl_lora_spec none = {.rank = 1}; /* as if to train, so that all layers keep theirs */
    const struct zl_block_spec spec = {.n_own = LAYERS, .train = true, .lora = &none, .tokens = batch->tok.t,
                                       .longest = batch->longest};
    assert_int_equal(zl_block_open(&b, &model, &spec, 1, &err), 0);
    const float *last = zl_block_forward(&b, 0, &batch->tok, batch->x), *there = b.acts[landing].x;
    for (int64_t i = 0; i < batch->tok.t; i++) {
        if (batch->positions[i] == 0)
            continue;
        for (int j = 0; j < D; j++) {
            x[n * D + j] = (double)there[i * D + j];
            y[n * D + j] = (double)last[i * D + j];
        }
        n++;
    }
    zl_block_close(&b);
    return n;
}

/* M = c^-1 r by elimination with pivots; c and r are overwritten. */
static void eliminate(double c[D][D], double r[D][D])
{
    for (int k = 0; k < D; k++) {
        int p = k;
        for (int i = k; i < D; i++)
            if (fabs(c[i][k]) > fabs(c[p][k]))
                p = i;
        for (int j = 0; j < D; j++) {
            double t = c[k][j];
            c[k][j] = c[p][j], c[p][j] = t;
            t = r[k][j];
            r[k][j] = r[p][j], r[p][j] = t;
        }
        for (int i = 0; i < D; i++) {
            const double f = c[i][k] / c[k][k];
            for (int j = 0; i != k && j < D; j++) {
                c[i][j] -= f * c[k][j];
                r[i][j] -= f * r[k][j];
            }
        }
    }
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            r[i][j] /= c[i][i];
}

/* A, b and what the map explains, by the definition in the header. */
static double reference(const double *x, const double *y, int64_t n, double a[D][D], double b[D])
{
    double *w = malloc((size_t)n * sizeof *w), total = 0, mx[D] = {0}, my[D] = {0}, c[D][D] = {{0}}, r[D][D] = {{0}}, cov[D][D];
    for (int64_t t = 0; t < n; t++) {
        double squares = 0;
        for (int j = 0; j < D; j++)
            squares += y[t * D + j] * y[t * D + j];
        w[t] = D / squares;
        total += w[t];
    }
    for (int64_t t = 0; t < n; t++)
        for (int j = 0; j < D; j++) {
            mx[j] += w[t] / total * x[t * D + j];
            my[j] += w[t] / total * y[t * D + j];
        }
    for (int64_t t = 0; t < n; t++)
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++) {
                const double xi = x[t * D + i] - mx[i];
                c[i][j] += w[t] / total * xi * (x[t * D + j] - mx[j]);
                r[i][j] += w[t] / total * xi * ((y[t * D + j] - my[j]) - (x[t * D + j] - mx[j]));
            }
    double trace = 0, explained = 0;
    for (int i = 0; i < D; i++)
        trace += c[i][i];
    for (int i = 0; i < D; i++)
        c[i][i] += 1e-2 * trace / D;
    memcpy(cov, r, sizeof cov);
    eliminate(c, r); /* r is M now */
    for (int i = 0; i < D; i++) {
        b[i] = my[i];
        for (int j = 0; j < D; j++) {
            a[i][j] = r[j][i] + (i == j);
            b[i] -= a[i][j] * mx[j];
            explained += r[j][i] * cov[j][i];
        }
    }
    free(w);
    return explained;
}

static void make_samples(struct batch *batch, struct zl_sample *sample)
{
    for (int i = 0; i < SAMPLES; i++) {
        batch_make(&batch[i], &model, (int64_t[]){30 + i, 50, 1, 9}, 4, VOCAB, 20 + (uint32_t)i);
        sample[i] = (struct zl_sample){.ids = batch[i].ids, .tok = batch[i].tok};
    }
}

static void the_fitted_map_is_ridge_regression(void **state)
{
    (void)state;
    struct batch batch[SAMPLES];
    struct zl_sample sample[SAMPLES];
    struct zl_map map[2] = {{.landing = 1}, {.landing = 4}};
    struct zl_error err = {0};
    make_samples(batch, sample);
    if (zl_readout_fit(&model, 2, sample, SAMPLES, 93, 50, map, 2, &err))
        fail_msg("%s", err.text);
    for (int k = 0; k < 2; k++) {
        double *x = malloc(SAMPLES * 93 * D * sizeof *x), *y = malloc(SAMPLES * 93 * D * sizeof *y), a[D][D], b[D];
        int64_t n = 0;
        for (int i = 0; i < SAMPLES; i++)
            n += collect(&batch[i], map[k].landing, x + n * D, y + n * D);
        assert_int_equal(n, SAMPLES * (30 + 50 + 1 + 9 - 4) + 0 + 1 + 2 + 3);
        const double explained = reference(x, y, n, a, b);
        double worst_a = 0, worst_b = 0, largest_b = 0;
        for (int i = 0; i < D; i++) {
            for (int j = 0; j < D; j++)
                worst_a = worse(worst_a, fabs((double)map[k].a[i * D + j] - a[i][j]));
            worst_b = worse(worst_b, fabs((double)map[k].b[i] - b[i]));
            largest_b = worse(largest_b, fabs(b[i]));
        }
        print_message("  landing %u: A differs by %.2g <= 1e-5, b by %.2g <= %.2g, explained %.6g against %.6g\n", map[k].landing,
                      worst_a, worst_b, 1e-5 * (1 + largest_b), map[k].explained, explained);
        assert_true(worst_a <= 1e-5 && worst_b <= 1e-5 * (1 + largest_b));
        assert_true(explained > 0 && fabs(map[k].explained / explained - 1) <= 1e-5);
        free(x);
        free(y);
    }
    for (int i = 0; i < SAMPLES; i++)
        batch_free(&batch[i]);
    zl_map_free(&map[0]);
    zl_map_free(&map[1]);
}

static void the_map_does_not_depend_on_threads_or_on_other_maps(void **state)
{
    (void)state;
    struct batch batch[SAMPLES];
    struct zl_sample sample[SAMPLES];
    struct zl_map both[2] = {{.landing = 2}, {.landing = 3}}, alone = {.landing = 3};
    struct zl_error err = {0};
    make_samples(batch, sample);
    assert_int_equal(zl_readout_fit(&model, 3, sample, SAMPLES, 93, 50, both, 2, &err), 0);
    assert_int_equal(zl_readout_fit(&model, 1, sample, SAMPLES, 93, 50, &alone, 1, &err), 0);
    assert_memory_equal(both[1].a, alone.a, D * D * sizeof(float));
    assert_memory_equal(both[1].b, alone.b, D * sizeof(float));
    for (int i = 0; i < SAMPLES; i++)
        batch_free(&batch[i]);
    zl_map_free(&both[0]);
    zl_map_free(&both[1]);
    zl_map_free(&alone);
}

/* One token a sequence leaves nothing to fit on: position 0 is left out. */
static void hidden_states_that_do_not_vary_are_refused(void **state)
{
    (void)state;
    struct batch batch;
    struct zl_map map = {.landing = 2};
    struct zl_error err = {0};
    batch_make(&batch, &model, (int64_t[]){1, 1, 1}, 3, VOCAB, 1);
    const struct zl_sample sample = {.ids = batch.ids, .tok = batch.tok};
    assert_int_equal(zl_readout_fit(&model, 1, &sample, 1, 3, 1, &map, 1, &err), ZL_EINPUT);
    assert_non_null(strstr(err.text, "layer 2"));
    zl_map_free(&map);
    batch_free(&batch);
}

/* Sizes around the blocks and strips of the solver; and a matrix that has no factor. */
static void systems_are_solved_whatever_their_size(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 64, 100};
    double worst = 0;
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        const int64_t d = sizes[n];
        double *c = malloc((size_t)(d * d) * 8), *copy = malloc((size_t)(d * d) * 8), *r = malloc((size_t)(d * d) * 8);
        double *wanted = malloc((size_t)(d * d) * 8), *work = malloc(zl_spd_work(d) * 8);
        for (int64_t i = 0; i < d; i++)
            for (int64_t j = 0; j < d; j++) {
                copy[i * d + j] = (i == j) + 0.4 / (1 + (double)((i - j) * (i - j)));
                wanted[i * d + j] = sin((double)(i * 7 + j * 3));
                c[i * d + j] = j <= i ? copy[i * d + j] : 1e300; /* the upper triangle is not looked at */
            }
        memcpy(r, wanted, (size_t)(d * d) * 8);
        assert_true(zl_spd_solve(c, r, d, work));
        for (int64_t i = 0; i < d; i++)
            for (int64_t j = 0; j < d; j++) {
                double sum = 0;
                for (int64_t k = 0; k < d; k++)
                    sum += copy[i * d + k] * r[k * d + j];
                worst = worse(worst, fabs(sum - wanted[i * d + j]));
            }
        copy[d * d - 1] = d == 1 ? -1 : copy[d * d - 1] - 2; /* the last pivot */
        assert_false(zl_spd_solve(copy, r, d, work));
        free(c);
        free(copy);
        free(r);
        free(wanted);
        free(work);
    }
    print_message("  residual %.1e, bound 1e-13\n", worst);
    assert_true(worst < 1e-13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(systems_are_solved_whatever_their_size),
        cmocka_unit_test(the_fitted_map_is_ridge_regression),
        cmocka_unit_test(the_map_does_not_depend_on_threads_or_on_other_maps),
        cmocka_unit_test(hidden_states_that_do_not_vary_are_refused),
    };
    return cmocka_run_group_tests(tests, open_tiny, remove_tiny);
}
