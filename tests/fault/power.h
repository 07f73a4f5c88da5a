/*
 * Calls of the system that change a folder, written down, and the folder as a power cut would leave it. The program under test is linked
 * with --wrap for each of them (tests/fault/local.mk), so its code is the one that is shipped.
 *
 * What a cut leaves: every write that a sync of its file came after; of the others any subset, each perhaps torn at a sector, with zeros
 * where one is missing before one that is there; the names in a folder as its last sync left them, and of the operations on them since then
 * any subset. POSIX forbids none of it.
 */
#ifndef ZL_FAULT_POWER_H
#define ZL_FAULT_POWER_H

#include "tests/unit/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/rng.h"

enum { POWER_OBJECTS = 512, POWER_OPERATIONS = 4096, POWER_NAMES = 64 };

/* A file or a folder that is there at the beginning or is made. */
struct power_object {
    bool folder, gone;
    ino_t inode;
    unsigned char *data; /* of a file, at the beginning */
    size_t bytes;
    struct power_entry {
        char name[100];
        int object;
    } entry[POWER_NAMES];
    int n;
};

enum power_kind { POWER_NAME, POWER_DROP, POWER_MOVE, POWER_SWAP, POWER_WRITE, POWER_SIZE, POWER_SYNC };

struct power_operation {
    enum power_kind kind;
    int object;            /* the folder whose names change, or the file */
    int made;              /* of a NAME */
    char name[100], to[100];
    uint64_t offset, bytes;
    unsigned char *data;
};

static struct {
    bool on;
    struct power_object object[POWER_OBJECTS];
    int n_objects;
    struct power_operation operation[POWER_OPERATIONS];
    int n;
} power;

/* ---- writing down ------------------------------------------------------------------------------------------------------ */

static inline int power_object_of(const struct stat *st)
{
    for (int i = power.n_objects - 1; i >= 0; i--)
        if (power.object[i].inode == st->st_ino && !power.object[i].gone)
            return i;
    return -1;
}

static inline int power_add_object(const struct stat *st)
{
    assert_true(power.n_objects < POWER_OBJECTS);
    power.object[power.n_objects] = (struct power_object){.folder = S_ISDIR(st->st_mode), .inode = st->st_ino};
    return power.n_objects++;
}

static inline struct power_operation *power_note(enum power_kind kind, int object)
{
    assert_true(power.n < POWER_OPERATIONS);
    power.operation[power.n] = (struct power_operation){.kind = kind, .object = object};
    return &power.operation[power.n++];
}

/* The folder of a path and its last name; -1: none that is looked at. */
static inline int power_folder_of(int at, const char *path, char name[100])
{
    char copy[8192], again[8192];
    struct stat st;
    if (!power.on)
        return -1;
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(again, sizeof again, "%s", path);
    snprintf(name, 100, "%s", basename(again));
    return fstatat(at, dirname(copy), &st, 0) == 0 ? power_object_of(&st) : -1;
}

/* Take in what there is below a folder: all of it is on the disk. */
static inline int power_take(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    const int object = power_add_object(&st);
    struct power_object *o = &power.object[object];
    if (!o->folder) {
        FILE *f = fopen(path, "rb");
        o->bytes = (size_t)st.st_size;
        o->data = malloc(o->bytes + 1);
        assert_int_equal(fread(o->data, 1, o->bytes, f), o->bytes);
        fclose(f);
        return object;
    }
    DIR *d = opendir(path);
    for (const struct dirent *e; (e = readdir(d));) {
        char inner[8192];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        assert_true(o->n < POWER_NAMES);
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        snprintf(o->entry[o->n].name, sizeof o->entry[0].name, "%s", e->d_name);
        o->entry[o->n++].object = power_take(inner);
    }
    closedir(d);
    return object;
}

static inline void power_record(const char *root)
{
    power.n_objects = power.n = 0;
    power_take(root);
    power.on = true;
}

static inline void power_end(void)
{
    for (int i = 0; i < power.n_objects; i++)
        free(power.object[i].data);
    for (int i = 0; i < power.n; i++)
        free(power.operation[i].data);
    power.n_objects = power.n = 0;
}

/* ---- the wrapped calls --------------------------------------------------------------------------------------------------- */

int __real_open(const char *path, int flags, ...);
int __real_openat(int at, const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t n);
int __real_ftruncate(int fd, off_t bytes);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_mkdir(const char *path, mode_t mode);
int __real_rmdir(const char *path);
int __real_unlink(const char *path);
int __real_unlinkat(int at, const char *path, int flags);
int __real_rename(const char *from, const char *to);
int __real_renameat(int a, const char *from, int b, const char *to);
int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);

static inline int power_opened(int at, const char *path, int flags, int fd, bool was)
{
    char name[100];
    struct stat st;
    const int saved = errno, folder = fd >= 0 && (flags & O_CREAT) ? power_folder_of(at, path, name) : -1;
    if (folder >= 0 && fstat(fd, &st) == 0) {
        if (!was) {
            const int made = power_add_object(&st);
            struct power_operation *o = power_note(POWER_NAME, folder);
            o->made = made;
            snprintf(o->name, sizeof o->name, "%s", name);
        } else if (flags & O_TRUNC) {
            power_note(POWER_SIZE, power_object_of(&st));
        }
    }
    errno = saved;
    return fd;
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    const bool was = power.on && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return power_opened(AT_FDCWD, path, flags, __real_open(path, flags, mode), was);
}

