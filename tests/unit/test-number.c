/* Numbers in text: what is accepted, what is refused and with which sentence; and that no locale changes any of it. */
#include "tests/unit/test.h"

#include <locale.h>
#include <math.h>

#include "base/number.h"

static int refused(int rc, struct zl_error *e, const char *part)
{
    assert_int_equal(rc, ZL_EUSAGE);
    assert_int_equal(e->code, ZL_EUSAGE);
    if (!strstr(e->text, part))
        fail_msg("'%s' lacks '%s'", e->text, part);
    assert_null(strchr(e->text, '\n'));
    return 1;
}

static void whole_numbers_are_read(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"0", 0},           {"7", 7},
                {"007", 7},         {"10k", 10000},
                {"2M", 2000000},    {"3G", 3000000000u},
                {"0k", 0},          {"18446744073709551615", UINT64_MAX},
                {"18446744073709551k", UINT64_C(18446744073709551000)}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t v = 99;
        struct zl_error e = {0};
        assert_int_equal(zl_number_u64(good[i].text, "x", &v, &e), 0);
        assert_true(v == good[i].value);
    }
}

static void other_text_is_not_a_whole_number(void **state)
{
    (void)state;
    const char *bad[] = {"", " 1", "1 ", "-1", "+1", "1.5", "1e3", "0x10", "k", "1kk", "1K", "1kB", "ten", "1,000", "1_0"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t v = 99;
        struct zl_error e = {0};
        refused(zl_number_u64(bad[i], "option --steps", &v, &e), &e, "is not a whole number");
        assert_non_null(strstr(e.text, "option --steps: '"));
        assert_int_equal(v, 99);
    }
    const char *large[] = {"18446744073709551616", "18446744073709552k", "99999999999999999999999999", "18446744074G"};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        uint64_t v;
        struct zl_error e = {0};
        refused(zl_number_u64(large[i], "x", &v, &e), &e, "64 bits");
    }
}

static void decimals_are_read(void **state)
{
    (void)state;
    const struct {
        const char *text;
        double value;
    } good[] = {{"1", 1},      {"-0.5", -0.5}, {".25", .25},   {"3.", 3},       {"3e-3", 3e-3},
                {"1E5", 1e5},  {"+2", 2},      {"1e-05", 1e-5}, {"1e-999", 0}, {"0.1", 0.1},
                {"1.7976931348623157e308", 1.7976931348623157e308}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double v = 99;
        struct zl_error e = {0};
        assert_int_equal(zl_number_double(good[i].text, "x", &v, &e), 0);
        assert_true(v == good[i].value);
    }
}

static void other_text_is_not_a_decimal(void **state)
{
    (void)state;
    const char *bad[] = {"", ".", "-", "e3", "1e", "1e+", "0x1p3", "inf", "nan", "NaN", " 1", "1 ", "1,5", "1.5.2", "--1", "1f"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double v = 99;
        struct zl_error e = {0};
        refused(zl_number_double(bad[i], "option --lr", &v, &e), &e, "is not a number such as");
        assert_true(v == 99);
    }
    double v;
    struct zl_error e = {0};
    refused(zl_number_double("1e999", "x", &v, &e), &e, "more than a number can hold");
}

static void shares_are_decimals_or_percentages(void **state)
{
    (void)state;
    double v = 0;
    struct zl_error e = {0};
    assert_int_equal(zl_number_share("10%", "x", &v, &e), 0);
    assert_true(v == 0.1);
    assert_int_equal(zl_number_share("0.1", "x", &v, &e), 0);
    assert_true(v == 0.1);
    assert_int_equal(zl_number_share("100%", "x", &v, &e), 0);
    assert_true(v == 1);
    const char *bad[] = {"10 %", "%", "", "1%%", "a tenth"}, *outside[] = {"101%", "1.01", "-1%", "10", "1e999"};
    for (size_t i = 0; i < 5; i++) {
        e = (struct zl_error){0};
        refused(zl_number_share(bad[i], "x", &v, &e), &e, "is not a share");
        e = (struct zl_error){0};
        refused(zl_number_share(outside[i], "x", &v, &e), &e, "is not between 0 and 1");
    }
}

static void sizes_have_units(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"4096", 4096},
                {"1B", 1},
                {"512M", UINT64_C(512) << 20},
                {"2G", UINT64_C(2) << 30},
                {"200MiB", UINT64_C(200) << 20},
                {"200MB", 200000000},
                {"1.5G", UINT64_C(3) << 29},
                {"0.5KiB", 512},
                {"1.0000000000009K", 1024},
                {"16777215.99T", (UINT64_C(16777215) << 40) + ((UINT64_C(99) << 40) / 100)}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t v = 99;
        struct zl_error e = {0};
        assert_int_equal(zl_number_size(good[i].text, "x", &v, &e), 0);
        assert_true(v == good[i].value);
    }
    const char *bad[] = {"", "G", "1.", ".5G", "1 G", "1g", "1Gb", "-1G", "1.5.5G", "1,5G", "1e3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t v = 99;
        struct zl_error e = {0};
        refused(zl_number_size(bad[i], "x", &v, &e), &e, "is not a size such as");
        assert_int_equal(v, 99);
    }
    uint64_t v;
    struct zl_error e = {0};
    refused(zl_number_size("16777216T", "x", &v, &e), &e, "64 bits");
}

