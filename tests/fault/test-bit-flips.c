/*
 * test-bit-flips [COUNT [FIRST]]: random faults in a generation's file, of bits, bytes, sectors and pages; truncations at every page
 * and others; every one is noticed, and no reader ever gets a byte that was not written. 10000 faults by default; fault i is a pure
 * function of i.
 */
#define _GNU_SOURCE
#include "tests/fault/scene.h"

#include "base/file.h"
#include "store/format.h"

static uint64_t count = 10000, first;

struct victim {
    struct scene s;
    char path[8192];
    unsigned char *sound, *bytes;
    size_t n;
    int fd;
};

static void victim_make(struct victim *v)
{
    struct zl_error err = {0};
    char *data;
    scene_make(&v->s, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL);
    scene_open(&v->s);
    scene_write_well(&v->s, 1);
    scene_write_well(&v->s, 2);
    scene_close(&v->s);
    snprintf(v->path, sizeof v->path, "%s", scene_path(&v->s, "0000000002-step-2.zlc"));
    assert_int_equal(zl_file_read(v->path, 1 << 24, &data, &v->n, &err), 0);
    v->sound = (unsigned char *)data;
    v->bytes = malloc(2 * v->n);
    v->fd = open(v->path, O_RDWR);
    assert_true(v->fd >= 0);
}

static void victim_end(struct victim *v)
{
    close(v->fd);
    free(v->sound);
    free(v->bytes);
    scene_end(&v->s);
}

static void put_back(struct victim *v)
{
    assert_int_equal(ftruncate(v->fd, (off_t)v->n), 0);
    assert_int_equal(pwrite(v->fd, v->sound, v->n, 0), v->n);
}

/* The file as it lies there is refused with a sentence; parts that can still be read are right. deep: read them too. */
static void expect_noticed(struct victim *v, bool deep, const char *what, uint64_t i)
{
    struct zl_generation g;
    struct zl_error err = {0};
    int rc = zl_generation_open(&g, v->s.dir, "0000000002-step-2.zlc", &err);
    if (!rc && deep) {
        const char *difference = scene_compare(&g, scene_parts, SCENE_PARTS);
        if (difference && strstr(difference, "other bytes"))
            fail_msg("%s %llu: a reader gets %s", what, (unsigned long long)i, difference);
    }
    if (!rc) {
        rc = zl_generation_verify(&g, &err);
        zl_generation_close(&g);
    }
    if (!rc)
        fail_msg("%s %llu is not noticed", what, (unsigned long long)i);
    if (rc != ZL_EINPUT || !strstr(err.text, v->path))
        fail_msg("%s %llu: code %d, %s", what, (unsigned long long)i, rc, err.text);
    if (deep) {
        char said[4096];
        scene_expect_newest(&v->s, 1, said);
        assert_non_null(strstr(said, v->path));
    }
}

static uint64_t draw(uint64_t i, uint64_t *draws, uint64_t below)
{
    return zl_random_u64(i, ZL_STREAM_TEST, 3, (*draws)++) % below;
}

/* Where [*at, *at + *n) differs from what it was; false: the fault changed nothing. */
static bool fault(struct victim *v, uint64_t i, size_t *at, size_t *n)
{
    uint64_t draws = 0;
    const uint64_t kind = draw(i, &draws, 10), size = draw(i, &draws, 2) ? 512 : ZL_FORMAT_PAGE;
    memcpy(v->bytes, v->sound, v->n);
    *n = 1;
    *at = draw(i, &draws, v->n);
    if (kind < 6) { /* a bit */
        v->bytes[*at] ^= (unsigned char)(1u << draw(i, &draws, 8));
    } else if (kind == 6) { /* a byte */
        v->bytes[*at] = (unsigned char)draw(i, &draws, 256);
    } else {
        *n = size;
        *at = *at / size * size;
        const size_t from = draw(i, &draws, v->n) / size * size;
        if (kind == 7) /* zeros, as of a write that never happened */
            memset(v->bytes + *at, 0, size);
        else if (kind == 8) /* another place's bytes, as of a write that went astray */
            memcpy(v->bytes + *at, v->sound + from, size);
        else
            for (size_t k = 0; k < size; k++)
                v->bytes[*at + k] = (unsigned char)draw(i, &draws, 256);
    }
    return memcmp(v->bytes + *at, v->sound + *at, *n) != 0;
}

