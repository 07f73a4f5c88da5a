/*
 * A small parent that keeps a run going: it starts the run as a process of its own, looks for signs of life, and starts it again from its newest
 * checkpoint when it dies or hangs, after a while and not for ever. A run that ends by itself, well or with a sentence, has ended. Signals
 * are handed on. The parent holds nothing of the run: what it must know lies in the run's folder and in its shared-memory segment.
 */
#ifndef ZL_TRAIN_SUPERVISE_H
#define ZL_TRAIN_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

struct zl_supervision {
    char *const *argv;   /* of this program, for the run; argv[0] is not looked at */
    const char *run_dir;
    double hang_seconds; /* without a sign of life */
    bool quiet;
};

/* Until the run has ended or is given up; returns the exit status. Before any thread is started. */
int zl_supervise(const struct zl_supervision *s);

/* In the process that was started: who supervises it, which start this is (0: the first), and how the last one ended ("" for the first). False:
 * nobody does. */
struct zl_supervised {
    long parent;
    uint64_t starts;
    bool goes_on;    /* the process before this one had taken the folder */
    char died[128];
};
bool zl_supervised(struct zl_supervised *s);

#endif
