/* Choosing a back end, and what has to do with names, which is the same in both. See disk.h. */
#include "config.h"

#include "store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/format.h"

/* The file system may be one that cannot reserve: then the writes themselves find out whether there is room. */
static int reserve(int fd, uint64_t bytes)
{
    int rc;
    do
        rc = fallocate(fd, 0, 0, (off_t)bytes) ? -errno : 0;
    while (rc == -EINTR);
    return rc == -ENOSPC || rc == -EDQUOT || rc == -EIO || rc == -EFBIG || rc == -EROFS ? rc : 0;
}

int zl_disk_create(struct zl_disk *d, struct zl_disk_file *f, const char *name, uint64_t bytes)
{
    f->error = 0;
    snprintf(f->name, sizeof f->name, "%s", name);
    do
        f->fd = openat(f->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    while (f->fd < 0 && errno == EINTR);
    if (f->fd < 0)
        return f->error = -errno;
    /* asked for afterwards: with O_CREAT some file systems make the file and then refuse to open it */
    f->direct = !d->buffered && fcntl(f->fd, F_SETFL, O_DIRECT) == 0;
    return f->error = bytes ? reserve(f->fd, bytes) : 0;
}

bool zl_disk_undirect(struct zl_disk_file *f)
{
    const bool was = f->direct;
    f->direct = false;
    return was && fcntl(f->fd, F_SETFL, 0) == 0;
}

int zl_disk_close_file(struct zl_disk *d, struct zl_disk_file *f)
{
    (void)d;
    /* EINTR from close means closed, on Linux */
    if (f->fd >= 0 && close(f->fd) && errno != EINTR && !f->error)
        f->error = -errno;
    f->fd = -1;
    return f->error;
}

int zl_disk_rename(struct zl_disk *d, int folder, const char *from, const char *to)
{
    (void)d;
    return renameat(folder, from, folder, to) ? -errno : 0;
}

int zl_disk_remove(struct zl_disk *d, int folder, const char *name)
{
    (void)d;
    return unlinkat(folder, name, 0) ? -errno : 0;
}

/* Some network file systems cannot sync a folder and say EINVAL: then the rename is as safe as it gets there. */
int zl_disk_sync_folder(struct zl_disk *d, int folder)
{
    (void)d;
    int rc;
    do
        rc = fsync(folder) && errno != EINVAL ? -errno : 0;
    while (rc == -EINTR);
    return rc;
}

int zl_disk_open(struct zl_disk *d, uint32_t room_bytes, bool plain, bool buffered, const struct zl_disk_ops *ops, void *context,
                 char note[256])
{
    note[0] = '\0';
    *d = (struct zl_disk){.ops = &zl_disk_plain, .context = context, .room_bytes = room_bytes, .buffered = buffered};
    d->rooms = aligned_alloc(ZL_FORMAT_PAGE, (size_t)room_bytes * ZL_DISK_ROOMS);
    if (!d->rooms)
        return -ENOMEM;
    memset(d->rooms, 0, (size_t)room_bytes * ZL_DISK_ROOMS);
    if (!plain && zl_disk_uring_open(d, note) == 0)
        d->ops = &zl_disk_uring;
    if (ops)
        d->ops = ops;
    return 0;
}

void zl_disk_close(struct zl_disk *d)
{
    zl_disk_uring_close(d);
    free(d->rooms);
    *d = (struct zl_disk){0};
}

const char *zl_disk_name(const struct zl_disk *d, const struct zl_disk_file *f)
{
    if (d->ring)
        return f->direct ? "io_uring, direct" : "io_uring, buffered";
    return f->direct ? "pwrite, direct" : "pwrite, buffered";
}
