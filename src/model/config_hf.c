/*
 * config.json of a Hugging Face directory to struct zl_config: the older style (rope_theta, rope_scaling with `type` or
 * `rope_type`) and that of transformers 5 (rope_parameters). Keys that change the arithmetic and that we do not have are refused.
 */
#include "model/config.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "model/arch.h"

struct reader {
    const char *path;
    json_t *root;
    struct zl_error *err;
};

/* NULL: absent, or null, which writers use for absent. */
static json_t *get(json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

/* An integer key; `fallback` UINT32_MAX: required. */
static int get_u32(const struct reader *r, const char *key, uint32_t fallback, uint32_t *out)
{
    json_t *v = get(r->root, key);
    if (!v) {
        if (fallback == UINT32_MAX)
            return zl_fail(r->err, ZL_EINPUT, "%s: \"%s\" is missing", r->path, key);
        *out = fallback;
        return 0;
    }
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= UINT32_MAX)
        return zl_fail(r->err, ZL_EINPUT, "%s: \"%s\" should be a positive integer", r->path, key);
    *out = (uint32_t)json_integer_value(v);
    return 0;
}

static int get_number(const struct reader *r, json_t *object, const char *key, double fallback, double *out)
{
    json_t *v = get(object, key);
    if (!v) {
        if (isnan(fallback))
            return zl_fail(r->err, ZL_EINPUT, "%s: \"%s\" is missing", r->path, key);
        *out = fallback;
        return 0;
    }
    if (!json_is_number(v))
        return zl_fail(r->err, ZL_EINPUT, "%s: \"%s\" should be a number", r->path, key);
    *out = json_number_value(v);
    return 0;
}

static int get_bool(const struct reader *r, const char *key, bool fallback, bool *out)
{
    json_t *v = get(r->root, key);
    *out = fallback;
    if (!v)
        return 0;
    if (!json_is_boolean(v))
        return zl_fail(r->err, ZL_EINPUT, "%s: \"%s\" should be true or false", r->path, key);
    *out = json_is_true(v);
    return 0;
}

static const struct {
    const char *name;
    enum zl_rope_kind kind;
} rope_kinds[] = {
    {"default", ZL_ROPE_PLAIN}, {"linear", ZL_ROPE_LINEAR}, {"llama3", ZL_ROPE_LLAMA3},
    {"yarn", ZL_ROPE_YARN},     {"dynamic", ZL_ROPE_DYNAMIC},
};

/* Rotary positions on a part of the head: not for this family, though the key is read for all. */
static int check_whole_head(const struct reader *r, json_t *object)
{
    double share;
    if (get_number(r, object, "partial_rotary_factor", 1, &share))
        return ZL_EINPUT;
    return share == 1 ? 0
                      : zl_fail(r->err, ZL_EINPUT, "%s: \"partial_rotary_factor\" is %g, only 1 is supported", r->path, share);
}

static int get_rope_kind(const struct reader *r, json_t *block, enum zl_rope_kind *out)
{
    json_t *kind = get(block, "rope_type");
    if (!kind)
        kind = get(block, "type");
    *out = ZL_ROPE_PLAIN;
    if (!kind && !get(block, "factor")) /* rope_parameters with nothing but rope_theta */
        return 0;
    if (!json_is_string(kind))
        return zl_fail(r->err, ZL_EINPUT, "%s: the rope settings have no \"rope_type\"", r->path);
    size_t i = 0, n = sizeof rope_kinds / sizeof rope_kinds[0];
    while (i < n && strcmp(rope_kinds[i].name, json_string_value(kind)) != 0)
        i++;
    if (i == n)
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: rope type \"%.40s\" is not supported, expected default, linear, llama3, yarn or dynamic",
                       r->path, json_string_value(kind));
    *out = rope_kinds[i].kind;
    return 0;
}

static int get_yarn(const struct reader *r, json_t *block, struct zl_rope_config *rope)
{
    if (get_number(r, block, "beta_fast", 32, &rope->beta_fast) || get_number(r, block, "beta_slow", 1, &rope->beta_slow) ||
        get_number(r, block, "attention_factor", 0, &rope->attention_factor))
        return ZL_EINPUT;
    if (get(block, "mscale") || get(block, "mscale_all_dim"))
        return zl_fail(r->err, ZL_EINPUT, "%s: yarn with \"mscale\" is not supported", r->path);
    if (json_is_false(get(block, "truncate")))
        return zl_fail(r->err, ZL_EINPUT, "%s: yarn with \"truncate\" false is not supported", r->path);
    return 0;
}

