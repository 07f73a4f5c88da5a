/*
 * A crew: threads that help their owner with loops of microseconds, as generating a token has hundreds of. The owner does any part that no
 * helper has begun; so a helper that the system has put aside costs nothing, where a barrier would wait for it; and where helpers
 * that are put aside in the midst of a part make loops slower, the owner does them alone for a while. Not for the long loops of training,
 * which are OpenMP's.
 */
#ifndef ZL_PIPE_CREW_H
#define ZL_PIPE_CREW_H

#include <stdint.h>

#include "base/error.h"
#include "kernel/team.h"

struct zl_crew;

/* Start threads - 1 helpers, threads >= 1. They sleep a moment after the last loop. */
int zl_crew_open(struct zl_crew **out, int threads, struct zl_error *err);
void zl_crew_close(struct zl_crew *crew); /* NULL is fine */

/* fn(arg, part) once for each part < parts, by whoever comes first; returns when all are done, and all that they wrote is seen. Called by
 * one thread at a time, not by a helper. */
void zl_crew_share(struct zl_crew *crew, int64_t parts, zl_part_fn *fn, void *arg);

/* Let `team`'s short loops be shared out by this crew. */
void zl_crew_join(struct zl_crew *crew, struct zl_team *team);

#endif
