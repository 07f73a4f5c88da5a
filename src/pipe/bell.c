/* A worker's doorbell: see bell.h. */
#include "pipe/bell.h"

#include <stdalign.h>
#include <stdatomic.h>

#include "pipe/futex.h"
#include "pipe/relax.h"

#define SPINS 300 /* about 10 microseconds, as a sleep and a wake-up take */

struct zl_bell {
    alignas(128) _Atomic uint32_t count;
    alignas(128) _Atomic uint32_t sleepers; /* on a line of its own, since every ring reads it */
};

uint64_t zl_bell_bytes(void)
{
    return sizeof(struct zl_bell);
}

struct zl_bell *zl_bell_init(void *memory)
{
    return memory;
}

uint32_t zl_bell_seen(const struct zl_bell *b)
{
    return atomic_load_explicit(&b->count, memory_order_acquire);
}

void zl_bell_wait(struct zl_bell *b, uint32_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (zl_bell_seen(b) != seen)
            return;
        zl_relax();
    }
    atomic_fetch_add_explicit(&b->sleepers, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&b->count, memory_order_seq_cst) == seen)
        zl_futex_wait(&b->count, seen, -1);
    atomic_fetch_sub_explicit(&b->sleepers, 1, memory_order_relaxed); /* seen too late it costs a needless wake */
}

void zl_bell_ring(struct zl_bell *b)
{
    if (!b)
        return;
    atomic_fetch_add_explicit(&b->count, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&b->sleepers, memory_order_seq_cst))
        zl_futex_wake(&b->count, INT32_MAX);
}
