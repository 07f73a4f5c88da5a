/*
 * Every schedule on one engine: the flushing ones give backpropagation's bits, the others those of a plain simulation, and none of them depends on
 * timing, placement, ring depth or how many micro-batches a step has.
 */
#include "tests/unit/test.h"

#include <time.h>

#include "pipe/pipeline.h"
#include "tests/unit/tiny-run.h"

static struct tiny tiny;
static int runs;

static struct zl_train_options fresh(void)
{
    static char names[400][32];
    char *name = names[runs % 400];
    snprintf(name, sizeof names[0], "run%d", runs++);
    struct zl_train_options o = tiny_run_options(&tiny, NULL);
    o.output = strdup(tiny_path(&tiny, name));
    o.eval_data = NULL;
    o.steps = 6;
    o.batch_tokens = 400;
    o.micro_batch_tokens = 100;
    return o;
}

/* The adapter's bytes of one run. */
static char *bytes_of(struct zl_train_options o, size_t *size)
{
    char *bytes = tiny_run(o, size);
    free((char *)(uintptr_t)o.output);
    return bytes;
}

static void assert_same(const char *what, struct zl_train_options a, const char *expected, size_t expected_size)
{
    size_t size;
    char *bytes = bytes_of(a, &size);
    size_t different = size == expected_size ? 0 : size;
    for (size_t i = 0; i < size && i < expected_size; i++)
        different += bytes[i] != expected[i];
    print_message("  %s: %zu bytes of %zu differ (bound 0)\n", what, different, size);
    assert_int_equal(different, 0);
    free(bytes);
}

static const struct {
    uint64_t batch, micro;
} steps_of[] = {{64, 64}, {200, 100}, {400, 100}, {500, 64}};

static void flushing_schedules_give_the_bits_of_backpropagation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof steps_of / sizeof steps_of[0]; i++) {
        struct zl_train_options o = fresh();
        size_t size;
        o.schedule = ZL_SCHEDULE_BP;
        o.batch_tokens = steps_of[i].batch;
        o.micro_batch_tokens = steps_of[i].micro;
        char *expected = bytes_of(o, &size);
        for (uint64_t stages = 1; stages <= 6; stages += stages == 1 ? 1 : 2)
            for (int kind = 0; kind < 3; kind++) {
                char what[80];
                struct zl_train_options p = fresh();
                p.schedule = kind ? ZL_SCHEDULE_1F1B : ZL_SCHEDULE_GPIPE;
                p.interleave = kind == 2 && stages > 1 && stages < 6 ? 3 : 1;
                p.stages = p.interleave == 3 ? 2 : stages;
                p.ring_depth = stages == 2 ? 1 : 2;
                p.batch_tokens = steps_of[i].batch;
                p.micro_batch_tokens = steps_of[i].micro;
                snprintf(what, sizeof what, "%s, %u stages, %u parts, %u tokens a step", zl_schedule_names[p.schedule],
                         (unsigned)p.stages, (unsigned)p.interleave, (unsigned)p.batch_tokens);
                assert_same(what, p, expected, size);
            }
        free(expected);
    }
}

