/* The sweep schedule: one block at a time gives the bits that all blocks at one time give, whatever the windows, and survives being stopped. */
#include "tests/unit/test.h"

#include <math.h>
#include <sys/stat.h>

#include "tests/unit/tiny-run.h"
#include "train/sweep.h"

static struct tiny tiny;
static int run_number;

/* Options of a run in a folder of its own. */
static struct zl_train_options options(enum zl_schedule_kind schedule, uint64_t stages)
{
    char name[32];
    static char path[16][600];
    snprintf(name, sizeof name, "run-%d", run_number);
    char *p = path[run_number++ % 16];
    snprintf(p, sizeof path[0], "%s", tiny_path(&tiny, name));
    struct zl_train_options o = tiny_run_options(&tiny, p);
    o.schedule = schedule;
    o.stages = stages;
    o.window = 5;
    o.threads = 1; /* teams that wait for one another are slow on a loaded machine, and change no bit */
    return o;
}

/* Both runs; the adapters must have the same bytes. */
static void expect_same(struct zl_train_options a, struct zl_train_options b, const char *what)
{
    size_t na, nb;
    char *x = tiny_run(a, &na), *y = tiny_run(b, &nb);
    assert_int_equal(na, nb);
    if (memcmp(x, y, na) != 0)
        fail_msg("%s: the adapters differ", what);
    print_message("  %s: %zu bytes, no difference\n", what, na);
    free(x);
    free(y);
}

static void a_sweep_gives_the_bits_of_zerolock(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t stages, window, look_ahead, steps;
        enum zl_readout_kind readout;
        enum zl_recompute recompute;
    } runs[] = {
        {"two stages", 2, 5, 0, 12, ZL_READOUT_SHADOW, ZL_RECOMPUTE_NONE},
        {"three stages, windows of a step", 3, 1, 1, 12, ZL_READOUT_SHADOW, ZL_RECOMPUTE_NONE},
        {"six stages, one window", 6, 0, 1, 12, ZL_READOUT_SHADOW, ZL_RECOMPUTE_FULL},
        {"six stages, ridge", 6, 7, 0, 12, ZL_READOUT_RIDGE, ZL_RECOMPUTE_NONE},
        {"three stages, lens", 3, 12, 0, 12, ZL_READOUT_LENS, ZL_RECOMPUTE_SELECTIVE},
        {"one stage", 1, 5, 0, 12, ZL_READOUT_SHADOW, ZL_RECOMPUTE_NONE},
        {"one step", 3, 5, 1, 1, ZL_READOUT_SHADOW, ZL_RECOMPUTE_NONE},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct zl_train_options z = options(ZL_SCHEDULE_ZEROLOCK, runs[i].stages);
        z.look_ahead = runs[i].look_ahead;
        z.steps = runs[i].steps;
        z.readout = runs[i].readout;
        z.recompute = runs[i].recompute;
        struct zl_train_options s = z;
        s.output = options(ZL_SCHEDULE_SWEEP, 0).output;
        s.schedule = ZL_SCHEDULE_SWEEP;
        s.window = runs[i].window;
        s.threads = i == 0 ? 2 : 1;
        expect_same(z, s, runs[i].name);
    }
}

static void frozen_stages_pass_hidden_states_on(void **state)
{
    (void)state;
    uint64_t frozen[2] = {0, 2};
    for (size_t n = 1; n <= 2; n++) {
        struct zl_train_options z = options(ZL_SCHEDULE_ZEROLOCK, 3);
        z.freeze.v = frozen;
        z.freeze.n = n;
        z.look_ahead = 1;
        struct zl_train_options s = z;
        s.output = options(ZL_SCHEDULE_SWEEP, 0).output;
        s.schedule = ZL_SCHEDULE_SWEEP;
        expect_same(z, s, n == 1 ? "first stage frozen" : "first and last stage frozen");
    }
}

static double last_eval(const char *output)
{
    json_t *m = tiny_run_metrics(output);
    const double loss = tiny_run_number(json_array_get(m, json_array_size(m) - 1), "eval_loss");
    json_decref(m);
    return loss;
}

