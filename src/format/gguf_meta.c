/*
 * GGUF metadata by key. Every value's type is looked at before its bytes are; numbers are read
 * through memcpy, because nothing in a GGUF header is aligned. Called by the model loader, the
 * tokenizer and `inspect`.
 */
#include "config.h"

#include "format/gguf_impl.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/quote.h"

const struct zl_gguf_type_info zl_gguf_type_info[GGUF_TYPES] = {
    [GGUF_U8] = {"uint8", 1},    [GGUF_I8] = {"int8", 1},    [GGUF_U16] = {"uint16", 2},
    [GGUF_I16] = {"int16", 2},   [GGUF_U32] = {"uint32", 4}, [GGUF_I32] = {"int32", 4},
    [GGUF_F32] = {"float32", 4}, [GGUF_BOOL] = {"bool", 1},  [GGUF_STRING] = {"text", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"uint64", 8}, [GGUF_I64] = {"int64", 8},
    [GGUF_F64] = {"float64", 8},
};

static int compare_keys(const void *x, const void *y, void *context)
{
    const struct zl_gguf_kv *kv = context;
    return strcmp(kv[*(const size_t *)x].key, kv[*(const size_t *)y].key);
}

int zl_gguf_index(struct zl_gguf *g, struct zl_error *err)
{
    if (!g->n_kv)
        return 0;
    g->by_key = reallocarray(NULL, g->n_kv, sizeof *g->by_key);
    if (!g->by_key)
        return zl_fail(err, ZL_EMEMORY, "%s: no memory for %zu keys", g->path, g->n_kv);
    for (size_t i = 0; i < g->n_kv; i++)
        g->by_key[i] = i;
    qsort_r(g->by_key, g->n_kv, sizeof *g->by_key, compare_keys, g->kv);
    for (size_t i = 1; i < g->n_kv; i++)
        if (!strcmp(g->kv[g->by_key[i - 1]].key, g->kv[g->by_key[i]].key))
            return zl_fail(err, ZL_EINPUT, "%s: duplicate key \"%s\", expected it once", g->path,
                           zl_quote(g->kv[g->by_key[i]].key).s);
    return 0;
}

