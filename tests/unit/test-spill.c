/* The spill: what is put aside comes back or is refused, in place, in the background, and whatever the disk does. */
#include "tests/unit/test.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "store/spill.h"

static char dir[64];

/* Bytes of record i in round `round`, by a recipe. */
static unsigned char byte_of(uint64_t round, uint64_t i, uint64_t at)
{
    return (unsigned char)((round * 131 + i * 31 + at * 7 + at / 251) & 255);
}

static void fill(unsigned char *p, uint64_t round, uint64_t i, uint64_t n)
{
    for (uint64_t at = 0; at < n; at++)
        p[at] = byte_of(round, i, at);
}

static void check(const unsigned char *p, uint64_t round, uint64_t i, uint64_t n)
{
    assert_non_null(p);
    for (uint64_t at = 0; at < n; at++)
        if (p[at] != byte_of(round, i, at))
            fail_msg("round %d, record %d: byte %d differs", (int)round, (int)i, (int)at);
}

static struct zl_spill *open_spill(uint64_t bytes, uint64_t largest, uint64_t records, const struct zl_transfer_calls *calls)
{
    const struct zl_spill_request r = {.what = "numbers", .dir = dir, .bytes = bytes, .largest = largest, .records = records, .calls = calls};
    struct zl_error err = {0};
    struct zl_spill *s;
    if (zl_spill_open(&s, &r, &err))
        fail_msg("%s", err.text);
    return s;
}

/* As a sweep does it: read record i while i + 1 is read ahead and i - 1 is written, over and over in the same file. */
static void records_that_are_replaced_in_place_come_back(void **state)
{
    (void)state;
    static const uint64_t windows[][5] = {{100000, 1, 4096, 4097, 65536}, {7, 0, 0, 0, 0}, {50000, 50000, 3, 0, 0}};
    static const uint64_t lengths[] = {5, 1, 3};
    struct zl_spill *s = open_spill(300000, 100000, 5, NULL);
    struct zl_error err = {0};
    for (int w = 0; w < 3; w++) {
        const uint64_t n = lengths[w], *bytes = windows[w];
        zl_spill_layout(s, bytes, n);
        for (uint64_t round = 0; round < 6; round++) {
            for (uint64_t i = 0; i < n; i++) {
                if (round) {
                    check(zl_spill_get(s, i, &err), round - 1, i, bytes[i]);
                    if (i + 1 < n)
                        zl_spill_fetch(s, i + 1);
                }
                unsigned char *p = zl_spill_make(s, &err);
                assert_non_null(p);
                fill(p, round, i, bytes[i]);
                assert_int_equal(zl_spill_put(s, i, &err), 0);
            }
            if (round % 2)
                zl_spill_fetch(s, 0); /* while its write may be under way */
        }
        for (uint64_t i = n; i-- > 0;)
            check(zl_spill_get(s, i, &err), 5, i, bytes[i]);
    }
    const struct zl_spill_totals t = zl_spill_totals(s);
    print_message("  %llu bytes written, %llu read\n", (unsigned long long)t.written_bytes, (unsigned long long)t.read_bytes);
    zl_spill_close(s);
    assert_int_equal(rmdir(dir), 0); /* nothing lies in the folder: the file has no name */
    assert_int_equal(mkdir(dir, 0700), 0);
}

static void a_record_moves_between_the_file_and_the_callers_memory(void **state)
{
    (void)state;
    const struct zl_spill_request r = {.what = "numbers", .dir = dir, .bytes = 40960, .largest = 20000, .records = 2, .unbuffered = true};
    const uint64_t bytes[2] = {20000, 5000};
    struct zl_error err = {0};
    struct zl_spill *s;
    unsigned char *memory = aligned_alloc(4096, 20480);
    assert_int_equal(zl_spill_open(&s, &r, &err), 0);
    zl_spill_layout(s, bytes, 2);
    for (uint64_t i = 0; i < 2; i++) {
        fill(memory, 9, i, bytes[i]);
        assert_int_equal(zl_spill_save(s, i, memory, &err), 0);
    }
    for (uint64_t i = 0; i < 2; i++) {
        memset(memory, 0, 20480);
        assert_int_equal(zl_spill_load(s, i, memory, &err), 0);
        check(memory, 9, i, bytes[i]);
    }
    zl_spill_close(s);
    free(memory);
}

/* Calls that fail as they are told. */
static struct {
    int short_reads, short_writes, interrupts; /* every second call */
    int write_errno, write_at;                 /* the write number write_at fails */
    int read_errno, read_at;
    int flip_at;                               /* the read number flip_at comes back with one bit changed */
    bool ends;                                 /* reads find the end of the file */
    int reserve_errno;
    int writes, reads;
} faults;

static ssize_t bad_read(int fd, void *buffer, size_t bytes, off_t offset)
{
    const int n = ++faults.reads;
    if (faults.interrupts && n % 2) {
        errno = EINTR;
        return -1;
    }
    if (faults.read_at && n == faults.read_at) {
        errno = faults.read_errno;
        return -1;
    }
    if (faults.ends)
        return 0;
    ssize_t r = pread(fd, buffer, faults.short_reads && bytes > 4096 ? 4096 : bytes, offset);
    if (n == faults.flip_at)
        ((unsigned char *)buffer)[1234] ^= 16;
    return r;
}

