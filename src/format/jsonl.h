/*
 * JSON lines: one object a line. Blank lines are skipped; everything else that is not one whole
 * valid object is an error that names file, line and byte. Stricter than JSON where a later reader
 * could differ: duplicate keys, NUL (raw or \u0000), lone surrogates, numbers beyond a double, and
 * nesting deeper than 2048 are refused.
 */
#ifndef ZL_FORMAT_JSONL_H
#define ZL_FORMAT_JSONL_H

#include <jansson.h>

#include "format/lines.h"

#define ZL_JSONL_VALUES_MAX                                                                        \
    ((uint64_t)1 << 18) /* values in one row: bounds the memory of a parsed row */

/* The next row: 1 with a new reference in *row, 0 at the end, or a negative code. The row's place
 * is l->line and l->offset. */
int zl_jsonl_next(struct zl_lines *l, json_t **row, struct zl_error *err);

/* The keys of a row for messages: `"a", "b", "c" and 4 more`, control bytes replaced; "none" for an
 * empty object. */
void zl_jsonl_keys(const json_t *row, char *out, size_t size);

/* Make text from a file fit for a message, in place: control bytes and characters cut in the middle
 * become question marks. */
void zl_jsonl_printable(char *text);

#endif
