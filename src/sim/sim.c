/* Discrete events over stages and workers: see sim.h. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX

enum op { NONE, FORWARD, BACKWARD, UPDATE };

struct stage {
    uint64_t forwards, backwards, updates; /* done */
    uint64_t begun;                        /* forwards begun */
    bool busy;
    uint64_t live_bytes;
};

struct worker {
    enum op op; /* NONE: free */
    uint32_t stage;
    uint64_t end_ns;
};

struct sim {
    const struct zl_sim_request *r;
    struct zl_sim_result *out;
    struct stage *stage;
    struct worker *worker;
    uint64_t *step_end; /* [steps]: micro-batches of the steps up to and with each */
    uint64_t total, most; /* micro-batches; those of the largest step */
    uint64_t now, live_bytes, capacity;
};

static bool trains(const struct sim *s, uint32_t k)
{
    return !s->r->frozen[k];
}

/* What the rule says; not whether it can be done now. */
static enum op next(const struct sim *s, uint32_t k)
{
    const struct stage *g = &s->stage[k];
    if (!trains(s, k))
        return g->forwards < s->total ? FORWARD : NONE;
    const uint64_t waiting = g->forwards - g->backwards;
    const uint64_t step_end = g->updates < s->r->steps ? s->step_end[g->updates] : NEVER;
    if (g->backwards >= step_end)
        return UPDATE;
    const bool drain = g->forwards == s->total || (s->r->flush && g->forwards == step_end);
    if (waiting && (waiting > s->r->ahead[k] || drain))
        return BACKWARD;
    return g->forwards < s->total ? FORWARD : NONE;
}

/* A stage that holds several micro-batches copies them out of its ring when it begins their forward; one that holds a single one
 * leaves it there until its backward is done. */
static bool holds_several(const struct sim *s, uint32_t k)
{
    return trains(s, k) && s->r->ahead[k] > 0 && !(s->r->flush && s->most == 1);
}

static bool ring_has_space(const struct sim *s, uint32_t k)
{
    const struct stage *g = &s->stage[k];
    const uint64_t released = holds_several(s, k) ? g->begun : trains(s, k) ? g->backwards : g->forwards;
    return s->stage[k - 1].forwards - released < s->r->ring_depth;
}

static bool has_input(const struct sim *s, uint32_t k, enum op op)
{
    const struct zl_sim_request *r = s->r;
    if (op == FORWARD)
        return k == 0 || s->stage[k - 1].forwards > s->stage[k].forwards;
    if (op == BACKWARD)
        return r->local || k + 1 == r->stages || s->stage[k + 1].backwards > s->stage[k].backwards;
    for (uint32_t j = 0; r->flush && j < r->stages; j++) /* clipping by the norm of all stages' gradients */
        if (trains(s, j) && s->stage[j].backwards < s->step_end[s->stage[k].updates])
            return false;
    return true;
}

static bool has_space(const struct sim *s, uint32_t k, enum op op)
{
    return op != FORWARD || k + 1 == s->r->stages || ring_has_space(s, k + 1);
}

static uint64_t micro_of(const struct sim *s, uint32_t k, enum op op)
{
    const struct stage *g = &s->stage[k];
    return op == FORWARD ? g->forwards : op == BACKWARD ? g->backwards : s->step_end[g->updates] - 1;
}

/* The step of a micro-batch, from 1: the first whose end lies behind it. */
static uint32_t step_of(const struct sim *s, uint64_t micro)
{
    uint64_t low = 0, high = s->r->steps - 1;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (s->step_end[middle] > micro)
            high = middle;
        else
            low = middle + 1;
    }
    return (uint32_t)low + 1;
}

/* Does (stage a, op x) come before (stage b, op y) on a worker? */
static bool before(const struct sim *s, uint32_t a, enum op x, uint32_t b, enum op y)
{
    const uint64_t ma = micro_of(s, a, x), mb = micro_of(s, b, y), w = s->r->window;
    const uint64_t wa = w ? (step_of(s, ma) - 1) / w : 0, wb = w ? (step_of(s, mb) - 1) / w : 0;
    if (wa != wb)
        return wa < wb;
    if (w)
        return a < b;
    if ((x == FORWARD) != (y == FORWARD))
        return y == FORWARD;
    return ma != mb ? ma < mb : a > b;
}

static void span(struct sim *s, enum zl_trace_kind kind, uint32_t k, uint64_t micro, uint64_t *at, uint64_t cost)
{
    if (cost && s->r->span_ns)
        cost = s->r->span_ns(s->r->context, k, kind, micro);
    if (!cost)
        return;
    const uint64_t end = *at + cost;
    s->out->event[s->out->n++] = (struct zl_trace_event){
        *at, end, step_of(s, micro), (uint32_t)micro, (uint16_t)kind, (uint16_t)k};
    *at = end;
}

