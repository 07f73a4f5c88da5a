/* The words for the values of options: see options.h. The command line reads them, run.json and bench write them. */
#include "train/options.h"

#include <stddef.h>

const char *const zl_placement_names[] = {
    [ZL_PLACEMENT_AUTO] = "auto", [ZL_PLACEMENT_SPREAD] = "spread", [ZL_PLACEMENT_STACKED] = "stacked", NULL};
const char *const zl_readout_names[] = {
    [ZL_READOUT_LENS] = "lens", [ZL_READOUT_RIDGE] = "ridge", [ZL_READOUT_SHADOW] = "shadow", NULL};
const char *const zl_spill_type_names[] = {[ZL_SPILL_F32] = "f32", [ZL_SPILL_BF16] = "bf16", NULL};
const char *const zl_recompute_names[] = {
    [ZL_RECOMPUTE_NONE] = "none", [ZL_RECOMPUTE_SELECTIVE] = "selective", [ZL_RECOMPUTE_FULL] = "full", NULL};
const char *const zl_activations_names[] = {[ZL_ACTIVATIONS_F32] = "f32", [ZL_ACTIVATIONS_BF16] = "bf16", NULL};
const char *const zl_compute_names[] = {[ZL_COMPUTE_F32] = "f32", [ZL_COMPUTE_BF16] = "bf16", [ZL_COMPUTE_INT8] = "int8", NULL};
const char *const zl_train_compute_names[] = {[ZL_COMPUTE_F32] = "f32", [ZL_COMPUTE_BF16] = "bf16", NULL};