/* What the frozen stages make is computed once and packed anew in every epoch. */
static void frozen_stages_can_be_computed_once_for_all_epochs(void **state)
{
    (void)state;
    static const enum zl_schedule_kind kinds[] = {ZL_SCHEDULE_ZEROLOCK, ZL_SCHEDULE_SWEEP};
    uint64_t frozen[2] = {0, 1};
    for (int i = 0; i < 4; i++) {
        struct zl_train_options a = options(kinds[i % 2], 4);
        a.freeze.v = frozen;
        a.freeze.n = i < 2 ? 1 : 2;
        a.look_ahead = 1;
        a.steps = 0;
        a.epochs = 3;
        a.eval_every = 9;
        struct zl_train_options b = a;
        b.output = options(kinds[i % 2], 0).output;
        b.cache_frozen = true;
        expect_same(a, b, i % 2 ? "sweep" : "zerolock");
        assert_true(last_eval(a.output) == last_eval(b.output));
    }
    struct zl_train_options c = options(ZL_SCHEDULE_ZEROLOCK, 3);
    struct zl_error err = {0};
    c.freeze.v = frozen;
    c.freeze.n = 1;
    c.cache_frozen = true;
    c.steps = 40;
    c.spill_limit = 8 << 10;
    assert_int_equal(zl_train_run(&c, &err), ZL_EUSAGE);
    print_message("  %s\n", err.text);
    assert_non_null(strstr(err.text, "is too little for --cache-frozen"));
}

/* Pieces of two tokens: one is trained, and attention sees one or two. */
static void sequences_of_one_prediction_train(void **state)
{
    (void)state;
    const char *data[1] = {tiny_path(&tiny, "text.txt")};
    FILE *f = fopen(data[0], "w");
    for (int i = 0; i < 300; i++)
        fputc("abcdefghij"[i % 10], f);
    fclose(f);
    struct zl_train_options z = options(ZL_SCHEDULE_ZEROLOCK, 3);
    z.data.v = data;
    z.eval_data = NULL;
    z.max_length = 2;
    z.micro_batch_tokens = 7;
    z.batch_tokens = 20;
    z.look_ahead = 1;
    struct zl_train_options s = z;
    s.output = options(ZL_SCHEDULE_SWEEP, 0).output;
    s.schedule = ZL_SCHEDULE_SWEEP;
    expect_same(z, s, "pieces of two tokens");
}

/* Lines of a kind (a step, or an evaluation when `eval`) by step. */
static json_t *find_line(json_t *lines, bool eval, json_int_t step)
{
    size_t i;
    json_t *o;
    json_array_foreach(lines, i, o)
        if (json_integer_value(json_object_get(o, "step")) == step && !json_object_get(o, "eval_loss") == !eval)
            return o;
    fail_msg("no line of step %d", (int)step);
    return NULL;
}

/* The smallest spill that the run can do with, and the longest window that it has with so much. */
static uint64_t least_spill(struct zl_train_options o, uint64_t *window)
{
    struct zl_setup s;
    struct zl_error err = {0};
    const uint64_t longest = o.window;
    o.window = 1;
    o.eval_data = NULL; /* which is cut into as many parts as it takes */
    assert_int_equal(zl_setup_make(&s, &o, &err), 0);
    uint64_t bytes = s.sweep.states_bytes + s.sweep.hidden_bytes;
    zl_setup_free(&s);
    o.window = longest;
    o.spill_limit = bytes;
    assert_int_equal(zl_setup_make(&s, &o, &err), 0);
    *window = s.sweep.window;
    zl_setup_free(&s);
    return bytes;
}

