/*
 * Holds the example data to what examples/README.md says of it: the form of a row, the commands with their keys and values, and that
 * nothing of the held-out file can be learned by heart from the training file.
 */
#include "tests/unit/test.h"

#include <ctype.h>
#include <stdbool.h>

#include <jansson.h>

enum { MAX_ROWS = 1000, MAX_WORDS = 64, MAX_ALIKE_PERCENT = 60 };

struct row {
    char *prompt, *completion;
    char *words[MAX_WORDS]; /* of the request, lower case, each once */
    size_t n_words;
};

struct file {
    const char *name;
    struct row rows[MAX_ROWS];
    size_t n;
};

static struct file train = {.name = "examples/household/train.jsonl"};
static struct file held_out = {.name = "examples/household/held-out.jsonl"};

/* ---- the schema of examples/README.md --------------------------------------------------------- */

enum value { NAME, STATE, STATE_OR_NUMBER, NUMBER, TIME };

struct key {
    const char *name; /* alternatives are separated by | */
    enum value value;
};

struct command {
    const char *name;
    const char *states; /* words that a STATE may be, separated by | */
    double least, most; /* of a number */
    struct key keys[2];
};

static const struct command commands[] = {
    {"light", "on|off|brighter|dimmer", 0, 100, {{"room", NAME}, {"set", STATE_OR_NUMBER}}},
    {"heat", "warmer|cooler|off", 5, 30, {{"room", NAME}, {"set", STATE_OR_NUMBER}}},
    {"blinds", "open|close", 0, 100, {{"room", NAME}, {"set", STATE_OR_NUMBER}}},
    {"music", "play|stop|louder|quieter", 0, 100, {{"room", NAME}, {"set", STATE_OR_NUMBER}}},
    {"vacuum", "start|stop", 0, 0, {{"room", NAME}, {"set", STATE}}},
    {"lock", "lock|unlock", 0, 0, {{"door", NAME}, {"set", STATE}}},
    {"switch", "on|off", 0, 0, {{"device", NAME}, {"set", STATE}}},
    {"timer", "", 1, 1440, {{"for", NAME}, {"minutes", NUMBER}}},
    {"remind", "", 0, 0, {{"to", NAME}, {"at", TIME}}},
    {"list", "", 1, 100, {{"item", NAME}, {"count", NUMBER}}},
    {"water", "", 1, 240, {{"bed", NAME}, {"minutes", NUMBER}}},
    {"oven", "off", 50, 300, {{"set", STATE_OR_NUMBER}}},
    {"speed", "faster|slower|stop", 100, 30000, {{"machine", NAME}, {"set", STATE_OR_NUMBER}}},
    {"air", "on|off", 1, 12, {{"set", STATE_OR_NUMBER}}},
    {"stock", "", 1, 1000, {{"item", NAME}, {"got|used|left", NUMBER}}},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static bool is_one_of(const char *word, const char *list)
{
    size_t n = strlen(word);
    for (const char *p = list; n && *p; p += strcspn(p, "|"), p += *p == '|')
        if (strcspn(p, "|") == n && memcmp(p, word, n) == 0)
            return true;
    return false;
}

/* "7:30 pm": no leading zero, minutes always. */
static bool is_time(const char *s)
{
    unsigned hour = 0, minute = 0;
    char half = 0, again[16];
    if (sscanf(s, "%2u:%2u %cm", &hour, &minute, &half) != 3 || hour < 1 || hour > 12 || minute > 59 || !strchr("ap", half))
        return false;
    snprintf(again, sizeof again, "%u:%02u %cm", hour, minute, half);
    return strcmp(s, again) == 0;
}

static bool is_name(const char *s)
{
    if (!*s || *s == ' ' || s[strlen(s) - 1] == ' ')
        return false;
    for (; *s; s++)
        if (!islower(*s) && !isdigit(*s) && *s != ' ')
            return false;
    return true;
}

static bool value_fits(const struct command *c, const struct key *k, const json_t *v)
{
    const char *s = json_string_value(v);
    bool number = json_is_number(v) && json_number_value(v) >= c->least && json_number_value(v) <= c->most;
    switch (k->value) {
    case NAME: return s && is_name(s);
    case STATE: return s && is_one_of(s, c->states);
    case STATE_OR_NUMBER: return s ? is_one_of(s, c->states) : number;
    case NUMBER: return number && json_is_integer(v);
    case TIME: return s && is_time(s);
    }
    return false;
}

/* The command that the object is, or NULL. Jansson keeps the order in which the keys were read. */
static const struct command *command_of(json_t *o)
{
    const char *name = json_string_value(json_object_get(o, "do"));
    for (size_t i = 0; name && i < N_COMMANDS; i++) {
        const struct command *c = &commands[i];
        if (strcmp(name, c->name) != 0)
            continue;
        void *it = json_object_iter(o);
        if (strcmp(json_object_iter_key(it), "do") != 0)
            return NULL;
        for (size_t k = 0; k < 2 && c->keys[k].name; k++) {
            it = json_object_iter_next(o, it);
            if (!it || !is_one_of(json_object_iter_key(it), c->keys[k].name) ||
                !value_fits(c, &c->keys[k], json_object_iter_value(it)))
                return NULL;
        }
        return json_object_iter_next(o, it) ? NULL : c;
    }
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------------------ */

static void split_words(struct row *r, const char *request)
{
    char *copy = strdup(request), *save = NULL;
    assert_non_null(copy);
    for (char *p = copy; *p; p++)
        *p = (char)(isalnum((unsigned char)*p) ? tolower((unsigned char)*p) : ' ');
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        size_t i = 0;
        while (i < r->n_words && strcmp(r->words[i], w) != 0)
            i++;
        if (i == r->n_words) {
            assert_true(r->n_words < MAX_WORDS);
            r->words[r->n_words++] = strdup(w);
        }
    }
    free(copy);
}

static void read_file(struct file *f)
{
    char *line = NULL;
    size_t cap = 0;
    FILE *in = fopen(zl_test_source(f->name), "r");
    assert_non_null(in);
    while (getline(&line, &cap, in) > 0) {
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        const char *prompt = json_string_value(json_object_get(o, "prompt"));
        const char *completion = json_string_value(json_object_get(o, "completion"));
        if (!prompt || !completion || json_object_size(o) != 2)
            fail_msg("%s:%zu: not {\"prompt\": ..., \"completion\": ...}", f->name, f->n + 1);
        assert_true(f->n < MAX_ROWS);
        struct row *r = &f->rows[f->n++];
        *r = (struct row){.prompt = strdup(prompt), .completion = strdup(completion)};
        assert_true(r->prompt && r->completion);
        split_words(r, prompt);
        json_decref(o);
    }
    free(line);
    fclose(in);
}

static int read_both(void **state)
{
    (void)state;
    read_file(&train);
    read_file(&held_out);
    return 0;
}

static int free_both(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        struct file *f = t ? &held_out : &train;
        for (size_t i = 0; i < f->n; i++) {
            for (size_t w = 0; w < f->rows[i].n_words; w++)
                free(f->rows[i].words[w]);
            free(f->rows[i].prompt);
            free(f->rows[i].completion);
        }
    }
    return 0;
}

