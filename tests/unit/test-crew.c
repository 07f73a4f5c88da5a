/* The crew: every part once, its writes seen, whether helpers are awake, asleep or late; and no work while it waits. */
#include "tests/unit/test.h"

#include <stdatomic.h>
#include <time.h>

#include "pipe/crew.h"

enum { PARTS = 1000 };

struct loop {
    uint32_t written[PARTS]; /* plain: the crew makes them visible */
    uint32_t value;
    _Atomic uint32_t calls;
    long slow_ns; /* what every seventh part takes */
};

static void nap(long ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

static void part(void *arg, int64_t i)
{
    struct loop *l = arg;
    atomic_fetch_add_explicit(&l->calls, 1, memory_order_relaxed);
    l->written[i] += l->value;
    if (l->slow_ns && i % 7 == 3)
        nap(l->slow_ns);
}

static void check_loops(int threads, int loops, long slow_ns, long between_ns)
{
    static struct loop l;
    struct zl_crew *crew;
    struct zl_error err = {0};
    uint32_t want[PARTS] = {0}, calls = 0;
    memset(&l, 0, sizeof l);
    l.slow_ns = slow_ns;
    assert_int_equal(zl_crew_open(&crew, threads, &err), 0);
    for (int i = 0; i < loops; i++) {
        const int64_t parts = i % 11 == 0 ? i % 3 : 1 + (i * 37) % (slow_ns ? 20 : PARTS);
        l.value = i + 1;
        zl_crew_share(crew, parts, part, &l);
        calls += parts;
        assert_int_equal(atomic_load_explicit(&l.calls, memory_order_relaxed), calls);
        for (int64_t p = 0; p < parts; p++)
            want[p] += i + 1;
        assert_memory_equal(l.written, want, sizeof want);
        if (between_ns)
            nap(between_ns);
    }
    zl_crew_close(crew);
}

static void every_part_is_done_once_before_share_returns(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++)
        check_loops(threads, 3000, 0, 0);
}

static void helpers_that_sleep_are_woken(void **state)
{
    (void)state;
    check_loops(3, 600, 0, 200000);
}

static void an_owner_that_sleeps_is_woken(void **state)
{
    (void)state;
    check_loops(3, 560, 300000, 0);
}

static void a_crew_without_work_opens_and_closes(void **state)
{
    (void)state;
    struct zl_error err = {0};
    for (int i = 0; i < 40; i++) {
        struct zl_crew *crew;
        assert_int_equal(zl_crew_open(&crew, 1 + i % 4, &err), 0);
        if (i % 2)
            nap(1000000);
        zl_crew_close(crew);
    }
    zl_crew_close(NULL);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void a_crew_without_work_uses_no_processor(void **state)
{
    (void)state;
    struct zl_crew *crew;
    struct zl_error err = {0};
    assert_int_equal(zl_crew_open(&crew, 4, &err), 0);
    nap(100000000); /* past the short spin, on a loaded machine too */
    double before = cpu_seconds();
    nap(300000000);
    double used = cpu_seconds() - before;
    print_message("idle for 0.3 s: %.6f s of the processor, bound 0.01\n", used);
    assert_true(used < 0.01);
    zl_crew_close(crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_done_once_before_share_returns),
        cmocka_unit_test(helpers_that_sleep_are_woken),
        cmocka_unit_test(an_owner_that_sleeps_is_woken),
        cmocka_unit_test(a_crew_without_work_opens_and_closes),
        cmocka_unit_test(a_crew_without_work_uses_no_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
