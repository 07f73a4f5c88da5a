/*
 * The run's shared-memory segment: one POSIX shared-memory object that holds every ring and counter of a run, so that another process
 * (`zerolock top`, a supervisor) can read them. Sized with posix_fallocate before use: a full /dev/shm is an error here, not
 * a SIGBUS later; where /dev/shm is too small a memfd is used instead and the note says that nothing can attach.
 */
#ifndef ZL_PIPE_SEGMENT_H
#define ZL_PIPE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct zl_segment {
    void *base;      /* mapped read-write (owner) or read-only (reader) */
    uint64_t bytes, used;
    char name[64];   /* "/zerolock-<pid>-<start time>"; empty for a memfd */
    int fd;
    bool owner;
};

/* Create; reclaims segments of dead runs first (their owner's pid and start time are in the name and the header). note (may be
 * NULL, 256 bytes) receives a sentence when a memfd had to be used. */
int zl_segment_create(struct zl_segment *s, uint64_t bytes, char note[256], struct zl_error *err);
/* A piece, aligned to 128; NULL when it does not fit (plan bug). Before the threads start only. */
void *zl_segment_take(struct zl_segment *s, uint64_t bytes);
void zl_segment_destroy(struct zl_segment *s);

#endif
