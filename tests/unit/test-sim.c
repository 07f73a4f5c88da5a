/* Schedules on paper against their closed forms. Time is whole nanoseconds, so equality is exact. */
#include "tests/unit/test.h"

#include "sim/sim.h"

enum { F = 10, B = 20, L = 6 };

struct shape {
    uint32_t stages;
    uint64_t micro, steps;
};

static const struct shape shapes[] = {{1, 1, 1}, {1, 5, 3}, {2, 1, 4}, {2, 4, 2}, {3, 4, 3},  {4, 4, 1},
                                      {4, 8, 3}, {4, 2, 5}, {8, 3, 2}, {8, 32, 2}, {16, 4, 2}, {5, 17, 2}};
#define SHAPES (sizeof shapes / sizeof shapes[0])

/* Equal stages without a loss of their own, each on a worker of its own. */
static struct zl_sim_request spread(struct shape s)
{
    static struct zl_sim_request r;
    r = (struct zl_sim_request){.stages = s.stages, .workers = s.stages, .micro = s.micro, .steps = s.steps, .ring_depth = 4};
    for (uint32_t k = 0; k < s.stages; k++) {
        r.worker[k] = k;
        r.cost[k] = (struct zl_sim_cost){.forward_ns = F, .backward_ns = B, .activation_bytes = 100, .input_bytes = 10};
    }
    return r;
}

static struct zl_sim_request gpipe(struct shape s)
{
    struct zl_sim_request r = spread(s);
    r.flush = true;
    for (uint32_t k = 0; k < s.stages; k++)
        r.ahead[k] = s.micro;
    return r;
}

static struct zl_sim_request one_f_one_b(struct shape s)
{
    struct zl_sim_request r = spread(s);
    r.flush = true;
    for (uint32_t k = 0; k < s.stages; k++)
        r.ahead[k] = s.stages - 1 - k;
    return r;
}

static struct zl_sim_request pipedream(struct shape s)
{
    struct zl_sim_request r = one_f_one_b(s);
    r.flush = false;
    return r;
}

static struct zl_sim_request zerolock(struct shape s)
{
    struct zl_sim_request r = spread(s);
    r.local = true;
    for (uint32_t k = 0; k < s.stages; k++)
        r.cost[k].loss_ns = L;
    return r;
}

/* Runs it, and checks what holds for every schedule. */
static struct zl_sim_result run(struct zl_sim_request r)
{
    struct zl_sim_result o;
    struct zl_error err = {0};
    if (zl_sim_run(&r, &o, &err))
        fail_msg("%s", err.text);
    uint64_t busy = 0, work = 0, free_at[ZL_SIM_STAGES] = {0};
    for (uint64_t i = 0; i < o.n; i++) { /* in order, and a worker does one thing at a time, as a stage does that several run */
        const struct zl_trace_event *e = &o.event[i];
        const uint32_t w = r.common ? e->stage : r.worker[e->stage];
        assert_true(e->begin_ns >= free_at[w]);
        free_at[w] = e->end_ns;
        busy += e->end_ns - e->begin_ns;
    }
    for (uint32_t k = 0; k < r.stages; k++) {
        const struct zl_sim_cost *c = &r.cost[k];
        const uint64_t replay = r.replay && k + 1 < r.stages ? c->forward_ns : 0;
        work += r.micro * r.steps * (c->forward_ns + (r.frozen[k] ? 0 : replay + c->loss_ns + c->backward_ns)) +
                (r.frozen[k] ? 0 : r.steps * c->update_ns);
        assert_int_equal(o.stage[k].end_ns <= o.makespan_ns, 1);
    }
    assert_int_equal(busy, work); /* everything was done, once */
    return o;
}

