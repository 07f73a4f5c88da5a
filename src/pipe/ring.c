/*
 * The ring between two neighbours. Not a general queue: one producer, one consumer, slots of one size, and the data is written and
 * read in place. Called by the stages; `zerolock top` reads its counters from another process.
 *
 * Each side owns one cache line (128 bytes, since neighbouring 64-byte lines are prefetched in pairs) and in it one 32-bit word:
 *
 *     bits 31..2  how many slots this side has passed on, modulo 2^30: head (published) or tail (released)
 *     bit 1       aborted      both flags stand in both words, are only ever set, and are set by
 *     bit 0       closed       zl_ring_close and zl_ring_abort from any thread
 *
 * Invariant: 0 <= head - tail <= slots (modulo 2^30). Only the producer moves head and only the consumer moves tail.
 *
 * Why the data is seen. The producer writes a slot, then moves head (release); the consumer reads head (acquire), then the
 * slot. The other way round the consumer reads a slot, then moves tail (release), and the producer reads tail (acquire)
 * before it writes that slot again. A side reads its own count relaxed: nobody else changes it.
 *
 * Why no wake-up is lost. A side is blocked exactly while the other side's word has one known value: for the consumer head == tail,
 * for the producer tail == head - slots, in both cases with no flag set.
 *
 *     waiter  W1  sleeping = 1            (seq_cst)        other side  A1  word += 4        (seq_cst)
 *             W2  v = word                (seq_cst)                    A2  read sleeping    (seq_cst)
 *             W3  if v is the blocked value:                           A3  if set: futex_wake(word)
 *                 futex_wait(word, v)
 *
 * In the single order of the seq_cst operations either A1 comes before W2, so the waiter sees the new count and does not sleep; or
 * W2 comes before A1, so W1 comes before A2 and the other side wakes. That wake cannot come too early: A1 happened before it,
 * and the kernel compares the word with v while it holds the lock under which it looks for sleepers, so a waiter
 * that is not yet queued finds the word changed and returns. The value cannot come round again (2^30 moves) while the waiter sleeps:
 * the other side can move by at most `slots` < 2^29 before it blocks itself. `sleeping` is cleared relaxed: a stale 1 costs a
 * needless system call, and a stale 0 cannot be read by an A2 that follows the next W1 in the single order.
 * Close and abort set their flag in the very word that is slept on and always wake, so the same argument holds without A2.
 *
 * Why a close loses and adds nothing. Head moves by compare-and-swap and not once a flag is set, so after close the number of
 * published slots is final: the consumer drains exactly those.
 */
#include "pipe/ring.h"

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/type.h"
#include "pipe/futex.h"
#include "pipe/relax.h"

#define LINE      128u
#define SLOTS_MAX (1u << 28)

#define CLOSED  1u
#define ABORTED 2u
#define FLAGS   (CLOSED | ABORTED)
#define STEP    4u /* one slot, in the word */

/* A short wait is cheaper awake: this many looks take about 10 microseconds, as a sleep and a wake-up do. Many more would cost the
 * side that shares its core with the other one; a micro-batch takes milliseconds, so fewer would hardly matter. */
#define SPINS 300

/* What one side writes; the other only reads it (but for the flags). */
struct side {
    _Atomic uint32_t word;
    _Atomic uint32_t sleeping;
    uint32_t position; /* of the next slot, 0..slots-1: private */
    _Atomic uint64_t passed, wait_ns;
};

struct zl_ring {
    uint32_t slots;
    uint64_t slot_bytes; /* rounded up */
    alignas(LINE) struct side producer;
    alignas(LINE) struct side consumer;
    alignas(LINE) unsigned char data[];
};

static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
              "a lock inside an atomic would not work across processes");
static_assert(offsetof(struct zl_ring, data) == 3 * LINE, "one cache line a side");

