/* Data sets: what becomes of rows and files, good and hostile. Tokens are bytes here, so every
 * expectation can be read. */
#include "tests/unit/test.h"
#include "tests/unit/byte-tokenizer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "format/dataset.h"
#include "format/lines.h"

static char folder[] = "/tmp/zl-dataset-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[4][256];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static const char *write_file(const char *name, const char *bytes, size_t n)
{
    const char *p = path_of(name);
    FILE *f = fopen(p, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return p;
}

static int load(struct zl_dataset *d, struct zl_error *err, unsigned flags, uint32_t max_length,
                const char *path)
{
    struct zl_tokenizer *t = byte_tokenizer(flags);
    struct zl_data_options o = {.max_length = max_length, .add_bos_eos = true};
    memset(err, 0, sizeof *err);
    int rc = zl_dataset_load(&path, 1, t, &o, d, err);
    byte_tokenizer_close(t);
    assert_int_equal(rc, err->code);
    assert_null(strpbrk(err->text, "\n\r\t"));
    return rc;
}

/* Load rows given as text of a file rows.jsonl; must succeed. */
static struct zl_dataset rows_n(const char *text, size_t n, unsigned flags, uint32_t max_length)
{
    struct zl_dataset d;
    struct zl_error err;
    if (load(&d, &err, flags, max_length, write_file("rows.jsonl", text, n)))
        fail_msg("%s", err.text);
    return d;
}

static struct zl_dataset rows(const char *text, unsigned flags, uint32_t max_length)
{
    return rows_n(text, strlen(text), flags, max_length);
}

/* The file must be refused, and the sentence must name it and hold each of up to three parts. */
static void refused_n(const char *name, const char *text, size_t n, const char *a, const char *b,
                      const char *c)
{
    struct zl_dataset d;
    struct zl_error err;
    const char *parts[] = {name, a, b, c};
    if (load(&d, &err, BYTES_CHATML, 64, write_file(name, text, n)) != ZL_EINPUT)
        fail_msg("not refused: %.200s", text);
    for (size_t i = 0; i < 4; i++)
        if (parts[i] && !strstr(err.text, parts[i]))
            fail_msg("\"%s\" is not in: %s", parts[i], err.text);
    assert_null(d.tokens);
}

static void refused(const char *name, const char *text, const char *a, const char *b, const char *c)
{
    refused_n(name, text, strlen(text), a, b, c);
}

/* Example i as a string: bytes as they are, <s> as ^, </s> as $, <|im_start|> as (, <|im_end|> as
 * ); trained tokens follow a '. */
static const char *shape(const struct zl_dataset *d, uint64_t i)
{
    static char out[2][4096];
    static unsigned turn;
    char *p = out[turn++ % 2], *q = p;
    const struct zl_example *e = &d->examples[i];
    uint32_t trained = 0, prompt = 0;
    for (uint32_t k = 0; k < e->n; k++) {
        int32_t id = d->tokens[e->first + k];
        if (d->trained[e->first + k]) {
            *q++ = '\'';
            trained++;
        }
        prompt += !trained;
        *q++ = id < 256 ? (char)id : "^$()"[id - 256];
    }
    *q = 0;
    assert_int_equal(e->n_trained, trained);
    assert_int_equal(e->n_prompt, prompt);
    return p;
}

static void check_sums(const struct zl_dataset *d)
{
    const struct zl_data_report *r = &d->report;
    uint64_t tokens = 0, trained = 0, longest = 0, bytes = 0, dropped = 0;
    for (uint64_t i = 0; i < d->n_examples; i++) {
        assert_int_equal(d->examples[i].first, tokens);
        assert_true(d->examples[i].n >= 2 && d->examples[i].n_trained >= 1);
        assert_int_equal(d->trained[tokens], 0);
        tokens += d->examples[i].n;
        trained += d->examples[i].n_trained;
        bytes += d->examples[i].text_bytes;
        longest = d->examples[i].n > longest ? d->examples[i].n : longest;
    }
    for (int k = 0; k < ZL_DROP_REASONS; k++)
        dropped += r->dropped[k];
    assert_int_equal(d->n_tokens, tokens);
    assert_int_equal(r->tokens, tokens);
    assert_int_equal(r->trained, trained);
    assert_int_equal(r->text_bytes, bytes);
    assert_int_equal(r->longest, longest);
    assert_int_equal(r->kept, d->n_examples);
    assert_int_equal(r->rows, r->kept + dropped);
}

/* ---- forms of rows ---- */

static void completion_and_its_end_are_trained(void **state)
{
    (void)state;
    struct zl_dataset d = rows("{\"prompt\": \"ab\", \"completion\": \"cd\"}\n", 0, 64);
    assert_string_equal(shape(&d, 0), "ab'c'd'$");
    assert_int_equal(d.examples[0].line, 1);
    check_sums(&d);
    zl_dataset_free(&d);

    d = rows("{\"prompt\": \"ab\", \"completion\": \"c\"}\n", BYTES_BOS, 64);
    assert_string_equal(shape(&d, 0), "^ab'c'$");
    zl_dataset_free(&d);

    d = rows("{\"prompt\": \"\", \"completion\": \"cd\"}\n", 0,
             64); /* nothing predicts the first token */
    assert_string_equal(shape(&d, 0), "c'd'$");
    zl_dataset_free(&d);

    d = rows("{\"prompt\": \"\", \"completion\": \"cd\"}\n", BYTES_BOS, 64);
    assert_string_equal(shape(&d, 0), "^'c'd'$");
    zl_dataset_free(&d);
}

static void text_is_trained_but_its_first_token(void **state)
{
    (void)state;
    struct zl_dataset d = rows("{\"text\": \"abc\"}", 0, 64);
    assert_string_equal(shape(&d, 0), "a'b'c'$");
    zl_dataset_free(&d);
    d = rows("{\"text\": \"abc\"}", BYTES_BOS, 64);
    assert_string_equal(shape(&d, 0), "^'a'b'c'$");
    check_sums(&d);
    zl_dataset_free(&d);
}

static void assistant_turns_and_their_ends_are_trained(void **state)
{
    (void)state;
    struct zl_dataset d = rows("{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, "
                               "{\"role\": \"user\", \"content\": \"u\"},"
                               "{\"role\": \"assistant\", \"content\": \"xy\"}, {\"role\": "
                               "\"user\", \"content\": \"</s>\"},"
                               "{\"role\": \"assistant\", \"content\": \"z\"}]}\n",
                               BYTES_CHATML, 256);
    assert_string_equal(
        shape(&d, 0),
        "(system\ns)\n(user\nu)\n(assistant\n'x'y')\n(user\n</s>)\n(assistant\n'z')\n");
    check_sums(&d);
    zl_dataset_free(&d);
}

static void a_cut_assistant_turn_keeps_its_labels(void **state)
{
    (void)state;
    struct zl_dataset d = rows("{\"messages\": [{\"role\": \"user\", \"content\": \"u\"},"
                               "{\"role\": \"assistant\", \"content\": \"0123456789\"}]}\n",
                               BYTES_CHATML, 25);
    assert_string_equal(shape(&d, 0), "(user\nu)\n(assistant\n'0'1'2'3'4");
    assert_int_equal(d.examples[0].n, 25);
    assert_int_equal(d.report.cut, 1);
    zl_dataset_free(&d);
}

static void bos_and_eos_are_never_doubled(void **state)
{
    (void)state;
    struct zl_dataset d = rows("{\"prompt\": \"<s>ab\", \"completion\": \"c</s>\"}\n"
                               "{\"text\": \"<s>ab</s>\"}\n"
                               "{\"prompt\": \"a\", \"completion\": \"c<|im_end|>\"}\n"
                               "{\"prompt\": \"a<s>\", \"completion\": \"c\"}\n",
                               BYTES_BOS, 64);
    assert_string_equal(shape(&d, 0), "^ab'c'$");
    assert_string_equal(shape(&d, 1), "^'a'b'$");
    assert_string_equal(shape(&d, 2), "^a'c')");
    assert_string_equal(shape(&d, 3), "^a^'c'$");
    zl_dataset_free(&d);
    d = rows("{\"messages\": [{\"role\": \"user\", \"content\": \"<s>\"}, {\"role\": "
             "\"assistant\", \"content\": \"a\"}]}",
             BYTES_BOS | BYTES_CHATML, 64);
    assert_string_equal(shape(&d, 0), "^(user\n<s>)\n(assistant\n'a')\n");
    zl_dataset_free(&d);
}

static void a_tokenizer_without_eos_is_noted(void **state)
{
    (void)state;
    struct zl_dataset d = rows("{\"prompt\": \"a\", \"completion\": \"c\"}\n", BYTES_NO_EOS, 64);
    assert_string_equal(shape(&d, 0), "a'c");
    assert_true(d.report.no_eos);
    zl_dataset_free(&d);
}

static void extra_fields_are_ignored_and_forms_may_mix(void **state)
{
    (void)state;
    struct zl_dataset d =
        rows("{\"text\": \"t\", \"label\": 1, \"prompt\": \"p\", \"candidates\": [\"x\", \"y\"], "
             "\"completion\": \"y\"}\n"
             "{\"text\": \"tt\", \"idx\": [1, 2, 18446744073709551615], \"prompt\": null, "
             "\"messages\": null}\n"
             "{\"messages\": [{\"role\": \"user\", \"content\": \"u\", \"name\": \"n\"},"
             " {\"role\": \"assistant\", \"content\": \"a\"}], \"text\": \"no\"}\n",
             BYTES_CHATML, 64);
    assert_string_equal(shape(&d, 0), "p'y'$");
    assert_string_equal(shape(&d, 1), "t't'$");
    assert_string_equal(shape(&d, 2), "(user\nu)\n(assistant\n'a')\n");
    zl_dataset_free(&d);
}

static void a_row_of_no_known_form_names_its_keys(void **state)
{
    (void)state;
    const char *good = "{\"text\": \"good\"}\n";
    char text[2048];
    snprintf(text, sizeof text, "%s\n{\"question\": \"q\", \"answer\": \"a\"}\n", good);
    refused("rows.jsonl", text, "line 3", "\"question\"", "\"answer\"");
    refused("rows.jsonl", "{}\n", "line 1", "none", "prompt");
    refused("rows.jsonl", "{\"prompt\": \"q\"}\n", "line 1", "without a completion", NULL);
    refused("rows.jsonl", "{\"completion\": \"q\", \"prompt\": null}\n", "line 1",
            "without a prompt", NULL);
    refused("rows.jsonl", "{\"a\\nb\": 1, \"c\\u001bd\": 2, \"e\\u009bf\": 3}\n", "\"a?b\"",
            "\"c?d\"", "\"e??f\"");
    refused("rows.jsonl",
            "{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"0\":1}\n",
            "and 2 more", NULL, NULL);
}

static void wrong_types_name_the_field_and_what_it_is(void **state)
{
    (void)state;
    refused("rows.jsonl", "{\"text\": 5}\n", "line 1", "\"text\" is a number", "expected a string");
    refused("rows.jsonl", "{\"prompt\": [1], \"completion\": \"\"}\n", "\"prompt\" is an array",
            NULL, NULL);
    refused("rows.jsonl", "{\"prompt\": \"\", \"completion\": {}}\n", "\"completion\" is an object",
            NULL, NULL);
    refused("rows.jsonl", "{\"messages\": \"hi\"}\n", "\"messages\" is a string", NULL, NULL);
    refused("rows.jsonl", "{\"messages\": [\"hi\"]}\n", "message 1 is no object", NULL, NULL);
    refused("rows.jsonl", "{\"messages\": [{\"content\": \"hi\"}]}\n", "message 1 has no \"role\"",
            NULL, NULL);
    refused("rows.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}\n",
            "message 1 has no \"content\" string", NULL, NULL);
    refused("rows.jsonl", "{\"messages\": [{\"role\": \"to\\nol\", \"content\": \"x\"}]}\n",
            "the role \"to?ol\"", "system, user or assistant", NULL);
    refused("rows.jsonl",
            "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": []}]}\n",
            "tool calls", NULL, NULL);
}