static void the_metrics_say_what_zerolocks_say(void **state)
{
    (void)state;
    static const char *const fields[] = {"loss", "stage_loss", "lr", "grad_norm", "stage_grad_norm", "tokens", "trained_tokens",
                                         "tokens_total", "epoch", "eval_loss", "eval_token_accuracy", "eval_tokens"};
    struct zl_train_options z = options(ZL_SCHEDULE_ZEROLOCK, 3);
    z.eval_every = 4;
    z.look_ahead = 1;
    struct zl_train_options s = z;
    s.output = options(ZL_SCHEDULE_SWEEP, 0).output;
    s.schedule = ZL_SCHEDULE_SWEEP;
    s.readout = z.readout = ZL_READOUT_LENS;
    s.micro_batch_tokens = z.micro_batch_tokens = 42;
    s.batch_tokens = z.batch_tokens = 84;
    uint64_t window;
    s.spill_limit = least_spill(s, &window); /* the evaluation goes in several parts too */
    expect_same(z, s, "with evaluations");
    json_t *a = tiny_run_metrics(z.output), *b = tiny_run_metrics(s.output);
    assert_int_equal(json_array_size(a), json_array_size(b));
    for (json_int_t step = 0; step <= 12; step++)
        for (int eval = 0; eval < 2; eval++) {
            if (eval ? step % 4 : step == 0)
                continue;
            json_t *x = find_line(a, eval, step), *y = find_line(b, eval, step);
            for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++)
                if (json_object_get(x, fields[f]) && !json_equal(json_object_get(x, fields[f]), json_object_get(y, fields[f])))
                    fail_msg("step %d: %s differs", (int)step, fields[f]);
        }
    json_decref(a);
    json_decref(b);
}

static void a_spill_of_bf16_rounds_what_is_handed_on(void **state)
{
    (void)state;
    struct zl_train_options f = options(ZL_SCHEDULE_SWEEP, 3), h = options(ZL_SCHEDULE_SWEEP, 3);
    size_t n;
    h.spill_type = ZL_SPILL_BF16;
    f.steps = h.steps = 40;
    char *x = tiny_run(f, &n), *y = tiny_run(h, &n);
    assert_memory_not_equal(x, y, n);
    const double a = last_eval(f.output), b = last_eval(h.output);
    print_message("  held-out loss %.5f with float32, %.5f with bf16: bound 0.02\n", a, b);
    assert_true(fabs(a - b) < 0.02);
    free(x);
    free(y);
}

static void limits_of_the_disk_shorten_windows_or_are_refused(void **state)
{
    (void)state;
    struct zl_train_options a = options(ZL_SCHEDULE_SWEEP, 3), b = options(ZL_SCHEDULE_SWEEP, 3);
    struct zl_error err = {0};
    a.look_ahead = b.look_ahead = 1;
    a.window = b.window = 0;
    uint64_t window;
    b.spill_limit = least_spill(b, &window);
    print_message("  a limit of %d KiB makes windows of %d steps\n", (int)(b.spill_limit >> 10), (int)window);
    assert_true(window < 12);
    expect_same(a, b, "with that limit");
    b.force = true;
    b.spill_limit--;
    assert_int_equal(zl_train_run(&b, &err), ZL_EUSAGE);
    print_message("  %s\n", err.text);
    assert_non_null(strstr(err.text, " MiB is too little: adapters, optimizer and readouts take "));
    err = (struct zl_error){0};
    b.spill_limit = 0;
    b.spill_dir = "/nowhere";
    assert_int_equal(zl_train_run(&b, &err), ZL_ESYSTEM);
    assert_non_null(strstr(err.text, "/nowhere: no file for spilled"));
}

static void a_window_holds_many_tokens_unless_it_is_given(void **state)
{
    (void)state;
    static const struct {
        uint64_t batch_tokens, steps, window, longest;
    } cases[] = {{256, 400, 0, 127}, {4096, 40, 0, 16}, {4096, 40, 3, 3}, {256, 40, 0, 40}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zl_train_options o = options(ZL_SCHEDULE_SWEEP, 2);
        struct zl_setup s;
        struct zl_error err = {0};
        o.batch_tokens = cases[i].batch_tokens;
        o.steps = cases[i].steps;
        o.window = cases[i].window;
        if (zl_setup_make(&s, &o, &err))
            fail_msg("%s", err.text);
        uint64_t tokens = 0;
        for (uint64_t j = 0; j < s.order.steps[s.sweep.window - 1].first_micro + s.order.steps[s.sweep.window - 1].n_micro; j++)
            tokens += s.order.micro[j].n_tokens;
        print_message("  steps of %d tokens, --window %d: %d steps, the first of them %d tokens\n", (int)o.batch_tokens, (int)o.window,
                      (int)s.sweep.window, (int)tokens);
        assert_in_range(s.sweep.window, cases[i].longest, cases[i].longest + cases[i].longest / 8);
        zl_setup_free(&s);
    }
}

