/*
 * The shared-memory segment: see segment.h. Not an allocator: pieces are taken front to back before the threads start and go all
 * together. Invariant: a segment of a living run is never removed, whoever looks and from whichever container. Who removes
 * one decides in this order:
 *   - the name is exactly ours, and the file belongs to our user;
 *   - no process of the name's pid and start time is alive (this covers the moment between the file's creation and its lock);
 *   - nobody holds the lock (flock) that the owner keeps on its descriptor: the kernel drops it with the owner's last
 *     descriptor, also after kill -9, and it is seen across pid namespaces that share /dev/shm.
 * And nothing is reserved before what is free was compared with what is wanted: a huge request fails at once.
 * Called by the driver, and by readers such as `zerolock top`.
 */
#define _GNU_SOURCE
#include "pipe/segment.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/type.h"

#define ALIGNMENT    128u
#define PREFIX       "zerolock-"
#define SAME_PROCESS 16 /* segments that one process may have at a time */

static_assert(sizeof(struct zl_segment_header) <= ALIGNMENT, "the header is one piece");

int (*zl_segment_reserve)(int fd, off_t offset, off_t bytes) = posix_fallocate;

/* What is still to be removed at exit, by the process that made it. */
static struct {
    char name[64];
    pid_t pid;
} ours[SAME_PROCESS];

static void remove_at_exit(void)
{
    for (int i = 0; i < SAME_PROCESS; i++)
        if (ours[i].name[0] && ours[i].pid == getpid())
            shm_unlink(ours[i].name);
}

void zl_segment_remove_now(void)
{
    static const char folder[] = "/dev/shm";
    for (int i = 0; i < SAME_PROCESS; i++) {
        char path[sizeof folder + sizeof ours[i].name];
        size_t n = 0;
        if (!ours[i].name[0] || ours[i].pid != getpid())
            continue;
        for (const char *p = folder; *p; p++)
            path[n++] = *p;
        for (const char *p = ours[i].name; *p; p++)
            path[n++] = *p;
        path[n] = '\0';
        unlink(path);
    }
}

static void remember(const char *name)
{
    static bool registered;
    if (!registered)
        registered = atexit(remove_at_exit) == 0;
    for (int i = 0; i < SAME_PROCESS; i++)
        if (!ours[i].name[0] || ours[i].pid != getpid()) {
            snprintf(ours[i].name, sizeof ours[i].name, "%s", name);
            ours[i].pid = getpid();
            return;
        }
}

/* True when this process made it and it was not yet forgotten. */
static bool forget(const char *name)
{
    for (int i = 0; i < SAME_PROCESS; i++)
        if (strcmp(ours[i].name, name) == 0 && ours[i].pid == getpid()) {
            ours[i].name[0] = '\0';
            return true;
        }
    return false;
}

