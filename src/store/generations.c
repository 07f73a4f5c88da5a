/* The folder of generations: names, list, walking back, setting aside, and the identity of a run. See generation.h. */
#include "config.h"

#include "store/generation_impl.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

int zl_run_id_make(struct zl_run_id *id, struct zl_error *err)
{
    size_t have = 0;
    while (have < sizeof id->byte) {
        const ssize_t n = getrandom(id->byte + have, sizeof id->byte - have, 0);
        if (n < 0 && errno != EINTR)
            return zl_fail_errno(err, ZL_ESYSTEM, "the system gives no random numbers");
        have += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

void zl_run_id_text(const struct zl_run_id *id, char text[ZL_RUN_ID_TEXT])
{
    for (size_t i = 0; i < sizeof id->byte; i++)
        snprintf(text + 2 * i, 3, "%02x", id->byte[i]);
}

bool zl_run_id_parse(struct zl_run_id *id, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != ZL_RUN_ID_TEXT - 1 || strspn(text, digits) != ZL_RUN_ID_TEXT - 1)
        return false;
    for (size_t i = 0; i < sizeof id->byte; i++)
        id->byte[i] = (unsigned char)((strchr(digits, text[2 * i]) - digits) << 4 | (strchr(digits, text[2 * i + 1]) - digits));
    return true;
}

/* ---- names ----------------------------------------------------------------------------------------------------------- */

void zl_generation_name(char name[80], uint64_t generation, uint64_t step)
{
    snprintf(name, 80, "%010llu-step-%llu" ZL_SUFFIX, (unsigned long long)generation, (unsigned long long)step);
}

static bool number(const char **text, uint64_t *value)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)**text))
        return false;
    *value = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0;
}

bool zl_generation_parse(const char *name, uint64_t *generation, uint64_t *step, bool *aside, bool *tmp)
{
    const char *p = name;
    char again[80];
    if (!number(&p, generation) || strncmp(p, "-step-", 6) != 0)
        return false;
    p += 6;
    if (!number(&p, step))
        return false;
    *tmp = strcmp(p, ZL_SUFFIX ZL_SUFFIX_TMP) == 0;
    *aside = strcmp(p, ZL_SUFFIX ZL_SUFFIX_ASIDE) == 0;
    if (!*tmp && !*aside && strcmp(p, ZL_SUFFIX) != 0)
        return false;
    zl_generation_name(again, *generation, *step); /* one spelling only */
    return strncmp(again, name, strlen(again)) == 0;
}

int zl_checkpoints_folder(const char *run_dir)
{
    char *path = zl_path_join(run_dir, ZL_CHECKPOINTS);
    const int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    const int saved = path ? errno : ENOMEM;
    free(path);
    errno = saved;
    return fd;
}

/* ---- list ------------------------------------------------------------------------------------------------------------ */

static int newest_first(const void *a, const void *b)
{
    const struct zl_generation_name *x = a, *y = b;
    if (x->generation != y->generation)
        return x->generation > y->generation ? -1 : 1;
    if (x->step != y->step)
        return x->step > y->step ? -1 : 1;
    return (int)x->aside - (int)y->aside;
}

