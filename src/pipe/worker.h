/*
 * A worker: one thread, pinned with its team to a core group, that runs the operations of one stage or several. Of the stages that can go
 * on it takes a backward first (it frees activations and other stages wait for it), then the oldest micro-batch, the deeper stage on
 * ties. Which one it takes changes when things happen and never what is computed.
 *
 * Workers may have their stages in common: a stage's operations then are run by one after the other, each by whoever is free. They choose under
 * a lock, which is held while somebody looks at the stages, some microseconds in an operation of milliseconds, and never while one is run; it
 * also hands on what the last worker of a stage wrote to the next one. A worker with stages of its own has that lock for itself.
 */
#ifndef ZL_PIPE_WORKER_H
#define ZL_PIPE_WORKER_H

#include <pthread.h>

#include "pipe/board.h"
#include "pipe/cores.h"
#include "pipe/stage.h"

/* Stages and those who run them. */
struct zl_pool {
    pthread_mutex_t lock;
    uint32_t n_stages, live; /* live: those that are not done yet come first in the list */
    struct zl_stage **stage; /* [n_stages] */
    bool revived, broken;
    uint32_t n_workers;
};

struct zl_worker {
    uint32_t index;
    struct zl_pool *pool;
    struct zl_core_group group;
    struct zl_bell *bell;
    struct zl_trace_lane *trace;
    void (*before)(void *context, uint32_t stage); /* called before each operation, for tests that disturb the timing; NULL */
    void *context;
    const _Atomic bool *halt; /* set by others: stop where you are */
    bool pinned, running;
    pthread_t thread;
    _Atomic bool over; /* the thread has done all that it will do */
    struct zl_counters *counters; /* written by the worker, read by others at any time */
};

/* Start the thread. It ends when its stages are done or one is broken, having closed or aborted the rings around them; or when it is halted:
 * then it finishes the operation under way and leaves everything as it is. */
int zl_worker_start(struct zl_worker *w, struct zl_error *err);
void zl_worker_join(struct zl_worker *w);

#endif
