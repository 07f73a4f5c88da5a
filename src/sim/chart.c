/* Lines over axes as SVG: see chart.h. */
#include "sim/chart.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/number.h"
#include "sim/picture.h"

#define WIDTH  960.0
#define HEIGHT 340.0
#define LEFT   64.0
#define RIGHT  20.0
#define TOP    14.0
#define BOTTOM 48.0
#define TICKS  6

static const char *const colours[ZL_CHART_COLOURS] = {"#2f6fb3", "#b3442f", "#1c7f5c", "#8a63b8", "#8a6d00", "#00798c", "#a3243b", "#444"};

const char zl_chart_style[] = ".ch text{font:12px system-ui,sans-serif;fill:#222}.ch .g{stroke:#e3e5e8}.ch .a{stroke:#777}"
                              ".ch polyline{fill:none;stroke-width:2}.ch .m{text-anchor:middle}.ch .e{text-anchor:end}";

const char *zl_chart_colour(size_t i)
{
    return colours[i % ZL_CHART_COLOURS];
}

struct axis {
    double low, high, step;
    int decimals;
};

static bool counts(const struct zl_series *s, size_t i)
{
    return isfinite(s->x[i]) && isfinite(s->y[i]);
}

/* Round numbers around [low, high]. */
static struct axis axis_of(double low, double high)
{
    struct axis a = {.low = low, .high = high};
    const double range = high > low ? high - low : fabs(high) > 0 ? fabs(high) : 1, raw = range / TICKS;
    const double power = pow(10, floor(log10(raw))), share = raw / power;
    a.step = power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
    a.low = floor(low / a.step) * a.step;
    a.high = ceil(high / a.step) * a.step;
    if (a.high <= a.low)
        a.high = a.low + a.step;
    a.decimals = a.step >= 1 ? 0 : (int)ceil(-log10(a.step) - 1e-9);
    return a;
}

static double place(const struct axis *a, double v, double from, double to)
{
    return from + (v - a->low) / (a->high - a->low) * (to - from);
}

/* Two decimals, in a static buffer of eight turns. */
static const char *at(double v)
{
    static _Thread_local char text[8][ZL_NUMBER_TEXT];
    static _Thread_local unsigned turn;
    char *t = text[turn++ % 8];
    zl_number_fixed(t, v, 2);
    return t;
}

static void draw_axes(const struct axis *x, const struct axis *y, const char *x_label, const char *y_label, FILE *f)
{
    char text[ZL_NUMBER_TEXT];
    for (int i = 0; y->low + i * y->step <= y->high + y->step / 2; i++) {
        const double v = y->low + i * y->step, p = place(y, v, HEIGHT - BOTTOM, TOP);
        zl_number_fixed(text, v, y->decimals > 9 ? 9 : y->decimals);
        fprintf(f, "<line class=\"g\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>", at(LEFT), at(p), at(WIDTH - RIGHT), at(p));
        fprintf(f, "<text class=\"e\" x=\"%s\" y=\"%s\">%s</text>\n", at(LEFT - 8), at(p + 4), text);
    }
    for (int i = 0; x->low + i * x->step <= x->high + x->step / 2; i++) {
        const double v = x->low + i * x->step, p = place(x, v, LEFT, WIDTH - RIGHT);
        zl_number_fixed(text, v, x->decimals > 9 ? 9 : x->decimals);
        fprintf(f, "<line class=\"a\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>", at(p), at(HEIGHT - BOTTOM), at(p),
                at(HEIGHT - BOTTOM + 5));
        fprintf(f, "<text class=\"m\" x=\"%s\" y=\"%s\">%s</text>\n", at(p), at(HEIGHT - BOTTOM + 18), text);
    }
    fprintf(f, "<text class=\"e\" x=\"%s\" y=\"%s\">", at(WIDTH - RIGHT), at(HEIGHT - 10));
    zl_xml_text(x_label, f);
    fprintf(f, "</text><text x=\"%s\" y=\"%s\">", at(LEFT + 6), at(TOP + 10));
    zl_xml_text(y_label, f);
    fputs("</text>\n", f);
}

