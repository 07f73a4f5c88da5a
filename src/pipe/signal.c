/*
 * Stop signals: see signal.h. The handler touches one lock-free atomic and _exit, both async-signal-safe; everything else (finishing the
 * step, writing the checkpoint, the sentence for the user) is done by whoever reads the flag. Called by main and the driver.
 */
#include "pipe/signal.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static_assert(ATOMIC_INT_LOCK_FREE == 2, "a lock inside an atomic would not be safe in a signal handler");

static atomic_int pending;

/* Relaxed would do for the flag alone; acquire and release cost nothing here and let it stand for what happened before. */
static void note_signal(int number)
{
    int none = 0;
    if (!atomic_compare_exchange_strong_explicit(&pending, &none, number, memory_order_acq_rel,
                                                 memory_order_acquire))
        _exit(128 + number);
}

void zl_signals_install(void)
{
    static const int stop[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction note = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
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

int zl_signals_pending(void)
{
    return atomic_load_explicit(&pending, memory_order_acquire);
}