static void sharegpt_and_alpaca_are_told_what_to_convert_to(void **state)
{
    (void)state;
    refused("rows.jsonl", "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}]}\n",
            "line 1", "ShareGPT", "messages");
    refused("rows.jsonl", "{\"instruction\": \"i\", \"input\": \"\", \"output\": \"o\"}\n",
            "line 1", "Alpaca", "completion");
}

static void messages_without_a_known_template_are_refused(void **state)
{
    (void)state;
    struct zl_dataset d;
    struct zl_error err;
    const char *text = "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n";
    const char *p = write_file("chat.jsonl", text, strlen(text));
    assert_int_equal(load(&d, &err, 0, 64, p), ZL_EINPUT);
    assert_non_null(strstr(err.text, "chat.jsonl: line 1"));
    assert_non_null(strstr(err.text, "no chat template"));
    assert_int_equal(load(&d, &err, BYTES_ODD_TEMPLATE, 64, p), ZL_EINPUT);
    assert_non_null(strstr(err.text, "chat.jsonl: line 1"));
}

static void a_chat_without_a_label_is_refused_not_trained_on(void **state)
{
    (void)state;
    struct zl_dataset d;
    struct zl_error err;
    const char *text = "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, {\"role\": "
                       "\"assistant\", \"content\": \"a\"}]}\n";
    const char *p = write_file("chat.jsonl", text, strlen(text));
    assert_int_equal(load(&d, &err, BYTES_CHATML | BYTES_UNMARKED, 64, p), ZL_EINPUT);
    assert_non_null(strstr(err.text, "chat.jsonl: line 1"));
    assert_non_null(strstr(err.text, "without a token to train"));
}

