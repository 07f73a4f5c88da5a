/*
 * rank_pattern and alpha_pattern: an object of regular expressions, matched against module names as
 * PEFT does (get_pattern_key): the first key, in the order of the file, for which "(.*\.)?(KEY)$"
 * matches from the start of the name.
 */
#ifndef ZL_FORMAT_PATTERN_H
#define ZL_FORMAT_PATTERN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct zl_patterns;

/* Compile the members of `object` (NULL, JSON null or an object of numbers above 0). `path` and
 * `option` ("rank_pattern") name the place in errors and must live as long; whole: the numbers must
 * be whole ones. */
int zl_patterns_new(const json_t *object, const char *path, const char *option, bool whole,
                    struct zl_patterns **out, struct zl_error *err);
void zl_patterns_free(struct zl_patterns *p);

/* The value for a module: 0 found, 1 no key matches (*value untouched), negative an error.
 * Remembers which keys matched. */
int zl_patterns_match(struct zl_patterns *p, const char *module, double *value,
                      struct zl_error *err);

/* The first key that has matched nothing so far, or NULL. */
const char *zl_patterns_unmatched(const struct zl_patterns *p);

#endif
