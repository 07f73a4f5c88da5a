/*
 * Which worker runs which stage. Because the stages are a Kahn network, this changes speed and memory and never a bit of the result.
 * Spread: a worker a stage, each on its own core group; with fewer threads than stages, a worker a thread, and they have the stages in
 * common: whoever is free takes what can go on, so that no cut of the model leaves one idle. Stacked: one worker with all threads runs every
 * stage in turn, so that local stages need the activations of one block at a time.
 */
#ifndef ZL_PIPE_PLACEMENT_H
#define ZL_PIPE_PLACEMENT_H

#include <stdint.h>

#include "pipe/partition.h"

enum zl_placement { ZL_PLACEMENT_AUTO, ZL_PLACEMENT_SPREAD, ZL_PLACEMENT_STACKED };

struct zl_places {
    uint32_t n_workers;
    bool common; /* each worker, of a thread, runs every stage, one worker at a time */
    uint32_t worker_of[ZL_STAGES_MAX]; /* where they do not; else one of them, all being equal */
};

/* stages: of the partition; round: stages k, k + round, k + 2 round … belong together (interleaved stages; `stages` where each stands
 * for itself). AUTO is spread. */
void zl_places_choose(struct zl_places *p, enum zl_placement placement, uint32_t stages, uint32_t round, uint32_t threads);

#endif