static void the_shortest_text_reads_back_as_the_same_double(void **state)
{
    (void)state;
    const double values[] = {0, 1, 0.1, 3e-3, 1e-5, 1.0 / 3, 2.718281828459045, 5e-324, 1.7976931348623157e308, -0.25, 1e21};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[ZL_NUMBER_TEXT];
        double back;
        zl_number_text(text, values[i]);
        assert_int_equal(zl_number_double(text, "x", &back, NULL), 0);
        assert_true(back == values[i]);
    }
    char text[ZL_NUMBER_TEXT];
    zl_number_text(text, 0.003);
    assert_string_equal(text, "0.003");
    zl_number_text(text, 16);
    assert_string_equal(text, "16");
    zl_number_text(text, 10000);
    assert_string_equal(text, "10000");
    zl_number_text(text, 1e-5);
    assert_string_equal(text, "1e-05");
}

static void people_read_sizes_counts_and_times(void **state)
{
    (void)state;
    char t[ZL_NUMBER_TEXT];
    zl_number_bytes(t, 512);
    assert_string_equal(t, "512 B");
    zl_number_bytes(t, 102828032);
    assert_string_equal(t, "98.1 MiB");
    zl_number_bytes(t, UINT64_MAX);
    assert_string_equal(t, "16.0 EiB");
    zl_number_count(t, 999);
    assert_string_equal(t, "999");
    zl_number_count(t, 134515008);
    assert_string_equal(t, "134.5 M");
    zl_number_seconds(t, 59.6);
    assert_string_equal(t, "1:00");
    zl_number_seconds(t, 3723);
    assert_string_equal(t, "1:02:03");
    zl_number_seconds(t, NAN);
    assert_string_equal(t, "-");
    zl_number_seconds(t, -1);
    assert_string_equal(t, "-");
    zl_number_fixed(t, 2.0 / 3, 4);
    assert_string_equal(t, "0.6667");
    zl_number_fixed(t, 1e300, 9);
    assert_string_equal(t, "1e+300");
}

/* A locale with a decimal comma, made from its source where the system has none installed; skips where that fails too. */
static void a_locale_with_a_decimal_comma_changes_nothing(void **state)
{
    (void)state;
    const char *names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; i < 4 && !found; i++)
        found = setlocale(LC_ALL, names[i]);
    char folder[] = "/tmp/zl-locale-XXXXXX", command[256] = "";
    if (!found && mkdtemp(folder)) {
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
        if (system(command) >= 0 && setenv("LOCPATH", folder, 1) == 0)
            found = setlocale(LC_ALL, "de_DE.UTF-8");
        unsetenv("LOCPATH");
        snprintf(command, sizeof command, "rm -rf %s", folder);
    }
    if (!found) {
        print_message("skipped: no locale with a decimal comma here, and localedef made none\n");
        if (command[0] && system(command) != 0)
            print_message("%s stays behind\n", folder);
        skip();
    }
    char text[ZL_NUMBER_TEXT];
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5"); /* the locale is really on */
    double v = 0;
    assert_int_equal(zl_number_double("1e-4", "x", &v, NULL), 0);
    assert_true(v == 1e-4);
    assert_int_equal(zl_number_double("0.25", "x", &v, NULL), 0);
    assert_true(v == 0.25);
    assert_int_equal(zl_number_double("0,25", "x", &v, NULL), ZL_EUSAGE);
    zl_number_text(text, 0.003);
    assert_string_equal(text, "0.003");
    zl_number_fixed(text, 0.5, 1);
    assert_string_equal(text, "0.5");
    zl_number_bytes(text, 1536);
    assert_string_equal(text, "1.5 KiB");
    setlocale(LC_ALL, "C");
    if (command[0])
        assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read),
        cmocka_unit_test(other_text_is_not_a_whole_number),
        cmocka_unit_test(decimals_are_read),
        cmocka_unit_test(other_text_is_not_a_decimal),
        cmocka_unit_test(shares_are_decimals_or_percentages),
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(the_shortest_text_reads_back_as_the_same_double),
        cmocka_unit_test(people_read_sizes_counts_and_times),
        cmocka_unit_test(a_locale_with_a_decimal_comma_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