static void every_fault_is_noticed(void **state)
{
    (void)state;
    struct victim v;
    uint64_t done = 0, idle = 0;
    victim_make(&v);
    for (uint64_t i = first; done < count; i++) {
        size_t at, n;
        if (!fault(&v, i, &at, &n)) {
            idle++;
            continue;
        }
        assert_int_equal(pwrite(v.fd, v.bytes + at, n, (off_t)at), n);
        expect_noticed(&v, done % 16 == 0, "fault", i);
        assert_int_equal(pwrite(v.fd, v.sound + at, n, (off_t)at), n);
        done++;
    }
    scene_expect_newest(&v.s, 2, NULL);
    print_message("%llu faults in a file of %zu bytes, all noticed (%llu more changed nothing)\n", (unsigned long long)done, v.n,
                  (unsigned long long)idle);
    victim_end(&v);
}

static void swapped_blocks_are_noticed(void **state)
{
    (void)state;
    struct victim v;
    uint64_t swaps = 0;
    victim_make(&v);
    for (size_t size = ZL_FORMAT_PAGE; size <= ZL_FORMAT_BLOCK; size *= ZL_FORMAT_BLOCK / ZL_FORMAT_PAGE)
        for (size_t a = 0; a + size <= v.n; a += size)
            for (size_t b = a + size; b + size <= v.n; b += size * (size == ZL_FORMAT_PAGE ? 7 : 1)) {
                if (memcmp(v.sound + a, v.sound + b, size) == 0)
                    continue;
                assert_int_equal(pwrite(v.fd, v.sound + b, size, (off_t)a), size);
                assert_int_equal(pwrite(v.fd, v.sound + a, size, (off_t)b), size);
                expect_noticed(&v, false, "swap", swaps);
                assert_int_equal(pwrite(v.fd, v.sound + a, size, (off_t)a), size);
                assert_int_equal(pwrite(v.fd, v.sound + b, size, (off_t)b), size);
                swaps++;
            }
    print_message("%llu swaps, all noticed\n", (unsigned long long)swaps);
    victim_end(&v);
}

/* Cut off, or cut off and filled with zeros as a file system does that had the length but not the bytes. */
static void truncations_are_noticed(void **state)
{
    (void)state;
    struct victim v;
    uint64_t cuts = 0;
    victim_make(&v);
    for (size_t page = 0; page < v.n; page += ZL_FORMAT_PAGE)
        for (int off = -1; off <= 1; off++)
            for (int filled = 0; filled < 2; filled++) {
                const size_t n = page + (size_t)off;
                if (n >= v.n)
                    continue;
                size_t zeros = n;
                while (zeros < v.n && !v.sound[zeros])
                    zeros++;
                if (filled && zeros == v.n)
                    continue; /* it had nothing but zeros there */
                assert_int_equal(ftruncate(v.fd, (off_t)n), 0);
                if (filled)
                    assert_int_equal(ftruncate(v.fd, (off_t)v.n), 0);
                expect_noticed(&v, cuts % 16 == 0, filled ? "filled cut" : "cut", n);
                put_back(&v);
                cuts++;
            }
    for (size_t more = 1; more <= 2 * ZL_FORMAT_PAGE; more *= 2) {
        assert_int_equal(ftruncate(v.fd, (off_t)(v.n + more)), 0);
        expect_noticed(&v, true, "longer by", more);
        put_back(&v);
    }
    scene_expect_newest(&v.s, 2, NULL);
    print_message("%llu truncations, all noticed\n", (unsigned long long)cuts);
    victim_end(&v);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_is_noticed),
        cmocka_unit_test(swapped_blocks_are_noticed),
        cmocka_unit_test(truncations_are_noticed),
    };
    count = argc > 1 ? strtoull(argv[1], NULL, 10) : count;
    first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
