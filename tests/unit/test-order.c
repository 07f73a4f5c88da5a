/* The order of training: a plan is a pure function of sizes and options, and covers every example
 * once an epoch. */
#include "tests/unit/test.h"

#include "base/rng.h"
#include "format/dataset.h"

/* n examples of pseudo-random lengths 2..longest; half of each (at least one token) is trained. */
static struct zl_dataset examples(uint64_t n, uint32_t longest)
{
    struct zl_dataset d = {.n_examples = n, .examples = calloc(n, sizeof *d.examples)};
    for (uint64_t i = 0; i < n; i++) {
        uint32_t len = 2 + (uint32_t)(zl_random_u64(5, ZL_STREAM_TEST, 0, i) % (longest - 1));
        d.examples[i] =
            (struct zl_example){.first = d.n_tokens, .n = len, .n_trained = len / 2, .line = i + 1};
        d.n_tokens += len;
    }
    return d;
}

/* Sums and bounds that any plan must keep; the number of positions. */
static uint64_t check_plan(const struct zl_dataset *d, const struct zl_schedule_options *s,
                           const struct zl_data_order *o)
{
    uint64_t p = 0, micro = 0;
    for (uint64_t i = 0; i < o->n_steps; i++) {
        const struct zl_step *t = &o->steps[i];
        uint64_t tokens = 0, trained = 0, first = p;
        assert_int_equal(t->first_micro, micro);
        assert_true(t->n_micro >= 1);
        for (uint64_t j = 0; j < t->n_micro; j++) {
            const struct zl_micro_batch *m = &o->micro[micro++];
            uint64_t mt = 0, ml = 0;
            assert_int_equal(m->first, p);
            assert_true(m->n >= 1);
            for (uint64_t k = 0; k < m->n; k++, p++) {
                const struct zl_example *e = &d->examples[zl_data_order_example(o, p)];
                mt += e->n;
                ml += e->n_trained;
            }
            assert_int_equal(m->n_tokens, mt);
            assert_int_equal(m->n_trained, ml);
            assert_true(mt <= s->micro_batch_tokens || m->n == 1);
            assert_true(mt <= o->largest_micro_tokens);
            assert_true(m->n <= o->largest_micro_examples);
            tokens += mt;
            trained += ml;
        }
        assert_int_equal(t->n_tokens, tokens);
        assert_int_equal(t->n_trained, trained);
        assert_true(tokens <= s->batch_tokens || p - first == 1);
        if (i + 1 < o->n_steps) /* greedy: the next example would not have fitted */
            assert_true(tokens + d->examples[zl_data_order_example(o, p)].n > s->batch_tokens);
    }
    assert_int_equal(micro, o->n_micro);
    return p;
}

static void an_epoch_holds_every_example_once(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1, 2, 3, 17, 64, 65, 1000};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct zl_dataset d = examples(sizes[k], 40);
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            struct zl_schedule_options s = {.seed = 7,
                                            .batch_tokens = 200,
                                            .micro_batch_tokens = 64,
                                            .epochs = 3,
                                            .shuffle = shuffle};
            struct zl_data_order o;
            struct zl_error err = {0};
            assert_int_equal(zl_data_order_plan(&d, &s, &o, &err), 0);
            assert_int_equal(check_plan(&d, &s, &o), 3 * d.n_examples);
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                unsigned char *seen = calloc(d.n_examples, 1);
                for (uint64_t i = 0; i < d.n_examples; i++) {
                    uint64_t e = zl_data_order_example(&o, epoch * d.n_examples + i);
                    assert_true(e < d.n_examples);
                    assert_false(seen[e]++);
                    if (!shuffle)
                        assert_int_equal(e, i);
                }
                free(seen);
            }
            zl_data_order_free(&o);
        }
        free(d.examples);
    }
}

