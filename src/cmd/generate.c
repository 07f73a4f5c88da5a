/* `zerolock generate`: a prompt in, its continuation out as it is made. The work is src/train's. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "cmd/commands.h"
#include "train/loaded.h"

#define LONGEST_PROMPT ((size_t)64 << 20)

struct output {
    char last; /* byte written */
};

static bool emit(void *context, const char *text, size_t n)
{
    struct output *out = context;
    if (n)
        out->last = text[n - 1];
    return fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0;
}

/* Without PROMPT, or with "-": standard input, less one line end at its end, which a shell's echo adds. */
static int take_prompt(struct zl_generate_options *o, struct zl_memory *m, struct zl_error *err)
{
    char *text = NULL;
    size_t n = 0;
    if (o->prompt && strcmp(o->prompt, "-") != 0)
        return 0;
    int rc = zl_loaded_try(o->model, o->adapter, err); /* who types a prompt wants to know before */
    if (rc)
        return rc;
    rc = zl_stream_read("/dev/stdin", LONGEST_PROMPT, &text, &n, err);
    if (rc)
        return rc;
    o->prompt = zl_memory_keep(m, text);
    if (!o->prompt)
        return zl_fail(err, ZL_EMEMORY, "no memory for the prompt");
    if (strlen(text) != n)
        return zl_fail(err, ZL_EINPUT, "the prompt holds a NUL byte at byte %zu", strlen(text));
    if (n && text[n - 1] == '\n')
        text[n - 1] = '\0';
    return 0;
}

static void tell(const struct zl_generate_result *r)
{
    static const char *const ends[] = {[ZL_GENERATE_EOS] = "the model ended it",
                                       [ZL_GENERATE_STOP] = "ended at a --stop text",
                                       [ZL_GENERATE_LENGTH] = "cut at --max-new-tokens",
                                       [ZL_GENERATE_REFUSED] = "the output takes no more"};
    char read[ZL_NUMBER_TEXT], wrote[ZL_NUMBER_TEXT];
    zl_number_fixed(read, r->prompt_seconds > 0 ? (double)r->prompt_tokens / r->prompt_seconds : 0, 1);
    zl_number_fixed(wrote, r->new_seconds > 0 ? (double)r->new_tokens / r->new_seconds : 0, 1);
    zl_note("read %llu tokens, %s a second, and wrote %llu, %s a second; %s", (unsigned long long)r->prompt_tokens, read,
            (unsigned long long)r->new_tokens, wrote, ends[r->end]);
}

static int run(struct zl_generate_options *o, struct zl_memory *m, struct zl_error *err)
{
    struct output out = {'\n'};
    struct zl_generate_result r = {0};
    o->hooks = zl_process_prepare(o->quiet);
    zl_generate_options_settle(o);
    int rc = take_prompt(o, m, err);
    if (rc == 0)
        rc = zl_generate_run(o, emit, &out, &r, err);
    if (out.last != '\n')
        putchar('\n');
    fflush(stdout);
    if (rc == 0)
        tell(&r);
    return rc;
}

int zl_cmd_generate(int argc, char **argv)
{
    struct zl_generate_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    int rc = zl_options_parse(&zl_generate_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED)
        rc = run(&o, &memory, &err);
    zl_memory_free(&memory);
    return zl_command_finish(&zl_generate_command, rc, &err);
}
