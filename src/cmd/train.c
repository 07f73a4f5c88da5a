/* `zerolock train`: options in, the run, exit status out. The work is src/train's. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/commands.h"
#include "pipe/signal.h"
#include "train/supervise.h"
#include "train/train.h"

/* In a process that a supervisor has started: what it was told. */
static void obey(struct zl_train_options *o, const struct zl_supervised *by, struct zl_memory *m)
{
    zl_signals_supervisor(by->parent);
    o->died = zl_memory_keep(m, strdup(by->died));
    if (!by->starts)
        return;
    if (by->goes_on) {
        o->force = o->force && o->resume; /* what was to be overwritten is overwritten */
        o->resume = true;
        o->again = true;
    }
}

/* As a path that means the same from any folder, or as it is. */
static const char *from_anywhere(const char *path, struct zl_memory *m)
{
    char *whole = path ? realpath(path, NULL) : NULL;
    return whole && zl_memory_keep(m, whole) ? whole : path;
}

/* The configuration that is kept gives the same run from any folder. */
static int keep_configuration(struct zl_train_options *o, struct zl_memory *m, struct zl_error *err)
{
    struct zl_train_options kept = *o;
    kept.data.v = zl_memory_keep(m, calloc(o->data.n + 1, sizeof *kept.data.v));
    for (size_t i = 0; kept.data.v && i < o->data.n; i++)
        kept.data.v[i] = from_anywhere(o->data.v[i], m);
    kept.model = from_anywhere(o->model, m);
    kept.eval_data = from_anywhere(o->eval_data, m);
    kept.init_adapter = from_anywhere(o->init_adapter, m);
    kept.spill_dir = from_anywhere(o->spill_dir, m);
    o->configuration = kept.data.v ? zl_memory_keep(m, zl_options_text(&zl_train_command, &kept)) : NULL;
    return o->configuration ? 0 : zl_fail(err, ZL_EMEMORY, "no memory for the options");
}

static int run(struct zl_train_options *o, struct zl_memory *m, struct zl_error *err)
{
    o->hooks = zl_process_prepare(o->quiet || o->again);
    int rc = zl_train_options_settle(o, m, err);
    if (rc)
        return rc;
    rc = keep_configuration(o, m, err);
    return rc ? rc : zl_train_run(o, err);
}

/* A run that is started again reads its data again. */
static int check_readable_again(const struct zl_train_options *o, struct zl_error *err)
{
    for (size_t i = 0; i <= o->data.n; i++) {
        const char *path = i < o->data.n ? o->data.v[i] : o->eval_data;
        struct stat st;
        if (path && stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
            return zl_fail(err, ZL_EUSAGE, "--supervise reads the data again when it starts the run again, and %s is no file but a pipe or the like", path);
    }
    return 0;
}

/* `zerolock train --resume RUN`: the run's own configuration says the rest. What else stands there counts beside it. */
static int complete_line(int *argc, char ***argv, struct zl_memory *m, struct zl_error *err)
{
    static char dashes_config[] = "--config", dashes_output[] = "--output";
    static const char *const names[] = {"resume", "output", "config", NULL};
    unsigned given;
    char *config = NULL;
    const int run = zl_options_look(&zl_train_command, *argc, *argv, names, &given);
    if (run <= 0 || given != 1)
        return 0;
    const int n = *argc + 3;
    char **line = zl_memory_keep(m, calloc((size_t)n + 1, sizeof *line));
    if (!line || asprintf(&config, "%s/config.yaml", (*argv)[run]) < 0 || !zl_memory_keep(m, config))
        return zl_fail(err, ZL_EMEMORY, "no memory for the options");
    int fd; /* what the user names with --config may be a pipe; the run's own is a file */
    struct zl_error why = {0};
    if (zl_file_open(config, &fd, &why))
        return errno == ENOENT || errno == ENOTDIR
                   ? zl_fail_errno(err, ZL_EUSAGE, "%s cannot be resumed: it holds no configuration of a run", (*argv)[run])
                   : zl_fail(err, why.code, "%s", why.text);
    close(fd);
    int at = 0;
    for (int i = 0; i < *argc; i++)
        if (i != run)
            line[at++] = (*argv)[i];
    line[at++] = dashes_config;
    line[at++] = config;
    line[at++] = dashes_output;
    line[at] = (*argv)[run];
    *argv = line;
    *argc = n;
    return 0;
}

int zl_cmd_train(int argc, char **argv)
{
    struct zl_train_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    struct zl_supervised by;
    char *const *whole = argv - 1; /* main's, which begins with the program's name */
    const bool supervised = zl_supervised(&by);
    int rc = complete_line(&argc, &argv, &memory, &err);
    if (!rc)
        rc = zl_options_parse(&zl_train_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED && supervised)
        obey(&o, &by, &memory);
    else if (rc == ZL_PARSED && o.supervise && (rc = check_readable_again(&o, &err)) == 0) {
        const int status = zl_supervise(&(struct zl_supervision){whole, o.output, o.hang_seconds, o.quiet});
        zl_memory_free(&memory);
        return status;
    }
    if (rc == ZL_PARSED)
        rc = run(&o, &memory, &err);
    zl_memory_free(&memory);
    return zl_command_finish(&zl_train_command, rc, &err);
}
