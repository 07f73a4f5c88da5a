/* What --help prints, made from a command's table: aligned in two columns and wrapped to the terminal. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/number.h"
#include "cmd/options.h"

#define MOST_CHOICES 32 /* characters of "a|b|c" that go beside the option's name */
#define COLUMN 30 /* where the help of an option begins */
#define NARROWEST 50
#define WIDEST 100

int zl_help_columns(void)
{
    struct winsize w;
    const char *env = getenv("COLUMNS");
    uint64_t columns = 80;
    if (!(env && zl_number_u64(env, "COLUMNS", &columns, NULL) == 0) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col)
        columns = w.ws_col;
    return columns < NARROWEST ? NARROWEST : columns > WIDEST ? WIDEST : (int)columns;
}

void zl_wrap(const char *text, size_t at, size_t indent, int columns, FILE *f)
{
    bool first = true;
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (!first && at + 1 + word > (size_t)columns) {
            fprintf(f, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', f);
            at++;
        }
        fwrite(text, 1, word, f);
        at += word;
        first = false;
        text += word;
        if (*text == '\n') {
            fprintf(f, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        text += *text != '\0';
    }
    fputc('\n', f);
}

/* "NUMBER", or the choices "bp|zerolock". */
static void value_name(const struct zl_option *o, char *out, size_t size)
{
    out[0] = '\0';
    if (o->kind != ZL_OPTION_CHOICE) {
        snprintf(out, size, "%s", o->arg ? o->arg : "");
        return;
    }
    for (size_t i = 0, n = 0; o->choices[i] && n < size; i++) {
        int w = snprintf(out + n, size - n, "%s%s", i ? "|" : "", o->choices[i]);
        n += w > 0 ? (size_t)w : 0;
    }
}

static void put_entry(const char *left, const char *help, int columns, FILE *f)
{
    size_t n = strlen(left);
    fputs(left, f);
    if (n + 2 > COLUMN)
        fprintf(f, "\n%*s", COLUMN, "");
    else
        fprintf(f, "%*s", (int)(COLUMN - n), "");
    zl_wrap(help, COLUMN, COLUMN, columns, f);
}

static void put_option(const struct zl_option *o, int columns, FILE *f)
{
    char value[128], left[256], help[1536], letter[] = "-x, ";
    letter[1] = o->letter;
    value_name(o, value, sizeof value);
    const bool many = o->kind == ZL_OPTION_CHOICE && strlen(value) > MOST_CHOICES; /* then they stand in the text */
    snprintf(left, sizeof left, "  %s--%s%s%s", o->letter ? letter : "    ", o->name, value[0] ? " " : "", many ? "NAME" : value);
    const char *shown = o->shown ? o->shown : o->fallback;
    snprintf(help, sizeof help, "%s%s%s%s%s", o->help, shown ? " (default: " : "", shown ? shown : "", shown ? ")" : "",
             many ? "\nOne of:" : "");
    for (size_t i = 0, n = strlen(help); many && o->choices[i] && n < sizeof help; n = strlen(help), i++)
        snprintf(help + n, sizeof help - n, " %s", o->choices[i]);
    put_entry(left, help, columns, f);
}

void zl_command_help(const struct zl_command *c, int columns, FILE *f)
{
    for (size_t i = 0; c->usage[i]; i++)
        fprintf(f, "%s zerolock %s %s\n", i ? "   or:" : "Usage:", c->name, c->usage[i]);
    fputc('\n', f);
    zl_wrap(c->about, 0, 0, columns, f);
    if (c->n_operands > 0)
        fputc('\n', f);
    for (size_t i = 0; i < c->n_operands; i++) {
        char left[64];
        snprintf(left, sizeof left, "  %s%s", c->operands[i].name, c->operands[i].many ? "..." : "");
        put_entry(left, c->operands[i].help, columns, f);
    }
    const char *group = NULL; /* of the options from here on; one without options that are shown is left out */
    for (size_t i = 0; i < c->n_options + zl_n_common_options; i++) {
        const struct zl_option *o = i < c->n_options ? &c->options[i] : &zl_common_options[i - c->n_options];
        group = o->group ? o->group : group;
        if (zl_option_waived(c, o))
            continue;
        if (group)
            fprintf(f, "\n%s:\n", group);
        group = NULL;
        put_option(o, columns, f);
    }
    if (c->waives) {
        fprintf(f, "\nTaken and of no effect here:");
        for (const char *const *name = c->waives; *name; name++)
            fprintf(f, " --%s%s", *name, name[1] ? "," : ".\n");
    }
    if (c->passes)
        fprintf(f, "\nEvery other option of 'zerolock %s' can be given too and is handed on.\n", c->passes->name);
}

void zl_command_table(const struct zl_command *c, FILE *f)
{
    static const char *const kinds[] = {
        [ZL_OPTION_FLAG] = "flag",     [ZL_OPTION_COUNT] = "count",   [ZL_OPTION_DOUBLE] = "number",
        [ZL_OPTION_SHARE] = "share",   [ZL_OPTION_SIZE] = "size",     [ZL_OPTION_STRING] = "string",
        [ZL_OPTION_CHOICE] = "choice", [ZL_OPTION_LIST] = "list",     [ZL_OPTION_COMMAS] = "commas",
        [ZL_OPTION_NUMBERS] = "numbers"};
    const struct zl_option *o;
    for (size_t i = 0; (o = zl_option_at(c, i)); i++) {
        if (zl_option_find(c, o->name, strlen(o->name)) != o)
            continue; /* passed on, but the command has one of its own of that name */
        char value[128];
        const char letter = o->letter && zl_option_letter(c, o->letter) == o ? o->letter : '-';
        value_name(o, value, sizeof value);
        fprintf(f, "%s\t%c\t%s\t%s\t%s\n", o->name, letter, value[0] ? value : "-", kinds[o->kind],
                o->fallback ? o->fallback : "-");
    }
}
