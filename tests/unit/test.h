/*
 * What every unit test includes: cmocka with the headers it wants first, and paths of the reference data.
 */
#ifndef ZL_TEST_H
#define ZL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Path of a file below the reference folder, in a static buffer; skips the running test, saying why, where it is absent. */
static inline const char *zl_test_shared(const char *relative)
{
    static char path[4][4096];
    static unsigned turn;
    char *p = path[turn++ % 4];
    const char *root = getenv("ZL_SHARED");
    snprintf(p, sizeof path[0], "%s/%s", root ? root : "../shared", relative);
    if (access(p, R_OK) != 0) {
        print_message("skipped: %s is not here\n", p);
        skip();
    }
    return p;
}

/* Path of a file below the source tree, in a static buffer. */
static inline const char *zl_test_source(const char *relative)
{
    static char path[4][4096];
    static unsigned turn;
    char *p = path[turn++ % 4];
    const char *root = getenv("ZL_SRCDIR");
    snprintf(p, sizeof path[0], "%s/%s", root ? root : ".", relative);
    return p;
}

/* The larger of both, or the first NaN, which fmax() would forget. */
static inline double worse(double a, double b)
{
    return a != a || b <= a ? a : b;
}

#endif
