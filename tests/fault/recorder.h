/*
 * A disk that writes down what the checkpoint writer does to it, and the folder as a power cut would leave it.
 *
 * What a cut leaves: every write that a sync of its file came after; of the others any subset, each perhaps torn; the names as the last
 * sync of the folder left them, and of the operations on names since then any subset, a rename perhaps with both names. That is more than
 * any file system of today does to us, and nothing that POSIX forbids it to do.
 */
#ifndef ZL_FAULT_RECORDER_H
#define ZL_FAULT_RECORDER_H

#include "tests/fault/scene.h"

#include "store/disk.h"

enum record_kind { RECORD_CREATE, RECORD_WRITE, RECORD_SYNC, RECORD_RENAME, RECORD_REMOVE, RECORD_SYNC_FOLDER };

struct record {
    enum record_kind kind;
    int file; /* index of the record that created it; -1: none */
    char name[100], to[100];
    uint64_t offset, bytes; /* of a create: reserved */
    unsigned char *data;
};

enum { RECORDS_MOST = 4096, FILES_MOST = 64 };

struct recorder {
    struct record record[RECORDS_MOST];
    int n;
    bool uring; /* what is under it */
};

static inline const struct zl_disk_ops *under(const struct zl_disk *d)
{
    return d->ring ? &zl_disk_uring : &zl_disk_plain;
}

static inline int last_file(const struct recorder *r, const char *name)
{
    for (int i = r->n - 1; i >= 0; i--)
        if (r->record[i].kind == RECORD_CREATE && strcmp(r->record[i].name, name) == 0)
            return i;
    return -1;
}

static inline struct record *write_down(struct zl_disk *d, enum record_kind kind, const char *name)
{
    struct recorder *r = d->context;
    assert_true(r->n < RECORDS_MOST);
    struct record *e = &r->record[r->n];
    *e = (struct record){.kind = kind, .file = kind == RECORD_CREATE ? r->n : name ? last_file(r, name) : -1};
    if (name)
        snprintf(e->name, sizeof e->name, "%s", name);
    r->n++;
    return e;
}

static int recorded_create(struct zl_disk *d, struct zl_disk_file *f, const char *name, uint64_t bytes)
{
    write_down(d, RECORD_CREATE, name)->bytes = bytes;
    return under(d)->create(d, f, name, bytes);
}

static unsigned char *recorded_room(struct zl_disk *d)
{
    return under(d)->room(d);
}

static void write_down_bytes(struct zl_disk *d, const struct zl_disk_file *f, uint64_t offset, const unsigned char *room, uint32_t bytes)
{
    struct record *e = write_down(d, RECORD_WRITE, f->name);
    e->offset = offset;
    e->bytes = bytes;
    e->data = malloc(bytes);
    memcpy(e->data, room, bytes);
}

static int recorded_write(struct zl_disk *d, struct zl_disk_file *f, uint64_t offset, unsigned char *room, uint32_t bytes)
{
    write_down_bytes(d, f, offset, room, bytes);
    return under(d)->write(d, f, offset, room, bytes);
}

static int recorded_finish(struct zl_disk *d, struct zl_disk_file *f, uint64_t offset, unsigned char *room, uint32_t bytes)
{
    write_down_bytes(d, f, offset, room, bytes);
    const int rc = under(d)->finish(d, f, offset, room, bytes);
    if (!rc)
        write_down(d, RECORD_SYNC, f->name);
    return rc;
}

static int recorded_close(struct zl_disk *d, struct zl_disk_file *f)
{
    return under(d)->close(d, f);
}

static int recorded_rename(struct zl_disk *d, int folder, const char *from, const char *to)
{
    snprintf(write_down(d, RECORD_RENAME, from)->to, sizeof ((struct record *)0)->to, "%s", to);
    return under(d)->rename(d, folder, from, to);
}

static int recorded_remove(struct zl_disk *d, int folder, const char *name)
{
    write_down(d, RECORD_REMOVE, name);
    return under(d)->remove(d, folder, name);
}

static int recorded_sync_folder(struct zl_disk *d, int folder)
{
    const int rc = under(d)->sync_folder(d, folder);
    if (!rc)
        write_down(d, RECORD_SYNC_FOLDER, NULL);
    return rc;
}

static const struct zl_disk_ops recorder_ops = {
    .create = recorded_create,
    .room = recorded_room,
    .write = recorded_write,
    .finish = recorded_finish,
    .close = recorded_close,
    .rename = recorded_rename,
    .remove = recorded_remove,
    .sync_folder = recorded_sync_folder,
};

static inline void recorder_free(struct recorder *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->record[i].data);
    free(r);
}

