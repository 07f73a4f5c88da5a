/*
 * A ring between two neighbours: single producer, single consumer, lock-free, in shared memory. head and tail stand on
 * cache lines of their own, each written by one side only. A side that must wait spins briefly, then sleeps on a
 * futex of the other side's index, so waiting costs no CPU. The .c file opens with the argument why the memory orders are right.
 */
#ifndef ZL_PIPE_RING_H
#define ZL_PIPE_RING_H

#include <stdint.h>

struct zl_ring; /* lives in the segment; contains offsets, no pointers */

/* Bytes for a ring of `slots` (>= 1, any number) slots of slot_bytes each (rounded up to 128). 0 on overflow. */
uint64_t zl_ring_bytes(uint32_t slots, uint64_t slot_bytes);
/* Lay out a ring in zeroed memory of zl_ring_bytes, aligned to 128. */
struct zl_ring *zl_ring_init(void *memory, uint32_t slots, uint64_t slot_bytes);

/* Producer: the next free slot; blocks while the ring is full. NULL once either side closed. Private until publish. */
void *zl_ring_reserve(struct zl_ring *r);
void zl_ring_publish(struct zl_ring *r);

/* Consumer: the oldest slot; blocks while empty. NULL once closed and drained (an aborted ring is not drained). Valid until release. */
void *zl_ring_peek(struct zl_ring *r);
void zl_ring_release(struct zl_ring *r);

/* As reserve/peek but wait at most timeout_ns (0: only look; < 0: no limit). NULL: not ready, or it never will be. */
void *zl_ring_try_reserve(struct zl_ring *r, int64_t timeout_ns);
void *zl_ring_try_peek(struct zl_ring *r, int64_t timeout_ns);
/* Consumer: the i-th slot behind the one that peek gives, if it is there by now; it does not wait. Valid until it is released. */
void *zl_ring_look(struct zl_ring *r, uint32_t i);
/* Never will be, for the consumer: aborted, or closed and drained. For the producer: closed or aborted. */
int zl_ring_is_done(const struct zl_ring *r);
int zl_ring_is_closed(const struct zl_ring *r);
int zl_ring_is_aborted(const struct zl_ring *r);

/* While neither side is at work: how many slots wait for the consumer, and the i-th of them (0: the one that peek gives). */
uint32_t zl_ring_unread(const struct zl_ring *r);
void *zl_ring_unread_at(struct zl_ring *r, uint32_t i);

/* close: no more will be published (a slot that is reserved now is dropped); the consumer drains.
 * abort: both sides return NULL at once. Idempotent, any thread, async-signal-safe. */
void zl_ring_close(struct zl_ring *r);
void zl_ring_abort(struct zl_ring *r);

/* Counters for metrics, readable from anywhere at any time. */
struct zl_ring_stats {
    uint64_t published, released;
    uint64_t producer_wait_ns, consumer_wait_ns; /* time blocked */
};
struct zl_ring_stats zl_ring_stats(const struct zl_ring *r);

#endif
