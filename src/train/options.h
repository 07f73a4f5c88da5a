/*
 * What a training run is asked to do, as plain fields. `zerolock train` fills it from its table (src/cmd/train_options.c holds
 * names, defaults, ranges and help); whoever embeds the library fills it alone. Nothing here parses or prints.
 */
#ifndef ZL_TRAIN_OPTIONS_H
#define ZL_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/values.h"
#include "model/layer.h"
#include "pipe/partition.h"
#include "pipe/placement.h"
#include "pipe/schedule.h"
#include "train/hooks.h"

enum zl_lr_schedule { ZL_LR_LINEAR, ZL_LR_COSINE, ZL_LR_CONSTANT };
enum zl_local_vocabulary { ZL_LOCAL_VOCABULARY_DATA, ZL_LOCAL_VOCABULARY_FULL };
enum zl_spill_type { ZL_SPILL_F32, ZL_SPILL_BF16 };
enum zl_activations { ZL_ACTIVATIONS_F32, ZL_ACTIVATIONS_BF16 };
enum zl_switch { ZL_OFF, ZL_ON };
enum zl_preset { ZL_PRESET_NONE, ZL_PRESET_PAPER };

struct zl_train_options {
    /* what, from where, to where */
    const char *model;      /* Hugging Face folder or GGUF file */
    struct zl_strings data; /* one file or more */
    const char *output;     /* the run's folder */
    const char *eval_data;  /* NULL: none */
    double eval_split;      /* 0: none; share of the examples that is held out */
    uint64_t eval_every;    /* steps; 0: before the first and after the last step only */
    const char *init_adapter; /* PEFT folder to start from; NULL: B = 0 */
    bool force;             /* an existing run in `output` may be overwritten */

    /* how much */
    uint64_t steps; /* 0: by epochs */
    double epochs;
    uint64_t batch_tokens; /* 0: by the data, see zl_setup */
    uint64_t micro_batch_tokens, max_length;
    uint64_t micro_batch_exact; /* not the users': micro-batches are cut so whatever the limit says; 0: as above */

    /* checkpoints */
    uint64_t checkpoint_every; /* steps; 0: not by their number */
    double checkpoint_minutes; /* 0: not by time */
    uint64_t keep;             /* how many stay; 0: none are written */
    double max_spike;          /* standard deviations above the mean at which a step's loss or norm is taken for bad; 0: never */
    bool supervise;            /* by a parent process, which the program is before it starts another of itself */
    double hang_seconds;       /* without a sign of life, after which the parent starts the run again */
    const char *died;          /* how the process before this one ended, where somebody knows; NULL or empty: nobody does */
    bool again;                /* that process has said all there is to say before the first step; this one says what is new */
    bool resume;               /* go on with the run in `output` */

    /* schedule */
    enum zl_schedule_kind schedule;
    uint64_t stages;
    struct zl_numbers bounds; /* first layer of each stage; n == 0: chosen by the planner */
    uint64_t train_layers;    /* only so many last layers train; 0: all */
    struct zl_numbers freeze; /* see zl_freeze_auto; stages that keep their adapters as they are; n == 0: none */
    enum zl_readout_kind readout;
    uint64_t look_ahead; /* layers; 0: see zl_partition_look_ahead() */
    enum zl_local_vocabulary local_vocabulary;
    enum zl_switch train_map; /* a readout's map trains with its stage */
    enum zl_switch anchor; /* local losses: readouts begin as the base model's own prediction of each token */
    double belief_weight;  /* local losses: alpha of alpha CE + (1 - alpha) KL(readout of the stage before || own); 1: cross-entropy alone */
    uint64_t ring_depth;   /* micro-batches */
    enum zl_placement placement; /* of stages on core groups */
    uint64_t interleave;   /* 1f1b: parts of the model that each stage holds; 1 or 0: one */
    uint64_t lag;          /* async: see struct zl_schedule; 0: what suits the steps */
    enum zl_switch replay; /* async: keep inputs only, and make the forward again with the weights of the day */
    bool vertical_sync;    /* pipedream: all stages use the version of weights that the first one had */
    uint64_t window;       /* sweep: steps that a block takes before the next block's turn, at most; 0: see zl_sweep_window() */
    bool cache_frozen;     /* spill what frozen stages at the front make, once for all epochs */
    uint64_t spill_limit;  /* bytes on the disk */
    const char *spill_dir; /* NULL: the run's folder */
    enum zl_spill_type spill_type; /* of hidden states on the disk */
    enum zl_preset preset; /* PAPER: beside the fields, equal stages and A ~ N(0, 0.01^2) */

    /* adapter */
    uint64_t rank;
    double alpha;
    struct zl_strings targets; /* "q_proj", …; n == 0: every linear projection of attention and MLP */

    /* optimizer */
    double lr;
    enum zl_lr_schedule lr_schedule;
    double warmup; /* share of the steps */
    double weight_decay, beta1, beta2, adam_eps;
    double clip; /* largest norm of a block's gradient; 0: no clipping */

    /* machine */
    uint64_t memory_limit; /* bytes; 0: none */
    enum zl_activations activations; /* in what they are kept between forward and backward */
    enum zl_recompute recompute; /* with a limit: at least this */
    uint64_t seed;
    uint64_t threads; /* 0: all usable cores */
    enum zl_compute compute; /* format of the products with frozen weights; refused where the CPU lacks it */
    bool quiet;
    const char *trace; /* file for a Chrome trace of the run; NULL: none */

    const char *configuration; /* these options as a YAML text for the run's folder, or NULL */
    const struct zl_hooks *hooks; /* NULL: none */
    struct zl_given given;
};

/* The list of one stage that stands for "let the run find out whether the first one trains". */
#define ZL_FREEZE_AUTO UINT64_MAX
static inline bool zl_freeze_auto(const struct zl_train_options *o)
{
    return o->freeze.n == 1 && o->freeze.v[0] == ZL_FREEZE_AUTO;
}

/* What people call the values of these enums, by value; NULL behind the last. */
extern const char *const zl_activations_names[], *const zl_readout_names[], *const zl_recompute_names[], *const zl_compute_names[],
    *const zl_train_compute_names[], *const zl_placement_names[],
    *const zl_spill_type_names[];

#endif
