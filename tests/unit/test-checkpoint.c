/* The checkpoint writer: what is put comes back, from several stages at their own pace; misuse and failures cost one generation. */
#define _GNU_SOURCE
#include "tests/fault/scene.h"

#include <pthread.h>

#include "base/file.h"

static void what_is_put_comes_back(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct scene s;
        struct zl_checkpoint_totals t;
        scene_make(&s, NULL);
        s.o.plain = k & 1;
        s.o.buffered = k & 2;
        scene_open(&s);
        scene_expect_newest(&s, 0, NULL);
        scene_write_well(&s, 7);
        scene_expect_newest(&s, 7, NULL);
        scene_write_well(&s, 3); /* later, though the step is lower */
        scene_expect_newest(&s, 3, NULL);
        zl_checkpoint_totals(s.c, &t);
        assert_int_equal(t.generations, 2);
        assert_int_equal(t.failed, 0);
        print_message("%s%s%s; put took %.3f ms\n", t.back_end, s.note[0] ? ": " : "", s.note, 1e-6 * (double)t.put_ns);
        if (k & 2)
            assert_non_null(strstr(t.back_end, "buffered"));
        if (k & 1)
            assert_non_null(strstr(t.back_end, "pwrite"));
        assert_string_equal(scene_names(&s), "0000000001-step-7.zlc 0000000002-step-3.zlc");
        scene_end(&s);
    }
}

static void all_back_ends_write_the_same_bytes(void **state)
{
    (void)state;
    char *bytes[4];
    size_t n[4];
    for (int k = 0; k < 4; k++) {
        struct scene s;
        struct zl_error err = {0};
        scene_make(&s, NULL);
        s.o.plain = k & 1;
        s.o.buffered = k & 2;
        scene_open(&s);
        scene_write_well(&s, 11);
        assert_int_equal(zl_file_read(scene_path(&s, "0000000001-step-11.zlc"), 1 << 24, &bytes[k], &n[k], &err), 0);
        assert_int_equal(n[k], n[0]);
        assert_memory_equal(bytes[k], bytes[0], n[0]);
        scene_end(&s);
    }
    for (int k = 0; k < 4; k++)
        free(bytes[k]);
}

/* ---- stages at their own pace ---------------------------------------------------------------------------------------- */

enum { STAGES = 5, GENERATIONS = 6 };

struct pace {
    struct scene *s;
    pthread_mutex_t mutex;
    pthread_cond_t begun;
    uint64_t generation[GENERATIONS];
    uint32_t n_begun;
    struct zl_checkpoint_part part[STAGES][2];
    int rc[STAGES];
};

struct walker {
    struct pace *p;
    uint32_t stage;
    pthread_t thread;
};

/* One stage: as soon as a generation is begun, it puts its two parts and goes on; stage k dawdles k ms before each. */
static void *walk(void *context)
{
    struct walker *w = context;
    struct pace *p = w->p;
    for (uint32_t k = 0; k < GENERATIONS && !p->rc[w->stage]; k++) {
        pthread_mutex_lock(&p->mutex);
        while (p->n_begun <= k)
            pthread_cond_wait(&p->begun, &p->mutex);
        const uint64_t generation = p->generation[k];
        pthread_mutex_unlock(&p->mutex);
        usleep(1000 * w->stage);
        for (int i = 0; i < 2 && !p->rc[w->stage]; i++)
            p->rc[w->stage] = scene_put(p->s->c, generation, k + 1, &p->part[w->stage][i], 30011);
    }
    return NULL;
}

static void drive(struct scene *s, struct pace *p)
{
    uint32_t busy = 0;
    for (uint32_t k = 0; k < GENERATIONS; k++) {
        uint64_t generation;
        char text[64];
        struct zl_error err = {0};
        while (zl_checkpoint_begin(s->c, k + 1, &generation) == ZL_CHECKPOINT_BUSY)
            usleep(200), busy++;
        pthread_mutex_lock(&p->mutex);
        p->generation[k] = generation;
        p->n_begun = k + 1;
        pthread_cond_broadcast(&p->begun);
        pthread_mutex_unlock(&p->mutex);
        scene_text(k + 1, text);
        assert_int_equal(zl_checkpoint_text(s->c, generation, text, strlen(text), &err), 0);
    }
    print_message("asked in vain %u times\n", busy);
}

