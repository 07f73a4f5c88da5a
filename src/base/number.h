/*
 * Numbers in text: read from what a user typed, written for people and for files, the same in every locale. Not for
 * JSON (jansson) and not a general scanner: a text is one number, from its first byte to its last, or an error.
 */
#ifndef ZL_BASE_NUMBER_H
#define ZL_BASE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* All readers: `what` names the value in errors ("option --steps"); on failure *out is untouched and the result is
 * ZL_EUSAGE with a sentence that quotes the text and says what would be right. No blanks, no signs before unsigned values. */

/* A whole number, optionally with k, M or G for thousands, millions, thousand millions: 200, 10k. */
int zl_number_u64(const char *text, const char *what, uint64_t *out, struct zl_error *err);

/* A finite decimal: 1, -0.5, .25, 3e-3. Correctly rounded; too small becomes 0, too large is an error. */
int zl_number_double(const char *text, const char *what, double *out, struct zl_error *err);

/* A share in 0..1, as decimal or percentage: 0.1, 10%. */
int zl_number_share(const char *text, const char *what, double *out, struct zl_error *err);

/* A size in bytes: 4096, 512M, 1.5G, 200MiB (powers of 1024), 200MB (powers of 1000). Rounded down to a byte. */
int zl_number_size(const char *text, const char *what, uint64_t *out, struct zl_error *err);

#define ZL_NUMBER_TEXT 40 /* bytes that hold any of these texts */

/* The shortest decimal that reads back as the same double: 0.003, 1e-05; whole numbers below 1e15 in full: 10000. */
void zl_number_text(char out[ZL_NUMBER_TEXT], double v);

/* v with a fixed number of decimals (0..9), a point as decimal sign whatever the locale; "inf" and "nan" as such. */
void zl_number_fixed(char out[ZL_NUMBER_TEXT], double v, int decimals);

/* For people: "98.1 MiB"; "134.5 M"; "1:02:03" or "12:05". */
void zl_number_bytes(char out[ZL_NUMBER_TEXT], uint64_t bytes);
void zl_number_count(char out[ZL_NUMBER_TEXT], uint64_t n);
void zl_number_seconds(char out[ZL_NUMBER_TEXT], double seconds);

#endif
