/*
 * Short loops shared out to helpers: see crew.h. The invariant: a loop's parts are claimed one by one from its ticket, and who has claimed
 * one has the loop's fn and arg in force until he has reported it done.
 *
 * The ticket is one 64-bit word: bits 63..32 the loop's number, 31..16 its parts, 15..0 the next part to claim. The owner opens a loop:
 *
 *     owner   O1  fn, arg, done = 0                           helper  H1  t = ticket          (acquire)
 *             O2  ticket = {number, parts, 0}  (release)              H2  ticket: t -> t + 1  (acq_rel, if it is still t)
 *             O3  claims parts as H1..H4 do                           H3  fn(arg, part)
 *             O4  waits until done == parts    (acquire)              H4  done += 1           (release)
 *
 * Why H3 has the right fn and arg. H2 succeeds on the very word of O2 or on one made of it by other H2s (a release sequence), so O1 happened
 * before. The next loop's O1 comes after O4, which waits for H4 of all claimed parts, so it cannot overtake H3; and a ticket of an
 * earlier loop cannot be claimed any more: its parts were all claimed before O4, and the number tells a later one apart for 2^32 - 1 loops.
 * Why the owner sees what parts wrote: H4 releases, O4 acquires; the additions are one release sequence.
 *
 * Why no wake-up is lost. A side writes what the other waits for, then reads whether it sleeps (`sleeping` of the helpers, `owner_sleeps`);
 * a waiter writes that it sleeps, then reads the word again before futex_wait compares it a last time. All four are seq_cst: in
 * their single order one of both sees the other's write, as in ring.c.
 */
#include "pipe/crew.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pipe/futex.h"
#include "pipe/relax.h"

#define LINE       128
#define PARTS_MOST 65535

/* A helper's looks before a sleep: they bridge what lies between a token's loops, some tens of microseconds. */
#define HELPER_SPINS 3000

/* The owner looks for as long as its own parts took, and so much longer: then some helper has lost its core in the midst of a part, and
 * sleeping may give it the owner's. */
#define PATIENCE_NS 20000u

/*
 * Where other programs want the cores, each such loss lasts a slice of the scheduler's, a hundred times as long as a loop, and helpers may
 * cost more than they give. So the owner compares: loops are counted in windows, the first of which it does alone; once a window
 * with helpers has taken longer than the last one without, the next are done alone, twice as many after each further such loss. What a
 * window takes alone is measured anew now and then, since the machine's other work changes.
 */
enum { WINDOW = 512 /* loops: two or three tokens */, ALONE_MOST = 64, HELPED_MOST = 64 /* windows in a row */ };

enum { LEAVE, FIRST }; /* numbers that are no loop's */

struct zl_crew {
    alignas(LINE) _Atomic uint64_t ticket;
    zl_part_fn *fn;
    void *arg;
    alignas(LINE) _Atomic uint32_t done; /* parts of the loop */
    _Atomic uint32_t owner_sleeps;
    alignas(LINE) _Atomic uint32_t number; /* of the last loop: what idle helpers look at */
    _Atomic uint32_t sleeping;           /* helpers */
    alignas(LINE) int n;                 /* helpers */
    uint32_t loops, helped;              /* the owner's: of this window; windows with helpers in a row */
    uint32_t alone, penalty;             /* windows to do alone; after the next loss */
    uint64_t window_ns, alone_ns;        /* this window so far; the last one alone */
    pthread_t helper[];
};

static uint32_t parts_of(uint64_t ticket)
{
    return ticket >> 16 & PARTS_MOST;
}

/* Claim and do parts until none is left. */
static void work(struct zl_crew *c)
{
    uint64_t t = atomic_load_explicit(&c->ticket, memory_order_acquire);
    while ((t & PARTS_MOST) < parts_of(t)) {
        if (!atomic_compare_exchange_weak_explicit(&c->ticket, &t, t + 1, memory_order_acq_rel, memory_order_acquire))
            continue;
        c->fn(c->arg, (int64_t)(t & PARTS_MOST));
        if (atomic_fetch_add(&c->done, 1) + 1 == parts_of(t) && atomic_load(&c->owner_sleeps))
            zl_futex_wake(&c->done, 1);
        t = atomic_load_explicit(&c->ticket, memory_order_acquire);
    }
}

/* Wait for a loop behind number `seen`. */
static uint32_t next_number(struct zl_crew *c, uint32_t seen)
{
    for (int i = 0; i < HELPER_SPINS; i++) {
        uint32_t now = atomic_load_explicit(&c->number, memory_order_acquire);
        if (now != seen)
            return now;
        zl_relax();
    }
    atomic_fetch_add(&c->sleeping, 1);
    uint32_t now;
    while ((now = atomic_load(&c->number)) == seen)
        zl_futex_wait(&c->number, seen, -1);
    atomic_fetch_sub(&c->sleeping, 1);
    return now;
}

