/* Counter-based random numbers: see rng.h. Only integer arithmetic up to zl_random_normal, so the same bits everywhere. */
#include "base/rng.h"

#include <math.h>

void zl_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t zl_random_u64(uint64_t key, enum zl_stream stream, uint32_t a, uint64_t i)
{
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), a, (uint32_t)stream};
    uint32_t out[4];
    zl_philox(key, counter, out);
    return (uint64_t)out[1] << 32 | out[0];
}

float zl_random_unit(uint64_t key, enum zl_stream stream, uint32_t a, uint64_t i)
{
    return (float)(zl_random_u64(key, stream, a, i) >> 40) * 0x1p-24f;
}

float zl_random_normal(uint64_t key, enum zl_stream stream, uint32_t a, uint64_t i)
{
    uint64_t u = zl_random_u64(key, stream, a, i);
    double r = ((double)(uint32_t)u + 0.5) * 0x1p-32, t = (double)(uint32_t)(u >> 32) * 0x1p-32;
    return (float)(sqrt(-2.0 * log(r)) * cos(2.0 * 3.14159265358979323846 * t));
}

uint64_t zl_random_permute(uint64_t key, enum zl_stream stream, uint32_t a, uint64_t n, uint64_t i)
{
    int half = 1; /* bits of each half: the domain is 4^half >= n */
    while (half < 32 && ((uint64_t)1 << (2 * half)) < n)
        half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t l = i >> half, r = i & mask;
        for (uint32_t round = 0; round < 6; round++) {
            uint64_t f = zl_random_u64(key, stream, a, (uint64_t)round << 32 | r) & mask;
            uint64_t t = l ^ f;
            l = r;
            r = t;
        }
        i = l << half | r;
    } while (i >= n);
    return i;
}
