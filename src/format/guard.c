/*
 * What happens when a mapped weight file is cut short while we compute: the SIGBUS handler of
 * zl_tensors_guard_install(), and the list of mappings that it looks the faulting address up in. It
 * does not try to go on: the numbers are gone.
 *
 * Why the handler may read the list while other threads change it: entries are only ever pushed in
 * front and never freed or moved, so `next` chains are always whole (head: release/acquire). An
 * entry out of use has base 0 and is taken again under the lock; base is stored last (release) and
 * cleared first, so a handler that matches an address against base sees that entry's size and path,
 * unless the mapping it faulted in is being closed at this moment, which is a bug of ours anyway.
 */
#include "config.h"

#include "format/tensors_impl.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct zl_guard_entry {
    struct zl_guard_entry *next;
    _Atomic(uintptr_t) base; /* 0: not in use */
    uintptr_t size;          /* whole pages */
    char *path;
};

static _Atomic(struct zl_guard_entry *) head;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*before_exit_call)(void *);
static void *before_exit_argument;

struct zl_guard_entry *zl_guard_add(const void *base, uint64_t size, const char *path)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    char *copy = strdup(path);
    if (!copy)
        return NULL;
    pthread_mutex_lock(&lock);
    struct zl_guard_entry *e = atomic_load_explicit(&head, memory_order_relaxed);
    while (e && atomic_load_explicit(&e->base, memory_order_relaxed))
        e = e->next;
    bool fresh = !e;
    if (fresh && (e = calloc(1, sizeof *e)))
        e->next = atomic_load_explicit(&head, memory_order_relaxed);
    if (e) {
        free(e->path);
        e->path = copy;
        e->size = ((uintptr_t)size + page - 1) & ~(page - 1);
        atomic_store_explicit(&e->base, (uintptr_t)base, memory_order_release);
        if (fresh)
            atomic_store_explicit(&head, e, memory_order_release);
    } else {
        free(copy);
    }
    pthread_mutex_unlock(&lock);
    return e;
}

void zl_guard_remove(struct zl_guard_entry *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&e->base, 0, memory_order_release);
    pthread_mutex_unlock(&lock);
}

static void say(const char *text)
{
    for (size_t n = strlen(text); n;) {
        ssize_t w = write(STDERR_FILENO, text, n);
        if (w <= 0)
            return;
        text += w;
        n -= (size_t)w;
    }
}

static void say_number(uintptr_t value)
{
    char digits[24];
    char *p = digits + sizeof digits;
    *--p = 0;
    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    say(p);
}

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    const uintptr_t at = (uintptr_t)info->si_addr;
    const struct zl_guard_entry *e = atomic_load_explicit(&head, memory_order_acquire);
    uintptr_t base = 0;
    for (; e; e = e->next) {
        base = atomic_load_explicit(&e->base, memory_order_acquire);
        if (base && at >= base && at - base < e->size)
            break;
    }
    if (!e || info->si_code <= 0) { /* not ours, or sent by kill(): as if there were no handler */
        signal(signal_number, SIG_DFL);
        if (info->si_code <= 0)
            raise(signal_number);
        return;
    }
    if (atomic_flag_test_and_set(
            &reported)) /* several threads fault at once: one speaks and ends them all */
        for (;;)
            pause();
    say("zerolock: ");
    say(e->path);
    say(": byte ");
    say_number(at - base);
    say(" can no longer be read: the file was cut short or its disk failed while it was in use\n");
    if (before_exit_call)
        before_exit_call(before_exit_argument);
    _exit(1);
}

int zl_tensors_guard_install(void (*before_exit)(void *argument), void *argument,
                             struct zl_error *err)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    before_exit_call = before_exit;
    before_exit_argument = argument;
    if (sigaction(SIGBUS, &action, NULL))
        return zl_fail_errno(err, ZL_ESYSTEM, "cannot handle SIGBUS");
    return 0;
}
