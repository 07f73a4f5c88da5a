/* The back end that works everywhere: pwrite and fsync. See disk.h. */
#include "config.h"

#include "store/disk.h"

#include <errno.h>
#include <unistd.h>

#include "store/format.h"

static unsigned char *room(struct zl_disk *d)
{
    return d->rooms;
}

static int write_plain(struct zl_disk *d, struct zl_disk_file *f, uint64_t offset, unsigned char *data, uint32_t bytes)
{
    (void)d;
    while (bytes && !f->error) {
        const ssize_t w = pwrite(f->fd, data, bytes, (off_t)offset);
        if (w < 0 && (errno == EINTR || errno == EAGAIN || (errno == EINVAL && zl_disk_undirect(f))))
            continue;
        /* what is left of a short write may be no multiple of the page */
        if (w > 0 && w % ZL_FORMAT_PAGE)
            zl_disk_undirect(f);
        if (w <= 0)
            f->error = w ? -errno : -EIO;
        else
            data += w, offset += (uint64_t)w, bytes -= (uint32_t)w;
    }
    return f->error;
}

static int finish(struct zl_disk *d, struct zl_disk_file *f, uint64_t offset, unsigned char *data, uint32_t bytes)
{
    if (write_plain(d, f, offset, data, bytes))
        return f->error;
    int rc;
    do
        rc = fsync(f->fd) ? -errno : 0;
    while (rc == -EINTR);
    return f->error = rc;
}

const struct zl_disk_ops zl_disk_plain = {
    .create = zl_disk_create,
    .room = room,
    .write = write_plain,
    .finish = finish,
    .close = zl_disk_close_file,
    .rename = zl_disk_rename,
    .remove = zl_disk_remove,
    .sync_folder = zl_disk_sync_folder,
};
