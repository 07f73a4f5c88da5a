/*
 * A pipeline: the stages of a partition, the workers that run them, the rings between them in one shared-memory segment, and the way in
 * and out. The driver
 * puts micro-batches in at the front and takes reports out; it is the only one that talks to the stages.
 */
#ifndef ZL_PIPE_PIPELINE_H
#define ZL_PIPE_PIPELINE_H

#include "pipe/partition.h"
#include "pipe/segment.h"
#include "pipe/worker.h"

struct zl_pipeline_options {
    const struct zl_lora_spec *lora;
    const struct zl_adapter *adapter;  /* start from it; NULL: B = 0 */
    enum zl_recompute recompute;
    bool halves;                       /* activations kept as bfloat16 */
    enum zl_compute compute;
    const float *const *map_a, *const *map_b; /* [stages]; entries NULL where the cut has no map */
    bool train_map; /* stages train their maps: see struct zl_block_spec */
    bool anchor;                       /* with local losses: packets bring what the readouts of zl_pipeline_anchored stages miss of the base model */
    float belief;                      /* with local losses: share of a stage's loss that follows the readout of the stage before, if that trains */
    const int32_t *subset, *subset_index; /* of the local heads; NULL: the whole vocabulary. The last stage's is always whole. */
    int64_t n_subset;
    uint64_t seed;
    int64_t tokens, seqs, longest;     /* the largest micro-batch */
    int64_t keep_tokens;               /* see struct zl_block_spec */
    uint32_t ring_depth;               /* slots between two stages, >= 1 */
    struct zl_optimizer optimizer;
    const struct zl_schedule *schedule;
    bool vertical_sync;                /* pipedream: every stage uses the version of weights that the first one had */
    uint64_t micro_per_step;           /* the most */
    uint32_t n_passing;                /* the first so many stages hand on what they get: the feed brings hidden states */
    uint32_t n_workers;
    const uint32_t *worker_of;         /* [stages] */
    bool common;                       /* the workers, of a thread each, have the stages in common: see pipe/placement.h */
    const struct zl_core_group *groups; /* [workers] */
    const struct zl_snapshot_sink *sink; /* where checkpoints' markers leave the state; NULL: nowhere. Must live as long as the pipeline */
    struct zl_trace *trace;            /* a lane a worker; NULL: off */
    void (*before)(void *context, uint32_t stage); /* see struct zl_worker */
    void *before_context;
};

/* Whether stage k reads out through less than the rest of the model, which an anchor makes up for. */
bool zl_pipeline_anchored(const struct zl_partition *p, uint32_t k, const struct zl_schedule *schedule);

struct zl_pipeline {
    const struct zl_model *model;
    uint32_t n, n_workers;
    struct zl_stage *stage; /* [n] */
    struct zl_worker *worker; /* [n_workers] */
    struct zl_pool *pool;     /* [n_pools]: a worker's, or that of all */
    uint32_t n_pools;
    struct zl_stage **hosted; /* [n]: the pools' lists, one behind the other */
    struct zl_arena *shared;  /* [n_workers]: activations of stages that take turns on one worker; empty where each has its own */
    uint64_t sent;            /* packets that entered */
    _Atomic bool halt;
    struct zl_segment segment;
    struct zl_board *board;
    struct zl_ring *feed;
    struct zl_packet_layout feed_layout;
};

struct zl_pipeline_plan {
    struct zl_block_plan block[ZL_STAGES_MAX];
    uint64_t waiting_bytes[ZL_STAGES_MAX]; /* inputs, older weights and gradients that a stage keeps beside its block */
    uint32_t in_flight[ZL_STAGES_MAX];     /* micro-batches that can wait for their backward */
    uint64_t part_bytes[ZL_STAGES_MAX][ZL_STAGE_SECTIONS]; /* of a checkpoint behind a step; 0: no such part */
    uint64_t activation_bytes; /* of all stages, scratch included, where those that take turns share */
    uint64_t ring_bytes, total_bytes;
};
/* What the block of stage k is to be. */
struct zl_block_spec zl_pipeline_block(const struct zl_partition *p, uint32_t k, const struct zl_pipeline_options *o);

int zl_pipeline_plan(const struct zl_model *m, const struct zl_partition *p, const struct zl_pipeline_options *o,
                     struct zl_pipeline_plan *plan, struct zl_error *err);

/* Allocate everything. note [256]: a sentence when the segment could not be a named one. */
int zl_pipeline_open(struct zl_pipeline *l, const struct zl_model *m, const struct zl_partition *p,
                     const struct zl_pipeline_options *o, char note[256], struct zl_error *err);
int zl_pipeline_start(struct zl_pipeline *l, struct zl_error *err);

/* A free slot at the front, or NULL after timeout_ns or when a stage is gone. Fill it (kind, step, weight, lr, arrays), then send. */
struct zl_packet *zl_pipeline_slot(struct zl_pipeline *l, int64_t timeout_ns);
void zl_pipeline_send(struct zl_pipeline *l, struct zl_packet *p);
/* A checkpoint's marker into the slot: every stage gives its state to the sink as it passes, behind all that was sent before. */
void zl_pipeline_mark(struct zl_pipeline *l, struct zl_packet *slot, uint64_t step, uint64_t generation);
/* Into the slot: what was sent before is trained to its end before anything that comes behind. */
void zl_pipeline_drain(struct zl_pipeline *l, struct zl_packet *slot);

/* The next report of any stage: true and *out. Waits at most timeout_ns for one of the last stage. */
bool zl_pipeline_report(struct zl_pipeline *l, int64_t timeout_ns, struct zl_report *out);
/* All stages have ended and all reports are taken. */
bool zl_pipeline_done(const struct zl_pipeline *l);

void zl_pipeline_finish(struct zl_pipeline *l); /* nothing more comes: drain */
void zl_pipeline_abort(struct zl_pipeline *l);  /* stop at once */
void zl_pipeline_halt(struct zl_pipeline *l);   /* stop each worker behind its operation; rings and stages stay as they are */
bool zl_pipeline_over(const struct zl_pipeline *l); /* all workers have stopped; until then reports must be taken */
void zl_pipeline_join(struct zl_pipeline *l);
void zl_pipeline_close(struct zl_pipeline *l);

/* The whole state of a halted pipeline, whose workers have been joined: its parts (at most ZL_STAGES_MAX * ZL_STAGE_SECTIONS; returns how
 * many), and their bytes into a sink in the same order. A negative number: the sink has lost the generation. */
struct zl_pipeline_part {
    uint32_t stage, section;
    uint64_t bytes;
};
uint32_t zl_pipeline_parts(struct zl_pipeline *l, struct zl_pipeline_part *parts);
int zl_pipeline_put(struct zl_pipeline *l, const struct zl_snapshot_sink *sink, uint64_t generation);

/* Between open and start: go on where the state was taken, behind a marker's step or wherever the pipeline was halted (it must then have been
 * opened with rings as deep as that one's). What is fed next is what came next there. */
struct zl_pipeline_source {
    uint64_t (*bytes)(void *context, uint32_t stage, uint32_t section); /* 0: there is none */
    int (*read)(void *context, uint32_t stage, uint32_t section, void *data, uint64_t bytes, struct zl_error *err); /* these many or an error */
    void *context;
};
int zl_pipeline_restore(struct zl_pipeline *l, const struct zl_pipeline_source *from, struct zl_error *err);

/* Seconds that all workers together had nothing to run. */
double zl_pipeline_wait_seconds(const struct zl_pipeline *l);

#endif
