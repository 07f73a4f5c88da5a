/*
 * Reading a PEFT adapter folder: adapter_config.json says ranks and scales (adapter_config.c),
 * adapter_model.safetensors holds
 *
 *     base_model.model.MODULE.lora_A.weight   [r][in]
 *     base_model.model.MODULE.lora_B.weight   [out][r]
 *
 * in f32, f16 or bf16. Invariant: every tensor of the file is one half of a pair that we return, or
 * the file is refused by the name of the tensor: nothing that was trained is dropped in silence.
 */
#include "config.h"

#include "format/adapter_impl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "format/quote.h"
#include "format/tensors.h"

static float half_value(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31,
                   mantissa = h & 1023;
    uint32_t bits;
    float f;
    if (exponent == 0) { /* zero and subnormals: mantissa * 2^-24, exact */
        f = (float)mantissa * 0x1p-24f;
        return sign ? -f : f;
    }
    bits = sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | mantissa << 13;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float *to_floats(const struct zl_tensor *t, struct zl_error *err, const char *file)
{
    const uint64_t n =
        zl_tensor_elements(t); /* its bytes are in the file, so n is no wild number */
    const unsigned char *p = t->data;
    float *out = reallocarray(NULL, n, sizeof *out);
    if (!out) {
        zl_fail(err, ZL_EMEMORY, "%s: no memory for %llu values", file, (unsigned long long)n);
        return NULL;
    }
    if (t->type == ZL_F32) {
        memcpy(out, p, n * sizeof *out);
        return out;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, sizeof h);
        const uint32_t bits = (uint32_t)h << 16; /* bf16 is the upper half of a float */
        if (t->type == ZL_F16)
            out[i] = half_value(h);
        else
            memcpy(&out[i], &bits, sizeof bits);
    }
    return out;
}

static int refuse(const struct zl_named_tensor *t, const char *why, struct zl_error *err)
{
    return zl_fail(err, ZL_EINPUT, "%s: tensor \"%s\" %s", t->file, zl_quote(t->name).s, why);
}

/* The module of a LoRA tensor's name and which half it is, told by its end alone: a module may be
 * called anything. */
static bool split_name(const char *name, size_t *module_length, bool *is_a)
{
    static const char a[] = ".lora_A.weight", b[] = ".lora_B.weight";
    const size_t n = strlen(name), prefix = strlen(ZL_ADAPTER_PREFIX), suffix = sizeof a - 1;
    if (strncmp(name, ZL_ADAPTER_PREFIX, prefix) || n <= prefix + suffix)
        return false;
    *is_a = !strcmp(name + n - suffix, a);
    *module_length = n - prefix - suffix;
    return *is_a || !strcmp(name + n - suffix, b);
}

static int check_half(const struct zl_named_tensor *t, struct zl_error *err)
{
    if (t->t.type != ZL_F32 && t->t.type != ZL_F16 && t->t.type != ZL_BF16)
        return zl_fail(err, ZL_EINPUT, "%s: tensor \"%s\" is of type %s, expected F32, F16 or BF16",
                       t->file, zl_quote(t->name).s, t->type_name);
    if (t->t.n_dims != 2)
        return refuse(t, "does not have two dimensions", err);
    for (int i = 0; i < 2; i++)
        if (t->t.shape[i] < 1 || t->t.shape[i] > UINT32_MAX)
            return refuse(t, "has a dimension that is 0 or does not fit 32 bits", err);
    return 0;
}

/* Check the pair A and B of one module and append it. */
static int add_module(struct zl_adapter *out, struct zl_adapter_settings *s,
                      const struct zl_named_tensor *a, const struct zl_named_tensor *b,
                      size_t length, struct zl_error *err)
{
    struct zl_adapter_module *m = &out->modules[out->n];
    int rc = check_half(a, err);
    if (rc || (rc = check_half(b, err)))
        return rc;
    if (a->t.shape[0] != b->t.shape[1])
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\" is of rank %llu but its lora_B is of rank %llu", a->file,
                       zl_quote(a->name).s, (unsigned long long)a->t.shape[0],
                       (unsigned long long)b->t.shape[1]);
    *m = (struct zl_adapter_module){.name = strndup(a->name + strlen(ZL_ADAPTER_PREFIX), length)};
    if (!m->name)
        return zl_fail(err, ZL_EMEMORY, "%s: no memory for a name", a->file);
    out->n++; /* from here on zl_adapter_free() owns its parts */
    if (s->fan_in_fan_out && !zl_adapter_is_conv1d(m->name))
        return zl_fail(
            err, ZL_EINPUT,
            "%s: fan_in_fan_out is true, but module \"%s\" is not one of GPT-2's Conv1D modules",
            s->path, zl_quote(m->name).s);
    if ((rc = zl_adapter_settings_module(s, m->name, &m->r, &m->scale, err)))
        return rc;
    if (m->r != a->t.shape[0])
        return zl_fail(
            err, ZL_EINPUT,
            "%s: tensor \"%s\" is of rank %llu, expected %u as adapter_config.json has it", a->file,
            zl_quote(a->name).s, (unsigned long long)a->t.shape[0], m->r);
    m->in = (uint32_t)a->t.shape[1];
    m->out = (uint32_t)b->t.shape[0];
    m->a = to_floats(&a->t, err, a->file);
    m->b = m->a ? to_floats(&b->t, err, b->file) : NULL;
    return m->b ? 0 : ZL_EMEMORY;
}

