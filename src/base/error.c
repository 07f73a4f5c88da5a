/* Errors: see error.h. Formatting only; nothing here allocates, so it works when memory is what failed. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int fail(struct zl_error *e, int code, int saved_errno, const char *fmt, va_list ap)
{
    if (!e || e->code)
        return code;
    e->code = code;
    int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
    if (saved_errno && n >= 0 && (size_t)n < sizeof e->text)
        snprintf(e->text + n, sizeof e->text - (size_t)n, ": %s", strerror(saved_errno));
    return code;
}

int zl_fail(struct zl_error *e, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(e, code, 0, fmt, ap);
    va_end(ap);
    return code;
}

int zl_fail_errno(struct zl_error *e, int code, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    fail(e, code, saved, fmt, ap);
    va_end(ap);
    return code;
}

int zl_fail_prefix(struct zl_error *e, const char *fmt, ...)
{
    if (!e)
        return ZL_EINPUT;
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n + 3 > sizeof e->text)
        return e->code;
    /* what does not fit is cut */
    const size_t room = sizeof e->text - (size_t)n - 3, length = strnlen(old, sizeof old);
    memcpy(e->text + n, ": ", 2);
    memcpy(e->text + n + 2, old, length < room ? length : room);
    e->text[(size_t)n + 2 + (length < room ? length : room)] = '\0';
    return e->code;
}