static void the_order_depends_on_seed_and_epoch_only(void **state)
{
    (void)state;
    struct zl_dataset d = examples(500, 30);
    struct zl_schedule_options s = {
        .seed = 1, .batch_tokens = 100, .micro_batch_tokens = 50, .epochs = 2, .shuffle = true};
    struct zl_schedule_options wide = {
        .seed = 1, .batch_tokens = 999, .micro_batch_tokens = 333, .steps = 3, .shuffle = true};
    struct zl_schedule_options other = s;
    other.seed = 2;
    struct zl_data_order a, b, c, w;
    struct zl_error err = {0};
    assert_int_equal(zl_data_order_plan(&d, &s, &a, &err), 0);
    assert_int_equal(zl_data_order_plan(&d, &s, &b, &err), 0);
    assert_int_equal(zl_data_order_plan(&d, &other, &c, &err), 0);
    assert_int_equal(zl_data_order_plan(&d, &wide, &w, &err), 0);
    assert_int_equal(a.n_steps, b.n_steps);
    assert_memory_equal(a.steps, b.steps, a.n_steps * sizeof *a.steps);
    assert_memory_equal(a.micro, b.micro, a.n_micro * sizeof *a.micro);
    uint64_t same_seed = 0, same_epoch = 0;
    for (uint64_t p = 0; p < 500; p++) {
        assert_int_equal(zl_data_order_example(&a, p), zl_data_order_example(&w, p));
        same_seed += zl_data_order_example(&a, p) == zl_data_order_example(&c, p);
        same_epoch += zl_data_order_example(&a, p) == zl_data_order_example(&a, p + 500);
    }
    print_message("positions equal by chance: %d (other seed), %d (next epoch), bound 10\n",
                  (int)same_seed, (int)same_epoch);
    assert_true(same_seed < 10 && same_epoch < 10);
    zl_data_order_free(&a);
    zl_data_order_free(&b);
    zl_data_order_free(&c);
    zl_data_order_free(&w);
    free(d.examples);
}

static void steps_run_on_into_the_next_epoch(void **state)
{
    (void)state;
    struct zl_dataset d = examples(10, 20);
    struct zl_schedule_options s = {
        .seed = 3, .batch_tokens = 64, .micro_batch_tokens = 32, .steps = 50, .shuffle = true};
    struct zl_data_order o;
    struct zl_error err = {0};
    assert_int_equal(zl_data_order_plan(&d, &s, &o, &err), 0);
    assert_int_equal(o.n_steps, 50);
    assert_true(check_plan(&d, &s, &o) > 50);
    zl_data_order_free(&o);

    s.steps = 0;
    s.epochs = 0.25; /* 2.5 of 10 examples, rounded away from zero */
    assert_int_equal(zl_data_order_plan(&d, &s, &o, &err), 0);
    assert_int_equal(check_plan(&d, &s, &o), 3);
    zl_data_order_free(&o);
    free(d.examples);
}

static void a_shorter_run_is_the_beginning_of_a_longer_one(void **state)
{
    (void)state;
    struct zl_dataset d = examples(30, 25);
    struct zl_schedule_options s = {
        .seed = 9, .batch_tokens = 70, .micro_batch_tokens = 30, .steps = 20, .shuffle = true};
    struct zl_data_order a, b;
    struct zl_error err = {0};
    assert_int_equal(zl_data_order_plan(&d, &s, &a, &err), 0);
    s.steps = 100;
    assert_int_equal(zl_data_order_plan(&d, &s, &b, &err), 0);
    assert_memory_equal(a.steps, b.steps, a.n_steps * sizeof *a.steps);
    assert_memory_equal(a.micro, b.micro, a.n_micro * sizeof *a.micro);
    zl_data_order_free(&a);
    zl_data_order_free(&b);
    free(d.examples);
}

static void one_long_example_is_a_step_of_its_own(void **state)
{
    (void)state;
    struct zl_example e[3] = {
        {.n = 4, .n_trained = 1}, {.n = 50, .n_trained = 9}, {.n = 4, .n_trained = 1}};
    struct zl_dataset d = {.examples = e, .n_examples = 3};
    struct zl_schedule_options s = {.batch_tokens = 10, .micro_batch_tokens = 50, .epochs = 1};
    struct zl_data_order o;
    struct zl_error err = {0};
    assert_int_equal(zl_data_order_plan(&d, &s, &o, &err), 0);
    assert_int_equal(o.n_steps, 3);
    assert_int_equal(o.steps[1].n_tokens, 50);
    assert_int_equal(o.largest_micro_tokens, 50);
    zl_data_order_free(&o);
}

