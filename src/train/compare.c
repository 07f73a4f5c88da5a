/* Running the contenders: see compare.h. The child is this very program, started anew through /proc/self/exe. */
#include "config.h"

#include "train/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

#define LOOK_NS   50000000 /* how often the parent asks whether it shall stop */
#define LOG_BYTES (1 << 20)

extern char **environ;

/* "2-zerolock-readout=ridge": what a file may be called anywhere. */
static char *name_of(size_t i, const char *name)
{
    char *text = NULL;
    if (asprintf(&text, "%zu-%s", i + 1, name) < 0)
        return NULL;
    for (char *s = text; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || strchr("-_=.+", *s)))
            *s = '-';
    return text;
}

struct child {
    char *dir, *trace, *log, *output_option, *trace_option;
    const char **argv;
};

static void free_child(struct child *c)
{
    free(c->dir);
    free(c->trace);
    free(c->log);
    free(c->output_option);
    free(c->trace_option);
    free(c->argv);
}

static int make_child(struct child *c, const struct zl_compare_request *r, size_t i, struct zl_error *err)
{
    char *name = name_of(i, r->contender[i].name);
    size_t n = 0;
    *c = (struct child){0};
    while (r->contender[i].argv[n])
        n++;
    c->argv = calloc(n + 6, sizeof *c->argv);
    c->dir = name ? zl_path_join(r->dir, name) : NULL;
    free(name);
    if (!c->argv || !c->dir || asprintf(&c->trace, "%s/trace.json", c->dir) < 0 || asprintf(&c->log, "%s/log", c->dir) < 0 ||
        asprintf(&c->output_option, "--output=%s", c->dir) < 0 || asprintf(&c->trace_option, "--trace=%s", c->trace) < 0)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    size_t at = 0;
    c->argv[at++] = "zerolock";
    c->argv[at++] = "train";
    c->argv[at++] = c->output_option;
    c->argv[at++] = c->trace_option;
    c->argv[at++] = "--force";
    memcpy(c->argv + at, r->contender[i].argv, n * sizeof *c->argv);
    return zl_folder_make(c->dir, err);
}

/* The child's process, its output in the log. It has a process group of its own: what a terminal sends comes to the parent, which passes
 * one signal on; two would end the child at once. */
static int start(const struct child *c, pid_t *pid, struct zl_error *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    if (posix_spawn_file_actions_init(&files))
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    if (posix_spawnattr_init(&how)) {
        posix_spawn_file_actions_destroy(&files);
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    }
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&how, 0);
    int e = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!e)
        e = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, c->log, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666);
    if (!e)
        e = posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    if (!e)
        e = posix_spawn(pid, "/proc/self/exe", &files, &how, (char *const *)(uintptr_t)c->argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    errno = e;
    return e ? zl_fail_errno(err, ZL_ESYSTEM, "a run cannot be started") : 0;
}

/* Until it ends; asked to stop meanwhile, it is told so, and finishes what is on its way. */
static int await(pid_t pid, const struct zl_hooks *hooks, const char **stopped)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    int status = 0;
    for (;;) {
        const pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR))
            return status;
        if (!*stopped && (*stopped = zl_hooks_stop(hooks)))
            kill(pid, SIGTERM);
        nanosleep(&look, NULL);
    }
}

static char *problem(const char *text)
{
    char *s = strdup(text);
    return s ? s : strdup("");
}

/* The last sentence of the log, which is the failure's. */
static char *last_line(const char *log, int status)
{
    char text[128];
    const char *line = log ? log : "", *next;
    for (const char *s = line; (next = strchr(s, '\n')) && next[1]; s = next + 1)
        if (strncmp(next + 1, "try '", 5) != 0)
            line = next + 1;
    if (WIFSIGNALED(status)) {
        snprintf(text, sizeof text, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        return problem(text);
    }
    if (!*line)
        snprintf(text, sizeof text, "failed with status %d and said nothing", WEXITSTATUS(status));
    char *s = problem(*line ? (strncmp(line, "zerolock: ", 10) == 0 ? line + 10 : line) : text);
    if (s)
        s[strcspn(s, "\n")] = 0;
    return s;
}

static void say(const struct zl_contender *who, const struct zl_compared *c)
{
    if (c->problem)
        zl_warn("%s: %s", who->name, c->problem);
    else
        zl_note("%s: %llu steps, %.0f tokens/s, %.0f %% idle, peak memory %.0f MiB", who->name, (unsigned long long)c->steps,
                c->tokens_per_second, 100 * c->idle, (double)c->peak_pss_bytes / 1048576);
}

static void run_one(const struct zl_compare_request *r, size_t i, struct zl_compared *out, const char **stopped)
{
    struct zl_error err = {0};
    struct child child;
    pid_t pid;
    int rc = make_child(&child, r, i, &err);
    if (!rc)
        rc = start(&child, &pid, &err);
    int status = rc ? 0 : await(pid, r->hooks, stopped);
    if (!rc)
        zl_file_read(child.log, LOG_BYTES, &out->log, NULL, NULL);
    out->dir = child.dir;
    child.dir = NULL;
    if (!rc && status)
        out->problem = last_line(out->log, status);
    else if (!rc)
        rc = zl_compare_read(out, child.trace, &err);
    if (rc)
        out->problem = problem(err.text);
    free_child(&child);
}

int zl_compare_run(const struct zl_compare_request *r, struct zl_compared *out, struct zl_error *err)
{
    const char *stopped = NULL;
    int rc = zl_folder_make(r->dir, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < r->n; i++) {
        if (!stopped)
            stopped = zl_hooks_stop(r->hooks);
        if (stopped) {
            out[i].problem = problem("not run");
            continue;
        }
        zl_note("%zu of %zu: %s", i + 1, r->n, r->contender[i].name);
        run_one(r, i, &out[i], &stopped);
        say(&r->contender[i], &out[i]);
    }
    return stopped ? zl_fail(err, ZL_ESTOPPED, "stopped by %s", stopped) : 0;
}

void zl_compare_free(struct zl_compared *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(out[i].problem);
        free(out[i].dir);
        free(out[i].log);
        free(out[i].event);
        free(out[i].eval);
        json_decref(out[i].about);
        out[i] = (struct zl_compared){0};
    }
}
