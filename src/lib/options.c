/* The caller's pairs, read by the program's tables, so that names, ranges and defaults have one place. */
#include "lib/lib.h"

#include <stdlib.h>
#include <string.h>

/* Options of the tables that mean nothing here. */
static const struct {
    const char *name, *because;
} foreign[] = {
    {"quiet", "the library prints nothing"},
    {"json", "the library prints nothing"},
    {"supervise", "the library starts no processes"},
    {"hang-seconds", "the library starts no processes"},
    {"adapter", "a model's adapter is given to zerolock_open()"},
};

static int check(const char *name, struct zl_error *err)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (strcmp(name, foreign[i].name) == 0)
            return zl_fail(err, ZL_EUSAGE, "option %s is the program's: %s", name, foreign[i].because);
    return 0;
}

int zl_lib_options(const struct zl_command *c, const char *const *operands, size_t n_operands, const struct zerolock_option *pairs,
                   void *options, struct zl_memory *m, struct zl_error *err)
{
    size_t n = 0;
    int rc = 0;
    for (; rc == 0 && pairs && pairs[n].name; n++)
        rc = check(pairs[n].name, err);
    struct zl_pair *copy = rc ? NULL : malloc((n + 1) * sizeof *copy);
    if (!rc && !copy)
        rc = zl_fail(err, ZL_EMEMORY, "no memory for the options");
    for (size_t i = 0; rc == 0 && i < n; i++)
        copy[i] = (struct zl_pair){pairs[i].name, pairs[i].value};
    if (rc == 0)
        rc = zl_options_pairs(c, operands, n_operands, copy, n, options, m, err);
    free(copy);
    return rc;
}
