/*
 * LoRA adapters in PEFT's layout: adapter_config.json + adapter_model.safetensors, in and out. Names are Hugging Face module
 * names ("model.layers.3.self_attn.q_proj"); A is [r][in], B is [out][r], the update is scale * B A.
 */
#ifndef ZL_FORMAT_ADAPTER_H
#define ZL_FORMAT_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct zl_adapter_module {
    char *name; /* without "base_model.model." and ".lora_A.weight" */
    uint32_t r, in, out;
    float scale; /* alpha/r, or alpha/sqrt(r) with use_rslora; per-module patterns applied */
    float *a;    /* [r][in], owned */
    float *b;    /* [out][r], owned */
};

struct zl_adapter {
    struct zl_adapter_module *modules; /* sorted by name */
    size_t n;
};

/* Read a PEFT directory. Options that change the maths and that we do not have (use_dora, fan_in_fan_out with a true meaning,
 * modules_to_save, bias, …) are refused by name; unknown keys are noted once on `notes` (may be NULL) and ignored. A without B, extra
 * tensors and shape mismatches are refused. */
int zl_adapter_read(const char *dir, struct zl_adapter *out, char *notes, size_t notes_size, struct zl_error *err);
void zl_adapter_free(struct zl_adapter *a);

/* What adapter_config.json says beside the modules. */
struct zl_adapter_config {
    const char *base_model; /* base_model_name_or_path */
    uint32_t r;
    double alpha;
    const char *const *targets; /* "q_proj", … */
    size_t n_targets;
    const char *task_type; /* "CAUSAL_LM" */
};

/* Write a PEFT directory, atomically: both files go to a temporary sibling folder that is fsynced and then renamed onto `dir` (an
 * existing one is exchanged with renameat2 and removed after). */
int zl_adapter_write(const char *dir, const struct zl_adapter_config *c, const struct zl_adapter *a, struct zl_error *err);

#endif
