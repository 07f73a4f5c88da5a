/*
 * The decision inside zl_cores_detect as a function of what the machine says, for tests with made-up machines. Apart from cores.h so that only
 * cores.c and its test need hwloc's header.
 */
#ifndef ZL_PIPE_CHOOSE_H
#define ZL_PIPE_CHOOSE_H

#include <hwloc.h>

#include "pipe/cores.h"

int zl_cores_choose(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, double quota,
                    struct zl_cores *c, struct zl_error *err);

#endif