static void gpipe_has_its_bubble(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct shape s = shapes[i];
        struct zl_sim_result o = run(gpipe(s));
        const uint64_t width = s.micro + s.stages - 1;
        assert_int_equal(o.makespan_ns, s.steps * width * (F + B));
        for (uint32_t k = 0; k < s.stages; k++) {
            const double expected = (double)(s.stages - 1) / (double)width, residual = zl_sim_bubble(&o, k) - expected;
            assert_true(residual < 1e-12 && residual > -1e-12);
            assert_int_equal(o.stage[k].peak_micro, s.micro);
            assert_int_equal(o.stage[k].peak_bytes, 100 * s.micro);
        }
        zl_sim_free(&o);
    }
}

static void one_f_one_b_takes_the_time_of_gpipe_with_fewer_activations(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct shape s = shapes[i];
        struct zl_sim_result o = run(one_f_one_b(s));
        assert_int_equal(o.makespan_ns, s.steps * (s.micro + s.stages - 1) * (F + B));
        for (uint32_t k = 0; k < s.stages; k++)
            assert_int_equal(o.stage[k].peak_micro, s.stages - k < s.micro ? s.stages - k : s.micro);
        zl_sim_free(&o);
    }
}

static void zerolock_waits_in_the_fill_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct shape s = shapes[i];
        struct zl_sim_result o = run(zerolock(s));
        assert_int_equal(o.makespan_ns, (s.stages - 1) * F + s.micro * s.steps * (F + L + B));
        for (uint32_t k = 0; k < s.stages; k++) {
            assert_int_equal(o.worker[k].begin_ns, k * F);
            assert_true(zl_sim_wait(&o, k) == 0);
            assert_int_equal(o.stage[k].peak_micro, 1);
        }
        zl_sim_free(&o);
    }
}

static void the_slowest_stage_sets_the_pace_of_zerolock(void **state)
{
    (void)state;
    struct zl_sim_request r = zerolock((struct shape){4, 4, 50});
    r.cost[2].backward_ns = 3 * B;
    struct zl_sim_result o = run(r);
    assert_int_equal(o.makespan_ns, 2 * F + 4 * 50 * (F + L + 3 * B)); /* the fill, then stage 2 without a pause */
    assert_true(zl_sim_wait(&o, 2) == 0);
    const double expected = 1 - (double)(F + L + B) / (F + L + 3 * B), residual = zl_sim_wait(&o, 3) - expected;
    assert_true(residual < 0.01 && residual > -0.01);
    zl_sim_free(&o);
}

static void one_stage_is_never_idle(void **state)
{
    (void)state;
    const struct shape s = {1, 4, 5};
    struct zl_sim_result o = run(one_f_one_b(s));
    assert_int_equal(o.makespan_ns, 4 * 5 * (F + B));
    assert_true(zl_sim_bubble(&o, 0) == 0);
    zl_sim_free(&o);
}

static void pipedream_fills_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct shape s = shapes[i];
        struct zl_sim_result o = run(pipedream(s)), flushed = run(one_f_one_b(s));
        const uint64_t n = s.micro * s.steps;
        assert_int_equal(o.makespan_ns, (n + s.stages - 1) * (F + B));
        assert_true(o.makespan_ns <= flushed.makespan_ns);
        for (uint32_t k = 0; k < s.stages; k++)
            assert_int_equal(o.stage[k].peak_micro, s.stages - k < n ? s.stages - k : n);
        zl_sim_free(&o);
        zl_sim_free(&flushed);
    }
}

/* Three stages that cost the same: one worker of two would have two of them. */
static void workers_with_stages_in_common_share_them_evenly(void **state)
{
    (void)state;
    struct zl_sim_request r = pipedream((struct shape){3, 4, 25});
    r.workers = 2;
    r.worker[0] = r.worker[1] = 0;
    r.worker[2] = 1;
    struct zl_sim_result own = run(r);
    r.common = true;
    struct zl_sim_result common = run(r);
    print_message("  idle: %.1f %% with stages of their own, %.1f %% (bound 2) with all in common\n", 100 * zl_sim_bubble_all(&own, 2),
                  100 * zl_sim_bubble_all(&common, 2));
    assert_true(zl_sim_bubble_all(&own, 2) > 0.24);
    assert_true(zl_sim_bubble_all(&common, 2) < 0.02);
    for (uint32_t k = 0; k < 3; k++)
        assert_int_equal(common.stage[k].peak_micro, own.stage[k].peak_micro);
    zl_sim_free(&own);
    zl_sim_free(&common);
}

