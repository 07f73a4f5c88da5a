/*
 * The sweep schedule: one block in memory at a time. For a window of steps block k is trained on all of their micro-batches, in order, while
 * its outputs are spilled to become block k + 1's inputs; then it makes room. What a block computes, and in which order, is what the
 * zerolock schedule makes it compute: with the same cut the adapter has the same bits (hidden states spilled as float32).
 *
 *     window w:  block 0: micro-batches i .. j ──▶ disk ──▶ block 1: i .. j ──▶ disk ──▶ … ──▶ block K-1: i .. j      then window w + 1
 *
 * In memory: the weights of one block and its look-ahead (mapped; dropped after its turn), one set of adapters, optimizer and map, one
 * arena of activations, four buffers of the spill. On the disk: the window's hidden states, and the state of every block twice, as it was
 * at the window's beginning and as it is now, so that a run that is stopped inside a window leaves the adapter of the last whole one.
 */
#ifndef ZL_TRAIN_SWEEP_H
#define ZL_TRAIN_SWEEP_H

#include "train/frozen.h"
#include "train/journal.h"
#include "train/sweep_plan.h"

struct zl_sweep;

/* Everything that the run needs, the readouts' fit included. spill_dir: where files without names may be made. frozen: what comes out of the s->n_cached stages at
 * the front; NULL where that is 0. Sets s->readouts.tokens. */
int zl_sweep_open(struct zl_sweep **out, struct zl_setup *s, const struct zl_train_options *o, const char *spill_dir,
                  struct zl_frozen *frozen, struct zl_error *err);
void zl_sweep_close(struct zl_sweep *w); /* NULL does nothing */

/* Train to the end, or until the journal stops; evaluates as the options say. What went wrong is the journal's. border (may be NULL) is called
 * behind each window and its evaluation, when zl_sweep_visit may be. */
void zl_sweep_run(struct zl_sweep *w, struct zl_journal *j, void (*border)(void *context, uint64_t step), void *context);

/* Visit the blocks one after the other, each with its state at the border of windows behind step *step: weights and moments are in b (its
 * gradients are zero), *updates counts its optimizer steps. With `change` what the visitor leaves there is the block's state from now on, and
 * *step the run's position: this is how a run is resumed. Not while zl_sweep_run is at work. */
typedef int zl_sweep_visitor(void *context, uint32_t k, struct zl_block *b, int64_t *updates, struct zl_error *err);
int zl_sweep_visit(struct zl_sweep *w, bool change, uint64_t *step, zl_sweep_visitor *visit, void *context, struct zl_error *err);

/* The adapters behind the last whole window, with copies of their weights, until the sweep closes: parts[k] for block k. */
int zl_sweep_adapters(struct zl_sweep *w, const struct zl_lora **parts, struct zl_error *err);

/* Seconds that each block is busy with so many tokens of the run's first example, in no more memory than a sweep takes. Nothing is spilled. */
int zl_sweep_probe(const struct zl_setup *s, const struct zl_train_options *o, double *busy, uint64_t *tokens, struct zl_error *err);

#endif