/* ---- tests -------------------------------------------------------------------------------------- */

static void check_rows(const struct file *f, size_t least_of_each)
{
    size_t seen[N_COMMANDS] = {0};
    for (size_t i = 0; i < f->n; i++) {
        const struct row *r = &f->rows[i];
        size_t n = strlen(r->prompt), cue = strlen("\nCommand:");
        if (strncmp(r->prompt, "Request: ", 9) != 0 || n < 9 + cue + 4 || strcmp(r->prompt + n - cue, "\nCommand:") != 0 ||
            strchr(r->prompt, '\n') != r->prompt + n - cue)
            fail_msg("%s:%zu: the prompt is not one request and the cue", f->name, i + 1);

        json_t *o = json_loads(r->completion, JSON_REJECT_DUPLICATES, NULL);
        char *compact = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6));
        if (!compact || r->completion[0] != ' ' || strcmp(compact, r->completion + 1) != 0)
            fail_msg("%s:%zu: the completion is not one blank and compact JSON", f->name, i + 1);
        const struct command *c = command_of(o);
        if (!c)
            fail_msg("%s:%zu: no command of the schema:%s", f->name, i + 1, r->completion);
        seen[c - commands]++;
        free(compact);
        json_decref(o);
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (seen[i] < least_of_each)
            fail_msg("%s: only %zu rows with \"%s\"", f->name, seen[i], commands[i].name);
}

static void training_rows_follow_the_schema(void **state)
{
    (void)state;
    assert_int_equal(train.n, 442);
    check_rows(&train, 20);
}

static void held_out_rows_follow_the_schema(void **state)
{
    (void)state;
    assert_int_equal(held_out.n, 60);
    check_rows(&held_out, 3);
}

static void no_request_occurs_twice(void **state)
{
    (void)state;
    for (size_t i = 0; i < train.n + held_out.n; i++)
        for (size_t j = 0; j < i; j++) {
            const struct row *a = i < train.n ? &train.rows[i] : &held_out.rows[i - train.n];
            const struct row *b = j < train.n ? &train.rows[j] : &held_out.rows[j - train.n];
            assert_string_not_equal(a->prompt, b->prompt);
        }
}

/* Words in both over words in either, "request" and "command" not counted, in percent. */
static unsigned alike_percent(const struct row *a, const struct row *b)
{
    size_t both = 0;
    for (size_t i = 0; i < a->n_words; i++)
        for (size_t j = 0; j < b->n_words; j++)
            both += strcmp(a->words[i], b->words[j]) == 0;
    return (unsigned)(100 * (both - 2) / (a->n_words + b->n_words - both - 2));
}

static void held_out_requests_are_unlike_training_requests(void **state)
{
    (void)state;
    unsigned worst = 0;
    for (size_t i = 0; i < held_out.n; i++)
        for (size_t j = 0; j < train.n; j++) {
            unsigned p = alike_percent(&held_out.rows[i], &train.rows[j]);
            worst = p > worst ? p : worst;
            if (p > MAX_ALIKE_PERCENT)
                fail_msg("%s:%zu and %s:%zu share %u %% of their words", held_out.name, i + 1, train.name, j + 1, p);
        }
    print_message("most alike: %u %% of the words, bound %d %%\n", worst, MAX_ALIKE_PERCENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_rows_follow_the_schema),
        cmocka_unit_test(held_out_rows_follow_the_schema),
        cmocka_unit_test(no_request_occurs_twice),
        cmocka_unit_test(held_out_requests_are_unlike_training_requests),
    };
    return cmocka_run_group_tests(tests, read_both, free_both);
}
