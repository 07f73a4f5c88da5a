/* Going on with a run from a checkpoint: which generation, what it says, and its bytes into the stages. */
#ifndef ZL_TRAIN_RESUME_H
#define ZL_TRAIN_RESUME_H

#include "store/generation.h"
#include "store/run.h"
#include "train/checkpointing.h"
#include "train/standing.h"

struct zl_resume {
    struct zl_generation generation; /* file NULL: from the beginning */
    struct zl_standing standing;     /* of it; reads as the beginning without */
    struct zl_run_id id;
    char *dir;
};

/* Find the newest generation of the folder's run that verifies; says which it passed over and why. Without one the run begins anew, which a
 * folder that holds a finished run's adapter refuses unless `force`. */
int zl_resume_find(struct zl_resume *r, const struct zl_run *run, bool force, struct zl_error *err);

/* The newest one that verifies and was cut before micro-batch `micro` was fed, for going back: later ones are set aside. */
int zl_resume_back(struct zl_resume *r, const char *dir, const struct zl_run_id *id, uint64_t micro, struct zl_error *err);
void zl_resume_free(struct zl_resume *r);

/* Options that the checkpoint knows better: micro-batches as the plan chose them then. */
void zl_resume_options(const struct zl_resume *r, struct zl_train_options *o);

/* Refuse to go on with another model, other rows or options that change the result, naming them; with `force` that is a warning. */
int zl_resume_check(const struct zl_resume *r, const json_t *identity, bool force, struct zl_error *err);

/* Cut the metrics back to what the generation knows, and take its tally into the journal. */
int zl_resume_journal(const struct zl_resume *r, struct zl_run *run, struct zl_journal *j, struct zl_error *err);

/* Bytes into the stages of a pipeline that is open and not started. Then the generation is closed. */
int zl_resume_pipeline(struct zl_resume *r, struct zl_pipeline *l, struct zl_error *err);
struct zl_sweep;
int zl_resume_sweep(struct zl_resume *r, struct zl_sweep *w, struct zl_error *err);

static inline bool zl_resume_any(const struct zl_resume *r)
{
    return r->generation.file != NULL;
}

#endif
