/* The folder of generations: which stay, which count, walking back, going back. */
#define _GNU_SOURCE
#include "tests/fault/scene.h"

#include "base/file.h"
#include "store/generation_impl.h"

static void write_steps(struct scene *s, uint64_t first, uint64_t n)
{
    scene_open(s);
    for (uint64_t i = 0; i < n; i++)
        scene_write_well(s, first + i);
    scene_close(s);
}

static void the_newest_that_verify_stay(void **state)
{
    (void)state;
    for (uint32_t keep = 0; keep <= 3; keep++) {
        struct scene s;
        struct zl_generation_name *list;
        struct zl_error err = {0};
        uint64_t n;
        scene_make(&s, NULL);
        s.o.keep = keep;
        write_steps(&s, 100, 3);
        write_steps(&s, 50, 2); /* another process, and lower steps: the number counts */
        assert_int_equal(zl_generation_list(s.dir, &list, &n, &err), 0);
        assert_int_equal(n, keep ? keep : 1);
        assert_int_equal(list[0].generation, 5);
        assert_int_equal(list[0].step, 51);
        for (uint64_t i = 1; i < n; i++)
            assert_int_equal(list[i].generation, 5 - i);
        free(list);
        scene_end(&s);
    }
}

static void a_damaged_one_does_not_count_as_kept(void **state)
{
    (void)state;
    struct scene s;
    scene_make(&s, NULL);
    s.o.keep = 2;
    write_steps(&s, 1, 2);
    scene_flip(scene_path(&s, "0000000002-step-2.zlc"), 9000, 1);
    write_steps(&s, 3, 1);
    assert_string_equal(scene_names(&s), "0000000001-step-1.zlc 0000000002-step-2.zlc 0000000003-step-3.zlc");
    write_steps(&s, 4, 1);
    assert_string_equal(scene_names(&s), "0000000003-step-3.zlc 0000000004-step-4.zlc");
    scene_end(&s);
}

static void another_runs_are_nobodys_to_remove(void **state)
{
    (void)state;
    struct scene s;
    char said[4096];
    scene_make(&s, NULL);
    s.o.keep = 1;
    write_steps(&s, 900, 1);
    s.o.run.byte[3] ^= 1;
    scene_expect_newest(&s, 0, said);
    assert_non_null(strstr(said, "0000000001-step-900.zlc belongs to another run"));
    write_steps(&s, 1, 3);
    assert_string_equal(scene_names(&s), "0000000001-step-900.zlc 0000000004-step-3.zlc");
    scene_expect_newest(&s, 3, said);
    assert_string_equal(said, "");
    s.o.run.byte[3] ^= 1;
    scene_expect_newest(&s, 900, said);
    scene_end(&s);
}

/* What the clean-up cannot know to be of this run stays too. */
static void what_does_not_say_whose_it_is_stays(void **state)
{
    (void)state;
    struct scene s;
    scene_make(&s, NULL);
    s.o.keep = 1;
    write_steps(&s, 1, 1);
    scene_flip(scene_path(&s, "0000000001-step-1.zlc"), 64, 1);
    const int fd = open(scene_path(&s, "notes.txt"), O_CREAT | O_WRONLY, 0666);
    close(fd);
    write_steps(&s, 2, 2);
    assert_string_equal(scene_names(&s), "0000000001-step-1.zlc 0000000003-step-3.zlc notes.txt");
    scene_end(&s);
}

static void leftovers_go_and_numbers_go_on(void **state)
{
    (void)state;
    static const char *const left[] = {"0000000007-step-7.zlc.tmp", "0000000012-step-3.zlc.aside", "0000000005-step-5.zlc.tmp.tmp",
                                       "5-step-5.zlc.tmp"};
    struct scene s;
    scene_make(&s, NULL);
    assert_int_equal(mkdir(scene_path(&s, ""), 0777), 0);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        close(open(scene_path(&s, left[i]), O_CREAT | O_WRONLY, 0666));
    write_steps(&s, 1, 1);
    assert_string_equal(scene_names(&s),
                        "0000000005-step-5.zlc.tmp.tmp 0000000012-step-3.zlc.aside 0000000013-step-1.zlc 5-step-5.zlc.tmp");
    scene_end(&s);
}

