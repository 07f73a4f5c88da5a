/*
 * A preload object that lets system calls fail: ZL_INJECT="CALL:FIRST[-[LAST]]:ERROR,...", the calls of that name from the FIRST to the
 * LAST (only the first; "3-": from the third on) fail with ERROR, an errno's name, or "short": half of what was asked for is written, or
 * "kill": the process is killed before it makes the call; or "stop": it is stopped there, by SIGSTOP.
 *
 * CALL: openat (that makes a file) fallocate pwrite fsync close (of what was made so) renameat unlinkat, and of io_uring: setup register
 * enter, and ring-write and ring-fsync, whose results are changed when they come in. Calls are counted in the whole process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

enum { SHORT = -1, KILL = -2, STOP = -3 };

static const struct {
    const char *name;
    int error;
} errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EINTR", EINTR},   {"EDQUOT", EDQUOT}, {"EROFS", EROFS},
              {"EINVAL", EINVAL}, {"ENOSYS", ENOSYS}, {"EPERM", EPERM},   {"ENOMEM", ENOMEM}, {"EACCES", EACCES},
              {"EAGAIN", EAGAIN}, {"ENOENT", ENOENT}, {"short", SHORT}, {"kill", KILL},
              {"stop", STOP}};

static const char *const calls[] = {"openat", "fallocate", "pwrite", "fsync",  "close",      "renameat",
                                    "unlinkat", "setup", "register", "enter", "ring-write", "ring-fsync"};
enum { OPENAT, FALLOCATE, PWRITE, FSYNC, CLOSE, RENAMEAT, UNLINKAT, SETUP, REGISTER, ENTER, RING_WRITE, RING_FSYNC, CALLS };

static atomic_ulong made[CALLS];
static atomic_int made_fd = -1; /* the file that was made last */

static int error_named(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strlen(errors[i].name) == length && strncmp(errors[i].name, name, length) == 0)
            return errors[i].error;
    fprintf(stderr, "ZL_INJECT: unknown error %.*s\n", (int)length, name);
    _exit(99);
}

/* What is to become of this call: 0, an errno, or SHORT. */
static int verdict(int call)
{
    const unsigned long n = ++made[call];
    const char *rule = getenv("ZL_INJECT");
    const size_t length = strlen(calls[call]);
    while (rule && *rule) {
        const size_t whole = strcspn(rule, ",");
        if (strncmp(rule, calls[call], length) == 0 && rule[length] == ':') {
            char *p;
            const unsigned long first = strtoul(rule + length + 1, &p, 10);
            const int open = *p == '-';
            unsigned long last = open ? strtoul(p + 1, &p, 10) : first;
            if (open && !last)
                last = -1ul;
            if (*p != ':') {
                fprintf(stderr, "ZL_INJECT: not understood: %s\n", rule);
                _exit(99);
            }
            const int error = n >= first && n <= last ? error_named(p + 1, (size_t)(rule + whole - p - 1)) : 0;
            if (error == KILL)
                kill(getpid(), SIGKILL);
            if (error == STOP)
                raise(SIGSTOP); /* of this thread, which does not go on before the others stop too */
            else if (error)
                return error;
        }
        rule += whole + (rule[whole] == ',');
    }
    return 0;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int refuse(int error)
{
    errno = error;
    return -1;
}

int openat(int folder, const char *path, int flags, ...)
{
    REAL(openat);
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    const int error = flags & O_CREAT ? verdict(OPENAT) : 0;
    const int fd = error ? refuse(error) : real(folder, path, flags, mode);
    if (flags & O_CREAT)
        made_fd = fd;
    return fd;
}

int close(int fd)
{
    REAL(close);
    const int error = fd >= 0 && fd == made_fd ? verdict(CLOSE) : 0;
    if (fd == made_fd)
        made_fd = -1;
    const int rc = real(fd); /* closed it is, whatever it says */
    return error ? refuse(error) : rc;
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    REAL(fallocate);
    const int error = verdict(FALLOCATE);
    return error ? refuse(error) : real(fd, mode, offset, length);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset)
{
    REAL(pwrite);
    const int error = verdict(PWRITE);
    return error == SHORT ? real(fd, data, n / 2, offset) : error ? refuse(error) : real(fd, data, n, offset);
}

int fsync(int fd)
{
    REAL(fsync);
    const int error = verdict(FSYNC);
    return error ? refuse(error) : real(fd);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    REAL(renameat);
    const int error = verdict(RENAMEAT);
    return error ? refuse(error) : real(from_folder, from, to_folder, to);
}

int unlinkat(int folder, const char *path, int flags)
{
    REAL(unlinkat);
    const int error = verdict(UNLINKAT);
    return error ? refuse(error) : real(folder, path, flags);
}

#ifdef HAVE_LIBURING
static unsigned submitted, seen; /* of the ring, which is one at a time and one thread's at a time */

int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
    REAL(io_uring_queue_init);
    const int error = verdict(SETUP);
    submitted = seen = 0;
    return error ? -error : real(entries, ring, flags);
}

int io_uring_register_buffers(struct io_uring *ring, const struct iovec *v, unsigned n)
{
    REAL(io_uring_register_buffers);
    const int error = verdict(REGISTER);
    return error ? -error : real(ring, v, n);
}

/* The writer is the only one with a ring: its writes carry the number of a room, its sync the number behind the last room. */
static void change(struct io_uring_cqe *e)
{
    const int sync = e->user_data == 16;
    const int error = e->res < 0 ? 0 : verdict(sync ? RING_FSYNC : RING_WRITE);
    if (error == SHORT)
        e->res /= 2;
    else if (error)
        e->res = -error;
}

int io_uring_submit(struct io_uring *ring)
{
    REAL(io_uring_submit);
    const int rc = real(ring);
    submitted += rc > 0 ? (unsigned)rc : 0;
    return rc;
}

/* Waits for all that is under way, so that no result comes in behind our back before the writer looks. */
int io_uring_submit_and_wait(struct io_uring *ring, unsigned n)
{
    REAL(io_uring_submit_and_wait);
    const int error = verdict(ENTER);
    if (error)
        return -error;
    int rc = real(ring, n);
    submitted += rc > 0 ? (unsigned)rc : 0;
    unsigned tail;
    while (tail = __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE), rc >= 0 && tail != submitted)
        real(ring, submitted - __atomic_load_n(ring->cq.khead, __ATOMIC_ACQUIRE));
    for (; seen != tail; seen++)
        if (seen) /* the first is of the trial */
            change(&ring->cq.cqes[seen & *ring->cq.kring_mask]);
    return rc;
}
#endif