static void stages_put_at_their_own_pace(void **state)
{
    (void)state;
    for (int small = 0; small < 2; small++) {
        struct scene s;
        struct pace p = {.s = &s, .mutex = PTHREAD_MUTEX_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER};
        struct walker w[STAGES];
        struct zl_checkpoint_event e;
        scene_make(&s, NULL);
        for (uint32_t k = 0; k < STAGES; k++) {
            p.part[k][0] = (struct zl_checkpoint_part){.stage = k, .section = 0, .bytes = 300000 + k};
            p.part[k][1] = (struct zl_checkpoint_part){.stage = k, .section = 1, .bytes = 70000};
        }
        s.o.parts = p.part[0];
        s.o.n_parts = 2 * STAGES;
        s.o.buffer_bytes = small ? 1 : 0; /* as little as is accepted */
        scene_open(&s);
        for (uint32_t k = 0; k < STAGES; k++) {
            w[k] = (struct walker){.p = &p, .stage = k};
            assert_int_equal(pthread_create(&w[k].thread, NULL, walk, &w[k]), 0);
        }
        drive(&s, &p);
        for (uint32_t k = 0; k < STAGES; k++) {
            pthread_join(w[k].thread, NULL);
            assert_int_equal(p.rc[k], 0);
        }
        assert_true(zl_checkpoint_wait(s.c, p.generation[GENERATIONS - 1], (int64_t)60e9));
        for (uint32_t k = 0; k < GENERATIONS; k++) {
            assert_true(zl_checkpoint_poll(s.c, &e));
            assert_int_equal(e.step, k + 1);
            assert_int_equal(e.rc, 0);
        }
        assert_false(zl_checkpoint_poll(s.c, &e));
        scene_expect_newest(&s, GENERATIONS, NULL);
        struct zl_checkpoint_totals t;
        zl_checkpoint_totals(s.c, &t);
        print_message("%s memory: %.2f ms in put, %.2f ms of it waiting\n", small ? "little" : "plenty of", 1e-6 * (double)t.put_ns,
                      1e-6 * (double)t.wait_ns);
        scene_end(&s);
    }
}

static void a_third_generation_has_to_wait(void **state)
{
    (void)state;
    struct scene s;
    uint64_t a, b, c = 99;
    scene_make(&s, NULL);
    scene_open(&s);
    assert_int_equal(zl_checkpoint_begin(s.c, 1, &a), 0);
    assert_int_equal(zl_checkpoint_begin(s.c, 2, &b), 0);
    assert_int_equal(zl_checkpoint_begin(s.c, 3, &c), ZL_CHECKPOINT_BUSY);
    assert_int_equal(c, 99);
    assert_int_equal(b, a + 1);
    assert_false(zl_checkpoint_wait(s.c, a, 1000000));
    zl_checkpoint_drop(s.c, a);
    zl_checkpoint_drop(s.c, b);
    assert_true(zl_checkpoint_wait(s.c, a, (int64_t)60e9));
    assert_true(zl_checkpoint_wait(s.c, b, (int64_t)60e9));
    scene_write_well(&s, 4);
    assert_string_equal(scene_names(&s), "0000000003-step-4.zlc");
    scene_end(&s);
}

/* ---- what is lost ---------------------------------------------------------------------------------------------------- */

