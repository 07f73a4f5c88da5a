/* A run's folder: see run.h. */
#include "store/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

char *zl_run_path(const struct zl_run *r, const char *name)
{
    return zl_path_join(r->dir, name);
}

/* Something of an earlier run: an empty file is what a run leaves that failed before its first step. */
static bool has(const struct zl_run *r, const char *name)
{
    char *path = zl_run_path(r, name);
    struct stat st;
    bool found = path && stat(path, &st) == 0 && st.st_size > 0;
    free(path);
    return found;
}

/* Open one of the run's own files. Somebody may have put something else under its name: through a symbolic link we would overwrite
 * a file that is none of ours, and a FIFO or a device would let us wait for ever, so only a plain file will do. Nothing of what it
 * holds is lost yet. */
static int open_own(const char *path, int flags, int *fd, struct zl_error *err)
{
    struct stat st;
    *fd = open(path, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (*fd < 0 && errno == ELOOP)
        return zl_fail(err, ZL_ESYSTEM, "%s is a symbolic link, expected a file of this run or nothing", path);
    if (*fd < 0)
        return zl_fail_errno(err, ZL_ESYSTEM, "%s cannot be written", path);
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode))
        return 0;
    close(*fd);
    *fd = -1;
    return zl_fail(err, ZL_ESYSTEM, "%s is not a plain file, expected a file of this run or nothing", path);
}

static int busy(const struct zl_run *r, struct zl_error *err)
{
    return zl_fail(err, ZL_ESYSTEM, "%s: another run is at work in this folder", r->dir);
}

static int take_lock(struct zl_run *r, struct zl_error *err)
{
    char *path = zl_run_path(r, "lock");
    if (!path)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    int rc = open_own(path, O_RDWR, &r->lock, err);
    struct stat st;
    if (!rc && flock(r->lock, LOCK_EX | LOCK_NB))
        rc = errno == EWOULDBLOCK ? busy(r, err) : zl_fail_errno(err, ZL_ESYSTEM, "%s cannot be locked", path);
    else if (!rc && (fstat(r->lock, &st) || st.st_nlink == 0))
        rc = busy(r, err);
    if (rc)
        r->made = false; /* not ours alone */
    free(path);
    return rc;
}

int zl_run_hold(const char *dir, int *lock, struct zl_error *err)
{
    struct zl_run r = {.lock = -1, .dir = strdup(dir)};
    int rc = r.dir ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc)
        rc = take_lock(&r, err);
    if (rc)
        zl_run_release(r.lock);
    *lock = rc ? -1 : r.lock;
    free(r.dir);
    return rc;
}

void zl_run_release(int lock)
{
    if (lock >= 0)
        close(lock);
}

int zl_run_open(struct zl_run *r, const char *dir, bool force, struct zl_error *err)
{
    *r = (struct zl_run){.lock = -1, .dir = strdup(dir)};
    int rc = r->dir ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    r->made = access(dir, F_OK) != 0;
    if (!rc)
        rc = zl_folder_make(dir, err);
    if (!rc)
        rc = take_lock(r, err);
    if (!rc && !force && (has(r, "adapter") || has(r, "metrics.jsonl")))
        rc = zl_fail(err, ZL_EUSAGE, "%s holds the results of an earlier run; choose another folder or add --force", dir);
    char *path = rc ? NULL : zl_run_path(r, "metrics.jsonl");
    int fd = -1;
    if (!rc)
        rc = path ? open_own(path, O_WRONLY, &fd, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc && !(r->metrics = fdopen(fd, "w"))) {
        close(fd);
        rc = zl_fail(err, ZL_EMEMORY, "out of memory");
    }
    free(path);
    if (rc)
        zl_run_close(r);
    return rc;
}

int zl_run_begin(struct zl_run *r, struct zl_error *err)
{
    r->begun = true;
    return ftruncate(fileno(r->metrics), 0) ? zl_fail_errno(err, ZL_ESYSTEM, "%s/metrics.jsonl cannot be emptied", r->dir) : 0;
}

/* The lock goes while it is held: who opened it meanwhile finds it held, or without a name. */
static void leave_nothing(const struct zl_run *r)
{
    static const char *const names[] = {"metrics.jsonl", "lock"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = zl_run_path(r, names[i]);
        if (path)
            unlink(path);
        free(path);
    }
    rmdir(r->dir);
}

void zl_run_close(struct zl_run *r)
{
    if (r->made && r->lock >= 0 && !r->begun)
        leave_nothing(r);
    if (r->metrics)
        fclose(r->metrics);
    if (r->lock >= 0)
        close(r->lock);
    free(r->dir);
    *r = (struct zl_run){.lock = -1};
}

int zl_run_metric(struct zl_run *r, json_t *object, struct zl_error *err)
{
    int rc = 0;
    if (!object || json_dumpf(object, r->metrics, JSON_COMPACT | JSON_REAL_PRECISION(9)) ||
        fputc('\n', r->metrics) == EOF || fflush(r->metrics))
        rc = zl_fail_errno(err, ZL_ESYSTEM, "%s/metrics.jsonl cannot be written", r->dir);
    json_decref(object);
    return rc;
}

int zl_run_write_text(const struct zl_run *r, const char *name, const char *text, struct zl_error *err)
{
    char *path = zl_run_path(r, name);
    int rc = path ? zl_file_write(path, text, strlen(text), err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    free(path);
    return rc;
}

int zl_run_write_json(const struct zl_run *r, const char *name, json_t *object, struct zl_error *err)
{
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    int rc = text ? zl_run_write_text(r, name, text, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    free(text);
    json_decref(object);
    return rc;
}