/* ---- lengths and drops ---- */

static void rows_are_cut_to_exactly_the_maximum_length(void **state)
{
    (void)state;
    struct zl_dataset d =
        rows("{\"prompt\": \"abcd\", \"completion\": \"0123456789012345678901234\"}\n"
             "{\"text\": \"012345678901234567890123456789\"}\n"
             "{\"text\": \"012345678\"}\n",
             0, 10);
    assert_string_equal(shape(&d, 0), "abcd'0'1'2'3'4'5");
    assert_string_equal(shape(&d, 1), "0'1'2'3'4'5'6'7'8'9");
    assert_string_equal(shape(&d, 2), "0'1'2'3'4'5'6'7'8'$"); /* exactly fits */
    assert_int_equal(d.report.cut, 2);
    assert_int_equal(d.report.cut_lines[0], 1);
    assert_int_equal(d.report.cut_lines[1], 2);
    assert_int_equal(d.report.longest, 10);
    check_sums(&d);
    zl_dataset_free(&d);
}

static void drops_are_counted_by_reason_with_line_numbers(void **state)
{
    (void)state;
    struct zl_dataset d =
        rows("{\"prompt\": \"a\", \"completion\": \"\"}\n"           /* 1: empty */
             "{\"text\": \"\"}\n"                                    /* 2: empty */
             "\n"                                                    /* 3 */
             "{\"prompt\": \"0123456789\", \"completion\": \"x\"}\n" /* 4: fills 10 */
             "{\"prompt\": \"012345678\", \"completion\": \"x\"}\n"  /* 5: one label left */
             "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}]}\n"
             "{\"messages\": []}\n"
             "{\"messages\": [{\"role\": \"assistant\", \"content\": \"\"}]}\n"
             "{\"messages\": [{\"role\": \"user\", \"content\": \"0123456789\"}, {\"role\": "
             "\"assistant\", \"content\": \"x\"}]}\n"
             "{\"text\": \"x\"}\n",
             BYTES_CHATML | BYTES_NO_EOS, 10);
    const struct zl_data_report *r = &d.report;
    const uint64_t empty[] = {1, 2, 6, 7, 8};
    assert_int_equal(r->rows, 9);
    assert_int_equal(r->kept, 1);
    assert_string_equal(shape(&d, 0), "012345678'x");
    assert_int_equal(r->dropped[ZL_DROP_EMPTY], 5);
    assert_memory_equal(r->first_lines[ZL_DROP_EMPTY], empty, sizeof empty);
    assert_int_equal(r->dropped[ZL_DROP_PROMPT_LONG], 2);
    assert_int_equal(r->first_lines[ZL_DROP_PROMPT_LONG][0], 4);
    assert_int_equal(r->first_lines[ZL_DROP_PROMPT_LONG][1], 9);
    assert_int_equal(r->dropped[ZL_DROP_SHORT], 1);
    assert_int_equal(r->first_lines[ZL_DROP_SHORT][0], 10);
    check_sums(&d);
    zl_dataset_free(&d);
}

