/*
 * Simulation and reality: tiny runs of every schedule are traced, and each stage did what the simulation of the same cut, steps and
 * placement says it does, in that order. Time plays no part: the order of a stage's operations follows from the schedule alone.
 */
#include "tests/unit/test.h"

#include "sim/sim.h"
#include "tests/unit/tiny-run.h"
#include "train/trace_costs.h"

static struct tiny tiny;

static int make(void **state)
{
    (void)state;
    tiny_make(&tiny, 6, 24);
    return 0;
}

static int remove_tiny(void **state)
{
    (void)state;
    tiny_remove(&tiny);
    return 0;
}

static bool is_work(unsigned kind)
{
    return kind <= ZL_TRACE_REPLAY;
}

/* What the trace says about the run, as a request. Costs need not be right for an order. */
static struct zl_sim_request request_of(const struct zl_traced *t, const struct zl_train_options *o, uint64_t *step_micro)
{
    const uint32_t lag = (uint32_t)json_integer_value(json_object_get(t->about, "lag"));
    const struct zl_schedule schedule = zl_schedule_make(o->schedule, lag, o->replay == ZL_ON);
    static struct zl_sim_request r;
    r = (struct zl_sim_request){.stages = t->stages,
                                .workers = t->workers,
                                .steps = o->steps,
                                .step_micro = step_micro,
                                .local = schedule.local,
                                .flush = schedule.flush,
                                .replay = schedule.weights == ZL_WEIGHTS_REPLAYED,
                                .ring_depth = o->ring_depth};
    if (o->schedule == ZL_SCHEDULE_SWEEP) {
        r.window = o->eval_every < o->window ? o->eval_every : o->window;
        r.ring_depth = t->n; /* on the disk */
    }
    for (uint64_t i = 0; i < t->n; i++) {
        const struct zl_trace_event *e = &t->event[i];
        if (e->kind == ZL_TRACE_FORWARD && e->stage == 0)
            step_micro[e->step - 1]++;
        if (e->stage < t->stages)
            r.worker[e->stage] = t->worker[i];
    }
    for (uint32_t k = 0; k < r.stages; k++) {
        const uint32_t ahead = zl_schedule_ahead(&schedule, k, r.stages);
        r.ahead[k] = ahead == ZL_AHEAD_STEP ? UINT64_MAX : ahead;
        r.frozen[k] = o->freeze.n && o->freeze.v[0] == k;
        r.cost[k] = (struct zl_sim_cost){.forward_ns = 1000 + k, .loss_ns = schedule.local || k + 1 == r.stages ? 500 : 0,
                                         .backward_ns = 1100, .update_ns = 10};
        if (r.frozen[k])
            r.cost[k].loss_ns = 0;
    }
    return r;
}

static struct timed {
    struct zl_trace_event event;
    uint64_t at;
    uint16_t worker;
} timed[20000];

static int by_time(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;
    if (x->event.begin_ns != y->event.begin_ns)
        return x->event.begin_ns < y->event.begin_ns ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* A stage that several workers have in common has its events among those of each. */
static void sort_by_time(struct zl_traced *t)
{
    assert_true(t->n <= sizeof timed / sizeof timed[0]);
    for (uint64_t i = 0; i < t->n; i++)
        timed[i] = (struct timed){t->event[i], i, t->worker[i]};
    qsort(timed, t->n, sizeof timed[0], by_time);
    for (uint64_t i = 0; i < t->n; i++) {
        t->event[i] = timed[i].event;
        t->worker[i] = timed[i].worker;
    }
}

/* The operations of one stage, in order; the next one from *at on, NULL at the end. */
static const struct zl_trace_event *next(const struct zl_trace_event *e, uint64_t n, uint32_t stage, uint64_t *at)
{
    while (*at < n) {
        const struct zl_trace_event *x = &e[(*at)++];
        if (x->stage == stage && is_work(x->kind))
            return x;
    }
    return NULL;
}

static uint64_t compare(const struct zl_traced *t, const struct zl_sim_result *s)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < t->stages; k++) {
        uint64_t a = 0, b = 0;
        for (;; n++) {
            const struct zl_trace_event *real = next(t->event, t->n, k, &a), *paper = next(s->event, s->n, k, &b);
            if (!real && !paper)
                break;
            if (!real || !paper || real->kind != paper->kind || real->micro != paper->micro || real->step != paper->step)
                fail_msg("stage %u: %s of micro-batch %d in step %d, on paper %s of %d in %d", k,
                         real ? zl_trace_names[real->kind] : "nothing", real ? (int)real->micro : -1, real ? (int)real->step : -1,
                         paper ? zl_trace_names[paper->kind] : "nothing", paper ? (int)paper->micro : -1,
                         paper ? (int)paper->step : -1);
        }
    }
    return n;
}