/* Marks differ too: circle, square, diamond, triangle. */
static void draw_mark(size_t i, double x, double y, FILE *f)
{
    const char *colour = zl_chart_colour(i);
    if (i % 4 == 0)
        fprintf(f, "<circle cx=\"%s\" cy=\"%s\" r=\"4\" fill=\"%s\">", at(x), at(y), colour);
    else if (i % 4 == 1)
        fprintf(f, "<rect x=\"%s\" y=\"%s\" width=\"7\" height=\"7\" fill=\"%s\">", at(x - 3.5), at(y - 3.5), colour);
    else if (i % 4 == 2)
        fprintf(f, "<polygon points=\"%s,%s %s,%s %s,%s %s,%s\" fill=\"%s\">", at(x - 5), at(y), at(x), at(y - 5), at(x + 5), at(y),
                at(x), at(y + 5), colour);
    else
        fprintf(f, "<polygon points=\"%s,%s %s,%s %s,%s\" fill=\"%s\">", at(x - 5), at(y + 4), at(x), at(y - 5), at(x + 5), at(y + 4),
                colour);
}

static void draw_series(const struct zl_series *s, size_t i, const struct axis *x, const struct axis *y, FILE *f)
{
    fprintf(f, "<g><polyline stroke=\"%s\" points=\"", zl_chart_colour(i));
    for (size_t p = 0; p < s->n; p++)
        if (counts(s, p))
            fprintf(f, "%s,%s ", at(place(x, s->x[p], LEFT, WIDTH - RIGHT)), at(place(y, s->y[p], HEIGHT - BOTTOM, TOP)));
    fputs("\"/>\n", f);
    for (size_t p = 0; p < s->n; p++) {
        if (!counts(s, p))
            continue;
        const size_t kind = i % 4;
        char value[2][ZL_NUMBER_TEXT];
        zl_number_fixed(value[0], s->x[p], x->decimals + 1 > 9 ? 9 : x->decimals + 1);
        zl_number_fixed(value[1], s->y[p], 4);
        draw_mark(i, place(x, s->x[p], LEFT, WIDTH - RIGHT), place(y, s->y[p], HEIGHT - BOTTOM, TOP), f);
        fputs("<title>", f);
        zl_xml_text(s->name, f);
        fprintf(f, ": %s at %s</title></%s>\n", value[1], value[0], kind == 0 ? "circle" : kind == 1 ? "rect" : "polygon");
    }
    fputs("</g>\n", f);
}

void zl_chart_svg(const struct zl_series *s, size_t n, const char *x_label, const char *y_label, const char *title, const char *id, FILE *f)
{
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < s[i].n; p++) {
            if (!counts(&s[i], p))
                continue;
            low[0] = fmin(low[0], s[i].x[p]);
            high[0] = fmax(high[0], s[i].x[p]);
            low[1] = fmin(low[1], s[i].y[p]);
            high[1] = fmax(high[1], s[i].y[p]);
        }
    fprintf(f, "<svg class=\"ch\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s\">\n",
            (int)WIDTH, (int)HEIGHT, id);
    fprintf(f, "<title id=\"%s\">", id);
    zl_xml_text(title, f);
    fputs("</title>\n", f);
    if (low[0] > high[0]) {
        fprintf(f, "<text x=\"%s\" y=\"%s\">nothing was measured</text>\n</svg>\n", at(LEFT), at(HEIGHT / 2));
        return;
    }
    const struct axis x = axis_of(low[0], high[0]), y = axis_of(low[1], high[1]);
    draw_axes(&x, &y, x_label, y_label, f);
    for (size_t i = 0; i < n; i++)
        draw_series(&s[i], i, &x, &y, f);
    fputs("</svg>\n", f);
}
