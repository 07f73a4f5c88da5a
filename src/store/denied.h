/*
 * Why io_uring is not to be had, for those who do without it: an errno alone would leave the user to guess between kernel, system setting,
 * filter and limit.
 */
#ifndef ZL_STORE_DENIED_H
#define ZL_STORE_DENIED_H

#include <stdint.h>

#define ZL_DENIED_TEXT 160

/* rc: the negative errno of `call`; locked_bytes: of memory that the caller wanted registered, 0 for none. Part of a sentence. */
void zl_denied_reason(int rc, const char *call, uint64_t locked_bytes, char reason[ZL_DENIED_TEXT]);

#endif
