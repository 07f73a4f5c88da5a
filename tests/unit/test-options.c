/*
 * The option tables and what is made of them: the parser, presets and contradictions, configuration files, help, suggestions. The
 * tables tested are the commands' own.
 */
#include "config.h"

#include "tests/unit/test.h"

#include <ctype.h>

#include "base/file.h"
#include "base/log.h"
#include "cmd/commands.h"

static char work[] = "/tmp/zl-options-XXXXXX";

static int make_work(void **state)
{
    (void)state;
    return mkdtemp(work) ? 0 : -1;
}

static int remove_work(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", work);
    return system(command);
}

/* A parsed and settled `zerolock train` with what it said on the way. */
struct result {
    struct zl_train_options o;
    struct zl_memory memory;
    struct zl_error err;
    int rc;
    char notes[4096];
};

static struct result *train(const char *first, ...)
{
    static struct result r;
    char *argv[64] = {"train"};
    int argc = 1, ends[2];
    zl_memory_free(&r.memory);
    memset(&r, 0, sizeof r);
    va_list ap;
    va_start(ap, first);
    for (const char *a = first; a; a = va_arg(ap, const char *))
        argv[argc++] = (char *)a;
    va_end(ap);
    assert_int_equal(pipe(ends), 0);
    zl_log_to(ends[1]);
    r.rc = zl_options_parse(&zl_train_command, argc, argv, &r.o, &r.memory, &r.err);
    if (r.rc == 0)
        r.rc = zl_train_options_settle(&r.o, &r.memory, &r.err);
    zl_log_to(2);
    close(ends[1]);
    assert_true(read(ends[0], r.notes, sizeof r.notes - 1) >= 0);
    close(ends[0]);
    return &r;
}

#define TRAIN(...) train("model", "data.jsonl", "-o", "run", __VA_ARGS__, NULL)

static void refused(const struct result *r, const char *sentence)
{
    if (r->rc != ZL_EUSAGE || strcmp(r->err.text, sentence) != 0)
        fail_msg("%d '%s', not '%s'", r->rc, r->err.text, sentence);
}

static void defaults_are_those_of_the_design(void **state)
{
    (void)state;
    const struct zl_train_options *o = &train("m.gguf", "a.jsonl", "b.jsonl", "-o", "run", NULL)->o;
    assert_string_equal(o->model, "m.gguf");
    assert_int_equal(o->data.n, 2);
    assert_string_equal(o->data.v[1], "b.jsonl");
    assert_string_equal(o->output, "run");
    assert_int_equal(o->schedule, ZL_SCHEDULE_ZEROLOCK);
    assert_int_equal(o->stages, 2);
    assert_int_equal(o->readout, ZL_READOUT_SHADOW);
    assert_int_equal(o->look_ahead, 0);
    assert_int_equal(o->local_vocabulary, ZL_LOCAL_VOCABULARY_DATA);
    assert_int_equal(o->lr_schedule, ZL_LR_LINEAR);
    assert_true(o->lr == 3e-3 && o->beta1 == 0.9 && o->beta2 == 0.99 && o->adam_eps == 1e-8 && o->weight_decay == 0);
    assert_true(o->clip == 1 && o->warmup == 0.1 && o->epochs == 1 && o->alpha == 16);
    assert_int_equal(o->steps, 0);
    assert_int_equal(o->rank, 8);
    assert_int_equal(o->targets.n, 0);
    assert_int_equal(o->freeze.n, 0);
    assert_int_equal(o->bounds.n, 0);
    assert_int_equal(o->batch_tokens, 0);
    assert_int_equal(o->micro_batch_tokens, 256);
    assert_int_equal(o->max_length, 1024);
    assert_int_equal(o->seed, 0);
    assert_int_equal(o->threads, 0);
    assert_false(o->force || o->quiet);
    assert_null(o->eval_data);
    for (size_t i = 0; i < zl_train_command.n_options; i++)
        assert_int_equal(o->given.at[zl_train_command.options[i].offset], strcmp(zl_train_command.options[i].name, "output") == 0);
}