static void hold(struct sim *s, uint32_t k, uint64_t bytes)
{
    struct zl_sim_stage *o = &s->out->stage[k];
    s->stage[k].live_bytes += bytes;
    s->live_bytes += bytes;
    if (s->stage[k].live_bytes > o->peak_bytes)
        o->peak_bytes = s->stage[k].live_bytes;
    if (s->live_bytes > s->out->peak_bytes)
        s->out->peak_bytes = s->live_bytes;
}

static void let_go(struct sim *s, uint32_t k, uint64_t bytes)
{
    s->stage[k].live_bytes -= bytes;
    s->live_bytes -= bytes;
}

static void begin(struct sim *s, struct worker *w, struct zl_sim_worker *tally, uint32_t k, enum op op)
{
    const struct zl_sim_cost *c = &s->r->cost[k];
    const uint64_t micro = micro_of(s, k, op);
    struct zl_sim_stage *o = &s->out->stage[k];
    uint64_t at = s->now;
    if (op == FORWARD) {
        span(s, ZL_TRACE_FORWARD, k, micro, &at, c->forward_ns);
        s->stage[k].begun++;
        hold(s, k, c->activation_bytes);
        if (trains(s, k) && s->stage[k].begun - s->stage[k].backwards > o->peak_micro)
            o->peak_micro = s->stage[k].begun - s->stage[k].backwards;
    } else if (op == BACKWARD) {
        if (s->r->replay) {
            hold(s, k, c->activation_bytes - c->input_bytes);
            span(s, ZL_TRACE_REPLAY, k, micro, &at, k + 1 == s->r->stages ? 0 : c->forward_ns);
        }
        span(s, ZL_TRACE_LOCAL_LOSS, k, micro, &at, c->loss_ns);
        span(s, ZL_TRACE_BACKWARD, k, micro, &at, c->backward_ns);
    } else {
        span(s, ZL_TRACE_UPDATE, k, micro, &at, c->update_ns);
    }
    *w = (struct worker){op, k, at};
    s->stage[k].busy = true;
    if (!o->busy_ns)
        o->begin_ns = s->now;
    if (!tally->busy_ns)
        tally->begin_ns = s->now;
    o->busy_ns += at - s->now;
    tally->busy_ns += at - s->now;
    o->end_ns = tally->end_ns = at;
}

static void end(struct sim *s, struct worker *w)
{
    const uint32_t k = w->stage;
    const struct zl_sim_cost *c = &s->r->cost[k];
    struct stage *g = &s->stage[k];
    g->busy = false;
    if (w->op == FORWARD) {
        g->forwards++;
        if (!trains(s, k))
            let_go(s, k, c->activation_bytes);
        else if (s->r->replay)
            let_go(s, k, c->activation_bytes - c->input_bytes);
    } else if (w->op == BACKWARD) {
        g->backwards++;
        let_go(s, k, c->activation_bytes);
    } else {
        g->updates++;
    }
    w->op = NONE;
}

/* The operation that a free worker takes now: its stage, or `stages` for none. */
static uint32_t pick(const struct sim *s, uint32_t w, enum op *op)
{
    uint32_t best = s->r->stages;
    for (uint32_t k = 0; k < s->r->stages; k++) {
        if ((!s->r->common && s->r->worker[k] != w) || s->stage[k].busy)
            continue;
        enum op o = next(s, k);
        if (o == NONE || !has_input(s, k, o) || !has_space(s, k, o))
            continue;
        if (best == s->r->stages || before(s, k, o, best, *op)) {
            best = k;
            *op = o;
        }
    }
    return best;
}

static int run(struct sim *s, struct zl_error *err)
{
    for (;;) {
        for (uint32_t w = 0; w < s->r->workers; w++) {
            enum op op = NONE;
            uint32_t k = s->worker[w].op == NONE ? pick(s, w, &op) : s->r->stages;
            if (k < s->r->stages)
                begin(s, &s->worker[w], &s->out->worker[w], k, op);
        }
        uint64_t soonest = NEVER;
        for (uint32_t w = 0; w < s->r->workers; w++)
            if (s->worker[w].op != NONE && s->worker[w].end_ns < soonest)
                soonest = s->worker[w].end_ns;
        if (soonest == NEVER)
            break;
        s->now = soonest;
        for (uint32_t w = 0; w < s->r->workers; w++)
            if (s->worker[w].op != NONE && s->worker[w].end_ns == soonest)
                end(s, &s->worker[w]);
    }
    for (uint32_t k = 0; k < s->r->stages; k++)
        if (next(s, k) != NONE)
            return zl_fail(err, ZL_EUSAGE, "with these numbers stage %u waits for ever", k);
    s->out->makespan_ns = s->now;
    return 0;
}

