/* Shapes, from the config.json of SmolLM2-135M and TinyLlama-1.1B: see shapes.h. */
#include "bench/shapes.h"

#include <string.h>

#include "model/arch.h"

const struct zl_shape zl_shapes[ZL_SHAPES] = {
    [ZL_SHAPE_SMOLLM2] = {.name = "smollm2",
                          .layers = 30,
                          .d = 576,
                          .ffn = 1536,
                          .heads = 9,
                          .kv_heads = 3,
                          .head_dim = 64,
                          .vocab = 49152,
                          .context = 8192,
                          .norm_eps = 1e-5,
                          .rope_theta = 100000,
                          .tied = true},
    [ZL_SHAPE_TINYLLAMA] = {.name = "tinyllama",
                            .layers = 22,
                            .d = 2048,
                            .ffn = 5632,
                            .heads = 32,
                            .kv_heads = 4,
                            .head_dim = 64,
                            .vocab = 32000,
                            .context = 2048,
                            .norm_eps = 1e-5,
                            .rope_theta = 10000,
                            .tied = false},
};

const struct zl_shape *zl_shape_find(const char *name)
{
    for (int i = 0; i < ZL_SHAPES; i++)
        if (strcmp(zl_shapes[i].name, name) == 0)
            return &zl_shapes[i];
    return NULL;
}

struct zl_config zl_shape_config(const struct zl_shape *s)
{
    const struct zl_arch *arch = zl_arch_by_gguf("llama");
    return (struct zl_config){.arch = arch,
                              .layers = s->layers,
                              .heads = s->heads,
                              .kv_heads = s->kv_heads,
                              .head_dim = s->head_dim,
                              .d = s->d,
                              .ffn = s->ffn,
                              .vocab = s->vocab,
                              .max_positions = s->context,
                              .norm_eps = s->norm_eps,
                              .act = arch->act,
                              .tied = s->tied,
                              .rope_interleaved = arch->gguf_permutes_qk,
                              .rope = {.theta = s->rope_theta}};
}
