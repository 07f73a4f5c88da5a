/*
 * What the files of the public library share. Each function of zerolock.h is a thin shell: options by the program's tables, the work by
 * src/train, the error copied out. No state but what zerolock.h documents.
 */
#ifndef ZL_LIB_LIB_H
#define ZL_LIB_LIB_H

#include "cmd/options.h"
#include "train/loaded.h"
#include "zerolock.h"

struct zerolock_model {
    struct zl_loaded loaded;
};

/* Copy an error out, or empty the caller's (rc >= 0); returns rc. */
int zl_lib_finish(int rc, const struct zl_error *from, struct zerolock_error *to);

/* Fill a command's options from operands and pairs. Options that belong to the program or to zerolock_open() are refused. */
int zl_lib_options(const struct zl_command *c, const char *const *operands, size_t n_operands, const struct zerolock_option *pairs,
                   void *options, struct zl_memory *m, struct zl_error *err);

#endif
