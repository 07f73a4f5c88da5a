/*
 * Text files read line by line with bounded memory: the buffer grows to the longest line met and
 * never beyond ZL_LINE_MAX.
 */
#ifndef ZL_FORMAT_LINES_H
#define ZL_FORMAT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define ZL_LINE_MAX                                                                                \
    ((uint64_t)64 << 20) /* bytes of the longest line, its end included; a longer one is an error  \
                          */
#define ZL_TEXT_MAX ((uint64_t)1 << 30) /* bytes of the largest file that is read as one text */

struct zl_lines {
    const char *path; /* the caller's, must outlive this */
    int fd;
    bool eof;
    char *buffer;
    size_t start, end, capacity; /* buffer[start..end) is read and not yet given out */
    uint64_t start_offset;       /* where in the file buffer[start] stands */
    uint64_t next_line;          /* 1-based number of the line that starts there */

    const char *text; /* the current line, without its end; valid until the next call */
    size_t len;
    uint64_t line, offset; /* its number, and where in the file it starts */
};

/* Open a regular file, pipe or device (not a directory); a leading UTF-8 byte order mark is
 * skipped. */
int zl_lines_open(struct zl_lines *l, const char *path, struct zl_error *err);
void zl_lines_close(struct zl_lines *l);

/* What comes next, without consuming it: some bytes up to and beyond the first that is not blank
 * (or the end of the file). */
int zl_lines_peek(struct zl_lines *l, const char **text, size_t *len, struct zl_error *err);

/* The next line: 1, 0 at the end, or a negative code. A line ends at LF, CRLF or the end of the
 * file, and at a lone CR where no JSON value is open (old Mac files); within a value a CR is white
 * space. */
int zl_lines_next(struct zl_lines *l, struct zl_error *err);

/* All that has not been given out yet as one text (l->text, l->len), line ends as they are. At most
 * ZL_TEXT_MAX bytes. */
int zl_lines_rest(struct zl_lines *l, struct zl_error *err);

#endif
