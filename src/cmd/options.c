/*
 * From argv and a configuration file to a struct of options: see options.h. The command line is first taken apart into
 * assignments (option, text), then the file's assignments are made for whatever the command line leaves open, then its own: so
 * the place of --config among the other options does not matter. Called once a process, by the subcommands.
 */
#include "config.h"

#include "cmd/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

const struct zl_option zl_common_options[] = {
    {.name = "config",
     .letter = 'c',
     .arg = "FILE",
     .kind = ZL_OPTION_STRING,
     .group = "General",
     .help = "Take options from the YAML file FILE, by the same names without dashes. Options on the command line win."},
    {.name = "help", .letter = 'h', .kind = ZL_OPTION_FLAG, .help = "Show this help and leave."},
};
const size_t zl_n_common_options = sizeof zl_common_options / sizeof zl_common_options[0];

void *zl_memory_keep(struct zl_memory *m, void *block)
{
    void **more = block ? realloc(m->block, (m->n + 1) * sizeof *more) : NULL;
    if (!more) {
        free(block);
        return NULL;
    }
    m->block = more;
    m->block[m->n++] = block;
    return block;
}

void zl_memory_free(struct zl_memory *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->block[i]);
    free(m->block);
    *m = (struct zl_memory){0};
}

const struct zl_option *zl_option_at(const struct zl_command *c, size_t i)
{
    if (i < c->n_options)
        return &c->options[i];
    i -= c->n_options;
    if (i < zl_n_common_options)
        return &zl_common_options[i];
    i -= zl_n_common_options;
    return c->passes && i < c->passes->n_options ? &c->passes->options[i] : NULL;
}

const struct zl_option *zl_option_find(const struct zl_command *c, const char *name, size_t length)
{
    const struct zl_option *o;
    for (size_t i = 0; (o = zl_option_at(c, i)); i++)
        if (strncmp(o->name, name, length) == 0 && !o->name[length])
            return o;
    return NULL;
}

const struct zl_option *zl_option_letter(const struct zl_command *c, char letter)
{
    const struct zl_option *o;
    for (size_t i = 0; letter && (o = zl_option_at(c, i)); i++)
        if (o->letter == letter)
            return o;
    return NULL;
}

static bool is_common(const struct zl_option *o)
{
    return o >= zl_common_options && o < zl_common_options + zl_n_common_options;
}

/* One value for one place, not yet read. */
struct assignment {
    const struct zl_option *option;   /* or NULL: */
    const struct zl_operand *operand;
    const char *text;
    const char *what;
};

struct assignments {
    struct assignment *v;
    size_t n;
};

struct parse {
    const struct zl_command *command;
    struct zl_memory *memory;
    struct assignments line, file;
    const char *config;
    bool help;
};

static int no_memory(struct zl_error *err)
{
    return zl_fail(err, ZL_EMEMORY, "no memory for the options");
}

static int add(struct assignments *a, struct assignment new, struct zl_error *err)
{
    struct assignment *more = realloc(a->v, (a->n + 1) * sizeof *more);
    if (!more)
        return no_memory(err);
    a->v = more;
    a->v[a->n++] = new;
    return 0;
}

static int add_option(struct parse *p, const struct zl_option *o, const char *text, struct zl_error *err)
{
    char *what = NULL;
    if (is_common(o)) {
        if (o->kind == ZL_OPTION_FLAG)
            p->help = true;
        else
            p->config = text;
        return 0;
    }
    if (asprintf(&what, "option --%s", o->name) < 0 || !zl_memory_keep(p->memory, what))
        return no_memory(err);
    return add(&p->line, (struct assignment){.option = o, .text = text, .what = what}, err);
}

