/*
 * A spill: data that is made, put aside in a file, and read again soon by the same process. Records have the sizes that the current layout
 * gives them; each is checked against its XXH3 when it comes back. Reading ahead and writing behind go on while the caller computes; the
 * file is read and written past the page cache where the file system can, so that it takes no memory but the buffers here.
 *
 * The file has no name (a killed run leaves nothing behind) and its space is reserved at opening: a full disk is known before the
 * work begins. One thread uses a spill.
 */
#ifndef ZL_STORE_SPILL_H
#define ZL_STORE_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/transfer.h"

struct zl_spill;

struct zl_spill_request {
    const char *what; /* "hidden states", for sentences */
    const char *dir;  /* an existing folder */
    uint64_t bytes;   /* of the file: the sum of zl_spill_room over the records of any layout */
    uint64_t largest; /* bytes of the largest record */
    uint64_t records; /* of any layout, at most */
    bool unbuffered;  /* only load and save, which take the caller's memory: the spill needs none for records */
    const struct zl_transfer_calls *calls; /* NULL: the system's */
};

/* What a record of so many bytes takes in the file. UINT64_MAX: beyond 64 bits. */
uint64_t zl_spill_room(uint64_t bytes);

/* Memory that a spill takes. */
uint64_t zl_spill_memory(const struct zl_spill_request *r);

int zl_spill_open(struct zl_spill **out, const struct zl_spill_request *r, struct zl_error *err);
void zl_spill_close(struct zl_spill *s); /* NULL does nothing */

/* Records 0 .. n - 1 have these sizes from now on; nothing is held. They fit the request, or it is our own bug. */
void zl_spill_layout(struct zl_spill *s, const uint64_t *bytes, uint64_t n);

/* Where the next record is to be made, aligned to 4096: valid until zl_spill_put. NULL, with err filled: an earlier write failed. */
void *zl_spill_make(struct zl_spill *s, struct zl_error *err);
/* Write what was made as record i, in the background; a failure shows at a later call. */
int zl_spill_put(struct zl_spill *s, uint64_t i, struct zl_error *err);

/* Begin to read record i in the background, if there is a buffer for it. */
void zl_spill_fetch(struct zl_spill *s, uint64_t i);
/* Record i, aligned to 4096, valid until the next zl_spill_get. NULL, with err filled: it cannot be read or is not what was written. */
const void *zl_spill_get(struct zl_spill *s, uint64_t i, struct zl_error *err);

/* Wait for all writes. */
int zl_spill_flush(struct zl_spill *s, struct zl_error *err);

/* A record between the file and memory of the caller's, at once; memory is aligned to 4096 and has zl_spill_room(bytes) bytes. */
int zl_spill_save(struct zl_spill *s, uint64_t i, void *memory, struct zl_error *err);
int zl_spill_load(struct zl_spill *s, uint64_t i, void *memory, struct zl_error *err);

struct zl_spill_totals {
    uint64_t read_bytes, written_bytes, wait_ns; /* wait: what the caller waited for the disk */
};
struct zl_spill_totals zl_spill_totals(const struct zl_spill *s);

#endif
