/* Growing arrays: what fits grows and keeps its content, what cannot fit is refused untouched. */
#include "tests/unit/test.h"

#include "format/grow.h"

static void an_array_grows_and_keeps_its_elements(void **state)
{
    (void)state;
    uint32_t *a = NULL;
    uint64_t capacity = 0, reallocations = 0;
    for (uint64_t n = 0; n < 100000; n++) {
        struct zl_error err = {0};
        uint64_t before = capacity;
        assert_int_equal(zl_array_grow((void **)&a, n + 1, &capacity, sizeof *a, "numbers", &err),
                         0);
        assert_true(capacity > n);
        reallocations += capacity != before;
        a[n] = (uint32_t)n;
    }
    for (uint64_t n = 0; n < 100000; n++)
        assert_int_equal(a[n], n);
    print_message("%d reallocations for 100000 elements, bound 20\n", (int)reallocations);
    assert_true(reallocations < 20);
    free(a);
}

static void what_the_machine_cannot_hold_is_refused_and_nothing_changes(void **state)
{
    (void)state;
    uint32_t *a = NULL;
    uint64_t capacity = 0;
    struct zl_error err = {0};
    assert_int_equal(zl_array_grow((void **)&a, 1, &capacity, sizeof *a, "numbers", &err), 0);
    uint32_t *old = a;
    const uint64_t old_capacity = capacity;
    const uint64_t needs[] = {(uint64_t)1 << 48, (uint64_t)1 << 61, (uint64_t)1 << 62,
                              (uint64_t)1 << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        err = (struct zl_error){0};
        assert_int_equal(
            zl_array_grow((void **)&a, needs[i], &capacity, sizeof *a, "numbers", &err),
            ZL_EMEMORY);
        assert_non_null(strstr(err.text, "numbers"));
        assert_ptr_equal(a, old);
        assert_int_equal(capacity, old_capacity);
        assert_int_equal(zl_array_check(needs[i], sizeof *a, "numbers", NULL), ZL_EMEMORY);
    }
    assert_int_equal(zl_array_check(1000, sizeof *a, "numbers", NULL), 0);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_grows_and_keeps_its_elements),
        cmocka_unit_test(what_the_machine_cannot_hold_is_refused_and_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
