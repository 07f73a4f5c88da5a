/* What a run writes about itself is what happened: as many steps as asked, the learning rates of the schedule, the tokens of the data,
 * gradients before clipping, and the same numbers however a step is cut into micro-batches. */
#include "tests/unit/test.h"

#include <math.h>

#include "base/log.h"
#include "tests/unit/tiny-run.h"
#include "tests/variant.h"

static struct tiny tiny;

/* Train and give back the objects of the steps; *evals counts the others. */
static json_t *steps_of(struct zl_train_options o, size_t *evals)
{
    size_t size, i, n = 0;
    json_t *line, *steps = json_array();
    free(tiny_run(o, &size));
    json_t *all = tiny_run_metrics(o.output);
    json_array_foreach(all, i, line)
    {
        if (json_object_get(line, "loss"))
            json_array_append(steps, line);
        else
            n++;
    }
    json_decref(all);
    if (evals)
        *evals = n;
    return steps;
}

static void every_field_is_there_by_its_name(void **state)
{
    (void)state;
    static const char *const numbers[] = {"step",  "epoch",  "loss",           "lr",           "grad_norm",
                                          "tokens", "tokens_per_second", "peak_pss_bytes", "stall_seconds", "seconds"};
    struct zl_train_options o = tiny_run_options(&tiny, tiny_path(&tiny, "fields"));
    json_t *steps = steps_of(o, NULL), *s;
    size_t i;
    json_array_foreach(steps, i, s)
    {
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            assert_true(tiny_run_number(s, numbers[k]) >= 0);
        const json_t *stages = json_object_get(s, "stage_loss");
        assert_int_equal(json_array_size(stages), 2);
        assert_true(json_number_value(json_array_get(stages, 1)) == tiny_run_number(s, "loss"));
        double squares = 0;
        for (size_t k = 0; k < 2; k++)
            squares += pow(json_number_value(json_array_get(json_object_get(s, "stage_grad_norm"), k)), 2);
        assert_true(fabs(sqrt(squares) / tiny_run_number(s, "grad_norm") - 1) < 1e-6);
    }
    json_decref(steps);
}

static void steps_tokens_and_evaluations_are_those_asked_for(void **state)
{
    (void)state;
    struct zl_train_options o = tiny_run_options(&tiny, tiny_path(&tiny, "counts"));
    o.steps = 7;
    o.eval_every = 3;
    size_t evals, i;
    json_t *steps = steps_of(o, &evals), *s;
    double total = 0, seconds = 0;
    json_t *all = tiny_run_metrics(o.output);
    json_array_foreach(all, i, s) /* the clock starts at 0 with the evaluation that comes before the first step, and never goes back */
    {
        assert_true(i ? tiny_run_number(s, "seconds") >= seconds : tiny_run_number(s, "seconds") == 0);
        seconds = tiny_run_number(s, "seconds");
    }
    json_decref(all);
    assert_int_equal(json_array_size(steps), 7);
    assert_int_equal(evals, 1 + 2 + 1); /* before, after 3 and 6, at the end */
    json_array_foreach(steps, i, s)
    {
        assert_int_equal(tiny_run_number(s, "step"), i + 1);
        assert_true(tiny_run_number(s, "tokens") <= 512 && tiny_run_number(s, "trained_tokens") <= tiny_run_number(s, "tokens"));
        total += tiny_run_number(s, "tokens");
        assert_true(tiny_run_number(s, "tokens_total") == total);
    }
    json_decref(steps);

    /* by epochs: every token of the data twice, and the epoch ends at 2 */
    o = tiny_run_options(&tiny, tiny_path(&tiny, "epochs"));
    o.steps = 0;
    o.epochs = 1;
    steps = steps_of(o, NULL);
    s = json_array_get(steps, json_array_size(steps) - 1);
    const double once = tiny_run_number(s, "tokens_total");
    json_decref(steps);
    o.output = tiny_path(&tiny, "epochs2");
    o.epochs = 2;
    steps = steps_of(o, NULL);
    s = json_array_get(steps, json_array_size(steps) - 1);
    print_message("  epoch %.6f, %.0f tokens, %.0f in one\n", tiny_run_number(s, "epoch"), tiny_run_number(s, "tokens_total"), once);
    assert_true(tiny_run_number(s, "epoch") == 2);
    assert_true(tiny_run_number(s, "tokens_total") == 2 * once);
    json_decref(steps);
}

static void learning_rates_follow_the_schedule(void **state)
{
    (void)state;
    enum { STEPS = 10, WARM = 3 };
    static const char *const names[] = {[ZL_LR_LINEAR] = "linear", [ZL_LR_COSINE] = "cosine", [ZL_LR_CONSTANT] = "constant"};
    for (int kind = 0; kind < 3; kind++) {
        struct zl_train_options o = tiny_run_options(&tiny, tiny_path(&tiny, names[kind]));
        o.steps = STEPS;
        o.warmup = 0.3;
        o.lr_schedule = (enum zl_lr_schedule)kind;
        o.eval_data = NULL;
        json_t *steps = steps_of(o, NULL), *s;
        double worst = 0;
        size_t i;
        json_array_foreach(steps, i, s)
        {
            const double left = (double)(STEPS - i) / (STEPS - WARM);
            const double then = kind == ZL_LR_LINEAR ? left : kind == ZL_LR_COSINE ? 0.5 - 0.5 * cos(acos(-1) * left) : 1;
            const double want = 1e-2 * (i < WARM ? (double)(i + 1) / WARM : then);
            worst = fmax(worst, fabs(tiny_run_number(s, "lr") / want - 1));
        }
        print_message("  %-8s relative difference %.2g <= 1e-8\n", names[kind], worst);
        assert_true(worst <= 1e-8);
        json_decref(steps);
    }
}

