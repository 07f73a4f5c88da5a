/*
 * A doorbell: what workers sleep on while none of their stages has anything to do. Whoever changes something that a stage may be waiting
 * for (a slot published, a slot given back, a ring closed) rings the bell of the worker that holds the stage, or of all that have it in
 * common. Lives in the segment.
 *
 *     worker  B1  seen = count                      neighbour  A1  change a ring
 *             B2  look at all rings                            A2  count += 1       (seq_cst)
 *             B3  sleepers += 1         (seq_cst)              A3  read sleepers    (seq_cst)
 *             B4  if count == seen:     (seq_cst)              A4  if any: futex_wake(count), all
 *                 futex_wait(count, seen)
 *             B5  sleepers -= 1
 *
 * No wake-up is lost: if B2 missed the change of A1, then A2 came after B1 (the count is read with acquire and raised with release: a
 * count that includes A2 would show A1), so count != seen once A2 is done. In the single order of the seq_cst operations either A2
 * precedes B4, and the worker does not sleep; or B4 precedes A2, so B3 precedes A3 and the neighbour wakes; the kernel compares count
 * with seen while it holds the lock under which it looks for sleepers, so a wake cannot fall between. 2^32 rings during one look
 * would be needed to come round.
 */
#ifndef ZL_PIPE_BELL_H
#define ZL_PIPE_BELL_H

#include <stdint.h>

struct zl_bell;

uint64_t zl_bell_bytes(void);
struct zl_bell *zl_bell_init(void *memory); /* zeroed, aligned to 128 */

uint32_t zl_bell_seen(const struct zl_bell *b);
/* Wait until the count is no longer `seen`: a few microseconds awake, then asleep. May return early for no reason. */
void zl_bell_wait(struct zl_bell *b, uint32_t seen);
void zl_bell_ring(struct zl_bell *b); /* NULL: nobody to wake. Any thread, async-signal-safe */

#endif
