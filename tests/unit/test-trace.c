/* The buffers in which workers note what they did. */
#include "tests/unit/test.h"

#include "pipe/trace.h"

static void events_are_kept_in_order(void **state)
{
    (void)state;
    struct zl_trace t;
    assert_int_equal(zl_trace_open(&t, 2, 8, NULL), 0);
    struct zl_trace_lane *l = zl_trace_lane(&t, 1);
    for (uint32_t i = 0; i < 5; i++)
        zl_trace_span(l, i % 2 ? ZL_TRACE_BACKWARD : ZL_TRACE_FORWARD, 100 * i, 100 * i + 50, 3, i / 2, 7);
    zl_trace_counter(l, ZL_TRACE_RING_FILL, 1000, 3, 2);
    assert_int_equal(zl_trace_lane(&t, 0)->n, 0);
    assert_int_equal(l->n, 6);
    assert_int_equal(l->event[3].kind, ZL_TRACE_BACKWARD);
    assert_int_equal(l->event[3].begin_ns, 300);
    assert_int_equal(l->event[3].end_ns, 350);
    assert_int_equal(l->event[3].micro, 1);
    assert_int_equal(l->event[3].step, 7);
    assert_int_equal(l->event[3].stage, 3);
    assert_int_equal(l->event[5].end_ns, 2); /* the counter's value */
    assert_int_equal(l->dropped, 0);
    zl_trace_close(&t);
}

static void a_full_lane_drops_and_counts(void **state)
{
    (void)state;
    struct zl_trace t;
    assert_int_equal(zl_trace_open(&t, 1, 3, NULL), 0);
    for (uint64_t i = 0; i < 10; i++)
        zl_trace_span(zl_trace_lane(&t, 0), ZL_TRACE_UPDATE, i, i + 1, 0, i, 1);
    assert_int_equal(t.lane[0].n, 3);
    assert_int_equal(t.lane[0].dropped, 7);
    assert_int_equal(t.lane[0].event[2].begin_ns, 2); /* the first are kept */
    zl_trace_close(&t);
}

static void without_a_trace_nothing_happens(void **state)
{
    (void)state;
    struct zl_trace t;
    assert_null(zl_trace_lane(NULL, 0));
    zl_trace_span(NULL, ZL_TRACE_FORWARD, 0, 1, 0, 0, 0);
    zl_trace_counter(NULL, ZL_TRACE_RING_FILL, 0, 0, 0);
    assert_int_equal(zl_trace_open(&t, 1, 1, NULL), 0);
    assert_null(zl_trace_lane(&t, 1));
    zl_trace_close(&t);
    assert_int_equal(t.n_lanes, 0);
}

static void every_kind_has_a_name(void **state)
{
    (void)state;
    for (int k = 0; k < ZL_TRACE_KINDS; k++)
        assert_non_null(zl_trace_names[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_kept_in_order),
        cmocka_unit_test(a_full_lane_drops_and_counts),
        cmocka_unit_test(without_a_trace_nothing_happens),
        cmocka_unit_test(every_kind_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
