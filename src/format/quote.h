/*
 * Names from files in error sentences: a hostile name must not bring newlines or terminal controls
 * along, nor fill the sentence. zl_quote(name).s is valid to the end of the full expression.
 */
#ifndef ZL_FORMAT_QUOTE_H
#define ZL_FORMAT_QUOTE_H

#include <stddef.h>

struct zl_quoted {
    char s[128];
};

struct zl_quoted zl_quote(const char *name);
struct zl_quoted zl_quote_n(const char *name, size_t len);

#endif
