/* Spans as SVG: see picture.h. Colours keep their order of lightness, so that they differ in print and to every kind of eye. */
#include <stdbool.h>
#include <string.h>

#include "base/number.h"
#include "sim/picture.h"

#define LEFT      70 /* room for the labels */
#define ROW       24
#define BAR       20
#define AXIS      22
#define RECTS     4000 /* of a picture, at most */
#define LETTERING 16   /* a span of this width has the micro-batch's number in it */

static const struct {
    const char *class, *word;
} looks[ZL_TRACE_SPANS] = {
    [ZL_TRACE_FORWARD] = {"f", "forward"},         [ZL_TRACE_LOCAL_LOSS] = {"l", "loss"},
    [ZL_TRACE_BACKWARD] = {"b", "backward"},       [ZL_TRACE_UPDATE] = {"u", "update"},
    [ZL_TRACE_REPLAY] = {"r", "forward again"},    [ZL_TRACE_EVALUATE] = {"e", "evaluation"},
    [ZL_TRACE_CHECKPOINT] = {"c", "checkpoint"},   [ZL_TRACE_SPILL_READ] = {"s", "spill"},
    [ZL_TRACE_SPILL_WRITE] = {"s", "spill"},       [ZL_TRACE_WAIT_INPUT] = {NULL, NULL},
    [ZL_TRACE_WAIT_SPACE] = {NULL, NULL},
};

const char zl_picture_style[] =
    ".zl text{font:12px system-ui,sans-serif;fill:#222}.zl .h{font-size:14px;font-weight:600}"
    ".zl .n{font-size:10px;fill:#fff;text-anchor:middle}.zl .d{fill:#222}"
    ".zl .w{fill:#eceef1}.zl .f{fill:#2f6fb3}.zl .l{fill:#e0a93b}.zl .b{fill:#1c7f5c}.zl .u{fill:#a3243b}.zl .r{fill:#8a63b8}"
    ".zl .e{fill:#9db7d1}.zl .c{fill:#111}.zl .s{fill:#7c6a58}.zl line{stroke:#999}";

void zl_xml_text(const char *text, FILE *f)
{
    for (const char *s = text; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '&')
            fputs("&amp;", f);
        else if (c == '<')
            fputs("&lt;", f);
        else if (c == '>')
            fputs("&gt;", f);
        else if (c == '"')
            fputs("&quot;", f);
        else if (c == '\'')
            fputs("&#39;", f);
        else if (c < 32 && c != '\n' && c != '\t')
            fputc('?', f);
        else
            fputc(c, f);
    }
}

/* A number with two decimals, in a static buffer of eight turns. */
static const char *number(double v)
{
    static _Thread_local char text[8][ZL_NUMBER_TEXT];
    static _Thread_local unsigned turn;
    char *t = text[turn++ % 8];
    zl_number_fixed(t, v, 2);
    return t;
}

static const char *duration(uint64_t ns)
{
    static _Thread_local char text[2][ZL_NUMBER_TEXT + 4];
    static _Thread_local unsigned turn;
    char *t = text[turn++ % 2], digits[ZL_NUMBER_TEXT];
    const bool seconds = ns >= 1000000000u;
    zl_number_fixed(digits, (double)ns / (seconds ? 1e9 : 1e6), seconds ? 2 : ns < 10000000u ? 2 : 0);
    snprintf(t, sizeof text[0], "%s %s", digits, seconds ? "s" : "ms");
    return t;
}

/* A step of the axis: 1, 2 or 5 times a power of ten, four to ten of them in the picture. */
static uint64_t axis_step(uint64_t range)
{
    uint64_t step = 1;
    for (int i = 0; range / step > 10; i++)
        step = step / (i % 3 == 1 ? 2 : 1) * (i % 3 == 1 ? 5 : 2); /* 1 2 5 10 20 50 … */
    return step ? step : 1;
}

static void draw_axis(const struct zl_picture *p, double scale, double y, FILE *f)
{
    const uint64_t range = p->to_ns - p->from_ns, step = axis_step(range);
    for (uint64_t t = 0; t <= range; t += step) {
        const double x = LEFT + (double)t * scale;
        fprintf(f, "<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>", number(x), number(y), number(x), number(y + 4));
        fprintf(f, "<text x=\"%s\" y=\"%s\" text-anchor=\"%s\">%s</text>\n", number(x), number(y + 17),
                t == 0 ? "start" : t + step > range ? "end" : "middle", t ? duration(t) : "0");
    }
}

