/*
 * LoRA adapters in PEFT's layout: adapter_config.json + adapter_model.safetensors, in and out.
 * Names are Hugging Face module names ("model.layers.3.self_attn.q_proj"); A is [r][in], B is
 * [out][r], the update is scale * B A.
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

/* Read a PEFT directory. Options that change the maths and that we do not have (use_dora,
 * modules_to_save, bias, lora_bias, an init_lora_weights that changes the base, …) are refused by
 * name, and so is fan_in_fan_out with modules that are not GPT-2's Conv1D (for those it changes
 * nothing here). Unknown keys are noted in one sentence on `notes` (may be NULL; "" when there is
 * nothing to say) and ignored. A without B, extra tensors, shapes that disagree with each other or
 * with the configuration, and keys of rank_pattern and alpha_pattern that match no module are
 * refused. */
int zl_adapter_read(const char *dir, struct zl_adapter *out, char *notes, size_t notes_size,
                    struct zl_error *err);
void zl_adapter_free(struct zl_adapter *a);

/* What adapter_config.json says beside the modules. */
struct zl_adapter_config {
    const char *base_model;     /* base_model_name_or_path; may be NULL */
    uint32_t r;                 /* 1.. */
    double alpha;               /* > 0: some readers take 0 for "no scaling" */
    const char *const *targets; /* "q_proj", …; every module must end in one. n_targets 0: the
                                   modules' own last names */
    size_t n_targets;
    const char *task_type; /* "CAUSAL_LM"; may be NULL */
    uint32_t layers;       /* of the model: when the modules leave some out, layers_to_transform lists the
                              others. 0: not known */
};

/* Write a PEFT directory. Modules whose rank or scale is not that of r and alpha go into
 * rank_pattern and alpha_pattern, so that reading gives the same ranks and scales again. Atomic:
 * both files go to a temporary sibling folder that is fsynced and then renamed onto `dir`; an
 * existing adapter is exchanged with renameat2 and removed after. A folder that holds anything but
 * an adapter's two files is not replaced: ZL_EUSAGE. */
/* A module with a value that is not finite is refused (ZL_EINPUT): nobody could use it, and it would hide that training failed. */
int zl_adapter_write(const char *dir, const struct zl_adapter_config *c, const struct zl_adapter *a,
                     struct zl_error *err);

/* Could an adapter be written to dir as far as what lies there now tells? As zl_adapter_write refuses it. */
int zl_adapter_check_place(const char *dir, struct zl_error *err);

#endif
