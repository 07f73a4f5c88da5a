/* The thread of one or several stages: see worker.h. */
#include "pipe/worker.h"

#include <stdatomic.h>

#include "base/clock.h"

struct choice {
    struct zl_stage *stage;
    enum zl_stage_next what;
    uint64_t oldest;
};

static bool better(const struct choice *a, const struct choice *b)
{
    if (!b->stage)
        return true;
    bool a_back = a->what == ZL_STAGE_BACKWARD, b_back = b->what == ZL_STAGE_BACKWARD;
    if (a_back != b_back)
        return a_back;
    if (a->oldest != b->oldest)
        return a->oldest < b->oldest;
    return a->stage->index > b->stage->index;
}

/* Counters have one writer. */
static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

static void book_wait(struct zl_worker *w, enum zl_stage_next why, uint64_t start)
{
    const uint64_t end = zl_clock_ns();
    const bool space = why == ZL_STAGE_WAITS_SPACE;
    add(space ? &w->counters->space_wait_ns : &w->counters->input_wait_ns, end - start);
    zl_trace_span(w->trace, space ? ZL_TRACE_WAIT_SPACE : ZL_TRACE_WAIT_INPUT, start, end,
                  w->pool->n_stages == 1 ? w->pool->stage[0]->index : ZL_TRACE_NO_STAGE, 0, 0);
}

/* Look at every stage that nobody is at: the best operation that can run, in *best. Stages that are done are closed and leave the list.
 * false: one is broken. */
static bool look(struct zl_pool *p, struct choice *best, enum zl_stage_next *why)
{
    *best = (struct choice){0};
    *why = ZL_STAGE_WAITS_INPUT;
    for (uint32_t i = 0; i < p->live;) {
        struct choice c = {.stage = p->stage[i]};
        if (c.stage->taken) {
            i++;
            continue;
        }
        c.what = zl_stage_next(c.stage);
        if (c.what == ZL_STAGE_BROKEN)
            return false;
        if (c.what == ZL_STAGE_DONE) {
            zl_stage_end(c.stage, false);
            p->stage[i] = p->stage[--p->live];
            p->stage[p->live] = c.stage;
            continue;
        }
        i++;
        if (c.what == ZL_STAGE_WAITS_SPACE)
            *why = c.what;
        if (!zl_stage_can_run(c.what))
            continue;
        c.oldest = zl_stage_oldest(c.stage, c.what);
        if (better(&c, best))
            *best = c;
    }
    return true;
}

/* Choose what to run and take its stage, or none. false: there is nothing more to do here. */
static bool take(struct zl_worker *w, struct choice *best, enum zl_stage_next *why)
{
    struct zl_pool *p = w->pool;
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; !p->revived && i < p->live; i++)
        zl_stage_revive(p->stage[i]);
    p->revived = true;
    if (!p->broken && !look(p, best, why)) {
        p->broken = true;
        for (uint32_t i = 0; i < p->live; i++) /* an operation under way has its slots and ends */
            zl_stage_end(p->stage[i], true);
    }
    const bool more = !p->broken && p->live;
    if (more && best->stage) {
        best->stage->taken = true;
        best->stage->trace = w->trace;
    }
    pthread_mutex_unlock(&p->lock);
    return more;
}

static void give_back(struct zl_worker *w, struct zl_stage *s)
{
    pthread_mutex_lock(&w->pool->lock);
    s->taken = false;
    pthread_mutex_unlock(&w->pool->lock);
    if (w->pool->n_workers > 1) /* somebody may have looked while it was taken */
        zl_bell_ring(w->bell);
}

static void *run(void *arg)
{
    struct zl_worker *w = arg;
    w->pinned = zl_cores_pin_team(&w->group);
    for (;;) {
        const uint32_t seen = zl_bell_seen(w->bell);
        struct choice best = {0};
        enum zl_stage_next why = ZL_STAGE_WAITS_INPUT;
        if (atomic_load_explicit(w->halt, memory_order_acquire)) /* set before the bell was rung */
            break;
        if (!take(w, &best, &why))
            break;
        if (best.stage) {
            if (w->before)
                w->before(w->context, best.stage->index);
            zl_stage_run(best.stage, best.what);
            give_back(w, best.stage);
            add(&w->counters->operations, 1);
        } else {
            const uint64_t start = zl_clock_ns();
            zl_bell_wait(w->bell, seen);
            book_wait(w, why, start);
        }
    }
    atomic_store_explicit(&w->over, true, memory_order_release); /* what the thread wrote is seen with it */
    return NULL;
}

int zl_worker_start(struct zl_worker *w, struct zl_error *err)
{
    if (pthread_create(&w->thread, NULL, run, w))
        return zl_fail(err, ZL_ESYSTEM, "the thread of worker %u cannot be started", w->index);
    w->running = true;
    return 0;
}

void zl_worker_join(struct zl_worker *w)
{
    if (w->running)
        pthread_join(w->thread, NULL);
    w->running = false;
}
