/*
 * Driving a pipeline: the one thread beside the workers feeds what the course says in at the front and books reports at the back, has
 * checkpoints made, and brings everything to a stop when it has to.
 */
#ifndef ZL_TRAIN_DRIVE_H
#define ZL_TRAIN_DRIVE_H

#include "pipe/pipeline.h"
#include "train/checkpointing.h"
#include "train/health.h"
#include "train/resume.h"

struct zl_driver {
    const struct zl_train_options *o;
    struct zl_setup *s;
    struct zl_run *run;
    struct zl_journal *journal;
    struct zl_checkpointing *checkpointing;
    struct zl_frozen *frozen; /* NULL: all stages compute */
    struct zl_anchor *anchor; /* NULL: no stage is anchored */
    struct zl_course course;
    struct zl_pipeline pipeline;
    struct zl_ledger ledger;
    struct zl_health health;
    struct zl_trouble trouble; /* what made the driver stop, beside the journal */
    bool admits; /* micro-batches of the step under way have been fed that events.jsonl does not have yet: from first to last */
    uint64_t first_admitted, last_admitted;
};

/* Open pipeline and ledger as the generation left them, or as they begin, and start. The other fields are set. */
int zl_driver_open(struct zl_driver *d, struct zl_resume *resume, struct zl_error *err);
void zl_driver_shut(struct zl_driver *d); /* to be opened again; what is left out stays so */
void zl_driver_close(struct zl_driver *d);

/* Train to the end, or until the journal stops: then the workers are halted where they are, and the state is written if it was somebody's wish.
 * The workers have ended and all reports are booked when this returns. d->trouble: a step's numbers are bad; what came before it is in
 * the journal, and the run can go on from a checkpoint before it. */
void zl_driver_run(struct zl_driver *d);

#endif
