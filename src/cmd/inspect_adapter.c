/*
 * `zerolock inspect ADAPTER`: what a LoRA adapter in PEFT's layout holds. Everything is read from the factors themselves; of
 * adapter_config.json only what they cannot tell (alpha, the base model's name).
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/number.h"
#include "cmd/inspect.h"
#include "format/adapter.h"

#define LARGEST_CONFIG ((size_t)1 << 20)

struct facts {
    struct zl_adapter adapter;
    json_t *config;
    uint64_t parameters, not_finite;
    double norm_a, norm_b;
    json_t *targets, *ranks, *scales; /* arrays without repetition, in order of appearance */
};

static double norm(const float *v, uint64_t n, uint64_t *not_finite)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        sum += (double)v[i] * (double)v[i];
        *not_finite += isfinite(v[i]) ? 0 : 1;
    }
    return sqrt(sum);
}

/* Append value unless the array has an equal one; takes the reference. */
static void add_once(json_t *array, json_t *value)
{
    size_t i;
    json_t *have;
    json_array_foreach(array, i, have)
    {
        if (json_equal(have, value)) {
            json_decref(value);
            return;
        }
    }
    json_array_append_new(array, value);
}

/* "q_proj" of "model.layers.3.self_attn.q_proj". */
static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static int gather(struct facts *f, const char *folder, struct zl_error *err)
{
    char notes[1024] = "";
    int rc = zl_adapter_read(folder, &f->adapter, notes, sizeof notes, err);
    if (rc)
        return rc;
    if (notes[0])
        zl_note("%s: %s", folder, notes);
    char *path = zl_path_join(folder, "adapter_config.json"), *text = NULL;
    size_t n = 0;
    rc = path ? zl_file_read(path, LARGEST_CONFIG, &text, &n, err) : zl_fail(err, ZL_EMEMORY, "no memory for a path");
    if (rc == 0)
        f->config = json_loadb(text, n, 0, NULL);
    free(text);
    free(path);
    f->targets = json_array();
    f->ranks = json_array();
    f->scales = json_array();
    double a = 0, b = 0;
    for (size_t i = 0; i < f->adapter.n; i++) {
        const struct zl_adapter_module *m = &f->adapter.modules[i];
        uint64_t size_a = (uint64_t)m->r * m->in, size_b = (uint64_t)m->r * m->out;
        f->parameters += size_a + size_b;
        a += pow(norm(m->a, size_a, &f->not_finite), 2);
        b += pow(norm(m->b, size_b, &f->not_finite), 2);
        add_once(f->targets, zl_inspect_string(last_part(m->name)));
        add_once(f->ranks, json_integer(m->r));
        add_once(f->scales, zl_json_number((double)m->scale));
    }
    f->norm_a = sqrt(a);
    f->norm_b = sqrt(b);
    return rc;
}

static json_t *modules_json(const struct facts *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->adapter.n; i++) {
        const struct zl_adapter_module *m = &f->adapter.modules[i];
        uint64_t ignored = 0;
        json_array_append_new(list, json_pack("{s:o, s:i, s:i, s:i, s:o, s:o, s:o}", "name", zl_inspect_string(m->name), "rank",
                                              (int)m->r, "in", (int)m->in, "out", (int)m->out, "scale", zl_json_number((double)m->scale),
                                              "norm_a", zl_json_number(norm(m->a, (uint64_t)m->r * m->in, &ignored)), "norm_b",
                                              zl_json_number(norm(m->b, (uint64_t)m->r * m->out, &ignored))));
    }
    return list;
}

static int print_json(const struct zl_inspect_options *o, const struct facts *f, const char *folder, struct zl_error *err)
{
    json_t *v = json_pack("{s:s, s:o, s:I, s:I, s:O, s:O, s:O, s:o, s:o, s:I}", "kind", "adapter", "path",
                          zl_inspect_string(folder), "modules", (json_int_t)f->adapter.n, "parameters", (json_int_t)f->parameters,
                          "targets", f->targets, "ranks", f->ranks, "scales", f->scales, "norm_a", zl_json_number(f->norm_a), "norm_b",
                          zl_json_number(f->norm_b), "not_finite", (json_int_t)f->not_finite);
    json_t *alpha = json_object_get(f->config, "lora_alpha"), *base = json_object_get(f->config, "base_model_name_or_path");
    json_object_set(v, "alpha", alpha ? alpha : json_null());
    json_object_set(v, "base_model", base ? base : json_null());
    if (o->tensors)
        json_object_set_new(v, "module_list", modules_json(f));
    return zl_inspect_json(v, err);
}