/* "--name", "--name=value", or "--name value" with the value in `next`; *used_next tells. */
static int take_long(struct parse *p, const char *arg, const char *next, bool *used_next, struct zl_error *err)
{
    size_t length = strcspn(arg, "=");
    const char *value = arg[length] ? arg + length + 1 : NULL;
    const struct zl_option *o = zl_option_find(p->command, arg, length);
    if (!o) {
        char hint[128];
        zl_option_suggest(p->command, arg, length, "--", hint, sizeof hint);
        return zl_fail(err, ZL_EUSAGE, "unknown option '--%.*s'%s", (int)length, arg, hint);
    }
    if (o->kind == ZL_OPTION_FLAG && value)
        return zl_fail(err, ZL_EUSAGE, "option --%s takes no value, but '%s' was given", o->name, value);
    if (o->kind != ZL_OPTION_FLAG && !value) {
        if (!next)
            return zl_fail(err, ZL_EUSAGE, "option --%s needs a value", o->name);
        value = next;
        *used_next = true;
    }
    return add_option(p, o, value, err);
}

/* "-a", "-abc" of flags, "-oVALUE", "-o VALUE". One dash before a whole long name is a slip, never a bundle. */
static int take_short(struct parse *p, const char *letters, const char *next, bool *used_next, struct zl_error *err)
{
    if (letters[1] && zl_option_find(p->command, letters, strcspn(letters, "=")))
        return zl_fail(err, ZL_EUSAGE, "unknown option '-%s' (did you mean '--%s'?)", letters, letters);
    for (const char *l = letters; *l; l++) {
        const struct zl_option *o = zl_option_letter(p->command, *l);
        if (!o) {
            char hint[128];
            zl_option_suggest(p->command, letters, strlen(letters), "--", hint, sizeof hint);
            if (!letters[1])
                return zl_fail(err, ZL_EUSAGE, "unknown option '-%c'", *l);
            return zl_fail(err, ZL_EUSAGE, "unknown option '-%c' in '-%s'%s", *l, letters, hint);
        }
        const char *value = NULL;
        if (o->kind != ZL_OPTION_FLAG) {
            value = l[1] ? l + 1 : next;
            if (!value)
                return zl_fail(err, ZL_EUSAGE, "option -%c (--%s) needs a value", *l, o->name);
            *used_next = !l[1];
        }
        int rc = add_option(p, o, value, err);
        if (rc || value)
            return rc;
    }
    return 0;
}

/* Operand number i of the line; all surplus goes to the one that takes many. */
static int take_operand(struct parse *p, size_t i, const char *text, struct zl_error *err)
{
    const struct zl_command *c = p->command;
    if (i >= c->n_operands) {
        if (c->n_operands && c->operands[c->n_operands - 1].many)
            i = c->n_operands - 1;
        else
            return zl_fail(err, ZL_EUSAGE, "'%s' is one argument too many", text);
    }
    const struct zl_operand *o = &c->operands[i];
    return add(&p->line, (struct assignment){.operand = o, .text = text, .what = o->name}, err);
}

static int take_line(struct parse *p, int argc, char **argv, struct zl_error *err)
{
    size_t operands = 0;
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool used_next = false;
        int rc = 0;
        if (only_operands || arg[0] != '-' || !arg[1])
            rc = take_operand(p, operands++, arg, err);
        else if (strcmp(arg, "--") == 0)
            only_operands = true;
        else if (arg[1] == '-')
            rc = take_long(p, arg + 2, next, &used_next, err);
        else
            rc = take_short(p, arg + 1, next, &used_next, err);
        if (rc)
            return rc;
        i += used_next;
    }
    return 0;
}

/* An operand's key in a configuration file is its name in small letters. */
static const struct zl_operand *find_operand(const struct zl_command *c, const char *name)
{
    for (size_t i = 0; i < c->n_operands; i++)
        if (strcasecmp(c->operands[i].name, name) == 0 && name[0] >= 'a')
            return &c->operands[i];
    return NULL;
}