/* Steps of one micro-batch, and no more than one or three steps, with everything else as narrow as it goes. */
static void a_run_of_one_micro_batch_passes_every_schedule(void **state)
{
    (void)state;
    static const struct {
        enum zl_schedule_kind schedule, as;
        uint64_t stages, interleave;
        enum zl_switch replay;
    } forms[] = {{ZL_SCHEDULE_GPIPE, ZL_SCHEDULE_BP, 4, 1, ZL_OFF},      {ZL_SCHEDULE_1F1B, ZL_SCHEDULE_BP, 4, 1, ZL_OFF},
                 {ZL_SCHEDULE_1F1B, ZL_SCHEDULE_BP, 3, 2, ZL_OFF},       {ZL_SCHEDULE_1F1B, ZL_SCHEDULE_BP, 2, 3, ZL_OFF},
                 {ZL_SCHEDULE_SWEEP, ZL_SCHEDULE_ZEROLOCK, 4, 1, ZL_OFF}, {ZL_SCHEDULE_ZEROLOCK, ZL_SCHEDULE_ZEROLOCK, 4, 1, ZL_OFF},
                 {ZL_SCHEDULE_PIPEDREAM, ZL_SCHEDULE_PIPEDREAM, 4, 1, ZL_OFF}, {ZL_SCHEDULE_ASYNC, ZL_SCHEDULE_ASYNC, 4, 1, ZL_OFF},
                 {ZL_SCHEDULE_ASYNC, ZL_SCHEDULE_ASYNC, 4, 1, ZL_ON}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        for (uint64_t steps = 1; steps <= 3; steps += 2) {
            char what[80];
            size_t size;
            struct zl_train_options o = fresh();
            o.schedule = forms[i].as;
            o.stages = forms[i].as == ZL_SCHEDULE_BP ? 1 : forms[i].stages;
            o.look_ahead = 1;
            o.train_map = ZL_OFF;
            o.replay = forms[i].replay;
            o.lag = forms[i].as == ZL_SCHEDULE_ASYNC ? 1 : 0;
            o.steps = steps;
            o.batch_tokens = o.micro_batch_tokens = 48;
            o.placement = ZL_PLACEMENT_STACKED;
            struct zl_train_options p = o;
            p.output = fresh().output;
            p.schedule = forms[i].schedule;
            p.stages = forms[i].stages;
            p.interleave = forms[i].interleave;
            p.ring_depth = 1;
            p.placement = ZL_PLACEMENT_SPREAD;
            char *expected = bytes_of(o, &size);
            snprintf(what, sizeof what, "%s, %u stages of %u parts, %u steps", zl_schedule_names[p.schedule], (unsigned)p.stages,
                     (unsigned)p.interleave, (unsigned)steps);
            assert_same(what, p, expected, size);
            free(expected);
        }
}

/* Kept as bfloat16, the gradients are those of rounded activations; a stage's input is not rounded, so each cut has bits of its own, but
 * they depend on nothing else. */
static void halved_activations_give_the_same_bits_wherever_stages_run(void **state)
{
    (void)state;
    for (int kind = ZL_SCHEDULE_BP; kind <= ZL_SCHEDULE_ASYNC; kind++) {
        struct zl_train_options o = fresh();
        size_t size, whole_size;
        o.schedule = (enum zl_schedule_kind)kind;
        o.stages = kind == ZL_SCHEDULE_BP ? 1 : 3;
        o.recompute = kind == ZL_SCHEDULE_GPIPE ? ZL_RECOMPUTE_SELECTIVE : ZL_RECOMPUTE_NONE;
        char *whole = bytes_of(o, &whole_size);
        struct zl_train_options half = o, other = o;
        half.output = fresh().output;
        half.activations = ZL_ACTIVATIONS_BF16;
        char *expected = bytes_of(half, &size);
        assert_int_equal(size, whole_size);
        assert_memory_not_equal(whole, expected, size);
        other.output = fresh().output;
        other.activations = ZL_ACTIVATIONS_BF16;
        other.threads = 1;
        other.placement = ZL_PLACEMENT_STACKED;
        assert_same(zl_schedule_names[kind], other, expected, size);
        free(whole);
        free(expected);
    }
}

static void placement_changes_no_bit(void **state)
{
    (void)state;
    static const enum zl_schedule_kind kinds[] = {ZL_SCHEDULE_ZEROLOCK, ZL_SCHEDULE_1F1B, ZL_SCHEDULE_GPIPE, ZL_SCHEDULE_PIPEDREAM,
                                                  ZL_SCHEDULE_ASYNC, ZL_SCHEDULE_ASYNC};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct zl_train_options o = fresh();
        size_t size;
        o.schedule = kinds[i];
        o.replay = i % 2 ? ZL_ON : ZL_OFF; /* of the second async */
        o.stages = 3;
        o.placement = ZL_PLACEMENT_SPREAD;
        char *expected = bytes_of(o, &size);
        for (uint64_t threads = 1; threads <= 3; threads++)
            for (uint64_t depth = 1; depth <= 3; depth += 2) {
                char what[80];
                struct zl_train_options p = fresh();
                p.schedule = kinds[i];
                p.replay = o.replay;
                p.stages = 3;
                p.placement = depth == 1 ? ZL_PLACEMENT_STACKED : ZL_PLACEMENT_SPREAD;
                p.ring_depth = depth;
                p.threads = threads > 2 ? 2 : threads;
                snprintf(what, sizeof what, "%s, %s, %u threads", zl_schedule_names[p.schedule], zl_placement_names[p.placement],
                         (unsigned)p.threads);
                assert_same(what, p, expected, size);
            }
        free(expected);
    }
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
        cmocka_unit_test(flushing_schedules_give_the_bits_of_backpropagation),
        cmocka_unit_test(a_run_of_one_micro_batch_passes_every_schedule),
        cmocka_unit_test(halved_activations_give_the_same_bits_wherever_stages_run),
        cmocka_unit_test(placement_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
