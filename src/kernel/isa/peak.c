/* The loop of peak.h. Enough chains to hide the latency of every unit, few enough to stay in registers; variables and not an array, because
 * compilers put that into memory. */
#include "kernel/peak.h"

#include "kernel/isa/vec.h"

#define TWELVE(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11)
#if defined __AVX512F__ || defined __aarch64__
#define CHAINS 16 /* of 32 registers */
#define EACH(do) TWELVE(do) do(12) do(13) do(14) do(15)
#else
#define CHAINS 12 /* of 16 */
#define EACH(do) TWELVE(do)
#endif

#define START(i) vf x##i = v_set(i);
#define STEP(i)  x##i = v_fma(x##i, factor, term);
#define SUM(i)   sum += x##i;

double ZL_ISA(zl_peak_run)(int64_t rounds, float *sink)
{
    vf factor = v_set(0.999f), term = v_set(1e-3f), sum = v_set(0);
    EACH(START)
    for (int64_t r = 0; r < rounds; r++) {
        EACH(STEP)
    }
    EACH(SUM)
    *sink = v_sum(sum);
    return 2.0 * VL * CHAINS * (double)rounds;
}
