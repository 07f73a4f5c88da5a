/*
 * What the program does to its process, and a library must not: signal handlers, talk on standard error. Called once, by the commands
 * that compute, before any thread starts.
 */
#include "config.h"

#include "base/log.h"
#include "cmd/commands.h"
#include "format/tensors.h"
#include "pipe/environment.h"
#include "pipe/segment.h"
#include "pipe/signal.h"

static const char *stop(void *context)
{
    (void)context;
    zl_signals_end_at_once(false); /* from the first question on there is somebody who asks again */
    return zl_signals_pending() ? "a signal" : NULL;
}

static void leave_nothing(void *argument)
{
    (void)argument;
    zl_segment_remove_now();
}

const struct zl_hooks *zl_process_prepare(bool quiet)
{
    static const struct zl_hooks hooks = {.stop = stop};
    char note[256] = "";
    zl_log_quiet(quiet);
    zl_signals_end_at_once(true);
    zl_signals_install();
    zl_tensors_guard_install(leave_nothing, NULL, NULL); /* without it a cut file only ends us with less of a sentence */
    zl_cores_foreign_settings(note);
    if (note[0])
        zl_note("%s", note);
    return &hooks;
}
