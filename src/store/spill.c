/*
 * A spill file: see spill.h. Two buffers for reading (the record in use, the one that is read ahead) and two for writing (the one
 * that is made, the one that is written).
 *
 * Invariant: of a record under way in one direction nothing is begun in the other: a read waits for the record's write, and a write
 * discards what was read ahead of it.
 */
#include "config.h"

#include "store/spill.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"

#define BLOCK UINT64_C(4096) /* what O_DIRECT asks of offsets, sizes and memory */
#define NO_RECORD UINT64_MAX

struct record {
    uint64_t offset, bytes;
    XXH64_hash_t sum;
};

struct buffer {
    struct zl_transfer t;
    unsigned char *memory;
    uint64_t record; /* NO_RECORD: none */
};

struct zl_spill {
    char *what, *dir;
    int fd;
    struct zl_transfers *queue;
    struct record *records;
    uint64_t capacity, n, bytes, largest;
    struct zl_arena arena;
    struct buffer in[2], out[2];
    unsigned current, making; /* of in: in use; of out: where the next record is made */
    struct zl_spill_totals totals;
};

uint64_t zl_spill_room(uint64_t bytes)
{
    return bytes > UINT64_MAX - BLOCK ? UINT64_MAX : (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

uint64_t zl_spill_memory(const struct zl_spill_request *r)
{
    const uint64_t each = zl_spill_room(r->largest), table = r->records * sizeof(struct record);
    return r->unbuffered ? table : each > UINT64_MAX / 8 ? UINT64_MAX : 4 * each + BLOCK + table;
}

/* A file without a name; where the file system knows no such thing, one that loses it at once. */
static int open_file(const char *dir)
{
    static const int direct[] = {O_DIRECT, 0};
    for (int i = 0; i < 2; i++) {
        int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | direct[i], 0600);
        if (fd >= 0 || (errno != EINVAL && errno != EOPNOTSUPP && errno != EISDIR))
            return fd;
    }
    char *path = zl_path_join(dir, "spill-XXXXXX");
    int fd = path ? mkostemp(path, O_CLOEXEC) : -1;
    if (fd >= 0) {
        unlink(path);
        fcntl(fd, F_SETFL, O_DIRECT); /* where that cannot be had the page cache takes part */
    }
    free(path);
    return fd;
}

static int no_room(const struct zl_spill *s, uint64_t available, struct zl_error *err)
{
    return zl_fail(err, ZL_ESYSTEM, "%s: %.0f MiB are free on the disk, but the spilled %s take %.0f MiB", s->dir,
                   (double)available / 1048576, s->what, (double)s->bytes / 1048576);
}

/* Take the space now: later there is nobody to give it back to. */
static int reserve(struct zl_spill *s, const struct zl_transfer_calls *calls, struct zl_error *err)
{
    struct statvfs fs;
    uint64_t available = UINT64_MAX;
    if (fstatvfs(s->fd, &fs) == 0 && !__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &available) &&
        available < s->bytes)
        return no_room(s, available, err);
    if (s->bytes > INT64_MAX)
        return no_room(s, available, err);
    const off_t bytes = (off_t)s->bytes;
    int rc = calls && calls->reserve ? calls->reserve(s->fd, 0, bytes) : fallocate(s->fd, 0, 0, bytes) ? errno : 0;
    if (rc == EOPNOTSUPP || rc == ENOSYS) /* then the space is taken as it is written */
        rc = ftruncate(s->fd, bytes) ? errno : 0;
    if (rc == ENOSPC)
        return no_room(s, available, err);
    errno = rc;
    return rc ? zl_fail_errno(err, ZL_ESYSTEM, "%s: no file of %.0f MiB for spilled %s can be made", s->dir, (double)s->bytes / 1048576,
                              s->what)
              : 0;
}

