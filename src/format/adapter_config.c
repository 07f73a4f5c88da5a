/*
 * Reading adapter_config.json. A table says of every key that PEFT writes what we do with it: use
 * it, ignore it because it does not change what the finished adapter computes, or refuse it unless
 * it is off. A key that the table lacks is noted and ignored.
 */
#include "config.h"

#include "format/adapter_impl.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/pattern.h"
#include "format/quote.h"

enum { CONFIG_LIMIT = 16 << 20 }; /* bytes */

enum rule {
    USED,    /* read below */
    IGNORED, /* how it was trained, or where it came from */
    OFF /* changes what the adapter computes: null, false, "none", [] or {}, or the file is refused
         */
};

static const struct {
    const char *key;
    enum rule rule;
} keys[] = {
    {"peft_type", USED},
    {"r", USED},
    {"lora_alpha", USED},
    {"use_rslora", USED},
    {"rank_pattern", USED},
    {"alpha_pattern", USED},
    {"fan_in_fan_out", USED},
    {"init_lora_weights", USED},
    {"alora_invocation_tokens", OFF},
    {"arrow_config", OFF},
    {"bias", OFF},
    {"kasa_config", OFF},
    {"layer_replication", OFF},
    {"lora_bias", OFF},
    {"modules_to_save", OFF},
    {"monteclora_config", OFF},
    {"target_parameters", OFF},
    {"trainable_token_indices", OFF},
    {"use_bdlora", OFF},
    {"use_dora", OFF},
    {"use_qalora", OFF},
    {"auto_mapping", IGNORED},
    {"base_model_name_or_path", IGNORED},
    {"corda_config", IGNORED},
    {"ensure_weight_tying", IGNORED},
    {"eva_config", IGNORED},
    {"exclude_modules", IGNORED},
    {"inference_mode", IGNORED},
    {"layers_pattern", IGNORED},
    {"layers_to_transform", IGNORED}, /* the file of tensors says which layers */
    {"loftq_config", IGNORED},        /* matters with init_lora_weights "loftq" only */
    {"lora_dropout", IGNORED},
    {"lora_ga_config", IGNORED},
    {"megatron_config", IGNORED},
    {"megatron_core", IGNORED},
    {"peft_version", IGNORED},
    {"qalora_group_size", IGNORED},
    {"revision", IGNORED},
    {"runtime_config", IGNORED},
    {"target_modules", IGNORED},
    {"task_type", IGNORED},
    {"velora_config", IGNORED}, /* how gradients were stored */
};

static const char *kind_of(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",
        [JSON_STRING] = "text",      [JSON_INTEGER] = "a whole number",
        [JSON_REAL] = "a fraction",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return names[json_typeof(v)];
}

static bool is_off(const json_t *v)
{
    return json_is_null(v) || json_is_false(v) ||
           ((json_is_array(v) || json_is_object(v)) && !json_object_size(v) &&
            !json_array_size(v)) ||
           (json_is_string(v) && (!strcmp(json_string_value(v), "none") || !json_string_length(v)));
}

/* A value in one line of an error, cut. */
static struct zl_quoted shown(const json_t *v)
{
    char text[256];
    size_t n = json_dumpb(v, text, sizeof text, JSON_ENCODE_ANY | JSON_COMPACT);
    return zl_quote_n(n <= sizeof text ? text : kind_of(v),
                      n <= sizeof text ? n : strlen(kind_of(v)));
}

static void note_unknown(const struct zl_adapter_settings *s, const char *key, char *notes,
                         size_t size)
{
    const size_t n = notes && size ? strnlen(notes, size) : 0;
    if (notes && n + 1 < size)
        snprintf(notes + n, size - n, n ? ", \"%s\"" : "%s: unknown and ignored: \"%s\"",
                 n ? zl_quote(key).s : s->path, zl_quote(key).s);
}

static int check_keys(const struct zl_adapter_settings *s, char *notes, size_t notes_size,
                      struct zl_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(s->root, key, value)
    {
        size_t i = 0;
        while (i < sizeof keys / sizeof *keys && strcmp(keys[i].key, key))
            i++;
        if (i == sizeof keys / sizeof *keys)
            note_unknown(s, key, notes, notes_size);
        else if (keys[i].rule == OFF && !is_off(value))
            return zl_fail(
                err, ZL_EINPUT,
                "%s: %s is %s, which changes what the adapter computes and is not supported here",
                s->path, key, shown(value).s);
    }
    return 0;
}

static int get_bool(const struct zl_adapter_settings *s, const char *key, bool *out,
                    struct zl_error *err)
{
    const json_t *v = json_object_get(s->root, key);
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_boolean(v))
        return zl_fail(err, ZL_EINPUT, "%s: %s is %s, expected true or false", s->path, key,
                       kind_of(v));
    *out = json_is_true(v);
    return 0;
}

/* Ways of initialising that leave the base model's weights as they are; the others train on a
 * changed base, to which the tensors alone do not lead back. */