static void half_a_generation_leaves_nothing(void **state)
{
    (void)state;
    struct scene s;
    uint64_t generation;
    struct zl_checkpoint_event e;
    scene_make(&s, NULL);
    scene_open(&s);
    scene_write_well(&s, 1);
    assert_int_equal(zl_checkpoint_begin(s.c, 2, &generation), 0);
    assert_int_equal(scene_put(s.c, generation, 2, &scene_parts[0], 1000), 0);
    zl_checkpoint_drop(s.c, generation);
    assert_true(zl_checkpoint_wait(s.c, generation, (int64_t)60e9));
    assert_false(zl_checkpoint_poll(s.c, &e));
    assert_true(scene_put(s.c, generation, 2, &scene_parts[1], 1000) < 0);
    assert_string_equal(scene_names(&s), "0000000001-step-1.zlc");
    assert_int_equal(zl_checkpoint_begin(s.c, 3, &generation), 0);
    assert_int_equal(scene_put(s.c, generation, 3, &scene_parts[0], 70000), 0);
    scene_close(&s);
    assert_string_equal(scene_names(&s), "0000000001-step-1.zlc");
    scene_expect_newest(&s, 1, NULL);
    scene_end(&s);
}

static void expect_lost(struct scene *s, uint64_t generation, const char *why)
{
    struct zl_checkpoint_event e;
    assert_true(zl_checkpoint_wait(s->c, generation, (int64_t)60e9));
    assert_true(zl_checkpoint_poll(s->c, &e));
    assert_int_equal(e.generation, generation);
    assert_true(e.rc < 0);
    if (!strstr(e.why, why))
        fail_msg("said: %s; expected: %s", e.why, why);
}

static void misuse_costs_one_generation(void **state)
{
    (void)state;
    struct scene s;
    uint64_t g;
    unsigned char byte[4097] = {0};
    scene_make(&s, NULL);
    scene_open(&s);
    zl_checkpoint_begin(s.c, 1, &g);
    assert_true(zl_checkpoint_put(s.c, g, 1, 7, byte, 4097) < 0);
    expect_lost(&s, g, "stage 1 gave more than the 4096 bytes of its section 7");
    zl_checkpoint_begin(s.c, 2, &g);
    assert_true(zl_checkpoint_put(s.c, g, 5, 7, byte, 1) < 0);
    expect_lost(&s, g, "not agreed");
    zl_checkpoint_begin(s.c, 3, &g);
    assert_int_equal(zl_checkpoint_put(s.c, g, 1, 7, byte, 1), 0);
    assert_true(zl_checkpoint_put(s.c, g, 1, 2, byte, 1) < 0);
    expect_lost(&s, g, "stage 1 began section 2 before section 7 was whole");
    assert_true(zl_checkpoint_put(s.c, 12345, 1, 2, byte, 1) < 0);
    scene_write_well(&s, 4);
    scene_expect_newest(&s, 4, NULL);
    scene_end(&s);
}