/* Every third micro-batch is long. */
static uint64_t uneven(void *context, uint32_t stage, enum zl_trace_kind kind, uint64_t micro)
{
    (void)context;
    (void)stage;
    return (kind == ZL_TRACE_BACKWARD ? B : F) * (micro % 3 ? 1 : 4);
}

static void a_longer_lag_evens_out_micro_batches_that_are_not_equal(void **state)
{
    (void)state;
    struct zl_sim_request r = pipedream((struct shape){2, 4, 30});
    double idle[5];
    r.span_ns = uneven;
    for (uint64_t lag = 1; lag < 5; lag++) {
        struct zl_sim_result o;
        struct zl_error err = {0};
        r.ahead[0] = lag;
        if (zl_sim_run(&r, &o, &err))
            fail_msg("%s", err.text);
        idle[lag] = zl_sim_bubble_all(&o, 2);
        print_message("  lag %d: %.1f %% idle\n", (int)lag, 100 * idle[lag]);
        assert_int_equal(o.stage[0].peak_micro, lag + 1);
        zl_sim_free(&o);
    }
    assert_true(idle[2] < idle[1] && idle[3] < 0.02 && idle[4] <= idle[3]);
}

static void late_gradients_pay_with_a_forward_and_keep_inputs_only(void **state)
{
    (void)state;
    struct zl_sim_request r = pipedream((struct shape){4, 4, 25});
    r.replay = true;
    struct zl_sim_result o = run(r);
    assert_in_range(o.makespan_ns, 100 * (2 * F + B), 103 * (2 * F + B)); /* all but the last stage replay; fill and drain */
    assert_int_equal(o.stage[0].peak_micro, 4);
    assert_int_equal(o.stage[0].peak_bytes, 100 + 3 * 10); /* one whole, three inputs */
    assert_int_equal(o.stage[3].peak_bytes, 100);
    zl_sim_free(&o);
}

static void interleaving_divides_the_bubble(void **state)
{
    (void)state;
    const struct shape whole = {4, 8, 1};
    struct zl_sim_result plain = run(one_f_one_b(whole));
    for (uint32_t v = 2; v <= 4; v *= 2) {
        struct zl_sim_request r = one_f_one_b((struct shape){4 * v, 8, 1});
        r.workers = 4;
        for (uint32_t k = 0; k < 4 * v; k++) {
            r.worker[k] = k % 4;
            r.cost[k].forward_ns = F * 4 / v;
            r.cost[k].backward_ns = B * 4 / v;
        }
        struct zl_sim_result o = run(r);
        const uint64_t work = 8 * 4 * (F + B), least = work + 3 * 4 * (F + B) / v; /* Narayanan et al. 2021: the bubble divided by v */
        print_message("  v=%u: %llu, plain %llu, bound %llu\n", v, (unsigned long long)o.makespan_ns,
                      (unsigned long long)(4 * plain.makespan_ns), (unsigned long long)least);
        assert_true(o.makespan_ns < 4 * plain.makespan_ns);
        assert_true(o.makespan_ns >= least);
        zl_sim_free(&o);
    }
    zl_sim_free(&plain);
}

static void stages_on_one_worker_hold_one_block_at_a_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct zl_sim_request r = zerolock(shapes[i]);
        r.workers = 1;
        memset(r.worker, 0, sizeof r.worker);
        struct zl_sim_result o = run(r);
        assert_int_equal(o.makespan_ns, (uint64_t)r.stages * r.micro * r.steps * (F + L + B));
        assert_true(zl_sim_bubble(&o, 0) == 0);
        zl_sim_free(&o);
    }
}

