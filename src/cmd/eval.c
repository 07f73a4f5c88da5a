/* `zerolock eval`: options in, a few numbers out, as text or as one line of JSON. The work is src/train's. */
#include "config.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/number.h"
#include "cmd/commands.h"

static int print_json(const struct zl_eval_result *r, struct zl_error *err)
{
    json_t *v = json_pack("{s:o, s:o, s:o, s:I, s:I, s:f}", "loss", zl_json_number(r->loss), "perplexity", zl_json_number(exp(r->loss)),
                          "token_accuracy", zl_json_number((double)r->correct / (double)r->tokens), "tokens", (json_int_t)r->tokens,
                          "examples", (json_int_t)r->examples, "seconds", r->seconds);
    if (r->compared) {
        json_object_set_new(v, "exact_match", json_real((double)r->matched / (double)r->compared));
        json_object_set_new(v, "matched", json_integer((json_int_t)r->matched));
        json_object_set_new(v, "compared", json_integer((json_int_t)r->compared));
    }
    char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    json_decref(v);
    if (!text)
        return zl_fail(err, ZL_EMEMORY, "no memory for the JSON text");
    puts(text);
    free(text);
    return 0;
}

static void print_text(const struct zl_eval_result *r)
{
    char text[ZL_NUMBER_TEXT];
    zl_number_fixed(text, r->loss, 4);
    printf("loss          %s over %llu trained tokens of %llu examples\n", text, (unsigned long long)r->tokens,
           (unsigned long long)r->examples);
    zl_number_fixed(text, exp(r->loss), 3);
    printf("perplexity    %s\n", text);
    zl_number_fixed(text, 100 * (double)r->correct / (double)r->tokens, 1);
    printf("next token    the likeliest in %s %%\n", text);
    if (!r->compared)
        return;
    zl_number_fixed(text, 100 * (double)r->matched / (double)r->compared, 1);
    printf("exact match   %llu of %llu (%s %%)\n", (unsigned long long)r->matched, (unsigned long long)r->compared, text);
}

static int run(struct zl_eval_options *o, struct zl_error *err)
{
    struct zl_eval_result r = {0};
    o->hooks = zl_process_prepare(o->quiet);
    zl_eval_options_settle(o);
    int rc = zl_eval_run(o, &r, err);
    if (rc == 0 && o->json)
        rc = print_json(&r, err);
    else if (rc == 0)
        print_text(&r);
    return rc;
}

int zl_cmd_eval(int argc, char **argv)
{
    struct zl_eval_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    int rc = zl_options_parse(&zl_eval_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED)
        rc = run(&o, &err);
    zl_memory_free(&memory);
    return zl_command_finish(&zl_eval_command, rc, &err);
}