static void *help(void *arg)
{
    struct zl_crew *c = arg;
    for (uint32_t seen = FIRST; (seen = next_number(c, seen)) != LEAVE;)
        work(c);
    return NULL;
}

static void call(struct zl_crew *c, uint32_t number)
{
    atomic_store(&c->number, number);
    if (atomic_load(&c->sleeping))
        zl_futex_wake(&c->number, c->n);
}

/* started_ns: when the owner's own parts began. */
static void wait_for_all(struct zl_crew *c, uint32_t parts, uint64_t started_ns)
{
    if (atomic_load_explicit(&c->done, memory_order_acquire) == parts)
        return;
    const uint64_t now_ns = zl_clock_ns(), until_ns = now_ns + (now_ns - started_ns) + PATIENCE_NS;
    do
        for (int i = 0; i < 50; i++) {
            if (atomic_load_explicit(&c->done, memory_order_acquire) == parts)
                return;
            zl_relax();
        }
    while (zl_clock_ns() < until_ns);
    atomic_store(&c->owner_sleeps, 1);
    for (uint32_t now; (now = atomic_load(&c->done)) != parts;)
        zl_futex_wait(&c->done, now, -1);
    atomic_store_explicit(&c->owner_sleeps, 0, memory_order_relaxed); /* a stale 1 costs a system call */
}

/* Book a loop, and decide how the next ones are done: see WINDOW. */
static void book(struct zl_crew *c, uint64_t ns)
{
    c->window_ns += ns;
    if (!c->alone && c->window_ns > c->alone_ns) {
        c->penalty = c->penalty ? c->penalty : 1;
        c->alone = c->penalty;
        c->helped = 0;
        c->penalty = 2 * c->penalty < ALONE_MOST ? 2 * c->penalty : ALONE_MOST;
    } else if (++c->loops < WINDOW) {
        return;
    } else if (c->alone) {
        c->alone_ns = c->window_ns;
        c->alone--;
    } else {
        c->penalty = 0;
        c->alone = ++c->helped % HELPED_MOST == 0;
    }
    c->window_ns = c->loops = 0;
}

void zl_crew_share(struct zl_crew *c, int64_t parts, zl_part_fn *fn, void *arg)
{
    assert(parts >= 0 && parts <= PARTS_MOST);
    const bool helped = c->n > 0 && parts > 1;
    const uint64_t started_ns = helped ? zl_clock_ns() : 0;
    if (!helped || c->alone) {
        for (int64_t i = 0; i < parts; i++)
            fn(arg, i);
    } else {
        uint32_t number = atomic_load_explicit(&c->number, memory_order_relaxed) + 1;
        if (number == LEAVE)
            number++;
        c->fn = fn;
        c->arg = arg;
        atomic_store_explicit(&c->done, 0, memory_order_relaxed);
        atomic_store_explicit(&c->ticket, (uint64_t)number << 32 | (uint64_t)parts << 16, memory_order_release);
        call(c, number);
        work(c);
        wait_for_all(c, (uint32_t)parts, started_ns);
    }
    if (helped)
        book(c, zl_clock_ns() - started_ns);
}

static void share(void *crew, int64_t parts, zl_part_fn *fn, void *arg)
{
    zl_crew_share(crew, parts, fn, arg);
}

void zl_crew_join(struct zl_crew *crew, struct zl_team *team)
{
    team->share = share;
    team->crew = crew;
}

int zl_crew_open(struct zl_crew **out, int threads, struct zl_error *err)
{
    const size_t bytes = sizeof(struct zl_crew) + (size_t)threads * sizeof(pthread_t);
    struct zl_crew *c = *out = aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
    if (!c)
        return zl_fail(err, ZL_EMEMORY, "no memory for a crew of %d threads", threads);
    *c = (struct zl_crew){.number = FIRST, .alone = 1};
    for (; c->n < threads - 1; c->n++) {
        int rc = pthread_create(&c->helper[c->n], NULL, help, c);
        if (rc) {
            zl_crew_close(c);
            *out = NULL;
            return zl_fail(err, ZL_ESYSTEM, "cannot start a thread: error %d", rc);
        }
    }
    return 0;
}

void zl_crew_close(struct zl_crew *c)
{
    if (!c)
        return;
    call(c, LEAVE);
    for (int i = 0; i < c->n; i++)
        pthread_join(c->helper[i], NULL);
    free(c);
}
