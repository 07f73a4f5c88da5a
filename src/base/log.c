/*
 * What the program says: see log.h. Invariant: under one lock, every write is whole lines plus, when a status line stands, the
 * sequence erase - line - status, so nothing is torn between threads and no note is lost under the bar.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ERASE "\r\033[K" /* to the first column, clear to the end of the line */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static bool quiet_notes;
static char status[1024];
static char **said; /* keys of zl_note_once */
static size_t n_said;
static _Thread_local struct {
    void (*say)(void *context, bool warning, const char *text);
    void *context;
} own; /* of the calling thread; needs no lock */

/* A failed write to standard error has nowhere to be reported. */
static void put(const char *s, size_t n)
{
    while (n && log_fd >= 0) {
        ssize_t w = write(log_fd, s, n);
        if (w <= 0)
            return;
        s += w;
        n -= (size_t)w;
    }
}

static void line(const char *kind, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void line(const char *kind, const char *fmt, va_list ap)
{
    char text[2048];
    int n = snprintf(text, sizeof text, "%szerolock: %s", status[0] ? ERASE : "", kind);
    int m = vsnprintf(text + n, sizeof text - (size_t)n - 1, fmt, ap);
    size_t end = (size_t)n + (m > 0 ? (size_t)m : 0);
    if (end > sizeof text - 2)
        end = sizeof text - 2;
    text[end++] = '\n';
    put(text, end);
    if (status[0])
        put(status, strlen(status));
}

/* A line to the thread's own function, where it has one. */
static bool told(bool warning, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static bool told(bool warning, const char *fmt, va_list ap)
{
    char text[2048];
    if (!own.say)
        return false;
    vsnprintf(text, sizeof text, fmt, ap);
    own.say(own.context, warning, text);
    return true;
}

void zl_log_thread_to(void (*say)(void *context, bool warning, const char *text), void *context)
{
    own.say = say;
    own.context = context;
}

void zl_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (told(false, fmt, ap)) {
        va_end(ap);
        return;
    }
    pthread_mutex_lock(&lock);
    if (!quiet_notes)
        line("", fmt, ap);
    pthread_mutex_unlock(&lock);
    va_end(ap);
}

/* Remember key; false when it was there. Without memory to remember, saying it twice is the lesser evil. */
static bool first_time(const char *key)
{
    for (size_t i = 0; i < n_said; i++)
        if (strcmp(said[i], key) == 0)
            return false;
    char **more = realloc(said, (n_said + 1) * sizeof *said);
    if (!more)
        return true;
    said = more;
    said[n_said] = strdup(key);
    n_said += said[n_said] != NULL;
    return true;
}

void zl_note_once(const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    pthread_mutex_lock(&lock);
    bool say = (own.say || !quiet_notes) && first_time(key);
    if (say && !own.say)
        line("", fmt, ap);
    pthread_mutex_unlock(&lock);
    if (say)
        told(false, fmt, ap);
    va_end(ap);
}

void zl_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (told(true, fmt, ap)) {
        va_end(ap);
        return;
    }
    pthread_mutex_lock(&lock);
    line("warning: ", fmt, ap);
    pthread_mutex_unlock(&lock);
    va_end(ap);
}

static void plain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void plain(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line("", fmt, ap);
    va_end(ap);
}

void zl_log_error(const struct zl_error *err)
{
    pthread_mutex_lock(&lock);
    plain("%s", err->text);
    pthread_mutex_unlock(&lock);
}

void zl_log_quiet(bool quiet)
{
    pthread_mutex_lock(&lock);
    quiet_notes = quiet;
    pthread_mutex_unlock(&lock);
}

void zl_log_to(int fd)
{
    pthread_mutex_lock(&lock);
    log_fd = fd;
    pthread_mutex_unlock(&lock);
}

void zl_log_status(const char *text)
{
    char out[sizeof status + sizeof ERASE];
    pthread_mutex_lock(&lock);
    bool stood = status[0];
    snprintf(status, sizeof status, "%s", text ? text : "");
    if (stood || status[0]) {
        int n = snprintf(out, sizeof out, "%s%s", ERASE, status);
        put(out, (size_t)n < sizeof out ? (size_t)n : sizeof out - 1);
    }
    pthread_mutex_unlock(&lock);
}
