/*
 * A command is a table: its operands and options, each with its kind, default, range, help and the place of its value in the
 * command's struct of options. The table feeds the parser of the command line and of configuration files, --help, the
 * completions and the check of the man pages. Not a general library: what our commands do not need is not here.
 */
#ifndef ZL_CMD_OPTIONS_H
#define ZL_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/values.h"

enum zl_option_kind { /* and what the field is */
    ZL_OPTION_FLAG,    /* bool; true when given */
    ZL_OPTION_COUNT,   /* uint64_t */
    ZL_OPTION_DOUBLE,  /* double */
    ZL_OPTION_SHARE,   /* double in 0..1 */
    ZL_OPTION_SIZE,    /* uint64_t, bytes */
    ZL_OPTION_STRING,  /* const char * */
    ZL_OPTION_CHOICE,  /* int or enum: index into choices */
    ZL_OPTION_LIST,    /* struct zl_strings; each use adds one */
    ZL_OPTION_COMMAS,  /* struct zl_strings; "a,b" */
    ZL_OPTION_NUMBERS  /* struct zl_numbers; "0,10,20" */
};

struct zl_option {
    const char *name;   /* without dashes */
    char letter;        /* 0: none */
    const char *arg;    /* name of the value in help; NULL for flags and choices */
    enum zl_option_kind kind;
    size_t offset;
    const char *const *choices; /* NULL-terminated */
    const char *fallback;       /* default, as the user would write it; NULL: the field stays zero */
    const char *shown;          /* the default in words where there is no fallback; NULL: say nothing */
    const char *empty;          /* lists: the word for an empty list */
    const char *word;           /* NUMBERS: another one, for the list of UINT64_MAX alone */
    double min, max;            /* of numbers; max 0: no limit */
    bool above_min, below_max;  /* the limit itself is out */
    bool required, may_be_empty;
    bool momentary; /* of this call only: not part of a configuration that is written down */
    const char *also;  /* words that other programs use for it, for "did you mean": "learning-rate step-size" */
    const char *group; /* heading in --help; NULL: as the one before */
    const char *help;
};

struct zl_operand {
    const char *name; /* "MODEL"; in a configuration file "model" */
    size_t offset;    /* const char *, or struct zl_strings when many */
    bool optional, many;
    const char *help;
};

struct zl_command {
    const char *name, *summary;
    const char *const *usage; /* lines behind "zerolock NAME", NULL-terminated */
    const char *about;        /* a paragraph for --help */
    const struct zl_operand *operands;
    size_t n_operands;
    const struct zl_option *options;
    size_t n_options;
    const char *const *waives; /* options of the table that this command takes and has no use for, so that a command line can be handed
                                  over: neither required nor shown in the help. NULL: none; else NULL behind the last */
    const struct zl_command *passes; /* whose options this command takes too, to hand them on: checked, and kept as "--name=value" in */
    size_t passed;                   /* a struct zl_strings at this offset; own names and letters come first */
    size_t given; /* offset of struct zl_given */
};

/* Options that every command has beside its own (--config, --help); the parser handles them itself. */
extern const struct zl_option zl_common_options[];
extern const size_t zl_n_common_options;

/* What the parsed values point to. Zero-initialise; free when the options are not used any more. */
struct zl_memory {
    void **block;
    size_t n;
};
void zl_memory_free(struct zl_memory *m);
void *zl_memory_keep(struct zl_memory *m, void *block); /* take ownership; NULL (block freed) without memory */

enum { ZL_PARSED = 0, ZL_PARSED_HELP = 1 };

/* Fill *options (zeroed here up to its struct zl_given, which is filled too) from defaults, then the file of --config, then
 * argv[1..]. argv[0] is the command's name and is not looked at. ZL_PARSED_HELP: --help was asked for and printed to stdout. */
int zl_options_parse(const struct zl_command *c, int argc, char **argv, void *options, struct zl_memory *m, struct zl_error *err);

/* What a command line holds, before values are read: the place of its only operand in argv (0: it has none or several), and whether the
 * options with these names (NULL behind the last) are given: a bit for each. -1 when the line cannot be read, which zl_options_parse says. */
int zl_options_look(const struct zl_command *c, int argc, char **argv, const char *const *names, unsigned *given);

/* The same from `n` pairs of name (without dashes) and value instead of a command line; the value of a flag is NULL, "true" or "false".
 * Operands as on the command line. Nothing is printed; help is no option here. */
struct zl_pair {
    const char *name, *value;
};
int zl_options_pairs(const struct zl_command *c, const char *const *operand, size_t n_operands, const struct zl_pair *pair, size_t n,
                     void *options, struct zl_memory *m, struct zl_error *err);

/* One value by its text; `what` names it in errors. Checks the range. Lists are appended to (LIST) or replaced. */
int zl_option_set(const struct zl_option *o, const char *text, const char *what, void *options, struct zl_memory *m,
                  struct zl_error *err);

/* The options' values as a configuration file that gives them again: what the user gave, and as comments what was the default or
 * followed from other options. malloc'd; NULL without memory. */
char *zl_options_text(const struct zl_command *c, const void *options);

/* The i-th of the command's options, the common ones and those passed on; NULL behind the last. */
const struct zl_option *zl_option_at(const struct zl_command *c, size_t i);

/* The command takes this option and has no use for it. */
bool zl_option_waived(const struct zl_command *c, const struct zl_option *o);

/* By name or letter among them; NULL: unknown. */
const struct zl_option *zl_option_find(const struct zl_command *c, const char *name, size_t length);
const struct zl_option *zl_option_letter(const struct zl_command *c, char letter);

/* " (did you mean --lr?)" for an unknown option, or an empty string. */
void zl_option_suggest(const struct zl_command *c, const char *name, size_t length, const char *dashes, char *out, size_t size);

/* True when a is b but for a slip or two of the keyboard. */
bool zl_near_miss(const char *a, size_t a_length, const char *b);

/* Help on stdout, wrapped to `columns`; and the table for scripts: name, letter, argument, kind, default, separated by tabs. */
void zl_command_help(const struct zl_command *c, int columns, FILE *f);
void zl_command_table(const struct zl_command *c, FILE *f);
int zl_help_columns(void);

/* Text wrapped to `columns`, every line but the first indented by `indent`; `at` is where the first begins. */
void zl_wrap(const char *text, size_t at, size_t indent, int columns, FILE *f);

/* Read a configuration file (YAML: one mapping of option names to values) and call `set` for each value in order; `what` is
 * "FILE:LINE: NAME". A list gives one call an element with `element` counting up from 0, a single value has element -1. */
typedef int zl_config_set(void *context, const char *name, const char *value, int element, const char *what, struct zl_error *err);
int zl_config_read(const char *path, zl_config_set *set, void *context, struct zl_error *err);

/* Say what went wrong, if anything, and return the exit status: 0, 1, or 2 with a hint to --help. */
int zl_command_finish(const struct zl_command *c, int rc, const struct zl_error *err);

#endif