int __wrap_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    const bool was = power.on && faccessat(at, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return power_opened(at, path, flags, __real_openat(at, path, flags, mode), was);
}

ssize_t __wrap_write(int fd, const void *data, size_t n);
ssize_t __wrap_write(int fd, const void *data, size_t n)
{
    struct stat st;
    const ssize_t done = __real_write(fd, data, n);
    const int object = power.on && done > 0 && fstat(fd, &st) == 0 ? power_object_of(&st) : -1;
    if (object >= 0) {
        struct power_operation *o = power_note(POWER_WRITE, object);
        o->bytes = (uint64_t)done;
        o->offset = (uint64_t)lseek(fd, 0, SEEK_CUR) - o->bytes;
        memcpy(o->data = malloc(o->bytes), data, o->bytes);
    }
    return done;
}

int __wrap_ftruncate(int fd, off_t bytes);
int __wrap_ftruncate(int fd, off_t bytes)
{
    struct stat st;
    const int rc = __real_ftruncate(fd, bytes);
    if (power.on && !rc && fstat(fd, &st) == 0 && power_object_of(&st) >= 0)
        power_note(POWER_SIZE, power_object_of(&st))->bytes = (uint64_t)bytes;
    return rc;
}

static inline int power_synced(int fd, int rc)
{
    struct stat st;
    if (power.on && !rc && fstat(fd, &st) == 0 && power_object_of(&st) >= 0)
        power_note(POWER_SYNC, power_object_of(&st));
    return rc;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return power_synced(fd, __real_fsync(fd));
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    return power_synced(fd, __real_fdatasync(fd));
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
    char name[100];
    struct stat st;
    const int rc = __real_mkdir(path, mode), saved = errno, folder = rc ? -1 : power_folder_of(AT_FDCWD, path, name);
    if (folder >= 0 && stat(path, &st) == 0) {
        const int made = power_add_object(&st);
        struct power_operation *o = power_note(POWER_NAME, folder);
        o->made = made;
        snprintf(o->name, sizeof o->name, "%s", name);
    }
    errno = saved;
    return rc;
}

static inline int power_dropped(int at, const char *path, const struct stat *st, int rc)
{
    char name[100];
    const int saved = errno, folder = rc ? -1 : power_folder_of(at, path, name);
    if (folder >= 0) {
        snprintf(power_note(POWER_DROP, folder)->name, 100, "%s", name);
        if (power_object_of(st) >= 0)
            power.object[power_object_of(st)].gone = true; /* its inode may be given to another */
    }
    errno = saved;
    return rc;
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    struct stat st = {0};
    lstat(path, &st);
    return power_dropped(AT_FDCWD, path, &st, __real_unlink(path));
}

int __wrap_unlinkat(int at, const char *path, int flags);
int __wrap_unlinkat(int at, const char *path, int flags)
{
    struct stat st = {0};
    fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW);
    return power_dropped(at, path, &st, __real_unlinkat(at, path, flags));
}

int __wrap_rmdir(const char *path);
int __wrap_rmdir(const char *path)
{
    struct stat st = {0};
    lstat(path, &st);
    return power_dropped(AT_FDCWD, path, &st, __real_rmdir(path));
}

/* Within one folder, as all of ours are. */
static inline int power_renamed(int a, const char *from, int b, const char *to, bool swap, int rc)
{
    char name[100], other[100];
    const int saved = errno, folder = rc ? -1 : power_folder_of(a, from, name);
    if (!rc && power.on)
        assert_int_equal(power_folder_of(b, to, other), folder);
    if (folder >= 0) {
        struct power_operation *o = power_note(swap ? POWER_SWAP : POWER_MOVE, folder);
        snprintf(o->name, sizeof o->name, "%s", name);
        snprintf(o->to, sizeof o->to, "%s", other);
    }
    errno = saved;
    return rc;
}

int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    return power_renamed(AT_FDCWD, from, AT_FDCWD, to, false, __real_rename(from, to));
}

int __wrap_renameat(int a, const char *from, int b, const char *to);
int __wrap_renameat(int a, const char *from, int b, const char *to)
{
    return power_renamed(a, from, b, to, false, __real_renameat(a, from, b, to));
}

int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    return power_renamed(a, from, b, to, flags == RENAME_EXCHANGE, __real_renameat2(a, from, b, to, flags));
}

/* ---- after the cut --------------------------------------------------------------------------------------------------------- */

struct power_cut {
    int at;          /* operations that were issued */
    int names, data; /* what happens to what was not synced: nothing, all, or by draws */
    uint64_t seed, draws;
    bool no_sync;    /* a program that forgot to sync, to see that the campaign notices */
};
enum { POWER_NONE, POWER_ALL, POWER_SOME };

static inline uint64_t power_draw(struct power_cut *c, uint64_t below)
{
    return zl_random_u64(c->seed, ZL_STREAM_TEST, 3, c->draws++) % below;
}

