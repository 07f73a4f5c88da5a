/* A file of lines that only grows: see append.h. */
#include "store/append.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITING_MOST (8u << 20) /* bytes of lines that wait */

int zl_append_open(struct zl_append *l, const char *path, int fd, struct zl_error *err)
{
    *l = (struct zl_append){.path = strdup(path), .fd = fd};
    return l->path ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
}

/* How much of it got into the file. */
static size_t append(struct zl_append *l, const char *text, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t n = write(l->fd, text + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            l->reason = n < 0 ? errno : ENOSPC;
            break;
        }
        done += (size_t)n;
    }
    return done;
}

static bool write_waiting(struct zl_append *l)
{
    if (!l->n)
        return true;
    const size_t done = append(l, l->waiting, l->n);
    l->n -= done;
    memmove(l->waiting, l->waiting + done, l->n);
    if (!l->n)
        l->reason = 0;
    return !l->n;
}

static void hold(struct zl_append *l, const char *text, size_t bytes, bool begun)
{
    if (l->n + bytes > l->room) {
        const size_t room = 2 * (l->n + bytes);
        char *more = room <= WAITING_MOST || begun ? realloc(l->waiting, room) : NULL;
        if (!more) {
            l->lost++;
            return;
        }
        l->waiting = more;
        l->room = room;
    }
    memcpy(l->waiting + l->n, text, bytes);
    l->n += bytes;
}

bool zl_append_line(struct zl_append *l, const char *text, size_t bytes)
{
    const bool well = !l->n && !l->lost;
    size_t done = 0;
    if (write_waiting(l))
        done = append(l, text, bytes);
    if (done < bytes)
        hold(l, text + done, bytes - done, done > 0);
    return !well || done == bytes;
}

bool zl_append_sync(struct zl_append *l)
{
    if (!write_waiting(l))
        return false;
    if (fdatasync(l->fd) == 0 || errno == EINVAL) /* of a kind of file that has no disk */
        return true;
    l->reason = errno;
    return false;
}

int zl_append_cut(struct zl_append *l, uint64_t bytes, struct zl_error *err)
{
    l->n = 0;
    l->lost = 0;
    l->reason = 0;
    /* on the disk before anything is appended: a power cut could mix what follows with what was there otherwise */
    const bool cut = ftruncate(l->fd, (off_t)bytes) == 0 && (fsync(l->fd) == 0 || errno == EINVAL);
    return cut ? 0 : zl_fail_errno(err, ZL_ESYSTEM, "%s cannot be cut to %llu bytes", l->path, (unsigned long long)bytes);
}

bool zl_append_is_torn(const char *line, size_t bytes)
{
    return memchr(line, 0, bytes) != NULL;
}

int zl_append_close(struct zl_append *l, struct zl_error *err)
{
    int rc = 0;
    if (l->fd >= 0 && (!write_waiting(l) || l->lost)) {
        errno = l->reason;
        rc = zl_fail_errno(err, ZL_ESYSTEM, "%s lacks lines that could not be written", l->path);
    }
    if (l->fd >= 0)
        close(l->fd);
    free(l->path);
    free(l->waiting);
    *l = (struct zl_append){.fd = -1};
    return rc;
}
