/*
 * The program: finds the subcommand and hands argv over. What a command does is its own file's business. Results go to
 * stdout, talk to stderr, and the status is 0 (done), 1 (failed) or 2 (asked for something that cannot be meant).
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/commands.h"
#include "pipe/environment.h"

ZL_CORES_CLEAN_ENVIRONMENT_FIRST;

static const struct {
    const struct zl_command *command;
    int (*run)(int argc, char **argv);
} commands[] = {
    {&zl_train_command, zl_cmd_train},
    {&zl_plan_command, zl_cmd_plan},
    {&zl_eval_command, zl_cmd_eval},
    {&zl_generate_command, zl_cmd_generate},
    {&zl_inspect_command, zl_cmd_inspect},
    {&zl_checkpoint_command, zl_cmd_checkpoint},
    {&zl_bench_command, zl_cmd_bench},
    {&zl_compare_command, zl_cmd_compare},
    {&zl_simulate_command, zl_cmd_simulate},
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *f)
{
    fputs("Usage: zerolock COMMAND [ARGUMENT]...\n"
          "\n"
          "Fine-tune language models on the CPU cores of one box.\n"
          "\n"
          "Commands:\n",
          f);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  %-10s  %s\n", commands[i].command->name, commands[i].command->summary);
    fputs("  help        show the help of a command\n"
          "\n"
          "Options:\n"
          "  -h, --help     show this help and leave\n"
          "  -V, --version  show the version and leave\n"
          "\n"
          "'zerolock COMMAND --help' lists a command's options; zerolock(1) explains.\n",
          f);
}

static void print_version(void)
{
    printf("zerolock %s\n"
           "MIT License. There is no warranty.\n",
           PACKAGE_VERSION);
}

/* Index of a command, or N_COMMANDS. */
static size_t find(const char *name)
{
    size_t i = 0;
    while (i < N_COMMANDS && strcmp(commands[i].command->name, name) != 0)
        i++;
    return i;
}

static int unknown(const char *name)
{
    const char *near = NULL;
    for (size_t i = 0; i < N_COMMANDS && !near; i++)
        if (zl_near_miss(name, strlen(name), commands[i].command->name))
            near = commands[i].command->name;
    struct zl_error err = {0};
    zl_fail(&err, ZL_EUSAGE, "unknown %s '%s'%s%s%s", name[0] == '-' ? "option" : "command", name, near ? " (did you mean '" : "",
            near ? near : "", near ? "'?)" : "");
    zl_log_error(&err);
    fputs("try 'zerolock --help'\n", stderr);
    return 2;
}

static int help(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    size_t i = find(argv[1]);
    if (i == N_COMMANDS)
        return unknown(argv[1]);
    zl_command_help(commands[i].command, zl_help_columns(), stdout);
    return 0;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        struct zl_error err = {0};
        zl_fail(&err, ZL_EUSAGE, "a command is missing");
        zl_log_error(&err);
        print_help(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help(0, NULL);
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        print_version();
        return 0;
    }
    if (strcmp(name, "help") == 0)
        return help(argc - 1, argv + 1);
    size_t i = find(name);
    return i < N_COMMANDS ? commands[i].run(argc - 1, argv + 1) : unknown(name);
}

/* A descriptor that the caller closed would be given to the next file that we open, and what we say to the user would be written
 * into it: into the adapter, say. Each such number is taken, in the direction in which it is not used, so that using it stays an error. */
static void take_closed_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            _exit(1);
}

int main(int argc, char **argv)
{
    take_closed_descriptors();
    zl_log_to(STDERR_FILENO);
    int status = dispatch(argc, argv);
    /* A result that did not reach a full disk is a failure. */
    bool failed = ferror(stdout) != 0;
    if (fclose(stdout) != 0 || failed) {
        struct zl_error err = {0};
        zl_fail_errno(&err, ZL_ESYSTEM, "cannot write to standard output");
        zl_log_error(&err);
        return status ? status : 1;
    }
    return status;
}