/* A zl_config_set. Elements of a comma list are joined to one text; those of other lists stay several assignments. */
static int take_file(void *context, const char *name, const char *value, int element, const char *what, struct zl_error *err)
{
    struct parse *p = context;
    const struct zl_option *o = zl_option_find(p->command, name, strlen(name));
    const struct zl_operand *operand = o ? NULL : find_operand(p->command, name);
    if (!o && !operand) {
        char hint[128];
        zl_option_suggest(p->command, name, strlen(name), "", hint, sizeof hint);
        return zl_fail(err, ZL_EUSAGE, "%s is no option of 'zerolock %s'%s", what, p->command->name, hint);
    }
    if (o && is_common(o))
        return zl_fail(err, ZL_EUSAGE, "%s cannot stand in a configuration file", what);
    bool commas = o && (o->kind == ZL_OPTION_COMMAS || o->kind == ZL_OPTION_NUMBERS);
    bool list = commas || (o ? o->kind == ZL_OPTION_LIST : operand->many);
    if (element >= 0 && !list)
        return zl_fail(err, ZL_EUSAGE, "%s takes one value, not a list", what);
    struct assignment *last = p->file.n ? &p->file.v[p->file.n - 1] : NULL;
    char *text = NULL, *kept = zl_memory_keep(p->memory, strdup(what));
    if (asprintf(&text, "%s%s%s", commas && element > 0 ? last->text : "", commas && element > 0 ? "," : "", value) < 0)
        text = NULL;
    if (!zl_memory_keep(p->memory, text) || !kept)
        return no_memory(err);
    if (commas && element > 0) {
        last->text = text;
        return 0;
    }
    return add(&p->file, (struct assignment){o, operand, text, kept}, err);
}

static bool assigned(const struct assignments *a, const struct assignment *x)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].option == x->option && a->v[i].operand == x->operand)
            return true;
    return false;
}

/* An option of the command that is passed on: is the value one of its values? Then it is kept as a text. */
static int pass_on(const struct zl_command *c, const struct zl_option *o, const char *text, const char *what, void *options,
                   struct zl_memory *m, struct zl_error *err)
{
    static const struct zl_option as = {.name = "", .kind = ZL_OPTION_LIST};
    struct zl_option list = as;
    void *scratch = zl_memory_keep(m, calloc(1, c->passes->given + sizeof(struct zl_given)));
    char *argument = NULL;
    if (!scratch)
        return no_memory(err);
    int rc = zl_option_set(o, text, what, scratch, m, err);
    if (rc || (o->kind == ZL_OPTION_FLAG && text && strcmp(text, "false") == 0))
        return rc;
    const bool value = o->kind != ZL_OPTION_FLAG;
    if (asprintf(&argument, "--%s%s%s", o->name, value ? "=" : "", value ? text : "") < 0 || !zl_memory_keep(m, argument))
        return no_memory(err);
    list.offset = c->passed;
    return zl_option_set(&list, argument, what, options, m, err);
}

static bool is_passed_on(const struct zl_command *c, const struct zl_option *o)
{
    return c->passes && o >= c->passes->options && o < c->passes->options + c->passes->n_options;
}

static int assign(const struct parse *p, const struct assignment *a, void *options, struct zl_error *err)
{
    struct zl_given *given = (void *)((char *)options + p->command->given);
    if (a->option && is_passed_on(p->command, a->option))
        return pass_on(p->command, a->option, a->text, a->what, options, p->memory, err);
    if (a->option) {
        given->at[a->option->offset] = 1;
        return zl_option_set(a->option, a->text, a->what, options, p->memory, err);
    }
    given->at[a->operand->offset] = 1;
    const struct zl_option as = {.name = a->operand->name,
                                 .offset = a->operand->offset,
                                 .kind = a->operand->many ? ZL_OPTION_LIST : ZL_OPTION_STRING};
    return zl_option_set(&as, a->text, a->what, options, p->memory, err);
}

static int assign_all(struct parse *p, void *options, struct zl_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->file.n; i++)
        if (!assigned(&p->line, &p->file.v[i]))
            rc = assign(p, &p->file.v[i], options, err);
    for (size_t i = 0; rc == 0 && i < p->line.n; i++)
        rc = assign(p, &p->line.v[i], options, err);
    return rc;
}

bool zl_option_waived(const struct zl_command *c, const struct zl_option *o)
{
    for (const char *const *name = c->waives; name && *name; name++)
        if (strcmp(*name, o->name) == 0)
            return true;
    return false;
}

static int check_complete(const struct zl_command *c, const void *options, struct zl_error *err)
{
    const struct zl_given *given = (const void *)((const char *)options + c->given);
    for (size_t i = 0; i < c->n_operands; i++)
        if (!c->operands[i].optional && !given->at[c->operands[i].offset])
            return zl_fail(err, ZL_EUSAGE, "%s is missing", c->operands[i].name);
    for (size_t i = 0; i < c->n_options; i++)
        if (c->options[i].required && !given->at[c->options[i].offset] && !zl_option_waived(c, &c->options[i]))
            return zl_fail(err, ZL_EUSAGE, "option --%s is missing", c->options[i].name);
    return 0;
}

