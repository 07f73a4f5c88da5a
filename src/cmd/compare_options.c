/*
 * The options of `zerolock compare`: the table, and the command lines of train that follow from it. All other options are those of train,
 * taken for every run or, in an entry of --schedules, for one.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/entry.h"

#define FIELD(f) .offset = offsetof(struct zl_compare_options, f)

static const struct zl_operand operands[] = {
    {.name = "MODEL", FIELD(model), .help = "The base model: a Hugging Face folder or a GGUF file."},
    {.name = "DATA", FIELD(data), .many = true, .help = "Training data, as for train."},
};

static const struct zl_option options[] = {
    {.name = "schedules",
     .letter = 's',
     .arg = "ENTRY,...",
     .kind = ZL_OPTION_COMMAS,
     FIELD(schedules),
     .fallback = "bp,1f1b,zerolock",
     .group = "Comparison",
     .help = "The runs: names of schedules, each with options of train of its own behind colons, as in "
             "bp:recompute=full,zerolock:readout=ridge:placement=stacked,1f1b:stages=3."},
    {.name = "output",
     .letter = 'o',
     .arg = "DIR",
     .kind = ZL_OPTION_STRING,
     FIELD(output),
     .fallback = "compare",
     .also = "output-dir out",
     .help = "Folder for the page (compare.html), the figures (compare.json) and a folder a run. Made if missing."},
    {.name = "force",
     .letter = 'f',
     .momentary = true,
     .kind = ZL_OPTION_FLAG,
     FIELD(force),
     .also = "overwrite",
     .help = "Overwrite the comparison that DIR already holds."},
    {.name = "json", .kind = ZL_OPTION_FLAG, FIELD(json), .help = "Print the figures as one JSON object instead of a table."},
    {.name = "quiet", .letter = 'q', .kind = ZL_OPTION_FLAG, FIELD(quiet), .help = "No notes, only warnings and errors."},
};

static const char *const usage[] = {"MODEL DATA... [--schedules ENTRY,...] [OPTION]...", NULL};

const struct zl_command zl_compare_command = {
    .name = "compare",
    .summary = "train with several schedules and compare what they take",
    .usage = usage,
    .about = "Train with one schedule after the other under equal conditions, each run a process of its own, and compare speed, idle time, "
             "memory and held-out loss: as a table, and as a page with pictures.",
    .operands = operands,
    .n_operands = sizeof operands / sizeof operands[0],
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .passes = &zl_train_command,
    .passed = offsetof(struct zl_compare_options, passed),
    .given = offsetof(struct zl_compare_options, given),
};

static int no_memory(struct zl_error *err)
{
    return zl_fail(err, ZL_EMEMORY, "no memory for the options");
}

/* "--name=value" or "--name", kept. */
static const char *argument(const char *name, const char *value, struct zl_memory *m)
{
    char *text = NULL;
    if (asprintf(&text, "--%s%s%s", name, value ? "=" : "", value ? value : "") < 0)
        return NULL;
    return zl_memory_keep(m, text);
}

static int check_schedule(const char *name, struct zl_memory *m, struct zl_error *err)
{
    struct zl_train_options scratch = {0};
    return zl_option_set(zl_option_find(&zl_train_command, "schedule", 8), name, "--schedules", &scratch, m, err);
}

static int line_of(const struct zl_compare_options *o, const char *text, const char *const **out, struct zl_memory *m, struct zl_error *err)
{
    static const char *const without[] = {"schedule", "output", "force", "trace", "quiet", NULL};
    struct zl_entry e;
    struct zl_train_options scratch = {0};
    int rc = zl_entry_parse(text, &e, m, err);
    if (!rc)
        rc = check_schedule(e.schedule, m, err);
    if (!rc)
        rc = zl_entry_apply(&e, &zl_train_command, without, &scratch, m, err);
    if (rc)
        return rc;
    const char **argv = zl_memory_keep(m, calloc(o->passed.n + e.n + o->data.n + 4, sizeof *argv));
    if (!argv)
        return no_memory(err);
    size_t n = 0;
    argv[n++] = argument("schedule", e.schedule, m);
    for (size_t i = 0; i < o->passed.n; i++)
        argv[n++] = o->passed.v[i];
    for (size_t i = 0; i < e.n; i++)
        if (!e.pair[i].value || strcmp(e.pair[i].value, "false") != 0)
            argv[n++] = argument(e.pair[i].name, e.pair[i].value && strcmp(e.pair[i].value, "true") == 0 ? NULL : e.pair[i].value, m);
    argv[n++] = "--";
    argv[n++] = o->model;
    for (size_t i = 0; i < o->data.n; i++)
        argv[n++] = o->data.v[i];
    for (size_t i = 0; i < n; i++)
        if (!argv[i])
            return no_memory(err);
    *out = argv;
    return 0;
}

int zl_compare_options_settle(const struct zl_compare_options *o, const char *const **argv, struct zl_memory *m, struct zl_error *err)
{
    static const char *const own[] = {"--schedule=", "--trace="};
    for (size_t i = 0; i < o->passed.n; i++)
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++)
            if (strncmp(o->passed.v[i], own[k], strlen(own[k])) == 0)
                return zl_fail(err, ZL_EUSAGE, "option %.*s is the comparison's own business: --schedules names the schedules, and "
                               "each run is traced", (int)strlen(own[k]) - 1, own[k]);
    int rc = 0;
    for (size_t i = 0; !rc && i < o->schedules.n; i++)
        rc = line_of(o, o->schedules.v[i], &argv[i], m, err);
    return rc;
}