static int get_rope(const struct reader *r, struct zl_config *c)
{
    struct zl_rope_config *rope = &c->rope;
    json_t *block = get(r->root, "rope_parameters");
    if (!block)
        block = get(r->root, "rope_scaling");
    rope->kind = ZL_ROPE_PLAIN;
    if (get_number(r, r->root, "rope_theta", 10000.0, &rope->theta) || check_whole_head(r, r->root))
        return ZL_EINPUT;
    if (!block)
        return 0;
    if (!json_is_object(block))
        return zl_fail(r->err, ZL_EINPUT, "%s: the rope settings should be an object or null", r->path);
    if (get_number(r, block, "rope_theta", rope->theta, &rope->theta) || check_whole_head(r, block) ||
        get_rope_kind(r, block, &rope->kind))
        return ZL_EINPUT;
    if (rope->kind == ZL_ROPE_PLAIN)
        return 0;
    double original = 0;
    if (get_number(r, block, "factor", NAN, &rope->factor) ||
        get_number(r, block, "original_max_position_embeddings",
                   rope->kind == ZL_ROPE_LLAMA3 ? (double)NAN : (double)c->max_positions, &original))
        return ZL_EINPUT;
    if (!(original >= 1 && original <= 1e9))
        return zl_fail(r->err, ZL_EINPUT, "%s: \"original_max_position_embeddings\" is %g", r->path, original);
    rope->original_positions = (uint64_t)original;
    if (rope->kind == ZL_ROPE_LLAMA3) {
        if (get_number(r, block, "low_freq_factor", NAN, &rope->low_freq) ||
            get_number(r, block, "high_freq_factor", NAN, &rope->high_freq))
            return ZL_EINPUT;
        if (!(rope->low_freq > 0) || !(rope->high_freq > rope->low_freq))
            return zl_fail(r->err, ZL_EINPUT, "%s: high_freq_factor %g should be above low_freq_factor %g > 0",
                           r->path, rope->high_freq, rope->low_freq);
    }
    return rope->kind == ZL_ROPE_YARN ? get_yarn(r, block, rope) : 0;
}

static int read_config(const struct reader *r, struct zl_config *c)
{
    json_t *type = get(r->root, "model_type");
    if (!json_is_string(type))
        return zl_fail(r->err, ZL_EINPUT, "%s: \"model_type\" is missing", r->path);
    c->arch = zl_arch_by_hf(json_string_value(type));
    if (!c->arch)
        return zl_fail(r->err, ZL_EINPUT, "%s: model type \"%.40s\" is not supported, expected one of: %s", r->path,
                       json_string_value(type), zl_arch_names());
    if (get_u32(r, "hidden_size", UINT32_MAX, &c->d) || get_u32(r, "intermediate_size", UINT32_MAX, &c->ffn) ||
        get_u32(r, "num_hidden_layers", UINT32_MAX, &c->layers) ||
        get_u32(r, "num_attention_heads", UINT32_MAX, &c->heads) ||
        get_u32(r, "num_key_value_heads", c->heads, &c->kv_heads) ||
        get_u32(r, "vocab_size", UINT32_MAX, &c->vocab) ||
        get_u32(r, "max_position_embeddings", 2048, &c->max_positions))
        return ZL_EINPUT;
    if (c->heads == 0)
        return zl_fail(r->err, ZL_EINPUT, "%s: \"num_attention_heads\" is 0", r->path);
    if (!get(r->root, "head_dim") && c->d % c->heads)
        return zl_fail(r->err, ZL_EINPUT, "%s: \"hidden_size\" %u is not a multiple of \"num_attention_heads\" %u", r->path, c->d,
                       c->heads);
    bool mlp_bias;
    if (get_u32(r, "head_dim", c->d / c->heads, &c->head_dim) ||
        get_number(r, r->root, "rms_norm_eps", 1e-6, &c->norm_eps) ||
        get_bool(r, "tie_word_embeddings", false, &c->tied) || get_bool(r, "mlp_bias", false, &mlp_bias) ||
        get_bool(r, "attention_bias", false, &c->attention_bias))
        return ZL_EINPUT;
    if (mlp_bias)
        return zl_fail(r->err, ZL_EINPUT, "%s: \"mlp_bias\" is true, which is not supported", r->path);
    c->act = c->arch->act;
    json_t *act = get(r->root, "hidden_act");
    if (act && (!json_is_string(act) || strcmp(json_string_value(act), "silu") != 0))
        return zl_fail(r->err, ZL_EINPUT, "%s: \"hidden_act\" should be \"silu\" for this model type", r->path);
    return get_rope(r, c);
}

int zl_config_from_hf(const char *dir, struct zl_config *c, struct zl_error *err)
{
    char path[4096];
    *c = (struct zl_config){0};
    if (snprintf(path, sizeof path, "%s/config.json", dir) >= (int)sizeof path)
        return zl_fail(err, ZL_EINPUT, "the path of the model is too long");
    json_error_t at;
    FILE *f;
    int rc = zl_file_stream(path, &f, err);
    if (rc)
        return rc;
    json_t *root = json_loadf(f, JSON_REJECT_DUPLICATES, &at);
    fclose(f);
    if (!root)
        return zl_fail(err, ZL_EINPUT, "%s: line %d, column %d: %s", path, at.line, at.column, at.text);
    struct reader r = {path, root, err};
    rc = json_is_object(root) ? read_config(&r, c)
                                  : zl_fail(err, ZL_EINPUT, "%s: expected a JSON object", path);
    if (!rc)
        rc = zl_config_check(c, path, err);
    json_decref(root);
    return rc;
}