static void draw(const struct zl_trace_event *e, double x, double width, double y, FILE *f)
{
    fprintf(f, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%d\">", looks[e->kind].class, number(x), number(y),
            number(width), BAR);
    fprintf(f, "<title>stage %u: %s, micro-batch %u, step %u, %s</title></rect>", e->stage, looks[e->kind].word, e->micro, e->step,
            duration(e->end_ns - e->begin_ns));
    const bool pale = e->kind == ZL_TRACE_LOCAL_LOSS || e->kind == ZL_TRACE_EVALUATE;
    if (width >= LETTERING && e->kind != ZL_TRACE_UPDATE)
        fprintf(f, "<text class=\"n%s\" x=\"%s\" y=\"%s\">%u</text>", pale ? " d" : "", number(x + width / 2), number(y + 14), e->micro);
    fputc('\n', f);
}

/* Spans shorter than this are left out, so that the picture has no more than RECTS of them. */
static uint64_t shortest(const struct zl_picture *p)
{
    for (uint64_t least = 0;; least = least ? least * 2 : (p->to_ns - p->from_ns) / 20000 + 1) {
        uint64_t n = 0;
        for (uint64_t i = 0; i < p->n; i++) {
            const struct zl_trace_event *e = &p->event[i];
            n += e->kind < ZL_TRACE_SPANS && looks[e->kind].class && e->end_ns > p->from_ns && e->begin_ns < p->to_ns &&
                 e->end_ns - e->begin_ns >= least;
        }
        if (n <= RECTS)
            return least;
    }
}

unsigned zl_picture_height(uint32_t rows)
{
    return rows * ROW + AXIS;
}

void zl_picture_svg(const struct zl_picture *p, int width, const char *title, const char *id, FILE *f)
{
    const double scale = (double)(width - LEFT - 4) / (double)(p->to_ns - p->from_ns);
    const uint64_t least = shortest(p), end = p->end_ns ? p->end_ns : p->to_ns;
    fprintf(f, "<svg class=\"zl\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" role=\"img\" aria-labelledby=\"%s\">\n", width,
            zl_picture_height(p->rows), id);
    fprintf(f, "<title id=\"%s\">", id);
    zl_xml_text(title, f);
    fputs("</title>\n", f);
    for (uint32_t row = 0; row < p->rows; row++) {
        const double y = row * ROW + 2;
        fprintf(f, "<text x=\"0\" y=\"%s\">", number(y + 15));
        if (p->label)
            zl_xml_text(p->label[row], f);
        else
            fprintf(f, "stage %u", row);
        fprintf(f, "</text><rect class=\"w\" x=\"%d\" y=\"%s\" width=\"%s\" height=\"%d\"/>\n", LEFT, number(y),
                number((double)(end - p->from_ns) * scale), BAR);
    }
    for (uint64_t i = 0; i < p->n; i++) {
        const struct zl_trace_event *e = &p->event[i];
        if (e->kind >= ZL_TRACE_SPANS || !looks[e->kind].class || e->stage >= p->rows || e->end_ns <= p->from_ns ||
            e->begin_ns >= p->to_ns || e->end_ns - e->begin_ns < least)
            continue;
        const uint64_t a = e->begin_ns > p->from_ns ? e->begin_ns - p->from_ns : 0;
        const uint64_t b = (e->end_ns < p->to_ns ? e->end_ns : p->to_ns) - p->from_ns;
        const double w = (double)(b - a) * scale;
        draw(e, LEFT + (double)a * scale, w > 1.2 ? w - 0.6 : w, e->stage * ROW + 2, f);
    }
    draw_axis(p, scale, p->rows * ROW + 1, f);
    fputs("</svg>\n", f);
}

void zl_picture_svg_legend(int width, FILE *f)
{
    static const enum zl_trace_kind shown[] = {ZL_TRACE_FORWARD, ZL_TRACE_LOCAL_LOSS, ZL_TRACE_BACKWARD, ZL_TRACE_REPLAY,
                                               ZL_TRACE_UPDATE,  ZL_TRACE_EVALUATE,   ZL_TRACE_SPILL_READ, ZL_TRACE_CHECKPOINT};
    fputs("<svg class=\"zl\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"what the colours mean\" ", f);
    fprintf(f, "viewBox=\"0 0 %d 22\">\n", width);
    int x = 0;
    for (size_t i = 0; i <= sizeof shown / sizeof shown[0]; i++) {
        const bool end = i == sizeof shown / sizeof shown[0];
        const char *word = end ? "waiting" : looks[shown[i]].word;
        fprintf(f, "<rect class=\"%s\" x=\"%d\" y=\"4\" width=\"14\" height=\"14\"/><text x=\"%d\" y=\"15\">%s</text>\n",
                end ? "w" : looks[shown[i]].class, x, x + 19, word);
        x += 36 + 7 * (int)strlen(word);
    }
    fputs("</svg>\n", f);
}
