/*
 * What the two sides of the checkpoint writer share: the callers' (checkpoint.c: begin, put, poll) and the writer thread's (writer.c,
 * commit.c, retain.c). See checkpoint.h.
 *
 * One mutex guards everything that both sides touch and is held for a few instructions, never over a copy, a hash or a system call. A slot
 * holds one block on its way and has one owner at any time: the list of free ones, the part that is being filled (and so the stage's
 * thread), the queue, or the writer. A generation under way is the writer's to free, and only when no thread is inside put for it.
 */
#ifndef ZL_STORE_CHECKPOINT_IMPL_H
#define ZL_STORE_CHECKPOINT_IMPL_H

#include <pthread.h>

#include "store/checkpoint.h"
#include "store/disk.h"
#include "store/generation_impl.h"

#define ZL_OPEN_MOST 2u    /* generations under way */
#define ZL_EVENTS_MOST 16u /* that nobody has polled yet; no more are begun then */
#define ZL_NO_PART UINT32_MAX

struct zl_slot {
    struct zl_slot *next;
    struct zl_pending *generation;
    uint32_t part, bytes;
    uint64_t block; /* of the part */
    unsigned char *data;
};

struct zl_filling {
    uint64_t arrived; /* bytes of the part */
    struct zl_slot *slot; /* the block that is not full yet, or NULL */
};

/* A generation under way. */
struct zl_pending {
    /* under the mutex */
    bool used, lost, dropped, complete, has_text;
    uint32_t puts; /* threads inside put */
    uint64_t parts_left;
    int rc;
    char why[1024];
    uint64_t complete_ns;
    /* set by begin and then constant */
    uint64_t generation, step;
    char name[80], tmp[96];
    /* of the thread that fills the part */
    struct zl_filling *filling; /* [parts] */
    uint32_t *stage_part;       /* [stages]: the part that a stage has begun and not finished, or ZL_NO_PART */
    /* of the driver until complete, then of the writer */
    char *text;
    uint64_t text_bytes;
    /* of the writer */
    unsigned char *index; /* hashes of the parts' blocks as they are written; room for the largest text's, padded */
    struct zl_disk_file file;
    int folder;
    bool created;
};

struct zl_kept {
    uint64_t generation;
    bool verified, gone;
    char name[80];
};

struct zl_checkpoints {
    /* constant after open */
    char *run_dir, *dir;
    struct zl_layout layout;
    uint32_t *stage_of; /* [parts]: which of the stages, counted */
    uint32_t n_stages, keep;
    struct zl_run_id run;
    uint64_t n_slots;
    unsigned char *memory;
    struct zl_slot *slots;
    pthread_t thread;
    /* under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t work, room, settled; /* for the writer; for put; for wait */
    struct zl_slot *free, *queue, **queue_end;
    struct zl_pending pending[ZL_OPEN_MOST];
    uint64_t next_generation;
    struct zl_checkpoint_event event[ZL_EVENTS_MOST];
    uint32_t first_event, n_events;
    struct zl_checkpoint_totals totals;
    bool closing;
    /* of the writer */
    struct zl_disk disk;
    struct zl_kept *kept; /* this run's generations, ascending */
    uint64_t n_kept;
    unsigned char *head;       /* [layout.head_bytes] */
};

void *zl_writer_run(void *checkpoints);

/* The writer's steps; no lock is held. Each returns 0 or a negative code with a sentence. */
int zl_writer_make_folder(const struct zl_checkpoints *c, struct zl_error *err); /* at the opening, and when it is gone */
int zl_writer_block(struct zl_checkpoints *c, const struct zl_slot *s, struct zl_error *err);
int zl_writer_commit(struct zl_checkpoints *c, struct zl_pending *p, struct zl_checkpoint_event *event, struct zl_error *err);
void zl_writer_discard(struct zl_checkpoints *c, struct zl_pending *p);

/* retain.c. At the opening: what the folder holds (of this run: c->kept), the next number, and nothing unfinished any more. */
int zl_retain_open(struct zl_checkpoints *c, struct zl_error *err);
int zl_retain_check_space(const struct zl_checkpoints *c, struct zl_error *err);
/* A generation has got its name. */
void zl_retain_add(struct zl_checkpoints *c, const struct zl_pending *p, bool verified);
/* Remove what `keep` newer verified ones make superfluous; how many. err: what could not be removed. */
uint32_t zl_retain_trim(struct zl_checkpoints *c, int folder, struct zl_error *err);

#endif
