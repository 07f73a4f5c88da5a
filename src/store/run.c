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
#include "base/log.h"
#include "store/generation.h"
#include "store/leftovers.h"

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

static int open_lines(const struct zl_run *r, const char *name, struct zl_append *l, struct zl_error *err)
{
    char *path = zl_run_path(r, name);
    int fd = -1, rc = path ? open_own(path, O_RDWR | O_APPEND, &fd, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc && (rc = zl_append_open(l, path, fd, err)))
        close(fd);
    free(path);
    return rc;
}

bool zl_run_has_adapter(const struct zl_run *r)
{
    return has(r, "adapter");
}

bool zl_run_has_results(const struct zl_run *r)
{
    return has(r, "adapter") || has(r, "metrics.jsonl");
}

int zl_run_open(struct zl_run *r, const char *dir, enum zl_run_mode mode, struct zl_error *err)
{
    *r = (struct zl_run){.lock = -1, .dir = strdup(dir), .metrics = {.fd = -1}, .events = {.fd = -1}};
    int rc = r->dir ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    r->made = access(dir, F_OK) != 0;
    if (!rc)
        rc = zl_folder_make(dir, err);
    if (!rc)
        rc = take_lock(r, err);
    if (!rc && mode == ZL_RUN_FRESH && zl_run_has_results(r))
        rc = zl_fail(err, ZL_EUSAGE, "%s holds the results of an earlier run; choose another folder, go on with --resume or add --force", dir);
    if (!rc && !r->made)
        zl_leftovers_remove(dir);
    if (!rc)
        rc = open_lines(r, "metrics.jsonl", &r->metrics, err);
    if (!rc)
        rc = open_lines(r, "events.jsonl", &r->events, err);
    if (rc)
        zl_run_close(r, NULL);
    return rc;
}

int zl_run_begin(struct zl_run *r, struct zl_error *err)
{
    r->begun = true;
    int rc = zl_generation_remove_all(r->dir, err);
    if (!rc)
        rc = zl_append_cut(&r->metrics, 0, err);
    return rc ? rc : zl_append_cut(&r->events, 0, err);
}

/* Keep lines of `text` up to one that is torn in place, moved together; returns how many bytes they have. *prefix: they are the text's beginning. */
static size_t choose(char *text, size_t n, bool (*keep)(void *context, const json_t *line), void *context, bool *prefix)
{
    size_t kept = 0;
    *prefix = true;
    for (char *line = text, *end; (end = memchr(line, '\n', (size_t)(text + n - line))); line = end + 1) {
        const size_t length = (size_t)(end + 1 - line);
        if (zl_append_is_torn(line, length))
            break;
        json_t *object = json_loadb(line, length, 0, NULL);
        const bool wanted = keep(context, json_is_object(object) ? object : NULL);
        json_decref(object);
        if (!wanted)
            continue;
        *prefix &= line == text + kept;
        memmove(text + kept, line, length);
        kept += length;
    }
    return kept;
}

static int rewrite(struct zl_run *r, struct zl_append *l, const char *name, const char *text, size_t n, struct zl_error *err)
{
    int rc = zl_file_write(l->path, text, n, err);
    if (rc)
        return rc;
    zl_append_close(l, NULL);
    return open_lines(r, name, l, err);
}

static bool keep_any(void *context, const json_t *line)
{
    (void)context;
    return line != NULL;
}

static int resume_lines(struct zl_run *r, struct zl_append *l, const char *name, bool (*keep)(void *context, const json_t *line),
                        void *context, struct zl_error *err)
{
    char *text = NULL;
    size_t n = 0;
    bool prefix;
    int rc = zl_file_read(l->path, SIZE_MAX / 4, &text, &n, err);
    if (rc)
        return rc;
    const size_t kept = choose(text, n, keep, context, &prefix);
    if (!prefix)
        rc = rewrite(r, l, name, text, kept, err);
    else if (kept < n)
        rc = zl_append_cut(l, kept, err);
    free(text);
    return rc;
}

int zl_run_resume(struct zl_run *r, bool (*keep)(void *context, const json_t *line), void *context, struct zl_error *err)
{
    r->begun = true;
    int rc = resume_lines(r, &r->metrics, "metrics.jsonl", keep, context, err);
    return rc ? rc : resume_lines(r, &r->events, "events.jsonl", keep_any, NULL, err);
}

bool zl_run_is_there(const struct zl_run *r)
{
    char *path = zl_run_path(r, "lock");
    struct stat named, held;
    const bool there = path && stat(path, &named) == 0 && fstat(r->lock, &held) == 0 && named.st_ino == held.st_ino && named.st_dev == held.st_dev;
    free(path);
    return there;
}

/* The lock goes while it is held: who opened it meanwhile finds it held, or without a name. */
static void leave_nothing(const struct zl_run *r)
{
    static const char *const names[] = {"metrics.jsonl", "events.jsonl", "lock"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = zl_run_path(r, names[i]);
        if (path)
            unlink(path);
        free(path);
    }
    rmdir(r->dir);
}

int zl_run_close(struct zl_run *r, struct zl_error *err)
{
    if (r->made && r->lock >= 0 && !r->begun)
        leave_nothing(r);
    int rc = zl_append_close(&r->metrics, err);
    const int events = zl_append_close(&r->events, err);
    if (r->lock >= 0)
        close(r->lock);
    free(r->dir);
    *r = (struct zl_run){.lock = -1, .metrics = {.fd = -1}, .events = {.fd = -1}};
    return rc ? rc : events;
}

static int add_line(struct zl_append *l, json_t *object, struct zl_error *err)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (!text)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    const size_t n = strlen(text);
    text[n] = '\n'; /* in the place of the NUL */
    if (!zl_append_line(l, text, n + 1))
        zl_warn("%s cannot be written (%s): training goes on, and the lines wait in memory", l->path, strerror(l->reason));
    free(text);
    return 0;
}

int zl_run_metric(struct zl_run *r, json_t *object, struct zl_error *err)
{
    return add_line(&r->metrics, object, err);
}

int zl_run_event(struct zl_run *r, json_t *object, struct zl_error *err)
{
    return add_line(&r->events, object, err);
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
