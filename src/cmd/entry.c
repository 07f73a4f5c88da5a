/* Entries of a list of runs: see entry.h. */
#include "config.h"

#include "cmd/entry.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(struct zl_error *err)
{
    return zl_fail(err, ZL_EMEMORY, "no memory for the options");
}

int zl_entry_parse(const char *text, struct zl_entry *e, struct zl_memory *m, struct zl_error *err)
{
    char *rest = zl_memory_keep(m, strdup(text)), *part = rest ? strsep(&rest, ":") : NULL;
    *e = (struct zl_entry){.text = text, .schedule = part};
    if (!part)
        return no_memory(err);
    if (!*part)
        return zl_fail(err, ZL_EUSAGE, "--schedules: '%s' begins without the name of a schedule", text);
    size_t most = 1;
    for (const char *s = text; *s; s++)
        most += *s == ':';
    e->pair = zl_memory_keep(m, calloc(most, sizeof *e->pair));
    if (!e->pair)
        return no_memory(err);
    while ((part = strsep(&rest, ":"))) {
        char *value = strchr(part, '=');
        if (!*part || value == part)
            return zl_fail(err, ZL_EUSAGE, "--schedules: '%s' has a colon without the name of an option behind it", text);
        if (value)
            *value++ = 0;
        for (char *s = value; s && *s; s++)
            if (*s == '+')
                *s = ',';
        e->pair[e->n++] = (struct zl_pair){part, value};
    }
    return 0;
}

int zl_entry_apply(const struct zl_entry *e, const struct zl_command *c, const char *const *without, void *options, struct zl_memory *m,
                   struct zl_error *err)
{
    struct zl_given *given = (void *)((char *)options + c->given);
    for (size_t i = 0; i < e->n; i++) {
        const struct zl_pair *p = &e->pair[i];
        const struct zl_option *o = zl_option_find(c, p->name, strlen(p->name));
        bool barred = o && o >= zl_common_options && o < zl_common_options + zl_n_common_options;
        for (const char *const *w = without; *w; w++)
            barred |= strcmp(*w, p->name) == 0;
        if (barred)
            return zl_fail(err, ZL_EUSAGE, "--schedules: %s concerns the whole call and cannot stand in '%s'", p->name, e->text);
        if (!o) {
            char hint[128];
            zl_option_suggest(c, p->name, strlen(p->name), "", hint, sizeof hint);
            return zl_fail(err, ZL_EUSAGE, "--schedules: unknown option '%s' in '%s'%s", p->name, e->text, hint);
        }
        if (o->kind != ZL_OPTION_FLAG && !p->value)
            return zl_fail(err, ZL_EUSAGE, "--schedules: %s in '%s' needs a value", p->name, e->text);
        char *what = NULL;
        if (asprintf(&what, "%s in '%s'", p->name, e->text) < 0 || !zl_memory_keep(m, what))
            return no_memory(err);
        int rc = zl_option_set(o, p->value, what, options, m, err);
        if (rc)
            return rc;
        given->at[o->offset] = 1;
    }
    return 0;
}
