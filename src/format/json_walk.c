/*
 * The member-by-member walk of json_walk.h. Invariant: text <= p <= end, and p stands behind whole
 * tokens only. Called by the readers of safetensors headers and of shard indexes.
 */
#include "format/json_walk.h"

enum { KEY_LIMIT = 1 << 16 }; /* bytes of JSON text of a member's name */

void zl_json_walk_init(struct zl_json_walk *w, const char *file, uint64_t offset, const char *text,
                       uint64_t len)
{
    *w = (struct zl_json_walk){
        .file = file, .offset = offset, .text = text, .p = text, .end = text + len};
}

static int fail_at(const struct zl_json_walk *w, const char *expected, struct zl_error *err)
{
    unsigned long long at = w->offset + (uint64_t)(w->p - w->text);
    if (w->p == w->end)
        return zl_fail(err, ZL_EINPUT, "%s: byte %llu: the JSON text ends, expected %s", w->file,
                       at, expected);
    return zl_fail(err, ZL_EINPUT, "%s: byte %llu: found byte 0x%02x in the JSON text, expected %s",
                   w->file, at, (unsigned char)*w->p, expected);
}

static void skip_space(struct zl_json_walk *w)
{
    while (w->p < w->end && (*w->p == ' ' || *w->p == '\t' || *w->p == '\n' || *w->p == '\r'))
        w->p++;
}

static bool at(struct zl_json_walk *w, char c)
{
    skip_space(w);
    return w->p < w->end && *w->p == c;
}

int zl_json_enter(struct zl_json_walk *w, struct zl_error *err)
{
    if (!at(w, '{'))
        return fail_at(w, "\"{\"", err);
    w->p++;
    w->first = true;
    return 0;
}

int zl_json_next(struct zl_json_walk *w, json_t **key, struct zl_error *err)
{
    if (at(w, '}')) {
        w->p++;
        w->first = false; /* the object was itself a member's value */
        return 0;
    }
    if (!w->first) {
        if (!at(w, ','))
            return fail_at(w, "\",\" or \"}\"", err);
        w->p++;
    }
    if (!at(w, '"'))
        return fail_at(w, "a name in quotes", err);
    w->first = false;
    int rc = zl_json_value(w, KEY_LIMIT, key, err);
    if (rc)
        return rc;
    if (!at(w, ':')) {
        json_decref(*key);
        return fail_at(w, "\":\"", err);
    }
    w->p++;
    return 1;
}

int zl_json_value(struct zl_json_walk *w, uint64_t limit, json_t **value, struct zl_error *err)
{
    skip_space(w);
    uint64_t left = (uint64_t)(w->end - w->p);
    bool limited = left > limit;
    json_error_t e;
    *value = json_loadb(w->p, limited ? limit : left,
                        JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &e);
    uint64_t used = e.position > 0 ? (uint64_t)e.position : 0;
    if (!*value) {
        unsigned long long where = w->offset + (uint64_t)(w->p - w->text) + used;
        if (limited && used >= limit)
            return zl_fail(
                err, ZL_EINPUT,
                "%s: byte %llu: a JSON value is longer than the %llu bytes allowed there", w->file,
                where, (unsigned long long)limit);
        return zl_fail(err, ZL_EINPUT, "%s: byte %llu: %s", w->file, where, e.text);
    }
    w->p += used;
    return 0;
}

bool zl_json_at_string(struct zl_json_walk *w)
{
    return at(w, '"');
}

int zl_json_finish(struct zl_json_walk *w, struct zl_error *err)
{
    skip_space(w);
    return w->p == w->end ? 0 : fail_at(w, "its end", err);
}
