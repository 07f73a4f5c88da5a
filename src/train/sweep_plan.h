/* What a sweep takes: memory by part, files, and the windows that the run is cut into. Pure arithmetic over the setup. */
#ifndef ZL_TRAIN_SWEEP_PLAN_H
#define ZL_TRAIN_SWEEP_PLAN_H

#include <stdint.h>

#include "base/error.h"

struct zl_setup;
struct zl_train_options;

struct zl_sweep_plan {
    /* memory; the largest block decides */
    uint64_t resident_bytes;   /* weights that are in memory at one time */
    uint64_t state_bytes;      /* adapters, gradients, moments */
    uint64_t map_bytes;        /* of a readout */
    uint64_t activation_bytes; /* with scratch */
    uint64_t head_bytes;       /* rows of the head and the embedding that the training data uses */
    uint64_t buffer_bytes;     /* the spill's, a micro-batch's input and descriptor */
    uint64_t fit_bytes;        /* while a readout's map is solved, beside activations and buffers */
    uint64_t total_bytes;      /* at the peak, the resident weights included */
    uint32_t layers;           /* of the largest block, with its look-ahead */
    uint32_t n_maps;
    /* files */
    uint64_t hidden_bytes, states_bytes; /* of hidden states: the largest window, evaluation or fit; of blocks and maps */
    uint64_t largest;                    /* bytes of the largest micro-batch's hidden states */
    uint64_t records;                    /* of hidden states, at most */
    uint64_t window;                     /* steps of the longest window */
};

/* Fill it from the cut, the orders and the blocks' plans of a setup. ZL_EUSAGE when --spill-limit holds no step. */
int zl_sweep_plan(const struct zl_setup *s, const struct zl_train_options *o, struct zl_sweep_plan *p, struct zl_error *err);

/* How many steps the window has that begins behind `done` steps: whole ones, until the limits or an evaluation that is due; at least 1.
 * Where --window is not given, as many as hold 32768 tokens, and 16 if that is more. */
uint64_t zl_sweep_window(const struct zl_setup *s, const struct zl_train_options *o, uint64_t done);
/* How many micro-batches of the evaluation, from number `first` on, fit at one time; at least 1. */
uint64_t zl_sweep_eval_window(const struct zl_setup *s, const struct zl_train_options *o, uint64_t first);

/* Bytes of the rows that zl_sweep_rows_copy() copies. */
uint64_t zl_sweep_rows_bytes(const struct zl_setup *s);

/* Bytes of a micro-batch's hidden states as they are spilled. */
uint64_t zl_sweep_record(const struct zl_setup *s, const struct zl_train_options *o, uint64_t tokens);

#endif
