/*
 * Progress of a long job: on a terminal one line that redraws itself, elsewhere (a log, a pipe, TERM=dumb) a plain line now and
 * then. One thread reports; the lines go out through log.h, so notes of other threads do not tear them.
 */
#ifndef ZL_BASE_PROGRESS_H
#define ZL_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known now. */
struct zl_progress_view {
    const char *what; /* "training" */
    uint64_t done, total;
    const char *unit;         /* "step" */
    double loss;              /* NaN: none to show */
    double tokens_per_second; /* <= 0: none to show */
    double seconds_left;      /* < 0: not known yet */
};

struct zl_progress {
    const char *what, *unit;
    uint64_t total;
    int fd;
    bool terminal, colour, quiet, drawn;
    uint64_t started_ns, shown_ns;
    struct zl_progress_view last;
    uint64_t (*clock_ns)(void); /* monotonic; tests put their own here after opening */
};

/* Start: fd is looked at for being a terminal and for its width only (2 as a rule); quiet shows nothing at all. NO_COLOR (set,
 * not empty) switches colour off. */
void zl_progress_open(struct zl_progress *p, int fd, const char *what, const char *unit, uint64_t total, bool quiet);

/* Report: `done` of total units, `tokens` done since the opening, the latest loss (NaN: none). Cheap: at most ten redraws a
 * second on a terminal, one line in ten seconds elsewhere; the terminal's width is asked for at each redraw, so a resize shows at the
 * next one without this layer taking the process's SIGWINCH. */
void zl_progress_update(struct zl_progress *p, uint64_t done, uint64_t tokens, double loss);

/* The last state once more, as a line that stays. */
void zl_progress_close(struct zl_progress *p);

/* The line for a terminal of `columns` columns: never wider than columns - 1, least important parts dropped first. Returns the columns
 * used (escape sequences for colour not counted). For progress.c and its test. */
size_t zl_progress_line(const struct zl_progress_view *v, int columns, bool colour, char *out, size_t size);

/* The line for a log. */
void zl_progress_plain(const struct zl_progress_view *v, char *out, size_t size);

#endif
