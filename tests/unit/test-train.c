/* Whole training runs on a tiny model of the project's own: they learn, and give the same bits whatever the threads and the timing. */
#include "tests/unit/test.h"

#include <math.h>

#include "format/adapter.h"
#include "tests/unit/tiny-run.h"
#include "train/evaluate.h"

static struct tiny tiny;
static struct zl_train_options defaults(const char *output)
{
    return tiny_run_options(&tiny, output);
}

/* Held-out losses before the first and after the last step. */
static void eval_losses(const char *output, double *before, double *after)
{
    json_t *metrics = tiny_run_metrics(output);
    const json_t *o;
    size_t i;
    int seen = 0;
    json_array_foreach(metrics, i, o)
        if (json_object_get(o, "eval_loss"))
            *(seen++ ? after : before) = tiny_run_number(o, "eval_loss");
    json_decref(metrics);
    assert_int_equal(seen, 2);
}

static void every_schedule_and_readout_learns(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum zl_schedule_kind schedule;
        enum zl_readout_kind readout;
        uint64_t stages;
    } runs[] = {
        {"bp", ZL_SCHEDULE_BP, ZL_READOUT_SHADOW, 1},
        {"shadow", ZL_SCHEDULE_ZEROLOCK, ZL_READOUT_SHADOW, 2},
        {"shadow3", ZL_SCHEDULE_ZEROLOCK, ZL_READOUT_SHADOW, 3},
        {"ridge", ZL_SCHEDULE_ZEROLOCK, ZL_READOUT_RIDGE, 3},
        {"lens", ZL_SCHEDULE_ZEROLOCK, ZL_READOUT_LENS, 6},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct zl_train_options o = defaults(tiny_path(&tiny, runs[i].name));
        size_t size;
        double before = 0, after = 0;
        o.schedule = runs[i].schedule;
        o.readout = runs[i].readout;
        o.stages = runs[i].stages;
        o.steps = 40;
        free(tiny_run(o, &size));
        eval_losses(o.output, &before, &after);
        print_message("  %-8s held-out loss %.4f -> %.4f (bound: a fall of 0.3)\n", runs[i].name, before, after);
        assert_true(after < before - 0.3);
    }
}

static void bytes_do_not_depend_on_threads_ring_depth_or_the_run(void **state)
{
    (void)state;
    static const struct {
        uint64_t threads, ring_depth;
    } ways[] = {{2, 2}, {1, 1}, {2, 4}, {1, 2}, {2, 2}};
    for (int schedule = 0; schedule < 2; schedule++) {
        char *first = NULL;
        size_t first_size = 0;
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            char name[32];
            size_t size;
            snprintf(name, sizeof name, "same-%d-%zu", schedule, i);
            struct zl_train_options o = defaults(tiny_path(&tiny, name));
            o.schedule = schedule ? ZL_SCHEDULE_BP : ZL_SCHEDULE_ZEROLOCK;
            o.threads = ways[i].threads;
            o.ring_depth = ways[i].ring_depth;
            char *bytes = tiny_run(o, &size);
            if (!first) {
                first = bytes;
                first_size = size;
                continue;
            }
            assert_int_equal(size, first_size);
            assert_memory_equal(bytes, first, size);
            free(bytes);
        }
        free(first);
    }
}

static void the_seed_changes_the_adapter(void **state)
{
    (void)state;
    size_t a, b;
    struct zl_train_options o = defaults(tiny_path(&tiny, "seed0"));
    char *x = tiny_run(o, &a);
    o.output = tiny_path(&tiny, "seed1");
    o.seed = 1;
    char *y = tiny_run(o, &b);
    assert_int_equal(a, b);
    assert_memory_not_equal(x, y, a);
    free(x);
    free(y);
}

static void before_the_first_step_the_loss_is_the_base_models(void **state)
{
    (void)state;
    struct zl_train_options o = defaults(tiny_path(&tiny, "start"));
    struct zl_eval_result r;
    struct zl_error err = {0};
    const char *held_out[1] = {tiny.held_out};
    const struct zl_eval_options e = {.model = tiny.model, .data = {held_out, 1}, .max_length = 128, .quiet = true};
    size_t size;
    double before = 0, after = 0;
    free(tiny_run(o, &size));
    eval_losses(o.output, &before, &after);
    assert_int_equal(zl_eval_run(&e, &r, &err), 0);
    print_message("  %.9f and %.9f, bound 1e-8\n", before, r.loss);
    assert_true(fabs(before - r.loss) < 1e-8);

    struct zl_eval_options with = e;
    with.adapter = o.output;
    assert_int_equal(zl_eval_run(&with, &r, &err), 0);
    print_message("  with the adapter read back: %.9f and %.9f, bound 1e-6\n", after, r.loss);
    assert_true(fabs(after - r.loss) < 1e-6);
}