/* Why a tensor that is no half of a pair cannot be taken. */
static int refuse_extra(const struct zl_named_tensor *t, struct zl_error *err)
{
    static const struct {
        const char *part, *why;
    } known[] = {
        {".lora_magnitude_vector", "belongs to DoRA, which is not supported here"},
        {".lora_embedding_", "adapts an embedding, which is not supported here"},
        {".lora_B.bias", "is a LoRA bias, which is not supported here"},
        {".lora_variant_", "belongs to a variant of LoRA that is not supported here"},
        {".lora_A.", "does not end in \".lora_A.weight\" (is an adapter's name left in it?)"},
        {".lora_B.", "does not end in \".lora_B.weight\" (is an adapter's name left in it?)"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(t->name, known[i].part))
            return refuse(t, known[i].why, err);
    return refuse(t,
                  "is no lora_A or lora_B of a module: an adapter with weights of its own "
                  "(modules_to_save) is not "
                  "supported here",
                  err);
}

static int compare_modules(const void *x, const void *y)
{
    return strcmp(((const struct zl_adapter_module *)x)->name,
                  ((const struct zl_adapter_module *)y)->name);
}

static int collect(const struct zl_tensors *t, struct zl_adapter_settings *s, const char *path,
                   struct zl_adapter *out, struct zl_error *err)
{
    const size_t n = zl_tensors_count(t);
    int rc = 0;
    if (!n)
        return zl_fail(err, ZL_EINPUT,
                       "%s: holds no tensors, expected lora_A and lora_B of some modules", path);
    out->modules = calloc(n, sizeof *out->modules);
    if (!out->modules)
        return zl_fail(err, ZL_EMEMORY, "%s: no memory for %zu tensors", path, n);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct zl_named_tensor *one = zl_tensors_at(t, i), *other;
        size_t length;
        bool is_a;
        if (!split_name(one->name, &length, &is_a)) {
            rc = refuse_extra(one, err);
            break;
        }
        char *name = strdup(one->name);
        if (!name) {
            rc = zl_fail(err, ZL_EMEMORY, "%s: no memory for a name", path);
            break;
        }
        name[strlen(name) - strlen("A.weight")] = is_a ? 'B' : 'A';
        other = zl_tensors_find(t, name);
        free(name);
        if (!other)
            rc = refuse(one, is_a ? "has no lora_B beside it" : "has no lora_A beside it", err);
        else if (is_a)
            rc = add_module(out, s, one, other, length, err);
    }
    if (!rc)
        qsort(out->modules, out->n, sizeof *out->modules, compare_modules);
    return rc ? rc : zl_adapter_settings_all_matched(s, err);
}

int zl_adapter_read(const char *dir, struct zl_adapter *out, char *notes, size_t notes_size,
                    struct zl_error *err)
{
    struct zl_adapter_settings s;
    struct zl_tensors *t = NULL;
    *out = (struct zl_adapter){0};
    int rc = zl_adapter_settings_read(dir, &s, notes, notes_size, err);
    if (rc)
        return rc;
    char *path = zl_path_join(dir, "adapter_model.safetensors"),
         *pickle = zl_path_join(dir, "adapter_model.bin");
    if (!path || !pickle)
        rc = zl_fail(err, ZL_EMEMORY, "%s: no memory to read it", dir);
    else if (access(path, F_OK) && !access(pickle, F_OK))
        rc = zl_fail(err, ZL_EINPUT,
                     "%s: is a pickle file, expected adapter_model.safetensors beside it (save the "
                     "adapter anew)",
                     pickle);
    else
        rc = zl_safetensors_open(path, &t, err);
    if (!rc)
        rc = collect(t, &s, path, out, err);
    if (rc)
        zl_adapter_free(out);
    zl_tensors_close(t);
    zl_adapter_settings_free(&s);
    free(path);
    free(pickle);
    return rc;
}

void zl_adapter_free(struct zl_adapter *a)
{
    for (size_t i = 0; i < a->n; i++) {
        free(a->modules[i].name);
        free(a->modules[i].a);
        free(a->modules[i].b);
    }
    free(a->modules);
    *a = (struct zl_adapter){0};
}
