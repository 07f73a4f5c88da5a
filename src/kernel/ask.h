/*
 * Asking for stored weights before they are read, line by line. A core that is asked for many lines at once forgets most of them; so
 * whoever computes meanwhile asks for one each ZL_ASK_STEP steps of its loop, and only shortly before: what waits is forgotten too.
 * Internal to this layer.
 */
#ifndef ZL_KERNEL_ASK_H
#define ZL_KERNEL_ASK_H

#include <stdint.h>

/* Rows that will be read soon. */
struct zl_ask {
    const char *at;
    int64_t line, lines; /* of a row: which is next, of how many */
    int64_t jump;        /* bytes from behind a row's last line to the next row */
    int64_t left;        /* lines of all rows; <= 0: nothing to ask for */
};
enum { ZL_ASK_STEP = 2, ZL_ASK_LINE = 64 };

static inline void zl_ask_next(struct zl_ask *a)
{
    if (a->left-- <= 0)
        return;
    __builtin_prefetch(a->at, 0, 2);
    a->at += ZL_ASK_LINE;
    if (++a->line == a->lines) {
        a->at += a->jump;
        a->line = 0;
    }
}

#endif