int zl_spill_open(struct zl_spill **out, const struct zl_spill_request *r, struct zl_error *err)
{
    struct zl_spill *s = calloc(1, sizeof *s);
    *out = s;
    if (!s)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    s->fd = -1;
    s->bytes = r->bytes;
    s->largest = r->largest;
    s->capacity = r->records;
    s->what = strdup(r->what);
    s->dir = strdup(r->dir);
    s->records = calloc(r->records + 1, sizeof *s->records);
    int rc = s->what && s->dir && s->records ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc && (s->fd = open_file(r->dir)) < 0)
        rc = zl_fail_errno(err, ZL_ESYSTEM, "%s: no file for spilled %s can be made", r->dir, r->what);
    if (!rc)
        rc = reserve(s, r->calls, err);
    if (!rc)
        rc = zl_transfers_open(&s->queue, 8, r->calls, err);
    const uint64_t each = zl_spill_room(r->largest);
    if (!rc && !r->unbuffered)
        rc = zl_arena_open(&s->arena, "buffers of the spill", zl_spill_memory(r) - r->records * sizeof(struct record), err);
    for (int i = 0; !rc && i < 2; i++) {
        s->in[i] = (struct buffer){.record = NO_RECORD, .memory = r->unbuffered ? NULL : zl_arena_take(&s->arena, each)};
        s->out[i] = (struct buffer){.record = NO_RECORD, .memory = r->unbuffered ? NULL : zl_arena_take(&s->arena, each)};
    }
    if (rc) {
        zl_spill_close(s);
        *out = NULL;
    }
    return rc;
}

void zl_spill_close(struct zl_spill *s)
{
    if (!s)
        return;
    zl_transfers_close(s->queue);
    zl_arena_close(&s->arena);
    if (s->fd >= 0)
        close(s->fd);
    free(s->records);
    free(s->what);
    free(s->dir);
    free(s);
}

static int wait_for(struct zl_spill *s, struct zl_transfer *t)
{
    const uint64_t start = zl_clock_ns();
    const int error = zl_transfer_wait(s->queue, t);
    s->totals.wait_ns += zl_clock_ns() - start;
    return error;
}

static int failed(const struct zl_spill *s, bool write, uint64_t i, int error, struct zl_error *err)
{
    return zl_fail(err, ZL_ESYSTEM, "%s: record %llu of the spilled %s, %llu bytes at %llu, cannot be %s: %s", s->dir, (unsigned long long)i,
                   s->what, (unsigned long long)s->records[i].bytes, (unsigned long long)s->records[i].offset,
                   write ? "written" : "read", zl_transfer_why(error, write));
}

/* Wait for a buffer's write. */
static int settle(struct zl_spill *s, struct buffer *b, struct zl_error *err)
{
    if (b->record == NO_RECORD)
        return 0;
    const int error = wait_for(s, &b->t);
    const uint64_t i = b->record;
    if (error)
        return failed(s, true, i, error, err); /* and stays: what was lost is not forgotten */
    b->record = NO_RECORD;
    return 0;
}

void zl_spill_layout(struct zl_spill *s, const uint64_t *bytes, uint64_t n)
{
    assert(n <= s->capacity);
    uint64_t at = 0;
    for (int i = 0; i < 2; i++) {
        wait_for(s, &s->in[i].t);
        wait_for(s, &s->out[i].t);
        s->in[i].record = s->out[i].record = NO_RECORD;
    }
    for (uint64_t i = 0; i < n; i++) {
        assert(bytes[i] <= s->largest);
        s->records[i] = (struct record){.offset = at, .bytes = bytes[i]};
        at += zl_spill_room(bytes[i]);
    }
    assert(at <= s->bytes);
    s->n = n;
}

static void begin(struct zl_spill *s, struct zl_transfer *t, uint64_t i, void *memory, bool write)
{
    const struct record *r = &s->records[i];
    *t = (struct zl_transfer){.fd = s->fd, .write = write, .buffer = memory, .bytes = zl_spill_room(r->bytes), .offset = r->offset};
    *(write ? &s->totals.written_bytes : &s->totals.read_bytes) += t->bytes;
    zl_transfer_begin(s->queue, t);
}

