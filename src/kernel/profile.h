/*
 * Where a step's time goes: what the kernels of a team took, by part. A team without a profile pays one branch a kernel. Times are those of
 * the thread that calls the kernel, so they hold the waiting for the rest of the team; a kernel never runs inside another. The profile's owner
 * reads and clears it when nothing computes.
 */
#ifndef ZL_KERNEL_PROFILE_H
#define ZL_KERNEL_PROFILE_H

#include <stdint.h>

#include "base/clock.h"
#include "kernel/team.h"

enum zl_part {
    ZL_PART_FORWARD,  /* products with frozen weights, adapters that ride in them included */
    ZL_PART_BACKWARD, /* the same for the gradients of their inputs */
    ZL_PART_LORA,     /* the adapters' own products, forward and backward */
    ZL_PART_ATTENTION,
    ZL_PART_ATTENTION_BACKWARD,
    ZL_PART_ROPE,
    ZL_PART_NORM, /* forward and backward */
    ZL_PART_GATED, /* forward and backward */
    ZL_PART_HEAD, /* with the loss */
    ZL_PART_OPTIMIZER,
    ZL_PARTS
};

extern const char *const zl_part_names[ZL_PARTS]; /* "gemm_forward", ... */

struct zl_profile {
    uint64_t ns[ZL_PARTS], calls[ZL_PARTS];
};

/* A kernel's time while it runs: opened by ZL_PROFILE, booked when its scope ends. */
struct zl_span {
    struct zl_profile *profile;
    enum zl_part part;
    uint64_t start_ns;
};

void zl_profile_book(const struct zl_span *s);

static inline struct zl_span zl_span_open(const struct zl_team *team, enum zl_part part)
{
    struct zl_span s = {team->profile, part, 0};
    if (__builtin_expect(s.profile != 0, 0))
        s.start_ns = zl_clock_ns();
    return s;
}

static inline void zl_span_close(const struct zl_span *s)
{
    if (__builtin_expect(s->profile != 0, 0))
        zl_profile_book(s);
}

/* A declaration: from here to the end of the scope the time is `part`'s. */
#define ZL_PROFILE(team, part) \
    __attribute__((cleanup(zl_span_close), unused)) struct zl_span zl_span = zl_span_open(team, part)

#endif
