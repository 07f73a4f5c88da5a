/*
 * The back end that does not wait: writes from registered rooms through io_uring, and at the end the last write linked to the sync.
 *
 * A link orders two requests and no others, so `finish` first lets every earlier write come in. A short or repeated write breaks the link
 * or outruns it: then the sync is asked for again, after it. Completions are taken only when a room or a result is needed. See disk.h.
 */
#include "config.h"

#include "store/disk.h"

#include <errno.h>
#include <stdio.h>

#ifdef HAVE_LIBURING
#include <liburing.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/denied.h"
#include "store/format.h"

#define SYNC ZL_DISK_ROOMS /* user data of the sync; a write's is the number of its room */

struct request {
    struct zl_disk_file *file; /* NULL: the room is free */
    uint64_t offset;
    uint32_t bytes, done;
    bool direct; /* as it was when the write was asked for */
};

struct ring {
    struct io_uring io;
    struct request request[ZL_DISK_ROOMS];
    uint32_t under_way; /* requests at the kernel, the sync included */
    bool repeated;      /* a write had to be asked for again */
    bool broken;        /* the ring itself has failed: the next file is written without it */
    int sync_rc;
};

static void ask(struct zl_disk *d, uint32_t i, unsigned flags)
{
    struct ring *r = d->ring;
    struct request *q = &r->request[i];
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->io); /* there are more entries than requests */
    q->direct = q->file->direct;
    io_uring_prep_write_fixed(sqe, q->file->fd, d->rooms + (size_t)i * d->room_bytes + q->done, q->bytes - q->done, q->offset + q->done,
                              (int)i);
    sqe->flags |= (uint8_t)flags;
    sqe->user_data = i;
    r->under_way++;
}

static void ask_sync(struct ring *r, const struct zl_disk_file *f)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->io);
    io_uring_prep_fsync(sqe, f->fd, 0);
    sqe->user_data = SYNC;
    r->under_way++;
}

static void wrote(struct zl_disk *d, uint32_t i, int res)
{
    struct ring *r = d->ring;
    struct request *q = &r->request[i];
    struct zl_disk_file *f = q->file;
    bool again = res == -EINTR || res == -EAGAIN || (res == -EINVAL && q->direct && (!f->direct || zl_disk_undirect(f)));
    if (res > 0) {
        q->done += (uint32_t)res < q->bytes - q->done ? (uint32_t)res : q->bytes - q->done;
        again = q->done < q->bytes;
        if (again && q->done % ZL_FORMAT_PAGE) /* what is left is no multiple of the page */
            zl_disk_undirect(f);
    }
    if (again && !f->error) {
        r->repeated = true;
        ask(d, i, 0);
        return;
    }
    if (res <= 0 && !f->error)
        f->error = res ? res : -EIO;
    if (res == -EINVAL || res == -EOPNOTSUPP) /* that is no word about the disk: this kernel's ring cannot do it */
        r->broken = true;
    q->file = NULL;
}

/* What the ring holds is lost, and with it the files that were being written. Requests that still lie in it must never reach the kernel:
 * their descriptors may be another file's by then. */
static void lose_all(struct ring *r, int rc)
{
    for (uint32_t i = 0; i < ZL_DISK_ROOMS; i++) {
        if (r->request[i].file && !r->request[i].file->error)
            r->request[i].file->error = rc;
        r->request[i].file = NULL;
    }
    r->sync_rc = rc;
    r->under_way = 0;
    r->broken = true;
}

/* Hand over what was asked for and wait for one completion or more. */
static void reap(struct zl_disk *d)
{
    struct ring *r = d->ring;
    struct io_uring_cqe *cqe;
    int rc;
    do
        rc = io_uring_submit_and_wait(&r->io, 1);
    while (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
    if (rc < 0) {
        lose_all(r, rc);
        return;
    }
    while (io_uring_peek_cqe(&r->io, &cqe) == 0) {
        const uint64_t who = cqe->user_data;
        const int res = cqe->res;
        io_uring_cqe_seen(&r->io, cqe);
        r->under_way--;
        if (who == SYNC)
            r->sync_rc = res;
        else
            wrote(d, (uint32_t)who, res);
    }
}

static void wait_all(struct zl_disk *d)
{
    struct ring *r = d->ring;
    while (r->under_way)
        reap(d);
}

static int create(struct zl_disk *d, struct zl_disk_file *f, const char *name, uint64_t bytes)
{
    if (((struct ring *)d->ring)->broken) {
        zl_note_once("checkpoints without io_uring", "checkpoints are written by pwrite from now on: io_uring has failed");
        zl_disk_uring_close(d);
        d->ops = &zl_disk_plain;
    }
    return zl_disk_create(d, f, name, bytes);
}

static unsigned char *room(struct zl_disk *d)
{
    struct ring *r = d->ring;
    const uint32_t i = d->next_room;
    d->next_room = (i + 1) % ZL_DISK_ROOMS;
    while (r->request[i].file)
        reap(d);
    return d->rooms + (size_t)i * d->room_bytes;
}

static uint32_t request(struct zl_disk *d, struct zl_disk_file *f, uint64_t offset, const unsigned char *data, uint32_t bytes)
{
    const uint32_t i = (uint32_t)((size_t)(data - d->rooms) / d->room_bytes);
    ((struct ring *)d->ring)->request[i] = (struct request){.file = f, .offset = offset, .bytes = bytes};
    return i;
}

static int write_uring(struct zl_disk *d, struct zl_disk_file *f, uint64_t offset, unsigned char *data, uint32_t bytes)
{
    struct ring *r = d->ring;
    if (!f->error && r->broken)
        f->error = -EIO;
    if (f->error)
        return f->error;
    ask(d, request(d, f, offset, data, bytes), 0);
    const int rc = io_uring_submit(&r->io);
    if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY) /* these three: handed over when we wait */
        lose_all(r, rc);
    return f->error;
}

