/*
 * Small files and folders: read one whole, write one so that it appears whole or not at all, make and join paths. Not for
 * tensors (format/) nor checkpoints (store/), which have their own ways.
 */
#ifndef ZL_BASE_FILE_H
#define ZL_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* Open a file to read from, and nothing but a file: a FIFO would be waited for, perhaps for ever, and a device may have no end, so
 * anything else is ZL_EINPUT by the name of what it is. *fd is set when 0 is returned; errno is open's own when there is no such file. */
int zl_file_open(const char *path, int *fd, struct zl_error *err);

/* The same as a stream, for libraries that read one. */
int zl_file_stream(const char *path, FILE **f, struct zl_error *err);

/* The whole of the file `path`, at most `cap` bytes (a longer one is ZL_EINPUT): malloc'd, a NUL behind the *n bytes. The file's stated
 * size is not believed, so /proc works. n may be NULL. */
int zl_file_read(const char *path, size_t cap, char **data, size_t *n, struct zl_error *err);

/* The same of what may be a pipe, a terminal or a device, because the user named it as that. Waits for them. */
int zl_stream_read(const char *path, size_t cap, char **data, size_t *n, struct zl_error *err);

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
