/*
 * Activations kept in half the memory: after a layer's forward what its backward needs is rounded to bfloat16, and before the
 * backward it is made float32 again in buffers that all layers share. The gradient then is that of the rounded activations (relative error
 * about 2^-9); sums, the norms' factors and attention's logarithms stay float32.
 */
#ifndef ZL_MODEL_KEPT_H
#define ZL_MODEL_KEPT_H

#include "model/layer.h"

/* Of one layer; NULL: not kept, since it is computed again. */
struct zl_kept {
    uint16_t *qkv, *ao, *mid, *gate_up, *xa[ZL_GROUPS], *y;
};

/* For t tokens; y: whether a layer behind this one needs its output. */
void zl_kept_take(struct zl_arena *a, struct zl_kept *k, const struct zl_config *c, const struct zl_lora_layer *l, int64_t t,
                  enum zl_recompute recompute, bool y);
/* Only the output, for t tokens; 0: nothing. */
void zl_kept_take_output(struct zl_arena *a, struct zl_kept *k, const struct zl_config *c, int64_t t);
void zl_kept_put(const struct zl_team *team, const struct zl_kept *k, const struct zl_config *c, const struct zl_lora_layer *l, int64_t t,
                 const struct zl_acts *acts);
/* All but y, which belongs to the layer behind: zl_kept_output. */
void zl_kept_get(const struct zl_team *team, const struct zl_kept *k, const struct zl_config *c, const struct zl_lora_layer *l, int64_t t,
                 struct zl_acts *acts);
void zl_kept_output(const struct zl_team *team, const struct zl_kept *k, const struct zl_config *c, int64_t t, float *y);

#endif
