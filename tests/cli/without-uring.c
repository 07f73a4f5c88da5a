/*
 * without-uring [-e ENOSYS|EPERM|ENOMEM] PROGRAM ARGUMENT...: run a program that may not use io_uring, as in a container: a seccomp filter
 * answers its system calls with that error, or EPERM. Status 77 where the kernel takes no filter. For scripts.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    unsigned error = EPERM;
    if (argc > 3 && strcmp(argv[1], "-e") == 0) {
        error = strcmp(argv[2], "ENOSYS") == 0 ? ENOSYS : strcmp(argv[2], "ENOMEM") == 0 ? ENOMEM : EPERM;
        argc -= 2, argv += 2;
    }
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
    };
    const struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (argc < 2)
        return 2;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 77;
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
