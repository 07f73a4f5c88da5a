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

static int take_lock(struct zl_run *r, struct zl_error *err)
{
    char *path = zl_run_path(r, "lock");
    if (!path)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    r->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int rc = 0;
    if (r->lock < 0)
        rc = zl_fail_errno(err, ZL_ESYSTEM, "%s cannot be opened", path);
    else if (flock(r->lock, LOCK_EX | LOCK_NB))
        rc = errno == EWOULDBLOCK ? zl_fail(err, ZL_ESYSTEM, "%s: another run is at work in this folder", r->dir)
                                  : zl_fail_errno(err, ZL_ESYSTEM, "%s cannot be locked", path);
    free(path);
    return rc;
}

int zl_run_open(struct zl_run *r, const char *dir, bool force, struct zl_error *err)
{
    *r = (struct zl_run){.lock = -1, .dir = strdup(dir)};
    int rc = r->dir ? zl_folder_make(dir, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc)
        rc = take_lock(r, err);
    if (!rc && !force && (has(r, "adapter") || has(r, "metrics.jsonl")))
        rc = zl_fail(err, ZL_EUSAGE, "%s holds the results of an earlier run; choose another folder or add --force", dir);
    char *path = rc ? NULL : zl_run_path(r, "metrics.jsonl");
    if (path) {
        r->metrics = fopen(path, "we");
        if (!r->metrics)
            rc = zl_fail_errno(err, ZL_ESYSTEM, "%s cannot be written", path);
    }
    free(path);
    if (rc)
        zl_run_close(r);
    return rc;
}

void zl_run_close(struct zl_run *r)
{
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
