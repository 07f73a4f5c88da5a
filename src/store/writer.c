/*
 * The checkpoint writer's thread: takes blocks off the queue as they come, commits a generation when it is complete, cleans up behind one
 * that is lost, reports. Generations become current in their order; the blocks of the next one may be written before. The steps
 * themselves are in commit.c. See checkpoint_impl.h.
 */
#include "config.h"

#include "store/checkpoint_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The functions from here on are called with the mutex held; those that work let go of it meanwhile. */

static struct zl_pending *oldest(struct zl_checkpoints *c)
{
    struct zl_pending *found = NULL;
    for (uint32_t i = 0; i < ZL_OPEN_MOST; i++)
        if (c->pending[i].used && (!found || c->pending[i].generation < found->generation))
            found = &c->pending[i];
    return found;
}

static struct zl_pending *lost(struct zl_checkpoints *c)
{
    for (uint32_t i = 0; i < ZL_OPEN_MOST; i++)
        if (c->pending[i].used && c->pending[i].lost && c->pending[i].puts == 0)
            return &c->pending[i];
    return NULL;
}

static void give_back(struct zl_checkpoints *c, struct zl_slot *s)
{
    s->generation = NULL;
    s->next = c->free;
    c->free = s;
    pthread_cond_broadcast(&c->room);
}

static void write_next(struct zl_checkpoints *c)
{
    struct zl_slot *s = c->queue;
    struct zl_pending *p = s->generation;
    c->queue = s->next;
    if (!c->queue)
        c->queue_end = &c->queue;
    if (!p->lost) {
        struct zl_error err = {0};
        pthread_mutex_unlock(&c->mutex);
        const int rc = zl_writer_block(c, s, &err);
        pthread_mutex_lock(&c->mutex);
        if (rc && !p->lost) {
            p->lost = true;
            p->rc = rc;
            snprintf(p->why, sizeof p->why, "%s", err.text);
        }
    }
    give_back(c, s);
}

static void report(struct zl_checkpoints *c, const struct zl_pending *p, const struct zl_checkpoint_event *event)
{
    c->totals.generations += p->lost ? 0 : 1;
    c->totals.failed += p->lost && !p->dropped;
    c->totals.bytes += event->bytes;
    c->totals.writer_cpu_ns = cpu_ns();
    if (!p->dropped)
        c->event[(c->first_event + c->n_events++) % ZL_EVENTS_MOST] = *event;
}

/* Nothing of it is in the queue and nobody is inside put for it: it can go. */
static void settle(struct zl_checkpoints *c, struct zl_pending *p, struct zl_checkpoint_event *event)
{
    for (uint32_t i = 0; i < c->layout.n_parts; i++)
        if (p->filling[i].slot) {
            give_back(c, p->filling[i].slot);
            p->filling[i].slot = NULL;
        }
    event->generation = p->generation;
    event->step = p->step;
    event->rc = p->rc;
    if (p->lost)
        snprintf(event->why, sizeof event->why, "%s", p->why);
    report(c, p, event);
    free(p->text);
    p->text = NULL;
    p->used = false;
    pthread_cond_broadcast(&c->settled);
}

static void clean_up(struct zl_checkpoints *c, struct zl_pending *p)
{
    struct zl_checkpoint_event event = {0};
    pthread_mutex_unlock(&c->mutex);
    zl_writer_discard(c, p);
    pthread_mutex_lock(&c->mutex);
    settle(c, p, &event);
}

static void commit(struct zl_checkpoints *c, struct zl_pending *p)
{
    struct zl_checkpoint_event event = {0};
    struct zl_error err = {0};
    pthread_mutex_unlock(&c->mutex);
    const int rc = zl_writer_commit(c, p, &event, &err);
    event.seconds = 1e-9 * (double)(zl_clock_ns() - p->complete_ns);
    pthread_mutex_lock(&c->mutex);
    if (rc) {
        p->lost = true;
        p->rc = rc;
        snprintf(p->why, sizeof p->why, "%s", err.text);
    }
    c->totals.back_end = zl_disk_name(&c->disk, &p->file);
    settle(c, p, &event);
}

void *zl_writer_run(void *checkpoints)
{
    struct zl_checkpoints *c = checkpoints;
    pthread_mutex_lock(&c->mutex);
    for (;;) {
        struct zl_pending *p = oldest(c), *gone = lost(c);
        if (c->queue)
            write_next(c);
        else if (gone)
            clean_up(c, gone);
        else if (p && p->complete && p->puts == 0)
            commit(c, p);
        else if (c->closing && !p)
            break;
        else
            pthread_cond_wait(&c->work, &c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}