/* Spans of a worker follow one another, and what counts as held goes back to nothing. */
static void check_spans(const struct zl_traced *t)
{
    uint64_t end[ZL_STAGES_MAX] = {0}, held[ZL_STAGES_MAX] = {0}, peak[ZL_STAGES_MAX] = {0};
    for (uint64_t i = 0; i < t->n; i++) {
        const struct zl_trace_event *e = &t->event[i];
        if (e->kind < ZL_TRACE_SPANS) {
            assert_true(e->begin_ns >= end[t->worker[i]] && e->end_ns >= e->begin_ns);
            end[t->worker[i]] = e->end_ns;
        } else if (e->kind == ZL_TRACE_ACTIVATION_BYTES) {
            held[e->stage] = e->end_ns;
            peak[e->stage] = e->end_ns > peak[e->stage] ? e->end_ns : peak[e->stage];
        }
    }
    for (uint32_t k = 0; k < t->stages; k++) {
        assert_int_equal(held[k], 0);
        assert_true(peak[k] > 0);
    }
}

static void run_one(struct zl_train_options o)
{
    static uint64_t step_micro[64];
    const char *path = tiny_path(&tiny, "trace.json");
    struct zl_traced t;
    struct zl_trace_costs costs;
    struct zl_sim_result s;
    struct zl_error err = {0};
    memset(step_micro, 0, sizeof step_micro);
    o.trace = path;
    o.output = tiny_path(&tiny, "run");
    o.force = true;
    if (zl_train_run(&o, &err) || zl_trace_read(path, &t, &err) || zl_trace_costs(&t, path, &costs, &err))
        fail_msg("%s", err.text);
    assert_int_equal(t.dropped, 0);
    sort_by_time(&t);
    struct zl_sim_request r = request_of(&t, &o, step_micro);
    if (zl_sim_run(&r, &s, &err))
        fail_msg("%s", err.text);
    const uint64_t n = compare(&t, &s);
    check_spans(&t);
    const double idle = zl_trace_idle(&costs), after = zl_trace_idle_after_fill(&costs);
    assert_true(idle >= 0 && idle < 1 && after >= 0 && after <= idle + 1e-9);
    print_message("  %-9s %u stages on %u workers, ring %d: %d operations as on paper\n", zl_schedule_names[o.schedule], t.stages,
                  t.workers, (int)o.ring_depth, (int)n);
    assert_true(n > 2 * t.stages);
    zl_sim_free(&s);
    zl_traced_free(&t);
}

/* A span's duration as it was traced. */
static uint64_t traced_ns(void *context, uint32_t stage, enum zl_trace_kind kind, uint64_t micro)
{
    const struct zl_traced *t = context;
    for (uint64_t i = 0; i < t->n; i++) {
        const struct zl_trace_event *e = &t->event[i];
        if (e->stage == stage && e->kind == kind && e->micro == micro)
            return e->end_ns - e->begin_ns;
    }
    fail_msg("stage %u: no %s of micro-batch %d", stage, zl_trace_names[kind], (int)micro);
    return 0;
}

static struct zl_train_options options(enum zl_schedule_kind schedule)
{
    struct zl_train_options o = tiny_run_options(&tiny, NULL);
    o.schedule = schedule;
    o.stages = schedule == ZL_SCHEDULE_BP ? 1 : 3;
    o.steps = 4;
    o.batch_tokens = 400;
    o.micro_batch_tokens = 100;
    o.max_length = 64;
    o.eval_every = 2;
    o.window = 16;
    return o;
}

static void every_schedule_does_what_the_simulation_says(void **state)
{
    (void)state;
    for (int k = 0; k < ZL_SCHEDULES; k++)
        run_one(options((enum zl_schedule_kind)k));
}

