/* A chart of lines as a piece of SVG, beside picture.h: series of points over shared axes, each with a colour and a mark of its own. */
#ifndef ZL_SIM_CHART_H
#define ZL_SIM_CHART_H

#include <stddef.h>
#include <stdio.h>

#define ZL_CHART_COLOURS 8

struct zl_series {
    const char *name;
    const double *x, *y; /* [n], x rising; points that are not finite are left out */
    size_t n;
};

/* An <svg> element. title and id as for zl_picture_svg. Without any finite point it says so instead. */
void zl_chart_svg(const struct zl_series *s, size_t n, const char *x_label, const char *y_label, const char *title, const char *id,
                  FILE *f);

/* The colour of series i, for a legend elsewhere: "#2f6fb3". */
const char *zl_chart_colour(size_t i);

/* A line's style for a page with charts, as CSS text. */
extern const char zl_chart_style[];

#endif
