/*
 * A file or directory of named tensors, opened read-only and mapped: safetensors (one file, or the
 * shards that an index names) or GGUF. The names are the file's own. All counts, lengths, offsets
 * and shapes are checked against the file's size before anything is allocated; see the format's own
 * file for its byte table.
 */
#ifndef ZL_FORMAT_TENSORS_H
#define ZL_FORMAT_TENSORS_H

#include <stddef.h>

#include "base/error.h"
#include "base/type.h"

struct zl_named_tensor {
    const char *name;
    struct zl_tensor t;    /* type ZL_OTHER where we do not compute with it: an element type that we
                            * lack, or more than four    dimensions (then n_dims 1: all of them folded) */
    const char *type_name; /* as the file calls it: "F8_E4M3", "iq4_xs": for messages */
    const char *file;      /* which file holds it */
};

struct zl_tensors; /* owns mappings and names */

int zl_safetensors_open(const char *path, struct zl_tensors **out, struct zl_error *err);

/* A Hugging Face directory: model.safetensors, or the shards of model.safetensors.index.json (every
 * name of weight_map must be in the shard it names). */
int zl_safetensors_open_dir(const char *dir, struct zl_tensors **out, struct zl_error *err);

void zl_tensors_close(struct zl_tensors *s);

size_t zl_tensors_count(const struct zl_tensors *s);
const struct zl_named_tensor *zl_tensors_at(const struct zl_tensors *s,
                                            size_t i); /* in file order */
const struct zl_named_tensor *zl_tensors_find(const struct zl_tensors *s,
                                              const char *name); /* NULL: absent */

/* What is about to happen to a range of mapped bytes: advice to the kernel, never an error. */
enum zl_advice {
    ZL_ADVICE_SOON, /* read it ahead */
    ZL_ADVICE_DONE  /* not needed for long: its pages may leave the memory (they come back from the
                       file when touched) */
};
void zl_tensors_advise(const void *data, uint64_t bytes, enum zl_advice advice);

/* A mapped file that another program cuts short while we compute raises SIGBUS at the next access.
 * After this call (once a process, before the first step) such a fault writes one sentence naming
 * the file to standard error, calls before_exit(argument) if it is not NULL (in the signal handler,
 * on the faulting thread: async-signal-safe calls only) and ends the process with status 1. A
 * SIGBUS elsewhere keeps its default effect. Negative only when the system refuses the handler. */
int zl_tensors_guard_install(void (*before_exit)(void *argument), void *argument,
                             struct zl_error *err);

/* Value of a __metadata__ key of a safetensors file, or NULL. */
const char *zl_tensors_metadata(const struct zl_tensors *s, const char *key);

/* Writing: header with sorted names, data aligned to 64, every tensor float32. Written to `path` +
 * a temporary suffix, fsynced, renamed, folder fsynced: the file appears whole or not at all.
 * metadata: key, value, key, value, …, NULL; or NULL. */
struct zl_safetensors_entry {
    const char *name;
    int n_dims;
    uint64_t shape[4];
    const float *data;
};
int zl_safetensors_write(const char *path, const struct zl_safetensors_entry *entries, size_t n,
                         const char *const *metadata, struct zl_error *err);

#endif
