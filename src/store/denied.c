/* Why io_uring is not to be had: see denied.h. */
#include "config.h"

#include "store/denied.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"

/* kernel.io_uring_disabled: 1 or 2; 0: on, or a kernel without the switch. */
static int switched_off(void)
{
    char *text = NULL;
    int value = 0;
    if (zl_file_read("/proc/sys/kernel/io_uring_disabled", 64, &text, NULL, NULL) == 0 && (text[0] == '1' || text[0] == '2'))
        value = text[0] - '0';
    free(text);
    return value;
}

void zl_denied_reason(int rc, const char *call, uint64_t locked_bytes, char reason[ZL_DENIED_TEXT])
{
    struct rlimit limit = {0};
    const int off = rc == -EPERM ? switched_off() : 0;
    if (rc == -ENOSYS)
        snprintf(reason, ZL_DENIED_TEXT, "this kernel does not have it, or a filter (seccomp) hides it");
    else if (off)
        snprintf(reason, ZL_DENIED_TEXT, "it is switched off by the system (kernel.io_uring_disabled = %d)", off);
    else if (rc == -EPERM || rc == -EACCES)
        snprintf(reason, ZL_DENIED_TEXT, "a security filter (seccomp or LSM) denies it: %s", strerror(-rc));
    else if (rc == -ENOMEM && locked_bytes && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < RLIM_INFINITY)
        snprintf(reason, ZL_DENIED_TEXT, "it must lock %llu KiB of memory and the limit is %llu KiB (ulimit -l)",
                 (unsigned long long)locked_bytes / 1024, (unsigned long long)limit.rlim_cur / 1024);
    else
        snprintf(reason, ZL_DENIED_TEXT, "%s: %s", call, strerror(-rc));
}