static void walking_back_says_what_it_passes_over(void **state)
{
    (void)state;
    struct scene s;
    char said[4096];
    scene_make(&s, NULL);
    s.o.keep = 9;
    write_steps(&s, 1, 6);
    scene_flip(scene_path(&s, "0000000006-step-6.zlc"), 70000, 4);
    assert_int_equal(truncate(scene_path(&s, "0000000005-step-5.zlc"), 0), 0);
    assert_int_equal(rename(scene_path(&s, "0000000004-step-4.zlc"), scene_path(&s, "0000000007-step-9.zlc")), 0);
    assert_int_equal(unlink(scene_path(&s, "0000000003-step-3.zlc")), 0);
    assert_int_equal(mkdir(scene_path(&s, "0000000003-step-3.zlc"), 0777), 0);
    scene_expect_newest(&s, 2, said);
    print_message("%s", said);
    static const char *const reasons[] = {"0000000007-step-9.zlc holds generation 4 of step 4: it was renamed",
                                          "0000000006-step-6.zlc is damaged in the 65536 bytes from 69632 on, block 1 of section 1 of ",
                                          "0000000005-step-5.zlc has 0 bytes", "0000000003-step-3.zlc is not a plain file"};
    const char *at = said;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        at = strstr(at, reasons[i]);
        assert_non_null(at);
    }
    scene_end(&s);
}

/* Of another format, by a sound preamble: no damage, and no reason to lose the work behind an older one. */
static void another_format_ends_the_walk(void **state)
{
    (void)state;
    struct scene s;
    struct zl_generation g;
    struct zl_error err = {0};
    unsigned char head[64];
    char said[4096] = "";
    scene_make(&s, NULL);
    write_steps(&s, 1, 2);
    const int fd = open(scene_path(&s, "0000000002-step-2.zlc"), O_RDWR);
    assert_int_equal(pread(fd, head, sizeof head, 0), sizeof head);
    head[8] = 2;
    strcpy((char *)head + 16, "9.9.9");
    const struct zl_hash hash = zl_hash_of(head, 48);
    memcpy(head + 48, hash.byte, 16);
    assert_int_equal(pwrite(fd, head, sizeof head, 0), sizeof head);
    close(fd);
    assert_int_equal(zl_generation_newest(&g, s.dir, NULL, scene_say, said, &err), ZL_EUSAGE);
    print_message("%s\n", err.text);
    assert_null(g.file);
    assert_string_equal(said, "");
    assert_non_null(strstr(err.text, "is in version 2 of the format, written by zerolock 9.9.9"));
    assert_non_null(strstr(err.text, "continue the run with the zerolock that wrote it or a newer one"));
    scene_flip(scene_path(&s, "0000000002-step-2.zlc"), 9, 1); /* the number alone, without its hash, is damage */
    scene_expect_newest(&s, 1, said);
    assert_non_null(strstr(said, "is damaged in its first 64 bytes"));
    scene_end(&s);
}

static void restoring_sets_newer_ones_aside(void **state)
{
    (void)state;
    struct scene s;
    struct zl_error err = {0};
    uint64_t aside;
    scene_make(&s, NULL);
    s.o.keep = 9;
    write_steps(&s, 1, 4);
    assert_int_equal(zl_generation_restore(s.dir, 2, &aside, &err), 0);
    assert_int_equal(aside, 2);
    assert_string_equal(scene_names(&s),
                        "0000000001-step-1.zlc 0000000002-step-2.zlc 0000000003-step-3.zlc.aside 0000000004-step-4.zlc.aside");
    scene_expect_newest(&s, 2, NULL);
    write_steps(&s, 3, 1);
    scene_expect_newest(&s, 3, NULL);
    assert_int_equal(zl_generation_restore(s.dir, 4, &aside, &err), 0); /* another branch of the run's life */
    assert_int_equal(aside, 1);
    assert_string_equal(scene_names(&s), "0000000001-step-1.zlc 0000000002-step-2.zlc 0000000003-step-3.zlc.aside 0000000004-step-4.zlc "
                                         "0000000005-step-3.zlc.aside");
    assert_int_equal(zl_generation_restore(s.dir, 9, &aside, &err), ZL_EUSAGE);
    err = (struct zl_error){0};
    scene_flip(scene_path(&s, "0000000001-step-1.zlc"), 70000, 4);
    assert_int_equal(zl_generation_restore(s.dir, 1, &aside, &err), ZL_EINPUT);
    scene_expect_newest(&s, 4, NULL);
    scene_end(&s);
}