static void each_way_to_write_an_option_is_the_same(void **state)
{
    (void)state;
    assert_int_equal(TRAIN("--steps=10")->o.steps, 10);
    assert_int_equal(TRAIN("--steps", "10")->o.steps, 10);
    assert_int_equal(TRAIN("-n10")->o.steps, 10);
    assert_int_equal(TRAIN("-n", "10")->o.steps, 10);
    const struct zl_train_options *o = &TRAIN("-fqn", "10")->o;
    assert_true(o->force && o->quiet && o->steps == 10);
    assert_int_equal(train("-fq", "m", "-orun", "--", "-odd.jsonl", "--steps", NULL)->rc, 0);
    assert_int_equal(o->data.n, 2);
    assert_string_equal(o->data.v[0], "-odd.jsonl");
    assert_string_equal(TRAIN("--init-adapter=a=b")->o.init_adapter, "a=b");
    assert_int_equal(TRAIN("--steps", "5", "--steps", "6")->o.steps, 6); /* the last one counts */
    assert_int_equal(TRAIN("-")->o.data.n, 2); /* a lone dash is an operand */
}

static void values_of_every_kind_are_read(void **state)
{
    (void)state;
    const struct zl_train_options *o = &TRAIN("--batch-tokens", "10k", "--lr", "1e-4", "--warmup", "5%", "--eval-split", "0.1",
                                              "--schedule", "zerolock", "--targets", "q_proj,v_proj", "--bounds", "0,10,20",
                                              "--freeze", "0", "--readout", "ridge", "--lr-schedule", "cosine")
                                             ->o;
    assert_int_equal(o->batch_tokens, 10000);
    assert_true(o->lr == 1e-4 && o->warmup == 0.05 && o->eval_split == 0.1);
    assert_int_equal(o->targets.n, 2);
    assert_string_equal(o->targets.v[1], "v_proj");
    assert_int_equal(o->bounds.n, 3);
    assert_int_equal(o->bounds.v[2], 20);
    assert_int_equal(o->stages, 3);
    assert_int_equal(o->freeze.n, 1);
    assert_int_equal(o->readout, ZL_READOUT_RIDGE);
    assert_int_equal(o->lr_schedule, ZL_LR_COSINE);
    assert_true(ZL_GIVEN(o, lr) && ZL_GIVEN(o, targets) && !ZL_GIVEN(o, rank) && !ZL_GIVEN(o, stages));
}

static void usage_errors_are_one_sentence(void **state)
{
    (void)state;
    refused(TRAIN("--lrr", "1"), "unknown option '--lrr' (did you mean '--lr'?)");
    refused(TRAIN("--batch", "1"), "unknown option '--batch' (did you mean '--batch-tokens'?)");
    refused(TRAIN("--learning_rate=1"), "unknown option '--learning_rate' (did you mean '--lr'?)");
    refused(TRAIN("--max_length=1"), "unknown option '--max_length' (did you mean '--max-length'?)");
    refused(TRAIN("--zzzzzzzz"), "unknown option '--zzzzzzzz'");
    refused(TRAIN("-z"), "unknown option '-z'");
    refused(TRAIN("-steps", "3"), "unknown option '-steps' (did you mean '--steps'?)");
    refused(TRAIN("-lr=3"), "unknown option '-lr=3' (did you mean '--lr=3'?)");
    refused(TRAIN("-qz"), "unknown option '-z' in '-qz'");
    refused(TRAIN("--force=yes"), "option --force takes no value, but 'yes' was given");
    refused(TRAIN("--steps"), "option --steps needs a value");
    refused(TRAIN("-n"), "option -n (--steps) needs a value");
    refused(TRAIN("--steps="), "option --steps: the value is empty");
    refused(TRAIN("--steps", "0"), "option --steps: 0 is too small, it must be at least 1");
    refused(TRAIN("--steps", "ten"), "option --steps: 'ten' is not a whole number such as 200 or 10k");
    refused(TRAIN("--lr", "0"), "option --lr: 0 is too small, it must be more than 0");
    refused(TRAIN("--lr", "-1"), "option --lr: -1 is too small, it must be more than 0");
    refused(TRAIN("--lr", "3,5"), "option --lr: '3,5' is not a number such as 0.003 or 3e-3");
    refused(TRAIN("--beta1", "1"), "option --beta1: 1 is too large, it must be less than 1");
    refused(TRAIN("--stages", "65"), "option --stages: 65 is too large, it must be at most 64");
    refused(TRAIN("--readout", "lense"), "option --readout: 'lense' is none of its values, which are lens, ridge or shadow");
    refused(TRAIN("--bounds", "0,,2"), "option --bounds: '0,,2' has an empty element; write it like LAYER,...");
    refused(TRAIN("--bounds", "0,x"), "option --bounds: 'x' is not a whole number such as 200 or 10k");
    refused(train("model", "data", NULL), "option --output is missing");
    refused(train("model", "-o", "x", NULL), "DATA is missing");
    refused(train(NULL), "MODEL is missing");
}

