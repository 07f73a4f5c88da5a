/*
 * Numbers into JSON, for all who write it: a double that is not finite becomes null, so that what is written is always valid JSON.
 * Reading is jansson's own and each format's (format/jsonl.h, format/json_walk.h). References are new, as jansson's.
 */
#ifndef ZL_BASE_JSON_H
#define ZL_BASE_JSON_H

#include <jansson.h>
#include <math.h>
#include <stdint.h>

static inline json_t *zl_json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static inline json_t *zl_json_count(uint64_t n)
{
    return json_integer((json_int_t)n);
}

#endif
