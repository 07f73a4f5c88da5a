/* Inside of struct zl_sweep, for sweep.c (the windows) and sweep_fit.c (the readouts before them). */
#ifndef ZL_TRAIN_SWEEP_IMPL_H
#define ZL_TRAIN_SWEEP_IMPL_H

#include "store/spill.h"
#include "train/sweep.h"

struct zl_sweep {
    const struct zl_train_options *o;
    struct zl_setup *s;
    struct zl_journal *j;
    struct zl_frozen *frozen; /* not owned */
    int threads;
    struct zl_spill *hidden; /* NULL: one block, nothing is handed on */
    struct zl_spill *states; /* records of block k: see state_record() in sweep.c */
    struct zl_arena activations, state, map;
    struct zl_tensor local_head, local_embed; /* see zl_sweep_rows_copy(); data NULL: none */
    struct zl_block *block;      /* [n] all in the same memory: only the one at work finds its state there */
    int64_t *updates;            /* [n] optimizer steps at the border of windows */
    struct zl_optimizer optimizer;
    struct zl_packet *packet;    /* the micro-batch at work, without its hidden states */
    struct zl_packet_layout layout;
    float *x;                    /* [tokens][d]: embedded, or widened from what was spilled */
    uint64_t *bytes;             /* [records] of a layout */
    bool turned;                 /* which of the two copies is the one of the last border */
    uint64_t step;               /* steps behind the last border */
    struct zl_step_record *record; /* [longest window] */
    struct zl_trace_lane *trace; /* NULL: off */
    float **exported;            /* [n] */
    struct zl_lora *lora;        /* [n] */
};

uint64_t zl_sweep_map_record(uint32_t k);

/* Fill local_head and local_embed with the rows of the tokens that occur in the training data, where the setup has a subset of them; one copy
 * for both where the model has one tensor for both. */
int zl_sweep_rows_copy(struct zl_sweep *w, struct zl_error *err);
void zl_sweep_rows_free(struct zl_sweep *w);

/* The embedding of ids[tokens], [tokens][d]. */
void zl_sweep_embed(const struct zl_sweep *w, const int32_t *ids, int64_t tokens, float *x);

/* Fit the maps that the cut asks for on the base model, as a sweep of forwards, and save each as its record. Sets s->readouts.tokens. */
int zl_sweep_fit(struct zl_sweep *w, struct zl_error *err);

#endif
