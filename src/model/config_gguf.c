/* GGUF metadata to struct zl_config: keys "<architecture>.block_count" and so on, as the GGUF specification names them. */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/arch.h"

struct reader {
    const struct zl_gguf *g;
    const char *prefix;
    struct zl_error *err;
};

static int get_u32(const struct reader *r, const char *key, bool required, uint32_t fallback, uint32_t *out)
{
    char name[160];
    uint64_t v = 0;
    snprintf(name, sizeof name, "%s.%s", r->prefix, key);
    int rc = zl_gguf_u64(r->g, name, &v, r->err);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        if (required)
            return zl_fail(r->err, ZL_EINPUT, "%s: the key %s is missing", zl_gguf_path(r->g), name);
        *out = fallback;
        return 0;
    }
    if (v >= UINT32_MAX)
        return zl_fail(r->err, ZL_EINPUT, "%s: %s is %llu, out of range", zl_gguf_path(r->g), name,
                       (unsigned long long)v);
    *out = (uint32_t)v;
    return 0;
}

static int get_f64(const struct reader *r, const char *key, double fallback, double *out)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", r->prefix, key);
    *out = fallback;
    int rc = zl_gguf_f64(r->g, name, out, r->err);
    return rc < 0 ? rc : 0;
}

static int get_rope(const struct reader *r, struct zl_config *c)
{
    char name[160];
    const char *kind = NULL;
    size_t len = 0;
    snprintf(name, sizeof name, "%s.rope.scaling.type", r->prefix);
    int rc = zl_gguf_string(r->g, name, &kind, &len, r->err);
    if (rc < 0 || get_f64(r, "rope.freq_base", 10000.0, &c->rope.theta))
        return ZL_EINPUT;
    c->rope.kind = ZL_ROPE_PLAIN;
    if (get_f64(r, "rope.scale_linear", 0, &c->rope.factor) || /* the old key */
        get_f64(r, "rope.scaling.factor", c->rope.factor, &c->rope.factor))
        return ZL_EINPUT;
    bool none = rc == 0 && len == 4 && memcmp(kind, "none", 4) == 0, yarn = rc == 0 && len == 4 && memcmp(kind, "yarn", 4) == 0;
    bool linear = rc == 1 || (len == 6 && memcmp(kind, "linear", 6) == 0); /* a factor without a type is a linear one */
    if (none || (linear && c->rope.factor == 0))
        return 0;
    if (!linear && !yarn)
        return zl_fail(r->err, ZL_EINPUT, "%s: rope scaling \"%.*s\" is not supported, expected none, linear or yarn",
                       zl_gguf_path(r->g), (int)(len < 40 ? len : 40), kind);
    c->rope.kind = linear ? ZL_ROPE_LINEAR : ZL_ROPE_YARN;
    uint32_t original = 0;
    if (get_u32(r, "rope.scaling.original_context_length", false, c->max_positions, &original) ||
        get_f64(r, "rope.scaling.attn_factor", 0, &c->rope.attention_factor) ||
        get_f64(r, "rope.scaling.yarn_beta_fast", 32, &c->rope.beta_fast) ||
        get_f64(r, "rope.scaling.yarn_beta_slow", 1, &c->rope.beta_slow))
        return ZL_EINPUT;
    if (c->rope.attention_factor > 0 && c->rope.factor > 1) /* there it multiplies the formula, in config.json it replaces it */
        c->rope.attention_factor *= 0.1 * log(c->rope.factor) + 1;
    c->rope.original_positions = original;
    return 0;
}

int zl_config_from_gguf(const struct zl_gguf *g, struct zl_config *c, struct zl_error *err)
{
    const char *path = zl_gguf_path(g), *name = NULL;
    size_t len = 0;
    char arch[64];
    *c = (struct zl_config){0};
    int rc = zl_gguf_string(g, "general.architecture", &name, &len, err);
    if (rc < 0)
        return rc;
    if (rc == 1)
        return zl_fail(err, ZL_EINPUT, "%s: the key general.architecture is missing", path);
    snprintf(arch, sizeof arch, "%.*s", (int)(len < 60 ? len : 60), name);
    c->arch = zl_arch_by_gguf(arch);
    if (!c->arch)
        return zl_fail(err, ZL_EINPUT, "%s: architecture \"%s\" is not supported, expected one of: %s", path, arch,
                       zl_arch_names());
    struct reader r = {g, arch, err};
    uint32_t rope_dim = 0;
    if (get_u32(&r, "embedding_length", true, 0, &c->d) || get_u32(&r, "feed_forward_length", true, 0, &c->ffn) ||
        get_u32(&r, "block_count", true, 0, &c->layers) ||
        get_u32(&r, "attention.head_count", true, 0, &c->heads) ||
        get_u32(&r, "attention.head_count_kv", false, c->heads, &c->kv_heads) ||
        get_u32(&r, "context_length", false, 2048, &c->max_positions))
        return ZL_EINPUT;
    if (c->heads == 0)
        return zl_fail(err, ZL_EINPUT, "%s: %s.attention.head_count is 0", path, arch);
    if (get_u32(&r, "attention.key_length", false, c->d / c->heads, &c->head_dim) ||
        get_u32(&r, "rope.dimension_count", false, c->head_dim, &rope_dim) ||
        get_f64(&r, "attention.layer_norm_rms_epsilon", 1e-5, &c->norm_eps) || get_rope(&r, c))
        return ZL_EINPUT;
    if (rope_dim != c->head_dim)
        return zl_fail(err, ZL_EINPUT, "%s: rotary positions on %u of %u head dimensions are not supported", path,
                       rope_dim, c->head_dim);
    const struct zl_named_tensor *embed = zl_tensors_find(zl_gguf_tensors(g), c->arch->gguf_embed);
    if (!embed || embed->t.n_dims != 2 || embed->t.shape[0] >= UINT32_MAX)
        return zl_fail(err, ZL_EINPUT, "%s: the tensor %s [vocabulary][hidden] is missing", path,
                       c->arch->gguf_embed);
    c->vocab = (uint32_t)embed->t.shape[0];
    c->tied = zl_tensors_find(zl_gguf_tensors(g), c->arch->gguf_head) == NULL;
    c->act = c->arch->act;
    c->rope_interleaved = c->arch->gguf_permutes_qk;
    return zl_config_check(c, path, err);
}
