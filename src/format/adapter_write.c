/*
 * Writing a PEFT adapter folder, whole or not at all: see adapter.h. The configuration says what
 * PEFT needs to rebuild the modules; per module ranks and alphas are written with the modules' full
 * names, which older and newer versions of PEFT understand alike.
 */
#include "config.h"

#include "format/adapter_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "format/quote.h"
#include "format/tensors.h"

static const char *const file_names[] = {"adapter_config.json", "adapter_model.safetensors"};
enum { FILES = 2 };

/* ---- adapter_config.json
 * -------------------------------------------------------------------------------------------- */

static json_t *number(double x)
{
    return x == floor(x) && fabs(x) < 1e15 ? json_integer((json_int_t)x) : json_real(x);
}

static const char *last_name(const char *module)
{
    const char *dot = strrchr(module, '.');
    return dot ? dot + 1 : module;
}

static bool ends_in(const char *module, const char *target)
{
    const size_t n = strlen(module), t = strlen(target);
    return n >= t && !strcmp(module + n - t, target) && (n == t || module[n - t - 1] == '.');
}

/* PEFT adds adapters to the modules that target_modules names, and only those; tensors of others it
 * would drop. */
static int make_targets(json_t *root, const struct zl_adapter_config *c, const struct zl_adapter *a,
                        struct zl_error *err)
{
    json_t *set = json_object(), *list = json_array(), *unused;
    const char *name;
    for (size_t i = 0; i < c->n_targets; i++)
        json_object_set_new(set, c->targets[i], json_true());
    for (size_t i = 0; i < a->n; i++) {
        const char *module = a->modules[i].name;
        bool found = false;
        if (!c->n_targets)
            json_object_set_new(set, last_name(module), json_true());
        for (size_t k = 0; k < c->n_targets && !found; k++)
            found = ends_in(module, c->targets[k]);
        if (c->n_targets && !found) {
            json_decref(set);
            json_decref(list);
            return zl_fail(err, ZL_EUSAGE,
                           "module \"%s\" of the adapter is none of its %zu target modules",
                           zl_quote(module).s, c->n_targets);
        }
    }
    json_object_foreach(set, name, unused) json_array_append_new(list, json_string(name));
    json_decref(set);
    if (json_object_set_new(root, "target_modules", list) || !json_array_size(list))
        return zl_fail(err, ZL_EUSAGE, "the adapter's target modules are not names in UTF-8");
    return 0;
}

/* The number in "model.layers.3.self_attn.q_proj", or -1. */
static long layer_of(const char *module)
{
    for (const char *dot = strchr(module, '.'); dot; dot = strchr(dot + 1, '.'))
        if (dot[1] >= '0' && dot[1] <= '9') {
            char *end;
            const long n = strtol(dot + 1, &end, 10);
            if (*end == '.' && n < INT32_MAX)
                return n;
        }
    return -1;
}

static int by_number(const void *x, const void *y)
{
    const long a = *(const long *)x, b = *(const long *)y;
    return (a > b) - (a < b);
}

/* PEFT gives every layer of the model an adapter unless it is told which. */
static int make_layers(json_t *root, const struct zl_adapter_config *c, const struct zl_adapter *a, struct zl_error *err)
{
    long *layer = calloc(a->n + 1, sizeof *layer);
    size_t n = 0;
    if (!layer)
        return zl_fail(err, ZL_EMEMORY, "no memory for an adapter of %zu modules", a->n);
    for (size_t i = 0; i < a->n; i++)
        layer[i] = layer_of(a->modules[i].name);
    qsort(layer, a->n, sizeof *layer, by_number);
    for (size_t i = 0; i < a->n; i++)
        if (n == 0 || layer[n - 1] != layer[i])
            layer[n++] = layer[i];
    if (c->layers && layer[0] >= 0 && n < c->layers) {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(list, json_integer(layer[i]));
        json_object_set_new(root, "layers_to_transform", list);
    }
    free(layer);
    return 0;
}

