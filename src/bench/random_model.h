/*
 * A GGUF file with a model of a given shape and random weights: what a measurement of speed or memory needs where the real one is
 * not at hand. Valid for this program and for others that read the format; what it says when asked is noise.
 */
#ifndef ZL_BENCH_RANDOM_MODEL_H
#define ZL_BENCH_RANDOM_MODEL_H

#include "base/error.h"
#include "base/type.h"
#include "bench/shapes.h"

/*
 * Write it to `path` (anew; taken away again where it fails), streaming, a megabyte at a time. type: of the matrices. As the usual
 * converters do it, a row that blocks of 256 do not divide takes the nearest type with blocks of 32, and the output head (also
 * where it is the embedding) of a type below eight bits is q6_K or q8_0. tokenizer: a GGUF file whose tokenizer is copied; NULL: one of
 * single bytes. Ids beyond the tokenizer's are filled up as unused. ZL_ESYSTEM when the file system has not enough room.
 */
int zl_random_model_write(const char *path, const struct zl_shape *shape, enum zl_type type, const char *tokenizer,
                          struct zl_error *err);

#endif
