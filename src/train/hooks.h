/*
 * What work that takes long asks of whoever started it. The program answers from its signal flag, the library from its caller's
 * callback; the work itself knows neither signals nor terminals.
 */
#ifndef ZL_TRAIN_HOOKS_H
#define ZL_TRAIN_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct zl_hooks {
    /* Asked first before anything is written or put into shared memory; until then who wants to stop may end the process. Then asked
     * between micro-batches and between tokens, by the thread that does the call: NULL to go on, or who wants it to stop ("a
     * signal"), for the sentence of the error. May be NULL: never. */
    const char *(*stop)(void *context);
    /* Told after each training step; loss is the model's own on the step's trained tokens. May be NULL. */
    void (*step)(void *context, uint64_t step, uint64_t steps, double loss, double tokens_per_second);
    void *context;
};

static inline const char *zl_hooks_stop(const struct zl_hooks *h)
{
    return h && h->stop ? h->stop(h->context) : NULL;
}

/* 0, or ZL_ESTOPPED with the sentence. */
static inline int zl_hooks_check(const struct zl_hooks *h, struct zl_error *err)
{
    const char *by = zl_hooks_stop(h);
    return by ? zl_fail(err, ZL_ESTOPPED, "stopped by %s", by) : 0;
}

#endif