static void nonsense_is_refused_at_the_opening(void **state)
{
    (void)state;
    static const struct zl_checkpoint_part twice[] = {{1, 2, 3}, {0, 1, 5}, {1, 2, 3}}, empty[] = {{1, 2, 0}},
                                           vast[] = {{1, 2, UINT64_MAX - 1}}, large[] = {{0, 0, UINT64_C(1) << 48}, {1, 1, 1}};
    static const struct {
        const struct zl_checkpoint_part *parts;
        uint32_t n;
        const char *why;
    } cases[] = {{twice, 3, "named twice"}, {empty, 1, "empty"}, {vast, 1, "too large"}, {large, 2, "too large"}, {NULL, 0, "0 parts"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene s;
        struct zl_error err = {0};
        scene_make(&s, NULL);
        s.o.parts = cases[i].parts;
        s.o.n_parts = cases[i].n;
        assert_int_equal(zl_checkpoints_open(&s.c, s.dir, &s.o, s.note, &err), ZL_EUSAGE);
        if (!strstr(err.text, cases[i].why))
            fail_msg("%s", err.text);
        assert_null(s.c);
        scene_end(&s);
    }
}

static void a_text_that_is_too_long_is_refused(void **state)
{
    (void)state;
    struct scene s;
    struct zl_error err = {0};
    uint64_t g;
    char *text = calloc(1, 16777217);
    scene_make(&s, NULL);
    scene_open(&s);
    zl_checkpoint_begin(s.c, 1, &g);
    assert_int_equal(zl_checkpoint_text(s.c, g, text, 16777217, &err), ZL_EINPUT);
    assert_non_null(strstr(err.text, "at most 16777216"));
    free(text);
    scene_end(&s);
}

static void a_folder_that_vanished_comes_back(void **state)
{
    (void)state;
    struct scene s;
    scene_make(&s, NULL);
    scene_open(&s);
    scene_write_well(&s, 1);
    nftw(scene_path(&s, ""), scene_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    scene_write_well(&s, 2);
    scene_expect_newest(&s, 2, NULL);
    assert_string_equal(scene_names(&s), "0000000002-step-2.zlc");
    nftw(s.dir, scene_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    const struct zl_checkpoint_event e = scene_write(&s, 3);
    assert_int_equal(e.rc, ZL_ESYSTEM);
    assert_non_null(strstr(e.why, "No such file or directory"));
    assert_int_not_equal(access(s.dir, F_OK), 0); /* the run's own folder is not ours to make */
    assert_int_equal(mkdir(s.dir, 0777), 0);
    scene_write_well(&s, 4);
    scene_end(&s);
}

static void events_that_nobody_polls_hold_the_next_ones_back(void **state)
{
    (void)state;
    struct scene s;
    uint64_t g, begun = 0;
    struct zl_checkpoint_event e;
    unsigned char byte = 0;
    scene_make(&s, NULL);
    scene_open(&s);
    while (zl_checkpoint_begin(s.c, begun + 1, &g) == 0) {
        assert_true(zl_checkpoint_put(s.c, g, 5, 7, &byte, 1) < 0);
        assert_true(zl_checkpoint_wait(s.c, g, (int64_t)60e9));
        begun++;
        assert_true(begun < 1000);
    }
    for (uint64_t i = 0; i < begun; i++) {
        assert_true(zl_checkpoint_poll(s.c, &e));
        assert_int_equal(e.step, i + 1);
    }
    scene_write_well(&s, 2000);
    scene_end(&s);
}

static void the_plan_is_what_is_written(void **state)
{
    (void)state;
    struct scene s;
    struct zl_error err = {0};
    uint64_t memory, file, little;
    struct stat st;
    scene_make(&s, NULL);
    assert_int_equal(zl_checkpoints_plan(&s.o, &memory, &file, &err), 0);
    s.o.buffer_bytes = 1;
    assert_int_equal(zl_checkpoints_plan(&s.o, &little, &file, &err), 0);
    assert_true(little < memory);
    scene_open(&s);
    scene_write_well(&s, 1);
    assert_int_equal(stat(scene_path(&s, "0000000001-step-1.zlc"), &st), 0);
    print_message("file of %lld bytes, plan without text %llu, memory %llu or %llu\n", (long long)st.st_size, (unsigned long long)file,
                  (unsigned long long)memory, (unsigned long long)little);
    assert_int_equal(st.st_size, file + 4096); /* the text's page */
    scene_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_comes_back),
        cmocka_unit_test(all_back_ends_write_the_same_bytes),
        cmocka_unit_test(stages_put_at_their_own_pace),
        cmocka_unit_test(a_third_generation_has_to_wait),
        cmocka_unit_test(half_a_generation_leaves_nothing),
        cmocka_unit_test(misuse_costs_one_generation),
        cmocka_unit_test(nonsense_is_refused_at_the_opening),
        cmocka_unit_test(a_text_that_is_too_long_is_refused),
        cmocka_unit_test(a_folder_that_vanished_comes_back),
        cmocka_unit_test(events_that_nobody_polls_hold_the_next_ones_back),
        cmocka_unit_test(the_plan_is_what_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
