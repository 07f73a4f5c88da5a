/*
 * Which cores we may use, and how they are shared out: from the process's affinity mask, the cgroup's CPU quota (floor, at least 1) and
 * the topology (hwloc): one hardware thread a core unless all are asked for, fastest cores first on hybrid parts. A foreign OMP_*
 * or BLIS_* setting does not change the plan (pipe/environment.h).
 */
#ifndef ZL_PIPE_CORES_H
#define ZL_PIPE_CORES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "pipe/environment.h"

#define ZL_CORES_MAX 1024

struct zl_cores {
    int n;                    /* usable cores after mask, SMT and quota */
    int allowed;              /* logical CPUs in the mask (the first ZL_CORES_MAX of them) */
    int cores;                /* physical cores in the mask */
    int cpu[ZL_CORES_MAX];    /* their OS numbers, in the order they are given out: `allowed` of them, siblings last */
    double quota;             /* CPUs of the cgroup's quota; 0: none */
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* of the first core; 0: unknown */
};

/* Look at the machine. Before any thread is pinned: the mask is the calling thread's. A single core gives its SMT siblings too. */
int zl_cores_detect(struct zl_cores *c, struct zl_error *err);

/* Divide `threads` cores (<= 0: the usable ones; more than c->n takes SMT siblings and ignores the quota, more than c->allowed is
 * ZL_EUSAGE) over n_groups groups so that the largest weight a core (weight NULL: equal) is smallest, at least one each,
 * neighbours together; with fewer cores than groups, groups share cores. group[i] lists its CPUs. */
struct zl_core_group {
    int n;
    int cpu[ZL_CORES_MAX];
};
int zl_cores_divide(const struct zl_cores *c, int threads, int n_groups, const double *weight, struct zl_core_group *group,
                    struct zl_error *err);

/* Pin the calling thread and a team of group->n OpenMP threads, each to its own CPU, and make group->n the size of the calling
 * thread's later parallel regions. Called from the stage's thread before its first kernel. Failure to pin is not an
 * error (containers may forbid it), nor is a smaller team: returns false. */
bool zl_cores_pin_team(const struct zl_core_group *group);

#endif
