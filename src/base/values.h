/*
 * The plain types that option structs are made of, beside C's own. A command's table of options fills them; the parts that
 * do the work read them and know nothing of tables, command lines or configuration files.
 */
#ifndef ZL_BASE_VALUES_H
#define ZL_BASE_VALUES_H

#include <stddef.h>
#include <stdint.h>

struct zl_strings {
    const char **v;
    size_t n;
};

struct zl_numbers {
    uint64_t *v;
    size_t n;
};

/* Which options the user gave, on the command line or in the configuration file, told from those that kept their default:
 * at[offset of the field in its struct] is 1. Ask with ZL_GIVEN(options, field). */
struct zl_given {
    unsigned char at[512];
};

#define ZL_GIVEN(o, field) ((o)->given.at[offsetof(__typeof__(*(o)), field)] != 0)

#endif
