/* --freeze auto: a probe decides, the same each time, and the run is the one that was asked for in as many words. */
#include "tests/unit/test.h"

#include <math.h>

#include "tests/unit/tiny-run.h"
#include "train/freeze.h"

static struct tiny tiny;
static uint64_t automatic[] = {ZL_FREEZE_AUTO}, front[] = {0};
static uint64_t small_front[] = {0, 1}, large_front[] = {0, 5};

static struct zl_train_options options(const char *name, uint64_t *bounds)
{
    struct zl_train_options o = tiny_run_options(&tiny, NULL);
    o.output = tiny_run_folder(&tiny, name);
    o.eval_data = NULL;
    o.bounds = (struct zl_numbers){bounds, 2};
    o.readout = ZL_READOUT_RIDGE;
    o.steps = 40;
    o.freeze = (struct zl_numbers){automatic, 1};
    return o;
}

static struct zl_freeze_probe probe_of(struct zl_train_options o)
{
    struct zl_setup s;
    struct zl_freeze_probe p = {0};
    struct zl_error err = {0};
    if (zl_setup_make(&s, &o, &err) || zl_setup_readouts(&s, &o, 0, &err) || zl_freeze_probe(&s, &o, &p, &err))
        fail_msg("%s", err.text);
    zl_setup_free(&s);
    return p;
}

static void a_stage_that_hardly_matters_is_frozen_and_another_is_not(void **state)
{
    (void)state;
    const struct zl_freeze_probe small = probe_of(options("a", small_front)), large = probe_of(options("b", large_front));
    const struct zl_freeze_probe *both[] = {&small, &large};
    for (int i = 0; i < 2; i++) {
        const struct zl_freeze_probe *p = both[i];
        print_message("  %llu steps: %.4f -> %.4f frozen, %.4f trained: %s\n", (unsigned long long)p->steps, p->before, p->frozen, p->trained,
                      p->freeze ? "frozen" : "trains");
        assert_int_equal(p->steps, 4);
        assert_true(p->before > p->trained && p->before > p->frozen);
        assert_int_equal(p->freeze, p->before - p->frozen >= 0.94 * (p->before - p->trained));
    }
    assert_true(small.before == large.before);
    assert_true(small.freeze && !large.freeze);
}

static void the_probe_does_not_depend_on_threads(void **state)
{
    (void)state;
    struct zl_train_options o = options("c", large_front);
    const struct zl_freeze_probe two = probe_of(o);
    o.threads = 1;
    o.ring_depth = 1;
    o.anchor = ZL_ON;
    const struct zl_freeze_probe one = probe_of(o);
    assert_memory_equal(&one, &two, sizeof one);
}

static void the_run_is_the_one_that_was_decided_on(void **state)
{
    (void)state;
    uint64_t *const bounds[] = {small_front, large_front};
    for (int i = 0; i < 2; i++) {
        size_t size, n;
        char name[2][32];
        snprintf(name[0], sizeof name[0], "auto%d", i);
        snprintf(name[1], sizeof name[1], "plain%d", i);
        struct zl_train_options o = options(name[0], bounds[i]), plain = options(name[1], bounds[i]);
        plain.freeze = (struct zl_numbers){front, i == 0};
        o.keep = 2;
        o.steps = plain.steps = 30;
        const bool freezes = probe_of(o).freeze;
        assert_int_equal(freezes, i == 0);
        char *bytes = tiny_run(o, &n), *expected = tiny_run(plain, &size);
        assert_int_equal(n, size);
        assert_memory_equal(bytes, expected, n);
        free(bytes);
        o.resume = true; /* what was decided is not decided again, and is no other run */
        bytes = tiny_run(o, &n);
        assert_int_equal(n, size);
        assert_memory_equal(bytes, expected, n);
        free(bytes);
        free(expected);
    }
}

static void a_short_run_freezes_nothing(void **state)
{
    (void)state;
    size_t size, n;
    struct zl_train_options o = options("short", small_front), plain = options("short-plain", small_front);
    o.steps = plain.steps = 29;
    plain.freeze = (struct zl_numbers){0};
    assert_int_equal(probe_of(o).steps, 0);
    char *bytes = tiny_run(o, &n), *expected = tiny_run(plain, &size);
    assert_int_equal(n, size);
    assert_memory_equal(bytes, expected, n);
    free(bytes);
    free(expected);
}

static int setup(void **state)
{
    (void)state;
    tiny_make(&tiny, 6, 60);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tiny_remove(&tiny);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_that_hardly_matters_is_frozen_and_another_is_not),
        cmocka_unit_test(the_probe_does_not_depend_on_threads),
        cmocka_unit_test(the_run_is_the_one_that_was_decided_on),
        cmocka_unit_test(a_short_run_freezes_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
