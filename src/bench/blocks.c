/*
 * Random blocks: see blocks.h. All bytes are drawn, then the fields that scale a block are set so that its values spread over
 * [-RANGE, RANGE]. Where those fields lie (offsets in bytes; ggml's block structures):
 *
 *     f16   sign, exponent 6..9, fraction        q5_0  d 0
 *     bf16  sign, exponent 118..121, fraction    q5_1  d 0, m 2
 *     q8_0  d 0                                  q4_K  d 0, dmin 2, twelve bytes of scales at 4
 *     q4_0  d 0                                  q5_K  as q4_K
 *     q4_1  d 0, m 2                             q6_K  sixteen scales at 192, d 208
 *
 * Six-bit scales and minima are all 32: eight bytes 0xa0 and four 0.
 */
#include "bench/blocks.h"

#include <string.h>

#define RANGE 0.035

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* x as a half, truncated; |x| in [2^-14, 2^15]. */
static void put_half(uint8_t *at, double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t half = (bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff);
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
}

static void put_k_scales(uint8_t *block, double levels)
{
    put_half(block, 2 * RANGE / (levels * 32));
    put_half(block + 2, RANGE / 32);
    memset(block + 4, 0xa0, 8);
    memset(block + 12, 0, 4);
}

/* One element of a plain type, from random bits: the exponent's low two bits stay. */
static void clamp_plain(enum zl_type type, uint8_t *x)
{
    if (type == ZL_F16) {
        x[1] = (uint8_t)((x[1] & 0x83) | (6 + (x[1] >> 2 & 3)) << 2);
    } else if (type == ZL_BF16) {
        unsigned exponent = 118u + (x[1] & 3u);
        x[0] = (uint8_t)((x[0] & 0x7f) | exponent << 7);
        x[1] = (uint8_t)((x[1] & 0x80) | exponent >> 1);
    } else {
        uint32_t bits;
        memcpy(&bits, x, sizeof bits);
        float f = (float)(((double)bits * 0x1p-31 - 1) * RANGE);
        memcpy(x, &f, sizeof f);
    }
}

static void scale(enum zl_type type, uint8_t *block)
{
    switch (type) {
    case ZL_Q8_0:
        put_half(block, RANGE / 128);
        break;
    case ZL_Q4_0:
        put_half(block, RANGE / 8);
        break;
    case ZL_Q4_1:
        put_half(block, 2 * RANGE / 15);
        put_half(block + 2, -RANGE);
        break;
    case ZL_Q5_0:
        put_half(block, RANGE / 16);
        break;
    case ZL_Q5_1:
        put_half(block, 2 * RANGE / 31);
        put_half(block + 2, -RANGE);
        break;
    case ZL_Q4_K:
        put_k_scales(block, 15);
        break;
    case ZL_Q5_K:
        put_k_scales(block, 31);
        break;
    case ZL_Q6_K:
        memset(block + 192, 4, 16);
        put_half(block + 208, RANGE / (32 * 4));
        break;
    default:
        clamp_plain(type, block);
        break;
    }
}

void zl_blocks_random(enum zl_type type, void *dst, uint64_t n, uint64_t *state)
{
    const uint64_t size = zl_type_info[type].block_bytes, bytes = n * size;
    uint8_t *p = dst;
    for (uint64_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t x = draw(state);
        memcpy(p + i, &x, bytes - i < sizeof x ? (size_t)(bytes - i) : sizeof x);
    }
    for (uint64_t i = 0; i < n; i++)
        scale(type, p + i * size);
}

bool zl_type_find(const char *name, enum zl_type *type)
{
    for (int i = 0; i < ZL_TYPES; i++)
        if (strcmp(zl_type_info[i].name, name) == 0) {
            *type = (enum zl_type)i;
            return true;
        }
    return false;
}
