/*
 * An entry of a list of runs to be compared: a schedule and, behind colons, options of its own: "zerolock:readout=ridge:stages=3". A
 * comma within a value is written as a plus, since commas part the entries: "1f1b:bounds=0+10+20".
 */
#ifndef ZL_CMD_ENTRY_H
#define ZL_CMD_ENTRY_H

#include "cmd/options.h"

struct zl_entry {
    const char *text; /* as the user wrote it */
    const char *schedule;
    struct zl_pair *pair; /* [n]; value NULL: a flag */
    size_t n;
};

/* ZL_EUSAGE when it is no entry. What is named is not looked up. */
int zl_entry_parse(const char *text, struct zl_entry *e, struct zl_memory *m, struct zl_error *err);

/* Set the entry's options in `options`, a copy of those of command c. "schedules" and what concerns the whole call (`without`, names
 * ended by NULL) cannot stand in an entry. */
int zl_entry_apply(const struct zl_entry *e, const struct zl_command *c, const char *const *without, void *options, struct zl_memory *m,
                   struct zl_error *err);

#endif
