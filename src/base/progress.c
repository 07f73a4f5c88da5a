/* Progress of a long job: see progress.h. Composing a line is apart from deciding when to show it, so that both can be tested. */
#include "base/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"

#define REDRAW_NS UINT64_C(100000000)
#define LINE_NS UINT64_C(10000000000)
#define WIDEST_BAR 40

static int terminal_columns(int fd)
{
    struct winsize w;
    return ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

static double share_done(const struct zl_progress_view *v)
{
    if (v->total == 0)
        return 0;
    return v->done >= v->total ? 1 : (double)v->done / (double)v->total;
}

/* The parts behind the bar, most important first. */
enum { PART_STEP, PART_LOSS, PART_LEFT, PART_RATE, PARTS };

static void compose_parts(const struct zl_progress_view *v, char part[PARTS][64])
{
    char number[ZL_NUMBER_TEXT];
    memset(part, 0, PARTS * sizeof part[0]);
    snprintf(part[PART_STEP], sizeof part[0], "%s %llu/%llu", v->unit, (unsigned long long)v->done,
             (unsigned long long)v->total);
    if (!isnan(v->loss)) {
        zl_number_fixed(number, v->loss, 4);
        snprintf(part[PART_LOSS], sizeof part[0], "loss %s", number);
    }
    if (v->seconds_left >= 0) {
        zl_number_seconds(number, v->seconds_left);
        snprintf(part[PART_LEFT], sizeof part[0], "%s left", number);
    }
    if (v->tokens_per_second > 0) {
        zl_number_fixed(number, v->tokens_per_second, v->tokens_per_second < 10 ? 1 : 0);
        snprintf(part[PART_RATE], sizeof part[0], "%s tokens/s", number);
    }
}

/* Put s at out[at], cut to size; at < size. Returns where the next one goes. */
static size_t append(char *out, size_t size, size_t at, const char *s)
{
    size_t n = strlen(s);
    if (n >= size - at)
        n = size - at - 1;
    memcpy(out + at, s, n);
    out[at + n] = '\0';
    return at + n;
}

size_t zl_progress_line(const struct zl_progress_view *v, int columns, bool colour, char *out, size_t size)
{
    char part[PARTS][64];
    compose_parts(v, part);
    size_t room = columns > 1 ? (size_t)columns - 1 : 0, used = 0, at = 0;
    out[0] = '\0';
    int parts = 0;
    for (; parts < PARTS; parts++) {
        size_t need = part[parts][0] ? strlen(part[parts]) + (used ? 2 : 0) : 0;
        if (used + need > room)
            break;
        used += need;
    }
    if (parts == 0) { /* not even the counter fits: the share alone, or nothing */
        char percent[8];
        snprintf(percent, sizeof percent, "%d%%", (int)(100 * share_done(v) + 1e-9));
        if (strlen(percent) > room)
            return 0;
        append(out, size, 0, percent);
        return strlen(percent);
    }
    size_t title = strlen(v->what) + 1, frame = 2 + 2; /* "[…]" and two blanks */
    if (parts == PARTS && used + title + frame + 8 <= room) {
        at = append(out, size, at, v->what);
        at = append(out, size, at, " ");
        used += title;
    }
    if (parts == PARTS && used + frame + 8 <= room) {
        size_t width = room - used - frame;
        if (width > WIDEST_BAR)
            width = WIDEST_BAR;
        size_t full = (size_t)(share_done(v) * (double)width);
        char bar[WIDEST_BAR + 1];
        memset(bar, '#', full);
        bar[full] = '\0';
        at = append(out, size, at, colour ? "[\033[32m" : "[");
        at = append(out, size, at, bar);
        memset(bar, '.', width - full);
        bar[width - full] = '\0';
        at = append(out, size, at, colour ? "\033[0;2m" : "");
        at = append(out, size, at, bar);
        at = append(out, size, at, colour ? "\033[0m]  " : "]  ");
        used += width + frame;
    }
    for (int i = 0, first = 1; i < parts; i++) {
        if (!part[i][0])
            continue;
        at = append(out, size, at, first ? "" : "  ");
        at = append(out, size, at, part[i]);
        first = 0;
    }
    return used;
}

void zl_progress_plain(const struct zl_progress_view *v, char *out, size_t size)
{
    char part[PARTS][64];
    compose_parts(v, part);
    size_t at = append(out, size, 0, v->what);
    for (int i = 0; i < PARTS; i++) {
        if (!part[i][0])
            continue;
        at = append(out, size, at, i == PART_STEP ? ": " : ", ");
        at = append(out, size, at, part[i]);
    }
}

void zl_progress_open(struct zl_progress *p, int fd, const char *what, const char *unit, uint64_t total, bool quiet)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    *p = (struct zl_progress){.what = what,
                              .unit = unit,
                              .total = total,
                              .fd = fd,
                              .quiet = quiet,
                              .clock_ns = zl_clock_ns};
    p->terminal = isatty(fd) && term && strcmp(term, "dumb") != 0;
    p->colour = p->terminal && !(no_colour && no_colour[0]);
    p->started_ns = p->shown_ns = p->clock_ns();
    p->last.loss = NAN;
}

static void show(struct zl_progress *p, bool stays)
{
    char text[512];
    if (p->terminal && !stays) {
        zl_progress_line(&p->last, terminal_columns(p->fd), p->colour, text, sizeof text);
        zl_log_status(text);
    } else {
        zl_progress_plain(&p->last, text, sizeof text);
        zl_note("%s", text);
    }
    p->drawn = true;
}

void zl_progress_update(struct zl_progress *p, uint64_t done, uint64_t tokens, double loss)
{
    if (p->quiet)
        return;
    uint64_t now = p->clock_ns();
    double elapsed = (double)(now - p->started_ns) * 1e-9;
    uint64_t left = p->total > done ? p->total - done : 0;
    p->last = (struct zl_progress_view){
        .what = p->what,
        .unit = p->unit,
        .done = done,
        .total = p->total,
        .loss = loss,
        .tokens_per_second = elapsed > 0 ? (double)tokens / elapsed : 0,
        .seconds_left = done ? elapsed / (double)done * (double)left : -1,
    };
    if (now - p->shown_ns < (p->terminal ? REDRAW_NS : LINE_NS) && (p->drawn || !p->terminal))
        return;
    p->shown_ns = now;
    show(p, false);
}

void zl_progress_close(struct zl_progress *p)
{
    if (p->quiet || !p->last.what)
        return;
    if (p->terminal)
        zl_log_status(NULL);
    p->last.seconds_left = -1;
    show(p, true);
    p->last.what = NULL;
}