/* The module's name as a regular expression; a dot may stand for itself. */
static void escape(char *to, const char *name)
{
    for (; *name; *to++ = *name++)
        if (strchr("\\^$*+?()[]{}|", *name))
            *to++ = '\\';
    *to = 0;
}

static int longest_first(const void *x, const void *y)
{
    const struct zl_adapter_module *const *a = x, *const *b = y;
    const size_t n = strlen((*a)->name), m = strlen((*b)->name);
    return n != m ? (n < m ? 1 : -1) : strcmp((*a)->name, (*b)->name);
}

/* Patterns: the first key that matches the end of a name counts, so once one module differs all are
 * listed, longest name first: then a module's own key comes before any that is only its end. */
static int make_patterns(json_t *root, const struct zl_adapter_config *c,
                         const struct zl_adapter *a, struct zl_error *err)
{
    json_t *ranks = json_object(), *alphas = json_object();
    bool rank_differs = false, alpha_differs = false;
    int rc = 0;
    const struct zl_adapter_module **sorted = calloc(a->n + 1, sizeof *sorted);
    if (!sorted) {
        rc = zl_fail(err, ZL_EMEMORY, "no memory for an adapter of %zu modules", a->n);
        goto out;
    }
    for (size_t i = 0; i < a->n; i++) {
        sorted[i] = &a->modules[i];
        rank_differs |= sorted[i]->r != c->r;
        alpha_differs |= sorted[i]->scale != (float)(c->alpha / sorted[i]->r);
    }
    qsort(sorted, a->n, sizeof *sorted, longest_first);
    for (size_t i = 0; i < a->n && (rank_differs || alpha_differs); i++) {
        char *key = malloc(2 * strlen(sorted[i]->name) + 1);
        if (!key) {
            rc = zl_fail(err, ZL_EMEMORY, "no memory for an adapter of %zu modules", a->n);
            goto out;
        }
        escape(key, sorted[i]->name);
        if (rank_differs)
            json_object_set_new(ranks, key, json_integer(sorted[i]->r));
        if (alpha_differs)
            json_object_set_new(alphas, key, number((double)sorted[i]->scale * sorted[i]->r));
        free(key);
    }
    json_object_set(root, "rank_pattern", ranks);
    json_object_set(root, "alpha_pattern", alphas);
out:
    free(sorted);
    json_decref(ranks);
    json_decref(alphas);
    return rc;
}

static int write_config(const char *path, const struct zl_adapter_config *c,
                        const struct zl_adapter *a, struct zl_error *err)
{
    bool conv1d = true;
    for (size_t i = 0; i < a->n; i++)
        conv1d &= zl_adapter_is_conv1d(a->modules[i].name);
    json_t *root =
        json_pack("{s:s?, s:s, s:b, s:b, s:b, s:n, s:o, s:f, s:n, s:s, s:I, s:n, s:s?, s:b, s:b}",
                  "base_model_name_or_path", c->base_model, "bias", "none", "fan_in_fan_out",
                  conv1d, "inference_mode", true, "init_lora_weights", true, "layers_to_transform",
                  "lora_alpha", number(c->alpha), "lora_dropout", 0.0, "modules_to_save",
                  "peft_type", "LORA", "r", (json_int_t)c->r, "revision", "task_type", c->task_type,
                  "use_dora", false, "use_rslora", false);
    char *text = NULL;
    int rc;
    if (!root)
        return zl_fail(err, ZL_EUSAGE, "%s: cannot write it, expected names in UTF-8", path);
    if ((rc = make_targets(root, c, a, err)) || (rc = make_layers(root, c, a, err)) || (rc = make_patterns(root, c, a, err)))
        goto out;
    text = json_dumps(root, JSON_INDENT(2));
    rc = text ? zl_file_write(path, text, strlen(text), err)
              : zl_fail(err, ZL_EMEMORY, "%s: no memory to write it", path);
out:
    free(text);
    json_decref(root);
    return rc;
}

