/*
 * Signals that ask the program to stop: they set a flag that the training loop looks at between micro-batches; the second one ends the
 * program at once. Not for failures (SIGSEGV and the like keep their meaning).
 */
#ifndef ZL_PIPE_SIGNAL_H
#define ZL_PIPE_SIGNAL_H

#include <stdbool.h>

/* From now on SIGINT, SIGTERM and SIGHUP are noted (a SIGHUP that is ignored, as under nohup, stays ignored), a second one of
 * any of them ends the process with status 128 + its number, and SIGPIPE and SIGXFSZ are ignored so that a closed pipe is an EPIPE and a file
 * that may not grow an EFBIG. Interrupted
 * system calls go on by themselves, a futex wait returns. Called once, before threads start. */
void zl_signals_install(void);

/* A process that hands signals on to this one, which gets them from elsewhere too (a terminal, a service manager that signals all processes):
 * what comes from it and what comes from others is counted apart, and two are two only where one of them says so. */
void zl_signals_supervisor(long pid);

/* While true, the first of those signals ends the process with status 1 and a sentence: for reading and preparing, which look at no
 * flag and leave nothing half done. Not while a segment exists or a file is being written. */
void zl_signals_end_at_once(bool end);

/* The first signal that asked to stop, or 0. */
int zl_signals_pending(void);

#endif
