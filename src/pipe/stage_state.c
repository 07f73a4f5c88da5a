/* What a stage keeps beside its block: memory, and the parts that a checkpoint holds. See stage.h. */
#include "pipe/stage.h"

#include <string.h>

#include "kernel/dequant.h"

static bool keeps_older(const struct zl_stage *s)
{
    return s->schedule->weights == ZL_WEIGHTS_STASHED && s->block.spec.train;
}

/* Whether the input is copied: where the pipeline holds more than the running micro-batch. */
static bool stashes(const struct zl_stage *s)
{
    return s->in_flight > 1;
}

/* Gradients from behind that can be on their way when a marker passes. */
static uint32_t early_most(const struct zl_stage *s)
{
    return s->schedule->local || s->last || s->schedule->flush || s->ahead < s->ahead_behind ? 0 : s->ahead - s->ahead_behind;
}

static void take(struct zl_stage *s, struct zl_arena *a)
{
    const uint64_t n = s->in_flight, d = s->block.model->config.d;
    s->pending = zl_arena_take(a, n * sizeof *s->pending);
    if (s->index == 0)
        s->embedded = zl_arena_take(a, (uint64_t)s->block.spec.tokens * d * sizeof(float));
    if (stashes(s)) {
        s->stash_bytes = (s->in_layout.bytes + 63) / 64 * 64;
        s->stash = zl_arena_take(a, n * s->stash_bytes);
    }
    if (!s->schedule->local && !s->last) {
        s->gradient_bytes = ZL_GRADIENT_AT + (uint64_t)s->block.spec.tokens * d * sizeof(float);
        s->early_most = early_most(s);
        if (s->early_most)
            s->early = zl_arena_take(a, s->early_most * s->gradient_bytes);
    }
    if (keeps_older(s)) {
        s->older.n = s->vertical_sync ? 2 * s->n_stages : s->in_flight; /* the first stage updates last: it lags by as many stages */
        s->older.version = zl_arena_take(a, s->older.n * sizeof(uint64_t));
        s->older.w = zl_arena_take(a, s->older.n * s->block.n * sizeof(float));
    }
}

uint64_t zl_stage_memory(struct zl_stage *s)
{
    struct zl_arena counter = {0};
    take(s, &counter);
    return counter.peak;
}

int zl_stage_take(struct zl_stage *s, struct zl_error *err)
{
    int rc = zl_arena_open(&s->memory, "micro-batches that wait for their backward", zl_stage_memory(s), err);
    if (!rc)
        take(s, &s->memory);
    return rc;
}

void zl_stage_free(struct zl_stage *s)
{
    zl_arena_close(&s->memory);
    zl_block_close(&s->block);
}

unsigned zl_stage_parts(struct zl_stage *s, bool halted, struct zl_stage_part parts[ZL_STAGE_SECTIONS])
{
    const uint64_t vector = s->block.n * sizeof(float);
    const bool trains = s->block.spec.train && vector, open_end = !s->schedule->flush && !s->schedule->local;
    const bool under_way = open_end || halted, waits = open_end || (halted && s->state.n);
    const struct zl_stage_part all[] = {
        {ZL_SECTION_STATE, &s->state, sizeof s->state},
        {ZL_SECTION_WEIGHTS, s->block.w, vector},
        {ZL_SECTION_MOMENT_1, s->block.m, trains ? vector : 0},
        {ZL_SECTION_MOMENT_2, s->block.v, trains ? vector : 0},
        {ZL_SECTION_GRADIENT, s->block.g, trains && under_way ? vector : 0},
        {ZL_SECTION_STASH, s->stash, waits ? s->in_flight * s->stash_bytes : 0},
        {ZL_SECTION_PLACES, s->pending, waits ? s->in_flight * sizeof *s->pending : 0},
        {ZL_SECTION_EARLY, s->early, early_most(s) * s->gradient_bytes},
        {ZL_SECTION_OLDER, s->older.w, s->older.n * vector},
        {ZL_SECTION_VERSIONS, s->older.version, s->older.n * sizeof *s->older.version},
        {ZL_SECTION_FLOW, &s->flow, halted ? sizeof s->flow : 0},
    };
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].bytes)
            parts[n++] = all[i];
    return n;
}
