/* A small parent that keeps a run going: see supervise.h. */
#include "train/supervise.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "pipe/board.h"
#include "store/generation.h"

#define VARIABLE      "ZEROLOCK_SUPERVISED"
#define MOST_IN_A_ROW 5  /* starts again without a new checkpoint between them */
#define LONGEST_WAIT  60 /* seconds before a new start */
#define PAUSE         1.9 /* seconds between two looks, which are a second apart, that are not counted */
#define STUCK         10 /* times hang_seconds: computing without an operation's end is a hang too */

struct watch { /* signs of life of one process */
    pid_t pid;
    uint64_t operations, cpu_ticks;
    double alive, moved; /* when the process last did something, and when an operation last ended */
    double looked;       /* the last look */
};

struct keeper {
    const struct zl_supervision *s;
    char program[PATH_MAX];
    sigset_t handled, before;
    pid_t own;
    uint64_t starts, in_a_row, generation;
    ino_t folder_mark;   /* of run.json before the first start */
    bool taken;          /* a process of ours has written its own since */
    int stopping;        /* a signal was handed on */
    char died[128];
};

/* ---- signs of life ------------------------------------------------------------------------------- */

/* Time that the process has computed, in clock ticks: fields 14 and 15 of its stat. */
static uint64_t cpu_ticks(pid_t pid)
{
    char path[64], *text = NULL;
    uint64_t user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    if (zl_file_read(path, 4096, &text, NULL, NULL) == 0) {
        const char *behind = strrchr(text, ')');
        if (behind)
            sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &user, &system);
    }
    free(text);
    return user + system;
}

static void look(struct watch *w)
{
    const double now = zl_clock_seconds(), gap = now - w->looked;
    uint64_t operations = 0;
    if (w->looked > 0 && gap > PAUSE) { /* we stood still ourselves, as in a frozen or paused machine: so did the process, most likely */
        w->alive += gap;
        w->moved += gap;
    }
    w->looked = now;
    const uint64_t ticks = cpu_ticks(w->pid);
    const bool live = zl_board_look(w->pid, &operations);
    if (!live || operations != w->operations)
        w->moved = now;
    if (ticks != w->cpu_ticks || (live && operations != w->operations))
        w->alive = now;
    w->operations = operations;
    w->cpu_ticks = ticks;
}

static bool hangs(const struct watch *w, double seconds)
{
    const double now = zl_clock_seconds();
    return now - w->alive > seconds || now - w->moved > STUCK * seconds;
}

/* ---- one process --------------------------------------------------------------------------------- */

static void become_run(const struct keeper *k)
{
    char value[256];
    snprintf(value, sizeof value, "%ld %" PRIu64 " %d %s", (long)k->own, k->starts, k->taken, k->died);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody would look after it, and it would hold the folder */
    if (getppid() != k->own)
        _exit(1);
    sigprocmask(SIG_SETMASK, &k->before, NULL);
    if (setenv(VARIABLE, value, 1) == 0)
        execv(k->program, k->s->argv);
    _exit(127);
}

/* Next signal or second. Returns the signal number, 0 after a second. */
static int wait_a_second(const struct keeper *k, siginfo_t *info)
{
    const struct timespec second = {.tv_sec = 1};
    const int number = sigtimedwait(&k->handled, info, &second);
    return number > 0 ? number : 0;
}

/* Until the process has ended; its wait status. `why` is set when it was killed for hanging. */
static int attend(struct keeper *k, pid_t pid, bool *hung)
{
    struct watch w = {.pid = pid, .alive = zl_clock_seconds(), .moved = zl_clock_seconds()};
    siginfo_t info;
    int status = 0;
    *hung = false;
    for (;;) {
        const int number = wait_a_second(k, &info);
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        if (number && number != SIGCHLD) {
            k->stopping = number;
            kill(pid, number);
        }
        look(&w);
        if (!*hung && hangs(&w, k->s->hang_seconds)) {
            *hung = true;
            kill(pid, SIGKILL);
        }
    }
}

static ino_t mark_of(const struct keeper *k)
{
    struct stat st;
    char *path = zl_path_join(k->s->run_dir, "run.json");
    const bool there = path && stat(path, &st) == 0;
    free(path);
    return there ? st.st_ino ^ (ino_t)st.st_mtim.tv_nsec ^ (ino_t)st.st_mtim.tv_sec : 0;
}