static int check_init(const struct zl_adapter_settings *s, struct zl_error *err)
{
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    const json_t *v = json_object_get(s->root, "init_lora_weights");
    if (!v || json_is_boolean(v) || json_is_null(v))
        return 0;
    for (size_t i = 0; json_is_string(v) && i < sizeof harmless / sizeof *harmless; i++)
        if (!strcmp(json_string_value(v), harmless[i]))
            return 0;
    return zl_fail(
        err, ZL_EINPUT,
        "%s: init_lora_weights is %s, which changes the base model and is not supported here",
        s->path, shown(v).s);
}

bool zl_adapter_is_conv1d(const char *module)
{
    static const char *const names[] = {"c_attn", "c_proj", "c_fc", "q_attn"};
    const char *dot = strrchr(module, '.');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(dot ? dot + 1 : module, names[i]))
            return true;
    return false;
}

static int read_numbers(struct zl_adapter_settings *s, struct zl_error *err)
{
    const json_t *type = json_object_get(s->root, "peft_type");
    if (!json_is_string(type) || strcmp(json_string_value(type), "LORA"))
        return zl_fail(err, ZL_EINPUT, "%s: peft_type is %s, expected \"LORA\"", s->path,
                       type ? shown(type).s : "missing");
    const json_t *r = json_object_get(s->root, "r"),
                 *alpha = json_object_get(s->root, "lora_alpha");
    s->r = 8; /* PEFT's defaults */
    s->alpha = 8;
    if (r && !json_is_null(r)) {
        if (!json_is_integer(r) || json_integer_value(r) < 1 || json_integer_value(r) > UINT32_MAX)
            return zl_fail(err, ZL_EINPUT, "%s: r is %s, expected a whole number from 1 on",
                           s->path, shown(r).s);
        s->r = (uint32_t)json_integer_value(r);
    }
    if (alpha && !json_is_null(alpha)) {
        if (!json_is_number(alpha) || !(json_number_value(alpha) > 0))
            return zl_fail(err, ZL_EINPUT, "%s: lora_alpha is %s, expected a number above 0",
                           s->path, shown(alpha).s);
        s->alpha = json_number_value(alpha);
    }
    return 0;
}

int zl_adapter_settings_read(const char *dir, struct zl_adapter_settings *s, char *notes,
                             size_t notes_size, struct zl_error *err)
{
    char *text = NULL;
    size_t n;
    json_error_t e;
    *s = (struct zl_adapter_settings){.path = zl_path_join(dir, "adapter_config.json")};
    if (notes && notes_size)
        *notes = 0;
    if (!s->path)
        return zl_fail(err, ZL_EMEMORY, "%s: no memory to read it", dir);
    int rc = zl_file_read(s->path, CONFIG_LIMIT, &text, &n, err);
    if (rc)
        goto out;
    s->root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    if (!s->root)
        rc = zl_fail(err, ZL_EINPUT, "%s: line %d: %s", s->path, e.line, e.text);
    else if (!json_is_object(s->root))
        rc = zl_fail(err, ZL_EINPUT, "%s: holds %s, expected an object", s->path, kind_of(s->root));
    if (rc || (rc = read_numbers(s, err)) || (rc = check_keys(s, notes, notes_size, err)) ||
        (rc = check_init(s, err)) || (rc = get_bool(s, "use_rslora", &s->rslora, err)) ||
        (rc = get_bool(s, "fan_in_fan_out", &s->fan_in_fan_out, err)) ||
        (rc = zl_patterns_new(json_object_get(s->root, "rank_pattern"), s->path, "rank_pattern",
                              true, &s->ranks, err)))
        goto out;
    rc = zl_patterns_new(json_object_get(s->root, "alpha_pattern"), s->path, "alpha_pattern", false,
                         &s->alphas, err);
out:
    free(text);
    if (rc)
        zl_adapter_settings_free(s);
    return rc;
}

void zl_adapter_settings_free(struct zl_adapter_settings *s)
{
    zl_patterns_free(s->ranks);
    zl_patterns_free(s->alphas);
    json_decref(s->root);
    free(s->path);
    *s = (struct zl_adapter_settings){0};
}

int zl_adapter_settings_module(struct zl_adapter_settings *s, const char *module, uint32_t *r,
                               float *scale, struct zl_error *err)
{
    double rank = s->r, alpha = s->alpha;
    int rc = zl_patterns_match(s->ranks, module, &rank, err);
    if (rc >= 0)
        rc = zl_patterns_match(s->alphas, module, &alpha, err);
    if (rc < 0)
        return rc;
    *r = (uint32_t)rank;
    *scale = (float)(alpha / (s->rslora ? sqrt(rank) : rank));
    if (!isfinite(*scale) || !(*scale >= FLT_MIN))
        return zl_fail(err, ZL_EINPUT, "%s: lora_alpha %g with rank %g gives the module \"%s\" a scale that float32 cannot hold", s->path,
                       (double)alpha, (double)rank, zl_quote(module).s);
    return 0;
}

int zl_adapter_settings_all_matched(const struct zl_adapter_settings *s, struct zl_error *err)
{
    const char *rank = zl_patterns_unmatched(s->ranks), *alpha = zl_patterns_unmatched(s->alphas);
    if (rank || alpha)
        return zl_fail(err, ZL_EINPUT, "%s: key \"%s\" of %s matches no module of the adapter",
                       s->path, zl_quote(rank ? rank : alpha).s,
                       rank ? "rank_pattern" : "alpha_pattern");
    return 0;
}