static void a_frozen_stage_keeps_its_adapter_at_zero(void **state)
{
    (void)state;
    struct zl_train_options o = defaults(tiny_path(&tiny, "frozen"));
    uint64_t freeze[1] = {0};
    struct zl_adapter a;
    struct zl_error err = {0};
    char path[700];
    size_t size, moved = 0, still = 0;
    o.freeze.v = freeze;
    o.freeze.n = 1;
    free(tiny_run(o, &size));
    snprintf(path, sizeof path, "%s/adapter", o.output);
    assert_int_equal(zl_adapter_read(path, &a, NULL, 0, &err), 0);
    for (size_t i = 0; i < a.n; i++) {
        bool zero = true;
        for (uint32_t j = 0; zero && j < a.modules[i].r * a.modules[i].out; j++)
            zero = a.modules[i].b[j] == 0;
        *(zero ? &still : &moved) += 1;
    }
    print_message("  %zu modules kept B = 0, %zu moved\n", still, moved);
    assert_int_equal(still, 2 * 7); /* (6 layers - 2 of look-ahead) / 2 stages */
    assert_int_equal(moved, 4 * 7);
    zl_adapter_free(&a);
}

static void a_finished_run_is_not_overwritten_unasked(void **state)
{
    (void)state;
    struct zl_train_options o = defaults(tiny_path(&tiny, "twice"));
    struct zl_error err = {0};
    size_t size;
    free(tiny_run(o, &size));
    assert_int_equal(zl_train_run(&o, &err), ZL_EUSAGE);
    assert_non_null(strstr(err.text, "--force"));
    o.force = true;
    free(tiny_run(o, &size));
}

static void a_start_that_failed_does_not_stand_in_the_way(void **state)
{
    (void)state;
    struct zl_train_options o = defaults(tiny_path(&tiny, "failed"));
    struct zl_error err = {0};
    size_t size;
    o.model = tiny_path(&tiny, "nowhere");
    assert_int_not_equal(zl_train_run(&o, &err), 0);
    o.model = tiny.model;
    free(tiny_run(o, &size));
}

/* Examples longer than a micro-batch are alone in one, and compute again what would not fit: the same adapter but for rounding. */
static void micro_batch_size_changes_only_rounding(void **state)
{
    (void)state;
    struct zl_train_options o = defaults(tiny_path(&tiny, "large"));
    double before = 0, large = 0, small = 0, least = 0;
    size_t size;
    o.batch_tokens = o.micro_batch_tokens = 512;
    free(tiny_run(o, &size));
    eval_losses(o.output, &before, &large);
    o.output = tiny_path(&tiny, "small");
    o.micro_batch_tokens = 24;
    free(tiny_run(o, &size));
    eval_losses(o.output, &before, &small);
    o.output = tiny_path(&tiny, "least");
    o.recompute = ZL_RECOMPUTE_FULL;
    free(tiny_run(o, &size));
    eval_losses(o.output, &before, &least);
    print_message("  512: %.7f, 24: %.7f, 24 computed again: %.7f (bounds 1e-4, 0)\n", large, small, least);
    assert_true(fabs(large - small) < 1e-4);
    assert_true(small == least);
}

static void training_goes_on_from_an_adapter(void **state)
{
    (void)state;
    struct zl_train_options o = defaults(tiny_path(&tiny, "first"));
    size_t size;
    double before = 0, after = 0, again = 0, end = 0;
    free(tiny_run(o, &size));
    eval_losses(o.output, &before, &after);
    o.init_adapter = o.output;
    o.output = tiny_path(&tiny, "second");
    free(tiny_run(o, &size));
    eval_losses(o.output, &again, &end);
    print_message("  first run ends at %.7f, the second starts at %.7f (bound 1e-6)\n", after, again);
    assert_true(fabs(after - again) < 1e-6);
}

static void edges_finish(void **state)
{
    (void)state;
    size_t size;
    struct zl_train_options o = defaults(tiny_path(&tiny, "edge1"));
    o.steps = 1; /* fewer micro-batches than stages, depth 1 */
    o.batch_tokens = o.micro_batch_tokens = 64;
    o.stages = 6;
    o.ring_depth = 1;
    free(tiny_run(o, &size));
    o.output = tiny_path(&tiny, "edge2");
    o.stages = 1;
    o.steps = 3;
    free(tiny_run(o, &size));
}

static int setup(void **state)
{
    (void)state;
    tiny_make(&tiny, 6, 200);
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
        cmocka_unit_test(every_schedule_and_readout_learns),
        cmocka_unit_test(bytes_do_not_depend_on_threads_ring_depth_or_the_run),
        cmocka_unit_test(the_seed_changes_the_adapter),
        cmocka_unit_test(before_the_first_step_the_loss_is_the_base_models),
        cmocka_unit_test(a_frozen_stage_keeps_its_adapter_at_zero),
        cmocka_unit_test(a_finished_run_is_not_overwritten_unasked),
        cmocka_unit_test(a_start_that_failed_does_not_stand_in_the_way),
        cmocka_unit_test(micro_batch_size_changes_only_rounding),
        cmocka_unit_test(training_goes_on_from_an_adapter),
        cmocka_unit_test(edges_finish),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
