/* `zerolock plan`: the options of train in, the plan of that run out. The work is src/train's. */
#include "config.h"

#include <stdio.h>

#include "cmd/commands.h"
#include "train/plan.h"

int zl_cmd_plan(int argc, char **argv)
{
    struct zl_train_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    int rc = zl_options_parse(&zl_plan_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED) {
        o.hooks = zl_process_prepare(o.quiet);
        rc = zl_train_options_settle(&o, &memory, &err);
        if (!rc)
            rc = zl_plan_run(&o, stdout, &err);
    }
    zl_memory_free(&memory);
    return zl_command_finish(&zl_plan_command, rc, &err);
}
