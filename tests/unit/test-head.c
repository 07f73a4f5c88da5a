/* The head with its loss: the reference against finite differences, chunks and parts against the
 * reference, ties, threads, cuts. */
#include "kernel/dequant.h"
#include "kernel/head.h"
#include "kernel/reference.h"
#include "tests/unit/near.h"

struct setup {
    struct zl_head head;
    int64_t rows, candidates;
    float *h;
    double *e;
    void *weight;
    int32_t *targets, *subset;
};

static struct setup make(enum zl_type type, int64_t vocab, int64_t d, int64_t rows, int subset,
                         float amplitude, uint64_t *seed)
{
    struct setup s = {
        .head = {.type = type, .vocab = vocab, .d = d}, .rows = rows, .candidates = vocab};
    float *e = near_floats(vocab * d, amplitude, seed);
    s.h = near_floats(rows * d, 1, seed);
    if (type == ZL_Q8_0) { /* blocks of a scale and 32 bytes */
        uint8_t *w = malloc(vocab * d / 32 * 34);
        for (int64_t i = 0; i < vocab * d / 32 * 34; i++)
            w[i] = (uint8_t)(near_random(seed) * 127);
        for (int64_t i = 0; i < vocab * d / 32; i++)
            w[i * 34] = 0x66, w[i * 34 + 1] = 0x18; /* about 0.002 */
        s.weight = w;
        zl_dequant_ref(type, w, e, vocab * d);
    } else {
        s.weight = near_copy(e, vocab * d);
    }
    s.head.weight = s.weight;
    s.e = near_doubles(e, vocab * d);
    free(e);
    if (subset) {
        s.subset = malloc(vocab * sizeof *s.subset);
        for (int32_t i = 2; i < vocab; i += 3)
            s.subset[s.head.n_subset++] = i;
        s.head.subset = s.subset;
        s.candidates = s.head.n_subset;
    }
    s.targets = malloc(rows * sizeof *s.targets + !rows);
    for (int64_t i = 0; i < rows; i++)
        s.targets[i] = (int32_t)((i * 7919 + 1) % s.candidates);
    return s;
}

static void drop(struct setup *s)
{
    free(s->h), free(s->e), free(s->weight), free(s->targets), free(s->subset);
}

struct result {
    float *loss, *dh;
    int32_t *argmax;
};

/* In calls of at most `cut` rows, the gradient in the place of a copy of h. */
static struct result run(const struct setup *s, int threads, int64_t cut)
{
    struct result r = {malloc(s->rows * sizeof(float)), near_copy(s->h, s->rows * s->head.d),
                       malloc(s->rows * sizeof(int32_t))};
    struct zl_team team = near_team(threads, zl_head_scratch_bytes(threads, s->head.d, cut));
    for (int64_t i = 0; i < s->rows; i += cut) {
        int64_t n = s->rows - i < cut ? s->rows - i : cut;
        float *dh = r.dh + i * s->head.d;
        zl_head_loss(&team, &s->head, n, dh, s->targets + i, 0.25f, r.loss + i, r.argmax + i, dh);
        memset(team.scratch, 0xff, team.scratch_bytes);
    }
    free(team.scratch);
    return r;
}

static void release(struct result r)
{
    free(r.loss), free(r.dh), free(r.argmax);
}

static void check_against_reference(const struct setup *s, double bound)
{
    int64_t n = s->rows * s->head.d;
    double *h = near_doubles(s->h, n), *dh = malloc(n * sizeof *dh),
           *loss = malloc(s->rows * sizeof *loss);
    int32_t *argmax = malloc(s->rows * sizeof *argmax);
    zl_head_loss_ref(&s->head, s->e, s->rows, h, s->targets, 0.25, loss, argmax, dh);
    struct result r = run(s, 2, s->rows);
    print_message(" %s, vocabulary %d, d %d, rows %d\n", s->head.subset ? "subset" : "all",
                  (int)s->head.vocab, (int)s->head.d, (int)s->rows);
    near_check("loss", r.loss, loss, s->rows, bound);
    near_check("dh", r.dh, dh, n, bound);
    for (int64_t i = 0; i < s->rows; i++)
        assert_int_equal(r.argmax[i], argmax[i]);

    /* Evaluation: the same loss without a gradient. */
    struct zl_team team = near_team(1, zl_head_scratch_bytes(1, s->head.d, s->rows));
    float *again = malloc(s->rows * sizeof *again);
    zl_head_loss(&team, &s->head, s->rows, s->h, s->targets, 1, again, NULL, NULL);
    assert_memory_equal(again, r.loss, s->rows * sizeof *again);
    free(again), free(team.scratch);
    release(r);
    free(h), free(dh), free(loss), free(argmax);
}

struct scalar {
    const struct setup *s;
    double *h, *loss;
};

static double value(void *arg)
{
    struct scalar *c = arg;
    zl_head_loss_ref(&c->s->head, c->s->e, c->s->rows, c->h, c->s->targets, 1, c->loss, NULL, NULL);
    double sum = 0;
    for (int64_t i = 0; i < c->s->rows; i++)
        sum += c->loss[i];
    return sum;
}

