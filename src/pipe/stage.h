/*
 * A stage: one block of layers between two rings, and what it does next. It is a state machine that its worker drives
 * (pipe/worker.h): zl_stage_next says what the next operation is and whether it can run now, zl_stage_run runs it; no
 * call waits. The order of a stage's operations depends on the schedule (pipe/schedule.h) and on what comes through its rings, never
 * on time: a Kahn network, so results do not depend on timing, placement or the number of threads.
 *
 * Early forwarding: the output is published before a local loss is computed and before any update.
 */
#ifndef ZL_PIPE_STAGE_H
#define ZL_PIPE_STAGE_H

#include "model/block.h"
#include "pipe/bell.h"
#include "pipe/packet.h"
#include "pipe/ring.h"
#include "pipe/schedule.h"
#include "pipe/snapshot.h"
#include "pipe/trace.h"

enum zl_stage_next {
    ZL_STAGE_BROKEN,        /* a neighbour is gone */
    ZL_STAGE_DONE,          /* the input is closed and all work is finished */
    ZL_STAGE_WAITS_INPUT,   /* for a packet from the stage before */
    ZL_STAGE_WAITS_GRADIENT,/* for one from the stage behind */
    ZL_STAGE_WAITS_SPACE,   /* for a free slot in the next ring */
    ZL_STAGE_BACKWARD,      /* these can run; the first of them before all others of a worker */
    ZL_STAGE_NORM,
    ZL_STAGE_FORWARD,
    ZL_STAGE_EVALUATE,
    ZL_STAGE_MARK,
    ZL_STAGE_DRAIN
};

static inline bool zl_stage_can_run(enum zl_stage_next n)
{
    return n >= ZL_STAGE_BACKWARD;
}

/* The small part of a stage's state, as a checkpoint keeps it. */
struct zl_stage_state {
    uint64_t updates;     /* optimizer steps made */
    uint64_t version;     /* times that one was due, made or left out */
    uint64_t forwarded;   /* micro-batches of training that have gone forward, of the whole run */
    uint64_t finished;    /* and whose backward is done and reported: their gradients are in the weights or in the sum so far, once each */
    uint32_t first, n;    /* of the micro-batches that wait for their backward: a ring of `in_flight` places */
    uint32_t n_early;     /* the next gradients are in `early`: they were in their ring when the checkpoint was made */
    uint32_t reserved;
};

/* Parts of a stage's state: section numbers of a checkpoint. */
enum zl_stage_section {
    ZL_SECTION_STATE,    /* struct zl_stage_state */
    ZL_SECTION_WEIGHTS,  /* own adapters, then the shadow's; float */
    ZL_SECTION_MOMENT_1, /* of Adam, as the weights */
    ZL_SECTION_MOMENT_2,
    ZL_SECTION_GRADIENT, /* from here on behind a step only where the pipeline never runs empty: the sum so far */
    ZL_SECTION_STASH,    /* the packets that wait for their backward */
    ZL_SECTION_PLACES,   /* struct zl_pending of each place */
    ZL_SECTION_EARLY,    /* gradients on their way */
    ZL_SECTION_OLDER,    /* older weights that some of them need */
    ZL_SECTION_VERSIONS, /* and their numbers */
    ZL_SECTION_FLOW,     /* from here on only of a pipeline that was halted anywhere: struct zl_stage_flow */
    ZL_SECTION_PACKETS,  /* in the ring before the stage */
    ZL_SECTION_GRADIENTS,/* in the ring from the stage behind */
    ZL_STAGE_SECTIONS
};

/* What of a stage's turns is under way. At a marker nothing is. */
struct zl_stage_flow {
    uint32_t ended;       /* the last forward ended a step that flushes */
    uint32_t has_sum;     /* and the squares of the gradients went on to the stage before: the norm of all is still to come */
    uint32_t draining;    /* what waits is finished before anything new */
    uint32_t reserved;
    struct zl_report report; /* of the step's last micro-batch, which waits for the norm */
};

