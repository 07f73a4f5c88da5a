/*
 * Which cores we may use and who gets which: see cores.h. Not a scheduler: the plan is made once, before the threads start. Decided by
 * zl_cores_choose from a topology, a mask and a quota, all of which tests make up. Invariant: a CPU that is given out is in
 * the mask, and none is given out twice while there are enough. Called by the planner.
 */
#define _GNU_SOURCE
#include "pipe/cores.h"

#include <assert.h>
#include <hwloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "pipe/choose.h"

struct candidate {
    int cpu;
    int efficiency; /* rank of its kind of core; greater is faster */
    int thread;     /* which hardware thread of its core, among the allowed ones */
    unsigned order; /* where it stands in the topology: neighbours share caches */
};

/* First threads of cores before second threads, fast before slow, else as in the topology. */
static int before(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    if ((a->thread > 0) != (b->thread > 0))
        return a->thread > 0 ? 1 : -1;
    if (a->efficiency != b->efficiency)
        return a->efficiency > b->efficiency ? -1 : 1;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static uint64_t cache_above(hwloc_obj_t pu, hwloc_obj_type_t type)
{
    for (hwloc_obj_t o = pu->parent; o; o = o->parent)
        if (o->type == type)
            return o->attr->cache.size;
    return 0;
}

/* The hardware thread's number among the allowed ones of its core. */
static int thread_of_core(hwloc_obj_t pu, hwloc_const_cpuset_t allowed)
{
    hwloc_obj_t core = pu->parent;
    while (core && core->type != HWLOC_OBJ_CORE)
        core = core->parent;
    int n = 0;
    if (core)
        for (int id = hwloc_bitmap_first(core->cpuset); id >= 0 && id != (int)pu->os_index;
             id = hwloc_bitmap_next(core->cpuset, id))
            n += hwloc_bitmap_isset(allowed, (unsigned)id);
    return n;
}

int zl_cores_choose(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, double quota,
                    struct zl_cores *c, struct zl_error *err)
{
    *c = (struct zl_cores){.quota = quota};
    struct candidate list[ZL_CORES_MAX];
    int n = 0, cores = 0;
    for (hwloc_obj_t pu = NULL; (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu));) {
        if (!hwloc_bitmap_isset(allowed, pu->os_index) || n == ZL_CORES_MAX)
            continue;
        int kind = hwloc_cpukinds_get_by_cpuset(topology, pu->cpuset, 0), efficiency = -1;
        if (kind < 0 || hwloc_cpukinds_get_info(topology, (unsigned)kind, NULL, &efficiency, NULL,
                                                NULL, 0) != 0)
            efficiency = -1;
        list[n] = (struct candidate){.cpu = (int)pu->os_index,
                                     .efficiency = efficiency,
                                     .thread = thread_of_core(pu, allowed),
                                     .order = pu->logical_index};
        cores += list[n].thread == 0;
        n++;
    }
    if (n == 0)
        return zl_fail(err, ZL_ESYSTEM, "the system names no processor that this process may use");
    qsort(list, (size_t)n, sizeof *list, before);
    c->allowed = n;
    c->cores = cores;
    c->n = cores == 1 ? n : cores;
    if (quota > 0 && quota < c->n)
        c->n = quota < 1 ? 1 : (int)floor(quota);
    for (int i = 0; i < n; i++)
        c->cpu[i] = list[i].cpu;
    hwloc_obj_t first = hwloc_get_pu_obj_by_os_index(topology, (unsigned)c->cpu[0]);
    c->l1d_bytes = cache_above(first, HWLOC_OBJ_L1CACHE);
    c->l2_bytes = cache_above(first, HWLOC_OBJ_L2CACHE);
    c->l3_bytes = cache_above(first, HWLOC_OBJ_L3CACHE);
    return 0;
}

int zl_cores_detect(struct zl_cores *c, struct zl_error *err)
{
    hwloc_topology_t topology = NULL;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    int rc = ZL_ESYSTEM;
    if (!allowed || hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0) {
        zl_fail(err, rc, "hwloc cannot tell this machine's topology");
        goto out;
    }
    if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(topology));
    rc = zl_cores_choose(topology, allowed, zl_cgroup_cpus(""), c, err);
out:
    if (topology)
        hwloc_topology_destroy(topology);
    hwloc_bitmap_free(allowed);
    return rc;
}

static double load(double weight, int cores)
{
    return weight > 0 && isfinite(weight) ? weight / cores : 0;
}

/* More groups than cores: the heaviest group first, each to the core with the least to do. */
static void share(const struct zl_cores *c, int threads, int n_groups, const double *weight,
                  struct zl_core_group *group)
{
    double busy[ZL_CORES_MAX] = {0};
    int hosted[ZL_CORES_MAX] = {0};
    for (int i = 0; i < n_groups; i++)
        group[i].n = 0;
    for (int turn = 0; turn < n_groups; turn++) {
        int g = -1, core = 0;
        for (int i = 0; i < n_groups; i++)
            if (!group[i].n && (g < 0 || (weight && load(weight[i], 1) > load(weight[g], 1))))
                g = i;
        for (int k = 1; k < threads; k++)
            if (busy[k] < busy[core] || (busy[k] <= busy[core] && hosted[k] < hosted[core]))
                core = k;
        busy[core] += weight ? load(weight[g], 1) : 1;
        hosted[core]++;
        group[g].n = 1;
        group[g].cpu[0] = c->cpu[core];
    }
}

int zl_cores_divide(const struct zl_cores *c, int threads, int n_groups, const double *weight,
                    struct zl_core_group *group, struct zl_error *err)
{
    assert(n_groups > 0);
    if (threads <= 0)
        threads = c->n;
    if (threads > c->allowed)
        return zl_fail(err, ZL_EUSAGE,
                       "%d threads were asked for, but this process may use only %d processor%s",
                       threads, c->allowed, c->allowed == 1 ? "" : "s");
    if (n_groups > threads) {
        share(c, threads, n_groups, weight, group);
        return 0;
    }
    for (int i = 0; i < n_groups; i++)
        group[i].n = 1;
    /* The next core always to the group that has most to do a core: this makes the slowest as fast as can be. */
    for (int left = threads - n_groups; left > 0; left--) {
        int most = 0;
        for (int i = 1; i < n_groups; i++)
            if (load(weight ? weight[i] : 1, group[i].n) > load(weight ? weight[most] : 1, group[most].n))
                most = i;
        group[most].n++;
    }
    for (int i = 0, at = 0; i < n_groups; at += group[i++].n)
        memcpy(group[i].cpu, c->cpu + at, (size_t)group[i].n * sizeof *c->cpu);
    return 0;
}
