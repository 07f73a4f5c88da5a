/*
 * A team: the threads that compute one stage's kernels, and the scratch memory they share. A kernel called with a team may
 * open one OpenMP region of team->threads threads and use the scratch until it returns. Kernels keep no other state.
 * Every kernel gives the same bits for any number of threads: work is divided over outputs, never inside a sum.
 */
#ifndef ZL_KERNEL_TEAM_H
#define ZL_KERNEL_TEAM_H

#include <stdint.h>

#include "kernel/compute.h"

struct zl_profile; /* kernel/profile.h */

typedef void zl_part_fn(void *arg, int64_t part);

struct zl_team {
    int threads;       /* >= 1 */
    void *scratch;     /* aligned to 64; owned by who made the team */
    uint64_t scratch_bytes; /* at least the maximum of the kernels' zl_*_scratch_bytes for the shapes in use */
    struct zl_profile *profile; /* kernels book their times here; NULL: nobody wants to know */
    enum zl_compute compute; /* of frozen weights' products; not one that zl_compute_missing() */
    /* Loops of microseconds: fn(arg, part) for each part < parts, by whichever threads `crew` has. NULL: OpenMP does these too. */
    void (*share)(void *crew, int64_t parts, zl_part_fn *fn, void *arg);
    void *crew;
};

#define ZL_TEAM_PARTS 65535 /* of a short loop, at most */

static inline void zl_team_share(const struct zl_team *team, int64_t parts, zl_part_fn *fn, void *arg)
{
    if (team->share && parts > 1) {
        team->share(team->crew, parts, fn, arg);
        return;
    }
#pragma omp parallel for num_threads(team->threads) if (team->threads > 1 && parts > 1) schedule(dynamic)
    for (int64_t i = 0; i < parts; i++)
        fn(arg, i);
}

#endif