/* ---- adapter_model.safetensors
 * -------------------------------------------------------------------------------------- */

static int write_tensors(const char *path, const struct zl_adapter *a, struct zl_error *err)
{
    int rc = 0;
    struct zl_safetensors_entry *e = calloc(2 * a->n + 1, sizeof *e);
    char **names = calloc(2 * a->n + 1, sizeof *names);
    if (!e || !names)
        rc = zl_fail(err, ZL_EMEMORY, "%s: no memory to write it", path);
    for (size_t i = 0; i < 2 * a->n && !rc; i++) {
        const struct zl_adapter_module *m = &a->modules[i / 2];
        const bool is_b = i % 2;
        if (asprintf(&names[i], ZL_ADAPTER_PREFIX "%s.lora_%c.weight", m->name, is_b ? 'B' : 'A') <
            0) {
            names[i] = NULL;
            rc = zl_fail(err, ZL_EMEMORY, "%s: no memory to write it", path);
            break;
        }
        e[i] = (struct zl_safetensors_entry){
            .name = names[i], .n_dims = 2, .data = is_b ? m->b : m->a};
        e[i].shape[0] = is_b ? m->out : m->r;
        e[i].shape[1] = is_b ? m->r : m->in;
    }
    if (!rc)
        rc = zl_safetensors_write(path, e, 2 * a->n, (const char *const[]){"format", "pt", NULL},
                                  err);
    for (size_t i = 0; names && i < 2 * a->n; i++)
        free(names[i]);
    free(names);
    free(e);
    return rc;
}

/* ---- the folder
 * -----------------------------------------------------------------------------------------------------
 */

/* Nothing but an adapter's files is in there: it may be replaced. */
static int check_replaceable(const char *dir, struct zl_error *err)
{
    DIR *d = opendir(dir);
    if (!d)
        return zl_fail_errno(err, ZL_ESYSTEM, "%s: cannot read this directory", dir);
    int rc = 0;
    for (const struct dirent *e; !rc && (e = readdir(d));) {
        bool known = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
        for (int i = 0; i < FILES; i++)
            known |= !strcmp(e->d_name, file_names[i]);
        if (!known)
            rc = zl_fail(
                err, ZL_EUSAGE,
                "%s: holds %s, expected an adapter's two files or nothing before it is replaced",
                dir, zl_quote(e->d_name).s);
    }
    closedir(d);
    return rc;
}

static void remove_folder(const char *dir)
{
    for (int i = 0; i < FILES; i++) {
        char *path = zl_path_join(dir, file_names[i]);
        if (path)
            unlink(path);
        free(path);
    }
    rmdir(dir);
}

/* A new folder beside `target`; a leftover of an earlier process is stepped over. */
static char *make_temporary(const char *target)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        char *name;
        if (asprintf(&name, "%s.tmp-%ld-%d", target, (long)getpid(), attempt) < 0)
            return NULL;
        if (!mkdir(name, 0777))
            return name;
        const int saved = errno;
        free(name);
        errno = saved;
        if (saved != EEXIST)
            return NULL;
    }
    return NULL;
}

/* `temporary` takes the place of `target`; where the file system cannot exchange two names there is
 * an instant without a `target`. */
