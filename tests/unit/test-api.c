/* The public library as its users have it: through include/zerolock.h alone, on the tiny model. */
#include "config.h"

#include "tests/unit/test.h"

#include <math.h>
#include <signal.h>

#include "tests/tiny.h"
#include "zerolock.h"

static struct tiny tiny;
static struct zerolock_error err;

static void ok(int64_t rc)
{
    if (rc < 0)
        fail_msg("%lld: %s", (long long)rc, err.text);
}

static void refused(int64_t rc, int code, const char *part)
{
    if (rc != code || err.code != code || !strstr(err.text, part))
        fail_msg("%lld, %d '%s', expected %d '...%s...'", (long long)rc, err.code, err.text, code, part);
}

static struct zerolock_model *opened(const char *adapter)
{
    struct zerolock_model *m;
    ok(zerolock_open(tiny.model, adapter, 256, &m, &err));
    return m;
}

struct calls {
    uint64_t n, stop_at, steps;
    double first_loss, last_loss;
};

static int progress(void *context, const struct zerolock_progress *now)
{
    struct calls *c = context;
    assert_int_equal(now->step, ++c->n);
    assert_true(now->tokens_per_second > 0);
    c->steps = now->steps;
    c->last_loss = now->loss;
    if (c->n == 1)
        c->first_loss = now->loss;
    return c->n == c->stop_at;
}

/* Two options of the test's own behind those that all share. */
static int train(const char *output, struct calls *calls, struct zerolock_option a, struct zerolock_option b)
{
    const char *data = tiny.data;
    const struct zerolock_option options[] = {
        {"output", output}, {"batch-tokens", "512"}, {"max-length", "128"}, {"rank", "4"}, {"lr", "1e-2"}, a, b, {NULL, NULL}};
    return zerolock_train(tiny.model, &data, 1, options, progress, calls, &err);
}

struct text {
    char bytes[4096];
    size_t n, calls, stop_at;
};

static int piece(void *context, const char *bytes, size_t n)
{
    struct text *t = context;
    assert_true(t->n + n < sizeof t->bytes);
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    return ++t->calls == t->stop_at;
}

static void the_version_is_the_packages(void **state)
{
    (void)state;
    assert_string_equal(zerolock_version(), PACKAGE_VERSION);
}

static void training_lowers_the_loss_that_evaluation_sees(void **state)
{
    (void)state;
    const char *output = tiny_path(&tiny, "run"), *held_out = tiny.held_out;
    struct calls calls = {0};
    struct zerolock_eval before, after, again;
    struct zerolock_model *m = opened(NULL);
    ok(zerolock_eval(m, &held_out, 1, NULL, &before, &err));
    assert_string_equal(err.text, "");
    zerolock_close(m);
    ok(train(output, &calls, (struct zerolock_option){"steps", "30"}, (struct zerolock_option){"schedule", "zerolock"}));
    assert_int_equal(calls.n, 30);
    assert_int_equal(calls.steps, 30);
    assert_true(calls.last_loss < calls.first_loss);
    m = opened(output);
    ok(zerolock_eval(m, &held_out, 1, NULL, &after, &err));
    ok(zerolock_eval(m, &held_out, 1, (struct zerolock_option[]){{"threads", "1"}, {NULL, NULL}}, &again, &err));
    print_message("  held-out loss %.4f -> %.4f (bound: a fall of 0.3)\n", before.loss, after.loss);
    assert_true(after.loss < before.loss - 0.3);
    assert_true(after.loss == again.loss);
    assert_int_equal(after.examples, 12);
    assert_true(after.tokens > 12 && after.correct <= after.tokens && after.compared == 0);
    zerolock_close(m);
}

static void the_callback_stops_a_run_and_the_adapter_is_there(void **state)
{
    (void)state;
    const char *output = tiny_path(&tiny, "stopped");
    struct calls calls = {.stop_at = 2};
    refused(train(output, &calls, (struct zerolock_option){"steps", "500"}, (struct zerolock_option){"schedule", "bp"}),
            ZEROLOCK_ESTOPPED, "stopped by its caller");
    assert_int_equal(calls.n, 2);
    zerolock_close(opened(output));
}

/* A training run within a callback of another: the second is refused, the first goes on. */
static int nested(void *context, const struct zerolock_progress *now)
{
    (void)now;
    struct zerolock_error second;
    const char *data = tiny.data;
    const struct zerolock_option options[] = {{"output", tiny_path(&tiny, "nested2")}, {NULL, NULL}};
    *(int *)context += zerolock_train(tiny.model, &data, 1, options, NULL, NULL, &second) == ZEROLOCK_EUSAGE &&
                       strstr(second.text, "another training run");
    return 0;
}

