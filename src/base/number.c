/*
 * Numbers in text: see number.h. Integers are scanned here digit by digit. Decimals are checked against our grammar and then
 * handed to the C library inside a "C" locale object of our own, so the process's locale, which a program that
 * embeds us may have set, plays no part and the rounding is exact.
 */
#include "config.h"

#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* The "C" locale; glibc and musl give it without allocating, so it cannot fail. */
static locale_t the_c_locale(void)
{
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *p)
{
    while (is_digit(*p))
        p++;
    return p;
}

/* Digits at *p into *out; false without a digit or when they pass 64 bits. */
static bool scan_digits(const char **p, uint64_t *out)
{
    if (!is_digit(**p))
        return false;
    uint64_t v = 0;
    for (; is_digit(**p); (*p)++)
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(**p - '0'), &v))
            return false;
    *out = v;
    return true;
}

int zl_number_u64(const char *text, const char *what, uint64_t *out, struct zl_error *err)
{
    const char *end = skip_digits(text);
    uint64_t unit = 1;
    if (end != text && *end && !end[1]) {
        unit = *end == 'k' ? 1000 : *end == 'M' ? 1000000 : *end == 'G' ? 1000000000 : 1;
        end += unit > 1;
    }
    if (end == text || *end)
        return zl_fail(err, ZL_EUSAGE, "%s: '%s' is not a whole number such as 200 or 10k", what, text);
    uint64_t v;
    const char *p = text;
    if (!scan_digits(&p, &v) || __builtin_mul_overflow(v, unit, &v))
        return zl_fail(err, ZL_EUSAGE, "%s: %s is more than 64 bits hold", what, text);
    *out = v;
    return 0;
}

/* The end of a decimal at p, or NULL when there is none. */
static const char *skip_decimal(const char *p)
{
    p += *p == '-' || *p == '+';
    const char *whole = p;
    p = skip_digits(p);
    ptrdiff_t digits = p - whole;
    if (*p == '.') {
        const char *part = ++p;
        p = skip_digits(p);
        digits += p - part;
    }
    if (!digits)
        return NULL;
    if (*p == 'e' || *p == 'E') {
        const char *power = p + 1;
        power += *power == '-' || *power == '+';
        if (!is_digit(*power))
            return NULL;
        p = skip_digits(power);
    }
    return p;
}

int zl_number_double(const char *text, const char *what, double *out, struct zl_error *err)
{
    const char *end = skip_decimal(text);
    if (!end || *end)
        return zl_fail(err, ZL_EUSAGE, "%s: '%s' is not a number such as 0.003 or 3e-3", what, text);
    double v = strtod_l(text, NULL, the_c_locale());
    if (!isfinite(v))
        return zl_fail(err, ZL_EUSAGE, "%s: %s is more than a number can hold", what, text);
    *out = v;
    return 0;
}

int zl_number_share(const char *text, const char *what, double *out, struct zl_error *err)
{
    const char *end = skip_decimal(text);
    if (!end || (*end && strcmp(end, "%") != 0))
        return zl_fail(err, ZL_EUSAGE, "%s: '%s' is not a share such as 0.1 or 10%%", what, text);
    double v = strtod_l(text, NULL, the_c_locale()) / (*end ? 100 : 1);
    if (!(v >= 0 && v <= 1))
        return zl_fail(err, ZL_EUSAGE, "%s: %s is not between 0 and 1 (or 0%% and 100%%)", what, text);
    *out = v;
    return 0;
}

static const struct {
    const char *suffix;
    uint64_t bytes;
} units[] = {
    {"", 1},
    {"B", 1},
    {"K", UINT64_C(1) << 10},
    {"M", UINT64_C(1) << 20},
    {"G", UINT64_C(1) << 30},
    {"T", UINT64_C(1) << 40},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {"kB", UINT64_C(1000)},
    {"MB", UINT64_C(1000000)},
    {"GB", UINT64_C(1000000000)},
    {"TB", UINT64_C(1000000000000)},
};

int zl_number_size(const char *text, const char *what, uint64_t *out, struct zl_error *err)
{
    const char *end = skip_digits(text), *part = NULL;
    if (end != text && *end == '.') {
        part = end + 1;
        end = skip_digits(part);
    }
    size_t u = 0, n = sizeof units / sizeof units[0];
    while (u < n && strcmp(end, units[u].suffix) != 0)
        u++;
    if (end == text || end == part || u == n)
        return zl_fail(err, ZL_EUSAGE, "%s: '%s' is not a size such as 4096, 512M or 1.5GiB", what, text);
    uint64_t whole, v;
    const char *p = text;
    bool fits = scan_digits(&p, &whole) && !__builtin_mul_overflow(whole, units[u].bytes, &v);
    if (fits && part) { /* nine decimals are finer than a byte of a GiB; further ones are dropped */
        uint64_t fraction = 0, scale = 1;
        for (p = part; p < end && scale < 1000000000; p++, scale *= 10)
            fraction = fraction * 10 + (uint64_t)(*p - '0');
        fits = !__builtin_add_overflow(
            v, (uint64_t)((unsigned __int128)fraction * units[u].bytes / scale), &v);
    }
    if (!fits)
        return zl_fail(err, ZL_EUSAGE, "%s: %s is more than 64 bits hold", what, text);
    *out = v;
    return 0;
}

/* snprintf of one double in the "C" locale. */
static void print(char out[ZL_NUMBER_TEXT], const char *format, int precision, double v)
{
    locale_t old = uselocale(the_c_locale());
    snprintf(out, ZL_NUMBER_TEXT, format, precision, v);
    uselocale(old);
}

void zl_number_text(char out[ZL_NUMBER_TEXT], double v)
{
    if (fabs(v) < 1e15 && v == floor(v)) { /* 10000, not 1e+04 */
        print(out, "%.*f", 0, v);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        print(out, "%.*g", digits, v);
        if (isnan(v) || strtod_l(out, NULL, the_c_locale()) == v)
            return;
    }
}

void zl_number_fixed(char out[ZL_NUMBER_TEXT], double v, int decimals)
{
    print(out, fabs(v) < 1e20 ? "%.*f" : "%.*g", decimals, v);
}

/* v in the largest of the units that leaves at least 1 before the point, one decimal; whole below the first unit. */
static void scaled(char out[ZL_NUMBER_TEXT], uint64_t v, double base, const char *const *names)
{
    double x = (double)v;
    int i = 0;
    while (x >= base && names[i + 1]) {
        x /= base;
        i++;
    }
    print(out, "%.*f", i ? 1 : 0, x);
    size_t n = strlen(out);
    snprintf(out + n, ZL_NUMBER_TEXT - n, "%s%s", names[i][0] ? " " : "", names[i]);
}

void zl_number_bytes(char out[ZL_NUMBER_TEXT], uint64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};
    scaled(out, bytes, 1024, names);
}

void zl_number_count(char out[ZL_NUMBER_TEXT], uint64_t n)
{
    static const char *const names[] = {"", "k", "M", "G", "T", "P", NULL};
    scaled(out, n, 1000, names);
}

void zl_number_seconds(char out[ZL_NUMBER_TEXT], double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        snprintf(out, ZL_NUMBER_TEXT, "-");
        return;
    }
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < 3600)
        snprintf(out, ZL_NUMBER_TEXT, "%lu:%02lu", s / 60, s % 60);
    else
        snprintf(out, ZL_NUMBER_TEXT, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}
