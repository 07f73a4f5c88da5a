/* The options of `zerolock checkpoint`: their table and what they mean together. */
#include "config.h"

#include <string.h>

#include "base/log.h"
#include "cmd/commands.h"

#define FIELD(f) .offset = offsetof(struct zl_checkpoint_options, f)

static const struct zl_operand operands[] = {
    {.name = "ACTION", FIELD(action), .help = "list: what there is; verify: read all of it and check every byte; restore: go back to one."},
    {.name = "RUN", FIELD(run), .help = "The folder of the run, as given to train."},
};

static const struct zl_option options[] = {
    {.name = "generation",
     .letter = 'g',
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(generation),
     .shown = "the newest that verifies",
     .also = "checkpoint number sequence",
     .group = "Restore",
     .help = "Go back to this one: newer ones are set aside."},
    {.name = "json", .kind = ZL_OPTION_FLAG, FIELD(json), .group = "Output", .help = "Print one JSON object."},
    {.name = "quiet", .letter = 'q', .kind = ZL_OPTION_FLAG, FIELD(quiet), .help = "No notes, only warnings and errors."},
};

static const char *const usage[] = {"list RUN [OPTION]...", "verify RUN [OPTION]...", "restore RUN [OPTION]...", NULL};

const struct zl_command zl_checkpoint_command = {
    .name = "checkpoint",
    .summary = "list, verify and restore a run's checkpoints",
    .usage = usage,
    .about = "Show the checkpoints of a run, prove that they are what was written, or make an older one the one that the run continues "
             "from.",
    .operands = operands,
    .n_operands = sizeof operands / sizeof operands[0],
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .given = offsetof(struct zl_checkpoint_options, given),
};

int zl_checkpoint_options_settle(struct zl_checkpoint_options *o, struct zl_error *err)
{
    static const char *const names[] = {"list", "verify", "restore"};
    size_t i = 0;
    while (i < sizeof names / sizeof names[0] && strcmp(o->action, names[i]) != 0)
        i++;
    if (i == sizeof names / sizeof names[0])
        return zl_fail(err, ZL_EUSAGE, "'%s' is no action, expected list, verify or restore", o->action);
    o->what = (enum zl_checkpoint_action)i;
    if (o->what != ZL_CHECKPOINT_RESTORE && ZL_GIVEN(o, generation))
        zl_note("--generation has an effect only on restore");
    return 0;
}