static void a_second_run_at_the_same_time_is_refused(void **state)
{
    (void)state;
    int times = 0;
    const char *data = tiny.data;
    const struct zerolock_option options[] = {
        {"output", tiny_path(&tiny, "nested")}, {"steps", "3"}, {"batch-tokens", "256"}, {"max-length", "128"}, {NULL, NULL}};
    ok(zerolock_train(tiny.model, &data, 1, options, nested, &times, &err));
    assert_int_equal(times, 3);
}

static void generation_hands_out_what_it_counts(void **state)
{
    (void)state;
    const struct zerolock_option options[] = {{"max-new-tokens", "12"}, {NULL, NULL}};
    struct text one = {.n = 0}, two = {.n = 0}, cut = {.stop_at = 1};
    struct zerolock_generation g;
    struct zerolock_model *m = opened(NULL);
    ok(zerolock_generate(m, "Count 2 from 3:", options, piece, &one, &g, &err));
    assert_int_equal(g.prompt_tokens, 15);
    assert_true(g.new_tokens <= 12);
    assert_int_equal(g.end, g.new_tokens == 12 ? ZEROLOCK_END_LENGTH : ZEROLOCK_END_MODEL);
    ok(zerolock_generate(m, "Count 2 from 3:", options, piece, &two, NULL, &err));
    assert_int_equal(one.n, two.n);
    assert_memory_equal(one.bytes, two.bytes, one.n);
    ok(zerolock_generate(m, "Count 2 from 3:", options, piece, &cut, &g, &err));
    assert_int_equal(cut.calls, 1);
    assert_int_equal(g.end, ZEROLOCK_END_CALLER);
    refused(zerolock_generate(m, "x", (struct zerolock_option[]){{"max-new-tokens", "256"}, {NULL, NULL}}, piece, &two, NULL, &err),
            ZEROLOCK_EUSAGE, "256 positions");
    refused(zerolock_generate(m, "", NULL, piece, &two, NULL, &err), ZEROLOCK_EUSAGE, "empty");
    zerolock_close(m);
}

static void tokens_go_there_and_back(void **state)
{
    (void)state;
    static const char text[] = "Gr\xc3\xbc\xc3\x9f""e, 3 < 4";
    const int64_t length = sizeof text - 1;
    struct zerolock_model *m = opened(NULL);
    int32_t ids[64];
    char back[64];
    assert_int_equal(zerolock_tokenize(m, text, (size_t)length, 0, NULL, 0, &err), length); /* a token a byte here */
    assert_int_equal(zerolock_tokenize(m, text, (size_t)length, 0, ids, 64, &err), length);
    assert_int_equal(zerolock_detokenize(m, ids, (size_t)length, 0, back, sizeof back, &err), length);
    assert_string_equal(back, text);
    assert_int_equal(zerolock_detokenize(m, ids, (size_t)length, 0, back, 3, &err), length);
    assert_string_equal(back, "Gr");
    assert_int_equal(zerolock_detokenize(m, ids, 0, 0, back, sizeof back, &err), 0);
    assert_string_equal(back, "");
    assert_int_equal(zerolock_tokenize(m, "", 0, 0, NULL, 0, &err), 0);
    refused(zerolock_tokenize(m, "\xff", 1, 0, ids, 64, &err), ZEROLOCK_EINPUT, "");
    refused(zerolock_tokenize(m, "a", 1, 64, ids, 64, &err), ZEROLOCK_EUSAGE, "flags");
    ids[1] = 1 << 20;
    refused(zerolock_detokenize(m, ids, 2, 0, back, sizeof back, &err), ZEROLOCK_EINPUT, "token 1 is 1048576");
    zerolock_close(m);
}

static void wrong_options_are_refused_by_the_programs_rules(void **state)
{
    (void)state;
    const struct zerolock_option none = {NULL, NULL};
    const char *data = tiny.data, *output = tiny_path(&tiny, "never");
    struct calls calls = {0};
    struct zerolock_eval r;
    refused(train(output, &calls, (struct zerolock_option){"learning-rate", "1"}, none), ZEROLOCK_EUSAGE, "(did you mean 'lr'?)");
    refused(train(output, &calls, (struct zerolock_option){"steps", "0"}, none), ZEROLOCK_EUSAGE, "too small");
    refused(train(output, &calls, (struct zerolock_option){"steps", NULL}, none), ZEROLOCK_EUSAGE, "needs a value");
    refused(train(output, &calls, (struct zerolock_option){"quiet", NULL}, none), ZEROLOCK_EUSAGE, "prints nothing");
    refused(train(output, &calls, (struct zerolock_option){"help", NULL}, none), ZEROLOCK_EUSAGE, "unknown option 'help'");
    refused(train(output, &calls, (struct zerolock_option){"steps", "3"}, (struct zerolock_option){"epochs", "1"}), ZEROLOCK_EUSAGE,
            "give one of them");
    refused(zerolock_train(tiny.model, &data, 1, NULL, NULL, NULL, &err), ZEROLOCK_EUSAGE, "output is missing");
    refused(zerolock_train(tiny.model, &data, 0, (struct zerolock_option[]){{"output", output}, none}, NULL, NULL, &err),
            ZEROLOCK_EUSAGE, "DATA is missing");
    struct zerolock_model *m = opened(NULL);
    refused(zerolock_eval(m, &data, 1, (struct zerolock_option[]){{"max-length", "300"}, none}, &r, &err), ZEROLOCK_EUSAGE,
            "256 positions");
    refused(zerolock_eval(m, &data, 1, (struct zerolock_option[]){{"adapter", "x"}, none}, &r, &err), ZEROLOCK_EUSAGE,
            "zerolock_open()");
    zerolock_close(m);
    assert_int_equal(access(output, F_OK), -1);
}

