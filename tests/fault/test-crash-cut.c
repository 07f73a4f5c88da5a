/*
 * The power goes at every write, sync and rename of the checkpoint writer, and what was not synced is there, is not, or is there in part:
 * the walk back finds the newest generation that has its name, never a wrong one, and the next run carries on from there.
 */
#define _GNU_SOURCE
#include "tests/fault/recorder.h"

#include <sys/statvfs.h>

enum { DRAWS = 10, STEPS = 5 };

/* Memory when there is some: the campaign makes thousands of files, and the reader asks the disk for each. */
static const char *root(void)
{
    struct statvfs v;
    const bool roomy = statvfs("/dev/shm", &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize > 64u << 20;
    return roomy && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL;
}

static const struct zl_checkpoint_part small_parts[] = {{0, 1, 66000}, {0, 2, 100}, {1, 1, 5000}, {1, 2, 1}};

/* Steps 10, 20, … through a recorded writer; the number of steps that are on the disk for good, by record, is in `safe`. */
static struct recorder *record(bool plain, uint32_t keep)
{
    struct recorder *r = calloc(1, sizeof *r);
    struct scene s;
    scene_make(&s, root());
    s.o.parts = small_parts;
    s.o.n_parts = 4;
    s.o.keep = keep;
    s.o.plain = plain;
    s.o.disk = &recorder_ops;
    s.o.disk_context = r;
    scene_open(&s);
    for (uint64_t step = 1; step <= STEPS; step++)
        scene_write_well(&s, 10 * step);
    r->uring = s.note[0] == '\0' && !plain;
    scene_end(&s);
    return r;
}

/* Step of the newest full name among the remains; 0: none. */
static uint64_t newest_name(const struct remains *m)
{
    uint64_t generation = 0, step = 0, g, t;
    for (int i = 0; i < m->n; i++) {
        const char *end = strstr(m->leaf[i].name, ".zlc");
        if (end && !end[4] && sscanf(m->leaf[i].name, "%lu-step-%lu", &g, &t) == 2 && g > generation)
            generation = g, step = t;
    }
    return step;
}

/* Step of the newest generation whose name has been synced before the cut. */
static uint64_t newest_safe(const struct recorder *r, const struct cut *c)
{
    uint64_t step = 0, g;
    for (int i = 0; i < c->at; i++)
        if (r->record[i].kind == RECORD_RENAME && synced_after(r, c, i, RECORD_SYNC_FOLDER, -1))
            assert_int_equal(sscanf(r->record[i].to, "%lu-step-%lu", &g, &step), 2);
    return step;
}

struct tally {
    uint64_t cuts, found[STEPS + 1], carried_on;
};

/* What is found is whole and right, whatever was cut; its step. */
static uint64_t find_whole(const struct scene *s, char *said)
{
    struct zl_generation g;
    struct zl_error err = {0};
    uint64_t step = 0;
    said[0] = '\0';
    assert_int_equal(zl_generation_newest(&g, s->dir, &s->o.run, scene_say, said, &err), 0);
    if (g.file) {
        const char *difference = scene_compare(&g, s->o.parts, s->o.n_parts);
        if (difference)
            fail_msg("a wrong generation is found at step %llu: %s", (unsigned long long)g.step, difference);
        step = g.step;
        zl_generation_close(&g);
    }
    return step;
}

static void check_cut(const struct recorder *r, struct cut *c, struct scene *s, struct tally *t)
{
    struct remains m;
    char said[4096];
    cut_make(r, c, s, &m);
    const uint64_t found = find_whole(s, said), named = newest_name(&m), safe = newest_safe(r, c);
    if (found != named || said[0])
        fail_msg("cut at %d (names %d, data %d, seed %llu): step %llu is found, %llu has the newest name; %s", c->at, c->names, c->data,
                 (unsigned long long)c->seed, (unsigned long long)found, (unsigned long long)named, said);
    if (found < safe)
        fail_msg("cut at %d: step %llu was safe, %llu is found", c->at, (unsigned long long)safe, (unsigned long long)found);
    t->cuts++;
    t->found[found / 10]++;
    if (t->cuts % 16)
        return;
    /* the next run, on what is left */
    s->o.disk = NULL;
    scene_open(s);
    scene_write_well(s, 1000);
    scene_expect_newest(s, 1000, NULL);
    assert_null(strstr(scene_names(s), ".tmp"));
    scene_close(s);
    t->carried_on++;
}

static void campaign(bool plain, uint32_t keep)
{
    struct recorder *r = record(plain, keep);
    struct tally t = {0};
    struct scene s;
    scene_make(&s, root());
    s.o.parts = small_parts;
    s.o.n_parts = 4;
    s.o.keep = keep;
    for (int at = 0; at <= r->n; at++) {
        for (int names = CUT_NONE; names <= CUT_ALL; names++)
            for (int data = CUT_NONE; data <= CUT_ALL; data++)
                check_cut(r, &(struct cut){.at = at, .names = names, .data = data}, &s, &t);
        for (int k = 0; k < DRAWS; k++)
            check_cut(r, &(struct cut){.at = at, .names = CUT_SOME, .data = CUT_SOME, .seed = (uint64_t)(1000 * at + k)}, &s, &t);
    }
    print_message("%s, keep %u: %d operations, %llu cuts, %llu runs carried on; found", r->uring ? "io_uring" : "pwrite", keep, r->n,
                  (unsigned long long)t.cuts, (unsigned long long)t.carried_on);
    for (int i = 0; i <= STEPS; i++) {
        print_message(" %llu", (unsigned long long)t.found[i]);
        assert_true(t.found[i] > 0); /* the campaign has been everywhere */
    }
    print_message(" times step 0, 10, ...\n");
    scene_end(&s);
    recorder_free(r);
}

static void power_may_go_at_any_operation_of_pwrite(void **state)
{
    (void)state;
    campaign(true, 2);
}

static void power_may_go_at_any_operation_of_io_uring(void **state)
{
    (void)state;
    campaign(false, 1);
}

/* That the campaign can fail: the same operations from a writer that does not sync its files, or the folder. */
static void a_writer_that_forgets_to_sync_is_noticed(void **state)
{
    (void)state;
    struct recorder *r = record(true, 1);
    for (int which = 0; which < 2; which++) {
        uint64_t passed_over = 0, lost = 0, cuts = 0;
        struct scene s;
        char said[4096];
        scene_make(&s, root());
        s.o.parts = small_parts;
        s.o.n_parts = 4;
        for (int at = 1; at <= r->n; at++)
            for (int k = 0; k < DRAWS; k++) {
                struct remains m;
                const struct cut honest = {.at = at};
                struct cut c = {.at = at, .names = CUT_SOME, .data = CUT_SOME, .seed = (uint64_t)(1000 * at + k), .no_sync = which == 0,
                                .no_folder_sync = which == 1};
                cut_make(r, &c, &s, &m);
                const uint64_t found = find_whole(&s, said); /* still never a wrong one */
                cuts++;
                passed_over += said[0] != '\0';
                lost += found < newest_safe(r, &honest);
            }
        print_message("without syncing %s: %llu cuts, %llu with a generation that is not whole, %llu that lose what should be safe\n",
                      which ? "the folder" : "files", (unsigned long long)cuts, (unsigned long long)passed_over, (unsigned long long)lost);
        assert_true(which ? lost > 0 : passed_over > 0 && lost > 0);
        scene_end(&s);
    }
    recorder_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_may_go_at_any_operation_of_pwrite),
        cmocka_unit_test(power_may_go_at_any_operation_of_io_uring),
        cmocka_unit_test(a_writer_that_forgets_to_sync_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
