/*
 * What the control groups of this process allow: processor time and memory, version 1 and 2, the narrowest from our own group up to the
 * root of what is mounted. `root` is put before every path: "" for the system, a folder of made-up files in tests.
 */
#ifndef ZL_BASE_CGROUP_H
#define ZL_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* CPUs of processor time (quota / period); 0: no limit. */
double zl_cgroup_cpus(const char *root);

/* Bytes that the groups' memory limits still leave, file cache that can be dropped counted as free; UINT64_MAX: no limit. */
uint64_t zl_cgroup_memory_left(const char *root);

/* The text of a cpu.max file, "max 100000" or "150000 100000": CPUs, 0 for max. False when it is something else. */
bool zl_cgroup_parse_cpu_max(const char *text, double *cpus);

#endif
