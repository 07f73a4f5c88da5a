/*
 * Errors: a function that can fail returns 0 or a negative enum zl_code and fills one struct zl_error where the
 * facts are known: the file, the place in it, what was found and what was expected, in one sentence.
 */
#ifndef ZL_BASE_ERROR_H
#define ZL_BASE_ERROR_H

enum zl_code {
    ZL_OK = 0,
    ZL_EUSAGE = -1,  /* the caller's options do not fit: exit status 2 */
    ZL_EINPUT = -2,  /* a file or a row is not what it should be */
    ZL_ESYSTEM = -3, /* the system refused: open, mmap, write, shm */
    ZL_EMEMORY = -4, /* it does not fit in memory or in the limit */
    ZL_ESTOPPED = -5 /* stopped by a signal or by another part's failure */
};

struct zl_error {
    int code;
    char text[1024]; /* one sentence, no newline, UTF-8 */
};

/* Fill *e (may be NULL) and return code. The first failure wins: a filled error is not overwritten. */
int zl_fail(struct zl_error *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As zl_fail, with ": " and the text of the current errno behind the sentence. */
int zl_fail_errno(struct zl_error *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "prefix: " before the text of a filled error; returns its code. */
int zl_fail_prefix(struct zl_error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
