/*
 * The two futex calls that a ring needs. Not private futexes: the word may lie in memory that another process maps,
 * at another address. Both leave errno alone, and zl_futex_wake is async-signal-safe.
 */
#ifndef ZL_PIPE_FUTEX_H
#define ZL_PIPE_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* Sleep while *word == expected, until woken or until zl_clock_ns() passes deadline_ns (< 0: no deadline). May return early for no
 * reason; false only when the deadline has passed. The kernel compares and enqueues in one step, against every wake. */
bool zl_futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns);

/* Wake up to `count` sleepers of the word. */
void zl_futex_wake(const _Atomic uint32_t *word, int count);

#endif