static void nothing_left_to_train_on_is_an_error_with_counts(void **state)
{
    (void)state;
    refused("empty.jsonl", "", "nothing left to train on", "0 rows", NULL);
    refused("blank.txt", " \n\r\n\t\n", "nothing left to train on", "0 rows", NULL);
    refused(
        "rows.jsonl",
        "{\"prompt\": \"a\", \"completion\": \"\"}\n{\"prompt\": \"b\", \"completion\": \"\"}\n",
        "2 rows", "2 dropped", "line 1");
    char text[400];
    snprintf(text, sizeof text, "\n{\"prompt\": \"%070d\", \"completion\": \"x\"}\n", 0);
    refused("rows.jsonl", text, "1 dropped because: the prompt alone", "line 2", "64 tokens");
}

static void one_good_row_in_a_thousand_trains(void **state)
{
    (void)state;
    static char text[64 * 1000];
    size_t n = 0;
    for (int i = 0; i < 1000; i++)
        n += snprintf(text + n, sizeof text - n, "{\"prompt\": \"p\", \"completion\": \"%s\"}\n",
                      i == 777 ? "c" : "");
    struct zl_dataset d = rows(text, 0, 64);
    assert_int_equal(d.n_examples, 1);
    assert_int_equal(d.examples[0].line, 778);
    assert_int_equal(d.report.rows, 1000);
    assert_int_equal(d.report.dropped[ZL_DROP_EMPTY], 999);
    check_sums(&d);
    zl_dataset_free(&d);
}

static void a_maximum_length_below_two_is_a_usage_error(void **state)
{
    (void)state;
    struct zl_dataset d;
    struct zl_error err;
    assert_int_equal(load(&d, &err, 0, 1, write_file("rows.jsonl", "{\"text\": \"a\"}", 13)),
                     ZL_EUSAGE);
    assert_int_equal(load(&d, &err, 0, 0, path_of("rows.jsonl")), ZL_EUSAGE);
}

/* ---- bytes and line ends ---- */

static void line_ends_and_a_leading_bom_do_not_matter(void **state)
{
    (void)state;
#define A "{\"prompt\": \"a\", \"completion\": \"b\"}"
#define B "{\"prompt\": \"c\", \"completion\": \"d\"}"
    static const struct {
        const char *text;
        uint64_t line; /* of the second row */
    } files[] = {
        {A "\n" B "\n", 2},
        {A "\n" B, 2},
        {"\xEF\xBB\xBF" A "\n" B "\n", 2},
        {A "\r\n" B "\r\n", 2},
        {"\xEF\xBB\xBF" A "\r\n\r\n" B, 3},
        {A "\r" B "\r", 2},
        {A "\r" B, 2},
        {A "\r\r\n" B, 3},
        {"\n\n" A "\n \t\n\r\n" B "\n\n\n", 6},
        {" \t" A " \t\r\n" B "  ", 2},
        {"{\"prompt\":\r\"a\"\r,\"completion\": \"b\"}\r" B "\r\n",
         2}, /* CR within a value is white space */
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct zl_dataset d = rows(files[i].text, 0, 64);
        assert_int_equal(d.n_examples, 2);
        assert_string_equal(shape(&d, 0), "a'b'$");
        assert_string_equal(shape(&d, 1), "c'd'$");
        assert_int_equal(d.examples[1].line, files[i].line);
        zl_dataset_free(&d);
    }
    refused("rows.jsonl", A "\n\xEF\xBB\xBF" B "\n", "line 2", "byte order mark", NULL);
}

