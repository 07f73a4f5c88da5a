/*
 * Anchored readouts: at the start they are the base model's own prediction of every token, in every epoch; what is read back from the disk is what
 * belongs to the example; and nothing depends on threads, depth of rings or what else is spilled.
 */
#include "tests/unit/test.h"

#include <math.h>

#include "tests/unit/tiny-run.h"

static struct tiny tiny;
static uint64_t bounds[] = {0, 1, 2, 4}, first_stage[] = {0};

static struct zl_train_options options(const char *name, enum zl_readout_kind readout)
{
    struct zl_train_options o = tiny_run_options(&tiny, NULL);
    o.output = tiny_run_folder(&tiny, name);
    o.eval_data = NULL;
    o.stages = 4;
    o.bounds = (struct zl_numbers){bounds, 4};
    o.readout = readout;
    o.look_ahead = 1;
    o.anchor = ZL_ON;
    return o;
}

/* The largest difference of a stage's loss from the last one's, relative, over all steps. */
static double largest_difference(struct zl_train_options o)
{
    size_t size, i, k;
    double worst = 0;
    const json_t *step, *stage;
    free(tiny_run(o, &size));
    json_t *metrics = tiny_run_metrics(o.output);
    json_array_foreach(metrics, i, step)
    {
        const json_t *losses = json_object_get(step, "stage_loss");
        const double last = losses ? tiny_run_number(step, "loss") : 0;
        json_array_foreach(losses, k, stage)
            worst = fmax(worst, fabs(json_number_value(stage) / last - 1));
    }
    json_decref(metrics);
    return worst;
}

static void anchored_readouts_begin_as_the_model(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum zl_readout_kind readout;
        enum zl_spill_type type;
        double bound;
    } ways[] = {{"lens", ZL_READOUT_LENS, ZL_SPILL_F32, 1e-5},
                {"ridge", ZL_READOUT_RIDGE, ZL_SPILL_F32, 1e-5},
                {"shadow", ZL_READOUT_SHADOW, ZL_SPILL_F32, 1e-5},
                {"half", ZL_READOUT_RIDGE, ZL_SPILL_BF16, 1e-4}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct zl_train_options o = options(ways[i].name, ways[i].readout);
        o.lr = 1e-9; /* the model stays what it is */
        o.spill_type = ways[i].type;
        o.local_vocabulary = ZL_LOCAL_VOCABULARY_FULL;
        o.steps = 0;
        o.epochs = 2.5;
        const double anchored = largest_difference(o);
        o.anchor = ZL_OFF;
        o.output = tiny_run_folder(&tiny, "off");
        o.force = true;
        const double off = largest_difference(o);
        print_message("  %s: stages' losses differ from the model's by %.2g (bound %.0e), without anchor by %.2g\n", ways[i].name, anchored,
                      ways[i].bound, off);
        assert_true(anchored <= ways[i].bound);
        assert_true(off > 10 * ways[i].bound);
    }
}

static void nothing_depends_on_how_it_is_run(void **state)
{
    (void)state;
    char *first = NULL;
    size_t size, n;
    for (int way = 0; way < 5; way++) {
        char name[32];
        snprintf(name, sizeof name, "way%d", way);
        struct zl_train_options o = options(name, ZL_READOUT_RIDGE);
        o.freeze = (struct zl_numbers){first_stage, 1};
        o.cache_frozen = way == 1;
        o.threads = way == 2 ? 1 : 2;
        o.ring_depth = way == 3 ? 1 : 2;
        o.placement = way == 4 ? ZL_PLACEMENT_STACKED : ZL_PLACEMENT_SPREAD;
        char *bytes = tiny_run(o, &n);
        if (!first) {
            first = bytes;
            size = n;
            continue;
        }
        assert_int_equal(n, size);
        assert_memory_equal(bytes, first, n);
        free(bytes);
    }
    struct zl_train_options o = options("off2", ZL_READOUT_RIDGE);
    o.freeze = (struct zl_numbers){first_stage, 1};
    o.anchor = ZL_OFF;
    char *bytes = tiny_run(o, &n);
    assert_memory_not_equal(bytes, first, n);
    free(bytes);
    free(first);
}

static void too_little_room_is_refused(void **state)
{
    (void)state;
    struct zl_train_options o = options("room", ZL_READOUT_RIDGE);
    struct zl_error err = {0};
    o.spill_limit = 1;
    assert_int_equal(zl_train_run(&o, &err), ZL_EUSAGE);
    print_message("  %s\n", err.text);
    assert_non_null(strstr(err.text, "--anchor on"));
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
        cmocka_unit_test(anchored_readouts_begin_as_the_model),
        cmocka_unit_test(nothing_depends_on_how_it_is_run),
        cmocka_unit_test(too_little_room_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
