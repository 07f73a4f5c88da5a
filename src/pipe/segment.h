/*
 * The run's shared-memory segment: one POSIX shared-memory object that holds every ring and counter of a run, so that another process
 * (`zerolock top`, a supervisor) can read them. Sized with posix_fallocate before use: a full /dev/shm is an error here, not
 * a SIGBUS later; where /dev/shm is too small a memfd is used instead and the note says that nothing can attach.
 */
#ifndef ZL_PIPE_SEGMENT_H
#define ZL_PIPE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define ZL_SEGMENT_MAGIC   "zerolock" /* its eight bytes, no NUL */
#define ZL_SEGMENT_VERSION 1

/* What stands at the start of a segment, little-endian as the machine; pieces follow at multiples of 128. */
struct zl_segment_header {
    char magic[8];         /* written last: a reader that finds it finds the rest */
    uint32_t version;
    uint32_t header_bytes; /* where the first piece begins */
    uint64_t bytes, used;
    uint64_t root;         /* offset of the piece from which a reader finds the others; 0: none yet */
    uint64_t pid, start;   /* of the owner, as in the name */
};

struct zl_segment {
    void *base;      /* mapped read-write (owner) or read-only (reader) */
    uint64_t bytes, used;
    char name[64];   /* "/zerolock-<pid>-<start time>", ".1" behind the second of a process; empty for a memfd */
    int fd;
    bool owner;
};

/* Create one with room for `bytes` bytes of pieces; reclaims segments of dead runs first (their owner's pid and start time are in the
 * name, and a living owner holds a lock on the file, which also counts where its pid cannot be seen). note (may be NULL, 256 bytes)
 * receives a sentence when a memfd had to be used, else an empty string. Destroyed at exit() at the latest. */
int zl_segment_create(struct zl_segment *s, uint64_t bytes, char note[256], struct zl_error *err);
/* A piece, aligned to 128 and zero; NULL when it does not fit (plan bug). Before the threads start only. */
void *zl_segment_take(struct zl_segment *s, uint64_t bytes);
/* Name the piece from which a reader finds the others. */
void zl_segment_set_root(struct zl_segment *s, const void *piece);
void zl_segment_destroy(struct zl_segment *s);

/* Reader: map a segment by its name ("/zerolock-..."), read-only, after checking magic, version and size. Give it back by destroy. */
int zl_segment_attach(struct zl_segment *s, const char *name, struct zl_error *err);
/* The piece that the owner named, if all its `bytes` lie inside; NULL otherwise. */
const void *zl_segment_root(const struct zl_segment *s, uint64_t bytes);

/* Remove segments whose owner is dead; returns how many. zl_segment_create calls it. */
int zl_segment_reclaim(void);

/* When the process started, in clock ticks since boot (field 22 of /proc/PID/stat); 0: no such process, or it is a zombie. */
uint64_t zl_process_start(pid_t pid);

/* For tests: what reserves the space of a file, posix_fallocate unless replaced. Returns an errno value. */
extern int (*zl_segment_reserve)(int fd, off_t offset, off_t bytes);

/* Remove the names of this process's segments, for a handler that ends the process without atexit: async-signal-safe, and the
 * segments stay usable by those who have them mapped. */
void zl_segment_remove_now(void);

#endif
