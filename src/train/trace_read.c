/* Reading a trace back: see trace.h. The file is hostile: every number is checked, and memory follows what it holds. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "format/lines.h"
#include "train/trace.h"

#define STAGES_MOST 1024

struct reader {
    struct zl_lines lines;
    struct zl_traced *t;
    uint64_t capacity;
};

static int refuse(const struct reader *r, const char *what, struct zl_error *err)
{
    return zl_fail(err, ZL_EINPUT, "%s:%llu: %s", r->lines.path, (unsigned long long)r->lines.line, what);
}

/* A whole number in 0..most. */
static bool whole(const json_t *o, const char *key, uint64_t most, uint64_t *out)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > most)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

/* Microseconds as nanoseconds; a double holds nanoseconds exactly for 104 days. */
static bool time_of(const json_t *o, const char *key, uint64_t *ns)
{
    const json_t *v = json_object_get(o, key);
    const double us = json_number_value(v);
    if (!json_is_number(v) || !(us >= 0) || us > 9e12)
        return false;
    *ns = (uint64_t)(us * 1000 + 0.5);
    return true;
}

static int kind_of(const char *name, int from, int to)
{
    int k = from;
    while (k < to && strcmp(zl_trace_names[k], name) != 0)
        k++;
    return k;
}

static int add(struct reader *r, struct zl_trace_event e, uint64_t worker, struct zl_error *err)
{
    struct zl_traced *t = r->t;
    if (t->n == r->capacity) {
        const uint64_t more = r->capacity ? 2 * r->capacity : 1024;
        struct zl_trace_event *event = realloc(t->event, more * sizeof *event);
        if (event)
            t->event = event;
        uint16_t *workers = realloc(t->worker, more * sizeof *workers);
        if (workers)
            t->worker = workers;
        if (!event || !workers)
            return zl_fail(err, ZL_EMEMORY, "out of memory for the trace %s", r->lines.path);
        r->capacity = more;
    }
    t->event[t->n] = e;
    t->worker[t->n++] = (uint16_t)worker;
    if (worker >= t->workers)
        t->workers = (uint32_t)worker + 1;
    if (e.stage != ZL_TRACE_NO_STAGE && e.stage >= t->stages)
        t->stages = e.stage + 1u;
    return 0;
}

static int take_span(struct reader *r, const json_t *o, const char *name, uint64_t worker, struct zl_error *err)
{
    const json_t *args = json_object_get(o, "args");
    uint64_t stage, begin, dur, step, micro;
    const int kind = kind_of(name, 0, ZL_TRACE_SPANS);
    if (kind == ZL_TRACE_SPANS)
        return refuse(r, "a span of a kind that zerolock does not write", err);
    if (!whole(o, "tid", UINT16_MAX, &stage) || (stage >= STAGES_MOST && stage != ZL_TRACE_NO_STAGE) || !time_of(o, "ts", &begin) ||
        !time_of(o, "dur", &dur) || !whole(args, "step", UINT32_MAX, &step) || !whole(args, "micro", UINT32_MAX, &micro))
        return refuse(r, "a span needs tid, ts, dur and in its args step and micro", err);
    const struct zl_trace_event e = {begin, begin + dur, (uint32_t)step, (uint32_t)micro, (uint16_t)kind, (uint16_t)stage};
    return add(r, e, worker, err);
}

/* "stage K NAME" */
static int take_counter(struct reader *r, const json_t *o, const char *name, uint64_t worker, struct zl_error *err)
{
    uint64_t at, value;
    char *end = NULL;
    const bool numbered = strncmp(name, "stage ", 6) == 0 && name[6] >= '0' && name[6] <= '9';
    const unsigned long stage = numbered ? strtoul(name + 6, &end, 10) : STAGES_MOST;
    const int kind = end && *end == ' ' ? kind_of(end + 1, ZL_TRACE_SPANS, ZL_TRACE_KINDS) : ZL_TRACE_KINDS;
    if (stage >= STAGES_MOST || kind == ZL_TRACE_KINDS || !time_of(o, "ts", &at) ||
        !whole(json_object_get(o, "args"), "value", INT64_MAX, &value))
        return refuse(r, "a counter that zerolock does not write", err);
    return add(r, (struct zl_trace_event){at, value, 0, 0, (uint16_t)kind, (uint16_t)stage}, worker, err);
}

static int take_event(struct reader *r, const json_t *o, struct zl_error *err)
{
    const char *ph = json_string_value(json_object_get(o, "ph")), *name = json_string_value(json_object_get(o, "name"));
    uint64_t pid;
    if (!ph || !name || !whole(o, "pid", STAGES_MOST, &pid) || pid < 1)
        return refuse(r, "an event needs ph, name and pid", err);
    if (strcmp(ph, "X") == 0)
        return take_span(r, o, name, pid - 1, err);
    if (strcmp(ph, "C") == 0)
        return take_counter(r, o, name, pid - 1, err);
    if (strcmp(name, "dropped") == 0)
        whole(json_object_get(o, "args"), "events", INT64_MAX, &r->t->dropped);
    return 0;
}

/* The opening line becomes an object of its own by what closes it. */
static int take_opening(struct reader *r, struct zl_error *err)
{
    char *text = NULL;
    if (asprintf(&text, "%.*s]}", (int)r->lines.len, r->lines.text) < 0)
        return zl_fail(err, ZL_EMEMORY, "out of memory for the trace %s", r->lines.path);
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    if (!json_is_array(json_object_get(o, "traceEvents"))) {
        json_decref(o);
        return refuse(r, "this is not how a trace of zerolock begins", err);
    }
    r->t->about = json_incref(json_object_get(o, "otherData"));
    json_decref(o);
    return 0;
}

/* 1: more to come, 0: the end. */
static int take_line(struct reader *r, struct zl_error *err)
{
    size_t n = r->lines.len;
    if (r->lines.line == 1)
        return n < INT32_MAX && n ? (take_opening(r, err) ? err->code : 1) : refuse(r, "this is not how a trace of zerolock begins", err);
    if (n == 2 && memcmp(r->lines.text, "]}", 2) == 0)
        return 0;
    n -= n && r->lines.text[n - 1] == ',';
    json_t *o = json_loadb(r->lines.text, n, JSON_REJECT_DUPLICATES, NULL);
    int rc = json_is_object(o) ? take_event(r, o, err) : refuse(r, "this is no event", err);
    json_decref(o);
    return rc ? rc : 1;
}

int zl_trace_read(const char *path, struct zl_traced *t, struct zl_error *err)
{
    struct zl_error own = {0};
    struct reader r = {.t = t};
    *t = (struct zl_traced){0};
    if (!err)
        err = &own;
    int rc = zl_lines_open(&r.lines, path, err);
    if (rc)
        return rc;
    int more = 1;
    while (more == 1 && (rc = zl_lines_next(&r.lines, err)) == 1)
        more = take_line(&r, err);
    if (rc == 0 && more == 1)
        rc = refuse(&r, "the file ends within the trace", err);
    zl_lines_close(&r.lines);
    rc = more < 0 ? more : rc == 1 ? 0 : rc;
    if (rc)
        zl_traced_free(t);
    return rc;
}

void zl_traced_free(struct zl_traced *t)
{
    free(t->event);
    free(t->worker);
    json_decref(t->about);
    *t = (struct zl_traced){0};
}