static void a_negative_seed_is_refused(void **state)
{
    (void)state;
    refused(TRAIN("--seed", "-1"), "option --seed: '-1' is not a whole number such as 200 or 10k");
    assert_true(TRAIN("--seed", "18446744073709551615")->o.seed == UINT64_MAX);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    refused(TRAIN("--steps", "5", "--epochs", "2"), "--steps and --epochs both say how long to train; give one of them");
    refused(TRAIN("--eval-data", "x", "--eval-split", "0.1"),
            "--eval-data and --eval-split both choose the held-out rows; give one of them");
    refused(TRAIN("--bounds", "0,10", "--stages", "3"), "--bounds lists 2 stages, but --stages says 3");
    refused(TRAIN("--bounds", "1,10"), "--bounds begins with layer 1, but the first stage begins with layer 0");
    refused(TRAIN("--bounds", "0,10,10"), "--bounds goes from 10 to 10, but each stage begins after the one before");
    refused(TRAIN("--freeze", "2"), "--freeze names stage 2, but there are 2 stages, counted from 0");
    refused(TRAIN("--freeze", "0,1"), "--freeze names every stage, so nothing would train");
    refused(TRAIN("--micro-batch-tokens", "4096", "--batch-tokens", "2048"), "--micro-batch-tokens 4096 is more than the 2048 of --batch-tokens");
}

static void a_default_gives_way_to_a_given_size(void **state)
{
    (void)state;
    struct result *r = TRAIN("--batch-tokens", "256");
    assert_int_equal(r->rc, 0);
    assert_int_equal(r->o.micro_batch_tokens, 256);
    assert_string_equal(r->notes, "");
}

static void an_option_without_effect_is_noted(void **state)
{
    (void)state;
    assert_string_equal(TRAIN("--schedule", "bp", "--stages", "3", "--look-ahead", "4")->notes,
                        "zerolock: --stages has no effect with --schedule bp\n"
                        "zerolock: --look-ahead has no effect with --schedule bp\n");
    assert_int_equal(TRAIN("--schedule", "bp", "--stages", "3")->o.stages, 1);
    assert_string_equal(TRAIN("--stages", "1", "--readout", "lens")->notes, "zerolock: --readout has no effect with one stage\n");
    assert_string_equal(TRAIN("--readout", "lens", "--look-ahead", "4")->notes,
                        "zerolock: --look-ahead has no effect without --readout shadow\n");
    assert_string_equal(TRAIN("--eval-every", "4")->notes,
                        "zerolock: --eval-every has no effect without --eval-data or --eval-split\n");
    assert_string_equal(TRAIN("--init-adapter", "a", "--rank", "4")->notes,
                        "zerolock: --rank has no effect with --init-adapter, which brings its own\n");
    assert_string_equal(TRAIN("--eval-every", "4", "--eval-split", "10%", "--look-ahead", "3")->notes, "");
}

static void a_preset_fills_only_what_was_not_given(void **state)
{
    (void)state;
    const struct zl_train_options *o = &TRAIN("--preset", "paper", "--rank", "16")->o;
    assert_int_equal(o->readout, ZL_READOUT_LENS);
    assert_int_equal(o->local_vocabulary, ZL_LOCAL_VOCABULARY_FULL);
    assert_int_equal(o->rank, 16);
    assert_int_equal(o->targets.n, 2);
    assert_string_equal(o->targets.v[0], "q_proj");
    assert_int_equal(o->preset, ZL_PRESET_PAPER);
}

