/* `zerolock train`: options in, the run, exit status out. The work is src/train's. */
#include "config.h"

#include <stdlib.h>

#include "cmd/commands.h"
#include "train/train.h"

static int run(struct zl_train_options *o, struct zl_memory *m, struct zl_error *err)
{
    o->hooks = zl_process_prepare(o->quiet);
    int rc = zl_train_options_settle(o, m, err);
    if (rc)
        return rc;
    o->configuration = zl_memory_keep(m, zl_options_text(&zl_train_command, o));
    if (!o->configuration)
        return zl_fail(err, ZL_EMEMORY, "no memory for the options");
    return zl_train_run(o, err);
}

int zl_cmd_train(int argc, char **argv)
{
    struct zl_train_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    int rc = zl_options_parse(&zl_train_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED)
        rc = run(&o, &memory, &err);
    zl_memory_free(&memory);
    return zl_command_finish(&zl_train_command, rc, &err);
}
