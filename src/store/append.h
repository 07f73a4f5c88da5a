/*
 * A file of lines that only grows: metrics.jsonl, events.jsonl. A line that cannot be written now (a full disk, an error of the device)
 * waits in memory and goes first when the next one comes, so that the work whose lines these are goes on; the reader of such a file drops
 * what stands behind its last newline. One thread.
 */
#ifndef ZL_STORE_APPEND_H
#define ZL_STORE_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct zl_append {
    char *path;
    int fd;           /* -1: not open */
    char *waiting;    /* what the file lacks */
    size_t n, room;
    uint64_t lost;    /* lines that there was no memory for */
    int reason;       /* errno of the last failure; 0: nothing waits */
};

/* Take over an open descriptor that appends. */
int zl_append_open(struct zl_append *l, const char *path, int fd, struct zl_error *err);

/* Add text that ends in a newline. False for the first line that has to wait since all was well. */
bool zl_append_line(struct zl_append *l, const char *text, size_t bytes);

/* Try again, and ask the system to put what the file holds onto the disk. False: something waits, or the system refused. */
bool zl_append_sync(struct zl_append *l);

/* Cut to so many bytes, on the disk; what waits is dropped. */
int zl_append_cut(struct zl_append *l, uint64_t bytes, struct zl_error *err);

/* A line of such a file that the power went under: a file system that loses a write and keeps one behind it leaves zeros. Lines behind it may be
 * missing, those before the last sync are not. */
bool zl_append_is_torn(const char *line, size_t bytes);

/* A last try; ZL_ESYSTEM when lines are missing. */
int zl_append_close(struct zl_append *l, struct zl_error *err);

#endif