static const char *config(const char *text)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/c.yaml", work);
    assert_int_equal(zl_file_write(path, text, strlen(text), NULL), 0);
    return path;
}

#ifdef HAVE_YAML
static void a_configuration_file_holds_every_kind_of_option(void **state)
{
    (void)state;
    const char *path = config("# comment\n"
                              "model: m.gguf\n"
                              "data: [a.jsonl, 'b, c.jsonl']\n"
                              "output: \"run\"\n"
                              "lr: 1e-4\n"
                              "warmup: 5%\n"
                              "batch-tokens: 4k\n"
                              "schedule: zerolock\n"
                              "targets:\n  - q_proj\n  - v_proj\n"
                              "bounds: [0, 7, 9]\n"
                              "freeze: 0,1\n"
                              "force: true\n"
                              "quiet: false\n");
    const struct result *r = train("-c", path, NULL);
    assert_string_equal(r->err.text, "");
    assert_string_equal(r->o.model, "m.gguf");
    assert_int_equal(r->o.data.n, 2);
    assert_string_equal(r->o.data.v[1], "b, c.jsonl");
    assert_true(r->o.lr == 1e-4 && r->o.warmup == 0.05);
    assert_int_equal(r->o.batch_tokens, 4000);
    assert_int_equal(r->o.targets.n, 2);
    assert_string_equal(r->o.targets.v[1], "v_proj");
    assert_int_equal(r->o.bounds.n, 3);
    assert_int_equal(r->o.bounds.v[1], 7);
    assert_int_equal(r->o.freeze.n, 2);
    assert_true(r->o.force && !r->o.quiet && ZL_GIVEN(&r->o, lr));
}

static void the_command_line_wins_over_the_file(void **state)
{
    (void)state;
    const char *path = config("lr: 1\nsteps: 3\ntargets: [a, b]\ndata: [x, y, z]\n");
    const struct zl_train_options *o = &TRAIN("--lr", "2", "--config", path, "--targets", "q_proj")->o;
    assert_true(o->lr == 2);
    assert_int_equal(o->steps, 3);
    assert_int_equal(o->targets.n, 1);
    assert_int_equal(o->data.n, 1);
}

static void an_empty_file_is_no_options(void **state)
{
    (void)state;
    assert_int_equal(TRAIN("--config", config(""))->rc, 0);
    assert_int_equal(TRAIN("--config", config("# nothing\n"))->rc, 0);
    assert_int_equal(TRAIN("--config", config("---\n"))->rc, 0);
}

