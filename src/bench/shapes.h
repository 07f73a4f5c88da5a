/* The shapes of the models whose training is measured, without their weights. */
#ifndef ZL_BENCH_SHAPES_H
#define ZL_BENCH_SHAPES_H

#include "model/config.h"

struct zl_shape {
    const char *name; /* "smollm2" */
    uint32_t layers, d, ffn, heads, kv_heads, head_dim, vocab, context;
    double norm_eps, rope_theta;
    bool tied;
};

enum { ZL_SHAPE_SMOLLM2, ZL_SHAPE_TINYLLAMA, ZL_SHAPES };
extern const struct zl_shape zl_shapes[ZL_SHAPES];

/* By name; NULL: none of them. */
const struct zl_shape *zl_shape_find(const char *name);

/* As the shape of a GGUF file of the llama family. */
struct zl_config zl_shape_config(const struct zl_shape *s);

#endif