static void a_memory_limit_chooses_the_fewest_stages_that_fit(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("  skipped: the address sanitizer keeps what was freed, and its hundreds of MiB grow from setup to setup\n");
    skip();
#endif
    struct zl_train_options o = options(ZL_SCHEDULE_SWEEP, 2);
    struct zl_setup s;
    struct zl_error err = {0};
    uint64_t before = 0, fewest = 0;
    assert_int_equal(zl_setup_make(&s, &o, &err), 0);
    const uint64_t plenty = zl_setup_expected_bytes(&s) + (UINT64_C(20) << 20);
    zl_setup_free(&s);
    for (uint64_t limit = plenty; limit > UINT64_C(4) << 20; limit -= 256 << 10) {
        o.memory_limit = limit;
        err = (struct zl_error){0};
        int rc = zl_setup_make(&s, &o, &err);
        const uint64_t n = s.partition.n, expected = rc ? 0 : zl_setup_expected_bytes(&s);
        zl_setup_free(&s);
        if (rc) {
            assert_int_equal(rc, ZL_EMEMORY);
            break;
        }
        assert_true(expected <= limit);
        fewest = fewest ? fewest : n;
        before = n > before ? n : before;
    }
    print_message("  %d stages with room, up to %d without: %s\n", (int)fewest, (int)before, err.text);
    assert_int_equal(fewest, 2);
    assert_true(before > 2);
    assert_non_null(strstr(err.text, "is the least that this run needs"));
}

static struct {
    uint64_t asked, stop_at;
} stopper;

static const char *stop_later(void *context)
{
    (void)context;
    return ++stopper.asked >= stopper.stop_at ? "a test" : NULL;
}

/* Stopped inside a window the run leaves the adapter of the window before, which is that of a run of so many steps. */
static void a_run_that_is_stopped_leaves_its_last_whole_window(void **state)
{
    (void)state;
    static const struct zl_hooks hooks = {.stop = stop_later};
    struct zl_error err = {0};
    struct zl_train_options whole = options(ZL_SCHEDULE_SWEEP, 3);
    whole.lr_schedule = ZL_LR_CONSTANT;
    whole.warmup = 0;
    whole.steps = 5;
    whole.eval_data = NULL;
    size_t n, size;
    char *expected = tiny_run(whole, &n), *path = malloc(700), *found = malloc(1 << 20);
    int early = 0, late = 0;
    for (uint64_t at = 4; at < 60; at += 11) {
        struct zl_train_options o = whole;
        o.output = options(ZL_SCHEDULE_SWEEP, 0).output;
        o.steps = 10;
        o.hooks = &hooks;
        stopper.asked = 0;
        stopper.stop_at = at;
        err = (struct zl_error){0};
        assert_int_equal(zl_train_run(&o, &err), ZL_ESTOPPED);
        snprintf(path, 700, "%s/adapter/adapter_model.safetensors", o.output);
        FILE *f = fopen(path, "rb");
        if (!f) {
            assert_true(strstr(err.text, "after step 0 of 10") || strstr(err.text, "stopped by a test"));
            early++;
            continue;
        }
        size = fread(found, 1, 1 << 20, f);
        fclose(f);
        assert_non_null(strstr(err.text, "stopped by a test after step 5 of 10"));
        assert_int_equal(size, n);
        assert_memory_equal(found, expected, n);
        late++;
    }
    print_message("  %d stopped in the first window, %d in the second\n", early, late);
    assert_true(early > 0 && late > 0);
    free(expected);
    free(found);
    free(path);
}

/* ---- the state at a border is all of it ---- */

struct image { /* of all blocks */
    float *floats[ZL_STAGES_MAX];
    int64_t updates[ZL_STAGES_MAX];
};

static int take(void *context, uint32_t k, struct zl_block *b, int64_t *updates, struct zl_error *err)
{
    struct image *m = context;
    (void)err;
    m->floats[k] = malloc(3 * b->n * sizeof(float));
    memcpy(m->floats[k], b->w, b->n * sizeof(float));
    memcpy(m->floats[k] + b->n, b->m, b->n * sizeof(float));
    memcpy(m->floats[k] + 2 * b->n, b->v, b->n * sizeof(float));
    m->updates[k] = *updates;
    return 0;
}

