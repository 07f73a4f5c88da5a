/* See quote.h: control bytes become '?', long names are cut at a character's start and end in
 * "...". */
#include "format/quote.h"

#include <string.h>

struct zl_quoted zl_quote_n(const char *name, size_t len)
{
    struct zl_quoted q;
    const size_t room = sizeof q.s - 4;
    size_t n = len;
    if (n > room)
        for (n = room; n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80; n--)
            ;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)name[i];
        q.s[i] = c < 0x20 || c == 0x7f ? '?' : name[i];
    }
    strcpy(q.s + n, n < len ? "..." : "");
    return q;
}

struct zl_quoted zl_quote(const char *name)
{
    return zl_quote_n(name, strlen(name));
}