static void rows_across_buffer_borders_are_whole(void **state)
{
    (void)state;
    const size_t rows_n_ = 3000;
    char *text = malloc(rows_n_ * 200), *p = text;
    for (size_t i = 0; i < rows_n_; i++)
        p += sprintf(p, "{\"prompt\": \"%0*zu\", \"completion\": \"x\"}%s",
                     1 + (int)(i * 7919 % 120), i,
                     i % 3 == 0   ? "\r\n"
                     : i % 3 == 1 ? "\r"
                                  : "\n");
    struct zl_dataset d = rows_n(text, (size_t)(p - text), 0, 4096);
    assert_int_equal(d.n_examples, rows_n_);
    for (size_t i = 0; i < rows_n_; i++) {
        char want[200];
        sprintf(want, "%0*zu'x'$", 1 + (int)(i * 7919 % 120), i);
        assert_string_equal(shape(&d, i), want);
        assert_int_equal(d.examples[i].line, i + 1);
    }
    zl_dataset_free(&d);
    free(text);
}

static void hostile_json_is_refused_with_its_place(void **state)
{
    (void)state;
#define BAD(text, a, b) refused_n("rows.jsonl", A "\n" text, sizeof A "\n" text - 1, "line 2", a, b)
    BAD("{\"text\": \"a\0b\"}\n", "byte 46", "NUL");
    BAD("{\"text\": \"a\\u0000b\"}\n", "byte 54", "\\u0000");
    BAD("{\"text\": \"a\xFF\"}\n", "byte 46", "0xff");
    BAD("{\"text\": \"a\xC0\x80\"}\n", "byte 46", "0xc0");
    BAD("{\"text\": \"\xED\xA0\x80\"}\n", "byte", "decode");
    BAD("{\"text\": \"\\ud800\"}\n", "byte", "Unicode");
    BAD("{\"text\": \"\\udc00x\"}\n", "byte", "Unicode");
    BAD("{\"text\": \"a\", \"x\": 1e999}\n", "byte", "range");
    BAD("{\"prompt\": \"a\", \"prompt\": \"b\", \"completion\": \"c\"}\n", "byte", "duplicate");
    BAD("{\"text\": \"a\"\n}\n", "one line", "byte");
    BAD("{\"text\": \"a\n", "byte", "one line");
    BAD("{\"text\": \"a\"} {\"text\": \"b\"}\n", "byte", "one JSON object a line");
    BAD("{\"text\": \"a\x01\"}\n", "byte", "control");
    BAD("[\"a\"]\n", "array", "expected one JSON object");
    BAD("\"a\"\n", "no object", NULL);
    BAD("5\n", "no object", NULL);
    BAD("text\n", "byte", NULL);
    BAD("{\"text\": NaN}\n", "byte", NULL);
    BAD("{\"text\": \"a\",}\n", "byte", NULL);
#undef BAD
}

static void deep_nesting_and_many_values_are_refused(void **state)
{
    (void)state;
    const size_t n = 1000000;
    char *text = malloc(2 * n + 32);
    strcpy(text, "{\"text\": \"a\", \"x\": ");
    size_t k = strlen(text);
    memset(text + k, '[', n);
    refused_n("rows.jsonl", text, k + n, "line 1", "byte", NULL);
    memset(text + k, '[', 100000);
    memset(text + k + 100000, ']', 100000);
    text[k + 200000] = '}';
    refused_n("rows.jsonl", text, k + 200001, "line 1", "nested deeper", NULL);
    for (size_t i = 0; i < 2 * n; i++)
        text[k + i] = "[]"[i % 2]; /* [][]… is no JSON, but the bound comes first */
    refused_n("rows.jsonl", text, k + 2 * n, "line 1", "more than 262144 JSON values", NULL);
    free(text);
}

static uint64_t peak_kib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_maxrss;
}

