/*
 * `zerolock inspect`: finds out what kind of thing it was given, by content and not by name, and what the kinds share.
 */
#include "config.h"

#include "cmd/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

static bool holds(const char *folder, const char *name)
{
    char *path = zl_path_join(folder, name);
    bool yes = path && access(path, F_OK) == 0;
    free(path);
    return yes;
}

/* Where the adapter of a folder lies: the folder itself when it holds adapter_config.json, its subfolder `adapter` when that does
 * and the folder is not a model's own (a run's folder); else NULL. malloc'd. */
static char *adapter_folder(const char *path)
{
    if (holds(path, "adapter_config.json"))
        return strdup(path);
    if (!holds(path, "config.json") && holds(path, "adapter/adapter_config.json"))
        return zl_path_join(path, "adapter");
    return NULL;
}

void zl_inspect_label(const char *name)
{
    printf("%-14s", name);
}

void zl_inspect_text(const char *s)
{
    for (; *s; s++)
        putchar((unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s);
}

int zl_inspect_json(json_t *value, struct zl_error *err)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!text)
        return zl_fail(err, ZL_EMEMORY, "no memory for the JSON text");
    puts(text);
    free(text);
    return 0;
}

json_t *zl_inspect_string(const char *s)
{
    json_t *value = json_string(s);
    if (value)
        return value;
    char *copy = strdup(s);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = copy ? json_string(copy) : NULL;
    free(copy);
    return value;
}

static int run(const struct zl_inspect_options *o, struct zl_error *err)
{
    if (strcmp(o->what.v[0], "data") == 0)
        return zl_inspect_data(o, err);
    char *adapter = adapter_folder(o->what.v[0]);
    int rc = adapter ? zl_inspect_adapter(o, adapter, err) : zl_inspect_model(o, err);
    free(adapter);
    return rc;
}

int zl_cmd_inspect(int argc, char **argv)
{
    struct zl_inspect_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    int rc = zl_options_parse(&zl_inspect_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED) {
        zl_log_quiet(o.quiet);
        rc = zl_inspect_options_settle(&o, &err);
        if (rc == 0)
            rc = run(&o, &err);
    }
    zl_memory_free(&memory);
    return zl_command_finish(&zl_inspect_command, rc, &err);
}
