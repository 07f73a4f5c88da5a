/* Notes and warnings of the calling thread, handed to the caller: the log's lines without the log. */
#include "base/log.h"
#include "zerolock.h"

/* The caller's function takes an int where ours takes a bool, so that C++ and other languages see a plain type. */
static _Thread_local struct {
    void (*say)(void *context, int is_warning, const char *text);
    void *context;
} caller;

static void pass_on(void *context, bool warning, const char *text)
{
    (void)context;
    caller.say(caller.context, warning, text);
}

void zerolock_messages(void (*say)(void *context, int is_warning, const char *text), void *context)
{
    caller.say = say;
    caller.context = context;
    zl_log_thread_to(say ? pass_on : NULL, NULL);
}
