/*
 * What is said to people. In the program: whole lines on standard error, "zerolock: " before each, from any thread; and below them,
 * on a terminal, at most one status line that stays at the bottom (the progress bar's). In a library nothing is written: a thread's
 * lines go to the function that it named, or nowhere. Results never go through here.
 */
#ifndef ZL_BASE_LOG_H
#define ZL_BASE_LOG_H

#include <stdbool.h>

#include "base/error.h"

/* Something worth knowing that needs no action. Dropped when quiet. */
void zl_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* As zl_note, but only the first time for `key` in this process. */
void zl_note_once(const char *key, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Something that is likely not what the user wanted: "zerolock: warning: …". Never dropped. */
void zl_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The sentence of a failure. Never dropped. */
void zl_log_error(const struct zl_error *err);

void zl_log_quiet(bool quiet); /* drop notes */

/* Where lines go: nowhere (-1) until the program, in main, says which file descriptor. */
void zl_log_to(int fd);

/* Lines of the calling thread go to `say` from now on, quiet or not, without prefix and newline, instead of the descriptor; NULL: to the
 * descriptor again. `say` must not log. */
void zl_log_thread_to(void (*say)(void *context, bool warning, const char *text), void *context);

/* Replace the status line (no newline, no wider than the terminal); NULL or "" takes it away. Only for terminals: the caller has
 * checked that. Lines printed while one stands appear above it. */
void zl_log_status(const char *line);

#endif