static void an_endless_line_is_refused_with_bounded_memory(void **state)
{
    (void)state;
    const char *p = write_file("long.jsonl", "{\"text\": \"", 10);
    assert_int_equal(truncate(p, 200000000), 0); /* sparse: the reader meets zeros */
    struct zl_dataset d;
    struct zl_error err;
    uint64_t before = peak_kib();
    assert_int_equal(load(&d, &err, 0, 64, p), ZL_EINPUT);
    uint64_t grown = peak_kib() - before, bound = (ZL_LINE_MAX >> 10) * 2;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    bound *= 3; /* their realloc copies, and keeps what was freed for a while */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    bound *= 3;
#endif
#endif
    print_message("peak memory grew by %" PRIu64 " KiB, bound %" PRIu64 "\n", grown, bound);
    assert_true(grown < bound);
    assert_non_null(strstr(err.text, "line 1"));
    assert_non_null(strstr(err.text, "longer than 67108864 bytes"));
    assert_int_equal(unlink(p), 0);
}

static void a_line_of_exactly_the_limit_is_read(void **state)
{
    (void)state;
    char *text = malloc(ZL_LINE_MAX + 64);
    size_t head = (size_t)sprintf(text, "{\"text\": \"abc\"}");
    memset(text + head, ' ', ZL_LINE_MAX - head);
    text[ZL_LINE_MAX - 2] = '\r';
    text[ZL_LINE_MAX - 1] = '\n';
    memcpy(text + ZL_LINE_MAX, "{\"text\": \"def\"}", 15);
    struct zl_dataset d = rows_n(text, ZL_LINE_MAX + 15, 0, 64);
    assert_int_equal(d.n_examples, 2);
    assert_int_equal(d.examples[1].line, 2);
    zl_dataset_free(&d);
    memmove(text + head + 1, text + head, ZL_LINE_MAX - head + 15);
    text[head] = ' ';
    struct zl_error err;
    assert_int_equal(load(&d, &err, 0, 64, write_file("rows.jsonl", text, ZL_LINE_MAX + 16)),
                     ZL_EINPUT);
    assert_non_null(strstr(err.text, "longer than"));
    assert_int_equal(unlink(path_of("rows.jsonl")), 0);
    free(text);
}

static void a_json_array_gets_a_hint(void **state)
{
    (void)state;
    refused("rows.json", "[\n {\"prompt\": \"a\"}\n]\n", "JSON array", "one object a line", NULL);
    refused("rows.txt", " \n[{\"prompt\": \"a\"}]\n", "JSON array", NULL, NULL);
    refused("rows.jsonl", "[]\n", "JSON array", NULL, NULL);
    refused("rows.jsonl", "hello\n", "byte 0", "0x68", NULL);
}

static void files_that_are_no_text_say_what_they_are(void **state)
{
    (void)state;
    refused("rows.gz", "\x1F\x8B\x08 rest", "gzip", NULL, NULL);
    refused("rows.parquet", "PAR1 rest", "Parquet", NULL, NULL);
    refused("utf16.txt", "\xFF\xFEh", "UTF-16", NULL, NULL);
    refused_n("nul.txt", "text\0more", 9, "byte 4", "NUL", NULL);
    static char late[9000]; /* behind what is looked at to tell the kind of file */
    memset(late, 'a', sizeof late);
    late[8000] = 0;
    refused_n("nul.txt", late, sizeof late, "byte 8000", "NUL", NULL);
    refused("bad.txt", "text \xFF more", "bad.txt", NULL, NULL);
    struct zl_dataset d;
    struct zl_error err;
    assert_int_equal(load(&d, &err, 0, 64, folder), ZL_EINPUT);
    assert_non_null(strstr(err.text, "folder"));
    assert_int_equal(load(&d, &err, 0, 64, path_of("absent")), ZL_ESYSTEM);
    assert_non_null(strstr(err.text, "absent: No such file"));
}

/* ---- plain text ---- */

static void plain_text_is_cut_into_windows(void **state)
{
    (void)state;
    struct zl_dataset d;
    struct zl_error err;
    assert_int_equal(
        load(&d, &err, BYTES_BOS, 5, write_file("a.txt", "\xEF\xBB\xBF[a]\r\n0123", 12)), 0);
    assert_int_equal(d.n_examples, 2);
    assert_string_equal(shape(&d, 0), "^'['a']'\r");
    assert_string_equal(shape(&d, 1),
                        "\n'0'1'2'3"); /* the rest is one token: EOS alone trains nothing */
    zl_dataset_free(&d);
}

static void text_shorter_than_the_context_is_one_short_window(void **state)
{
    (void)state;
    char text[400];
    memset(text, 'x', sizeof text);
    struct zl_dataset d;
    struct zl_error err;
    assert_int_equal(load(&d, &err, 0, 512, write_file("short.txt", text, sizeof text)), 0);
    assert_int_equal(d.n_examples, 1);
    assert_int_equal(d.examples[0].n, 401); /* and EOS: nothing is repeated to fill it up */
    assert_int_equal(d.examples[0].n_trained, 400);
    assert_int_equal(d.report.text_bytes, 400);
    check_sums(&d);
    zl_dataset_free(&d);
    assert_int_equal(load(&d, &err, 0, 100, path_of("short.txt")), 0);
    assert_int_equal(d.n_examples, 4);
    assert_int_equal(d.report.dropped[ZL_DROP_SHORT], 1); /* EOS alone in the fifth */
    zl_dataset_free(&d);
    assert_int_equal(load(&d, &err, BYTES_NO_EOS, 512, write_file("one.txt", "x", 1)), ZL_EINPUT);
    assert_non_null(strstr(err.text, "fewer than two tokens"));
}

