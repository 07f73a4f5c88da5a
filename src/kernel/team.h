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

struct zl_team {
    int threads;       /* >= 1 */
    void *scratch;     /* aligned to 64; owned by who made the team */
    uint64_t scratch_bytes; /* at least the maximum of the kernels' zl_*_scratch_bytes for the shapes in use */
    struct zl_profile *profile; /* kernels book their times here; NULL: nobody wants to know */
    enum zl_compute compute; /* of frozen weights' products; not one that zl_compute_missing() */
};

#endif