static void placement_and_ring_depth_change_no_stages_order(void **state)
{
    (void)state;
    for (int k = ZL_SCHEDULE_ZEROLOCK; k < ZL_SCHEDULES; k++)
        for (int i = 0; i < 3; i++) {
            struct zl_train_options o = options((enum zl_schedule_kind)k);
            o.placement = i == 0 ? ZL_PLACEMENT_STACKED : ZL_PLACEMENT_SPREAD;
            o.ring_depth = i == 2 ? 1 : 3;
            o.stages = i == 1 ? 5 : 2;
            o.threads = 1 + (uint64_t)(i == 1);
            run_one(o);
        }
}

static void interleaved_stages_do_what_the_simulation_says(void **state)
{
    (void)state;
    struct zl_train_options o = options(ZL_SCHEDULE_1F1B);
    o.stages = 2;
    o.interleave = 3;
    run_one(o);
}

static void lag_and_replay_do_what_the_simulation_says(void **state)
{
    (void)state;
    for (uint64_t lag = 1; lag <= 5; lag += 2)
        for (int replay = 0; replay < 2; replay++) {
            struct zl_train_options o = options(ZL_SCHEDULE_ASYNC);
            o.lag = lag;
            o.replay = replay ? ZL_ON : ZL_OFF;
            run_one(o);
        }
}

static void one_micro_batch_a_step_and_a_frozen_stage(void **state)
{
    (void)state;
    static uint64_t first[1] = {0};
    for (int k = ZL_SCHEDULE_ZEROLOCK; k < ZL_SCHEDULES; k++) {
        struct zl_train_options o = options((enum zl_schedule_kind)k);
        o.batch_tokens = o.micro_batch_tokens;
        if (zl_schedules[k].local)
            o.freeze = (struct zl_numbers){first, 1};
        run_one(o);
    }
}

/* With the spans as long as they were, stages with a worker each wait on paper for what they waited for in the run: a run is never shorter.
 * How much longer it is, is the time between spans and what the system takes to wake a thread, which is no matter of a test. */
static void no_run_is_shorter_than_its_spans_on_paper(void **state)
{
    (void)state;
    for (int k = ZL_SCHEDULE_ZEROLOCK; k < ZL_SCHEDULES; k++) {
        static uint64_t step_micro[64];
        struct zl_train_options o = options((enum zl_schedule_kind)k);
        const char *path = tiny_path(&tiny, "trace.json");
        struct zl_traced t;
        struct zl_trace_costs costs;
        struct zl_sim_result s;
        struct zl_error err = {0};
        if (k == ZL_SCHEDULE_SWEEP)
            continue; /* its disk is not on paper */
        memset(step_micro, 0, sizeof step_micro);
        o.stages = 2;
        o.placement = ZL_PLACEMENT_SPREAD;
        o.eval_data = NULL;
        o.eval_every = 0;
        o.trace = path;
        o.output = tiny_path(&tiny, "run");
        o.force = true;
        if (zl_train_run(&o, &err) || zl_trace_read(path, &t, &err) || zl_trace_costs(&t, path, &costs, &err))
            fail_msg("%s", err.text);
        struct zl_sim_request r = request_of(&t, &o, step_micro);
        r.span_ns = traced_ns;
        r.context = &t;
        if (zl_sim_run(&r, &s, &err))
            fail_msg("%s", err.text);
        const uint64_t real = costs.end_ns - costs.begin_ns;
        print_message("  %-9s %u workers: %.3f ms, on paper %.3f ms\n", zl_schedule_names[k], t.workers, (double)real * 1e-6,
                      (double)s.makespan_ns * 1e-6);
        assert_true(t.workers < 2 || real >= s.makespan_ns); /* on one core both stages are on one worker */
        zl_sim_free(&s);
        zl_traced_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_does_what_the_simulation_says),
        cmocka_unit_test(placement_and_ring_depth_change_no_stages_order),
        cmocka_unit_test(interleaved_stages_do_what_the_simulation_says),
        cmocka_unit_test(lag_and_replay_do_what_the_simulation_says),
        cmocka_unit_test(one_micro_batch_a_step_and_a_frozen_stage),
        cmocka_unit_test(no_run_is_shorter_than_its_spans_on_paper),
    };
    return cmocka_run_group_tests(tests, make, remove_tiny);
}
