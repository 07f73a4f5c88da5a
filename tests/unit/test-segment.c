/* The run's shared-memory segment: room, readers, full /dev/shm, dead and living runs. */
#define _GNU_SOURCE
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "pipe/segment.h"

static int exists(const char *name)
{
    int fd = shm_open(name, O_RDONLY, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* A file in /dev/shm as a run of that pid and start time would have left it. */
static void leave(char name[64], pid_t pid, uint64_t start)
{
    snprintf(name, 64, "/zerolock-%ld-%llu", (long)pid, (unsigned long long)start);
    int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void pieces_are_aligned_zero_and_bounded(void **state)
{
    (void)state;
    struct zl_segment s;
    struct zl_error err = {0};
    char note[256];
    assert_int_equal(zl_segment_create(&s, 1000, note, &err), 0);
    assert_string_equal(note, "");
    unsigned char *a = zl_segment_take(&s, 1), *b = zl_segment_take(&s, 128);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal((uintptr_t)a % 128, 0);
    assert_int_equal(b - a, 128);
    for (int i = 0; i < 256; i++)
        assert_int_equal(a[i], 0);
    assert_null(zl_segment_take(&s, 769));
    assert_null(zl_segment_take(&s, UINT64_MAX));
    assert_non_null(zl_segment_take(&s, 768));
    assert_null(zl_segment_take(&s, 1));
    char name[64];
    strcpy(name, s.name);
    assert_true(exists(name));
    zl_segment_destroy(&s);
    assert_false(exists(name));
    zl_segment_destroy(&s);
}

static int never(int fd, off_t offset, off_t bytes)
{
    (void)fd, (void)offset, (void)bytes;
    fail_msg("space was reserved though it cannot be there");
    return ENOSPC;
}

static void an_impossible_size_is_an_error(void **state)
{
    (void)state;
    struct zl_segment s;
    struct zl_error err = {0};
    assert_int_equal(zl_segment_create(&s, UINT64_MAX - 5, NULL, &err), ZL_EMEMORY);
    assert_non_null(strstr(err.text, "too large"));
    err = (struct zl_error){0};
    zl_segment_reserve = never;
    int rc = zl_segment_create(&s, UINT64_C(1) << 62, NULL, &err);
    zl_segment_reserve = posix_fallocate;
    assert_int_equal(rc, ZL_EMEMORY);
    print_message("%s\n", err.text);
    assert_non_null(strstr(err.text, "need 4.0 EiB"));
    assert_non_null(strstr(err.text, "are available"));
}

static void a_reader_sees_what_the_owner_wrote(void **state)
{
    (void)state;
    struct zl_segment s, reader;
    struct zl_error err = {0};
    assert_int_equal(zl_segment_create(&s, 256, NULL, &err), 0);
    zl_segment_take(&s, 128);
    uint64_t *piece = zl_segment_take(&s, 128);
    *piece = 42;
    assert_int_equal(zl_segment_attach(&reader, s.name, &err), 0);
    assert_null(zl_segment_root(&reader, 8));
    zl_segment_set_root(&s, piece);
    const uint64_t *seen = zl_segment_root(&reader, 128);
    assert_non_null(seen);
    assert_int_equal(*seen, 42);
    assert_null(zl_segment_root(&reader, 129));
    assert_null(zl_segment_root(&reader, UINT64_MAX));
    zl_segment_destroy(&reader);
    assert_true(exists(s.name));
    zl_segment_destroy(&s);
}

static void expect_refusal(const char *name, int code, const char *words)
{
    struct zl_segment reader;
    struct zl_error err = {0};
    assert_int_equal(zl_segment_attach(&reader, name, &err), code);
    print_message("%s\n", err.text);
    assert_non_null(strstr(err.text, words));
}

static void a_reader_checks_before_it_believes(void **state)
{
    (void)state;
    struct zl_segment s;
    assert_int_equal(zl_segment_create(&s, 256, NULL, NULL), 0);
    struct zl_segment_header *h = s.base, good = *h;
    expect_refusal("/zerolock-1-0", ZL_ESYSTEM, "cannot open");
    expect_refusal("/other", ZL_EUSAGE, "not the name");
    expect_refusal("/zerolock-1-0/../x", ZL_EUSAGE, "not the name");
    h->version = 2;
    expect_refusal(s.name, ZL_EINPUT, "version 2");
    *h = good;
    h->bytes++;
    expect_refusal(s.name, ZL_EINPUT, "its header says 385");
    *h = good;
    memset(h->magic, 0, sizeof h->magic);
    expect_refusal(s.name, ZL_EINPUT, "begin with");
    assert_int_equal(ftruncate(s.fd, 40), 0);
    expect_refusal(s.name, ZL_EINPUT, "40 bytes");
    zl_segment_destroy(&s);
}

static void two_segments_of_one_process_have_two_names(void **state)
{
    (void)state;
    struct zl_segment a, b;
    assert_int_equal(zl_segment_create(&a, 128, NULL, NULL), 0);
    assert_int_equal(zl_segment_create(&b, 128, NULL, NULL), 0);
    assert_string_not_equal(a.name, b.name);
    assert_true(exists(a.name) && exists(b.name));
    zl_segment_destroy(&a);
    assert_true(exists(b.name));
    zl_segment_destroy(&b);
}

static int no_space(int fd, off_t offset, off_t bytes)
{
    struct stat st;
    /* a memfd has no name, so no link to it */
    return fstat(fd, &st) == 0 && st.st_nlink > 0 ? ENOSPC : posix_fallocate(fd, offset, bytes);
}

static int no_space_at_all(int fd, off_t offset, off_t bytes)
{
    (void)fd, (void)offset, (void)bytes;
    return ENOSPC;
}

static void a_full_dev_shm_means_anonymous_memory_and_a_note(void **state)
{
    (void)state;
    struct zl_segment s;
    struct zl_error err = {0};
    char note[256];
    zl_segment_reserve = no_space;
    int rc = zl_segment_create(&s, 1 << 20, note, &err);
    zl_segment_reserve = posix_fallocate;
    assert_int_equal(rc, 0);
    print_message("%s\n", note);
    assert_non_null(strstr(note, "/dev/shm cannot give 1.0 MiB"));
    assert_string_equal(s.name, "");
    memset(zl_segment_take(&s, 1 << 20), 1, 1 << 20);
    zl_segment_destroy(&s);

    zl_segment_reserve = no_space_at_all;
    rc = zl_segment_create(&s, 1 << 20, note, &err);
    zl_segment_reserve = posix_fallocate;
    assert_int_equal(rc, ZL_EMEMORY);
    print_message("%s\n", err.text);
    assert_int_equal(zl_segment_reclaim(), 0); /* nothing was left behind */
}

/* The real thing, in a mount namespace of the child's own: 64 MiB into a /dev/shm of 1 MiB, then every byte is touched. */
static void one_megabyte_of_dev_shm_does_not_kill(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            _exit(77);
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1M") != 0)
            _exit(77);
        struct zl_segment s;
        char note[256];
        if (zl_segment_create(&s, 64 << 20, note, NULL) != 0 || !note[0] || s.name[0])
            _exit(1);
        void *p = zl_segment_take(&s, 64 << 20);
        if (!p)
            _exit(2);
        memset(p, 1, 64 << 20);
        zl_segment_destroy(&s);
        if (zl_segment_create(&s, 512 << 10, note, NULL) != 0 || note[0] || !s.name[0])
            _exit(3);
        memset(zl_segment_take(&s, 512 << 10), 1, 512 << 10);
        zl_segment_destroy(&s);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: this user may not mount a file system of its own\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A run that is killed; its pid is still a zombie's at first. */
static void segments_of_dead_runs_are_reclaimed(void **state)
{
    (void)state;
    int ready[2];
    char name[64] = "";
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct zl_segment s;
        if (zl_segment_create(&s, 4096, NULL, NULL) != 0)
            _exit(1);
        if (write(ready[1], s.name, sizeof s.name) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], name, sizeof name), sizeof name);
    assert_true(strlen(name) > 10);
    zl_segment_reclaim();
    assert_true(exists(name)); /* alive */
    kill(child, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(zl_process_start(child), 0);
    struct zl_segment s;
    assert_int_equal(zl_segment_create(&s, 128, NULL, NULL), 0);
    assert_false(exists(name));
    zl_segment_destroy(&s);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

static void a_pid_that_was_given_out_again_does_not_keep_one(void **state)
{
    (void)state;
    char name[64];
    leave(name, getpid(), zl_process_start(getpid()) - 1);
    assert_true(zl_segment_reclaim() >= 1);
    assert_false(exists(name));
}

/* Seen from another pid namespace the owner's pid is nobody's, but its lock is held. */
static void a_lock_keeps_one_whose_pid_cannot_be_seen(void **state)
{
    (void)state;
    struct zl_segment s;
    assert_int_equal(zl_segment_create(&s, 128, NULL, NULL), 0);
    const char *foreign = "/zerolock-2147483647-5";
    char from[128], to[128];
    snprintf(from, sizeof from, "/dev/shm%s", s.name);
    snprintf(to, sizeof to, "/dev/shm%s", foreign);
    if (rename(from, to) != 0) {
        zl_segment_destroy(&s);
        skip();
    }
    zl_segment_reclaim();
    assert_true(exists(foreign));
    zl_segment_destroy(&s); /* closes, so the lock goes */
    zl_segment_reclaim();
    assert_false(exists(foreign));
}

static void names_that_are_not_ours_are_left_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"/zerolock-", "/zerolock-12", "/zerolock-2147483646-1x",
                                        "/zerolock-2147483646--1", "/zerolock-99999999999999999999-1",
                                        "/zerolock-2147483646-1."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int fd = shm_open(names[i], O_RDWR | O_CREAT, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    zl_segment_reclaim();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(exists(names[i]));
        shm_unlink(names[i]);
    }
}

static void exit_destroys_and_a_child_does_not(void **state)
{
    (void)state;
    struct zl_segment s;
    assert_int_equal(zl_segment_create(&s, 128, NULL, NULL), 0);
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct zl_segment copy = s;
        zl_segment_destroy(&copy);
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_true(exists(s.name));
    zl_segment_destroy(&s);

    int ready[2];
    char name[64] = "";
    assert_int_equal(pipe(ready), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (zl_segment_create(&s, 128, NULL, NULL) != 0 || write(ready[1], s.name, 64) != 64)
            _exit(1);
        exit(0);
    }
    waitpid(child, &status, 0);
    assert_int_equal(read(ready[0], name, 64), 64);
    assert_false(exists(name));
    close(ready[0]);
    close(ready[1]);
}

static void a_process_name_with_brackets_does_not_confuse(void **state)
{
    (void)state;
    uint64_t start = zl_process_start(getpid());
    assert_true(start > 0);
    prctl(PR_SET_NAME, "a) Z 1 (2) Z");
    assert_int_equal(zl_process_start(getpid()), start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_zero_and_bounded),
        cmocka_unit_test(an_impossible_size_is_an_error),
        cmocka_unit_test(a_reader_sees_what_the_owner_wrote),
        cmocka_unit_test(a_reader_checks_before_it_believes),
        cmocka_unit_test(two_segments_of_one_process_have_two_names),
        cmocka_unit_test(a_full_dev_shm_means_anonymous_memory_and_a_note),
        cmocka_unit_test(one_megabyte_of_dev_shm_does_not_kill),
        cmocka_unit_test(segments_of_dead_runs_are_reclaimed),
        cmocka_unit_test(a_pid_that_was_given_out_again_does_not_keep_one),
        cmocka_unit_test(a_lock_keeps_one_whose_pid_cannot_be_seen),
        cmocka_unit_test(names_that_are_not_ours_are_left_alone),
        cmocka_unit_test(exit_destroys_and_a_child_does_not),
        cmocka_unit_test(a_process_name_with_brackets_does_not_confuse),
    };
    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
