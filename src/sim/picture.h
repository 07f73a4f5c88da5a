/*
 * Pictures of spans, simulated or traced: a row a stage, time to the right. As text, where a column shows what took most of its time; and
 * as a piece of SVG that stands alone or inside a page. Waiting is drawn as nothing. Knows no files.
 */
#ifndef ZL_SIM_PICTURE_H
#define ZL_SIM_PICTURE_H

#include <stddef.h>
#include <stdio.h>

#include "pipe/trace.h"

struct zl_picture {
    const struct zl_trace_event *event;
    uint64_t n;
    uint32_t rows;             /* stages */
    uint64_t from_ns, to_ns;   /* what is shown, from < to */
    uint64_t end_ns;           /* where what is shown ends, before to_ns: nothing is drawn behind it; 0: to_ns */
    const char *const *label;  /* [rows]; NULL: "stage 0", … */
};

/* rows lines of `columns` characters behind the label. A micro-batch is a letter, small in its forward, large in its backward; the other
 * marks are those of zl_picture_legend. */
void zl_picture_text(const struct zl_picture *p, int columns, FILE *f);
void zl_picture_legend(FILE *f);
/* At most `columns`: so many that in all of the pictures, which show the same time, every span fills whole columns, where that can be. */
int zl_picture_columns(const struct zl_picture *p, size_t n, int columns);

/* An <svg> element `width` units wide. title: what it shows, for those who cannot see it too. Of more than a few thousand spans the
 * shortest are left out. id: unique in the page. */
void zl_picture_svg(const struct zl_picture *p, int width, const char *title, const char *id, FILE *f);
unsigned zl_picture_height(uint32_t rows); /* of that element, in the same units */
/* The colours' meaning as an SVG element, and the style that every picture of a page shares (CSS text, light and dark). */
void zl_picture_svg_legend(int width, FILE *f);
extern const char zl_picture_style[];

/* Text as XML: &, <, >, quotes escaped, bytes that XML cannot hold replaced. */
void zl_xml_text(const char *text, FILE *f);

#endif
