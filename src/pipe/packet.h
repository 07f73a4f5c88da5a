/*
 * What travels through a ring: one micro-batch, as a descriptor followed by arrays at fixed offsets, so that a slot is one block of
 * memory that any process can read. Written by the stage before, read-only to the stage behind it. Gradients travel the other way through rings of
 * their own.
 */
#ifndef ZL_PIPE_PACKET_H
#define ZL_PIPE_PACKET_H

#include <stdint.h>

#include "kernel/attention.h"

enum zl_packet_kind {
    ZL_TRAIN, /* forward, local loss, backward; update on the last micro-batch of a step */
    ZL_EVAL,  /* forward only; the last stage measures the model's own loss */
    ZL_MARK,  /* no micro-batch: a checkpoint's marker; each stage that it passes gives its state to the sink, then reports it */
    ZL_DRAIN, /* no micro-batch: what waits for its backward is finished before anything behind this, where nothing else flushes */
    ZL_NORM   /* no micro-batch: the norm of all stages' gradients, from the first stage to the others */
};

struct zl_packet {
    uint32_t kind;
    uint32_t last_of_step;
    uint32_t n_tokens, n_seqs;
    uint32_t inspect; /* report the norm of the sum of gradients after this micro-batch too */
    uint32_t reserved;
    uint64_t step;  /* from 1 */
    uint64_t micro; /* position in the run's list of micro-batches */
    float weight;   /* of a summed loss: 1 / labelled tokens of the whole step */
    float lr;
    uint64_t sequence;   /* of all packets that entered the pipeline */
    uint64_t version;    /* updates that the first stage had made when this micro-batch entered it */
    uint64_t generation; /* ZL_MARK: of the checkpoint */
    double norm;         /* ZL_NORM */
};

/* What comes back over a boundary: this, then at ZL_GRADIENT_AT d loss / d hidden [tokens][d] of the stage's output. */
struct zl_gradient {
    uint64_t micro;
    uint32_t n_tokens;
    uint32_t is_sum;    /* no gradient: the squares of all gradients from here to the last stage, at the end of a step */
    double sum;
};
#define ZL_GRADIENT_AT 64

/* Offsets of the arrays behind the descriptor. */
struct zl_packet_layout {
    uint64_t ids, labels, positions; /* int32 [tokens]; labels: the next token's id where it is trained, else -1 */
    uint64_t seqs;                   /* struct zl_attn_seq [seqs] */
    uint64_t hidden;                 /* float [tokens][d]; absent (0) in front of the first stage */
    uint64_t anchors, anchor_bytes;  /* float [labelled tokens][d] for each of the n_anchors stages from here on that are anchored */
    uint32_t n_anchors;
    uint64_t bytes;                  /* UINT64_MAX, which no ring takes, when the sizes are beyond 64 bits */
};

static inline struct zl_packet_layout zl_packet_layout(uint64_t tokens, uint64_t seqs, uint64_t d)
{
    struct zl_packet_layout l = {.bytes = UINT64_MAX};
    uint64_t hidden, at = (sizeof(struct zl_packet) + 63) / 64 * 64;
    if (tokens > UINT32_MAX || seqs > UINT32_MAX || __builtin_mul_overflow(tokens * sizeof(float), d, &hidden))
        return l;
    const uint64_t ints = (tokens * 4 + 63) / 64 * 64;
    l.ids = at;
    l.labels = l.ids + ints;
    l.positions = l.labels + ints;
    l.seqs = l.positions + ints;
    at = l.seqs + (seqs * sizeof(struct zl_attn_seq) + 63) / 64 * 64;
    l.hidden = d ? at : 0;
    if (__builtin_add_overflow(at, hidden, &l.bytes))
        l.bytes = UINT64_MAX;
    return l;
}

/* The same packet with anchors. */
static inline struct zl_packet_layout zl_packet_anchored(struct zl_packet_layout l, uint64_t tokens, uint64_t d, uint32_t n)
{
    uint64_t each, all;
    if (n == 0 || l.bytes == UINT64_MAX)
        return l;
    l.anchors = (l.bytes + 63) / 64 * 64;
    l.n_anchors = n;
    if (__builtin_mul_overflow(tokens * sizeof(float), d, &each) || __builtin_mul_overflow(each, (uint64_t)n, &all) ||
        __builtin_add_overflow(l.anchors, all, &l.bytes))
        l.bytes = UINT64_MAX;
    l.anchor_bytes = each;
    return l;
}

static inline void *zl_packet_at(struct zl_packet *m, uint64_t offset)
{
    return (unsigned char *)m + offset;
}

/* What a stage tells the driver about a micro-batch. */
struct zl_report {
    uint32_t kind, stage;
    uint32_t last_of_step;
    uint32_t updated;     /* an optimizer step was made */
    uint32_t skipped;     /* one was due, but the gradient was zero throughout or not finite */
    uint64_t step, micro;
    double loss_sum;      /* local loss over n labelled tokens, nats */
    uint64_t n, correct;
    double grad_norm;     /* before clipping, on the last micro-batch of a step; of all stages where the schedule flushes */
    float lr;             /* of the step that is due, while the norm is on its way */
    uint64_t busy_ns;     /* time computing this micro-batch */
    char unmoved[96];     /* after step 2: a tensor whose gradient has been exactly zero, or empty */
    uint64_t generation;  /* ZL_MARK: what the state counts that it gave */
    uint64_t forwarded, finished, updates;
};

#endif
