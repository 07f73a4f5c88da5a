/*
 * The power goes at every operation of `checkpoint restore`, of the writing of an adapter and of the ledger of a run: what is left is the old
 * state or the new one, whole, and a torn end of the ledger is understood. The checkpoint writer has a campaign of its own: test-crash-cut.c.
 */
#define _GNU_SOURCE
#include "tests/fault/power.h"
#include "tests/fault/scene.h"

#include <jansson.h>

#include "base/file.h"
#include "format/adapter.h"
#include "store/append.h"
#include "store/run.h"
#include "train/events.h"
#include "train/events_check.h"

static char before[4096], after[4096]; /* the folder that is worked in, and what a cut left of it */

static void make_folders(void)
{
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(before, sizeof before, "%s/zerolock-power-XXXXXX", root);
    snprintf(after, sizeof after, "%s/zerolock-power-XXXXXX", root);
    assert_non_null(mkdtemp(before));
    assert_non_null(mkdtemp(after));
}

static void remove_folders(void)
{
    power_end();
    nftw(before, scene_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    nftw(after, scene_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *below(const char *root, const char *name)
{
    static char path[2][8192];
    static unsigned turn;
    char *p = path[turn++ % 2];
    snprintf(p, sizeof path[0], "%s/%s", root, name);
    return p;
}

/* ---- checkpoint restore ------------------------------------------------------------------------------------------------ */

enum { GENERATIONS = 5 };
static const struct zl_checkpoint_part few_parts[] = {{0, 1, 5000}, {1, 2, 100}};

struct restoring {
    uint64_t from, to, found_old, found_new;
    bool done;      /* cut behind the last operation: it must have happened */
    bool lenient;   /* only count */
    uint64_t wrong;
};

static void check_generations(const struct power_cut *c, void *context)
{
    struct restoring *r = context;
    struct zl_generation_name *list;
    struct zl_generation g;
    struct zl_error err = {0};
    uint64_t n, aside;
    bool there[GENERATIONS + 1] = {false};
    assert_int_equal(zl_generation_list(after, &list, &n, &err), 0);
    for (uint64_t i = 0; i < n; i++) {
        if (zl_generation_open(&g, after, list[i].name, &err) || zl_generation_verify(&g, &err))
            fail_msg("cut at %d: %s", c->at, err.text);
        there[g.generation] = true;
        zl_generation_close(&g);
    }
    free(list);
    for (int i = 1; i <= GENERATIONS; i++)
        if (!there[i])
            fail_msg("cut at %d: generation %d is gone", c->at, i);
    assert_int_equal(zl_generation_newest(&g, after, NULL, NULL, NULL, &err), 0);
    const uint64_t is = g.file ? g.generation : 0;
    zl_generation_close(&g);
    r->found_old += is == r->from;
    r->found_new += is == r->to;
    r->wrong += is != r->from && is != r->to;
    if (is != r->to && (is != r->from || c->at == power.n) && !r->lenient)
        fail_msg("cut at %d (names %d, seed %llu) of a restoration from %llu to %llu: generation %llu is the newest", c->at, c->names,
                 (unsigned long long)c->seed, (unsigned long long)r->from, (unsigned long long)r->to, (unsigned long long)is);
    assert_int_equal(zl_generation_restore(after, r->to, &aside, &err), 0); /* and once more leads there */
    assert_int_equal(zl_generation_newest(&g, after, NULL, NULL, NULL, &err), 0);
    assert_int_equal(g.generation, r->to);
    zl_generation_close(&g);
}

static void a_restoration_has_happened_or_not(void **state)
{
    static const uint64_t way[] = {GENERATIONS, 2, 4, 1, GENERATIONS};
    struct zl_error err = {0};
    struct scene s = {.o = {.parts = few_parts, .n_parts = 2, .keep = GENERATIONS}};
    (void)state;
    make_folders();
    snprintf(s.dir, sizeof s.dir, "%s", before);
    scene_open(&s);
    for (uint64_t step = 1; step <= GENERATIONS; step++)
        scene_write_well(&s, 10 * step);
    scene_close(&s);
    for (size_t i = 1; i < sizeof way / sizeof way[0]; i++)
        for (int forgets = 0; forgets < 2; forgets++) {
            struct restoring r = {.from = way[i - 1], .to = way[i], .lenient = forgets};
            uint64_t aside;
            if (!forgets) {
                power_end();
                power_record(before);
                assert_int_equal(zl_generation_restore(before, r.to, &aside, &err), 0);
                power.on = false;
            }
            const uint64_t cuts = power_campaign(after, forgets, 30, check_generations, &r);
            print_message("from generation %llu to %llu%s: %d operations, %llu cuts, %llu times the old one, %llu times the new one, %llu others\n",
                          (unsigned long long)r.from, (unsigned long long)r.to, forgets ? ", its syncs ignored" : "", power.n,
                          (unsigned long long)cuts, (unsigned long long)r.found_old, (unsigned long long)r.found_new, (unsigned long long)r.wrong);
            assert_true(r.found_old && r.found_new);
            assert_true(!forgets || r.wrong > 0 || r.to > r.from); /* the campaign can fail */
        }
    remove_folders();
}

/* ---- the adapter ------------------------------------------------------------------------------------------------------ */

#define INNER 300

static int write_adapter(const char *root, float value)
{
    static float a[2 * INNER], b[2 * INNER];
    struct zl_error err = {0};
    struct zl_adapter_module m = {.name = (char[]){"model.layers.0.self_attn.q_proj"}, .r = 2, .in = INNER, .out = INNER, .scale = 4, .a = a, .b = b};
    const struct zl_adapter_config c = {.base_model = "x", .r = 2, .alpha = 8, .task_type = "CAUSAL_LM"};
    for (size_t i = 0; i < 2 * INNER; i++) {
        a[i] = value + (float)i;
        b[i] = value - (float)i;
    }
    const int rc = zl_adapter_write(below(root, "adapter"), &c, &(struct zl_adapter){&m, 1}, &err);
    if (rc)
        print_message("%s\n", err.text);
    return rc;
}

/* The value that the adapter of a folder was written with; 0: there is none; -1: it is not whole. */
static float adapter_in(const char *root)
{
    struct zl_adapter a;
    struct zl_error err = {0};
    if (access(below(root, "adapter"), F_OK))
        return 0;
    if (zl_adapter_read(below(root, "adapter"), &a, NULL, 0, &err))
        return -1;
    float value = a.modules[0].a[0];
    for (size_t i = 0; i < 2 * INNER; i++)
        if (a.modules[0].a[i] != value + (float)i || a.modules[0].b[i] != value - (float)i)
            value = -1;
    zl_adapter_free(&a);
    return value;
}

struct replacing {
    float old, new;
    uint64_t found_old, found_new, wrong;
    bool lenient;
};

static void check_adapter(const struct power_cut *c, void *context)
{
    struct replacing *r = context;
    const float is = adapter_in(after);
    r->found_old += is == r->old;
    r->found_new += is == r->new;
    r->wrong += is != r->old && is != r->new;
    if (!r->lenient && is != r->new && (is != r->old || c->at == power.n))
        fail_msg("cut at %d of %d (names %d, data %d, seed %llu): adapter %g between %g and %g", c->at, power.n, c->names, c->data,
                 (unsigned long long)c->seed, (double)is, (double)r->old, (double)r->new);
    if (!r->lenient) { /* the next run is not hindered by what is left */
        assert_int_equal(write_adapter(after, 7), 0);
        assert_true(adapter_in(after) == 7);
    }
}

static void an_adapter_is_the_old_one_or_the_new_one(void **state)
{
    (void)state;
    make_folders();
    for (int i = 0; i < 2; i++)
        for (int forgets = 0; forgets < 2; forgets++) {
            struct replacing r = {.old = (float)i, .new = (float)i + 1, .lenient = forgets};
            if (!forgets) {
                power_end();
                power_record(before);
                assert_int_equal(write_adapter(before, r.new), 0);
                power.on = false;
            }
            const uint64_t cuts = power_campaign(after, forgets, 30, check_adapter, &r);
            print_message("an adapter %s%s: %d operations, %llu cuts, %llu times the old state, %llu times the new one, %llu others\n",
                          i ? "in the place of another" : "where there was none", forgets ? ", its syncs ignored" : "", power.n,
                          (unsigned long long)cuts, (unsigned long long)r.found_old, (unsigned long long)r.found_new, (unsigned long long)r.wrong);
            assert_true(r.found_old && r.found_new);
            assert_true(!forgets || r.wrong > 0);
        }
    remove_folders();
}

/* ---- the ledger ------------------------------------------------------------------------------------------------------ */

enum { STEPS = 40, SYNC_EVERY = 8 };

struct lines {
    char *text; /* all that was written */
    size_t n;
    uint64_t torn, short_of_all;
};

/* Length of the ledger's beginning that a cut must leave: what its last sync saw. */
static size_t safe_bytes(const struct power_cut *c)
{
    size_t bytes = 0, synced = 0;
    for (int i = 0; i < c->at; i++)
        if (power.operation[i].kind == POWER_WRITE)
            bytes = power.operation[i].offset + power.operation[i].bytes;
        else if (power.operation[i].kind == POWER_SYNC && !power.object[power.operation[i].object].folder)
            synced = bytes;
    return synced;
}

static bool keep_none(void *context, const json_t *line)
{
    (void)context, (void)line;
    return false;
}

static void check_ledger(const struct power_cut *c, void *context)
{
    struct lines *l = context;
    struct zl_events_proof proof;
    struct zl_error err = {0};
    struct zl_run r;
    char *text;
    size_t n;
    if (zl_events_check(after, &proof, &err))
        fail_msg("cut at %d (data %d, seed %llu): %s", c->at, c->data, (unsigned long long)c->seed, err.text);
    l->torn += proof.torn;
    assert_int_equal(zl_run_open(&r, after, ZL_RUN_CONTINUE, &err), 0);
    assert_int_equal(zl_run_resume(&r, keep_none, NULL, &err), 0);
    assert_int_equal(zl_run_close(&r, &err), 0);
    assert_int_equal(zl_file_read(below(after, "events.jsonl"), SIZE_MAX / 4, &text, &n, &err), 0);
    if (n > l->n || memcmp(text, l->text, n) != 0)
        fail_msg("cut at %d (data %d, seed %llu): what is gone on from is not how the ledger began", c->at, c->data, (unsigned long long)c->seed);
    if (n < safe_bytes(c))
        fail_msg("cut at %d: %zu bytes are left of %zu that were synced", c->at, n, safe_bytes(c));
    l->short_of_all += n < l->n;
    free(text);
}

static void a_ledger_is_its_own_beginning_and_holds_what_was_synced(void **state)
{
    struct zl_error err = {0};
    struct zl_run r;
    struct lines l = {0};
    (void)state;
    make_folders();
    assert_int_equal(zl_run_open(&r, before, ZL_RUN_FRESH, &err), 0);
    assert_int_equal(zl_run_begin(&r, &err), 0);
    power_end();
    power_record(before);
    zl_event_start(&r, &(struct zl_event_start){.steps = STEPS, .n_micro = 2 * STEPS, .stages = 2});
    for (uint64_t step = 1; step <= STEPS; step++) {
        zl_event_admitted(&r, step, 2 * step - 2, 2 * step - 1);
        zl_event_step(&r, &(struct zl_step_record){.step = step, .n_micro = {2, 2}, .updated = {true, true}}, 2);
        if (step % SYNC_EVERY == 0)
            assert_true(zl_append_sync(&r.events));
    }
    power.on = false;
    assert_int_equal(zl_run_close(&r, &err), 0);
    assert_int_equal(zl_file_read(below(before, "events.jsonl"), SIZE_MAX / 4, &l.text, &l.n, &err), 0);
    const uint64_t cuts = power_campaign(after, false, 30, check_ledger, &l);
    print_message("a ledger of %zu bytes: %d operations, %llu cuts, %llu torn, %llu short\n", l.n, power.n, (unsigned long long)cuts,
                  (unsigned long long)l.torn, (unsigned long long)l.short_of_all);
    assert_true(l.torn > 0);
    free(l.text);
    remove_folders();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restoration_has_happened_or_not),
        cmocka_unit_test(an_adapter_is_the_old_one_or_the_new_one),
        cmocka_unit_test(a_ledger_is_its_own_beginning_and_holds_what_was_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