static void the_gradient_norm_is_that_before_clipping(void **state)
{
    (void)state;
    double norm[2];
    for (int i = 0; i < 2; i++) {
        struct zl_train_options o = tiny_run_options(&tiny, tiny_path(&tiny, i ? "clipped" : "whole"));
        o.steps = 1;
        o.clip = i ? 1e-4 : 1e4;
        json_t *steps = steps_of(o, NULL);
        norm[i] = tiny_run_number(json_array_get(steps, 0), "grad_norm");
        json_decref(steps);
    }
    print_message("  %.9g with a clip of 1e4, %.9g with 1e-4\n", norm[0], norm[1]);
    assert_true(norm[0] > 1e-4 && norm[0] == norm[1]);
}

/* ---- an adapter that no gradient reaches: nothing of layer 1's attention gets out ---- */

static void silence_layer_1(struct variant_tensors *v, const void *arg)
{
    static const float zeros[32 * 32];
    (void)arg;
    variant_find(v, "model.layers.1.self_attn.o_proj.weight")->data = zeros;
}

static void note_down(void *context, bool warning, const char *text)
{
    char *said = context;
    if (warning)
        snprintf(said + strlen(said), 4096 - strlen(said), "%s\n", text);
}

static void an_adapter_that_does_not_learn_is_named_once(void **state)
{
    (void)state;
    struct tiny silent;
    const char *targets[] = {"q_proj", "v_proj"};
    char said[4096] = "";
    size_t size;
    tiny_make(&silent, 3, 20);
    variant_weights(&silent, silence_layer_1, NULL);
    struct zl_train_options o = tiny_run_options(&silent, tiny_path(&silent, "run"));
    o.schedule = ZL_SCHEDULE_BP;
    o.targets.v = targets;
    o.targets.n = 2;
    o.steps = 5;
    zl_log_thread_to(note_down, said);
    free(tiny_run(o, &size));
    zl_log_thread_to(NULL, NULL);
    print_message("  %s", said);
    assert_non_null(strstr(said, "model.layers.1.self_attn.q_proj.lora_A"));
    const char *once = strstr(said, "does not learn\n");
    assert_non_null(once);
    assert_null(strstr(once + 1, "does not learn\n"));
    tiny_remove(&silent);
}

/* ---- a step of two examples, of 3 and 97 labels, in one micro-batch or in two ---- */

struct accumulated {
    double loss, grad_norm, tokens, trained, activation_bytes;
};

static struct accumulated accumulate(const char *name, uint64_t micro_batch_tokens, uint64_t batch_tokens)
{
    char path[700];
    struct zl_train_options o = tiny_run_options(&tiny, tiny_path(&tiny, name));
    const char *data[1] = {tiny_path(&tiny, "uneven.jsonl")};
    FILE *f = fopen(data[0], "w");
    fprintf(f, "{\"prompt\": \"Say ab:\", \"completion\": \"ab\"}\n{\"prompt\": \"Count:\", \"completion\": \"");
    for (int i = 0; i < 96; i++) /* and the end of the text is a label */
        fputc('0' + i * 7 % 10, f);
    fputs("\"}\n", f);
    fclose(f);
    o.data.v = data;
    o.eval_data = NULL;
    o.steps = 1;
    o.schedule = ZL_SCHEDULE_BP;
    o.micro_batch_tokens = micro_batch_tokens;
    o.batch_tokens = batch_tokens;
    json_t *steps = steps_of(o, NULL);
    const json_t *s = json_array_get(steps, 0);
    struct accumulated a = {.loss = tiny_run_number(s, "loss"),
                            .grad_norm = tiny_run_number(s, "grad_norm"),
                            .tokens = tiny_run_number(s, "tokens"),
                            .trained = tiny_run_number(s, "trained_tokens")};
    json_decref(steps);
    snprintf(path, sizeof path, "%s/run.json", o.output);
    json_t *run = json_load_file(path, 0, NULL);
    assert_non_null(run);
    a.activation_bytes = tiny_run_number(json_array_get(json_object_get(run, "stages"), 0), "activation_bytes");
    json_decref(run);
    return a;
}

static void accumulation_gives_the_gradient_of_the_batch_in_the_memory_of_a_part(void **state)
{
    (void)state;
    const struct accumulated whole = accumulate("acc-whole", 128, 128), parts = accumulate("acc-parts", 103, 128);
    print_message("  loss %.9g and %.9g, gradient norm %.9g and %.9g (bound 1e-6 relative)\n", whole.loss, parts.loss,
                  whole.grad_norm, parts.grad_norm);
    assert_true(whole.trained == 100 && parts.trained == 100);
    assert_true(whole.tokens == parts.tokens);
    assert_true(fabs(whole.loss / parts.loss - 1) <= 1e-6);
    assert_true(fabs(whole.grad_norm / parts.grad_norm - 1) <= 1e-6);
    print_message("  %.0f bytes of activations for %.0f tokens at once, %.0f in two micro-batches\n", whole.activation_bytes,
                  whole.tokens, parts.activation_bytes);
    assert_true(parts.activation_bytes / whole.activation_bytes < 0.92); /* 103 tokens of 113 are 0.912 */
}

static int setup(void **state)
{
    (void)state;
    tiny_make(&tiny, 6, 60);
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
        cmocka_unit_test(every_field_is_there_by_its_name),
        cmocka_unit_test(steps_tokens_and_evaluations_are_those_asked_for),
        cmocka_unit_test(learning_rates_follow_the_schedule),
        cmocka_unit_test(the_gradient_norm_is_that_before_clipping),
        cmocka_unit_test(an_adapter_that_does_not_learn_is_named_once),
        cmocka_unit_test(accumulation_gives_the_gradient_of_the_batch_in_the_memory_of_a_part),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
