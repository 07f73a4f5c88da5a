/* Spans as lines of text: see picture.h. */
#include <stdlib.h>
#include <string.h>

#include "sim/picture.h"

#define IDLE 0.3 /* a column that is less busy counts as idle */

/* Of kinds that are not shown as the micro-batch's letter. */
static const char marks[ZL_TRACE_SPANS] = {
    [ZL_TRACE_LOCAL_LOSS] = '=', [ZL_TRACE_UPDATE] = '|',     [ZL_TRACE_REPLAY] = '~',     [ZL_TRACE_EVALUATE] = '-',
    [ZL_TRACE_WAIT_INPUT] = '.', [ZL_TRACE_WAIT_SPACE] = '.', [ZL_TRACE_CHECKPOINT] = '#', [ZL_TRACE_SPILL_READ] = '<',
    [ZL_TRACE_SPILL_WRITE] = '>'};

static char mark(const struct zl_trace_event *e)
{
    if (e->kind == ZL_TRACE_FORWARD)
        return (char)('a' + e->micro % 26);
    if (e->kind == ZL_TRACE_BACKWARD)
        return (char)('A' + e->micro % 26);
    return marks[e->kind];
}

/* Time that event e spends in column c of `columns`. */
static double overlap(const struct zl_picture *p, const struct zl_trace_event *e, int c, int columns)
{
    const double each = (double)(p->to_ns - p->from_ns) / columns, left = (double)p->from_ns + each * c, right = left + each;
    const double a = (double)e->begin_ns > left ? (double)e->begin_ns : left, b = (double)e->end_ns < right ? (double)e->end_ns : right;
    return b > a ? (b - a) / each : 0;
}

/* One row: in each column the mark of what took most of it, or a dot where nearly all of it is idle. */
static void fill_row(const struct zl_picture *p, uint32_t row, int columns, char *line, double *best, double *busy)
{
    const double each = (double)(p->to_ns - p->from_ns) / columns;
    memset(line, '.', (size_t)columns);
    line[columns] = 0;
    for (int c = 0; c < columns; c++)
        best[c] = busy[c] = 0;
    for (uint64_t i = 0; i < p->n; i++) {
        const struct zl_trace_event *e = &p->event[i];
        if (e->stage != row || e->kind >= ZL_TRACE_SPANS || e->end_ns <= p->from_ns || e->begin_ns >= p->to_ns || marks[e->kind] == '.')
            continue;
        int c = e->begin_ns <= p->from_ns ? 0 : (int)((double)(e->begin_ns - p->from_ns) / each);
        for (; c < columns && (double)e->end_ns > (double)p->from_ns + each * c; c++) {
            const double o = overlap(p, e, c, columns);
            busy[c] += o;
            if (o > best[c]) {
                best[c] = o;
                line[c] = mark(e);
            }
        }
    }
    const double end = p->end_ns ? (double)(p->end_ns - p->from_ns) : each * columns;
    for (int c = 0; c < columns; c++)
        if (busy[c] < IDLE)
            line[c] = each * (c + 0.5) < end ? '.' : ' ';
    for (int c = columns; c-- > 0 && line[c] == ' ';)
        line[c] = 0;
}

static uint64_t common(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int zl_picture_columns(const struct zl_picture *p, size_t n, int columns)
{
    const uint64_t range = n ? p[0].to_ns - p[0].from_ns : 1;
    uint64_t unit = range;
    for (size_t i = 0; i < n; i++)
        for (uint64_t e = 0; e < p[i].n && range / unit <= (uint64_t)columns; e++)
            if (p[i].event[e].kind < ZL_TRACE_SPANS)
                unit = common(common(unit, p[i].event[e].begin_ns - p[i].from_ns), p[i].event[e].end_ns - p[i].from_ns);
    const uint64_t exact = range / unit;
    return exact > (uint64_t)columns ? columns : (int)((uint64_t)columns / exact * exact);
}

void zl_picture_text(const struct zl_picture *p, int columns, FILE *f)
{
    char *line = malloc((size_t)columns + 1);
    double *best = calloc((size_t)columns, sizeof *best), *busy = calloc((size_t)columns, sizeof *busy);
    for (uint32_t row = 0; line && best && busy && row < p->rows; row++) {
        fill_row(p, row, columns, line, best, busy);
        if (p->label)
            fprintf(f, "%-9s %s\n", p->label[row], line);
        else
            fprintf(f, "stage %-3u %s\n", row, line);
    }
    free(line);
    free(best);
    free(busy);
}

void zl_picture_legend(FILE *f)
{
    fputs("a b c  forward of a micro-batch      A B C  its backward       =  loss\n"
          "|      update                        ~      forward again      .  waiting\n",
          f);
}