uint64_t zl_ring_bytes(uint32_t slots, uint64_t slot_bytes)
{
    uint64_t rounded, bytes;
    if (slots == 0 || slots > SLOTS_MAX || !zl_add_u64(slot_bytes, LINE - 1, &rounded) ||
        !zl_mul_u64(rounded / LINE * LINE, slots, &bytes) ||
        !zl_add_u64(bytes, sizeof(struct zl_ring), &bytes) || bytes > (uint64_t)PTRDIFF_MAX)
        return 0;
    return bytes;
}

struct zl_ring *zl_ring_init(void *memory, uint32_t slots, uint64_t slot_bytes)
{
    assert(zl_ring_bytes(slots, slot_bytes) && (uintptr_t)memory % LINE == 0);
    struct zl_ring *r = memory;
    r->slots = slots;
    r->slot_bytes = (slot_bytes + LINE - 1) / LINE * LINE;
    return r;
}

enum view { READY, BLOCKED, OVER };

/* What a side sees in the other's word. blocked_at is the count, in place, at which there is nothing for this side to do. */
static inline enum view look(uint32_t word, uint32_t blocked_at, bool drains)
{
    if ((word & ABORTED) || ((word & CLOSED) && !drains))
        return OVER;
    if ((word & ~FLAGS) != blocked_at)
        return READY;
    return (word & CLOSED) ? OVER : BLOCKED;
}

/* Wait until the other side lets this one go on: steps W1 to W3. */
static enum view await(struct side *mine, struct side *theirs, uint32_t blocked_at, bool drains,
                       int64_t timeout_ns)
{
    enum view view =
        look(atomic_load_explicit(&theirs->word, memory_order_acquire), blocked_at, drains);
    if (view != BLOCKED || timeout_ns == 0)
        return view;

    int64_t start = (int64_t)zl_clock_ns();
    int64_t deadline = timeout_ns < 0                   ? -1
                       : timeout_ns > INT64_MAX - start ? INT64_MAX
                                                        : start + timeout_ns;
    for (int i = 0; i < SPINS && view == BLOCKED; i++) {
        zl_relax();
        view = look(atomic_load_explicit(&theirs->word, memory_order_acquire), blocked_at, drains);
    }
    for (bool in_time = true; view == BLOCKED && in_time;) {
        atomic_store_explicit(&mine->sleeping, 1, memory_order_seq_cst);
        uint32_t word = atomic_load_explicit(&theirs->word, memory_order_seq_cst);
        if (look(word, blocked_at, drains) == BLOCKED)
            in_time = zl_futex_wait(&theirs->word, word, deadline);
        atomic_store_explicit(&mine->sleeping, 0, memory_order_relaxed);
        view = look(atomic_load_explicit(&theirs->word, memory_order_acquire), blocked_at, drains);
    }
    /* Only this side writes its counters; relaxed, since a reader wants a number and no order. */
    uint64_t waited = atomic_load_explicit(&mine->wait_ns, memory_order_relaxed);
    atomic_store_explicit(&mine->wait_ns, waited + zl_clock_ns() - (uint64_t)start,
                          memory_order_relaxed);
    return view;
}

/* Pass one slot on, unless one of the flags in `unless` is set: steps A1 to A3. */
static void pass(struct zl_ring *r, struct side *mine, struct side *theirs, uint32_t unless)
{
    uint32_t word = atomic_load_explicit(&mine->word, memory_order_relaxed);
    do {
        if (word & unless)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&mine->word, &word, word + STEP,
                                                    memory_order_seq_cst, memory_order_relaxed));
    uint64_t passed = atomic_load_explicit(&mine->passed, memory_order_relaxed);
    atomic_store_explicit(&mine->passed, passed + 1, memory_order_relaxed);
    mine->position = mine->position + 1 == r->slots ? 0 : mine->position + 1;
    if (atomic_load_explicit(&theirs->sleeping, memory_order_seq_cst))
        zl_futex_wake(&mine->word, 1);
}

static inline uint32_t count(const struct side *s)
{
    return atomic_load_explicit(&s->word, memory_order_relaxed) & ~FLAGS;
}