static inline bool power_chosen(struct power_cut *c, int how)
{
    return how == POWER_ALL || (how == POWER_SOME && power_draw(c, 2));
}

static inline bool power_durable(const struct power_cut *c, int i)
{
    for (int k = i + 1; k < c->at && !c->no_sync; k++)
        if (power.operation[k].kind == POWER_SYNC && power.operation[k].object == power.operation[i].object)
            return true;
    return false;
}

static inline int power_find(const struct power_object *o, const char *name)
{
    for (int i = 0; i < o->n; i++)
        if (strcmp(o->entry[i].name, name) == 0)
            return i;
    return -1;
}

static inline void power_set(struct power_object *o, const char *name, int object)
{
    int i = power_find(o, name);
    assert_true(i >= 0 || o->n < POWER_NAMES);
    if (i < 0)
        i = o->n++;
    snprintf(o->entry[i].name, sizeof o->entry[i].name, "%s", name);
    o->entry[i].object = object;
}

static inline void power_unset(struct power_object *o, const char *name)
{
    const int i = power_find(o, name);
    if (i >= 0)
        o->entry[i] = o->entry[--o->n];
}

static inline void power_apply_name(struct power_object *o, const struct power_operation *op)
{
    const int from = power_find(o, op->name), to = power_find(o, op->to);
    if (op->kind == POWER_NAME) {
        power_set(o, op->name, op->made);
    } else if (op->kind == POWER_DROP) {
        power_unset(o, op->name);
    } else if (op->kind == POWER_SWAP && from >= 0 && to >= 0) {
        const int swapped = o->entry[from].object;
        o->entry[from].object = o->entry[to].object;
        o->entry[to].object = swapped;
    } else if (op->kind == POWER_MOVE && from >= 0) {
        power_set(o, op->to, o->entry[from].object);
        power_unset(o, op->name);
    }
}

static inline void power_make_file(struct power_cut *c, int object, const char *path)
{
    const struct power_object *o = &power.object[object];
    const int fd = __real_open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, o->data, o->bytes, 0), o->bytes);
    for (int i = 0; i < c->at; i++) {
        const struct power_operation *op = &power.operation[i];
        const bool durable = op->object == object && power_durable(c, i);
        if (op->object != object || op->kind == POWER_SYNC || (!durable && !power_chosen(c, c->data)))
            continue;
        uint64_t from = op->offset, to = op->offset + op->bytes;
        if (op->kind == POWER_SIZE) {
            assert_int_equal(__real_ftruncate(fd, (off_t)op->bytes), 0);
            continue;
        }
        if (!durable && c->data == POWER_SOME && !power_draw(c, 3)) { /* torn: at a sector of the file */
            const uint64_t edge = (from / 512 + 1 + power_draw(c, op->bytes / 512 + 1)) * 512;
            if (edge < to && power_draw(c, 2))
                from = edge;
            else if (edge < to)
                to = edge;
            else
                to = from + power_draw(c, op->bytes); /* the size was written later */
        }
        assert_int_equal(pwrite(fd, op->data + (from - op->offset), to - from, (off_t)from), to - from);
    }
    close(fd);
}

static inline void power_make_folder(struct power_cut *c, const struct power_object *now, int object, const char *path)
{
    for (int i = 0; i < now[object].n; i++) {
        char inner[8192];
        const int of = now[object].entry[i].object;
        snprintf(inner, sizeof inner, "%s/%s", path, now[object].entry[i].name);
        if (!now[of].folder) {
            power_make_file(c, of, inner);
        } else {
            assert_int_equal(__real_mkdir(inner, 0777), 0);
            power_make_folder(c, now, of, inner);
        }
    }
}

static inline int power_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag;
    return ftw->level ? remove(path) : 0;
}

/* What was recorded, as the cut leaves it, in the folder `root`, which is emptied first. */
static inline void power_make(struct power_cut *c, const char *root)
{
    static struct power_object now[POWER_OBJECTS];
    power.on = false;
    nftw(root, power_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    memcpy(now, power.object, (size_t)power.n_objects * sizeof *now);
    for (int i = 0; i < c->at; i++)
        if (power.operation[i].kind <= POWER_SWAP && (power_durable(c, i) || power_chosen(c, c->names)))
            power_apply_name(&now[power.operation[i].object], &power.operation[i]);
    power_make_folder(c, now, 0, root);
}

/* Every cut of what was recorded: `check` looks at the folder that is left. */
static inline uint64_t power_campaign(const char *root, bool no_sync, int draws, void (*check)(const struct power_cut *c, void *context),
                                      void *context)
{
    uint64_t cuts = 0;
    for (int at = 0; at <= power.n; at++)
        for (int k = 0; k < 9 + draws; k++) {
            struct power_cut c = {.at = at, .names = k % 3, .data = k / 3, .seed = (uint64_t)(1000 * at + k), .no_sync = no_sync};
            if (k >= 9)
                c.names = c.data = POWER_SOME;
            power_make(&c, root);
            check(&c, context);
            cuts++;
        }
    return cuts;
}

#endif