static void reference_gradient_agrees_with_finite_differences(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int subset = 0; subset < 2; subset++) {
        struct setup s = make(ZL_F32, 30, 6, 4, subset, 2, &seed);
        double loss[4], dh[24], worst = 0;
        struct scalar c = {&s, near_doubles(s.h, 24), loss};
        zl_head_loss_ref(&s.head, s.e, 4, c.h, s.targets, 1, loss, NULL, dh);
        for (int i = 0; i < 24; i++)
            worst = fmax(worst, fabs(near_slope(value, &c, c.h + i) - dh[i]));
        print_message("  residual %.2e, bound 1e-08\n", worst);
        assert_true(worst < 1e-8);
        free(c.h);
        drop(&s);
    }
}

static void chunks_match_reference(void **state)
{
    (void)state;
    uint64_t seed = 2;
    static const int64_t shapes[][3] = {/* vocabulary, d, rows */
                                        {1, 16, 1},      {2, 24, 3},       {127, 33, 31},
                                        {128, 64, 32},   {129, 7, 33},     {1000, 80, 5},
                                        {1025, 128, 65}, {2000, 600, 300}, {3001, 1, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int subset = 0; subset < 2 && shapes[i][0] > 2 - !subset; subset++) {
            struct setup s =
                make(ZL_F32, shapes[i][0], shapes[i][1], shapes[i][2], subset, 0.5f, &seed);
            check_against_reference(&s, 5e-6);
            drop(&s);
        }
}

static void quantized_weights_match_reference(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int subset = 0; subset < 2; subset++) {
        struct setup s = make(ZL_Q8_0, 1111, 96, 40, subset, 0, &seed);
        check_against_reference(&s, 3e-6);
        drop(&s);
    }
}

static void results_depend_neither_on_threads_nor_on_cuts(void **state)
{
    (void)state;
    uint64_t seed = 4;
    struct setup s = make(ZL_F32, 1500, 72, 290, 0, 0.5f, &seed);
    struct result one = run(&s, 1, 290);
    static const int64_t cuts[] = {290, 1, 32, 33, 100, 257};
    for (int threads = 1; threads <= 5; threads++)
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            struct result r = run(&s, threads, cuts[i]);
            assert_memory_equal(r.loss, one.loss, 290 * sizeof(float));
            assert_memory_equal(r.argmax, one.argmax, 290 * sizeof(int32_t));
            assert_memory_equal(r.dh, one.dh, 290 * 72 * sizeof(float));
            release(r);
        }
    release(one);
    drop(&s);
}

static void ties_go_to_the_lowest_index(void **state)
{
    (void)state;
    enum { V = 1200, D = 16 };
    float *e = calloc(V * D, sizeof *e), h[D] = {1}, loss[1];
    int32_t target[1] = {0}, argmax[1];
    struct zl_head head = {.type = ZL_F32, .weight = e, .vocab = V, .d = D};
    struct zl_team team = near_team(2, zl_head_scratch_bytes(2, D, 1));
    static const int at[] = {3, 130, 131, 700, 1199};
    for (int first = 4; first >= 0; first--) {
        e[at[first] * D] = 2;
        zl_head_loss(&team, &head, 1, h, target, 1, loss, argmax, NULL);
        assert_int_equal(argmax[0], at[first]);
    }
    for (int i = 0; i < V; i++)
        e[i * D] = -1;
    zl_head_loss(&team, &head, 1, h, target, 1, loss, argmax, NULL);
    assert_int_equal(argmax[0], 0);
    print_message("  loss of equal logits: residual %.2e, bound 1e-06\n", fabs(loss[0] - log(V)));
    assert_true(fabs(loss[0] - log(V)) < 1e-6);
    free(e), free(team.scratch);
}

static void huge_logits_stay_finite(void **state)
{
    (void)state;
    uint64_t seed = 5;
    struct setup s = make(ZL_F32, 700, 64, 40, 0, 1, &seed);
    for (int64_t i = 0; i < 40 * 64; i++)
        s.h[i] *= 3000; /* logits of +-3e4 */
    check_against_reference(&s, 1e-3);
    drop(&s);
}

/* Reserved tokens have rows of zeros, and may be labels. */
static void zero_rows_of_the_vocabulary_are_ordinary(void **state)
{
    (void)state;
    uint64_t seed = 6;
    struct setup s = make(ZL_F32, 400, 32, 6, 0, 1, &seed);
    memset((float *)s.weight + 1 * 32, 0, 300 * 32 * sizeof(float));
    for (int64_t i = 0; i < 300 * 32; i++)
        s.e[32 + i] = 0;
    for (int i = 0; i < 6; i++)
        s.targets[i] = 1 + i;
    check_against_reference(&s, 3e-6);
    drop(&s);
}

static void no_rows_no_work(void **state)
{
    (void)state;
    float w[32] = {0};
    struct zl_head head = {.type = ZL_F32, .weight = w, .vocab = 2, .d = 16};
    struct zl_team team = near_team(1, zl_head_scratch_bytes(1, 16, 0));
    zl_head_loss(&team, &head, 0, NULL, NULL, 1, NULL, NULL, NULL);
    free(team.scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_gradient_agrees_with_finite_differences),
        cmocka_unit_test(chunks_match_reference),
        cmocka_unit_test(quantized_weights_match_reference),
        cmocka_unit_test(results_depend_neither_on_threads_nor_on_cuts),
        cmocka_unit_test(ties_go_to_the_lowest_index),
        cmocka_unit_test(huge_logits_stay_finite),
        cmocka_unit_test(zero_rows_of_the_vocabulary_are_ordinary),
        cmocka_unit_test(no_rows_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
