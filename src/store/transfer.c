/*
 * Reads and writes in the background: see transfer.h. What io_uring does not do (an opcode that the kernel lacks, an offset that the file
 * system takes only without O_DIRECT, any error) is tried once more by the plain calls, so that there is one place that decides what a
 * failure is.
 */
#include "config.h"

#include "store/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

#include "base/log.h"
#include "store/denied.h"

#define MOST_AT_ONCE (UINT64_C(1) << 30) /* of one system call */

struct zl_transfers {
    struct zl_transfer_calls calls;
    bool uring;
    unsigned under_way;
#ifdef HAVE_LIBURING
    struct io_uring ring;
#endif
};

static const struct zl_transfer_calls system_calls = {pread, pwrite, NULL};

const char *zl_transfer_why(int error, bool write)
{
    if (error != ZL_TRANSFER_SHORT)
        return strerror(error);
    return write ? "the file takes no more" : "the file ends before";
}

/* What is left of t, at once. */
static void plain(const struct zl_transfers *q, struct zl_transfer *t)
{
    t->error = 0;
    while (t->done < t->bytes && !t->error) {
        const uint64_t left = t->bytes - t->done;
        const size_t n = (size_t)(left < MOST_AT_ONCE ? left : MOST_AT_ONCE);
        unsigned char *at = (unsigned char *)t->buffer + t->done;
        const off_t offset = (off_t)(t->offset + t->done);
        ssize_t r = t->write ? q->calls.write(t->fd, at, n, offset) : q->calls.read(t->fd, at, n, offset);
        int flags;
        if (r > 0)
            t->done += (uint64_t)r;
        else if (r == 0)
            t->error = ZL_TRANSFER_SHORT;
        else if (errno == EINVAL && (flags = fcntl(t->fd, F_GETFL)) >= 0 && flags & O_DIRECT)
            t->error = fcntl(t->fd, F_SETFL, flags & ~O_DIRECT) ? EINVAL : 0; /* an odd remainder, or a file system that opened but cannot */
        else if (errno != EINTR && errno != EAGAIN)
            t->error = errno;
    }
    t->busy = false;
}

#ifdef HAVE_LIBURING
static bool submit(struct zl_transfers *q, struct zl_transfer *t)
{
    struct io_uring_sqe *e = io_uring_get_sqe(&q->ring);
    if (!e)
        return false;
    const uint64_t left = t->bytes - t->done;
    const unsigned n = (unsigned)(left < MOST_AT_ONCE ? left : MOST_AT_ONCE);
    unsigned char *at = (unsigned char *)t->buffer + t->done;
    if (t->write)
        io_uring_prep_write(e, t->fd, at, n, t->offset + t->done);
    else
        io_uring_prep_read(e, t->fd, at, n, t->offset + t->done);
    io_uring_sqe_set_data(e, t);
    if (io_uring_submit(&q->ring) != 1)
        return false;
    q->under_way++;
    return true;
}

/* Take one completion. */
static void complete(struct zl_transfers *q)
{
    struct io_uring_cqe *e;
    int rc;
    while ((rc = io_uring_wait_cqe(&q->ring, &e)) == -EINTR || rc == -EAGAIN)
        ;
    if (rc)
        abort(); /* the kernel's side of the ring is gone: nothing is known about the buffers any more */
    struct zl_transfer *t = io_uring_cqe_get_data(e);
    const int r = e->res;
    io_uring_cqe_seen(&q->ring, e);
    q->under_way--;
    if (r > 0)
        t->done += (uint64_t)r;
    if (t->done == t->bytes)
        t->busy = false;
    else if (r <= 0 || !submit(q, t))
        plain(q, t);
}
#endif

int zl_transfers_open(struct zl_transfers **out, unsigned depth, const struct zl_transfer_calls *calls, struct zl_error *err)
{
    struct zl_transfers *q = calloc(1, sizeof *q);
    *out = q;
    if (!q)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    q->calls = calls ? *calls : system_calls;
#ifdef HAVE_LIBURING
    int rc = calls ? -ENOSYS : io_uring_queue_init(depth, &q->ring, 0);
    q->uring = rc == 0;
    if (rc && !calls) {
        char reason[ZL_DENIED_TEXT];
        zl_denied_reason(rc, "io_uring_setup", 0, reason);
        zl_note_once("transfers without io_uring", "the disk is read and written by pread and pwrite, and waited for; io_uring is not to be "
                     "had: %s", reason);
    }
#else
    (void)depth;
#endif
    return 0;
}

void zl_transfer_begin(struct zl_transfers *q, struct zl_transfer *t)
{
    t->done = 0;
    t->error = 0;
    t->busy = true;
#ifdef HAVE_LIBURING
    if (q->uring && submit(q, t))
        return;
#endif
    plain(q, t);
}

int zl_transfer_wait(struct zl_transfers *q, struct zl_transfer *t)
{
#ifdef HAVE_LIBURING
    while (t->busy)
        complete(q);
#else
    (void)q;
#endif
    return t->error;
}

void zl_transfers_close(struct zl_transfers *q)
{
    if (!q)
        return;
#ifdef HAVE_LIBURING
    while (q->under_way)
        complete(q);
    if (q->uring)
        io_uring_queue_exit(&q->ring);
#endif
    free(q);
}
