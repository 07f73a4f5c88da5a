/* Evaluation of a model, with or without an adapter, on data: the loss over trained tokens, and exact match by generating. */
#ifndef ZL_TRAIN_EVALUATE_H
#define ZL_TRAIN_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/values.h"
#include "kernel/compute.h"
#include "train/hooks.h"

struct zl_loaded;

struct zl_eval_options {
    const char *model;
    struct zl_strings data;
    const char *adapter; /* PEFT folder, or NULL */
    uint64_t max_length; /* tokens of an example */
    uint64_t limit;      /* only the first so many examples; 0: all */
    bool exact_match;    /* generate for every prompt/completion example and compare */
    uint64_t max_new_tokens;
    uint64_t threads; /* 0: all usable cores */
    enum zl_compute compute; /* in which the layers multiply by their weights */
    bool json, quiet; /* json: for the caller who prints */
    const struct zl_hooks *hooks;   /* NULL: none */
    const struct zl_loaded *loaded; /* use this; model and adapter are then not looked at. NULL: open them */
    struct zl_given given;
};

struct zl_eval_result {
    double loss;     /* mean over trained tokens, natural logarithm */
    uint64_t tokens;  /* trained tokens: what the mean is over */
    uint64_t correct; /* of those, the ones that were the likeliest */
    uint64_t examples;
    uint64_t matched, compared; /* exact match; compared == 0: not asked for */
    double seconds;
};

/* Fill *out. ZL_ESTOPPED when the hooks ask for it, between micro-batches and between the tokens of an answer; ZL_EINPUT also when
 * nothing of the data is trained; ZL_EUSAGE when exact_match finds no row with one prompt and one completion. */
int zl_eval_run(const struct zl_eval_options *o, struct zl_eval_result *out, struct zl_error *err);

#endif
