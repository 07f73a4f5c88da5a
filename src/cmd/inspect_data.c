/*
 * `zerolock inspect data FILE...`: the report that training prints before its first step, and some examples with their trained
 * tokens marked. Reads and cuts exactly as training does, so what is shown here is what would be learnt.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/inspect.h"
#include "format/dataset.h"

static int open_tokenizer(const char *path, struct zl_tokenizer **out, struct zl_error *err)
{
    if (zl_is_folder(path))
        return zl_tokenizer_open_dir(path, out, err);
    struct zl_gguf *gguf = NULL;
    int rc = zl_gguf_open(path, &gguf, err);
    if (rc == 0)
        rc = zl_tokenizer_open_gguf(gguf, out, err);
    zl_gguf_close(gguf);
    return rc;
}

static bool wants_colour(void)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !(no_colour && no_colour[0]);
}

static uint64_t examples_shown(const struct zl_inspect_options *o, const struct zl_dataset *d)
{
    return o->examples < d->n_examples ? o->examples : d->n_examples;
}

static void print_text(const struct zl_inspect_options *o, const struct zl_dataset *d, const struct zl_tokenizer *t)
{
    bool colour = wants_colour();
    zl_data_report_print(&d->report, "data", stdout);
    for (uint64_t i = 0; i < examples_shown(o, d); i++) {
        putchar('\n');
        zl_data_print_example(d, i, t, colour, stdout);
    }
}

static json_t *example_json(const struct zl_dataset *d, uint64_t i)
{
    const struct zl_example *e = &d->examples[i];
    json_t *tokens = json_array(), *trained = json_array();
    for (uint64_t k = e->first; k < e->first + e->n; k++) {
        json_array_append_new(tokens, json_integer(d->tokens[k]));
        json_array_append_new(trained, json_integer(d->trained[k]));
    }
    return json_pack("{s:o, s:I, s:b, s:o, s:o}", "file", zl_inspect_string(d->files[e->file]), "line", (json_int_t)e->line, "cut",
                     (int)e->cut, "tokens", tokens, "trained", trained);
}

static int print_json(const struct zl_inspect_options *o, const struct zl_dataset *d, struct zl_error *err)
{
    const struct zl_data_report *r = &d->report;
    json_t *examples = json_array();
    for (uint64_t i = 0; i < examples_shown(o, d); i++)
        json_array_append_new(examples, example_json(d, i));
    return zl_inspect_json(
        json_pack("{s:s, s:I, s:I, s:I, s:{s:I, s:I, s:I}, s:I, s:I, s:I, s:I, s:o}", "kind", "data", "rows", (json_int_t)r->rows,
                  "kept", (json_int_t)r->kept, "cut", (json_int_t)r->cut, "dropped", "nothing_trained",
                  (json_int_t)r->dropped[ZL_DROP_EMPTY], "prompt_too_long", (json_int_t)r->dropped[ZL_DROP_PROMPT_LONG], "too_short",
                  (json_int_t)r->dropped[ZL_DROP_SHORT], "tokens", (json_int_t)r->tokens, "trained", (json_int_t)r->trained,
                  "longest", (json_int_t)r->longest, "text_bytes", (json_int_t)r->text_bytes, "examples", examples),
        err);
}

int zl_inspect_data(const struct zl_inspect_options *o, struct zl_error *err)
{
    struct zl_tokenizer *t = NULL;
    struct zl_dataset d = {0};
    const struct zl_data_options as_trained = {.max_length = (uint32_t)o->max_length, .add_bos_eos = true};
    int rc = open_tokenizer(o->tokenizer, &t, err);
    if (rc == 0)
        rc = zl_dataset_load(o->what.v + 1, o->what.n - 1, t, &as_trained, &d, err);
    if (rc == 0 && o->json)
        rc = print_json(o, &d, err);
    else if (rc == 0)
        print_text(o, &d, t);
    zl_dataset_free(&d);
    zl_tokenizer_close(t);
    return rc;
}
