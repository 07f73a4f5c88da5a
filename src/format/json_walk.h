/*
 * Walk the members of a JSON object one at a time, each parsed by jansson, so that memory is
 * bounded by one member and not by the object: a header of 100 MB of brackets costs nothing. Not a
 * parser: it only knows the braces, colons and commas between members.
 */
#ifndef ZL_FORMAT_JSON_WALK_H
#define ZL_FORMAT_JSON_WALK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct zl_json_walk {
    const char *file; /* named in errors */
    uint64_t offset;  /* of text[0] in that file */
    const char *text, *p, *end;
    bool first; /* no member of the current object was read yet */
};

void zl_json_walk_init(struct zl_json_walk *w, const char *file, uint64_t offset, const char *text,
                       uint64_t len);

/* Step over `{`, of the outermost object or of a member's value. */
int zl_json_enter(struct zl_json_walk *w, struct zl_error *err);

/* 1: *key is the next member's name (json_decref it) and the walk stands before its value, which
 * zl_json_value() or zl_json_enter() must take; 0: the object has ended; negative: an error. */
int zl_json_next(struct zl_json_walk *w, json_t **key, struct zl_error *err);

/* The value at hand, refused when it is longer than `limit` bytes of text. */
int zl_json_value(struct zl_json_walk *w, uint64_t limit, json_t **value, struct zl_error *err);

/* The value at hand is a string (told from its first byte, before it is parsed). */
bool zl_json_at_string(struct zl_json_walk *w);

/* Only white space may be left. */
int zl_json_finish(struct zl_json_walk *w, struct zl_error *err);

#endif
