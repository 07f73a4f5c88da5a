/*
 * Small files and folders: read one whole, write one so that it appears whole or not at all, make and join paths. Not for
 * tensors (format/) nor checkpoints (store/), which have their own ways.
 */
#ifndef ZL_BASE_FILE_H
#define ZL_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* The whole of `path`, at most `cap` bytes (a longer file is ZL_EINPUT): malloc'd, a NUL behind the *n bytes. The file's stated size
 * is not believed, so pipes and /proc work and a device cannot take the memory. n may be NULL. */
int zl_file_read(const char *path, size_t cap, char **data, size_t *n, struct zl_error *err);

/* Write path anew: a temporary file beside it, fsync, rename, fsync of the folder. On failure the old file stands and
 * no temporary remains. */
int zl_file_write(const char *path, const void *data, size_t n, struct zl_error *err);

/* Make the folder and those above it that are missing. An existing one is fine; anything else of that name is an error. */
int zl_folder_make(const char *path, struct zl_error *err);

/* fsync the folder `path` itself: its names are on the disk after this. */
int zl_folder_sync(const char *path, struct zl_error *err);

bool zl_is_folder(const char *path);

/* "a/b", with one slash between; b alone when it begins with a slash or a is empty. malloc'd; NULL without memory. */
char *zl_path_join(const char *a, const char *b);

/* The folder that holds `path`: "." for a bare name, "/" for "/x". malloc'd; NULL without memory. */
char *zl_path_folder(const char *path);

#endif
