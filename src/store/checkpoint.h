/*
 * Writing checkpoints while training goes on. A generation is the whole state of a run behind one step: a text of the driver's and parts of
 * the stages'. The driver begins one and sends its marker; each stage copies its parts in as the marker passes (zl_checkpoint_put, or
 * the sink) and goes on; one writer thread hashes the blocks and writes them into RUN/checkpoints/. A generation counts from the moment
 * that it has its name: all of it was synced and read back from the disk before the one rename that gives it, and the folder is synced
 * after. Only then may an older one go.
 *
 * A failure (a full disk, a folder that is gone, an error of the device) costs the generation under way and nothing else: what was
 * written of it is removed, the older ones stand, zl_checkpoint_poll has the sentence, and the next generation is tried afresh.
 *
 * Reading, verifying and walking back: generation.h. The bytes: zerolock-checkpoint(5). Not thread-safe but where it says so: begin, text,
 * drop, poll, wait and close belong to one thread, the driver's.
 */
#ifndef ZL_STORE_CHECKPOINT_H
#define ZL_STORE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "pipe/snapshot.h"
#include "store/generation.h"

struct zl_checkpoints; /* the writer of one run */
struct zl_disk_ops;    /* store/disk.h */

struct zl_checkpoints_options {
    const struct zl_checkpoint_part *parts; /* of every generation; (stage, section) unique, bytes > 0; copied */
    uint32_t n_parts;
    struct zl_run_id run; /* retention touches only generations that carry it: see zl_run_id_make */
    uint32_t keep;        /* verified generations that stay, >= 1 */
    uint64_t buffer_bytes; /* memory for snapshots; 0: a whole generation, so that put never waits for the disk. At least some blocks. */
    bool buffered;         /* do not ask for O_DIRECT */
    bool plain;            /* do not ask for io_uring */
    const struct zl_disk_ops *disk; /* NULL: the system's; tests bring their own */
    void *disk_context;
};

/* Memory that zl_checkpoints_open will take and the size of one generation's file but for the driver's text; for plans. */
int zl_checkpoints_plan(const struct zl_checkpoints_options *o, uint64_t *memory_bytes, uint64_t *file_bytes, struct zl_error *err);

/* Make RUN/checkpoints, remove what an interrupted writer left there, check that the disk has room for `keep` + 1 generations, allocate
 * everything and start the writer. The caller holds the run's lock. note: a sentence when io_uring is not to be had, with the reason; else
 * empty. */
int zl_checkpoints_open(struct zl_checkpoints **out, const char *run_dir, const struct zl_checkpoints_options *o, char note[256],
                        struct zl_error *err);

/* Finish the generations that are complete, give up the others, stop the writer. Events that were not polled are lost. c may be NULL. */
void zl_checkpoints_close(struct zl_checkpoints *c);

/* Begin the state behind `step`; *generation is its number, for the marker. ZL_CHECKPOINT_BUSY, and nothing begun, while two are still
 * under way: the disk is slower than the interval; ask again at a later step. Never waits. */
enum { ZL_CHECKPOINT_BUSY = 1 };
int zl_checkpoint_begin(struct zl_checkpoints *c, uint64_t step, uint64_t *generation);

/* The driver's text (JSON) of a generation that was begun; copied. Once, at any time after the begin: a generation is complete when it has
 * its text and all parts. 0 also when it is lost already. */
int zl_checkpoint_text(struct zl_checkpoints *c, uint64_t generation, const char *text, uint64_t bytes, struct zl_error *err);

/* Any stage's thread: see struct zl_snapshot_sink. Negative when the generation is lost, unknown, or the part would overflow. */
int zl_checkpoint_put(struct zl_checkpoints *c, uint64_t generation, uint32_t stage, uint32_t section, const void *data, uint64_t bytes);
struct zl_snapshot_sink zl_checkpoints_sink(struct zl_checkpoints *c);

/* Give up a generation that will not become complete (a stage has died); waiting puts return. */
void zl_checkpoint_drop(struct zl_checkpoints *c, uint64_t generation);

/* What became of a generation. Each that was begun gives one event, in order, unless it is dropped. */
struct zl_checkpoint_event {
    uint64_t generation, step;
    int rc;             /* 0: on the disk and verified; else a negative enum zl_code */
    char why[1024];      /* rc != 0: the sentence; rc == 0: empty, or what could not be tidied up */
    uint64_t bytes;     /* of its file */
    double seconds;     /* from the last arrival until all was done */
    uint32_t removed;   /* older generations that went for it */
};
bool zl_checkpoint_poll(struct zl_checkpoints *c, struct zl_checkpoint_event *out);

/* Until the generation is written and verified, or lost: true; false after timeout_ns. Its event is still to be polled. */
bool zl_checkpoint_wait(struct zl_checkpoints *c, uint64_t generation, int64_t timeout_ns);

/* For metrics. put_ns is what the stages' threads spent in put, of it wait_ns for memory: the stall of checkpointing. */
struct zl_checkpoint_totals {
    uint64_t generations, failed, bytes, put_ns, wait_ns, writer_cpu_ns;
    const char *back_end; /* "io_uring, direct", "pwrite, buffered"… of the last generation */
};
void zl_checkpoint_totals(struct zl_checkpoints *c, struct zl_checkpoint_totals *out);

#endif