static int give(void *context, uint32_t k, struct zl_block *b, int64_t *updates, struct zl_error *err)
{
    struct image *m = context;
    (void)err;
    memcpy(b->w, m->floats[k], b->n * sizeof(float));
    memcpy(b->m, m->floats[k] + b->n, b->n * sizeof(float));
    memcpy(b->v, m->floats[k] + 2 * b->n, b->n * sizeof(float));
    *updates = m->updates[k];
    free(m->floats[k]);
    return 0;
}

static void a_new_sweep_goes_on_from_the_state_at_a_border(void **state)
{
    (void)state;
    static const struct zl_hooks hooks = {.stop = stop_later};
    struct zl_train_options o = options(ZL_SCHEDULE_SWEEP, 3);
    struct zl_error err = {0};
    o.eval_data = NULL;
    size_t n;
    free(tiny_run(o, &n));
    const json_t *line;
    size_t i;
    json_t *lines = tiny_run_metrics(o.output);
    double whole[13] = {0};
    json_array_foreach(lines, i, line)
        whole[(int)tiny_run_number(line, "step")] = tiny_run_number(line, "loss");
    json_decref(lines);

    struct image image = {0};
    uint64_t step = 0;
    for (int part = 0; part < 2; part++) {
        struct zl_setup s;
        struct zl_sweep *w;
        struct zl_run run;
        struct zl_journal j;
        struct zl_train_options p = o;
        p.output = options(ZL_SCHEDULE_SWEEP, 0).output;
        p.hooks = part ? NULL : &hooks;
        stopper.asked = 0;
        stopper.stop_at = UINT64_MAX;
        assert_int_equal(zl_run_open(&run, p.output, false, &err), 0);
        assert_int_equal(zl_setup_make(&s, &p, &err), 0);
        assert_int_equal(zl_sweep_open(&w, &s, &p, p.output, NULL, &err), 0);
        assert_int_equal(zl_run_begin(&run, &err), 0);
        zl_journal_open(&j, &p, &s, &run, &err);
        if (part)
            assert_int_equal(zl_sweep_visit(w, true, &step, give, &image, &err), 0);
        else
            stopper.stop_at = 3 * s.order.steps[5].first_micro + 3; /* inside the second window */
        stopper.asked = 0;
        zl_sweep_run(w, &j, NULL, NULL);
        assert_int_equal(zl_journal_finish(&j), part ? 0 : ZL_ESTOPPED);
        if (!part)
            assert_int_equal(zl_sweep_visit(w, false, &step, take, &image, &err), 0);
        assert_int_equal(step, 5);
        zl_sweep_close(w);
        zl_setup_free(&s);
        zl_run_close(&run, NULL);
        lines = tiny_run_metrics(p.output);
        assert_int_equal(json_array_size(lines), part ? 7 : 5);
        json_array_foreach(lines, i, line)
            assert_true(tiny_run_number(line, "loss") == whole[(int)tiny_run_number(line, "step")]);
        json_decref(lines);
        err = (struct zl_error){0};
    }
    print_message("  12 losses, no difference\n");
}

static int setup(void **state)
{
    (void)state;
    tiny_make(&tiny, 6, 120);
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
        cmocka_unit_test(a_sweep_gives_the_bits_of_zerolock),
        cmocka_unit_test(frozen_stages_pass_hidden_states_on),
        cmocka_unit_test(frozen_stages_can_be_computed_once_for_all_epochs),
        cmocka_unit_test(sequences_of_one_prediction_train),
        cmocka_unit_test(the_metrics_say_what_zerolocks_say),
        cmocka_unit_test(a_spill_of_bf16_rounds_what_is_handed_on),
        cmocka_unit_test(limits_of_the_disk_shorten_windows_or_are_refused),
        cmocka_unit_test(a_window_holds_many_tokens_unless_it_is_given),
        cmocka_unit_test(a_memory_limit_chooses_the_fewest_stages_that_fit),
        cmocka_unit_test(a_run_that_is_stopped_leaves_its_last_whole_window),
        cmocka_unit_test(a_new_sweep_goes_on_from_the_state_at_a_border),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
