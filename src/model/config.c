/* The decoder's shape: checks and rotary frequencies. See config.h. */
#include "model/config.h"

#include <math.h>

#include "model/arch.h"

static int check_rope(const struct zl_rope_config *r, const char *where, struct zl_error *err)
{
    if (!(r->theta > 1) || !isfinite(r->theta))
        return zl_fail(err, ZL_EINPUT, "%s: rope_theta is %g, expected a number above 1", where, r->theta);
    if (r->kind == ZL_ROPE_PLAIN)
        return 0;
    if (!(r->factor > 0) || !isfinite(r->factor))
        return zl_fail(err, ZL_EINPUT, "%s: the rope scaling factor is %g, expected a positive number", where, r->factor);
    if (r->kind != ZL_ROPE_LINEAR && r->original_positions < 1)
        return zl_fail(err, ZL_EINPUT, "%s: the rope scaling has an original context of no positions", where);
    if (r->kind == ZL_ROPE_YARN && (!(r->beta_slow > 0) || !(r->beta_fast >= r->beta_slow) || !isfinite(r->beta_fast)))
        return zl_fail(err, ZL_EINPUT, "%s: yarn's beta_fast is %g and beta_slow %g, expected beta_fast >= beta_slow > 0", where,
                       r->beta_fast, r->beta_slow);
    if (r->kind == ZL_ROPE_YARN && (!(r->attention_factor >= 0) || !isfinite(r->attention_factor)))
        return zl_fail(err, ZL_EINPUT, "%s: yarn's attention factor is %g, expected a positive number", where,
                       r->attention_factor);
    return 0;
}

int zl_config_check(const struct zl_config *c, const char *where, struct zl_error *err)
{
    const struct {
        const char *name;
        uint64_t value, most;
    } sizes[] = {
        {"number of layers", c->layers, 1024},     {"hidden size", c->d, 65536},
        {"MLP width", c->ffn, 1u << 20},           {"number of heads", c->heads, 1024},
        {"number of key/value heads", c->kv_heads, 1024}, {"head size", c->head_dim, 256},
        {"vocabulary", c->vocab, 1u << 24},
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].most)
            return zl_fail(err, ZL_EINPUT, "%s: the %s is %llu, expected 1 to %llu", where, sizes[i].name,
                           (unsigned long long)sizes[i].value, (unsigned long long)sizes[i].most);
    if (c->heads % c->kv_heads)
        return zl_fail(err, ZL_EINPUT, "%s: %u heads are not a multiple of %u key/value heads", where,
                       c->heads, c->kv_heads);
    if (c->head_dim % 2)
        return zl_fail(err, ZL_EINPUT, "%s: the head size %u is odd, rotary positions need pairs", where,
                       c->head_dim);
    if (!(c->norm_eps > 0 && c->norm_eps < 1)) /* 0 makes NaN of a row of zeros */
        return zl_fail(err, ZL_EINPUT, "%s: the norm's epsilon is %g, expected a number above 0 and below 1", where,
                       c->norm_eps);
    return check_rope(&c->rope, where, err);
}

/* Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, smoothly in between. */
static double llama3(const struct zl_rope_config *r, double f)
{
    const double pi = 3.14159265358979323846;
    double wavelength = 2 * pi / f, original = (double)r->original_positions;
    if (wavelength < original / r->high_freq)
        return f;
    if (wavelength > original / r->low_freq)
        return f / r->factor;
    double s = (original / wavelength - r->low_freq) / (r->high_freq - r->low_freq);
    return (1 - s) * f / r->factor + s * f;
}

/* YaRN (Peng et al. 2023): interpolate the dimensions that turn less than beta_slow times in the original context, keep those that
 * turn more than beta_fast times, ramp in between. */
static double yarn(const struct zl_config *c, double f, uint32_t j)
{
    const double pi = 3.14159265358979323846;
    const struct zl_rope_config *r = &c->rope;
    double dim = c->head_dim, log_base = log(r->theta);
    double low = floor(dim * log((double)r->original_positions / (r->beta_fast * 2 * pi)) / (2 * log_base));
    double high = ceil(dim * log((double)r->original_positions / (r->beta_slow * 2 * pi)) / (2 * log_base));
    low = fmax(low, 0);
    high = fmin(high, dim - 1);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax(((double)j - low) / (high - low), 0), 1);
    return f / r->factor * ramp + f * (1 - ramp);
}

int zl_rope_frequencies(const struct zl_config *c, const float *divisors, uint64_t positions, double *inv_freq,
                        double *attention_factor, struct zl_error *err)
{
    const struct zl_rope_config *r = &c->rope;
    *attention_factor = 1;
    if (r->kind == ZL_ROPE_DYNAMIC && positions > r->original_positions)
        return zl_fail(err, ZL_EINPUT,
                       "dynamic rope scaling depends on the length beyond %llu positions and cannot be trained at "
                       "%llu: choose --max-length %llu or less",
                       (unsigned long long)r->original_positions, (unsigned long long)positions,
                       (unsigned long long)r->original_positions);
    if (r->kind == ZL_ROPE_YARN)
        *attention_factor = r->attention_factor > 0 ? r->attention_factor
                            : r->factor > 1         ? 0.1 * log(r->factor) + 1
                                                    : 1;
    for (uint32_t j = 0; j < c->head_dim / 2; j++) {
        double f = pow(r->theta, -2.0 * j / c->head_dim);
        if (divisors && (!(divisors[j] > 0) || !isfinite(divisors[j])))
            return zl_fail(err, ZL_EINPUT, "the tensor %s divides a rotary frequency by %g, expected a positive number",
                           c->arch->gguf_rope_freqs, (double)divisors[j]);
        if (divisors)
            f /= (double)divisors[j];
        if (r->kind == ZL_ROPE_LINEAR)
            f /= r->factor;
        else if (r->kind == ZL_ROPE_LLAMA3)
            f = llama3(r, f);
        else if (r->kind == ZL_ROPE_YARN)
            f = yarn(c, f, j);
        inv_freq[j] = f;
    }
    return 0;
}