/* Defaults, then the configuration file, then the line. */
static int fill(struct parse *p, void *options, struct zl_error *err)
{
    const struct zl_command *c = p->command;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->n_options; i++)
        if (c->options[i].fallback)
            rc = zl_option_set(&c->options[i], c->options[i].fallback, c->options[i].name, options, p->memory, err);
    if (rc == 0 && p->config)
        rc = zl_config_read(p->config, take_file, p, err);
    if (rc == 0)
        rc = assign_all(p, options, err);
    return rc ? rc : check_complete(c, options, err);
}

int zl_options_parse(const struct zl_command *c, int argc, char **argv, void *options, struct zl_memory *m, struct zl_error *err)
{
    struct parse p = {.command = c, .memory = m};
    memset(options, 0, c->given + sizeof(struct zl_given));
    if (argc == 2 && strcmp(argv[1], "--help-options") == 0) {
        zl_command_table(c, stdout);
        return ZL_PARSED_HELP;
    }
    int rc = take_line(&p, argc, argv, err);
    if (rc == 0 && p.help) {
        zl_command_help(c, zl_help_columns(), stdout);
        rc = ZL_PARSED_HELP;
        goto out;
    }
    if (rc == 0)
        rc = fill(&p, options, err);
out:
    free(p.line.v);
    free(p.file.v);
    return rc;
}

int zl_options_look(const struct zl_command *c, int argc, char **argv, const char *const *names, unsigned *given)
{
    struct zl_memory m = {0};
    struct parse p = {.command = c, .memory = &m};
    size_t operands = 0;
    int at = take_line(&p, argc, argv, NULL) ? -1 : 0;
    *given = 0;
    for (size_t i = 0; at >= 0 && i < p.line.n; i++) {
        const struct assignment *a = &p.line.v[i];
        operands += a->operand != NULL;
        for (int k = 1; a->operand && k < argc; k++)
            at = argv[k] == a->text ? k : at;
        for (unsigned k = 0; a->option && names[k]; k++)
            *given |= strcmp(a->option->name, names[k]) == 0 ? 1u << k : 0;
    }
    zl_memory_free(&m);
    free(p.line.v);
    free(p.file.v);
    return operands == 1 ? at : at < 0 ? at : 0;
}

static int take_pair(struct parse *p, const struct zl_pair *pair, struct zl_error *err)
{
    const struct zl_option *o = zl_option_find(p->command, pair->name, strlen(pair->name));
    if (!o || (is_common(o) && o->kind == ZL_OPTION_FLAG)) {
        char hint[128];
        zl_option_suggest(p->command, pair->name, strlen(pair->name), "", hint, sizeof hint);
        return zl_fail(err, ZL_EUSAGE, "unknown option '%s'%s", pair->name, hint);
    }
    if (o->kind != ZL_OPTION_FLAG && !pair->value)
        return zl_fail(err, ZL_EUSAGE, "option %s needs a value", o->name);
    return add_option(p, o, pair->value, err);
}

int zl_options_pairs(const struct zl_command *c, const char *const *operand, size_t n_operands, const struct zl_pair *pair, size_t n,
                     void *options, struct zl_memory *m, struct zl_error *err)
{
    struct parse p = {.command = c, .memory = m};
    int rc = 0;
    memset(options, 0, c->given + sizeof(struct zl_given));
    for (size_t i = 0; rc == 0 && i < n_operands; i++)
        rc = take_operand(&p, i, operand[i], err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = take_pair(&p, &pair[i], err);
    if (rc == 0)
        rc = fill(&p, options, err);
    free(p.line.v);
    free(p.file.v);
    return rc;
}

int zl_command_finish(const struct zl_command *c, int rc, const struct zl_error *err)
{
    if (rc >= 0)
        return 0;
    zl_log_error(err);
    if (rc != ZL_EUSAGE)
        return 1;
    fprintf(stderr, "try 'zerolock %s --help'\n", c->name);
    return 2;
}
