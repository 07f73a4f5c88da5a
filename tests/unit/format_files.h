/*
 * Files made in a test: a growing buffer of bytes, a temporary folder that the test's teardown
 * removes, and the checks that every "is rejected" test makes.
 */
#ifndef ZL_FORMAT_FILES_H
#define ZL_FORMAT_FILES_H

#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tests/unit/test.h"

struct bytes {
    unsigned char *p;
    size_t n, capacity;
};

static inline void put(struct bytes *b, const void *p, size_t n)
{
    if (b->n + n > b->capacity) {
        b->capacity = (b->n + n) * 2;
        b->p = realloc(b->p, b->capacity);
        assert_non_null(b->p);
    }
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void put_text(struct bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

static inline void put_u32(struct bytes *b, uint32_t v)
{
    put(b, &v, sizeof v);
}

static inline void put_u64(struct bytes *b, uint64_t v)
{
    put(b, &v, sizeof v);
}

static inline void put_zeros(struct bytes *b, size_t n)
{
    static const unsigned char zeros[4096];
    for (; n > sizeof zeros; n -= sizeof zeros)
        put(b, zeros, sizeof zeros);
    put(b, zeros, n);
}

static inline void bytes_free(struct bytes *b)
{
    free(b->p);
    *b = (struct bytes){0};
}

static char files_dir[64];

static inline int files_setup(void **state)
{
    (void)state;
    strcpy(files_dir, "/tmp/zl-test-XXXXXX");
    return mkdtemp(files_dir) ? 0 : -1;
}

static inline int files_remove_one(const char *path, const struct stat *st, int kind,
                                   struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static inline int files_teardown(void **state)
{
    (void)state;
    return nftw(files_dir, files_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Path of a file in the test's folder, in a static buffer. */
static inline const char *files_path(const char *name)
{
    static char path[8][512];
    static unsigned turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", files_dir, name);
    return p;
}

static inline const char *files_write(const char *name, const void *p, size_t n)
{
    const char *path = files_path(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *files_write_text(const char *name, const char *text)
{
    return files_write(name, text, strlen(text));
}

/* The call failed on its input and says all of these words in one sentence. */
static inline void assert_rejected(int rc, const struct zl_error *err, const char *const *words,
                                   size_t n)
{
    if (rc != ZL_EINPUT || err->code != ZL_EINPUT)
        fail_msg("expected ZL_EINPUT, got %d with error %d: %s", rc, err->code, err->text);
    assert_null(strchr(err->text, '\n'));
    for (size_t i = 0; i < n; i++)
        if (!strstr(err->text, words[i]))
            fail_msg("the error \"%s\" does not say \"%s\"", err->text, words[i]);
}
#define ASSERT_REJECTED(rc, err, ...)                                                              \
    assert_rejected(rc, err, (const char *const[]){__VA_ARGS__},                                   \
                    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static inline void assert_accepted(int rc, const struct zl_error *err)
{
    if (rc)
        fail_msg("expected success, got %d: %s", rc, err->text);
}

#define FILES_TEST(f) cmocka_unit_test_setup_teardown(f, files_setup, files_teardown)

#endif
