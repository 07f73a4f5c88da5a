/* Futex calls: see futex.h. The C library offers none, so these are the bare system calls. */
#include "pipe/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

bool zl_futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns)
{
    struct timespec until, *limit = NULL;
    if (deadline_ns >= 0) {
        until = (struct timespec){.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                                  .tv_nsec = (long)(deadline_ns % NS_PER_S)};
        limit = &until;
    }
    /* FUTEX_WAIT_BITSET is FUTEX_WAIT with an absolute time, so a woken waiter need not recompute what is left. */
    int saved = errno;
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, limit, NULL,
                      FUTEX_BITSET_MATCH_ANY);
    bool in_time = rc == 0 || errno != ETIMEDOUT;
    errno = saved;
    return in_time;
}

void zl_futex_wake(const _Atomic uint32_t *word, int count)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
    errno = saved;
}