static void a_reader_gets_what_it_asks_for_or_a_sentence(void **state)
{
    (void)state;
    struct scene s;
    struct zl_generation g;
    struct zl_error err = {0};
    unsigned char data[200001];
    scene_make(&s, NULL);
    write_steps(&s, 1, 1);
    assert_int_equal(zl_generation_open(&g, s.dir, "0000000001-step-1.zlc", &err), 0);
    assert_int_equal(zl_generation_read(&g, 9, 9, data, 1, &err), ZL_EINPUT);
    assert_non_null(strstr(err.text, "has no section 9 of stage 9"));
    err = (struct zl_error){0};
    assert_int_equal(zl_generation_read(&g, 0, 1, data, 200000, &err), ZL_EINPUT);
    assert_non_null(strstr(err.text, "has 200001 bytes in section 1 of stage 0, expected 200000"));
    err = (struct zl_error){0};
    scene_flip(scene_path(&s, "0000000001-step-1.zlc"), 200000, 1); /* under an open reader */
    assert_int_equal(zl_generation_read(&g, 0, 1, data, 200001, &err), ZL_EINPUT);
    assert_non_null(strstr(err.text, "is damaged"));
    assert_int_equal(zl_generation_read(&g, 1, 7, data, 4096, &err), 0);
    zl_generation_close(&g);
    scene_end(&s);
}

static uint64_t le(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    while (bytes--)
        v = v << 8 | p[bytes];
    return v;
}

/* By the numbers of zerolock-checkpoint(5), not by the names of format.h: what is on people's disks does not change under one version. */
static void the_bytes_are_those_of_the_page(void **state)
{
    (void)state;
    struct scene s;
    struct zl_error err = {0};
    char *text;
    size_t n;
    scene_make(&s, NULL);
    write_steps(&s, 1200, 1);
    assert_int_equal(zl_file_read(scene_path(&s, "0000000001-step-1200.zlc"), 1 << 24, &text, &n, &err), 0);
    const unsigned char *f = (unsigned char *)text, *foot = f + n - 4096;
    assert_memory_equal(f, "\x89ZLCKPT\n", 8);
    assert_int_equal(le(f + 8, 4), 1);
    assert_int_equal(le(f + 12, 4), 4096);
    struct zl_hash h = zl_hash_of(f, 48);
    assert_memory_equal(f + 48, h.byte, 16);
    assert_memory_equal(f + 64, s.o.run.byte, 16);
    assert_int_equal(le(f + 80, 8), 1);
    assert_int_equal(le(f + 88, 8), 1200);
    assert_int_equal(le(f + 96, 4), SCENE_PARTS);
    assert_int_equal(le(f + 100, 4), 65536);
    uint64_t at = 4096, index = le(foot + 24, 8);
    for (uint32_t i = 0; i < SCENE_PARTS; i++) {
        const unsigned char *p = f + 128 + 24 * i;
        assert_int_equal(le(p, 4), scene_parts[i].stage);
        assert_int_equal(le(p + 4, 4), scene_parts[i].section);
        assert_int_equal(le(p + 8, 8), scene_parts[i].bytes);
        assert_int_equal(le(p + 16, 8), at);
        const uint64_t end = at + (scene_parts[i].bytes + 4095) / 4096 * 4096;
        for (; at < end; index += 16, at += at + 65536 < end ? 65536 : end - at) {
            h = zl_hash_of(f + at, at + 65536 < end ? 65536 : end - at);
            assert_memory_equal(f + index, h.byte, 16);
        }
    }
    assert_int_equal(le(f + 104, 8), at);
    assert_memory_equal(f + at, "{\"step\": 1200, \"of\": \"a test\"}", 30);
    h = zl_hash_of(f + at, 4096);
    assert_memory_equal(f + index, h.byte, 16);
    assert_memory_equal(foot, "\x89ZLCEND\n", 8);
    assert_int_equal(le(foot + 8, 8), 1);
    assert_int_equal(le(foot + 16, 8), 30);
    assert_int_equal(le(foot + 24, 8), at + 4096);
    assert_int_equal(le(foot + 32, 8), index + 16 - (at + 4096));
    assert_int_equal(le(foot + 40, 8), n);
    unsigned char all[80];
    h = zl_hash_of(f, 4096);
    memcpy(all, h.byte, 16);
    h = zl_hash_of(f + at + 4096, 4096);
    memcpy(all + 16, h.byte, 16);
    memcpy(all + 32, foot, 48);
    h = zl_hash_of(all, 80);
    assert_memory_equal(foot + 48, h.byte, 16);
    free(text);
    scene_end(&s);
}