uint64_t zl_process_start(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    /* "pid (name) state ...": the name may hold blanks and brackets, so count from the last one. State is field 3. */
    char *p = strrchr(text, ')');
    if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
        return 0;
    p++;
    for (int field = 3; field < 22 && p; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

/* Decimal digits without sign or blank; moves *p behind them. */
static bool parse_digits(const char **p, uint64_t *out)
{
    if (**p < '0' || **p > '9')
        return false;
    char *end;
    errno = 0;
    *out = strtoull(*p, &end, 10);
    *p = end;
    return errno == 0;
}

static bool parse_name(const char *name, uint64_t *pid, uint64_t *start)
{
    const char *p = name;
    uint64_t turn;
    if (strncmp(p, PREFIX, strlen(PREFIX)) != 0)
        return false;
    p += strlen(PREFIX);
    if (!parse_digits(&p, pid) || *p++ != '-' || !parse_digits(&p, start))
        return false;
    if (*p == '.') {
        p++;
        if (!parse_digits(&p, &turn))
            return false;
    }
    return *p == '\0' && *pid <= INT32_MAX;
}

static bool reclaim(const char *file)
{
    uint64_t pid, start;
    char name[64];
    if (!parse_name(file, &pid, &start) ||
        snprintf(name, sizeof name, "/%s", file) >= (int)sizeof name)
        return false;
    uint64_t now = zl_process_start((pid_t)pid);
    if (now != 0 && now == start)
        return false;
    int fd = shm_open(name, O_RDWR, 0);
    if (fd < 0)
        return false;
    struct stat st;
    bool dead = fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0;
    bool removed = dead && shm_unlink(name) == 0;
    close(fd);
    return removed;
}

int zl_segment_reclaim(void)
{
    DIR *folder = opendir("/dev/shm");
    if (!folder)
        return 0;
    int removed = 0;
    for (struct dirent *e; (e = readdir(folder));)
        removed += reclaim(e->d_name);
    closedir(folder);
    return removed;
}

static int reserve(int fd, uint64_t bytes)
{
    int rc;
    while ((rc = zl_segment_reserve(fd, 0, (off_t)bytes)) == EINTR)
        ;
    return rc;
}

/* A named object of that size in /dev/shm; 0 or an errno value, and then nothing is left behind. */
static int open_named(struct zl_segment *s, uint64_t bytes)
{
    struct statvfs room;
    if (statvfs("/dev/shm", &room) != 0)
        return errno;
    if (bytes / room.f_frsize >= room.f_bavail)
        return ENOSPC;
    uint64_t start = zl_process_start(getpid());
    for (int turn = 0; turn < SAME_PROCESS && s->fd < 0; turn++) {
        int n = snprintf(s->name, sizeof s->name, "/" PREFIX "%ld-%" PRIu64, (long)getpid(), start);
        if (turn)
            snprintf(s->name + n, sizeof s->name - (size_t)n, ".%d", turn);
        s->fd = shm_open(s->name, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
        if (s->fd < 0 && errno != EEXIST)
            break;
    }
    int rc = s->fd < 0 ? errno : 0;
    if (!rc && flock(s->fd, LOCK_EX | LOCK_NB) != 0)
        rc = errno;
    if (!rc)
        rc = reserve(s->fd, bytes);
    if (rc) {
        if (s->fd >= 0) {
            shm_unlink(s->name);
            close(s->fd);
        }
        s->fd = -1;
        s->name[0] = '\0';
    }
    return rc;
}

static int open_unnamed(struct zl_segment *s, uint64_t bytes)
{
    s->fd = memfd_create("zerolock", MFD_CLOEXEC);
    if (s->fd < 0)
        return errno;
    int rc = reserve(s->fd, bytes);
    if (rc) {
        close(s->fd);
        s->fd = -1;
    }
    return rc;
}

int zl_segment_create(struct zl_segment *s, uint64_t bytes, char note[256], struct zl_error *err)
{
    *s = (struct zl_segment){.fd = -1, .owner = true};
    char ignored[256], size[ZL_NUMBER_TEXT];
    if (!note)
        note = ignored;
    note[0] = '\0';
    uint64_t total;
    if (!zl_add_u64(bytes, 2 * ALIGNMENT - 1, &total) || total > (uint64_t)PTRDIFF_MAX)
        return zl_fail(err, ZL_EMEMORY, "a shared-memory segment of %" PRIu64 " bytes is too large",
                       bytes);
    total = total / ALIGNMENT * ALIGNMENT;
    zl_number_bytes(size, total);

    zl_segment_reclaim();
    /* Reserving page after page until the kernel must kill somebody is no way to learn that it does not fit. */
    uint64_t available = zl_memory_available();
    if (total > available) {
        char have[ZL_NUMBER_TEXT];
        zl_number_bytes(have, available);
        return zl_fail(err, ZL_EMEMORY,
                       "the rings need %s of shared memory, but only %s of memory are available",
                       size, have);
    }
    int named = open_named(s, total);
    if (named) {
        int unnamed = open_unnamed(s, total);
        if (unnamed) {
            char why[128];
            snprintf(why, sizeof why, "%s", strerror(named));
            return zl_fail(err, ZL_EMEMORY,
                           "the rings need %s of shared memory, which neither /dev/shm (%s) nor "
                           "anonymous memory (%s) can give",
                           size, why, strerror(unnamed));
        }
        snprintf(note, 256,
                 "/dev/shm cannot give %s (%s), so the rings are in anonymous memory and no other "
                 "process can watch this run",
                 size, strerror(named));
    }
    void *p = mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (p == MAP_FAILED) {
        zl_fail_errno(err, ZL_EMEMORY, "cannot map %s of shared memory", size);
        if (s->name[0])
            shm_unlink(s->name);
        close(s->fd);
        *s = (struct zl_segment){.fd = -1};
        return ZL_EMEMORY;
    }
    if (s->name[0])
        remember(s->name);
    s->base = p;
    s->bytes = total;
    s->used = ALIGNMENT;
    struct zl_segment_header *h = p;
    h->version = ZL_SEGMENT_VERSION;
    h->header_bytes = ALIGNMENT;
    h->bytes = total;
    h->used = s->used;
    h->pid = (uint64_t)getpid();
    h->start = zl_process_start(getpid());
    atomic_thread_fence(memory_order_release);
    memcpy(h->magic, ZL_SEGMENT_MAGIC, sizeof h->magic);
    return 0;
}

void *zl_segment_take(struct zl_segment *s, uint64_t bytes)
{
    uint64_t need;
    if (!s->base || !zl_add_u64(bytes, ALIGNMENT - 1, &need))
        return NULL;
    need = need / ALIGNMENT * ALIGNMENT;
    if (need > s->bytes - s->used)
        return NULL;
    void *p = (char *)s->base + s->used;
    s->used += need;
    ((struct zl_segment_header *)s->base)->used = s->used;
    return p;
}

void zl_segment_set_root(struct zl_segment *s, const void *piece)
{
    uint64_t offset = (uint64_t)((const char *)piece - (const char *)s->base);
    assert(s->owner && offset >= ALIGNMENT && offset < s->used);
    struct zl_segment_header *h = s->base;
    __atomic_store_n(&h->root, offset, __ATOMIC_RELEASE); /* a reader sees the piece filled */
}

void zl_segment_destroy(struct zl_segment *s)
{
    if (s->base) {
        if (s->owner && s->name[0] && forget(s->name))
            shm_unlink(s->name);
        munmap(s->base, (size_t)s->bytes);
        close(s->fd);
    }
    *s = (struct zl_segment){.fd = -1};
}

int zl_segment_attach(struct zl_segment *s, const char *name, struct zl_error *err)
{
    *s = (struct zl_segment){.fd = -1};
    uint64_t pid, start;
    if (name[0] != '/' || !parse_name(name + 1, &pid, &start))
        return zl_fail(err, ZL_EUSAGE, "%s is not the name of a run's shared memory, which is like /"
                       PREFIX "1234-567890", name);
    s->fd = shm_open(name, O_RDONLY, 0);
    if (s->fd < 0)
        return zl_fail_errno(err, ZL_ESYSTEM, "cannot open the shared memory %s", name);
    snprintf(s->name, sizeof s->name, "%s", name);
    int rc = 0;
    void *p = MAP_FAILED;
    struct stat st;
    if (fstat(s->fd, &st) != 0) {
        rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot look at the shared memory %s", name);
        goto out;
    }
    s->bytes = (uint64_t)st.st_size;
    if (s->bytes < ALIGNMENT) {
        rc = zl_fail(err, ZL_EINPUT, "shared memory %s has %" PRIu64 " bytes, less than its header",
                     name, s->bytes);
        goto out;
    }
    p = mmap(NULL, (size_t)s->bytes, PROT_READ, MAP_SHARED, s->fd, 0);
    if (p == MAP_FAILED) {
        rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot map the shared memory %s", name);
        goto out;
    }
    const struct zl_segment_header *h = p;
    const bool known = memcmp(h->magic, ZL_SEGMENT_MAGIC, sizeof h->magic) == 0;
    atomic_thread_fence(memory_order_acquire); /* who sees the magic sees the rest of the header */
    if (!known)
        rc = zl_fail(err, ZL_EINPUT, "shared memory %s does not begin with \"%s\"", name,
                     ZL_SEGMENT_MAGIC);
    else if (h->version != ZL_SEGMENT_VERSION)
        rc = zl_fail(err, ZL_EINPUT, "shared memory %s has version %" PRIu32 ", this program reads %d",
                     name, h->version, ZL_SEGMENT_VERSION);
    else if (h->bytes != s->bytes)
        rc = zl_fail(err, ZL_EINPUT,
                     "shared memory %s has %" PRIu64 " bytes, its header says %" PRIu64, name,
                     s->bytes, h->bytes);
out:
    if (rc) {
        if (p != MAP_FAILED)
            munmap(p, (size_t)s->bytes);
        close(s->fd);
        *s = (struct zl_segment){.fd = -1};
        return rc;
    }
    s->base = p;
    s->used = s->bytes;
    return 0;
}

const void *zl_segment_root(const struct zl_segment *s, uint64_t bytes)
{
    const struct zl_segment_header *h = s->base;
    uint64_t offset = __atomic_load_n(&h->root, __ATOMIC_ACQUIRE);
    if (offset < ALIGNMENT || offset % ALIGNMENT || offset > s->bytes || bytes > s->bytes - offset)
        return NULL;
    return (const char *)s->base + offset;
}