static void a_missing_file_is_named_and_the_error_may_be_null(void **state)
{
    (void)state;
    struct zerolock_model *m = (void *)&tiny;
    refused(zerolock_open("/nowhere/at-all", NULL, 0, &m, &err), ZEROLOCK_EINPUT, "/nowhere/at-all");
    assert_null(m);
    assert_int_equal(zerolock_open("/nowhere/at-all", NULL, 0, &m, NULL), ZEROLOCK_EINPUT);
    refused(zerolock_open(tiny.model, "/no/adapter", 0, &m, &err), ZEROLOCK_EINPUT, "/no/adapter");
    zerolock_close(NULL);
}

static void remember(void *context, int is_warning, const char *text)
{
    char *all = context;
    size_t n = strlen(all);
    snprintf(all + n, 4096 - n, "%c %s\n", is_warning ? 'w' : 'n', text);
}

static void messages_go_to_the_caller_and_never_to_stderr(void **state)
{
    (void)state;
    char said[4096] = "", printed[64];
    int ends[2], saved = dup(2), saved_out = dup(1);
    struct calls calls = {0}, more = {0};
    const struct zerolock_option steps = {"steps", "1"}, one = {"schedule", "bp"}, idle = {"look-ahead", "2"};
    const char *data = tiny.data;
    const struct zerolock_option options[] = {{"output", tiny_path(&tiny, "said")}, steps, one, idle, {NULL, NULL}};
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    dup2(ends[1], 2);
    dup2(ends[1], 1);
    zerolock_messages(remember, said);
    int rc = zerolock_train(tiny.model, &data, 1, options, progress, &calls, &err);
    zerolock_messages(NULL, NULL);
    int silent = train(tiny_path(&tiny, "silent"), &more, steps, one);
    fflush(stdout);
    dup2(saved, 2);
    dup2(saved_out, 1);
    close(saved);
    close(saved_out);
    close(ends[1]);
    assert_int_equal(read(ends[0], printed, sizeof printed), 0);
    close(ends[0]);
    ok(rc);
    assert_true(silent == 0);
    assert_non_null(strstr(said, "n --look-ahead has no effect with --schedule bp\n"));
    assert_non_null(strstr(said, "adapter written to"));
}

static void signal_handlers_stay_the_callers(void **state)
{
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGBUS};
    struct sigaction before[5], after;
    struct calls calls = {0};
    struct zerolock_eval r;
    const char *held_out = tiny.held_out, *output = tiny_path(&tiny, "signals");
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(sigaction(numbers[i], NULL, &before[i]), 0);
    ok(train(output, &calls, (struct zerolock_option){"steps", "1"}, (struct zerolock_option){"stages", "2"}));
    struct zerolock_model *m = opened(output);
    ok(zerolock_eval(m, &held_out, 1, NULL, &r, &err));
    zerolock_close(m);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(sigaction(numbers[i], NULL, &after), 0);
        assert_true(after.sa_handler == before[i].sa_handler);
    }
}

static int setup(void **state)
{
    (void)state;
    tiny_make(&tiny, 4, 200);
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
        cmocka_unit_test(the_version_is_the_packages),
        cmocka_unit_test(training_lowers_the_loss_that_evaluation_sees),
        cmocka_unit_test(the_callback_stops_a_run_and_the_adapter_is_there),
        cmocka_unit_test(a_second_run_at_the_same_time_is_refused),
        cmocka_unit_test(generation_hands_out_what_it_counts),
        cmocka_unit_test(tokens_go_there_and_back),
        cmocka_unit_test(wrong_options_are_refused_by_the_programs_rules),
        cmocka_unit_test(a_missing_file_is_named_and_the_error_may_be_null),
        cmocka_unit_test(messages_go_to_the_caller_and_never_to_stderr),
        cmocka_unit_test(signal_handlers_stay_the_callers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
