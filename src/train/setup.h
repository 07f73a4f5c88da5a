/*
 * Everything that a training run decides and reads before its first step: data and order, cut, readouts, adapter shape, cores. Made once
 * from the options; read-only afterwards. `run.json` is its description.
 */
#ifndef ZL_TRAIN_SETUP_H
#define ZL_TRAIN_SETUP_H

#include <jansson.h>

#include "format/adapter.h"
#include "pipe/cores.h"
#include "pipe/pipeline.h"
#include "train/corpus.h"
#include "train/options.h"
#include "train/readouts.h"
#include "train/sweep_plan.h"

struct zl_setup {
    struct zl_corpus corpus;
    struct zl_data_order order, eval_order; /* eval_order.n_micro == 0: nothing held out */
    uint64_t batch_tokens;          /* of a step, at most */
    struct zl_schedule schedule;
    struct zl_partition partition;
    struct zl_readouts readouts;
    struct zl_lora_spec lora;
    struct zl_adapter init;         /* the adapter to start from; n == 0: none */
    int32_t *subset, *subset_index; /* vocabulary of the local heads, or NULL */
    int64_t n_subset;
    struct zl_cores cores;
    int threads;                    /* of all workers */
    enum zl_placement placement;    /* spread or stacked */
    struct zl_places places;
    struct zl_core_group *groups;   /* [stages], of which the first n_workers are in use */
    struct zl_pipeline_options pipeline;
    struct zl_pipeline_plan plan;
    uint32_t n_cached;          /* frozen stages at the front whose output is spilled before the first step (frozen.h) */
    uint32_t n_anchored;        /* stages with an anchor (anchor.h) */
    struct zl_sweep_plan sweep; /* of that schedule */
    uint64_t checkpoint_bytes, checkpoint_file_bytes; /* memory for writing checkpoints (part of the plan's total); size of one on the disk */
    /* what the process held before anything was allocated for the pipeline: beyond mapped files; and with the program itself */
    uint64_t private_before, pss_before;
    struct zl_adapter_config adapter_config;
    const char *targets[ZL_LINEARS];
};

/* Refuse a number format that this CPU cannot multiply in. zl_setup_make does it too. */
int zl_setup_check_compute(enum zl_compute compute, struct zl_error *err);
/* And whether it has anything to do with this model's layers. */
int zl_setup_check_weights(enum zl_compute compute, const struct zl_model *m, struct zl_error *err);

/* All but the readouts. */
int zl_setup_make(struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err);
/* Fit the maps that the cut asks for, on so many tokens (0: as many as the recipe says). Before the pipeline is opened. */
int zl_setup_readouts(struct zl_setup *s, const struct zl_train_options *o, uint64_t tokens, struct zl_error *err);
void zl_setup_free(struct zl_setup *s);

/* After a change of o->freeze: the cut, places and plan anew, for the same number of stages; maps that nobody reads out through are dropped. */
int zl_setup_cut_again(struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err);

/* The same model, data and micro-batches under other options of schedule, placement and stages: for comparing plans. Shares with `s`, which
 * must outlive it; given back by its own function whatever was returned. */
int zl_setup_variant(struct zl_setup *v, const struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err);
void zl_setup_variant_free(struct zl_setup *v);

/* What the process will hold at its peak: what it held before the pipeline, the weights (mapped, and all touched in a step; of a sweep those
 * of a block), the plan. */
uint64_t zl_setup_resident_bytes(const struct zl_setup *s); /* of the weights */
uint64_t zl_setup_expected_bytes(const struct zl_setup *s);

/* What was decided, as an object for run.json. */
json_t *zl_setup_describe(const struct zl_setup *s, const struct zl_train_options *o);

/* Learning rate of step `step` (from 1) of `steps`. */
double zl_learning_rate(const struct zl_train_options *o, uint64_t step, uint64_t steps);

#endif
