/* The lowest layer: random numbers against known answers, permutations, arenas, errors, small files, the log and the progress bar. */
#include "config.h"

#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/rng.h"

/* Random123's known answers for philox4x32-10 (its file kat_vectors). */
static void philox_gives_the_known_answers(void **state)
{
    (void)state;
    const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t out[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         UINT64_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         UINT64_C(0x299f31d0a4093822),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];
        zl_philox(known[i].key, known[i].counter, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void a_permutation_takes_each_value_once(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 15, 16, 17, 63, 64, 65, 100, 255, 257, 1000, 4097};
    static unsigned char seen[4097];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            uint64_t n = sizes[s];
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t p = zl_random_permute(42, ZL_STREAM_SHUFFLE, epoch, n, i);
                assert_true(p < n);
                assert_false(seen[p]);
                seen[p] = 1;
            }
        }
}

static void permutations_differ_by_key_epoch_and_stream(void **state)
{
    (void)state;
    uint64_t n = 1000, same[3] = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t p = zl_random_permute(1, ZL_STREAM_SHUFFLE, 0, n, i);
        same[0] += p == zl_random_permute(2, ZL_STREAM_SHUFFLE, 0, n, i);
        same[1] += p == zl_random_permute(1, ZL_STREAM_SHUFFLE, 1, n, i);
        same[2] += p == zl_random_permute(1, ZL_STREAM_SPLIT, 0, n, i);
    }
    for (int i = 0; i < 3; i++) /* one is expected by chance; 12 has probability below 1e-9 */
        assert_true(same[i] < 12);
}

static void streams_of_equal_tensors_differ(void **state)
{
    (void)state;
    int equal = 0;
    for (uint64_t i = 0; i < 256; i++)
        equal += zl_random_normal(7, ZL_STREAM_INIT, 0, i) == zl_random_normal(7, ZL_STREAM_INIT, 1, i);
    assert_true(equal < 3);
}

static void normals_have_mean_0_and_variance_1(void **state)
{
    (void)state;
    double sum = 0, squares = 0, n = 100000;
    for (uint64_t i = 0; i < (uint64_t)n; i++) {
        double x = zl_random_normal(3, ZL_STREAM_TEST, 0, i), u = zl_random_unit(3, ZL_STREAM_TEST, 1, i);
        assert_true(isfinite(x) && u >= 0 && u < 1);
        sum += x;
        squares += x * x;
    }
    print_message("mean %.4f (bound 0.016), variance %.4f (bound 1 +- 0.025)\n", sum / n, squares / n);
    assert_true(fabs(sum / n) < 0.016);
    assert_true(fabs(squares / n - 1) < 0.025);
}

static void an_arena_gives_aligned_pieces_until_it_is_full(void **state)
{
    (void)state;
    struct zl_arena a;
    assert_int_equal(zl_arena_open(&a, "test", 4096, NULL), 0);
    unsigned char *p = zl_arena_take(&a, 1), *q = zl_arena_take(&a, 64);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal(q - p, 64);
    uint64_t mark = zl_arena_mark(&a);
    assert_non_null(zl_arena_take(&a, 4096 - 128));
    assert_null(zl_arena_take(&a, 1));
    assert_null(zl_arena_take(&a, UINT64_MAX));
    zl_arena_release(&a, mark);
    assert_ptr_equal(zl_arena_take(&a, 1), q + 64);
    assert_int_equal(a.peak, 4096);
    zl_arena_close(&a);
}

static void an_arena_without_memory_counts(void **state)
{
    (void)state;
    struct zl_arena a;
    assert_int_equal(zl_arena_open(&a, "plan", 0, NULL), 0);
    assert_null(zl_arena_take(&a, 100));
    assert_null(zl_arena_take(&a, 1));
    assert_int_equal(a.used, 192);
    assert_int_equal(a.peak, 192);
    zl_arena_close(&a);
}

static void an_arena_too_large_names_its_owner(void **state)
{
    (void)state;
    struct zl_arena a;
    struct zl_error e = {0};
    assert_int_equal(zl_arena_open(&a, "stage 3 activations", UINT64_C(1) << 62, &e), ZL_EMEMORY);
    assert_non_null(strstr(e.text, "stage 3 activations"));
    zl_arena_close(&a);
}

static void the_first_error_wins(void **state)
{
    (void)state;
    struct zl_error e = {0};
    assert_int_equal(zl_fail(&e, ZL_EINPUT, "row %d is bad", 3), ZL_EINPUT);
    assert_int_equal(zl_fail(&e, ZL_ESYSTEM, "and then this"), ZL_ESYSTEM);
    assert_string_equal(e.text, "row 3 is bad");
    assert_int_equal(e.code, ZL_EINPUT);
    assert_int_equal(zl_fail_prefix(&e, "%s", "a.jsonl"), ZL_EINPUT);
    assert_string_equal(e.text, "a.jsonl: row 3 is bad");
    assert_int_equal(zl_fail(NULL, ZL_EMEMORY, "nobody listens"), ZL_EMEMORY);
    struct zl_error f = {0};
    errno = ENOENT;
    zl_fail_errno(&f, ZL_ESYSTEM, "cannot open x");
    assert_string_equal(f.text, "cannot open x: No such file or directory");
}

