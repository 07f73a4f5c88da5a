/*
 * Stop signals: see signal.h. The handler touches one lock-free atomic and _exit, both async-signal-safe; everything else (finishing the
 * step, writing the checkpoint, the sentence for the user) is done by whoever reads the flag. Called by main and the driver.
 */
#include "pipe/signal.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

#include "pipe/segment.h"

static_assert(ATOMIC_INT_LOCK_FREE == 2, "a lock inside an atomic would not be safe in a signal handler");

static atomic_int pending;
static atomic_int from_supervisor, from_others;
static pid_t supervisor; /* set before the handler is */
static atomic_int at_once; /* nobody looks at the flag yet, and there is nothing to save */

/* Relaxed would do for the flag alone; acquire and release cost nothing here and let it stand for what happened before. */
static void note_signal(int number, siginfo_t *info, void *context)
{
    static const char text[] = "zerolock: stopped by a signal before the work began\n";
    int none = 0;
    (void)context;
    if (atomic_load_explicit(&at_once, memory_order_relaxed)) {
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
        _exit(1);
    }
    const bool handed_on = supervisor && info && info->si_code <= 0 && info->si_pid == supervisor;
    const int before = atomic_fetch_add_explicit(handed_on ? &from_supervisor : &from_others, 1, memory_order_acq_rel);
    atomic_compare_exchange_strong_explicit(&pending, &none, number, memory_order_acq_rel, memory_order_acquire);
    if (before) {
        zl_segment_remove_now();
        _exit(128 + number);
    }
}

void zl_signals_install(void)
{
    static const int stop[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction note = {.sa_sigaction = note_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&note.sa_mask);
    for (size_t i = 0; i < sizeof stop / sizeof *stop; i++)
        sigaddset(&note.sa_mask, stop[i]);
    for (size_t i = 0; i < sizeof stop / sizeof *stop; i++) {
        struct sigaction old;
        if (stop[i] == SIGHUP && sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            continue;
        sigaction(stop[i], &note, NULL);
    }
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
}

void zl_signals_supervisor(long pid)
{
    supervisor = (pid_t)pid;
}

void zl_signals_end_at_once(bool end)
{
    atomic_store_explicit(&at_once, end, memory_order_relaxed);
}

int zl_signals_pending(void)
{
    return atomic_load_explicit(&pending, memory_order_acquire);
}
