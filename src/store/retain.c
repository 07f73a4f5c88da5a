/*
 * Which generations stay: of this run the newest `keep` that verify, and everything newer than the oldest of them. A generation that an
 * earlier process wrote counts only once this one has verified it. Other runs' generations in the same folder, and files that do not say
 * whose they are, are nobody's to remove. Runs at the opening and then on the writer's thread. See checkpoint.h.
 */
#include "config.h"

#include "store/checkpoint_impl.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"

#define TEXT_EXPECTED 65536u /* of a driver's text, for the check of space */

static int open_kept(const struct zl_checkpoints *c, int folder, const struct zl_kept *k, struct zl_generation *g, struct zl_error *err)
{
    uint64_t generation, step;
    bool aside, tmp;
    char *what = zl_path_join(c->dir, k->name);
    *g = (struct zl_generation){0};
    int rc = what && zl_generation_parse(k->name, &generation, &step, &aside, &tmp)
                 ? zl_generation_open_at(g, folder, k->name, what, generation, step, err)
                 : ZL_EMEMORY;
    free(what);
    return rc;
}

/* Mine to remove some day? */
static bool of_this_run(const struct zl_checkpoints *c, int folder, const struct zl_kept *k)
{
    struct zl_generation g;
    if (open_kept(c, folder, k, &g, NULL))
        return false;
    const bool same = memcmp(&g.run, &c->run, sizeof g.run) == 0;
    zl_generation_close(&g);
    return same;
}

static int ascending(const void *a, const void *b)
{
    const struct zl_kept *x = a, *y = b;
    return x->generation < y->generation ? -1 : x->generation > y->generation;
}

/* There is always room for one more. */
static bool append(struct zl_checkpoints *c, uint64_t generation, const char *name, bool verified)
{
    struct zl_kept *more = realloc(c->kept, (c->n_kept + 1) * sizeof *more);
    if (!more)
        return false;
    c->kept = more;
    struct zl_kept *k = &more[c->n_kept++];
    *k = (struct zl_kept){.generation = generation, .verified = verified};
    snprintf(k->name, sizeof k->name, "%s", name);
    return true;
}

static int take_stock(struct zl_checkpoints *c, DIR *d, struct zl_error *err)
{
    struct dirent *e;
    while ((errno = 0, e = readdir(d))) {
        struct zl_kept k = {0};
        uint64_t step;
        bool aside, tmp;
        if (!zl_generation_parse(e->d_name, &k.generation, &step, &aside, &tmp) || k.generation == UINT64_MAX)
            continue;
        if (k.generation >= c->next_generation)
            c->next_generation = k.generation + 1;
        if (tmp) /* of a writer that was interrupted: we hold the run's lock */
            unlinkat(dirfd(d), e->d_name, 0);
        if (tmp || aside || strlen(e->d_name) >= sizeof k.name)
            continue;
        strcpy(k.name, e->d_name);
        if (of_this_run(c, dirfd(d), &k) && !append(c, k.generation, k.name, false))
            return zl_fail(err, ZL_EMEMORY, "no memory to list %s", c->dir);
    }
    if (errno)
        return zl_fail_errno(err, ZL_ESYSTEM, "cannot list %s", c->dir);
    if (c->n_kept)
        qsort(c->kept, c->n_kept, sizeof *c->kept, ascending);
    return 0;
}

int zl_retain_open(struct zl_checkpoints *c, struct zl_error *err)
{
    c->next_generation = 1;
    const int folder = zl_checkpoints_folder(c->run_dir);
    DIR *d = folder >= 0 ? fdopendir(folder) : NULL;
    if (!d) {
        const int rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot list %s", c->dir);
        if (folder >= 0)
            close(folder);
        return rc;
    }
    const int rc = take_stock(c, d, err);
    closedir(d);
    return rc;
}

int zl_retain_check_space(const struct zl_checkpoints *c, struct zl_error *err)
{
    struct statvfs v;
    struct zl_layout l = c->layout;
    if (!zl_layout_text(&l, TEXT_EXPECTED) || statvfs(c->dir, &v))
        return 0; /* what cannot be asked shows when it is needed */
    const uint64_t there = c->n_kept < c->keep ? c->n_kept : c->keep, files = c->keep + 1 - there;
    const uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    if (l.file_bytes <= free_bytes / files)
        return 0;
    return zl_fail(err, ZL_ESYSTEM,
                   "%s: %.1f MiB are free on its file system, but %llu checkpoint%s of %.1f MiB must fit (those kept and the one being "
                   "written); free some space, keep fewer or choose another folder",
                   c->dir, (double)free_bytes / 1048576.0, (unsigned long long)files, files == 1 ? "" : "s",
                   (double)l.file_bytes / 1048576.0);
}

void zl_retain_add(struct zl_checkpoints *c, const struct zl_pending *p, bool verified)
{
    append(c, p->generation, p->name, verified); /* without memory it stays, which is the safe side */
}

static bool verifies(const struct zl_checkpoints *c, int folder, struct zl_kept *k)
{
    struct zl_generation g;
    if (k->verified || k->gone)
        return k->verified;
    int rc = open_kept(c, folder, k, &g, NULL);
    if (!rc) {
        rc = zl_generation_verify(&g, NULL);
        zl_generation_close(&g);
    }
    k->verified = rc == 0;
    return k->verified;
}

uint32_t zl_retain_trim(struct zl_checkpoints *c, int folder, struct zl_error *err)
{
    uint64_t i = c->n_kept, left = 0;
    uint32_t sound = 0, removed = 0;
    while (i && sound < c->keep)
        sound += verifies(c, folder, &c->kept[--i]);
    for (uint64_t k = 0; k < i; k++) {
        const int rc = c->disk.ops->remove(&c->disk, folder, c->kept[k].name);
        removed += rc == 0;
        c->kept[k].gone = rc == 0 || rc == -ENOENT;
        if (!c->kept[k].gone) {
            errno = -rc;
            zl_fail_errno(err, ZL_ESYSTEM, "cannot remove %s/%s", c->dir, c->kept[k].name);
        }
    }
    for (uint64_t k = 0; k < c->n_kept; k++)
        if (!c->kept[k].gone)
            c->kept[left++] = c->kept[k];
    c->n_kept = left;
    return removed;
}