static uint64_t micro_of_step(const struct zl_sim_request *r, uint64_t step)
{
    return r->step_micro ? r->step_micro[step] : r->micro;
}

/* Micro-batches of all steps; 0 when a step has none, or there are too many. */
static uint64_t count_micro(const struct zl_sim_request *r)
{
    uint64_t n = 0, operations;
    for (uint64_t i = 0; i < r->steps; i++)
        if (!micro_of_step(r, i) || __builtin_add_overflow(n, micro_of_step(r, i), &n) ||
            __builtin_mul_overflow(n, r->stages, &operations) || operations > ZL_SIM_OPERATIONS)
            return 0;
    return n;
}

static int check(const struct zl_sim_request *r, struct zl_error *err)
{
    if (r->stages < 1 || r->stages > ZL_SIM_STAGES || r->workers < 1 || r->workers > r->stages || r->steps < 1 ||
        r->ring_depth < 1)
        return zl_fail(err, ZL_EUSAGE, "a pipeline has 1 to %d stages, a worker for them, a step and a place in its rings",
                       ZL_SIM_STAGES);
    if (!count_micro(r))
        return zl_fail(err, ZL_EUSAGE, "every step has a micro-batch, and stages times micro-batches times steps is at most %d",
                       ZL_SIM_OPERATIONS);
    uint32_t trained = 0;
    for (uint32_t k = 0; k < r->stages; k++) {
        const struct zl_sim_cost *c = &r->cost[k];
        if (r->worker[k] >= r->workers)
            return zl_fail(err, ZL_EUSAGE, "stage %u is on worker %u, but there are %u", k, r->worker[k], r->workers);
        if (!c->forward_ns || (!r->frozen[k] && !c->backward_ns) || c->input_bytes > c->activation_bytes)
            return zl_fail(err, ZL_EUSAGE, "stage %u: forward and backward take time, and an input is a part of the activations", k);
        trained += !r->frozen[k];
    }
    return trained ? 0 : zl_fail(err, ZL_EUSAGE, "no stage trains");
}

int zl_sim_run(const struct zl_sim_request *r, struct zl_sim_result *out, struct zl_error *err)
{
    struct sim s = {.r = r, .out = out};
    *out = (struct zl_sim_result){0};
    int rc = check(r, err);
    if (rc)
        return rc;
    s.total = count_micro(r);
    s.capacity = (s.total * 4 + r->steps) * r->stages;
    s.step_end = calloc(r->steps, sizeof *s.step_end);
    for (uint64_t i = 0; s.step_end && i < r->steps; i++) {
        s.step_end[i] = (i ? s.step_end[i - 1] : 0) + micro_of_step(r, i);
        s.most = micro_of_step(r, i) > s.most ? micro_of_step(r, i) : s.most;
    }
    out->event = malloc(s.capacity * sizeof *out->event);
    s.stage = calloc(r->stages, sizeof *s.stage);
    s.worker = calloc(r->workers, sizeof *s.worker);
    rc = out->event && s.stage && s.worker && s.step_end ? run(&s, err) : zl_fail(err, ZL_EMEMORY, "out of memory for the simulation");
    free(s.stage);
    free(s.worker);
    free(s.step_end);
    if (rc)
        zl_sim_free(out);
    return rc;
}

void zl_sim_free(struct zl_sim_result *r)
{
    free(r->event);
    *r = (struct zl_sim_result){0};
}

static double share(uint64_t busy, uint64_t all)
{
    return all ? 1 - (double)busy / (double)all : 0;
}

double zl_sim_bubble(const struct zl_sim_result *r, uint32_t worker)
{
    return share(r->worker[worker].busy_ns, r->makespan_ns);
}

double zl_sim_wait(const struct zl_sim_result *r, uint32_t worker)
{
    return share(r->worker[worker].busy_ns, r->worker[worker].end_ns - r->worker[worker].begin_ns);
}

double zl_sim_bubble_all(const struct zl_sim_result *r, uint32_t workers)
{
    uint64_t busy = 0;
    for (uint32_t w = 0; w < workers; w++)
        busy += r->worker[w].busy_ns;
    return share(busy, r->makespan_ns * workers);
}

double zl_sim_wait_all(const struct zl_sim_result *r, uint32_t workers)
{
    uint64_t busy = 0, all = 0;
    for (uint32_t w = 0; w < workers; w++) {
        busy += r->worker[w].busy_ns;
        all += r->worker[w].end_ns - r->worker[w].begin_ns;
    }
    return share(busy, all);
}