static char work[] = "/tmp/zl-base-XXXXXX";

static int make_work(void **state)
{
    (void)state;
    return mkdtemp(work) ? 0 : -1;
}

static int remove_work(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", work);
    return system(command);
}

static void a_file_is_written_whole_and_read_back(void **state)
{
    (void)state;
    char *deep = zl_path_join(work, "a/b/c"), *path = zl_path_join(deep, "x.json"), *back = NULL;
    size_t n = 0;
    struct stat st;
    assert_int_equal(zl_folder_make(deep, NULL), 0);
    assert_int_equal(zl_folder_make(deep, NULL), 0);
    assert_int_equal(zl_file_write(path, "one", 3, NULL), 0);
    assert_int_equal(zl_file_write(path, "a\0b", 3, NULL), 0);
    assert_int_equal(zl_file_read(path, 3, &back, &n, NULL), 0);
    assert_int_equal(n, 3);
    assert_memory_equal(back, "a\0b", 4);
    assert_int_equal(stat(path, &st), 0);
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
    free(back);
    struct zl_error e = {0};
    assert_int_equal(zl_file_read(path, 2, &back, &n, &e), ZL_EINPUT);
    assert_non_null(strstr(e.text, "longer than 2 bytes"));
    free(path);
    free(deep);
}

static void reading_a_device_without_end_stops_at_the_cap(void **state)
{
    (void)state;
    char *back = NULL;
    struct zl_error e = {0};
    assert_int_equal(zl_stream_read("/dev/zero", 100000, &back, NULL, &e), ZL_EINPUT);
    assert_null(back);
}

/* A blocking open of a FIFO would wait here for ever. */
static void what_is_no_file_is_refused_by_name(void **state)
{
    (void)state;
    char *fifo = zl_path_join(work, "fifo"), *link = zl_path_join(work, "link"), *socket_path = zl_path_join(work, "socket");
    char *absent = zl_path_join(work, "absent");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", socket_path);
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("fifo", link), 0);
    assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof at), 0);
    const struct {
        const char *path, *words;
    } cases[] = {{fifo, "is a FIFO, expected a file"},         {link, "is a FIFO, expected a file"},
                 {socket_path, "is a socket or a device"},     {"/dev/null", "is a device, expected a file"},
                 {work, "is a folder, expected a file"},       {absent, "No such file"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zl_error e = {0};
        char *back = NULL;
        FILE *f;
        int fd;
        assert_int_equal(zl_file_open(cases[i].path, &fd, &e), ZL_EINPUT);
        assert_int_equal(fd, -1);
        assert_non_null(strstr(e.text, cases[i].words));
        assert_int_equal(zl_file_stream(cases[i].path, &f, NULL), ZL_EINPUT);
        assert_null(f);
        assert_int_equal(zl_file_read(cases[i].path, 100, &back, NULL, NULL), ZL_EINPUT);
        assert_null(back);
    }
    char *text = NULL;
    assert_int_equal(zl_file_read("/proc/self/stat", 100000, &text, NULL, NULL), 0); /* of size 0, as it says */
    assert_true(strlen(text) > 20);
    close(s);
    unlink(fifo);
    unlink(link);
    unlink(socket_path);
    free(text);
    free(fifo);
    free(link);
    free(socket_path);
    free(absent);
}

static void a_failed_write_leaves_the_old_file_and_no_other(void **state)
{
    (void)state;
    char *folder = zl_path_join(work, "kept"), *path = zl_path_join(folder, "is-a-folder"), *sub = zl_path_join(path, "x");
    struct zl_error e = {0};
    assert_int_equal(zl_folder_make(sub, NULL), 0); /* renaming a file onto a non-empty folder fails */
    assert_int_equal(zl_file_write(path, "new", 3, &e), ZL_ESYSTEM);
    assert_non_null(strstr(e.text, path));
    char command[300];
    snprintf(command, sizeof command, "test \"$(ls %s)\" = is-a-folder", folder);
    assert_int_equal(system(command), 0);
    e = (struct zl_error){0};
    assert_int_equal(zl_file_write("/nonexistent/x", "", 0, &e), ZL_ESYSTEM);
    e = (struct zl_error){0};
    assert_int_equal(zl_folder_make("/dev/null/x", &e), ZL_ESYSTEM);
    free(sub);
    free(path);
    free(folder);
}

