/*
 * A worker: one thread, pinned with its team to a core group, that runs the operations of one stage or several. Of the stages that can go
 * on it takes a backward first (it frees activations and other stages wait for it), then the oldest micro-batch, the deeper stage on
 * ties. Which one it takes changes when things happen and never what is computed.
 */
#ifndef ZL_PIPE_WORKER_H
#define ZL_PIPE_WORKER_H

#include <pthread.h>

#include "pipe/board.h"
#include "pipe/cores.h"
#include "pipe/stage.h"

struct zl_worker {
    uint32_t index, n_stages;
    struct zl_stage **stage; /* [n_stages] */
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
