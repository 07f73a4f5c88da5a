/*
 * The clock that durations and deadlines are measured with: CLOCK_MONOTONIC, the same in every process of the box. Not the time of
 * day. Called from every layer; cheap enough (no system call) for once a kernel.
 */
#ifndef ZL_BASE_CLOCK_H
#define ZL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t zl_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Time that the calling thread has spent on a core: what a wait, and another program on the core, do not lengthen. */
static inline uint64_t zl_clock_thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double zl_clock_seconds(void)
{
    return 1e-9 * (double)zl_clock_ns();
}

#endif