/* "4, 8, 16" */
static void print_list(const char *label, const json_t *array)
{
    size_t i;
    json_t *value;
    char text[ZL_NUMBER_TEXT];
    zl_inspect_label(label);
    json_array_foreach(array, i, value)
    {
        fputs(i ? ", " : "", stdout);
        if (json_is_string(value)) {
            zl_inspect_text(json_string_value(value));
        } else {
            double v = json_number_value(value);
            if (v == floor(v))
                zl_number_text(text, v);
            else
                zl_number_fixed(text, v, 4);
            fputs(text, stdout);
        }
    }
    putchar('\n');
}

static void print_norm(const char *label, double v)
{
    char text[ZL_NUMBER_TEXT];
    zl_number_fixed(text, v, 4);
    zl_inspect_label(label);
    puts(text);
}

static void print_modules(const struct facts *f)
{
    int width = 6;
    for (size_t i = 0; i < f->adapter.n; i++) {
        int n = (int)strlen(f->adapter.modules[i].name);
        width = n > width ? n : width;
    }
    printf("\n%-*s  %5s  %13s  %9s  %9s  %9s\n", width, "module", "rank", "in x out", "scale", "norm of A", "norm of B");
    for (size_t i = 0; i < f->adapter.n; i++) {
        const struct zl_adapter_module *m = &f->adapter.modules[i];
        char shape[32], scale[ZL_NUMBER_TEXT], a[ZL_NUMBER_TEXT], b[ZL_NUMBER_TEXT];
        uint64_t ignored = 0;
        snprintf(shape, sizeof shape, "%u x %u", m->in, m->out);
        zl_number_fixed(scale, (double)m->scale, 4);
        zl_number_fixed(a, norm(m->a, (uint64_t)m->r * m->in, &ignored), 4);
        zl_number_fixed(b, norm(m->b, (uint64_t)m->r * m->out, &ignored), 4);
        zl_inspect_text(m->name);
        printf("%*s  %5u  %13s  %9s  %9s  %9s\n", width - (int)strlen(m->name), "", m->r, shape, scale, a, b);
    }
}

static void print_text(const struct zl_inspect_options *o, const struct facts *f, const char *folder)
{
    char text[ZL_NUMBER_TEXT];
    const char *base = json_string_value(json_object_get(f->config, "base_model_name_or_path"));
    zl_inspect_label("adapter");
    zl_inspect_text(folder);
    putchar('\n');
    zl_inspect_label("format");
    puts("PEFT, LoRA");
    if (base && base[0]) {
        zl_inspect_label("base model");
        zl_inspect_text(base);
        putchar('\n');
    }
    print_list("rank", f->ranks);
    if (json_is_number(json_object_get(f->config, "lora_alpha"))) {
        zl_number_text(text, json_number_value(json_object_get(f->config, "lora_alpha")));
        zl_inspect_label("alpha");
        puts(text);
    }
    print_list("scale", f->scales);
    print_list("targets", f->targets);
    zl_inspect_label("modules");
    printf("%zu\n", f->adapter.n);
    zl_number_count(text, f->parameters);
    zl_inspect_label("parameters");
    printf("%s (%llu)\n", text, (unsigned long long)f->parameters);
    print_norm("norm of A", f->norm_a);
    print_norm("norm of B", f->norm_b);
    if (f->norm_b == 0 && f->adapter.n)
        puts("              B is zero: the model answers as without this adapter");
    if (o->tensors)
        print_modules(f);
}

int zl_inspect_adapter(const struct zl_inspect_options *o, const char *folder, struct zl_error *err)
{
    struct facts f = {0};
    if (o->metadata)
        zl_note("--metadata has no effect on an adapter");
    int rc = gather(&f, folder, err);
    if (rc == 0 && o->json)
        rc = print_json(o, &f, folder, err);
    else if (rc == 0)
        print_text(o, &f, folder);
    if (rc == 0 && f.not_finite)
        rc = zl_fail(err, ZL_EINPUT, "%s: %llu of the adapter's values are not finite numbers", folder,
                     (unsigned long long)f.not_finite);
    json_decref(f.targets);
    json_decref(f.ranks);
    json_decref(f.scales);
    json_decref(f.config);
    zl_adapter_free(&f.adapter);
    return rc;
}
