/*
 * Pattern keys as regular expressions: see pattern.h. Python's re and PCRE2 agree on everything
 * that module names call for. A key can be hostile, so matching has a limit, and running into it is
 * an error and not "no match".
 */
#include "config.h"

#include "format/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/quote.h"

enum {
    MATCH_LIMIT = 1000000, /* steps of one match */
    DEPTH_LIMIT = 10000,
    KEYS_LIMIT = 10000
};

struct pattern {
    const char *key; /* borrowed from the JSON object */
    double value;
    pcre2_code *code;
    bool matched;
};

struct zl_patterns {
    const char *path, *option;
    json_t *object; /* holds the keys */
    pcre2_match_context *limits;
    pcre2_match_data *match;
    size_t n;
    struct pattern items[];
};

static int compile(struct zl_patterns *p, const char *key, pcre2_code **code, struct zl_error *err)
{
    char *text;
    if (asprintf(&text, "(.*\\.)?(%s)$", key) < 0)
        return zl_fail(err, ZL_EMEMORY, "%s: no memory for %s", p->path, p->option);
    int number = 0;
    PCRE2_SIZE at = 0;
    *code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED | PCRE2_UTF,
                          &number, &at, NULL);
    free(text);
    if (*code)
        return 0;
    char why[128] = "";
    pcre2_get_error_message(number, (PCRE2_UCHAR *)why, sizeof why);
    return zl_fail(err, ZL_EINPUT, "%s: key \"%s\" of %s is not a regular expression (%s)", p->path,
                   zl_quote(key).s, p->option, why);
}

int zl_patterns_new(const json_t *object, const char *path, const char *option, bool whole,
                    struct zl_patterns **out, struct zl_error *err)
{
    *out = NULL;
    if (!object || json_is_null(object))
        object = NULL;
    else if (!json_is_object(object) || json_object_size(object) > KEYS_LIMIT)
        return zl_fail(err, ZL_EINPUT, "%s: %s is not an object of module names and numbers", path,
                       option);
    const size_t n = json_object_size(object);
    struct zl_patterns *p = calloc(1, sizeof *p + n * sizeof *p->items);
    if (!p)
        return zl_fail(err, ZL_EMEMORY, "%s: no memory for %s", path, option);
    p->path = path;
    p->option = option;
    p->object = json_incref((json_t *)object);
    int rc = 0;
    p->limits = pcre2_match_context_create(NULL);
    p->match = pcre2_match_data_create(16, NULL);
    if (!p->limits || !p->match) {
        rc = zl_fail(err, ZL_EMEMORY, "%s: no memory for %s", path, option);
        goto out;
    }
    pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(p->limits, DEPTH_LIMIT);
    const char *key;
    json_t *value;
    json_object_foreach(p->object, key, value) /* in the order of the file */
    {
        const double x = json_number_value(value);
        if (!(x > 0) || (whole && (!json_is_integer(value) || x > UINT32_MAX))) {
            rc = zl_fail(err, ZL_EINPUT, "%s: the value of \"%s\" in %s is not a %snumber above 0",
                         path, zl_quote(key).s, option, whole ? "whole " : "");
            goto out;
        }
        struct pattern *item = &p->items[p->n++];
        *item = (struct pattern){.key = key, .value = x};
        if ((rc = compile(p, key, &item->code, err)))
            goto out;
    }
out:
    if (rc)
        zl_patterns_free(p);
    else
        *out = p;
    return rc;
}

void zl_patterns_free(struct zl_patterns *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++)
        pcre2_code_free(p->items[i].code);
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->limits);
    json_decref(p->object);
    free(p);
}

int zl_patterns_match(struct zl_patterns *p, const char *module, double *value,
                      struct zl_error *err)
{
    int found = 1;
    for (size_t i = 0; i < p->n; i++) {
        struct pattern *item = &p->items[i];
        if (found == 0 && item->matched)
            continue;
        int rc =
            pcre2_match(item->code, (PCRE2_SPTR)module, strlen(module), 0, 0, p->match, p->limits);
        if (rc == PCRE2_ERROR_NOMATCH)
            continue;
        if (rc < 0)
            return zl_fail(err, ZL_EINPUT,
                           "%s: key \"%s\" of %s cannot be matched against \"%s\" (PCRE2 error %d)",
                           p->path, zl_quote(item->key).s, p->option, zl_quote(module).s, rc);
        item->matched = true;
        if (found) {
            *value = item->value;
            found = 0;
        }
    }
    return found;
}

const char *zl_patterns_unmatched(const struct zl_patterns *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (!p->items[i].matched)
            return p->items[i].key;
    return NULL;
}