static int finish(struct zl_disk *d, struct zl_disk_file *f, uint64_t offset, unsigned char *data, uint32_t bytes)
{
    struct ring *r = d->ring;
    wait_all(d);
    if (!f->error && r->broken)
        f->error = -EIO;
    if (f->error)
        return f->error;
    r->repeated = false;
    ask(d, request(d, f, offset, data, bytes), IOSQE_IO_LINK);
    ask_sync(r, f);
    wait_all(d);
    while (!f->error && (r->sync_rc == -EINTR || r->sync_rc == -ECANCELED || (r->sync_rc == 0 && r->repeated))) {
        r->repeated = false;
        ask_sync(r, f);
        wait_all(d);
    }
    if (!f->error && r->sync_rc < 0)
        f->error = r->sync_rc;
    return f->error;
}

static int close_uring(struct zl_disk *d, struct zl_disk_file *f)
{
    wait_all(d);
    return zl_disk_close_file(d, f);
}

const struct zl_disk_ops zl_disk_uring = {
    .create = create,
    .room = room,
    .write = write_uring,
    .finish = finish,
    .close = close_uring,
    .rename = zl_disk_rename,
    .remove = zl_disk_remove,
    .sync_folder = zl_disk_sync_folder,
};

static void explain(int rc, const char *call, uint64_t locked_bytes, char note[256])
{
    char reason[ZL_DENIED_TEXT];
    zl_denied_reason(rc, call, locked_bytes, reason);
    snprintf(note, 256, "checkpoints are written by pwrite, io_uring is not to be had: %s", reason);
}

/* Some filters let a ring be made and not be used. */
static int try_out(struct io_uring *io)
{
    struct io_uring_cqe *cqe;
    io_uring_prep_nop(io_uring_get_sqe(io));
    int rc;
    do
        rc = io_uring_submit_and_wait(io, 1);
    while (rc == -EINTR);
    if (rc < 0)
        return rc;
    rc = io_uring_peek_cqe(io, &cqe);
    if (rc)
        return rc;
    rc = cqe->res;
    io_uring_cqe_seen(io, cqe);
    return rc;
}

int zl_disk_uring_open(struct zl_disk *d, char note[256])
{
    const uint64_t locked = (uint64_t)d->room_bytes * ZL_DISK_ROOMS;
    struct iovec rooms[ZL_DISK_ROOMS];
    struct ring *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    const char *call = "io_uring_setup";
    int rc = io_uring_queue_init(2 * ZL_DISK_ROOMS, &r->io, 0);
    if (rc < 0) {
        explain(rc, call, locked, note);
        free(r);
        return rc;
    }
    for (uint32_t i = 0; i < ZL_DISK_ROOMS; i++)
        rooms[i] = (struct iovec){.iov_base = d->rooms + (size_t)i * d->room_bytes, .iov_len = d->room_bytes};
    call = "io_uring_register";
    rc = io_uring_register_buffers(&r->io, rooms, ZL_DISK_ROOMS);
    if (rc >= 0) {
        call = "io_uring_enter";
        rc = try_out(&r->io);
    }
    if (rc < 0) {
        explain(rc, call, locked, note);
        io_uring_queue_exit(&r->io);
        free(r);
        return rc;
    }
    d->ring = r;
    return 0;
}

void zl_disk_uring_close(struct zl_disk *d)
{
    struct ring *r = d->ring;
    if (!r)
        return;
    wait_all(d);
    io_uring_queue_exit(&r->io);
    free(r);
    d->ring = NULL;
}

#else /* no liburing: the other back end does it all */

const struct zl_disk_ops zl_disk_uring = {0};

int zl_disk_uring_open(struct zl_disk *d, char note[256])
{
    (void)d;
    snprintf(note, 256, "checkpoints are written by pwrite, io_uring is not to be had: zerolock was built without liburing");
    return -ENOSYS;
}

void zl_disk_uring_close(struct zl_disk *d)
{
    (void)d;
}

#endif
