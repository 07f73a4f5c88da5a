/* A trace as a file: what is written is valid JSON that reads back as it was, and what was not written so is refused. */
#include "tests/unit/test.h"

#include <jansson.h>

#include "train/trace_costs.h"

static char dir[64];

static const char *path(const char *name)
{
    static char p[128];
    snprintf(p, sizeof p, "%s/%s", dir, name);
    return p;
}

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/zerolock-trace-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* Two workers, three stages, times to the nanosecond. */
static void make(struct zl_trace *t, uint32_t capacity)
{
    assert_int_equal(zl_trace_open(t, 2, capacity, NULL), 0);
    const uint64_t o = t->origin_ns;
    for (uint32_t i = 0; i < 6; i++) {
        zl_trace_span(zl_trace_lane(t, i / 4), ZL_TRACE_FORWARD, o + 1000 * i + 1, o + 1000 * i + 778, i / 2, i % 2, 1);
        zl_trace_span(zl_trace_lane(t, i / 4), ZL_TRACE_BACKWARD, o + 1000 * i + 778, o + 1000 * i + 999, i / 2, i % 2, 1);
    }
    zl_trace_span(zl_trace_lane(t, 1), ZL_TRACE_WAIT_INPUT, o + 123456789123, o + 123456789124, ZL_TRACE_NO_STAGE, 0, 0);
    zl_trace_counter(zl_trace_lane(t, 1), ZL_TRACE_ACTIVATION_BYTES, o + 5, 2, 3000000000);
}

static void write_to(const char *p, uint32_t capacity)
{
    struct zl_trace t;
    struct zl_trace_file f;
    struct zl_error err = {0};
    json_t *about = json_pack("{s:s}", "schedule", "1f1b");
    make(&t, capacity);
    if (zl_trace_file_open(&f, p, &err) || zl_trace_file_write(&f, &t, about, &err))
        fail_msg("%s", err.text);
    zl_trace_file_close(&f);
    json_decref(about);
    zl_trace_close(&t);
}

static void a_trace_reads_back_to_the_nanosecond(void **state)
{
    (void)state;
    struct zl_traced r;
    struct zl_error err = {0};
    write_to(path("t.json"), 100);
    if (zl_trace_read(path("t.json"), &r, &err))
        fail_msg("%s", err.text);
    assert_int_equal(r.n, 14);
    assert_int_equal(r.stages, 3);
    assert_int_equal(r.workers, 2);
    assert_int_equal(r.dropped, 0);
    assert_string_equal(json_string_value(json_object_get(r.about, "schedule")), "1f1b");
    assert_int_equal(r.event[0].begin_ns, 1);
    assert_int_equal(r.event[0].end_ns, 778);
    assert_int_equal(r.worker[7], 0);
    assert_int_equal(r.worker[8], 1);
    assert_int_equal(r.event[11].kind, ZL_TRACE_BACKWARD);
    assert_int_equal(r.event[11].begin_ns, 5778);
    assert_int_equal(r.event[11].micro, 1);
    assert_int_equal(r.event[11].step, 1);
    assert_int_equal(r.event[12].stage, ZL_TRACE_NO_STAGE);
    assert_int_equal(r.event[12].begin_ns, 123456789123);
    assert_int_equal(r.event[12].end_ns, 123456789124);
    assert_int_equal(r.event[13].kind, ZL_TRACE_ACTIVATION_BYTES);
    assert_int_equal(r.event[13].end_ns, 3000000000);
    zl_traced_free(&r);
}