static int put_in_place(const char *temporary, const char *target, const char *folder, bool exists,
                        struct zl_error *err)
{
    char *old = NULL;
    int rc = 0;
    if (!exists || renameat2(AT_FDCWD, temporary, AT_FDCWD, target, RENAME_EXCHANGE)) {
        if (exists && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
            return zl_fail_errno(err, ZL_ESYSTEM, "%s: cannot replace it", target);
        if (exists && (asprintf(&old, "%s.old", temporary) < 0 || rename(target, old)))
            rc = zl_fail_errno(err, ZL_ESYSTEM, "%s: cannot replace it", target);
        else if (rename(temporary, target)) {
            rc = zl_fail_errno(err, ZL_ESYSTEM, "%s: cannot write it", target);
            if (old)
                rename(old, target);
        }
    }
    if (!rc) /* on the disk before the old one goes: a power cut could take both otherwise */
        rc = zl_folder_sync(folder, err);
    if (!rc && exists)
        remove_folder(old ? old : temporary);
    free(old);
    return rc;
}

static int check(const char *dir, const struct zl_adapter_config *c, const struct zl_adapter *a,
                 struct zl_error *err)
{
    if (!a->n)
        return zl_fail(err, ZL_EUSAGE, "%s: there is no module to write", dir);
    if (c->r < 1)
        return zl_fail(err, ZL_EUSAGE, "%s: the adapter's rank is 0, expected at least 1", dir);
    if (!(c->alpha > 0) || !isfinite(c->alpha))
        return zl_fail(err, ZL_EUSAGE, "%s: the adapter's alpha is not a number above 0", dir);
    for (size_t i = 0; i < a->n; i++)
        if (!(a->modules[i].scale > 0) || !isfinite(a->modules[i].scale) || !a->modules[i].r)
            return zl_fail(err, ZL_EUSAGE, "%s: module \"%s\" has no scale above 0 or no rank", dir,
                           zl_quote(a->modules[i].name).s);
    return 0;
}

static int check_values(const char *dir, const struct zl_adapter *a, struct zl_error *err)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct zl_adapter_module *m = &a->modules[i];
        const uint64_t n_a = (uint64_t)m->r * m->in, n_b = (uint64_t)m->out * m->r;
        for (uint64_t j = 0; j < n_a + n_b; j++)
            if (!isfinite(j < n_a ? m->a[j] : m->b[j - n_a]))
                return zl_fail(err, ZL_EINPUT,
                               "%s is not written: the adapter of %s holds values that are not finite; a lower learning rate may help",
                               dir, zl_quote(m->name).s);
    }
    return 0;
}

int zl_adapter_check_place(const char *dir, struct zl_error *err)
{
    struct stat st;
    if (stat(dir, &st))
        return 0;
    if (!S_ISDIR(st.st_mode))
        return zl_fail(err, ZL_EUSAGE, "%s: is a file, expected a directory or nothing", dir);
    return check_replaceable(dir, err);
}

int zl_adapter_write(const char *dir, const struct zl_adapter_config *c, const struct zl_adapter *a,
                     struct zl_error *err)
{
    char *target = NULL, *temporary = NULL, *config = NULL, *tensors = NULL, *folder = NULL;
    struct stat st;
    int rc = check(dir, c, a, err);
    if (rc || (rc = check_values(dir, a, err)) || (rc = zl_adapter_check_place(dir, err)))
        return rc;
    const bool exists = !stat(dir, &st);
    target = exists ? realpath(dir, NULL)
                    : strdup(dir); /* through a symbolic link, to the folder itself */
    for (size_t n = target ? strlen(target) : 0; n > 1 && target[n - 1] == '/'; n--)
        target[n - 1] = 0;
    folder = target ? zl_path_folder(target) : NULL;
    temporary = folder ? make_temporary(target) : NULL;
    if (!temporary) {
        rc = zl_fail_errno(err, ZL_ESYSTEM, "%s: cannot create a directory beside it", dir);
        goto out;
    }
    config = zl_path_join(temporary, file_names[0]);
    tensors = zl_path_join(temporary, file_names[1]);
    if (!config || !tensors)
        rc = zl_fail(err, ZL_EMEMORY, "%s: no memory to write it", dir);
    if (rc || (rc = write_config(config, c, a, err)) || (rc = write_tensors(tensors, a, err)) ||
        (rc = put_in_place(temporary, target, folder, exists, err)))
        remove_folder(temporary);
out:
    free(config);
    free(tensors);
    free(temporary);
    free(folder);
    free(target);
    return rc;
}