struct zl_stage_part {
    enum zl_stage_section section;
    void *data;
    uint64_t bytes;
};

/* A micro-batch that was forwarded and waits for its backward. Its place is its slot in the block and in the stash. */
struct zl_pending {
    uint64_t version; /* of the weights of its forward */
    uint64_t forward_ns;
    uint64_t kept_bytes; /* of activations and input */
};

struct zl_stage {
    uint32_t index, n_stages;
    bool last;
    bool anchored;      /* the first anchor of a packet is this stage's */
    bool passing;       /* its output is its input: somebody has computed it before */
    const struct zl_schedule *schedule;
    bool vertical_sync; /* the version of weights is the one that the first stage that trains had */
    bool closed;        /* the input has ended, and the stage behind knows */
    bool taken;         /* a worker is running an operation of it; under the lock of those who have it in common */
    uint32_t worker;
    struct zl_block block;
    struct zl_optimizer optimizer; /* lr comes with each packet */
    struct zl_stage_state state;
    struct zl_stage_flow flow;
    struct zl_ring *in, *out;      /* out NULL: the last stage */
    struct zl_ring *back_in, *back_out; /* gradients from the stage behind, to the stage before; NULL: none */
    struct zl_ring *reports;       /* of struct zl_report, to the driver */
    struct zl_bell *before, *behind; /* of the neighbours' workers; NULL: no neighbour, or the driver */
    /* found by the look that said what can run, valid until the operation is done even when a ring is aborted meanwhile */
    struct zl_packet *front, *room; /* of the rings in and out */
    struct zl_gradient *gradient, *back_room;
    struct zl_packet_layout in_layout, out_layout;
    uint32_t ahead, in_flight;     /* see pipe/schedule.h */
    uint32_t ahead_behind;         /* of the stage behind */
    struct zl_pending *pending;    /* [in_flight] */
    unsigned char *stash;          /* [in_flight][stash_bytes]: their packets; NULL where the input ring holds the only one */
    uint64_t stash_bytes;
    unsigned char *early;          /* [early_most][gradient_bytes], the next one first */
    uint32_t early_most;
    uint64_t gradient_bytes;
    struct zl_older {
        uint32_t n;
        uint64_t *version;         /* [n] */
        float *w;                  /* [n][block.n] */
    } older;
    float *embedded;               /* [tokens][d], stage 0 only */
    const struct zl_snapshot_sink *sink; /* where markers leave the state; NULL: nowhere */
    struct zl_trace_lane *trace;   /* of its worker; NULL: off */
    struct zl_arena memory;        /* of stash, early, older, embedded */
};

/* Bytes of stash, older weights and the like that stage `s` (index, n_stages, last, schedule, in_flight, layouts, block.spec and block.n
 * set) takes, and take them. */
uint64_t zl_stage_memory(struct zl_stage *s);
int zl_stage_take(struct zl_stage *s, struct zl_error *err);
void zl_stage_free(struct zl_stage *s);

enum zl_stage_next zl_stage_next(struct zl_stage *s);
/* Run the operation that zl_stage_next gave and that can run. */
void zl_stage_run(struct zl_stage *s, enum zl_stage_next what);
/* The sequence number of the packet that the next operation is about, by which a worker chooses the oldest. */
uint64_t zl_stage_oldest(struct zl_stage *s, enum zl_stage_next what);
/* Close the rings behind a stage that is done, or abort all around one that is broken. */
void zl_stage_end(struct zl_stage *s, bool broken);

/* Make the activations of pending micro-batches again, after their state was read from a checkpoint; on the stage's own thread. */
void zl_stage_revive(struct zl_stage *s);

/* The parts of the state behind a step, in the order of their sections; returns how many (at most ZL_STAGE_SECTIONS). Stable while the stage
 * is open; in a plan, before the stage has memory, the sizes alone count. halted: those of a stage that was halted anywhere, but for what
 * is in its rings. */
unsigned zl_stage_parts(struct zl_stage *s, bool halted, struct zl_stage_part parts[ZL_STAGE_SECTIONS]);

#endif
