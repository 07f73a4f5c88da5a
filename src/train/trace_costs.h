/*
 * What a trace says in numbers: what each kind of work took on a stage, how long each worker was busy and waited. Pure counting over the
 * events that trace.h reads back.
 */
#ifndef ZL_TRAIN_TRACE_COSTS_H
#define ZL_TRAIN_TRACE_COSTS_H

#include "pipe/partition.h"
#include "train/trace.h"

struct zl_traced_stage {
    uint64_t n[ZL_TRACE_SPANS], ns[ZL_TRACE_SPANS]; /* spans of a kind and their time together */
    uint32_t worker;     /* that ran it last */
    bool roams;          /* and others did too */
    uint64_t peak_bytes; /* of the counter, 0: it was not traced */
};

struct zl_traced_worker {
    uint64_t wait_ns;          /* between them, waiting for input, for space, for the disk */
    uint64_t begin_ns, end_ns; /* of its first and last training operation */
};

struct zl_trace_costs {
    uint64_t evaluate_ns;      /* of all workers between begin and end */
    uint64_t peak_bytes;       /* live activations of all stages at one moment */
    uint64_t begin_ns, end_ns; /* of training, first to last operation of any stage; evaluations before and after are left out */
    uint32_t stages, workers;
    struct zl_traced_stage stage[ZL_STAGES_MAX];
    struct zl_traced_worker worker[ZL_STAGES_MAX];
};

/* ZL_EINPUT when the trace holds no training, or more stages than there can be. */
int zl_trace_costs(const struct zl_traced *t, const char *path, struct zl_trace_costs *c, struct zl_error *err);

/* Mean nanoseconds of a span of a stage; 0 without any. The first of each kind, which touches memory for the first time, counts too. */
double zl_trace_mean(const struct zl_trace_costs *c, uint32_t stage, enum zl_trace_kind kind);

/* Time of training without the evaluations between steps, which all workers share. */
double zl_trace_seconds(const struct zl_trace_costs *c);

/* Shares of time in which workers wait: of the whole training, before and behind their own work included; and from each worker's first operation to its last one. */
double zl_trace_idle(const struct zl_trace_costs *c);
double zl_trace_idle_after_fill(const struct zl_trace_costs *c);

#endif
