/* What `zerolock inspect` is made of: one file a kind of thing, one function each; and what they share. */
#ifndef ZL_CMD_INSPECT_H
#define ZL_CMD_INSPECT_H

#include <jansson.h>
#include <stdbool.h>

#include "cmd/commands.h"
#include "format/gguf.h"
#include "format/tokenizer.h"

/* Print what o->what names to stdout, as text or as one line of JSON. A thing that can be shown but not be used is shown, and the
 * result is negative with the reason in err. */
int zl_inspect_model(const struct zl_inspect_options *o, struct zl_error *err);
int zl_inspect_adapter(const struct zl_inspect_options *o, const char *folder, struct zl_error *err);
int zl_inspect_data(const struct zl_inspect_options *o, struct zl_error *err);

/* "name        " and then the text: the left column of every table here. */
void zl_inspect_label(const char *name);

/* Text of a file for a terminal: control bytes become '?', whole otherwise. */
void zl_inspect_text(const char *s);

/* Print a JSON value as one line and drop the reference; NULL (no memory to build it) is an error. */
int zl_inspect_json(json_t *value, struct zl_error *err);

/* A string of a file as JSON; bytes that are no UTF-8 become '?'. */
json_t *zl_inspect_string(const char *s);

#endif
