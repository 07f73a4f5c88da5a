/*
 * What a run shows to other processes: a piece of its segment, named as the root, with each worker's counters. A worker writes its own line and
 * nothing else; whoever has the segment mapped reads (a supervisor looks for signs of life). Counters only grow.
 */
#ifndef ZL_PIPE_BOARD_H
#define ZL_PIPE_BOARD_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "pipe/segment.h"

struct zl_counters { /* of a worker, on cache lines of their own */
    alignas(128) _Atomic uint64_t operations;
    _Atomic uint64_t input_wait_ns, space_wait_ns; /* time without work by what the oldest stage waited for */
};

struct zl_board {
    uint32_t n_workers;
    _Atomic uint32_t live; /* workers are at work; before and after, their counters say nothing */
    struct zl_counters worker[];
};

uint64_t zl_board_bytes(uint32_t n_workers);
/* In a segment with room for it; becomes its root. NULL: no room. */
struct zl_board *zl_board_take(struct zl_segment *s, uint32_t n_workers);
void zl_board_set_live(struct zl_board *b, bool live);

/* From another process: operations of all workers of the process, if its segment can be read and they are at work. */
bool zl_board_look(pid_t pid, uint64_t *operations);

#endif