/* The hash itself is the one of the page, in its order: XXH3-128 of nothing is a published constant. */
static void the_hash_is_canonical(void **state)
{
    (void)state;
    static const unsigned char of_nothing[16] = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
                                                 0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f};
    const struct zl_hash h = zl_hash_of("", 0);
    assert_memory_equal(h.byte, of_nothing, 16);
}

static void names_are_spelled_in_one_way(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "1-step-1.zlc", "0000000001-step-01.zlc", "0000000001-step-1.zlc2", "0000000001-step-1", "x",
                                        "00000000001-step-1.zlc", "0000000001-step-1.zlc.aside.aside", "-000000001-step-1.zlc",
                                        "0000000001-step--1.zlc", "99999999999999999999-step-1.zlc", "0000000001-step- 1.zlc"};
    uint64_t generation, step;
    bool aside, tmp;
    char name[80];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(zl_generation_parse(wrong[i], &generation, &step, &aside, &tmp));
    zl_generation_name(name, UINT64_MAX, UINT64_MAX);
    assert_true(zl_generation_parse(name, &generation, &step, &aside, &tmp));
    assert_true(generation == UINT64_MAX && step == UINT64_MAX && !aside && !tmp);
    assert_true(zl_generation_parse("0000000042-step-1200.zlc.aside", &generation, &step, &aside, &tmp));
    assert_true(generation == 42 && step == 1200 && aside && !tmp);
    assert_true(zl_generation_parse("0000000042-step-0.zlc.tmp", &generation, &step, &aside, &tmp));
    assert_true(step == 0 && !aside && tmp);
}

static void a_runs_identity_goes_through_text(void **state)
{
    (void)state;
    struct zl_run_id a, b, c;
    struct zl_error err = {0};
    char text[ZL_RUN_ID_TEXT];
    assert_int_equal(zl_run_id_make(&a, &err), 0);
    assert_int_equal(zl_run_id_make(&b, &err), 0);
    assert_memory_not_equal(&a, &b, sizeof a);
    zl_run_id_text(&a, text);
    assert_true(zl_run_id_parse(&c, text));
    assert_memory_equal(&a, &c, sizeof a);
    assert_false(zl_run_id_parse(&c, ""));
    assert_false(zl_run_id_parse(&c, "0123456789abcdef0123456789abcdeg"));
    assert_false(zl_run_id_parse(&c, "0123456789abcdef0123456789abcdef0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_that_verify_stay),
        cmocka_unit_test(a_damaged_one_does_not_count_as_kept),
        cmocka_unit_test(another_runs_are_nobodys_to_remove),
        cmocka_unit_test(what_does_not_say_whose_it_is_stays),
        cmocka_unit_test(leftovers_go_and_numbers_go_on),
        cmocka_unit_test(walking_back_says_what_it_passes_over),
        cmocka_unit_test(another_format_ends_the_walk),
        cmocka_unit_test(restoring_sets_newer_ones_aside),
        cmocka_unit_test(a_reader_gets_what_it_asks_for_or_a_sentence),
        cmocka_unit_test(the_bytes_are_those_of_the_page),
        cmocka_unit_test(the_hash_is_canonical),
        cmocka_unit_test(names_are_spelled_in_one_way),
        cmocka_unit_test(a_runs_identity_goes_through_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
