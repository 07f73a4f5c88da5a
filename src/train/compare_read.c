/* What a run of a comparison left: see compare.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "format/lines.h"
#include "train/compare.h"

#define SHOWN_STEPS   3    /* of a picture, at most */
#define SHOWN_SPANS   4000 /* and spans, at most */
#define RUN_BYTES     (4 << 20)

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static uint64_t count(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) && json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) : 0;
}

/* A step, or an evaluation behind the steps before it. */
static int take_metric(struct zl_compared *c, const json_t *o, struct zl_error *err)
{
    if (json_object_get(o, "eval_loss")) {
        struct zl_compare_point *more = realloc(c->eval, (c->n_evals + 1) * sizeof *more);
        if (!more)
            return zl_fail(err, ZL_EMEMORY, "out of memory");
        c->eval = more;
        c->eval[c->n_evals++] = (struct zl_compare_point){count(o, "step"), c->tokens, c->seconds, number(o, "eval_loss")};
        return 0;
    }
    const double speed = number(o, "tokens_per_second");
    c->steps = count(o, "step");
    c->tokens = count(o, "tokens_total");
    c->seconds += speed > 0 ? (double)count(o, "tokens") / speed : 0;
    c->loss = number(o, "loss");
    c->peak_pss_bytes = count(o, "peak_pss_bytes");
    c->peak_private_bytes = count(o, "peak_private_bytes");
    return 0;
}

static int read_metrics(struct zl_compared *c, const char *path, struct zl_error *err)
{
    struct zl_lines lines;
    int rc = zl_lines_open(&lines, path, err);
    if (rc)
        return rc;
    while ((rc = zl_lines_next(&lines, err)) == 1) {
        json_t *o = json_loadb(lines.text, lines.len, 0, NULL);
        rc = json_is_object(o) ? take_metric(c, o, err)
                               : zl_fail(err, ZL_EINPUT, "%s:%llu: this is no object", path, (unsigned long long)lines.line);
        json_decref(o);
        if (rc)
            break;
    }
    zl_lines_close(&lines);
    if (!rc && !c->steps)
        rc = zl_fail(err, ZL_EINPUT, "%s holds no step", path);
    return rc;
}

/* Of the trace the spans of the first steps of training: that is what a picture can show. Evaluations before it are left out. */
static int keep_picture(struct zl_compared *c, const struct zl_traced *t, struct zl_error *err)
{
    const uint64_t begin = c->costs.begin_ns;
    uint64_t end = begin, n = 0;
    for (uint32_t steps = 1; steps <= SHOWN_STEPS; steps++) { /* as many steps as SHOWN_SPANS hold, one at least */
        uint64_t to = end, spans = 0;
        for (uint64_t i = 0; i < t->n; i++)
            if (t->event[i].kind <= ZL_TRACE_REPLAY && t->event[i].step <= steps && t->event[i].end_ns > to)
                to = t->event[i].end_ns;
        for (uint64_t i = 0; i < t->n; i++)
            spans += t->event[i].kind < ZL_TRACE_SPANS && t->event[i].begin_ns >= begin && t->event[i].begin_ns < to;
        if (steps > 1 && spans > SHOWN_SPANS)
            break;
        end = to;
    }
    c->shown_ns = end - begin;
    c->event = calloc(t->n + 1, sizeof *c->event);
    if (!c->event)
        return zl_fail(err, ZL_EMEMORY, "out of memory for a picture");
    for (uint64_t i = 0; i < t->n; i++) {
        struct zl_trace_event e = t->event[i];
        if (e.kind >= ZL_TRACE_SPANS || e.begin_ns < begin || e.begin_ns >= end)
            continue;
        e.begin_ns -= begin;
        e.end_ns -= begin;
        c->event[n++] = e;
    }
    c->n_events = n;
    struct zl_trace_event *less = realloc(c->event, (n + 1) * sizeof *less);
    c->event = less ? less : c->event;
    return 0;
}

static int read_trace(struct zl_compared *c, const char *path, struct zl_error *err)
{
    struct zl_traced t;
    int rc = zl_trace_read(path, &t, err);
    if (rc)
        return rc;
    rc = zl_trace_costs(&t, path, &c->costs, err);
    if (!rc) {
        c->idle = zl_trace_idle(&c->costs);
        c->idle_after_fill = zl_trace_idle_after_fill(&c->costs);
        if (!t.dropped) /* the trace is whole: its clock is better than that of reports */
            c->tokens_per_second = (double)c->tokens / zl_trace_seconds(&c->costs);
        rc = keep_picture(c, &t, err);
    }
    zl_traced_free(&t);
    return rc;
}

int zl_compare_read(struct zl_compared *c, const char *trace, struct zl_error *err)
{
    char *metrics = zl_path_join(c->dir, "metrics.jsonl"), *about = zl_path_join(c->dir, "run.json"), *text = NULL;
    int rc = metrics && about ? read_metrics(c, metrics, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc)
        rc = zl_file_read(about, RUN_BYTES, &text, NULL, err);
    if (!rc && !(c->about = json_loads(text, 0, NULL)))
        rc = zl_fail(err, ZL_EINPUT, "%s is no JSON", about);
    if (!rc) {
        c->tokens_per_second = c->seconds > 0 ? (double)c->tokens / c->seconds : 0;
        rc = read_trace(c, trace, err);
    }
    free(text);
    free(metrics);
    free(about);
    return rc;
}
