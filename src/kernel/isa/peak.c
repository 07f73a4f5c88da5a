/* The loop of peak.h. Enough chains to hide the latency of every unit, few enough to stay in registers. */
#include "kernel/peak.h"

#include "kernel/isa/vec.h"

#if defined __AVX512F__ || defined __aarch64__
#define CHAINS 16 /* of 32 registers */
#else
#define CHAINS 12 /* of 16 */
#endif

double ZL_ISA(zl_peak_run)(int64_t rounds, float *sink)
{
    enum { STEPS = 8 };
    vf x[CHAINS], factor = v_set(0.999f), term = v_set(1e-3f);
    V_EACH(i, CHAINS)
        x[i] = v_set((float)i);
    for (int64_t r = 0; r < rounds; r++) {
        V_EACH(s, STEPS)
        V_EACH(i, CHAINS)
            x[i] = v_fma(x[i], factor, term);
    }
    float sum = 0;
    V_EACH(i, CHAINS)
        sum += v_sum(x[i]);
    *sink = sum;
    return 2.0 * VL * CHAINS * STEPS * (double)rounds;
}