static void the_file_is_what_a_viewer_expects(void **state)
{
    (void)state;
    write_to(path("t.json"), 100);
    json_t *o = json_load_file(path("t.json"), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(o);
    const json_t *events = json_object_get(o, "traceEvents");
    size_t i, names = 0;
    json_t *e;
    json_array_foreach(events, i, e)
    {
        const char *ph = json_string_value(json_object_get(e, "ph"));
        assert_non_null(ph);
        assert_true(json_is_integer(json_object_get(e, "pid")));
        assert_true(json_is_string(json_object_get(e, "name")));
        if (strcmp(ph, "X") == 0)
            assert_true(json_is_number(json_object_get(e, "ts")) && json_is_number(json_object_get(e, "dur")) &&
                        json_is_integer(json_object_get(e, "tid")));
        names += strcmp(json_string_value(json_object_get(e, "name")), "thread_name") == 0;
    }
    assert_int_equal(names, 4); /* three stages and a worker's own waiting */
    json_decref(o);
}

static void what_had_no_room_is_counted(void **state)
{
    (void)state;
    struct zl_traced r;
    write_to(path("t.json"), 3);
    assert_int_equal(zl_trace_read(path("t.json"), &r, NULL), 0);
    assert_int_equal(r.n, 6);
    assert_int_equal(r.dropped, 8);
    zl_traced_free(&r);
}

static void a_run_that_fails_leaves_an_old_trace_alone_and_no_new_one(void **state)
{
    (void)state;
    struct zl_trace_file f;
    struct zl_traced r;
    write_to(path("old.json"), 100);
    assert_int_equal(zl_trace_file_open(&f, path("old.json"), NULL), 0);
    zl_trace_file_close(&f);
    assert_int_equal(zl_trace_read(path("old.json"), &r, NULL), 0);
    assert_int_equal(r.n, 14);
    zl_traced_free(&r);
    assert_int_equal(zl_trace_file_open(&f, path("new.json"), NULL), 0);
    assert_int_equal(access(path("new.json"), F_OK), 0);
    char *p = strdup(path("new.json"));
    zl_trace_file_close(&f);
    assert_int_not_equal(access(p, F_OK), 0);
    free(p);
    assert_int_equal(zl_trace_file_open(&f, NULL, NULL), 0);
    assert_null(f.f);
    zl_trace_file_close(&f);
}

static void a_place_that_cannot_be_written_is_known_at_once(void **state)
{
    (void)state;
    struct zl_trace_file f;
    struct zl_error err = {0};
    assert_int_equal(zl_trace_file_open(&f, path("no/where.json"), &err), ZL_ESYSTEM);
    print_message("  %s\n", err.text);
    err = (struct zl_error){0};
    assert_int_equal(zl_trace_file_open(&f, dir, &err), ZL_ESYSTEM);
    print_message("  %s\n", err.text);
}

#define OPEN "{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n"

static void what_is_no_trace_of_ours_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{}\n",
        OPEN,
        OPEN "x\n]}\n",
        OPEN "{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":1,\"dur\":1,\"name\":\"dance\",\"args\":{\"step\":1,\"micro\":0}},\n]}\n",
        OPEN "{\"ph\":\"X\",\"pid\":1,\"tid\":70000,\"ts\":1,\"dur\":1,\"name\":\"forward\",\"args\":{\"step\":1,\"micro\":0}},\n]}\n",
        OPEN "{\"ph\":\"X\",\"pid\":1,\"tid\":2000,\"ts\":1,\"dur\":1,\"name\":\"forward\",\"args\":{\"step\":1,\"micro\":0}},\n]}\n",
        OPEN "{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":1,\"dur\":1,\"name\":\"forward\",\"args\":{\"step\":1,\"micro\":0}},\n]}\n",
        OPEN "{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":-1,\"dur\":1,\"name\":\"forward\",\"args\":{\"step\":1,\"micro\":0}},\n]}\n",
        OPEN "{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":1e300,\"dur\":1,\"name\":\"forward\",\"args\":{\"step\":1,\"micro\":0}},\n]}\n",
        OPEN "{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":1,\"dur\":1,\"name\":\"forward\"},\n]}\n",
        OPEN "{\"ph\":\"C\",\"pid\":1,\"ts\":1,\"name\":\"stage 99999999999999999999 ring fill\",\"args\":{\"value\":1}},\n]}\n",
        OPEN "{\"ph\":\"C\",\"pid\":1,\"ts\":1,\"name\":\"ring fill\",\"args\":{\"value\":1}},\n]}\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct zl_traced r;
        struct zl_error err = {0};
        FILE *f = fopen(path("bad.json"), "w");
        fputs(bad[i], f);
        fclose(f);
        assert_int_equal(zl_trace_read(path("bad.json"), &r, &err), ZL_EINPUT);
        print_message("  %s\n", err.text);
    }
}

/* Bytes changed, lines cut and doubled: every file reads or is refused, whatever it says. */
static void a_damaged_trace_does_no_harm(void **state)
{
    (void)state;
    static char good[16384], bad[2 * sizeof good];
    unsigned seed = 1, refused = 0;
    write_to(path("t.json"), 100);
    FILE *f = fopen(path("t.json"), "r");
    const size_t n = fread(good, 1, sizeof good, f);
    fclose(f);
    assert_true(n > 500 && n < sizeof good);
    for (int i = 0; i < 2000; i++) {
        struct zl_traced r;
        struct zl_trace_costs c;
        size_t m = n;
        memcpy(bad, good, n);
        for (int edits = 1 + i % 3; edits > 0; edits--) {
            seed = seed * 1664525u + 1013904223u;
            const size_t at = (seed >> 8) % m;
            if (seed % 5 == 0)
                m = at + 1;
            else if (seed % 5 == 1 && m + 50 < sizeof bad && at + 50 < m)
                memmove(bad + at + 50, bad + at, m - at), m += 50;
            else
                bad[at] = "0123456789,:{}[]\"-e.\n\0x"[seed / 7 % 24];
        }
        f = fopen(path("bad.json"), "w");
        fwrite(bad, 1, m, f);
        fclose(f);
        if (zl_trace_read(path("bad.json"), &r, NULL)) {
            refused++;
            continue;
        }
        zl_trace_costs(&r, "bad.json", &c, NULL);
        zl_traced_free(&r);
    }
    print_message("  %u of 2000 refused\n", refused);
    assert_true(refused > 500 && refused < 2000);
}

static void room_grows_with_the_run_up_to_a_bound(void **state)
{
    (void)state;
    assert_true(zl_trace_events(10, 3, 3) >= 100);
    assert_true(zl_trace_events(10, 3, 1) >= 300);
    assert_true(zl_trace_events(UINT64_MAX, 64, 1) <= 1 << 20);
    assert_true(64 * (uint64_t)zl_trace_events(UINT64_MAX, 64, 64) <= 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_reads_back_to_the_nanosecond),
        cmocka_unit_test(the_file_is_what_a_viewer_expects),
        cmocka_unit_test(what_had_no_room_is_counted),
        cmocka_unit_test(a_run_that_fails_leaves_an_old_trace_alone_and_no_new_one),
        cmocka_unit_test(a_place_that_cannot_be_written_is_known_at_once),
        cmocka_unit_test(what_is_no_trace_of_ours_is_refused),
        cmocka_unit_test(a_damaged_trace_does_no_harm),
        cmocka_unit_test(room_grows_with_the_run_up_to_a_bound),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
