/*
 * What the program says to people: whole lines on standard error, "zerolock: " before each, from any thread; and below them, on
 * a terminal, at most one status line that stays at the bottom (the progress bar's). Results never go through here.
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
bool zl_log_is_quiet(void);

/* Where lines go: file descriptor 2 unless a test says otherwise. */
void zl_log_to(int fd);

/* Replace the status line (no newline, no wider than the terminal); NULL or "" takes it away. Only for terminals: the caller has
 * checked that. Lines printed while one stands appear above it. */
void zl_log_status(const char *line);

#endif
