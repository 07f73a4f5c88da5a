/*
 * Teams of OpenMP threads under foreign settings, what an idle team costs, and stop signals. The program runs itself again as
 * "test-team team" to look at a process from its very start.
 */
#define _GNU_SOURCE
#include "tests/unit/test.h"

#include <errno.h>
#include <linux/futex.h>
#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "pipe/cores.h"
#include "pipe/signal.h"

ZL_CORES_CLEAN_ENVIRONMENT_FIRST;

#ifdef __SANITIZE_THREAD__
#define NO_OPENMP 1 /* libgomp's own synchronisation is invisible to the thread sanitizer */
#else
#define NO_OPENMP 0
#endif

static struct zl_cores cores;
static struct zl_core_group group;

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* "test-team team": one line about the plan and what a region really got. */
static int child_team(void)
{
    char note[256];
    int right = 0, size = 0;
    zl_cores_foreign_settings(note);
    if (zl_cores_detect(&cores, NULL) != 0 || zl_cores_divide(&cores, 0, 1, NULL, &group, NULL) != 0)
        return 1;
    bool pinned = zl_cores_pin_team(&group);
#pragma omp parallel reduction(+ : right)
    {
        cpu_set_t set;
        int me = omp_get_thread_num();
        right = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 &&
                CPU_ISSET(group.cpu[me], &set) && sched_getcpu() == group.cpu[me];
#pragma omp master
        size = omp_get_num_threads();
    }
    printf("plan %d region %d pinned %d right %d foreign %d note \"%s\"\n", group.n, size, pinned,
           right, getenv("OMP_NUM_THREADS") || getenv("OMP_PROC_BIND") || getenv("BLIS_NUM_THREADS"),
           note);
    return 0;
}

/* Run ourselves with these variables before the others; the line it prints is in `line`. Argument in argv[0] too: kept by a new start. */
static void run_team(const char *const *variables, char line[512])
{
    int ends[2];
    fflush(NULL);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int i = 0; variables[i]; i++)
            putenv((char *)variables[i]);
        dup2(ends[1], 1);
        close(ends[0]);
        execl("/proc/self/exe", "test-team", "team", (char *)NULL);
        _exit(99);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while (n < 511 && (got = read(ends[0], line + n, 511 - n)) > 0)
        n += (size_t)got;
    line[n] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    print_message("%s", line);
}

static void foreign_settings_do_not_change_the_plan(void **state)
{
    (void)state;
    if (NO_OPENMP)
        skip();
    char line[512], want[128];
    assert_int_equal(zl_cores_detect(&cores, NULL), 0);
    snprintf(want, sizeof want, "plan %d region %d pinned 1 right %d foreign 0 note \"", cores.n, cores.n, cores.n);
    run_team((const char *const[]){NULL}, line);
    assert_ptr_equal(strstr(line, want), line);
    assert_non_null(strstr(line, "note \"\""));
    static const char *const each[] = {"OMP_NUM_THREADS=64", "OMP_PROC_BIND=true",    "BLIS_NUM_THREADS=8",
                                       "OMP_THREAD_LIMIT=1", "OMP_WAIT_POLICY=active", "OMP_PLACES={0}",
                                       "GOMP_CPU_AFFINITY=0", "OMP_DYNAMIC=true",      "GOMP_SPINCOUNT=infinite"};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        run_team((const char *const[]){each[i], NULL}, line);
        assert_ptr_equal(strstr(line, want), line);
        char name[64];
        snprintf(name, sizeof name, "ignoring %.*s\"", (int)strcspn(each[i], "="), each[i]);
        assert_non_null(strstr(line, name));
    }
    run_team((const char *const[]){each[0], each[1], each[2], each[3], each[4], each[5], NULL}, line);
    assert_ptr_equal(strstr(line, want), line);
    for (int i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(each[i], "="), each[i]);
        assert_non_null(strstr(line, name));
    }
}

static void the_mask_survives_a_foreign_binding(void **state)
{
    (void)state;
    if (NO_OPENMP)
        skip();
    char line[512];
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int cpu = CPU_SETSIZE - 1;
    while (!CPU_ISSET(cpu, &before))
        cpu--;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    run_team((const char *const[]){"OMP_PROC_BIND=true", "OMP_NUM_THREADS=64", NULL}, line);
    sched_setaffinity(0, sizeof before, &before);
    assert_ptr_equal(strstr(line, "plan 1 region 1 pinned 1 right 1"), line);
}

/* A list of names longer than its room is cut at a name, and a marker of another process is nobody's. */
static void odd_environments_are_survived(void **state)
{
    (void)state;
    if (NO_OPENMP)
        skip();
    char line[512];
    static char many[40][40];
    const char *variables[41] = {NULL};
    for (int i = 0; i < 40; i++) {
        snprintf(many[i], sizeof many[i], "OMP_FOREIGN_NUMBER_%d=1", i);
        variables[i] = many[i];
    }
    run_team(variables, line);
    assert_non_null(strstr(line, "ignoring OMP_FOREIGN"));
    assert_non_null(strstr(line, "\"\n"));
    run_team((const char *const[]){"ZEROLOCK_OVERRIDDEN=1:OMP_OLD", NULL}, line);
    assert_non_null(strstr(line, "note \"\""));
}

static void an_idle_team_uses_little_cpu(void **state)
{
    (void)state;
    if (NO_OPENMP)
        skip();
    assert_int_equal(zl_cores_detect(&cores, NULL), 0);
    assert_int_equal(zl_cores_divide(&cores, cores.allowed < 2 ? 1 : 2, 1, NULL, &group, NULL), 0);
    zl_cores_pin_team(&group);
#pragma omp parallel
    {
        __asm__ volatile("");
    }
    uint32_t word = 0;
    struct timespec limit = {.tv_nsec = 300000000};
    double cpu = cpu_ms();
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0);
    cpu = cpu_ms() - cpu;
    print_message("a team of %d used %.2f ms of processor time in 300 ms without work (bound 20)\n", group.n, cpu);
    assert_true(cpu < 20);
}

static int wait_for(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void the_first_signal_is_noted_and_the_second_ends(void **state)
{
    (void)state;
    static const int stop[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (int j = 0; j < 3; j++)
                signal(stop[j], SIG_DFL); /* whoever started the test may ignore them: nohup, a shell's background job */
            zl_signals_install();
            if (zl_signals_pending() != 0)
                _exit(1);
            raise(stop[i]);
            if (zl_signals_pending() != stop[i])
                _exit(2);
            raise(stop[(i + 1) % 3]);
            _exit(3);
        }
        int status = wait_for(child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 128 + stop[(i + 1) % 3]);
    }
}

static void a_closed_pipe_is_an_error_and_nohup_is_obeyed(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int ends[2];
        signal(SIGHUP, SIG_IGN);
        zl_signals_install();
        if (pipe(ends) != 0)
            _exit(1);
        close(ends[0]);
        if (write(ends[1], "x", 1) != -1 || errno != EPIPE)
            _exit(2);
        raise(SIGHUP);
        raise(SIGHUP);
        _exit(zl_signals_pending() ? 3 : 0);
    }
    int status = wait_for(child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "team") == 0)
        return child_team();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_settings_do_not_change_the_plan),
        cmocka_unit_test(the_mask_survives_a_foreign_binding),
        cmocka_unit_test(odd_environments_are_survived),
        cmocka_unit_test(the_first_signal_is_noted_and_the_second_ends),
        cmocka_unit_test(a_closed_pipe_is_an_error_and_nohup_is_obeyed),
        cmocka_unit_test(an_idle_team_uses_little_cpu),
    };
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
