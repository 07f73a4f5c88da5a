/* Counting over the events of a trace: see trace_costs.h. */
#include "train/trace_costs.h"

#include <stdlib.h>

static bool is_training(unsigned kind)
{
    return kind == ZL_TRACE_FORWARD || kind == ZL_TRACE_LOCAL_LOSS || kind == ZL_TRACE_BACKWARD || kind == ZL_TRACE_UPDATE ||
           kind == ZL_TRACE_REPLAY;
}

static bool is_waiting(unsigned kind)
{
    return kind == ZL_TRACE_WAIT_INPUT || kind == ZL_TRACE_WAIT_SPACE || kind == ZL_TRACE_SPILL_READ || kind == ZL_TRACE_SPILL_WRITE;
}

/* First and last training operations, by which the rest is cut off. */
static void find_ends(const struct zl_traced *t, struct zl_trace_costs *c)
{
    c->begin_ns = UINT64_MAX;
    for (uint64_t i = 0; i < t->n; i++) {
        const struct zl_trace_event *e = &t->event[i];
        struct zl_traced_worker *w = &c->worker[t->worker[i]];
        if (!is_training(e->kind))
            continue;
        if (!w->end_ns || e->begin_ns < w->begin_ns)
            w->begin_ns = e->begin_ns;
        if (e->end_ns > w->end_ns)
            w->end_ns = e->end_ns;
        if (e->begin_ns < c->begin_ns)
            c->begin_ns = e->begin_ns;
        if (e->end_ns > c->end_ns)
            c->end_ns = e->end_ns;
    }
}

/* How much of a span lies between begin and end. */
static uint64_t within(const struct zl_trace_event *e, uint64_t begin, uint64_t end)
{
    const uint64_t a = e->begin_ns > begin ? e->begin_ns : begin, b = e->end_ns < end ? e->end_ns : end;
    return b > a ? b - a : 0;
}

static void count(const struct zl_traced *t, struct zl_trace_costs *c)
{
    bool seen[ZL_STAGES_MAX] = {false};
    for (uint64_t i = 0; i < t->n; i++) {
        const struct zl_trace_event *e = &t->event[i];
        struct zl_traced_worker *w = &c->worker[t->worker[i]];
        if (is_waiting(e->kind))
            w->wait_ns += within(e, w->begin_ns, w->end_ns);
        if (e->stage == ZL_TRACE_NO_STAGE)
            continue;
        struct zl_traced_stage *s = &c->stage[e->stage];
        s->roams |= seen[e->stage] && s->worker != t->worker[i];
        s->worker = t->worker[i];
        seen[e->stage] = true;
        if (e->kind == ZL_TRACE_ACTIVATION_BYTES && e->end_ns > s->peak_bytes)
            s->peak_bytes = e->end_ns;
        if (e->kind >= ZL_TRACE_SPANS)
            continue;
        s->n[e->kind]++;
        s->ns[e->kind] += e->end_ns - e->begin_ns;
        if (e->kind == ZL_TRACE_EVALUATE)
            c->evaluate_ns += within(e, c->begin_ns, c->end_ns);
    }
}

static int by_time(const void *a, const void *b)
{
    const struct zl_trace_event *x = *(const struct zl_trace_event *const *)a, *y = *(const struct zl_trace_event *const *)b;
    return x->begin_ns != y->begin_ns ? (x->begin_ns < y->begin_ns ? -1 : 1) : (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* The largest sum of what the stages hold at one time, over their counters in the order of time. */
static int find_peak(const struct zl_traced *t, struct zl_trace_costs *c, struct zl_error *err)
{
    const struct zl_trace_event **order = calloc(t->n + 1, sizeof *order);
    uint64_t n = 0, held[ZL_STAGES_MAX] = {0}, sum = 0;
    if (!order)
        return zl_fail(err, ZL_EMEMORY, "out of memory for a trace");
    for (uint64_t i = 0; i < t->n; i++)
        if (t->event[i].kind == ZL_TRACE_ACTIVATION_BYTES && t->event[i].stage < ZL_STAGES_MAX)
            order[n++] = &t->event[i];
    qsort(order, n, sizeof *order, by_time);
    for (uint64_t i = 0; i < n; i++) {
        sum += order[i]->end_ns - held[order[i]->stage];
        held[order[i]->stage] = order[i]->end_ns;
        c->peak_bytes = sum > c->peak_bytes ? sum : c->peak_bytes;
    }
    free(order);
    return 0;
}

int zl_trace_costs(const struct zl_traced *t, const char *path, struct zl_trace_costs *c, struct zl_error *err)
{
    *c = (struct zl_trace_costs){.stages = t->stages, .workers = t->workers};
    if (t->stages > ZL_STAGES_MAX || t->workers > ZL_STAGES_MAX)
        return zl_fail(err, ZL_EINPUT, "%s is a trace of %u stages on %u workers, more than %d", path, t->stages, t->workers,
                       ZL_STAGES_MAX);
    find_ends(t, c);
    if (!c->end_ns)
        return zl_fail(err, ZL_EINPUT, "%s holds no training", path);
    count(t, c);
    return find_peak(t, c, err);
}

double zl_trace_seconds(const struct zl_trace_costs *c)
{
    return 1e-9 * ((double)(c->end_ns - c->begin_ns) - (double)c->evaluate_ns / (c->workers ? c->workers : 1));
}

double zl_trace_mean(const struct zl_trace_costs *c, uint32_t stage, enum zl_trace_kind kind)
{
    const struct zl_traced_stage *s = &c->stage[stage];
    return s->n[kind] ? (double)s->ns[kind] / (double)s->n[kind] : 0;
}

static double idle(const struct zl_trace_costs *c, bool after_fill)
{
    double busy = 0, all = 0;
    for (uint32_t w = 0; w < c->workers; w++) {
        if (!c->worker[w].end_ns)
            continue;
        busy += (double)(c->worker[w].end_ns - c->worker[w].begin_ns - c->worker[w].wait_ns);
        all += (double)(after_fill ? c->worker[w].end_ns - c->worker[w].begin_ns : c->end_ns - c->begin_ns);
    }
    const double share = all > 0 ? 1 - busy / all : 0;
    return share > 0 ? share : 0;
}

double zl_trace_idle(const struct zl_trace_costs *c)
{
    return idle(c, false);
}

double zl_trace_idle_after_fill(const struct zl_trace_costs *c)
{
    return idle(c, true);
}
