/*
 * What happened when, for pictures: each worker writes the spans of its work and waiting, and samples of counters, into a buffer of its
 * own that was allocated and touched before the run. No lock, no atomic, no allocation: a lane has one writer, and is read when
 * that thread has been joined. A full lane drops what comes and counts it. Off is a NULL lane: every call then is one comparison.
 *
 * The driver owns the trace; train/trace.h writes it as a file.
 */
#ifndef ZL_PIPE_TRACE_H
#define ZL_PIPE_TRACE_H

#include <stdint.h>

#include "base/error.h"

enum zl_trace_kind {
    ZL_TRACE_FORWARD,    /* of the stage's own layers */
    ZL_TRACE_LOCAL_LOSS, /* the readout or the model's head: its loss and the gradient at the block's output */
    ZL_TRACE_BACKWARD,   /* of the stage's own layers */
    ZL_TRACE_UPDATE,     /* clip and optimizer */
    ZL_TRACE_REPLAY,     /* forward again from the stored input, before a backward */
    ZL_TRACE_EVALUATE,   /* forward (and loss) of a micro-batch that is held out */
    ZL_TRACE_WAIT_INPUT, /* for activations from before or gradients from behind */
    ZL_TRACE_WAIT_SPACE, /* for a free slot in a ring */
    ZL_TRACE_CHECKPOINT, /* the snapshot when the marker passes */
    ZL_TRACE_SPILL_READ,
    ZL_TRACE_SPILL_WRITE,
    ZL_TRACE_RING_FILL,        /* counter: micro-batches in the ring before the stage */
    ZL_TRACE_ACTIVATION_BYTES, /* counter: what the stage keeps for backward passes to come */
    ZL_TRACE_KINDS
};
#define ZL_TRACE_SPANS ZL_TRACE_RING_FILL /* kinds before this one are spans, the others counters */

extern const char *const zl_trace_names[ZL_TRACE_KINDS]; /* "forward", "local loss", …, as the file has them */

#define ZL_TRACE_NO_STAGE UINT16_MAX /* a worker's own time: it hosts several stages and none of them could go on */

struct zl_trace_event {
    uint64_t begin_ns; /* zl_clock_ns */
    uint64_t end_ns;   /* of a counter: its value */
    uint32_t step, micro;
    uint16_t kind, stage;
};

/* The events of one writer. */
struct zl_trace_lane {
    struct zl_trace_event *event; /* [capacity] */
    uint32_t n, capacity;
    uint64_t dropped;
    char name[24]; /* "worker 0" */
};

struct zl_trace {
    uint32_t n_lanes;
    struct zl_trace_lane *lane; /* [n_lanes] */
    uint64_t origin_ns;         /* the zero of the picture: when it was opened */
};

/* Room for `events` events in each of `lanes` lanes, all touched now. ZL_EMEMORY. */
int zl_trace_open(struct zl_trace *t, uint32_t lanes, uint32_t events, struct zl_error *err);
void zl_trace_close(struct zl_trace *t);

/* Lane i of a trace, NULL (off) of no trace. */
static inline struct zl_trace_lane *zl_trace_lane(struct zl_trace *t, uint32_t i)
{
    return t && i < t->n_lanes ? &t->lane[i] : (struct zl_trace_lane *)0;
}

static inline void zl_trace_add(struct zl_trace_lane *l, struct zl_trace_event e)
{
    if (l->n < l->capacity)
        l->event[l->n++] = e;
    else
        l->dropped++;
}

/* From begin to end (zl_clock_ns) the stage did this for micro-batch `micro` of step `step`. */
static inline void zl_trace_span(struct zl_trace_lane *l, enum zl_trace_kind kind, uint64_t begin_ns, uint64_t end_ns, uint32_t stage,
                                 uint64_t micro, uint64_t step)
{
    if (l)
        zl_trace_add(l, (struct zl_trace_event){begin_ns, end_ns, (uint32_t)step, (uint32_t)micro, (uint16_t)kind, (uint16_t)stage});
}

/* From at_ns on a counter of the stage is `value`. */
static inline void zl_trace_counter(struct zl_trace_lane *l, enum zl_trace_kind kind, uint64_t at_ns, uint32_t stage, uint64_t value)
{
    if (l)
        zl_trace_add(l, (struct zl_trace_event){at_ns, value, 0, 0, (uint16_t)kind, (uint16_t)stage});
}

#endif