static uint64_t newest(const struct keeper *k)
{
    struct zl_generation_name *list = NULL;
    uint64_t n = 0, generation = 0;
    if (zl_generation_list(k->s->run_dir, &list, &n, NULL) == 0 && n)
        generation = list[0].generation;
    free(list);
    return generation;
}

/* ---- until it is over ---------------------------------------------------------------------------- */

static void pause_before(struct keeper *k)
{
    siginfo_t info;
    const double seconds = k->in_a_row > 6 ? LONGEST_WAIT : (double)(1u << k->in_a_row) / 4, until = zl_clock_seconds() + seconds;
    while (!k->stopping && zl_clock_seconds() < until) {
        const int number = wait_a_second(k, &info);
        if (number && number != SIGCHLD)
            k->stopping = number;
    }
}

/* What a process's end means: true, and the next one is to be started; false, and *status is that of the whole. */
static bool goes_on(struct keeper *k, int ended, bool hung, int *status)
{
    struct zl_error err = {0};
    if (WIFEXITED(ended) && WEXITSTATUS(ended) != 127) {
        *status = WEXITSTATUS(ended);
        return false;
    }
    *status = 1;
    if (WIFEXITED(ended)) {
        zl_fail(&err, ZL_ESYSTEM, "%s cannot be started", k->program);
        zl_log_error(&err);
        return false;
    }
    if (hung)
        snprintf(k->died, sizeof k->died, "gave no sign of life for %.0f seconds and was killed", k->s->hang_seconds);
    else
        snprintf(k->died, sizeof k->died, "was ended by signal %d (%s)", WTERMSIG(ended), strsignal(WTERMSIG(ended)));
    if (k->stopping) {
        *status = 128 + k->stopping;
        return false;
    }
    const uint64_t now = newest(k);
    k->in_a_row = now > k->generation ? 0 : k->in_a_row + 1;
    k->generation = now;
    k->taken |= mark_of(k) != k->folder_mark;
    if (k->in_a_row < MOST_IN_A_ROW) {
        zl_warn("the run %s; it is started again", k->died);
        return true;
    }
    zl_fail(&err, ZL_ESYSTEM, "the run %s, the %dth time without a new checkpoint; it is not started again", k->died, MOST_IN_A_ROW);
    zl_log_error(&err);
    return false;
}

int zl_supervise(const struct zl_supervision *s)
{
    struct keeper k = {.s = s, .own = getpid()};
    int status = 1;
    const ssize_t n = readlink("/proc/self/exe", k.program, sizeof k.program - 1);
    zl_log_quiet(s->quiet);
    if (n <= 0) {
        zl_log_error(&(struct zl_error){.code = ZL_ESYSTEM, .text = "the program does not find itself under /proc"});
        return 1;
    }
    sigemptyset(&k.handled);
    sigaddset(&k.handled, SIGINT);
    sigaddset(&k.handled, SIGTERM);
    sigaddset(&k.handled, SIGHUP);
    sigaddset(&k.handled, SIGCHLD);
    sigprocmask(SIG_BLOCK, &k.handled, &k.before);
    k.folder_mark = mark_of(&k);
    k.generation = newest(&k);
    for (;; k.starts++) {
        bool hung;
        const pid_t pid = fork();
        if (pid == 0)
            become_run(&k);
        if (pid < 0) {
            struct zl_error err = {0};
            zl_fail_errno(&err, ZL_ESYSTEM, "the run cannot be started");
            zl_log_error(&err);
            break;
        }
        const int ended = attend(&k, pid, &hung);
        if (!goes_on(&k, ended, hung, &status))
            break;
        pause_before(&k);
        if (k.stopping) {
            status = 1;
            break;
        }
    }
    sigprocmask(SIG_SETMASK, &k.before, NULL);
    return status;
}

bool zl_supervised(struct zl_supervised *s)
{
    const char *value = getenv(VARIABLE);
    int goes = 0, at = 0;
    *s = (struct zl_supervised){0};
    const bool known = value && sscanf(value, "%ld %" SCNu64 " %d %n", &s->parent, &s->starts, &goes, &at) == 3 && s->parent == (long)getppid();
    if (known) {
        s->goes_on = goes != 0;
        snprintf(s->died, sizeof s->died, "%s", value + at);
    }
    unsetenv(VARIABLE);
    return known;
}