static void without_bos_and_eos_text_stands_alone(void **state)
{
    (void)state;
    struct zl_tokenizer *t = byte_tokenizer(BYTES_BOS);
    struct zl_data_options o = {.max_length = 64};
    struct zl_dataset d;
    struct zl_error err = {0};
    const char *paths[] = {write_file("a.txt", "abc", 3),
                           write_file("b.jsonl", "{\"text\": \"de\"}", 14)};
    assert_int_equal(zl_dataset_load(paths, 2, t, &o, &d, &err), 0);
    assert_string_equal(shape(&d, 0), "a'b'c");
    assert_string_equal(shape(&d, 1), "d'e");
    assert_int_equal(d.examples[1].file, 1);
    assert_string_equal(d.files[1], paths[1]);
    zl_dataset_free(&d);
    byte_tokenizer_close(t);
}

/* ---- split, report, print ---- */

static void a_split_moves_whole_examples_and_keeps_their_order(void **state)
{
    (void)state;
    static char text[100 * 64];
    size_t n = 0;
    for (int i = 0; i < 100; i++)
        n += snprintf(text + n, sizeof text - n, "{\"prompt\": \"%d\", \"completion\": \"c%d\"}\n",
                      i, i * i);
    const double shares[] = {0.1, 0.25, 0.001, 0.999};
    const uint64_t sizes[] = {10, 25, 1, 99};
    for (size_t k = 0; k < 4; k++) {
        struct zl_dataset all = rows(text, 0, 64), d = rows(text, 0, 64), h;
        struct zl_error err = {0};
        assert_int_equal(zl_dataset_split(&d, shares[k], 11, &h, &err), 0);
        assert_int_equal(h.n_examples, sizes[k]);
        assert_int_equal(d.n_examples, 100 - sizes[k]);
        uint64_t a = 0, b = 0;
        for (uint64_t i = 0; i < 100; i++) { /* each example is in one of the two, in order */
            bool held = b < h.n_examples && h.examples[b].line == all.examples[i].line;
            const struct zl_dataset *s = held ? &h : &d;
            uint64_t j = held ? b++ : a++;
            assert_int_equal(s->examples[j].line, all.examples[i].line);
            assert_string_equal(shape(s, j), shape(&all, i));
        }
        check_sums(&d);
        check_sums(&h);
        assert_string_equal(h.files[0], all.files[0]);
        zl_dataset_free(&all);
        zl_dataset_free(&d);
        zl_dataset_free(&h);
    }
}

static void a_split_depends_on_its_seed_only(void **state)
{
    (void)state;
    static char text[1000 * 40];
    size_t n = 0;
    for (int i = 0; i < 1000; i++)
        n += snprintf(text + n, sizeof text - n, "{\"text\": \"row %d\"}\n", i);
    struct zl_dataset d[3], h[3];
    struct zl_error err = {0};
    for (int i = 0; i < 3; i++) {
        d[i] = rows(text, 0, 64);
        assert_int_equal(zl_dataset_split(&d[i], 0.1, i == 2 ? 8 : 7, &h[i], &err), 0);
    }
    uint64_t same = 0;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(h[0].examples[i].line, h[1].examples[i].line);
        for (int j = 0; j < 100; j++)
            same += h[0].examples[i].line == h[2].examples[j].line;
    }
    print_message("%d of 100 held-out rows are the same with another seed, bound 30\n", (int)same);
    assert_true(same < 30);
    for (int i = 0; i < 3; i++) {
        zl_dataset_free(&d[i]);
        zl_dataset_free(&h[i]);
    }
}

static void a_split_that_leaves_nothing_is_refused(void **state)
{
    (void)state;
    struct zl_dataset d = rows("{\"text\": \"abc\"}\n{\"text\": \"def\"}\n", 0, 64),
                      one = rows("{\"text\": \"abc\"}\n", 0, 64), h;
    const double bad[] = {0, 1, -0.5, 2, 0.0 / 0.0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct zl_error err = {0};
        assert_int_equal(zl_dataset_split(&d, bad[i], 1, &h, &err), ZL_EUSAGE);
    }
    struct zl_error err = {0};
    assert_int_equal(zl_dataset_split(&one, 0.5, 1, &h, &err), ZL_EINPUT);
    assert_int_equal(d.n_examples, 2);
    zl_dataset_free(&d);
    zl_dataset_free(&one);
}

