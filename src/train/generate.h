/* Generation: the continuation of one prompt, token by token. */
#ifndef ZL_TRAIN_GENERATE_H
#define ZL_TRAIN_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/values.h"
#include "kernel/compute.h"
#include "train/hooks.h"

struct zl_loaded;

struct zl_generate_options {
    const char *model;
    const char *prompt;  /* UTF-8 */
    const char *adapter; /* PEFT folder, or NULL */
    bool chat;           /* the prompt is a user's message, rendered by the model's chat template */
    const char *system;  /* system message; NULL: the template's own */
    uint64_t max_new_tokens;
    double temperature; /* 0: always the likeliest token */
    double top_p;
    struct zl_strings stop; /* texts that end the answer and are not part of it */
    uint64_t seed;
    uint64_t threads; /* 0: all usable cores */
    enum zl_compute compute; /* in which the layers multiply by their weights */
    bool quiet;               /* for the caller who talks */
    const struct zl_hooks *hooks;   /* NULL: none */
    const struct zl_loaded *loaded; /* use this; model and adapter are then not looked at. NULL: open them */
    struct zl_given given;
};

enum zl_generate_end { ZL_GENERATE_EOS, ZL_GENERATE_STOP, ZL_GENERATE_LENGTH, ZL_GENERATE_REFUSED /* by emit */ };

struct zl_generate_result {
    uint64_t prompt_tokens, new_tokens;
    double prompt_seconds, new_seconds;
    enum zl_generate_end end;
};

/* Emit the continuation in pieces of whole characters. emit returns false to stop. */
int zl_generate_run(const struct zl_generate_options *o, bool (*emit)(void *context, const char *text, size_t n), void *context,
                    struct zl_generate_result *out, struct zl_error *err);

#endif