static void a_bad_file_is_refused_with_its_line(void **state)
{
    (void)state;
    const struct {
        const char *text, *sentence;
    } bad[] = {
        {"lr: 1\nlerning-rate: 2\n", ":2: lerning-rate is no option of 'zerolock train'"},
        {"steps: 1\nstepz: 2\n", ":2: stepz is no option of 'zerolock train' (did you mean 'steps'?)"},
        {"lr: 1,5\n", ":1: lr: '1,5' is not a number such as 0.003 or 3e-3"},
        {"lr:\n", ":1: lr: the value is empty"},
        {"lr: 1\nlr: 2\n", ":2: lr stands here a second time"},
        {"lr: {a: 1}\n", ":1: found a mapping where a value or a list was expected"},
        {"lr: [1, 2]\n", ":1: lr takes one value, not a list"},
        {"targets: [[a]]\n", ":1: found a list where a value in a list was expected"},
        {"- lr\n", ":1: found a list where a mapping of options to values was expected"},
        {"just text\n", ":1: found a single value where a mapping of options to values was expected"},
        {"lr: &a 1\nalpha: *a\n", ":2: found an alias where a value or a list was expected"},
        {"lr: 1\n---\nlr: 2\n", ":2: found a second document where the end of the file was expected"},
        {"force: yes\n", ":1: force: 'yes' is neither true nor false"},
        {"config: other.yaml\n", ":1: config cannot stand in a configuration file"},
        {"lr: \"1\\0\"\n", ":1: lr: the value holds a NUL byte"},
        {"? [a, b]\n: 1\n", ":1: found a list where the name of an option was expected"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = config(bad[i].text);
        char sentence[256];
        snprintf(sentence, sizeof sentence, "%s%s", path, bad[i].sentence);
        refused(TRAIN("--config", path), sentence);
    }
    assert_int_equal(TRAIN("--config", config("lr: 'open\n"))->rc, ZL_EUSAGE);
    assert_int_equal(TRAIN("--config", config("\xff\xfe\xff"))->rc, ZL_EUSAGE);
    assert_int_equal(TRAIN("--config", "/nonexistent.yaml")->rc, ZL_ESYSTEM);
    assert_int_equal(TRAIN("--config", "/dev/zero")->rc, ZL_EINPUT);
}

static void a_deeply_nested_file_is_refused(void **state)
{
    (void)state;
    static char text[200001];
    memset(text, '[', sizeof text - 1);
    const char *path = config(text);
    assert_int_equal(TRAIN("--config", path)->rc, ZL_EUSAGE);
}

static void options_written_as_text_read_back_the_same(void **state)
{
    (void)state;
    struct result *r = TRAIN("--lr", "0.0001234567890123456", "--targets", "q_proj,v_proj", "--bounds", "0,4", "--eval-split", "10%",
                             "--init-adapter", "a \"b\" \\ \xc3\xa4 #:\n", "--preset", "paper", "--seed", "18446744073709551615", "--steps", "9", "-fq", "more");
    assert_int_equal(r->rc, 0);
    char *text = zl_options_text(&zl_train_command, &r->o);
    assert_non_null(strstr(text, "\nsteps: 9\n"));
    assert_non_null(strstr(text, "\n# beta2: 0.99\n"));
    assert_null(strstr(text, "force"));
    struct zl_train_options before = r->o;
    char *adapter = strdup(before.init_adapter);
    r = train("--config", config(text), NULL);
    assert_string_equal(r->err.text, "");
    char *again = zl_options_text(&zl_train_command, &r->o);
    assert_string_equal(text, again);
    assert_true(r->o.lr == before.lr && r->o.seed == before.seed && r->o.eval_split == before.eval_split);
    assert_int_equal(r->o.data.n, 2);
    assert_string_equal(r->o.init_adapter, adapter);
    free(adapter);
    free(text);
    free(again);
}
#else
static void without_libyaml_config_says_so(void **state)
{
    (void)state;
    const char *path = config("lr: 1\n");
    char sentence[256];
    snprintf(sentence, sizeof sentence, "cannot read %s: this zerolock was built without libyaml, so it has no --config", path);
    refused(TRAIN("--config", path), sentence);
}
#endif

static const struct zl_command *const commands[] = {&zl_train_command, &zl_eval_command, &zl_generate_command, &zl_inspect_command};

static void tables_are_consistent(void **state)
{
    (void)state;
    for (size_t c = 0; c < 4; c++) {
        const struct zl_command *command = commands[c];
        size_t n = command->n_options + zl_n_common_options;
        const struct zl_option *all[64] = {NULL};
        assert_true(n < 64);
        for (size_t i = 0; i < n; i++)
            all[i] = i < command->n_options ? &command->options[i] : &zl_common_options[i - command->n_options];
        assert_non_null(all[0]->group);
        for (size_t i = 0; i < n; i++) {
            assert_true(all[i]->offset < sizeof(struct zl_given));
            assert_true((all[i]->arg == NULL) == (all[i]->kind == ZL_OPTION_FLAG || all[i]->kind == ZL_OPTION_CHOICE));
            assert_true((all[i]->choices != NULL) == (all[i]->kind == ZL_OPTION_CHOICE));
            size_t length = strlen(all[i]->help);
            assert_true(all[i]->help[length - 1] == '.');
            for (size_t j = 0; j < i; j++) {
                assert_string_not_equal(all[i]->name, all[j]->name);
                assert_true(!all[i]->letter || all[i]->letter != all[j]->letter);
                if (i < command->n_options)
                    assert_true(all[i]->offset != all[j]->offset);
            }
            for (const char *word = all[i]->also; word; word = strchr(word, ' ') ? strchr(word, ' ') + 1 : NULL)
                assert_null(zl_option_find(command, word, strcspn(word, " ")));
        }
    }
}

static void help_is_wrapped_and_names_every_option(void **state)
{
    (void)state;
    for (size_t c = 0; c < 4; c++)
        for (int columns = 50; columns <= 100; columns += 10) {
            char *text = NULL;
            size_t n = 0;
            FILE *f = open_memstream(&text, &n);
            zl_command_help(commands[c], columns, f);
            fclose(f);
            for (size_t i = 0; i < commands[c]->n_options; i++) {
                char name[64];
                snprintf(name, sizeof name, "--%s", commands[c]->options[i].name);
                assert_non_null(strstr(text, name));
            }
            for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
                if (end - line > columns && strncmp(line, "Usage:", 6) != 0 && strncmp(line, "   or:", 6) != 0)
                    fail_msg("%d columns: '%.*s'", columns, (int)(end - line), line);
                assert_true(end == line || !isspace((unsigned char)end[-1]));
            }
            free(text);
        }
}