/* ---- after the cut --------------------------------------------------------------------------------------------------- */

/* What chance decides of one cut. */
struct cut {
    int at;              /* records that were issued */
    int names, data;     /* what happens to what was not synced: nothing, all, or by draws */
    uint64_t seed, draws;
    bool no_sync, no_folder_sync; /* a writer that forgot them, to see that the campaign notices */
};
enum { CUT_NONE, CUT_ALL, CUT_SOME };

static inline uint64_t cut_draw(struct cut *c, uint64_t below)
{
    return zl_random_u64(c->seed, ZL_STREAM_TEST, 2, c->draws++) % below;
}

static inline int chosen(struct cut *c, int how)
{
    return how == CUT_ALL ? 1 : how == CUT_NONE ? 0 : (int)cut_draw(c, 2);
}

static inline bool synced_after(const struct recorder *r, const struct cut *c, int i, enum record_kind kind, int file)
{
    if (kind == RECORD_SYNC ? c->no_sync : c->no_folder_sync)
        return false;
    for (int k = i + 1; k < c->at; k++)
        if (r->record[k].kind == kind && (kind == RECORD_SYNC_FOLDER || r->record[k].file == file))
            return true;
    return false;
}

struct leaf {
    char name[100];
    int file;
};

struct remains {
    struct leaf leaf[FILES_MOST];
    int n;
};

static inline void remains_set(struct remains *m, const char *name, int file)
{
    int i = 0;
    while (i < m->n && strcmp(m->leaf[i].name, name) != 0)
        i++;
    assert_true(i < FILES_MOST);
    snprintf(m->leaf[i].name, sizeof m->leaf[i].name, "%s", name);
    m->leaf[i].file = file;
    m->n += i == m->n;
}

static inline void remains_drop(struct remains *m, const char *name, int file)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->leaf[i].name, name) == 0 && (file < 0 || m->leaf[i].file == file)) {
            m->leaf[i] = m->leaf[--m->n];
            return;
        }
}

/* The names that are left. */
static inline void cut_names(const struct recorder *r, struct cut *c, struct remains *m)
{
    m->n = 0;
    for (int i = 0; i < c->at; i++) {
        const struct record *e = &r->record[i];
        if (e->kind != RECORD_CREATE && e->kind != RECORD_RENAME && e->kind != RECORD_REMOVE)
            continue;
        const bool durable = synced_after(r, c, i, RECORD_SYNC_FOLDER, -1);
        if (!durable && !chosen(c, c->names))
            continue;
        if (e->kind == RECORD_CREATE)
            remains_set(m, e->name, i);
        else if (e->kind == RECORD_REMOVE)
            remains_drop(m, e->name, -1);
        else {
            remains_set(m, e->to, e->file);
            if (durable || c->names != CUT_SOME || cut_draw(c, 4))
                remains_drop(m, e->name, e->file);
        }
    }
}

/* The bytes that are left of one file, written to fd. */
static inline void cut_file(const struct recorder *r, struct cut *c, int file, int fd)
{
    const bool durable_size = synced_after(r, c, file, RECORD_SYNC, file);
    if (durable_size || chosen(c, c->data))
        assert_int_equal(ftruncate(fd, (off_t)r->record[file].bytes), 0);
    for (int i = file; i < c->at; i++) {
        const struct record *e = &r->record[i];
        if (e->kind != RECORD_WRITE || e->file != file)
            continue;
        uint64_t from = 0, to = e->bytes;
        if (!synced_after(r, c, i, RECORD_SYNC, file)) {
            if (!chosen(c, c->data))
                continue;
            if (c->data == CUT_SOME && !cut_draw(c, 4)) { /* torn */
                from = cut_draw(c, e->bytes / 512 + 1) * 512;
                to = from + cut_draw(c, (e->bytes - from) / 512 + 1) * 512;
            }
        }
        assert_int_equal(pwrite(fd, e->data + from, to - from, (off_t)(e->offset + from)), to - from);
    }
}

/* The folder of a scene as the cut leaves it. */
static inline void cut_make(const struct recorder *r, struct cut *c, struct scene *s, struct remains *m)
{
    nftw(scene_path(s, ""), scene_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(mkdir(scene_path(s, ""), 0777), 0);
    cut_names(r, c, m);
    for (int i = 0; i < m->n; i++) {
        const int fd = open(scene_path(s, m->leaf[i].name), O_RDWR | O_CREAT | O_TRUNC, 0666);
        assert_true(fd >= 0);
        cut_file(r, c, m->leaf[i].file, fd);
        close(fd);
    }
}

#endif