static ssize_t bad_write(int fd, const void *buffer, size_t bytes, off_t offset)
{
    const int n = ++faults.writes;
    if (faults.interrupts && n % 2) {
        errno = EINTR;
        return -1;
    }
    if (faults.write_at && n == faults.write_at) {
        errno = faults.write_errno;
        return -1;
    }
    return pwrite(fd, buffer, faults.short_writes && bytes > 4096 ? 4096 : bytes, offset);
}

static int bad_reserve(int fd, off_t offset, off_t bytes)
{
    (void)fd;
    (void)offset;
    (void)bytes;
    return faults.reserve_errno;
}

static const struct zl_transfer_calls bad = {bad_read, bad_write, bad_reserve};

/* Write three records and read them; the first sentence of what went wrong. */
static const char *run_with_faults(struct zl_error *err)
{
    const uint64_t bytes[3] = {9000, 9000, 9000};
    struct zl_spill *s = open_spill(36864, 9000, 3, &bad);
    *err = (struct zl_error){0};
    zl_spill_layout(s, bytes, 3);
    bool ok = true;
    for (uint64_t i = 0; ok && i < 3; i++) {
        unsigned char *p = zl_spill_make(s, err);
        if ((ok = p != NULL)) {
            fill(p, 1, i, bytes[i]);
            ok = zl_spill_put(s, i, err) == 0;
        }
    }
    ok = ok && zl_spill_flush(s, err) == 0;
    for (uint64_t i = 0; ok && i < 3; i++) {
        const unsigned char *p = zl_spill_get(s, i, err);
        if ((ok = p != NULL))
            check(p, 1, i, bytes[i]);
    }
    assert_int_equal(ok, err->code == 0);
    zl_spill_close(s);
    return err->text;
}

#define WITH(...) (memset(&faults, 0, sizeof faults), faults = (__typeof__(faults)){.reserve_errno = EOPNOTSUPP, __VA_ARGS__}, run_with_faults(&err))

static void a_disk_that_stutters_changes_nothing(void **state)
{
    (void)state;
    struct zl_error err;
    assert_string_equal(WITH(.short_reads = 1, .short_writes = 1), "");
    assert_string_equal(WITH(.interrupts = 1), "");
    assert_string_equal(WITH(.interrupts = 1, .short_reads = 1, .short_writes = 1), "");
}

static void failures_of_the_disk_are_named(void **state)
{
    (void)state;
    struct zl_error err;
    static const char *wanted[] = {"record 1 of the spilled numbers, 9000 bytes at 12288, cannot be written: No space left on device",
                                   "record 2 of the spilled numbers, 9000 bytes at 24576, cannot be written: Input/output error",
                                   "record 0 of the spilled numbers, 9000 bytes at 0, cannot be read: Input/output error",
                                   "record 0 of the spilled numbers, 9000 bytes at 0, cannot be read: the file ends before",
                                   "record 1 of the spilled numbers, 9000 bytes at 12288, is not what was written there"};
    for (int i = 0; i < 5; i++) {
        const char *found = i == 0   ? WITH(.write_errno = ENOSPC, .write_at = 2)
                            : i == 1 ? WITH(.write_errno = EIO, .write_at = 3)
                            : i == 2 ? WITH(.read_errno = EIO, .read_at = 1)
                            : i == 3 ? WITH(.ends = true)
                                     : WITH(.flip_at = 2);
        print_message("  %s\n", found);
        assert_non_null(strstr(found, wanted[i]));
        assert_ptr_equal(strstr(found, dir), found);
    }
}

static void what_does_not_fit_on_the_disk_is_refused_before_the_work(void **state)
{
    (void)state;
    struct zl_spill_request r = {.what = "numbers", .dir = dir, .bytes = UINT64_C(1) << 60, .largest = 4096, .records = 1};
    struct zl_error err = {0};
    struct zl_spill *s;
    const uint64_t start = zl_clock_ns();
    assert_int_equal(zl_spill_open(&s, &r, &err), ZL_ESYSTEM);
    print_message("  %s\n", err.text);
    assert_non_null(strstr(err.text, "MiB are free on the disk, but the spilled numbers take 1099511627776 MiB"));
    assert_null(s);
    assert_true(zl_clock_ns() - start < 2000000000u);

    memset(&faults, 0, sizeof faults);
    faults.reserve_errno = ENOSPC;
    r.bytes = 4096;
    r.calls = &bad;
    err = (struct zl_error){0};
    assert_int_equal(zl_spill_open(&s, &r, &err), ZL_ESYSTEM);
    assert_non_null(strstr(err.text, "MiB are free on the disk"));
    r.dir = "/nowhere/at/all";
    err = (struct zl_error){0};
    assert_int_equal(zl_spill_open(&s, &r, &err), ZL_ESYSTEM);
    assert_non_null(strstr(err.text, "/nowhere/at/all: no file for spilled numbers can be made: No such file"));
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "test-spill-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_that_are_replaced_in_place_come_back),
        cmocka_unit_test(a_record_moves_between_the_file_and_the_callers_memory),
        cmocka_unit_test(a_disk_that_stutters_changes_nothing),
        cmocka_unit_test(failures_of_the_disk_are_named),
        cmocka_unit_test(what_does_not_fit_on_the_disk_is_refused_before_the_work),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
