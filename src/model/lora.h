/*
 * Low-rank adapters of a run of layers (Hu et al., LoRA, 2021): y = W x + scale * B (A x). All weights of a run of layers lie in one
 * flat vector, so that clipping, AdamW, snapshots and checkpoints are loops over one array. Within a layer the A of
 * q, k, v stand one after the other, then o, then gate, up, then down (each group shares its input: one product for all), then
 * each B, stored transposed as [r][out]. Rows of B for q and k are in the file's order (see zl_linear_row).
 */
#ifndef ZL_MODEL_LORA_H
#define ZL_MODEL_LORA_H

#include "base/arena.h"
#include "format/adapter.h"
#include "model/model.h"

enum zl_group { ZL_G_QKV, ZL_G_O, ZL_G_GATE_UP, ZL_G_DOWN, ZL_GROUPS };

struct zl_lora_module {
    uint32_t r;        /* 0: no adapter here */
    float scale;
    uint64_t a, bt;    /* offsets into the flat vector: A [r][in], B^T [r][out] */
    uint32_t column;   /* first column of this module's A x in its group's buffer */
};

struct zl_lora_layer {
    struct zl_lora_module module[ZL_LINEARS];
    uint32_t group_r[ZL_GROUPS];    /* sum of ranks of the group's modules */
    uint64_t group_a[ZL_GROUPS];    /* offset of the group's stacked A [sum r][in] */
};

struct zl_lora {
    uint32_t first, n;              /* layers first .. first + n - 1 of the model */
    struct zl_lora_layer *layer;    /* [n] */
    uint64_t size;                  /* floats in the flat vector */
    float *w;                       /* weights [size], owned by an arena or by the lora itself */
    float *owned;
};

extern const enum zl_group zl_group_of[ZL_LINEARS];

/* Which linear layers get an adapter, of which rank: the same for every layer from `first` on. targets: bit per enum zl_role. */
struct zl_lora_spec {
    uint32_t rank, targets;
    uint32_t first; /* the first layer that trains: those below get no adapter, and keep as it is one that they start with */
    float alpha;
    bool normal_init; /* A ~ N(0, 0.01^2) (the published ZeroLock form) instead of PEFT's U(-1/sqrt(in), 1/sqrt(in)) */
};

/* Parse "q_proj,v_proj", "all", "all-linear", "attention", "mlp" to a bit set. */
int zl_lora_targets(const char *text, uint32_t *bits, struct zl_error *err);

/* Lay out adapters of `spec` on layers [first, first + n); w is not allocated. */
int zl_lora_layout(struct zl_lora *l, const struct zl_config *c, uint32_t first, uint32_t n, const struct zl_lora_spec *spec,
                   struct zl_error *err);
/* The same where the modules of a PEFT adapter say which module has which rank and scale. */
int zl_lora_layout_adapter(struct zl_lora *l, const struct zl_config *c, uint32_t first, uint32_t n,
                           const struct zl_adapter *a, struct zl_error *err);
void zl_lora_free(struct zl_lora *l);

/* A at random by (seed, stream tag, layer, role, element): the same whatever the cut into blocks; B = 0. w must be set. tag tells apart
 * adapters of the same layer (0: the exported one, 1 + k: the shadow of block k). */
void zl_lora_init(struct zl_lora *l, const struct zl_config *c, const struct zl_lora_spec *spec, uint64_t seed, uint32_t tag);

/* Copy weights out of / into PEFT modules. Reading: every module of `a` that lies in the layers must fit; sets w. Modules outside
 * the layers are ignored; zl_adapter_check refuses names that fit no module of the model. */
void zl_lora_import(struct zl_lora *l, const struct zl_config *c, const struct zl_adapter *a);
int zl_lora_export(const struct zl_lora *const *parts, uint32_t n_parts, const struct zl_config *c, struct zl_adapter *out,
                   struct zl_error *err);
/* The first layer from `from` on that the adapter has a module for; c->layers: none. */
uint32_t zl_adapter_first_layer(const struct zl_adapter *a, const struct zl_config *c, uint32_t from);
int zl_adapter_check(const struct zl_adapter *a, const struct zl_config *c, const char *where, struct zl_error *err);

/* "model.layers.3.self_attn.q_proj" */
void zl_module_name(const struct zl_config *c, uint32_t layer, enum zl_role role, char *name, size_t size);

#endif
