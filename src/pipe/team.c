/*
 * Pinning of a stage's OpenMP team: see cores.h. Not a thread pool: the OpenMP library keeps the team's threads between the regions that
 * one thread starts, and gives thread number i the same one each time, so pinning them once in a region of full size
 * lasts. Called by each stage's thread.
 */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdlib.h>

#include "pipe/cores.h"

static bool pin_thread(int cpu)
{
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    size_t size = CPU_ALLOC_SIZE((size_t)cpu + 1);
    if (!set)
        return false;
    CPU_ZERO_S(size, set);
    CPU_SET_S((size_t)cpu, size, set);
    bool done = sched_setaffinity(0, size, set) == 0;
    CPU_FREE(set);
    return done;
}

bool zl_cores_pin_team(const struct zl_core_group *group)
{
    int pinned = 0, team = 0;
    omp_set_dynamic(0);
    omp_set_num_threads(group->n);
#pragma omp parallel num_threads(group->n) reduction(+ : pinned)
    {
        if (omp_get_thread_num() == 0)
            team = omp_get_num_threads();
        pinned = pin_thread(group->cpu[omp_get_thread_num()]);
    }
    return team == group->n && pinned == group->n;
}