static inline void *slot(struct zl_ring *r, const struct side *s)
{
    return r->data + s->position * r->slot_bytes;
}

void *zl_ring_try_reserve(struct zl_ring *r, int64_t timeout_ns)
{
    struct side *p = &r->producer;
    enum view v = await(p, &r->consumer, count(p) - r->slots * STEP, false, timeout_ns);
    return v == READY ? slot(r, p) : NULL;
}

void *zl_ring_try_peek(struct zl_ring *r, int64_t timeout_ns)
{
    struct side *c = &r->consumer;
    enum view v = await(c, &r->producer, count(c), true, timeout_ns);
    return v == READY ? slot(r, c) : NULL;
}

void *zl_ring_look(struct zl_ring *r, uint32_t i)
{
    const uint32_t head = atomic_load_explicit(&r->producer.word, memory_order_acquire);
    if (head & ABORTED)
        return NULL;
    return ((head & ~FLAGS) - count(&r->consumer)) / STEP > i ? zl_ring_unread_at(r, i) : NULL;
}

void *zl_ring_reserve(struct zl_ring *r)
{
    return zl_ring_try_reserve(r, -1);
}

void *zl_ring_peek(struct zl_ring *r)
{
    return zl_ring_try_peek(r, -1);
}

void zl_ring_publish(struct zl_ring *r)
{
    pass(r, &r->producer, &r->consumer, FLAGS);
}

void zl_ring_release(struct zl_ring *r)
{
    pass(r, &r->consumer, &r->producer, 0);
}

uint32_t zl_ring_unread(const struct zl_ring *r)
{
    return (count(&r->producer) - count(&r->consumer)) / STEP;
}

void *zl_ring_unread_at(struct zl_ring *r, uint32_t i)
{
    return r->data + (r->consumer.position + (uint64_t)i) % r->slots * r->slot_bytes;
}

int zl_ring_is_done(const struct zl_ring *r)
{
    uint32_t head = atomic_load_explicit(&r->producer.word, memory_order_acquire);
    if (head & ABORTED)
        return 1;
    return (head & CLOSED) && (head & ~FLAGS) == count(&r->consumer);
}

int zl_ring_is_aborted(const struct zl_ring *r)
{
    return (atomic_load_explicit(&r->producer.word, memory_order_acquire) & ABORTED) != 0;
}

int zl_ring_is_closed(const struct zl_ring *r)
{
    return (atomic_load_explicit(&r->consumer.word, memory_order_acquire) & FLAGS) != 0;
}

/* The consumer's word first: it stops the producer from reserving, so at most one slot, reserved already, is dropped. */
static void end(struct zl_ring *r, uint32_t flag)
{
    atomic_fetch_or_explicit(&r->consumer.word, flag, memory_order_seq_cst);
    atomic_fetch_or_explicit(&r->producer.word, flag, memory_order_seq_cst);
    zl_futex_wake(&r->consumer.word, INT32_MAX);
    zl_futex_wake(&r->producer.word, INT32_MAX);
}

void zl_ring_close(struct zl_ring *r)
{
    end(r, CLOSED);
}

void zl_ring_abort(struct zl_ring *r)
{
    end(r, ABORTED);
}

struct zl_ring_stats zl_ring_stats(const struct zl_ring *r)
{
    const struct side *p = &r->producer, *c = &r->consumer;
    struct zl_ring_stats s = {
        .released = atomic_load_explicit(&c->passed, memory_order_relaxed),
        .published = atomic_load_explicit(&p->passed, memory_order_relaxed),
        .producer_wait_ns = atomic_load_explicit(&p->wait_ns, memory_order_relaxed),
        .consumer_wait_ns = atomic_load_explicit(&c->wait_ns, memory_order_relaxed),
    };
    /* A side counts after it moved, so the consumer may have counted a slot that the producer has not yet. */
    if (s.published < s.released)
        s.published = s.released;
    return s;
}
