/* Booking of kernel times: see profile.h. */
#include "kernel/profile.h"

const char *const zl_part_names[ZL_PARTS] = {
    [ZL_PART_FORWARD] = "gemm_forward",
    [ZL_PART_BACKWARD] = "gemm_backward",
    [ZL_PART_LORA] = "lora",
    [ZL_PART_ATTENTION] = "attention_forward",
    [ZL_PART_ATTENTION_BACKWARD] = "attention_backward",
    [ZL_PART_ROPE] = "rope",
    [ZL_PART_NORM] = "norm",
    [ZL_PART_GATED] = "gated",
    [ZL_PART_HEAD] = "head",
    [ZL_PART_OPTIMIZER] = "optimizer",
};

void zl_profile_book(const struct zl_span *s)
{
    s->profile->ns[s->part] += zl_clock_ns() - s->start_ns;
    s->profile->calls[s->part]++;
}