void *zl_spill_make(struct zl_spill *s, struct zl_error *err)
{
    struct buffer *b = &s->out[s->making];
    return settle(s, b, err) ? NULL : b->memory;
}

int zl_spill_put(struct zl_spill *s, uint64_t i, struct zl_error *err)
{
    struct buffer *b = &s->out[s->making], *other = &s->out[!s->making];
    assert(i < s->n && b->record == NO_RECORD);
    if (other->record == i && settle(s, other, err))
        return ZL_ESYSTEM;
    for (int k = 0; k < 2; k++)
        if (s->in[k].record == i) {
            wait_for(s, &s->in[k].t);
            s->in[k].record = NO_RECORD;
        }
    s->records[i].sum = XXH3_64bits(b->memory, s->records[i].bytes);
    b->record = i;
    begin(s, &b->t, i, b->memory, true);
    s->making = !s->making;
    return 0;
}

/* A record that is being written is read after that. */
static int writes_of(struct zl_spill *s, uint64_t i, struct zl_error *err)
{
    for (int k = 0; k < 2; k++)
        if (s->out[k].record == i && settle(s, &s->out[k], err))
            return ZL_ESYSTEM;
    return 0;
}

void zl_spill_fetch(struct zl_spill *s, uint64_t i)
{
    struct buffer *b = &s->in[!s->current];
    assert(i < s->n);
    if (b->record != NO_RECORD || s->in[s->current].record == i || writes_of(s, i, NULL))
        return; /* a failure is told to whoever gets, makes or flushes */
    b->record = i;
    begin(s, &b->t, i, b->memory, false);
}

/* The bytes of a record that was read, or NULL when it is not what was written. */
static const void *verified(struct zl_spill *s, uint64_t i, const void *memory, int error, struct zl_error *err)
{
    const struct record *r = &s->records[i];
    if (error) {
        failed(s, false, i, error, err);
        return NULL;
    }
    if (XXH3_64bits(memory, r->bytes) == r->sum)
        return memory;
    zl_fail(err, ZL_ESYSTEM, "%s: record %llu of the spilled %s, %llu bytes at %llu, is not what was written there: the disk has changed it",
            s->dir, (unsigned long long)i, s->what, (unsigned long long)r->bytes, (unsigned long long)r->offset);
    return NULL;
}

const void *zl_spill_get(struct zl_spill *s, uint64_t i, struct zl_error *err)
{
    assert(i < s->n);
    s->in[s->current].record = NO_RECORD;
    struct buffer *b = &s->in[!s->current];
    if (b->record != i) {
        if (b->record != NO_RECORD)
            wait_for(s, &b->t);
        b->record = NO_RECORD;
        if (writes_of(s, i, err))
            return NULL;
        zl_spill_fetch(s, i);
    }
    s->current = !s->current;
    return verified(s, i, b->memory, wait_for(s, &b->t), err);
}

int zl_spill_flush(struct zl_spill *s, struct zl_error *err)
{
    int rc = settle(s, &s->out[0], err);
    return rc ? rc : settle(s, &s->out[1], err);
}

int zl_spill_save(struct zl_spill *s, uint64_t i, void *memory, struct zl_error *err)
{
    struct zl_transfer t;
    assert(i < s->n);
    s->records[i].sum = XXH3_64bits(memory, s->records[i].bytes);
    begin(s, &t, i, memory, true);
    const int error = wait_for(s, &t);
    return error ? failed(s, true, i, error, err) : 0;
}

int zl_spill_load(struct zl_spill *s, uint64_t i, void *memory, struct zl_error *err)
{
    struct zl_transfer t;
    assert(i < s->n);
    begin(s, &t, i, memory, false);
    return verified(s, i, memory, wait_for(s, &t), err) ? 0 : ZL_ESYSTEM;
}

struct zl_spill_totals zl_spill_totals(const struct zl_spill *s)
{
    return s->totals;
}