static void the_sweep_goes_block_by_block_over_a_window(void **state)
{
    (void)state;
    struct zl_sim_request r = zerolock((struct shape){3, 4, 4});
    r.workers = 1;
    memset(r.worker, 0, sizeof r.worker);
    r.window = 2;
    r.ring_depth = 8;
    struct zl_sim_result o = run(r);
    assert_int_equal(o.makespan_ns, 3 * 16 * (F + L + B));
    uint32_t changes = 0;
    for (uint64_t i = 1; i < o.n; i++)
        changes += o.event[i].stage != o.event[i - 1].stage;
    assert_int_equal(changes, 2 * 3 - 1); /* two windows of three blocks */
    assert_int_equal(o.peak_bytes, 100);
    zl_sim_free(&o);
}

static void a_frozen_stage_only_passes_on(void **state)
{
    (void)state;
    struct zl_sim_request r = zerolock((struct shape){3, 4, 2});
    r.frozen[0] = true;
    struct zl_sim_result o = run(r);
    for (uint64_t i = 0; i < o.n; i++)
        assert_true(o.event[i].stage != 0 || o.event[i].kind == ZL_TRACE_FORWARD);
    zl_sim_free(&o);
}

static void any_ring_depth_finishes(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (uint64_t depth = 1; depth <= 3; depth++)
            for (int which = 0; which < 4; which++) {
                struct zl_sim_request r = which == 0   ? gpipe(shapes[i])
                                          : which == 1 ? one_f_one_b(shapes[i])
                                          : which == 2 ? pipedream(shapes[i])
                                                       : zerolock(shapes[i]);
                for (int workers = 0; workers < 2; workers++) {
                    r.ring_depth = depth;
                    if (workers) {
                        r.workers = 1;
                        memset(r.worker, 0, sizeof r.worker);
                    }
                    for (uint32_t k = 0; k < r.stages; k++)
                        r.cost[k].update_ns = 7;
                    struct zl_sim_result o = run(r);
                    zl_sim_free(&o);
                }
            }
}

static void what_is_no_pipeline_is_refused(void **state)
{
    (void)state;
    const struct shape s = {2, 2, 2};
    struct zl_sim_request bad[6];
    for (int i = 0; i < 6; i++)
        bad[i] = one_f_one_b(s);
    bad[0].stages = 0;
    bad[1].worker[1] = 2;
    bad[2].cost[1].forward_ns = 0;
    bad[3].steps = ZL_SIM_OPERATIONS;
    bad[4].frozen[0] = bad[4].frozen[1] = true;
    bad[5].micro = UINT64_MAX;
    for (int i = 0; i < 6; i++) {
        struct zl_sim_result o;
        struct zl_error err = {0};
        assert_int_equal(zl_sim_run(&bad[i], &o, &err), ZL_EUSAGE);
        print_message("  %s\n", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpipe_has_its_bubble),
        cmocka_unit_test(one_f_one_b_takes_the_time_of_gpipe_with_fewer_activations),
        cmocka_unit_test(zerolock_waits_in_the_fill_only),
        cmocka_unit_test(the_slowest_stage_sets_the_pace_of_zerolock),
        cmocka_unit_test(one_stage_is_never_idle),
        cmocka_unit_test(pipedream_fills_once),
        cmocka_unit_test(workers_with_stages_in_common_share_them_evenly),
        cmocka_unit_test(a_longer_lag_evens_out_micro_batches_that_are_not_equal),
        cmocka_unit_test(late_gradients_pay_with_a_forward_and_keep_inputs_only),
        cmocka_unit_test(interleaving_divides_the_bubble),
        cmocka_unit_test(stages_on_one_worker_hold_one_block_at_a_time),
        cmocka_unit_test(the_sweep_goes_block_by_block_over_a_window),
        cmocka_unit_test(a_frozen_stage_only_passes_on),
        cmocka_unit_test(any_ring_depth_finishes),
        cmocka_unit_test(what_is_no_pipeline_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