static void a_near_miss_is_suggested_and_a_far_one_is_not(void **state)
{
    (void)state;
    assert_true(zl_near_miss("trian", 5, "train"));
    assert_true(zl_near_miss("generat", 7, "generate"));
    assert_false(zl_near_miss("serve", 5, "train"));
    assert_false(zl_near_miss("x", 1, "lr"));
    char hint[128];
    zl_option_suggest(&zl_train_command, "micro-batch-token", 17, "--", hint, sizeof hint);
    assert_string_equal(hint, " (did you mean '--micro-batch-tokens'?)");
    char long_name[500];
    memset(long_name, 'a', sizeof long_name);
    zl_option_suggest(&zl_train_command, long_name, sizeof long_name, "--", hint, sizeof hint);
    assert_string_equal(hint, "");
}

static void data_of_inspect_needs_files_and_a_tokenizer(void **state)
{
    (void)state;
    const struct {
        char *argv[5];
        int argc, rc;
    } cases[] = {
        {{"inspect", "data"}, 2, ZL_EUSAGE},
        {{"inspect", "data", "x.jsonl"}, 3, ZL_EUSAGE},
        {{"inspect", "data", "x.jsonl", "--tokenizer", "m"}, 5, 0},
        {{"inspect", "./data"}, 2, 0},
        {{"inspect", "a", "b"}, 3, ZL_EUSAGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zl_inspect_options o;
        struct zl_memory memory = {0};
        struct zl_error err = {0};
        int rc = zl_options_parse(&zl_inspect_command, cases[i].argc, (char **)cases[i].argv, &o, &memory, &err);
        assert_int_equal(rc, 0);
        assert_int_equal(zl_inspect_options_settle(&o, &err), cases[i].rc);
        zl_memory_free(&memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_design),
        cmocka_unit_test(each_way_to_write_an_option_is_the_same),
        cmocka_unit_test(values_of_every_kind_are_read),
        cmocka_unit_test(usage_errors_are_one_sentence),
        cmocka_unit_test(a_negative_seed_is_refused),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(a_default_gives_way_to_a_given_size),
        cmocka_unit_test(an_option_without_effect_is_noted),
        cmocka_unit_test(a_preset_fills_only_what_was_not_given),
#ifdef HAVE_YAML
        cmocka_unit_test(a_configuration_file_holds_every_kind_of_option),
        cmocka_unit_test(the_command_line_wins_over_the_file),
        cmocka_unit_test(an_empty_file_is_no_options),
        cmocka_unit_test(a_bad_file_is_refused_with_its_line),
        cmocka_unit_test(a_deeply_nested_file_is_refused),
        cmocka_unit_test(options_written_as_text_read_back_the_same),
#else
        cmocka_unit_test(without_libyaml_config_says_so),
#endif
        cmocka_unit_test(tables_are_consistent),
        cmocka_unit_test(help_is_wrapped_and_names_every_option),
        cmocka_unit_test(a_near_miss_is_suggested_and_a_far_one_is_not),
        cmocka_unit_test(data_of_inspect_needs_files_and_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, make_work, remove_work);
}
