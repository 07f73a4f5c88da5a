/*
 * Arrays that grow with what a file holds or a run asks for. They double, and never beyond what
 * the machine has free: where memory is overcommitted, malloc alone would not say no.
 */
#ifndef ZL_FORMAT_GROW_H
#define ZL_FORMAT_GROW_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Room for `need` elements of `size` bytes in *p, of which *capacity are there. On failure
 * (ZL_EMEMORY, naming `what`: "tokens of training data") *p and *capacity are as they were. */
int zl_array_grow(void **p, uint64_t need, uint64_t *capacity, size_t size, const char *what,
                  struct zl_error *err);

/* 0 when `count` more elements of `size` bytes fit into the memory that is free, else ZL_EMEMORY.
 * A few MiB always fit: the question itself is asked of /proc. */
int zl_array_check(uint64_t count, size_t size, const char *what, struct zl_error *err);

#endif