const struct zl_gguf_kv *zl_gguf_find(const struct zl_gguf *g, const char *key)
{
    size_t low = 0, high = g->n_kv;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct zl_gguf_kv *kv = &g->kv[g->by_key[mid]];
        int order = strcmp(key, kv->key);
        if (!order)
            return kv;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

static int wrong_type(const struct zl_gguf *g, const struct zl_gguf_kv *kv, const char *expected,
                      struct zl_error *err)
{
    const bool array = kv->type == GGUF_ARRAY;
    return zl_fail(err, ZL_EINPUT, "%s: key \"%s\" is %s%s, expected %s", g->path,
                   zl_quote(kv->key).s, array ? "an array of " : "",
                   zl_gguf_type_info[array ? kv->element : kv->type].name, expected);
}

/* The bits of an integer value, sign-extended; false for other types. */
static bool integer_of(enum zl_gguf_type type, const unsigned char *p, uint64_t *bits,
                       bool *negative)
{
    int64_t i;
    *negative = false;
    *bits = 0;
    switch (type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        memcpy(bits, p, zl_gguf_type_info[type].bytes); /* little-endian, as the host */
        return true;
    case GGUF_I8:
        i = (int8_t)*p;
        break;
    case GGUF_I16: {
        int16_t v;
        memcpy(&v, p, sizeof v);
        i = v;
        break;
    }
    case GGUF_I32: {
        int32_t v;
        memcpy(&v, p, sizeof v);
        i = v;
        break;
    }
    case GGUF_I64:
        memcpy(&i, p, sizeof i);
        break;
    default:
        return false;
    }
    *negative = i < 0;
    *bits = (uint64_t)i;
    return true;
}

static bool float_of(enum zl_gguf_type type, const unsigned char *p, double *out)
{
    float f;
    if (type == GGUF_F64) {
        memcpy(out, p, sizeof *out);
        return true;
    }
    if (type != GGUF_F32)
        return false;
    memcpy(&f, p, sizeof f);
    *out = f;
    return true;
}

int zl_gguf_u64(const struct zl_gguf *g, const char *key, uint64_t *out, struct zl_error *err)
{
    const struct zl_gguf_kv *kv = zl_gguf_find(g, key);
    uint64_t bits;
    bool negative;
    if (!kv)
        return 1;
    if (!integer_of(kv->type, kv->data, &bits, &negative))
        return wrong_type(g, kv, "a whole number", err);
    if (negative)
        return zl_fail(err, ZL_EINPUT,
                       "%s: key \"%s\" is %" PRId64 ", expected a whole number >= 0", g->path,
                       zl_quote(key).s, (int64_t)bits);
    *out = bits;
    return 0;
}

int zl_gguf_f64(const struct zl_gguf *g, const char *key, double *out, struct zl_error *err)
{
    const struct zl_gguf_kv *kv = zl_gguf_find(g, key);
    if (!kv)
        return 1;
    return float_of(kv->type, kv->data, out) ? 0 : wrong_type(g, kv, "a float", err);
}

int zl_gguf_bool(const struct zl_gguf *g, const char *key, bool *out, struct zl_error *err)
{
    const struct zl_gguf_kv *kv = zl_gguf_find(g, key);
    if (!kv)
        return 1;
    if (kv->type != GGUF_BOOL)
        return wrong_type(g, kv, "a bool", err);
    if (*kv->data > 1)
        return zl_fail(err, ZL_EINPUT, "%s: key \"%s\" is a bool of value %d, expected 0 or 1",
                       g->path, zl_quote(key).s, *kv->data);
    *out = *kv->data;
    return 0;
}

int zl_gguf_string(const struct zl_gguf *g, const char *key, const char **out, size_t *len,
                   struct zl_error *err)
{
    const struct zl_gguf_kv *kv = zl_gguf_find(g, key);
    if (!kv)
        return 1;
    if (kv->type != GGUF_STRING)
        return wrong_type(g, kv, "text", err);
    *out = (const char *)kv->data;
    *len = kv->count;
    return 0;
}

/* Find an array of the given element type: 0, 1 when absent, or an error. */
static int find_array(const struct zl_gguf *g, const char *key, enum zl_gguf_type element,
                      const char *expected, const struct zl_gguf_kv **kv, struct zl_error *err)
{
    *kv = zl_gguf_find(g, key);
    if (!*kv)
        return 1;
    if ((*kv)->type != GGUF_ARRAY || (*kv)->element != element)
        return wrong_type(g, *kv, expected, err);
    return 0;
}

int zl_gguf_strings(const struct zl_gguf *g, const char *key, const struct zl_gguf_str **out,
                    uint64_t *n, struct zl_error *err)
{
    const struct zl_gguf_kv *kv;
    int rc = find_array(g, key, GGUF_STRING, "an array of text", &kv, err);
    if (!rc) {
        *out = kv->copy;
        *n = kv->count;
    }
    return rc;
}

int zl_gguf_f32s(const struct zl_gguf *g, const char *key, const float **out, uint64_t *n,
                 struct zl_error *err)
{
    const struct zl_gguf_kv *kv;
    int rc = find_array(g, key, GGUF_F32, "an array of float32", &kv, err);
    if (!rc) {
        *out = kv->copy;
        *n = kv->count;
    }
    return rc;
}

int zl_gguf_i32s(const struct zl_gguf *g, const char *key, const int32_t **out, uint64_t *n,
                 struct zl_error *err)
{
    const struct zl_gguf_kv *kv = zl_gguf_find(g, key);
    const bool is_unsigned = kv && kv->type == GGUF_ARRAY && kv->element == GGUF_U32;
    int rc = find_array(g, key, is_unsigned ? GGUF_U32 : GGUF_I32, "an array of int32", &kv, err);
    if (rc)
        return rc;
    const int32_t *values = kv->copy;
    for (uint64_t i = 0; is_unsigned && i < kv->count; i++)
        if (values[i] < 0)
            return zl_fail(err, ZL_EINPUT,
                           "%s: key \"%s\": element %" PRIu64 " is %" PRIu32
                           ", expected at most %d",
                           g->path, zl_quote(key).s, i, (uint32_t)values[i], INT32_MAX);
    *out = values;
    *n = kv->count;
    return 0;
}

static void describe_text(const char *s, uint64_t len, char *value, size_t value_size)
{
    enum { SHOWN = 72 };
    size_t n = len < SHOWN ? (size_t)len : SHOWN;
    while (n < len && n > SHOWN - 4 && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    json_t *text = json_stringn(s, n); /* NULL: not UTF-8 */
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    if (quoted && n == len)
        snprintf(value, value_size, "%s", quoted);
    else if (quoted)
        snprintf(value, value_size, "%s... (%" PRIu64 " bytes)", quoted, len);
    else
        snprintf(value, value_size, "%" PRIu64 " bytes", len);
    free(quoted);
    json_decref(text);
}

static void describe_float(double x, char *value, size_t value_size)
{
    json_t *number =
        json_real(x); /* NULL: not finite. jansson prints without the locale's decimal sign. */
    char *text = number ? json_dumps(number, JSON_ENCODE_ANY | JSON_REAL_PRECISION(7)) : NULL;
    snprintf(value, value_size, "%s", text ? text : isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
    free(text);
    json_decref(number);
}

bool zl_gguf_describe(const struct zl_gguf *g, size_t i, const char **key, char *value,
                      size_t value_size)
{
    if (i >= g->n_kv)
        return false;
    const struct zl_gguf_kv *kv = &g->kv[i];
    uint64_t bits;
    bool negative;
    double x;
    *key = kv->key;
    if (kv->type == GGUF_STRING)
        describe_text((const char *)kv->data, kv->count, value, value_size);
    else if (kv->type == GGUF_ARRAY)
        snprintf(value, value_size, "array of %" PRIu64 " %s", kv->count,
                 zl_gguf_type_info[kv->element].name);
    else if (kv->type == GGUF_BOOL)
        snprintf(value, value_size, "%s", *kv->data ? "true" : "false");
    else if (float_of(kv->type, kv->data, &x))
        describe_float(x, value, value_size);
    else if (integer_of(kv->type, kv->data, &bits, &negative) && negative)
        snprintf(value, value_size, "%" PRId64, (int64_t)bits);
    else
        snprintf(value, value_size, "%" PRIu64, bits);
    return true;
}
