/* A stage's packets: where their parts lie, and copies for the stage behind. See stage_impl.h. */
#include "pipe/stage_impl.h"

#include <string.h>

#include "kernel/dequant.h"

struct zl_packet *zl_stage_pending(struct zl_stage *s, uint32_t place)
{
    return s->stash ? (struct zl_packet *)(void *)(s->stash + place * s->stash_bytes) : s->front;
}

struct zl_tokens zl_stage_tokens(const struct zl_stage *s, struct zl_packet *p)
{
    return (struct zl_tokens){.t = p->n_tokens,
                              .positions = zl_packet_at(p, s->in_layout.positions),
                              .n_seqs = (int)p->n_seqs,
                              .seqs = zl_packet_at(p, s->in_layout.seqs)};
}

const float *zl_stage_input(struct zl_stage *s, struct zl_packet *p)
{
    const struct zl_model *m = s->block.model;
    if (s->in_layout.hidden)
        return zl_packet_at(p, s->in_layout.hidden);
    zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, zl_packet_at(p, s->in_layout.ids), p->n_tokens, s->embedded);
    return s->embedded;
}

const float *zl_stage_own_layers(struct zl_stage *s, uint32_t slot, const struct zl_tokens *tok, struct zl_packet *p)
{
    const float *x = zl_stage_input(s, p);
    return s->passing ? x : zl_block_forward(&s->block, slot, tok, x);
}

/* What the stages behind are anchored to; this one's own comes first and stays. */
static void copy_anchors(const struct zl_stage *s, struct zl_packet *from, struct zl_packet *to, const struct zl_packet_layout *layout)
{
    const struct zl_packet_layout *in = &s->in_layout;
    const int32_t *labels = zl_packet_at(from, in->labels);
    const uint32_t skipped = in->n_anchors - layout->n_anchors;
    size_t labelled = 0;
    for (uint32_t t = 0; t < from->n_tokens; t++)
        labelled += labels[t] >= 0;
    for (uint32_t i = 0; i < layout->n_anchors; i++)
        memcpy(zl_packet_at(to, layout->anchors + i * layout->anchor_bytes),
               zl_packet_at(from, in->anchors + (i + skipped) * in->anchor_bytes), labelled * s->block.model->config.d * sizeof(float));
}

void zl_stage_copy(const struct zl_stage *s, struct zl_packet *from, struct zl_packet *to, const struct zl_packet_layout *layout,
                        const float *hidden)
{
    const struct zl_packet_layout *in = &s->in_layout;
    const size_t ints = from->n_tokens * sizeof(int32_t);
    *to = *from;
    memcpy(zl_packet_at(to, layout->ids), zl_packet_at(from, in->ids), ints);
    memcpy(zl_packet_at(to, layout->labels), zl_packet_at(from, in->labels), ints);
    memcpy(zl_packet_at(to, layout->positions), zl_packet_at(from, in->positions), ints);
    memcpy(zl_packet_at(to, layout->seqs), zl_packet_at(from, in->seqs), from->n_seqs * sizeof(struct zl_attn_seq));
    if (layout->hidden)
        memcpy(zl_packet_at(to, layout->hidden), hidden, (size_t)from->n_tokens * s->block.model->config.d * sizeof(float));
    if (layout->n_anchors && from->kind == ZL_TRAIN)
        copy_anchors(s, from, to, layout);
}

void zl_stage_pass_on(struct zl_stage *s)
{
    if (s->out) {
        *s->room = *s->front;
        publish(s->out, s->behind);
    }
    release(s->in, s->before);
}

struct zl_report zl_stage_report(const struct zl_stage *s, const struct zl_packet *p)
{
    return (struct zl_report){
        .kind = p->kind, .stage = s->index, .last_of_step = p->last_of_step, .step = p->step, .micro = p->micro};
}

void zl_stage_send_report(struct zl_stage *s, const struct zl_report *r)
{
    struct zl_report *to = zl_ring_reserve(s->reports); /* the driver empties it whatever happens */
    if (!to)
        return;
    *to = *r;
    zl_ring_publish(s->reports);
}
