/* Small files and folders: see file.h. */
#include "config.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_READ ((size_t)16384)

/* "a FIFO": what is there that is no file. */
static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a folder";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    default:
        return "no file";
    }
}

int zl_file_open(const char *path, int *fd, struct zl_error *err)
{
    struct stat st;
    *fd = -1;
    const int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (opened < 0 && errno == ENXIO) /* how open answers for a socket */
        return zl_fail(err, ZL_EINPUT, "%s is a socket or a device that is not there, expected a file", path);
    if (opened < 0)
        return zl_fail_errno(err, errno == ENOENT || errno == ENOTDIR ? ZL_EINPUT : ZL_ESYSTEM, "cannot open %s", path);
    int rc = fstat(opened, &st) ? zl_fail_errno(err, ZL_ESYSTEM, "cannot learn what %s is", path) : 0;
    if (!rc && !S_ISREG(st.st_mode)) {
        rc = zl_fail(err, ZL_EINPUT, "%s is %s, expected a file", path, kind_of(st.st_mode));
        errno = EINVAL;
    }
    if (rc)
        close(opened);
    else
        *fd = opened;
    return rc;
}

int zl_file_stream(const char *path, FILE **f, struct zl_error *err)
{
    int fd, rc = zl_file_open(path, &fd, err);
    *f = rc ? NULL : fdopen(fd, "rb");
    if (rc || *f)
        return rc;
    close(fd);
    return zl_fail(err, ZL_EMEMORY, "no memory to read %s", path);
}

/* Takes fd over. */
static int read_all(int fd, const char *path, size_t cap, char **data, size_t *n, struct zl_error *err)
{
    int rc = 0;
    char *buffer = NULL;
    size_t used = 0, size = 0;
    for (;;) {
        if (used == size) { /* one byte is kept for the NUL */
            if (size > cap) {
                rc = zl_fail(err, ZL_EINPUT, "%s is longer than %zu bytes, the limit for such a file", path, cap);
                goto out;
            }
            size = size ? size * 2 : FIRST_READ;
            if (size > cap)
                size = cap + 1;
            char *more = realloc(buffer, size + 1);
            if (!more) {
                rc = zl_fail(err, ZL_EMEMORY, "no memory to read %s", path);
                goto out;
            }
            buffer = more;
        }
        ssize_t got = read(fd, buffer + used, size - used);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot read %s", path);
            goto out;
        }
        used += (size_t)got;
    }
    if (used > cap) {
        rc = zl_fail(err, ZL_EINPUT, "%s is longer than %zu bytes, the limit for such a file", path, cap);
        goto out;
    }
    buffer[used] = '\0';
    *data = buffer;
    buffer = NULL;
    if (n)
        *n = used;
out:
    close(fd);
    free(buffer);
    return rc;
}

int zl_file_read(const char *path, size_t cap, char **data, size_t *n, struct zl_error *err)
{
    int fd, rc = zl_file_open(path, &fd, err);
    return rc ? rc : read_all(fd, path, cap, data, n, err);
}

int zl_stream_read(const char *path, size_t cap, char **data, size_t *n, struct zl_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return zl_fail_errno(err, ZL_ESYSTEM, "cannot open %s", path);
    return read_all(fd, path, cap, data, n, err);
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return -1;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

static int sync_file(int fd)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc;
}

int zl_folder_sync(const char *path, struct zl_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return zl_fail_errno(err, ZL_ESYSTEM, "cannot open folder %s", path);
    int rc = 0;
    /* Some network file systems cannot sync a folder and say EINVAL: then the rename is as safe as it gets there. */
    if (sync_file(fd) != 0 && errno != EINVAL)
        rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot sync folder %s", path);
    close(fd);
    return rc;
}

/* Create a new file beside path under the user's umask; *name is malloc'd. A leftover of an earlier process is stepped over. */
static int create_beside(const char *path, char **name)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        if (asprintf(name, "%s.tmp-%ld-%d", path, (long)getpid(), attempt) < 0) {
            *name = NULL;
            errno = ENOMEM;
            return -1;
        }
        int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        int saved = errno;
        free(*name);
        *name = NULL;
        errno = saved;
        if (saved != EEXIST)
            return -1;
    }
    return -1;
}

int zl_file_write(const char *path, const void *data, size_t n, struct zl_error *err)
{
    int rc = 0;
    char *temporary = NULL, *folder = zl_path_folder(path);
    if (!folder)
        return zl_fail(err, ZL_EMEMORY, "no memory to write %s", path);
    int fd = create_beside(path, &temporary);
    if (fd < 0) {
        rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot create a file beside %s", path);
        goto out;
    }
    bool ok = write_all(fd, data, n) == 0 && sync_file(fd) == 0;
    int saved = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        saved = errno;
    }
    errno = saved;
    if (!ok || rename(temporary, path) != 0) {
        rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot write %s", path);
        unlink(temporary);
        goto out;
    }
    rc = zl_folder_sync(folder, err);
out:
    free(temporary);
    free(folder);
    return rc;
}

bool zl_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int zl_folder_make(const char *path, struct zl_error *err)
{
    char *p = strdup(path);
    if (!p)
        return zl_fail(err, ZL_EMEMORY, "no memory to make folder %s", path);
    int rc = 0;
    for (char *slash = p; rc == 0 && slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(p, 0777) != 0 && !(errno == EEXIST && zl_is_folder(p)))
            rc = errno == EEXIST ? zl_fail(err, ZL_ESYSTEM, "%s is a file or a broken link, expected a folder or nothing", p)
                                 : zl_fail_errno(err, ZL_ESYSTEM, "cannot make folder %s", p);
        if (slash)
            *slash = '/';
    }
    free(p);
    return rc;
}

char *zl_path_join(const char *a, const char *b)
{
    char *out = NULL;
    size_t n = strlen(a);
    const char *between = n == 0 || a[n - 1] == '/' ? "" : "/";
    if (b[0] == '/')
        return strdup(b);
    return asprintf(&out, "%s%s%s", a, between, b) < 0 ? NULL : out;
}

char *zl_path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}
