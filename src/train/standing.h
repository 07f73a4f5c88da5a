/*
 * Where a run stands: everything that its driver knows and a stage does not, as the text of a checkpoint. With the stages' parts it is
 * the run's whole state; numbers are written so that reading gives the same bits.
 */
#ifndef ZL_TRAIN_STANDING_H
#define ZL_TRAIN_STANDING_H

#include <jansson.h>

#include "train/course.h"
#include "train/health.h"
#include "train/journal.h"

struct zl_standing {
    struct zl_place at;
    uint64_t micro; /* index of the first micro-batch of training that has not been fed */
    struct zl_tally tally;
    struct zl_left_out left_out;
    struct zl_eval_record eval;          /* under way */
    const struct zl_step_record *begun;  /* [n_begun] steps that are not whole yet */
    uint32_t n_begun, n_stages;
    struct zl_vitals vitals;             /* behind the last whole step */
    struct zl_stage_count count[ZL_STAGES_MAX];
    bool halted;         /* anywhere; else behind a step */
    uint64_t ring_depth; /* of the rings whose contents a halted pipeline left */
    uint64_t micro_batch_tokens; /* as the plan chose */
    char maps[33];       /* XXH3-128 of the readouts' maps; empty: there are none */
    char isa[16];        /* the instruction set that computed */
    const json_t *identity;
};

/* malloc'd JSON, or NULL without memory. */
char *zl_standing_text(const struct zl_standing *s);

/* Read one back. `begun` is malloc'd (free it), `identity` a new reference. ZL_EINPUT names what is missing or cannot be. */
int zl_standing_read(const char *text, uint64_t bytes, struct zl_standing *s, struct zl_error *err);
void zl_standing_free(struct zl_standing *s);

#endif