static void paths_are_joined_with_one_slash(void **state)
{
    (void)state;
    const char *cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"a", "/b", "/b"}, {"/", "b", "/b"}};
    const char *folders[][2] = {{"x", "."}, {"/x", "/"}, {"a/b/x", "a/b"}, {"./x", "."}};
    for (size_t i = 0; i < 5; i++) {
        char *p = zl_path_join(cases[i][0], cases[i][1]);
        assert_string_equal(p, cases[i][2]);
        free(p);
    }
    for (size_t i = 0; i < 4; i++) {
        char *p = zl_path_folder(folders[i][0]);
        assert_string_equal(p, folders[i][1]);
        free(p);
    }
}

/* Everything that was logged between the two calls. */
static int log_ends[2];

static void log_begin(void)
{
    assert_int_equal(pipe(log_ends), 0);
    zl_log_to(log_ends[1]);
}

static char *log_end(void)
{
    static char text[65536];
    zl_log_to(2);
    close(log_ends[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(log_ends[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(log_ends[0]);
    return text;
}

static void notes_are_prefixed_and_each_key_is_said_once(void **state)
{
    (void)state;
    log_begin();
    zl_note("a %d", 1);
    for (int i = 0; i < 3; i++)
        zl_note_once("some-key", "once");
    zl_warn("b");
    zl_log_quiet(true);
    zl_note("dropped");
    zl_note_once("other-key", "dropped");
    zl_warn("c");
    zl_log_quiet(false);
    zl_log_error(&(struct zl_error){ZL_EINPUT, "100% bad"});
    assert_string_equal(log_end(), "zerolock: a 1\nzerolock: once\nzerolock: warning: b\n"
                                   "zerolock: warning: c\nzerolock: 100% bad\n");
}

static void a_note_under_a_status_line_is_not_lost(void **state)
{
    (void)state;
    log_begin();
    zl_log_status("bar");
    zl_note("note");
    zl_log_status(NULL);
    zl_log_status(NULL);
    assert_string_equal(log_end(), "\r\033[Kbar\r\033[Kzerolock: note\nbar\r\033[K");
}

static void a_long_note_is_cut_but_stays_a_line(void **state)
{
    (void)state;
    char long_text[5000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    log_begin();
    zl_note("%s", long_text);
    char *text = log_end();
    assert_true(strlen(text) > 1000 && text[strlen(text) - 1] == '\n');
}

static void *note_many(void *name)
{
    for (int i = 0; i < 200; i++)
        zl_note("%s says a line of some length", (char *)name);
    return NULL;
}

static void lines_of_threads_are_not_torn(void **state)
{
    (void)state;
    char *names[] = {"a", "b", "c", "d"};
    pthread_t thread[4];
    log_begin();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, note_many, names[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    int lines = 0;
    for (char *line = strtok(log_end(), "\n"); line; line = strtok(NULL, "\n"), lines++)
        assert_string_equal(line + strlen("zerolock: x"), " says a line of some length");
    assert_int_equal(lines, 800);
}

static void a_progress_line_never_exceeds_the_terminal(void **state)
{
    (void)state;
    const struct zl_progress_view views[] = {
        {"training", 0, 100, "step", NAN, 0, -1},
        {"training", 57, 100, "step", 2.3456, 123.4, 201},
        {"training", UINT64_MAX, UINT64_MAX, "step", -1e300, 1e15, 9e8},
        {"evaluating", 3, 0, "row", 0.001, 5, 0},
    };
    for (size_t v = 0; v < 4; v++)
        for (int columns = 1; columns <= 300; columns++) {
            char text[512], plain[512];
            size_t n = zl_progress_line(&views[v], columns, false, plain, sizeof plain);
            assert_int_equal(n, strlen(plain));
            assert_true(n < (size_t)columns);
            assert_int_equal(zl_progress_line(&views[v], columns, true, text, sizeof text), n);
        }
}

static void narrow_terminals_keep_what_matters_most(void **state)
{
    (void)state;
    const struct zl_progress_view v = {"training", 57, 100, "step", 2.3456, 123.4, 201};
    const struct {
        int columns;
        const char *text;
    } expected[] = {
        {100, "training [#####################................]  step 57/100  loss 2.3456  3:21 left  123 tokens/s"},
        {70, "[#########.......]  step 57/100  loss 2.3456  3:21 left  123 tokens/s"},
        {60, "step 57/100  loss 2.3456  3:21 left  123 tokens/s"},
        {40, "step 57/100  loss 2.3456  3:21 left"},
        {30, "step 57/100  loss 2.3456"},
        {15, "step 57/100"},
        {8, "57%"},
        {2, ""},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char text[512];
        zl_progress_line(&v, expected[i].columns, false, text, sizeof text);
        assert_string_equal(text, expected[i].text);
    }
    char text[512];
    zl_progress_line(&v, 100, true, text, sizeof text);
    assert_non_null(strstr(text, "\033[32m#"));
}

static uint64_t now_ns;

static uint64_t test_clock(void)
{
    return now_ns;
}

static void a_log_gets_a_line_in_ten_seconds_and_the_last_state(void **state)
{
    (void)state;
    struct zl_progress p;
    log_begin();
    zl_progress_open(&p, log_ends[1], "training", "step", 100, false);
    assert_false(p.terminal);
    p.clock_ns = test_clock;
    p.started_ns = p.shown_ns = now_ns = 1000;
    for (uint64_t i = 1; i <= 100; i++) { /* a quarter of a second each */
        now_ns += 250000000;
        zl_progress_update(&p, i, i * 100, 2.5);
    }
    zl_progress_close(&p);
    assert_string_equal(log_end(), "zerolock: training: step 40/100, loss 2.5000, 0:15 left, 400 tokens/s\n"
                                   "zerolock: training: step 80/100, loss 2.5000, 0:05 left, 400 tokens/s\n"
                                   "zerolock: training: step 100/100, loss 2.5000, 400 tokens/s\n");
}

static void a_terminal_is_redrawn_at_most_ten_times_a_second(void **state)
{
    (void)state;
    struct zl_progress p;
    log_begin();
    zl_progress_open(&p, log_ends[1], "training", "step", 1000, false);
    p.clock_ns = test_clock;
    p.started_ns = p.shown_ns = now_ns = 1000;
    p.terminal = true;
    for (uint64_t i = 1; i <= 1000; i++) { /* a millisecond each */
        now_ns += 1000000;
        zl_progress_update(&p, i, i, NAN);
    }
    int redraws = 0;
    for (char *t = log_end(); (t = strstr(t, "\r\033[K")); t++)
        redraws++;
    log_begin(); /* takes the status line away where nobody sees it */
    zl_log_status(NULL);
    log_end();
    assert_true(redraws >= 9 && redraws <= 11);
}

static void quiet_progress_says_nothing(void **state)
{
    (void)state;
    struct zl_progress p;
    log_begin();
    zl_progress_open(&p, log_ends[1], "training", "step", 10, true);
    zl_progress_update(&p, 10, 10, 1);
    zl_progress_close(&p);
    assert_string_equal(log_end(), "");
}

static void no_color_is_respected_on_a_terminal(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        print_message("skipped: no pseudo-terminal here\n");
        skip();
    }
    int fd = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct zl_progress p;
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    zl_progress_open(&p, fd, "x", "step", 1, false);
    assert_true(p.terminal && p.colour);
    setenv("NO_COLOR", "1", 1);
    zl_progress_open(&p, fd, "x", "step", 1, false);
    assert_true(p.terminal && !p.colour);
    setenv("TERM", "dumb", 1);
    zl_progress_open(&p, fd, "x", "step", 1, false);
    assert_false(p.terminal);
    close(fd);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(a_permutation_takes_each_value_once),
        cmocka_unit_test(permutations_differ_by_key_epoch_and_stream),
        cmocka_unit_test(streams_of_equal_tensors_differ),
        cmocka_unit_test(normals_have_mean_0_and_variance_1),
        cmocka_unit_test(an_arena_gives_aligned_pieces_until_it_is_full),
        cmocka_unit_test(an_arena_without_memory_counts),
        cmocka_unit_test(an_arena_too_large_names_its_owner),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(a_file_is_written_whole_and_read_back),
        cmocka_unit_test(reading_a_device_without_end_stops_at_the_cap),
        cmocka_unit_test(what_is_no_file_is_refused_by_name),
        cmocka_unit_test(a_failed_write_leaves_the_old_file_and_no_other),
        cmocka_unit_test(paths_are_joined_with_one_slash),
        cmocka_unit_test(notes_are_prefixed_and_each_key_is_said_once),
        cmocka_unit_test(a_note_under_a_status_line_is_not_lost),
        cmocka_unit_test(a_long_note_is_cut_but_stays_a_line),
        cmocka_unit_test(lines_of_threads_are_not_torn),
        cmocka_unit_test(a_progress_line_never_exceeds_the_terminal),
        cmocka_unit_test(narrow_terminals_keep_what_matters_most),
        cmocka_unit_test(a_log_gets_a_line_in_ten_seconds_and_the_last_state),
        cmocka_unit_test(a_terminal_is_redrawn_at_most_ten_times_a_second),
        cmocka_unit_test(quiet_progress_says_nothing),
        cmocka_unit_test(no_color_is_respected_on_a_terminal),
    };
    return cmocka_run_group_tests(tests, make_work, remove_work);
}
