/*
 * A frozen base model: its shape, its stored weights (mapped, in the file's own types), the few vectors that are kept as float32
 * (norms, biases), and the table of rotary angles. Read-only after opening, so all threads share it. Knows no adapter.
 */
#ifndef ZL_MODEL_MODEL_H
#define ZL_MODEL_MODEL_H

#include "base/arena.h"
#include "format/gguf.h"
#include "format/tensors.h"
#include "format/tokenizer.h"
#include "model/arch.h"
#include "model/config.h"

struct zl_layer_weights {
    struct zl_tensor linear[ZL_LINEARS]; /* [out][in] */
    const float *norm_attn, *norm_mlp;   /* [d] */
    const float *bias_q, *bias_k, *bias_v, *bias_o; /* NULL: none */
};

struct zl_model {
    char *path;
    struct zl_config config;
    struct zl_gguf *gguf;         /* one of these two is set */
    struct zl_tensors *safetensors;
    const struct zl_tensors *tensors;
    struct zl_tensor embed, head; /* [vocab][d] */
    const float *norm;            /* [d] */
    struct zl_layer_weights *layer;
    struct zl_arena vectors;      /* owns norms, biases, angles */
    float *rope;                  /* [positions][head_dim/2][2] */
    uint64_t positions;
    char **unused;                /* names of tensors that no role took */
    uint32_t n_unused;
    uint64_t weight_bytes;        /* of all tensors in use */
};

/* Open a GGUF file or a Hugging Face directory. Every tensor that the architecture needs is found with the right shape and a type that
 * we compute with, or named in the error. `positions`: the longest sequence that will be used (sizes the table of angles). */
int zl_model_open(const char *path, uint64_t positions, struct zl_model *m, struct zl_error *err);
void zl_model_close(struct zl_model *m);

/* The tokenizer that belongs to a model's path. `gguf` (may be NULL) is the open handle, to read it only once. */
int zl_model_tokenizer(const struct zl_model *m, struct zl_tokenizer **out, struct zl_error *err);

/* Stored bytes of layers first .. first + n - 1 in the file, and advice to the kernel about them (a hint, never an error). */
uint64_t zl_model_layer_bytes(const struct zl_model *m, uint32_t first, uint32_t n);
void zl_model_layer_advise(const struct zl_model *m, uint32_t first, uint32_t n, enum zl_advice advice);

/* Sizes of linear layer `role`. */
uint32_t zl_linear_out(const struct zl_config *c, enum zl_role role);
uint32_t zl_linear_in(const struct zl_config *c, enum zl_role role);

/* Row of a head's output in the file for row i of Hugging Face's order: rows of q and k are permuted in GGUF files of the llama
 * family (HF row j < head_dim/2 -> 2j, head_dim/2 + j -> 2j + 1, within each head). Identity elsewhere. */
uint32_t zl_linear_row(const struct zl_config *c, enum zl_role role, uint32_t hf_row);

#endif