static void an_example_beyond_the_micro_batch_is_one_of_its_own(void **state)
{
    (void)state;
    struct zl_example e[4] = {{.n = 4, .n_trained = 1}, {.n = 123, .n_trained = 9}, {.n = 5, .n_trained = 2}, {.n = 6, .n_trained = 2}};
    struct zl_dataset d = {.examples = e, .n_examples = 4};
    struct zl_schedule_options s = {.batch_tokens = 1000, .micro_batch_tokens = 100, .epochs = 1};
    struct zl_data_order o;
    struct zl_error err = {0};
    assert_int_equal(zl_data_order_plan(&d, &s, &o, &err), 0);
    assert_int_equal(o.n_steps, 1);
    assert_int_equal(o.n_micro, 3);
    assert_int_equal(o.micro[1].n_tokens, 123);
    assert_int_equal(o.micro[1].n, 1);
    assert_int_equal(o.micro[2].n, 2);
    assert_int_equal(o.largest_micro_tokens, 123);
    zl_data_order_free(&o);
}

static void a_plan_beyond_the_memory_is_refused_before_it_is_made(void **state)
{
    (void)state;
    struct zl_dataset d = examples(10, 20);
    struct zl_data_order o;
    const uint64_t steps[] = {(uint64_t)1 << 50, UINT64_MAX};
    for (size_t i = 0; i < 2; i++) {
        struct zl_schedule_options s = {
            .steps = steps[i], .batch_tokens = 64, .micro_batch_tokens = 64};
        struct zl_error err = {0};
        assert_int_equal(zl_data_order_plan(&d, &s, &o, &err), ZL_EMEMORY);
        print_message("%s\n", err.text);
        assert_non_null(strstr(err.text, "steps of the plan"));
        assert_null(o.steps);
    }
    free(d.examples);
}

static void options_that_make_no_run_are_usage_errors(void **state)
{
    (void)state;
    struct zl_example e[1] = {{.n = 4, .n_trained = 1}};
    struct zl_dataset d = {.examples = e, .n_examples = 1}, none = {0};
    const struct zl_schedule_options bad[] = {
        {.batch_tokens = 0, .micro_batch_tokens = 8, .epochs = 1},
        {.batch_tokens = 8, .micro_batch_tokens = 0, .epochs = 1},
        {.batch_tokens = 8, .micro_batch_tokens = UINT64_MAX, .epochs = 1},
        {.batch_tokens = UINT64_MAX, .micro_batch_tokens = 8, .steps = 1},
        {.batch_tokens = 8, .micro_batch_tokens = 8, .epochs = 0},
        {.batch_tokens = 8, .micro_batch_tokens = 8, .epochs = -1},
        {.batch_tokens = 8, .micro_batch_tokens = 8, .epochs = 0.0 / 0.0},
        {.batch_tokens = 8, .micro_batch_tokens = 8, .epochs = 1e300},
    };
    struct zl_data_order o;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct zl_error err = {0};
        assert_int_equal(zl_data_order_plan(&d, &bad[i], &o, &err), ZL_EUSAGE);
        assert_true(strlen(err.text) > 0);
    }
    const struct zl_schedule_options good = {
        .batch_tokens = 1ull << 40, .micro_batch_tokens = 8, .epochs = 5};
    struct zl_error err = {0};
    assert_int_equal(zl_data_order_plan(&none, &good, &o, &err), ZL_EINPUT);
    err.code = 0;
    assert_int_equal(zl_data_order_plan(&d, &good, &o, &err), 0);
    assert_int_equal(o.n_steps, 1);
    assert_int_equal(o.n_micro, 3);
    zl_data_order_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_holds_every_example_once),
        cmocka_unit_test(the_order_depends_on_seed_and_epoch_only),
        cmocka_unit_test(steps_run_on_into_the_next_epoch),
        cmocka_unit_test(a_shorter_run_is_the_beginning_of_a_longer_one),
        cmocka_unit_test(one_long_example_is_a_step_of_its_own),
        cmocka_unit_test(an_example_beyond_the_micro_batch_is_one_of_its_own),
        cmocka_unit_test(a_plan_beyond_the_memory_is_refused_before_it_is_made),
        cmocka_unit_test(options_that_make_no_run_are_usage_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
