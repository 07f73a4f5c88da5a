/*
 * Generations of a run's state as they lie in RUN/checkpoints/, for those who read: list, verify, walk back, read parts. Everything in a
 * file is checked before it is used, and the bytes that are handed out are checked against their blocks' hashes on the way. Writing:
 * checkpoint.h; the bytes: zerolock-checkpoint(5) and format.h.
 *
 * A generation's name is its number, which only ever rises in a folder, and its step: 0000000042-step-1200.zlc. What the writer has
 * not finished ends in .tmp, and what zl_generation_restore set aside in .aside; neither counts.
 */
#ifndef ZL_STORE_GENERATION_H
#define ZL_STORE_GENERATION_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/error.h"

/* A piece of one stage's state. What stands in it is the stages' business; stage ZL_CHECKPOINT_DRIVER may be used by the driver. */
struct zl_checkpoint_part {
    uint32_t stage, section;
    uint64_t bytes;
};
#define ZL_CHECKPOINT_DRIVER UINT32_MAX

/* Tells a run from others that used the same folder. Drawn once, when a run starts afresh; a resumed run carries on with the one that its
 * generation holds. As text: 32 hexadecimal digits. */
struct zl_run_id {
    unsigned char byte[16];
};
#define ZL_RUN_ID_TEXT 33
int zl_run_id_make(struct zl_run_id *id, struct zl_error *err);
void zl_run_id_text(const struct zl_run_id *id, char text[ZL_RUN_ID_TEXT]);
bool zl_run_id_parse(struct zl_run_id *id, const char *text);

/* One name in the folder. */
struct zl_generation_name {
    uint64_t generation, step;
    bool aside;
    uint64_t bytes;
    time_t modified;
    char name[80]; /* in RUN/checkpoints */
};

/* The generations of a run, newest first, by their names alone. No folder: none. *out is malloc'd. */
int zl_generation_list(const char *run_dir, struct zl_generation_name **out, uint64_t *n, struct zl_error *err);

/* Remove every generation, those set aside and unfinished ones too: the folder begins anew. The caller holds the run's lock. */
int zl_generation_remove_all(const char *run_dir, struct zl_error *err);

/* An open generation: head, index and text have been read and checked, the parts not yet. */
struct zl_generation {
    uint64_t generation, step, bytes;
    struct zl_run_id run;
    char program[33];   /* version of zerolock that wrote it */
    uint32_t n_parts;
    struct zl_checkpoint_part *parts;
    char *text;         /* the driver's; a NUL behind text_bytes */
    uint64_t text_bytes;
    struct zl_generation_file *file;
};

/* ZL_EINPUT: damaged, with the place; ZL_EUSAGE: sound but of a format version that this program does not read, with what to do. `name` is
 * a name in RUN/checkpoints that says the number and step that must be found inside. */
int zl_generation_open(struct zl_generation *g, const char *run_dir, const char *name, struct zl_error *err);
void zl_generation_close(struct zl_generation *g);

/* Read all of it and check every byte. */
int zl_generation_verify(struct zl_generation *g, struct zl_error *err);

/* The part's place in g->parts, or NULL. */
const struct zl_checkpoint_part *zl_generation_part(const struct zl_generation *g, uint32_t stage, uint32_t section);

/* Read a part whole; `bytes` is what the caller expects and another size is ZL_EINPUT. Every block is checked before the call returns 0. */
int zl_generation_read(struct zl_generation *g, uint32_t stage, uint32_t section, void *data, uint64_t bytes, struct zl_error *err);

/* Open the newest generation that verifies, walking back. For each one passed over `say` gets a sentence with its name and the reason.
 * run: only of this run (another run's are passed over too); NULL: whichever is newest. A sound generation of another format ends the walk
 * with ZL_EUSAGE: going back behind it would lose work that another version of the program can continue. 0 with g->file NULL: there is
 * none. */
int zl_generation_newest(struct zl_generation *g, const char *run_dir, const struct zl_run_id *run,
                         void (*say)(void *context, const char *sentence), void *context, struct zl_error *err);

/* Make `generation` the newest: newer ones get .aside behind their names, and it loses its own. It must verify. *set_aside: how many. The
 * caller holds the run's lock. */
int zl_generation_restore(const char *run_dir, uint64_t generation, uint64_t *set_aside, struct zl_error *err);

#endif
