/* Element types: the table behind type.h. Sizes as in the GGUF specification (ggml's block structures). */
#include "base/type.h"

const struct zl_type_info zl_type_info[ZL_TYPES] = {
    [ZL_F32] = {"f32", 1, 4, 0, "F32"},
    [ZL_F16] = {"f16", 1, 2, 1, "F16"},
    [ZL_BF16] = {"bf16", 1, 2, 30, "BF16"},
    [ZL_Q8_0] = {"q8_0", 32, 34, 8, 0},
    [ZL_Q4_0] = {"q4_0", 32, 18, 2, 0},
    [ZL_Q4_1] = {"q4_1", 32, 20, 3, 0},
    [ZL_Q5_0] = {"q5_0", 32, 22, 6, 0},
    [ZL_Q5_1] = {"q5_1", 32, 24, 7, 0},
    [ZL_Q4_K] = {"q4_K", 256, 144, 12, 0},
    [ZL_Q5_K] = {"q5_K", 256, 176, 13, 0},
    [ZL_Q6_K] = {"q6_K", 256, 210, 14, 0},
};

uint64_t zl_tensor_elements(const struct zl_tensor *t)
{
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

bool zl_type_bytes(enum zl_type type, uint64_t elements, uint64_t *bytes)
{
    if (type >= ZL_TYPES || elements % zl_type_info[type].block)
        return false;
    return zl_mul_u64(elements / zl_type_info[type].block, zl_type_info[type].block_bytes, bytes);
}
