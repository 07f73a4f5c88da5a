/* The table behind gguf_types.h, as in ggml's type traits. Q8_1 and Q8_K are left out: they are
 * forms of activations, no file has them. */
#include "format/gguf_types.h"

#include <stddef.h>

static const struct zl_ggml_type types[] = {
    [0] = {"f32", 1, 4, ZL_F32},           [1] = {"f16", 1, 2, ZL_F16},
    [2] = {"q4_0", 32, 18, ZL_Q4_0},       [3] = {"q4_1", 32, 20, ZL_Q4_1},
    [6] = {"q5_0", 32, 22, ZL_Q5_0},       [7] = {"q5_1", 32, 24, ZL_Q5_1},
    [8] = {"q8_0", 32, 34, ZL_Q8_0},       [10] = {"q2_K", 256, 84, ZL_OTHER},
    [11] = {"q3_K", 256, 110, ZL_OTHER},   [12] = {"q4_K", 256, 144, ZL_Q4_K},
    [13] = {"q5_K", 256, 176, ZL_Q5_K},    [14] = {"q6_K", 256, 210, ZL_Q6_K},
    [16] = {"iq2_xxs", 256, 66, ZL_OTHER}, [17] = {"iq2_xs", 256, 74, ZL_OTHER},
    [18] = {"iq3_xxs", 256, 98, ZL_OTHER}, [19] = {"iq1_s", 256, 50, ZL_OTHER},
    [20] = {"iq4_nl", 32, 18, ZL_OTHER},   [21] = {"iq3_s", 256, 110, ZL_OTHER},
    [22] = {"iq2_s", 256, 82, ZL_OTHER},   [23] = {"iq4_xs", 256, 136, ZL_OTHER},
    [24] = {"i8", 1, 1, ZL_OTHER},         [25] = {"i16", 1, 2, ZL_OTHER},
    [26] = {"i32", 1, 4, ZL_OTHER},        [27] = {"i64", 1, 8, ZL_OTHER},
    [28] = {"f64", 1, 8, ZL_OTHER},        [29] = {"iq1_m", 256, 56, ZL_OTHER},
    [30] = {"bf16", 1, 2, ZL_BF16},        [34] = {"tq1_0", 256, 54, ZL_OTHER},
    [35] = {"tq2_0", 256, 66, ZL_OTHER},   [39] = {"mxfp4", 32, 17, ZL_OTHER},
    [40] = {"nvfp4", 64, 36, ZL_OTHER},    [41] = {"q1_0", 128, 18, ZL_OTHER},
};

const struct zl_ggml_type *zl_ggml_type(uint32_t number)
{
    return number < sizeof types / sizeof *types && types[number].name ? &types[number] : NULL;
}
