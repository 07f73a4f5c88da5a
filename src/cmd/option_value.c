/*
 * One option's value: from text into its field, and from its field into text. Every kind is one case here, in both directions;
 * writing a value and reading it again gives the same bits.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "cmd/options.h"

static int no_memory(const char *what, struct zl_error *err)
{
    return zl_fail(err, ZL_EMEMORY, "%s: no memory for the value", what);
}

static int check_range(const struct zl_option *o, double v, const char *text, const char *what, struct zl_error *err)
{
    char limit[ZL_NUMBER_TEXT];
    if (v < o->min || (o->above_min && v <= o->min)) {
        zl_number_text(limit, o->min);
        return zl_fail(err, ZL_EUSAGE, "%s: %s is too small, it must be %s %s", what, text,
                       o->above_min ? "more than" : "at least", limit);
    }
    if (o->max > 0 && (v > o->max || (o->below_max && v >= o->max))) {
        zl_number_text(limit, o->max);
        return zl_fail(err, ZL_EUSAGE, "%s: %s is too large, it must be %s %s", what, text,
                       o->below_max ? "less than" : "at most", limit);
    }
    return 0;
}

static int set_choice(const struct zl_option *o, const char *text, const char *what, int *field, struct zl_error *err)
{
    char known[256] = "";
    size_t n = 0;
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *field = i;
            return 0;
        }
        int w = snprintf(known + n, sizeof known - n, "%s%s", !i ? "" : o->choices[i + 1] ? ", " : " or ", o->choices[i]);
        n += w > 0 && (size_t)w < sizeof known - n ? (size_t)w : 0;
    }
    return zl_fail(err, ZL_EUSAGE, "%s: '%s' is none of its values, which are %s", what, text, known);
}

/* Room for one more element: a new block of n + 1, the old one stays with m. NULL without memory. */
static void *grown(struct zl_memory *m, const void *old, size_t n, size_t element)
{
    void *new = zl_memory_keep(m, calloc(n + 1, element));
    if (new && n)
        memcpy(new, old, n * element);
    return new;
}

static int append_string(struct zl_strings *field, const char *text, const char *what, struct zl_memory *m, struct zl_error *err)
{
    const char **more = grown(m, field->v, field->n, sizeof *more);
    if (!more)
        return no_memory(what, err);
    more[field->n++] = text;
    field->v = more;
    return 0;
}

static int append_number(const struct zl_option *o, struct zl_numbers *field, const char *text, const char *what,
                         struct zl_memory *m, struct zl_error *err)
{
    uint64_t v;
    int rc = zl_number_u64(text, what, &v, err);
    if (rc == 0)
        rc = check_range(o, (double)v, text, what, err);
    if (rc)
        return rc;
    uint64_t *more = grown(m, field->v, field->n, sizeof *more);
    if (!more)
        return no_memory(what, err);
    more[field->n++] = v;
    field->v = more;
    return 0;
}

static int set_commas(const struct zl_option *o, const char *text, const char *what, void *field, struct zl_memory *m,
                      struct zl_error *err)
{
    struct zl_strings strings = {0};
    struct zl_numbers numbers = {0};
    int rc = 0;
    const bool word = o->word && strcmp(text, o->word) == 0;
    char *copy = zl_memory_keep(m, strdup(text));
    if (!copy)
        return no_memory(what, err);
    if (word && (numbers.v = grown(m, NULL, 0, sizeof(uint64_t))))
        ((uint64_t *)(uintptr_t)numbers.v)[numbers.n++] = UINT64_MAX;
    else if (word)
        return no_memory(what, err);
    for (char *element = copy, *end; rc == 0 && element && !word && !(o->empty && strcmp(text, o->empty) == 0); element = end) {
        end = strchr(element, ',');
        if (end)
            *end++ = '\0';
        if (!element[0])
            rc = zl_fail(err, ZL_EUSAGE, "%s: '%s' has an empty element; write it like %s", what, text, o->arg);
        else if (o->kind == ZL_OPTION_NUMBERS)
            rc = append_number(o, &numbers, element, what, m, err);
        else
            rc = append_string(&strings, element, what, m, err);
    }
    if (rc == 0 && o->kind == ZL_OPTION_NUMBERS)
        memcpy(field, &numbers, sizeof numbers);
    else if (rc == 0)
        memcpy(field, &strings, sizeof strings);
    return rc;
}

