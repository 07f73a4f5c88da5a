/*
 * A pipeline's state as parts, and back: what a stage keeps (stage.h) and, of one that was halted anywhere, what is in the rings. See
 * pipeline.h. No worker runs while this is called.
 */
#include "pipe/pipeline.h"

#include <stdlib.h>
#include <string.h>

/* The rings whose contents belong to a halted stage: those that it reads. */
struct content {
    enum zl_stage_section section;
    struct zl_ring *ring;
    uint64_t slot_bytes;
};

static unsigned contents_of(const struct zl_stage *s, struct content out[2])
{
    unsigned n = 0;
    out[n++] = (struct content){ZL_SECTION_PACKETS, s->in, s->in_layout.bytes};
    if (s->back_in)
        out[n++] = (struct content){ZL_SECTION_GRADIENTS, s->back_in, s->gradient_bytes};
    return n;
}

uint32_t zl_pipeline_parts(struct zl_pipeline *l, struct zl_pipeline_part *parts)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < l->n; k++) {
        struct zl_stage_part own[ZL_STAGE_SECTIONS];
        struct content ring[2];
        const unsigned n_own = zl_stage_parts(&l->stage[k], true, own), rings = contents_of(&l->stage[k], ring);
        for (unsigned i = 0; i < n_own; i++)
            parts[n++] = (struct zl_pipeline_part){k, own[i].section, own[i].bytes};
        for (unsigned i = 0; i < rings; i++)
            if (zl_ring_unread(ring[i].ring))
                parts[n++] = (struct zl_pipeline_part){k, ring[i].section, zl_ring_unread(ring[i].ring) * ring[i].slot_bytes};
    }
    return n;
}

int zl_pipeline_put(struct zl_pipeline *l, const struct zl_snapshot_sink *sink, uint64_t generation)
{
    int rc = 0;
    for (uint32_t k = 0; k < l->n && !rc; k++) {
        struct zl_stage_part own[ZL_STAGE_SECTIONS];
        struct content ring[2];
        const unsigned n_own = zl_stage_parts(&l->stage[k], true, own), rings = contents_of(&l->stage[k], ring);
        for (unsigned i = 0; i < n_own && !rc; i++)
            rc = sink->put(sink->context, generation, k, own[i].section, own[i].data, own[i].bytes);
        for (unsigned i = 0; i < rings && !rc; i++)
            for (uint32_t j = 0; j < zl_ring_unread(ring[i].ring) && !rc; j++)
                rc = sink->put(sink->context, generation, k, ring[i].section, zl_ring_unread_at(ring[i].ring, j), ring[i].slot_bytes);
    }
    return rc;
}

static void follow(struct zl_pipeline *l, const struct zl_packet *p)
{
    if (p->sequence >= l->sent)
        l->sent = p->sequence + 1;
}

/* A packet's sizes, by which its stage reads and writes, are what the plan has room for. */
static bool is_packet(const struct zl_stage *s, const struct zl_packet *p)
{
    const uint64_t seqs = (s->in_layout.bytes - s->in_layout.seqs) / sizeof(struct zl_attn_seq);
    bool sound = p->kind <= ZL_NORM && p->n_tokens <= (uint64_t)s->block.spec.tokens && p->n_seqs <= seqs;
    for (uint32_t i = 0; sound && i < p->n_seqs; i++) {
        struct zl_attn_seq q;
        memcpy(&q, (const unsigned char *)p + s->in_layout.seqs + i * sizeof q, sizeof q);
        sound = q.q_begin >= 0 && q.q_len >= 0 && q.q_len <= (int64_t)p->n_tokens - q.q_begin && q.kv_begin >= 0 && q.kv_len >= 0 &&
                q.kv_len <= (int64_t)p->n_tokens - q.kv_begin;
    }
    return sound;
}

static int fill_ring(struct zl_pipeline *l, uint32_t k, const struct content *c, const struct zl_pipeline_source *from, struct zl_error *err)
{
    const uint64_t bytes = from->bytes(from->context, k, c->section);
    if (!bytes)
        return 0;
    unsigned char *all = malloc((size_t)bytes);
    int rc = all ? from->read(from->context, k, c->section, all, bytes, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc && bytes % c->slot_bytes)
        rc = zl_fail(err, ZL_EINPUT, "section %u of stage %u has %llu bytes, which are no whole packets", c->section, k,
                     (unsigned long long)bytes);
    for (uint64_t at = 0; at < bytes && !rc; at += c->slot_bytes) {
        void *slot = zl_ring_try_reserve(c->ring, 0);
        if (!slot) {
            rc = zl_fail(err, ZL_EINPUT, "stage %u: more packets were on their way than its ring holds", k);
            break;
        }
        memcpy(slot, all + at, (size_t)c->slot_bytes);
        if (c->section == ZL_SECTION_PACKETS && !is_packet(&l->stage[k], slot)) {
            rc = zl_fail(err, ZL_EINPUT, "stage %u: a packet on its way to it cannot be", k);
            break;
        }
        if (c->section == ZL_SECTION_PACKETS)
            follow(l, slot);
        zl_ring_publish(c->ring);
    }
    free(all);
    return rc;
}

static int check(const struct zl_stage *s, uint32_t k, bool halted, struct zl_error *err)
{
    const uint64_t finished = s->state.finished + s->state.n, waits = halted && s->state.n == 0; /* for the norm of all stages */
    const bool sound = s->state.n <= s->in_flight && s->state.first < s->in_flight && s->state.n_early <= s->early_most &&
                       (finished == s->state.forwarded || finished + waits == s->state.forwarded);
    return sound ? 0 : zl_fail(err, ZL_EINPUT, "the state of stage %u contradicts itself", k);
}

static int restore_stage(struct zl_pipeline *l, uint32_t k, const struct zl_pipeline_source *from, struct zl_error *err)
{
    struct zl_stage *s = &l->stage[k];
    struct zl_stage_part own[ZL_STAGE_SECTIONS];
    struct content ring[2];
    int rc = from->read(from->context, k, ZL_SECTION_STATE, &s->state, sizeof s->state, err);
    const bool halted = from->bytes(from->context, k, ZL_SECTION_FLOW) != 0;
    if (!rc)
        rc = check(s, k, halted, err);
    const unsigned n = zl_stage_parts(s, halted, own), rings = contents_of(s, ring);
    for (unsigned i = 0; i < n && !rc; i++)
        rc = from->read(from->context, k, own[i].section, own[i].data, own[i].bytes, err);
    for (unsigned i = 0; i < rings && !rc; i++)
        rc = fill_ring(l, k, &ring[i], from, err);
    if (!rc && s->state.n && !s->stash && !zl_ring_unread(s->in))
        rc = zl_fail(err, ZL_EINPUT, "stage %u waits for a backward whose packet is missing", k);
    for (uint32_t i = 0; i < s->state.n && s->stash && !rc; i++) {
        const struct zl_packet *p = (const void *)(s->stash + (s->state.first + i) % s->in_flight * s->stash_bytes);
        follow(l, p);
        if (!is_packet(s, p))
            rc = zl_fail(err, ZL_EINPUT, "stage %u: a packet that waits there cannot be", k);
    }
    return rc;
}

int zl_pipeline_restore(struct zl_pipeline *l, const struct zl_pipeline_source *from, struct zl_error *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < l->n && !rc; k++)
        rc = restore_stage(l, k, from, err);
    return rc;
}
