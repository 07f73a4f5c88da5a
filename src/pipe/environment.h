/*
 * The environment variables by which OpenMP and BLIS are told how many threads to use and where. They were set for other programs;
 * the plan decides here, so they are taken away before the OpenMP library reads them.
 */
#ifndef ZL_PIPE_ENVIRONMENT_H
#define ZL_PIPE_ENVIRONMENT_H

/* Remove foreign settings and put in ours: starts the program once more, with the same arguments and process id, when anything has to
 * change, and then does not return. Where that is impossible the foreign ones are only removed. Idempotent. Uses nothing of
 * the C library but system calls, so that it can run before everything else: see below. */
void zl_cores_clean_environment(int argc, char **argv, char **envp);

/* A line of a program's main file (not of a library): run the above before the constructors of any shared library. In main it
 * would be too late for OMP_PROC_BIND, by which the OpenMP library has then bound the first thread to one core, for good. */
#define ZL_CORES_CLEAN_ENVIRONMENT_FIRST                                                           \
    extern void (*const zl_cores_first)(int, char **, char **);                                    \
    __attribute__((section(".preinit_array"), used)) void (*const zl_cores_first)(                 \
        int, char **, char **) = zl_cores_clean_environment

/* A sentence about foreign OMP_, GOMP_, KMP_ or BLIS_ settings that are overridden, or an empty string. */
void zl_cores_foreign_settings(char note[256]);

#endif
