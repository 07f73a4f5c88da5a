/*
 * Reads and writes of a file that go on while the caller computes: io_uring where it can be had, plain pread and pwrite (done at once) where
 * not. A transfer is whole or failed: short ones are continued, interrupted ones begun again. One thread uses a queue. Knows no format.
 */
#ifndef ZL_STORE_TRANSFER_H
#define ZL_STORE_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Lives, with its buffer, at least until it was waited for. */
struct zl_transfer {
    int fd;
    bool write;
    void *buffer;           /* aligned for O_DIRECT where the file was opened so */
    uint64_t bytes, offset;
    uint64_t done;          /* bytes so far; from here on the queue's */
    int error;              /* errno; ZL_TRANSFER_SHORT: the file ended before all was read, or took no more */
    bool busy;
};
#define ZL_TRANSFER_SHORT (-1)

/* The system calls, for tests that bring failing ones; with them a queue uses no io_uring. */
struct zl_transfer_calls {
    ssize_t (*read)(int fd, void *buffer, size_t bytes, off_t offset);
    ssize_t (*write)(int fd, const void *buffer, size_t bytes, off_t offset);
    int (*reserve)(int fd, off_t offset, off_t bytes); /* 0 or an errno, as posix_fallocate */
};

struct zl_transfers; /* a queue */

/* For up to `depth` transfers at a time. calls: NULL, the system's. Without io_uring, says why once in a process. */
int zl_transfers_open(struct zl_transfers **out, unsigned depth, const struct zl_transfer_calls *calls, struct zl_error *err);
void zl_transfers_close(struct zl_transfers *q); /* waits for what is under way */

void zl_transfer_begin(struct zl_transfers *q, struct zl_transfer *t);
/* Until t is whole: 0, or its error. A transfer that is not under way has its result already. */
int zl_transfer_wait(struct zl_transfers *q, struct zl_transfer *t);

/* ": No space left on device", for sentences. */
const char *zl_transfer_why(int error, bool write);

#endif