/* Flags come without a text from the command line and as true or false from a file. */
static int set_flag(const char *text, const char *what, bool *field, struct zl_error *err)
{
    if (text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return zl_fail(err, ZL_EUSAGE, "%s: '%s' is neither true nor false", what, text);
    *field = !text || text[0] == 't';
    return 0;
}

int zl_option_set(const struct zl_option *o, const char *text, const char *what, void *options, struct zl_memory *m,
                  struct zl_error *err)
{
    void *field = (char *)options + o->offset;
    uint64_t count = 0;
    double number = 0;
    int rc = 0;
    if (o->kind != ZL_OPTION_FLAG && !text[0] && !o->may_be_empty)
        return zl_fail(err, ZL_EUSAGE, "%s: the value is empty", what);
    switch (o->kind) {
    case ZL_OPTION_FLAG:
        return set_flag(text, what, field, err);
    case ZL_OPTION_COUNT:
    case ZL_OPTION_SIZE:
        rc = (o->kind == ZL_OPTION_COUNT ? zl_number_u64 : zl_number_size)(text, what, &count, err);
        if (rc == 0)
            rc = check_range(o, (double)count, text, what, err);
        if (rc == 0)
            memcpy(field, &count, sizeof count);
        return rc;
    case ZL_OPTION_DOUBLE:
    case ZL_OPTION_SHARE:
        rc = (o->kind == ZL_OPTION_DOUBLE ? zl_number_double : zl_number_share)(text, what, &number, err);
        if (rc == 0)
            rc = check_range(o, number, text, what, err);
        if (rc == 0)
            memcpy(field, &number, sizeof number);
        return rc;
    case ZL_OPTION_STRING:
        memcpy(field, &text, sizeof text);
        return 0;
    case ZL_OPTION_CHOICE:
        return set_choice(o, text, what, field, err);
    case ZL_OPTION_LIST:
        return append_string(field, text, what, m, err);
    case ZL_OPTION_COMMAS:
    case ZL_OPTION_NUMBERS:
        return set_commas(o, text, what, field, m, err);
    }
    return zl_fail(err, ZL_EUSAGE, "%s: of no known kind", what);
}

/* A string as YAML and JSON both read it. */
static void put_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(f, "\\x%02x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

static void put_strings(FILE *f, const struct zl_strings *s)
{
    fputc('[', f);
    for (size_t i = 0; i < s->n; i++) {
        fputs(i ? ", " : "", f);
        put_string(f, s->v[i]);
    }
    fputc(']', f);
}

/* One line that begins with `before`, or none where the field is empty. */
static void put_value(FILE *f, const struct zl_option *o, const char *before, const void *options)
{
    const void *field = (const char *)options + o->offset;
    char text[ZL_NUMBER_TEXT];
    const struct zl_strings *strings = field;
    const struct zl_numbers *numbers = field;
    const char *string;
    switch (o->kind) {
    case ZL_OPTION_FLAG:
        fprintf(f, "%s%s: %s\n", before, o->name, *(const bool *)field ? "true" : "false");
        return;
    case ZL_OPTION_COUNT:
    case ZL_OPTION_SIZE:
        if (*(const uint64_t *)field < (uint64_t)o->min)
            return;
        fprintf(f, "%s%s: %llu\n", before, o->name, (unsigned long long)*(const uint64_t *)field);
        return;
    case ZL_OPTION_DOUBLE:
    case ZL_OPTION_SHARE:
        if (*(const double *)field < o->min || (o->above_min && *(const double *)field <= o->min))
            return;
        zl_number_text(text, *(const double *)field);
        fprintf(f, "%s%s: %s\n", before, o->name, text);
        return;
    case ZL_OPTION_CHOICE:
        fprintf(f, "%s%s: %s\n", before, o->name, o->choices[*(const int *)field]);
        return;
    case ZL_OPTION_STRING:
        memcpy(&string, field, sizeof string);
        if (!string)
            return;
        fprintf(f, "%s%s: ", before, o->name);
        put_string(f, string);
        fputc('\n', f);
        return;
    case ZL_OPTION_LIST:
    case ZL_OPTION_COMMAS:
        if (!strings->n && !o->empty)
            return;
        fprintf(f, "%s%s: ", before, o->name);
        if (strings->n)
            put_strings(f, strings);
        else
            fputs(o->empty, f);
        fputc('\n', f);
        return;
    case ZL_OPTION_NUMBERS:
        if (!numbers->n && !o->empty)
            return;
        if (o->word && numbers->n == 1 && numbers->v[0] == UINT64_MAX) {
            fprintf(f, "%s%s: %s\n", before, o->name, o->word);
            return;
        }
        fprintf(f, "%s%s: %s", before, o->name, numbers->n ? "[" : o->empty);
        for (size_t i = 0; i < numbers->n; i++)
            fprintf(f, "%s%llu", i ? ", " : "", (unsigned long long)numbers->v[i]);
        fputs(numbers->n ? "]\n" : "\n", f);
        return;
    }
}

char *zl_options_text(const struct zl_command *c, const void *options)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return NULL;
    for (size_t i = 0; i < c->n_operands; i++) {
        char name[32] = "";
        for (size_t j = 0; c->operands[i].name[j] && j < sizeof name - 1; j++)
            name[j] = (char)(c->operands[i].name[j] | 0x20);
        const struct zl_option as = {.name = name,
                                     .offset = c->operands[i].offset,
                                     .kind = c->operands[i].many ? ZL_OPTION_LIST : ZL_OPTION_STRING};
        put_value(f, &as, "", options);
    }
    const struct zl_given *given = (const void *)((const char *)options + c->given);
    for (int round = 0; round < 2; round++) {
        if (round == 1)
            fputs("# and by default or by consequence:\n", f);
        for (size_t i = 0; i < c->n_options; i++)
            if (given->at[c->options[i].offset] == !round && !c->options[i].momentary)
                put_value(f, &c->options[i], round ? "# " : "", options);
    }
    bool failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