static const char *printed(void (*print)(FILE *, const void *), const void *what)
{
    static char text[8192];
    FILE *f = tmpfile();
    print(f, what);
    rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

static void print_report(FILE *f, const void *d)
{
    zl_data_report_print(&((const struct zl_dataset *)d)->report, "rows", f);
}

static void the_report_says_what_became_of_the_rows(void **state)
{
    (void)state;
    struct zl_dataset d =
        rows("{\"prompt\": \"a\", \"completion\": \"\"}\n{\"text\": \"0123456789abc\"}\n{\"text\": "
             "\"abc\"}\n"
             "{\"prompt\": \"0123456789\", \"completion\": \"x\"}\n{\"text\": \"\"}\n",
             0, 10);
    const char *text = printed(print_report, &d);
    print_message("%s", text);
    assert_non_null(strstr(text, "rows: 2 of 5 rows kept\n"));
    assert_non_null(strstr(text, "14 tokens, 12 trained (85.7 %), longest 10, 16 bytes of text"));
    assert_non_null(strstr(text, "cut 1: longer than the maximum length, at line 2\n"));
    assert_non_null(strstr(text, "dropped 2: nothing to train"));
    assert_non_null(strstr(text, "at lines 1, 5\n"));
    assert_non_null(
        strstr(text, "dropped 1: the prompt alone fills the maximum length, at line 4\n"));
    zl_dataset_free(&d);
}

static void print_first(FILE *f, const void *d)
{
    struct zl_tokenizer *t = byte_tokenizer(0);
    zl_data_print_example(d, 0, t, false, f);
    byte_tokenizer_close(t);
}

static void print_first_colored(FILE *f, const void *d)
{
    struct zl_tokenizer *t = byte_tokenizer(0);
    zl_data_print_example(d, 0, t, true, f);
    byte_tokenizer_close(t);
}

static void printing_marks_the_trained_tokens(void **state)
{
    (void)state;
    struct zl_dataset d = rows("{\"prompt\": \"a\\n\", \"completion\": \"b\\u001b[c\"}\n", 0, 64);
    const char *text = printed(print_first, &d);
    print_message("%s", text);
    assert_non_null(strstr(text, "rows.jsonl line 1, 7 tokens, 5 trained\n"));
    assert_non_null(
        strstr(text, "a\u2502\u23CE\n\u27E6b\u2502\\x1b\u2502[\u2502c\u2502</s>\u27E7\n"));
    text = printed(print_first_colored, &d);
    assert_non_null(strstr(text, "\033[1;32mb"));
    assert_non_null(strstr(text, "</s>\033[0m\n"));
    zl_dataset_free(&d);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completion_and_its_end_are_trained),
        cmocka_unit_test(text_is_trained_but_its_first_token),
        cmocka_unit_test(assistant_turns_and_their_ends_are_trained),
        cmocka_unit_test(a_cut_assistant_turn_keeps_its_labels),
        cmocka_unit_test(bos_and_eos_are_never_doubled),
        cmocka_unit_test(a_tokenizer_without_eos_is_noted),
        cmocka_unit_test(extra_fields_are_ignored_and_forms_may_mix),
        cmocka_unit_test(a_row_of_no_known_form_names_its_keys),
        cmocka_unit_test(wrong_types_name_the_field_and_what_it_is),
        cmocka_unit_test(sharegpt_and_alpaca_are_told_what_to_convert_to),
        cmocka_unit_test(messages_without_a_known_template_are_refused),
        cmocka_unit_test(a_chat_without_a_label_is_refused_not_trained_on),
        cmocka_unit_test(rows_are_cut_to_exactly_the_maximum_length),
        cmocka_unit_test(drops_are_counted_by_reason_with_line_numbers),
        cmocka_unit_test(nothing_left_to_train_on_is_an_error_with_counts),
        cmocka_unit_test(one_good_row_in_a_thousand_trains),
        cmocka_unit_test(a_maximum_length_below_two_is_a_usage_error),
        cmocka_unit_test(line_ends_and_a_leading_bom_do_not_matter),
        cmocka_unit_test(rows_across_buffer_borders_are_whole),
        cmocka_unit_test(hostile_json_is_refused_with_its_place),
        cmocka_unit_test(deep_nesting_and_many_values_are_refused),
        cmocka_unit_test(an_endless_line_is_refused_with_bounded_memory),
        cmocka_unit_test(a_line_of_exactly_the_limit_is_read),
        cmocka_unit_test(a_json_array_gets_a_hint),
        cmocka_unit_test(files_that_are_no_text_say_what_they_are),
        cmocka_unit_test(plain_text_is_cut_into_windows),
        cmocka_unit_test(text_shorter_than_the_context_is_one_short_window),
        cmocka_unit_test(without_bos_and_eos_text_stands_alone),
        cmocka_unit_test(a_split_moves_whole_examples_and_keeps_their_order),
        cmocka_unit_test(a_split_depends_on_its_seed_only),
        cmocka_unit_test(a_split_that_leaves_nothing_is_refused),
        cmocka_unit_test(the_report_says_what_became_of_the_rows),
        cmocka_unit_test(printing_marks_the_trained_tokens),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