static int add_name(struct zl_generation_name **list, uint64_t *n, int folder, const char *name)
{
    struct zl_generation_name entry = {0};
    struct stat st;
    bool tmp;
    if (!zl_generation_parse(name, &entry.generation, &entry.step, &entry.aside, &tmp) || tmp || strlen(name) >= sizeof entry.name ||
        fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    strcpy(entry.name, name);
    entry.bytes = (uint64_t)st.st_size;
    entry.modified = st.st_mtime;
    if ((*n & (*n - 1)) == 0) { /* full: its room is the next power of two */
        struct zl_generation_name *more = realloc(*list, (*n ? 2 * *n : 1) * sizeof *more);
        if (!more)
            return -1;
        *list = more;
    }
    (*list)[(*n)++] = entry;
    return 0;
}

int zl_generation_list(const char *run_dir, struct zl_generation_name **out, uint64_t *n, struct zl_error *err)
{
    *out = NULL;
    *n = 0;
    const int folder = zl_checkpoints_folder(run_dir);
    if (folder < 0 && errno == ENOENT)
        return 0;
    DIR *d = folder >= 0 ? fdopendir(folder) : NULL;
    if (!d) {
        int rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot list %s/" ZL_CHECKPOINTS, run_dir);
        if (folder >= 0)
            close(folder);
        return rc;
    }
    int rc = 0;
    struct dirent *e;
    while (!rc && (errno = 0, e = readdir(d)))
        if (add_name(out, n, dirfd(d), e->d_name))
            rc = zl_fail(err, ZL_EMEMORY, "no memory to list %s/" ZL_CHECKPOINTS, run_dir);
    if (!rc && errno)
        rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot list %s/" ZL_CHECKPOINTS, run_dir);
    closedir(d);
    if (rc) {
        free(*out);
        *out = NULL;
        *n = 0;
    } else if (*n) {
        qsort(*out, *n, sizeof **out, newest_first);
    }
    return rc;
}

int zl_generation_remove_all(const char *run_dir, struct zl_error *err)
{
    const int folder = zl_checkpoints_folder(run_dir);
    if (folder < 0 && errno == ENOENT)
        return 0;
    DIR *d = folder >= 0 ? fdopendir(folder) : NULL;
    int rc = d ? 0 : zl_fail_errno(err, ZL_ESYSTEM, "cannot list %s/" ZL_CHECKPOINTS, run_dir);
    if (!d && folder >= 0)
        close(folder);
    struct dirent *e;
    uint64_t generation, step;
    bool aside, tmp;
    while (d && !rc && (e = readdir(d)))
        if (zl_generation_parse(e->d_name, &generation, &step, &aside, &tmp) && unlinkat(dirfd(d), e->d_name, 0))
            rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot remove %s/" ZL_CHECKPOINTS "/%s", run_dir, e->d_name);
    if (d)
        closedir(d);
    return rc;
}

int zl_generation_open(struct zl_generation *g, const char *run_dir, const char *name, struct zl_error *err)
{
    uint64_t generation, step;
    bool aside, tmp;
    char *what = NULL;
    *g = (struct zl_generation){0};
    if (!zl_generation_parse(name, &generation, &step, &aside, &tmp))
        return zl_fail(err, ZL_EUSAGE, "%s is no name of a checkpoint", name);
    if (asprintf(&what, "%s/" ZL_CHECKPOINTS "/%s", run_dir, name) < 0)
        return zl_fail(err, ZL_EMEMORY, "no memory to open a checkpoint");
    const int folder = zl_checkpoints_folder(run_dir);
    int rc = folder < 0 ? zl_fail_errno(err, ZL_ESYSTEM, "cannot open %s", what)
                        : zl_generation_open_at(g, folder, name, what, generation, step, err);
    if (folder >= 0)
        close(folder);
    free(what);
    return rc;
}

/* ---- walking back ---------------------------------------------------------------------------------------------------- */

static int open_proved(struct zl_generation *g, const char *run_dir, const char *name, const struct zl_run_id *run, struct zl_error *err)
{
    int rc = zl_generation_open(g, run_dir, name, err);
    if (!rc && run && memcmp(run, &g->run, sizeof *run) != 0)
        rc = zl_fail(err, ZL_EINPUT, "%s/" ZL_CHECKPOINTS "/%s belongs to another run in this folder", run_dir, name);
    if (!rc)
        rc = zl_generation_verify(g, err);
    if (rc)
        zl_generation_close(g);
    return rc;
}

int zl_generation_newest(struct zl_generation *g, const char *run_dir, const struct zl_run_id *run,
                         void (*say)(void *context, const char *sentence), void *context, struct zl_error *err)
{
    struct zl_generation_name *list;
    uint64_t n;
    *g = (struct zl_generation){0};
    int rc = zl_generation_list(run_dir, &list, &n, err);
    for (uint64_t i = 0; i < n && !rc && !g->file; i++) {
        struct zl_error why = {0};
        const int found = list[i].aside ? 0 : open_proved(g, run_dir, list[i].name, run, &why);
        if (found == ZL_EINPUT && say)
            say(context, why.text);
        else if (found && found != ZL_EINPUT) /* there may be nothing wrong with it: going back would lose what it holds */
            rc = zl_fail(err, found, "%s", why.text);
    }
    free(list);
    return rc;
}

/* ---- setting aside --------------------------------------------------------------------------------------------------- */

static int move(int folder, const char *run_dir, const char *from, const char *to, struct zl_error *err)
{
    if (faccessat(folder, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return zl_fail(err, ZL_ESYSTEM, "%s/" ZL_CHECKPOINTS "/%s is in the way", run_dir, to);
    if (renameat(folder, from, folder, to))
        return zl_fail_errno(err, ZL_ESYSTEM, "cannot rename %s/" ZL_CHECKPOINTS "/%s", run_dir, from);
    return 0;
}

static int sync_names(int folder, const char *run_dir, struct zl_error *err)
{
    return fsync(folder) && errno != EINVAL ? zl_fail_errno(err, ZL_ESYSTEM, "cannot sync %s/" ZL_CHECKPOINTS, run_dir) : 0;
}

/* Whatever interrupts this, a power cut that loses any of its unsynced renames too, the newest is still the one that was, or the target
 * already: the target gets its name back first, those between go next, and the newest goes last, once all of that is on the disk. */
static int set_aside(int folder, const char *run_dir, const struct zl_generation_name *list, uint64_t target, uint64_t *count,
                     struct zl_error *err)
{
    char to[96];
    int rc = 0;
    if (list[target].aside) {
        zl_generation_name(to, list[target].generation, list[target].step);
        rc = move(folder, run_dir, list[target].name, to, err);
    }
    uint64_t newest = 0;
    while (newest < target && list[newest].aside)
        newest++;
    for (uint64_t i = target; i-- > newest && !rc;) {
        if (list[i].aside)
            continue;
        if (i == newest)
            rc = sync_names(folder, run_dir, err);
        snprintf(to, sizeof to, "%s" ZL_SUFFIX_ASIDE, list[i].name);
        if (!rc)
            rc = move(folder, run_dir, list[i].name, to, err);
        *count += rc == 0;
    }
    return rc ? rc : sync_names(folder, run_dir, err);
}

int zl_generation_restore(const char *run_dir, uint64_t generation, uint64_t *count, struct zl_error *err)
{
    struct zl_generation_name *list;
    struct zl_generation g = {0};
    uint64_t n, target = 0;
    *count = 0;
    int rc = zl_generation_list(run_dir, &list, &n, err);
    if (rc)
        return rc;
    while (target < n && list[target].generation != generation)
        target++;
    if (target == n)
        rc = zl_fail(err, ZL_EUSAGE, "%s has no generation %llu", run_dir, (unsigned long long)generation);
    if (!rc)
        rc = open_proved(&g, run_dir, list[target].name, NULL, err);
    zl_generation_close(&g);
    const int folder = rc ? -1 : zl_checkpoints_folder(run_dir);
    if (!rc && folder < 0)
        rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot open %s/" ZL_CHECKPOINTS, run_dir);
    if (!rc)
        rc = set_aside(folder, run_dir, list, target, count, err);
    if (folder >= 0)
        close(folder);
    free(list);
    return rc;
}
