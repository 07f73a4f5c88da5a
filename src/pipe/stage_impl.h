/*
 * What the files of a stage share: where things lie, and the operations that stage.c chooses from. Nobody else includes this.
 *
 *     stage.c          what comes next
 *     stage_pass.c     forward, backward, evaluation of a micro-batch
 *     stage_step.c     the end of a step: the norm, the update, versions of weights
 *     stage_mark.c     markers of checkpoints
 *     stage_packet.c   packets, and the tokens in them
 *     stage_state.c    memory, and the parts of the state
 */
#ifndef ZL_PIPE_STAGE_IMPL_H
#define ZL_PIPE_STAGE_IMPL_H

#include "pipe/stage.h"

/* ---- where things lie ---------------------------------------------------------------------------- */

static inline uint32_t place_at(const struct zl_stage *s, uint32_t i)
{
    return (s->state.first + i) % s->in_flight;
}

/* A place of the queue in the block: all share one slot where the forward is replayed. */
static inline uint32_t slot_of(const struct zl_stage *s, uint32_t place)
{
    return s->schedule->weights == ZL_WEIGHTS_REPLAYED ? 0 : place;
}

static inline bool has_loss_here(const struct zl_stage *s)
{
    return s->schedule->local || s->last;
}

static inline bool is_trained(const struct zl_stage *s)
{
    return s->block.spec.train && s->block.n;
}

/* The norm of all stages: the squares travel to the first stage, the norm from there to the others. */
static inline bool shares_norm(const struct zl_stage *s)
{
    return s->schedule->flush && !s->schedule->single && s->n_stages > 1;
}

static inline void publish(struct zl_ring *r, struct zl_bell *bell)
{
    zl_ring_publish(r);
    zl_bell_ring(bell);
}

static inline void release(struct zl_ring *r, struct zl_bell *bell)
{
    zl_ring_release(r);
    zl_bell_ring(bell);
}

/* ---- packets: stage_packet.c ---------------------------------------------------------------------- */

/* The packet of the micro-batch in a place of the queue. */
struct zl_packet *zl_stage_pending(struct zl_stage *s, uint32_t place);
struct zl_tokens zl_stage_tokens(const struct zl_stage *s, struct zl_packet *p);
/* The block's input: what came over the ring, or the embedded tokens. */
const float *zl_stage_input(struct zl_stage *s, struct zl_packet *p);
/* Own layers on a packet's tokens. */
const float *zl_stage_own_layers(struct zl_stage *s, uint32_t slot, const struct zl_tokens *tok, struct zl_packet *p);
/* A packet as it came in, to where one of `layout` belongs, with other hidden states. */
void zl_stage_copy(const struct zl_stage *s, struct zl_packet *from, struct zl_packet *to, const struct zl_packet_layout *layout,
                   const float *hidden);
/* A packet without a micro-batch, to the stage behind. */
void zl_stage_pass_on(struct zl_stage *s);
struct zl_report zl_stage_report(const struct zl_stage *s, const struct zl_packet *p);
void zl_stage_send_report(struct zl_stage *s, const struct zl_report *r);

/* ---- steps: stage_step.c -------------------------------------------------------------------------- */

void zl_stage_use_version(struct zl_stage *s, uint64_t version);
/* The last backward of a step is done: update, or find the norm of all stages first. */
void zl_stage_end_step(struct zl_stage *s, const struct zl_packet *p, struct zl_report *r);
/* A stage of the chain of norms: add to the sum and pass it on to the stage before, or, at its end, take the step and tell the others. */
void zl_stage_norm(struct zl_stage *s);

/* ---- micro-batches: stage_pass.c ------------------------------------------------------------------ */

void zl_stage_forward(struct zl_stage *s);
void zl_stage_backward(struct zl_stage *s);
void zl_stage_evaluate(struct zl_stage *s);

/* ---- markers: stage_mark.c ------------------------------------------------------------------------ */

/* Whether all gradients are there that are a part of the state when a marker passes. */
bool zl_stage_sees_early(struct zl_stage *s);
void zl_stage_mark(struct zl_stage *s);

#endif
