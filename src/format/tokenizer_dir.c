/*
 * The files beside tokenizer.json in a Hugging Face directory: which tokens begin and end a text,
 * the chat template, and the size of the model's vocabulary. tokenizer_config.json speaks first,
 * then special_tokens_map.json, generation_config.json and config.json; a file that is there but
 * not valid is an error, one that is absent is not.
 */
#include "config.h"

#include "base/file.h"
#include "format/quote.h"
#include "format/tokenizer_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEMPLATE (1 << 20)

static char *join(const char *dir, const char *name, struct zl_error *err)
{
    struct zl_text t = {0};
    size_t n = strlen(dir);
    if (zl_text_add(&t, dir, n, err) || zl_text_add(&t, "/", n && dir[n - 1] == '/' ? 0 : 1, err) ||
        zl_text_add(&t, name, strlen(name), err)) {
        free(t.s);
        return NULL;
    }
    return t.s;
}

/* "bos_token": "<s>" or {"content": "<s>", …} */
static int named_token(const struct zl_json *r, const json_t *root, const char *key,
                       const struct zl_tokenizer *t, int32_t *id)
{
    const json_t *v = json_object_get(root, key);
    if (json_is_object(v))
        v = json_object_get(v, "content");
    if (!v || json_is_null(v) || *id >= 0)
        return 0;
    if (!json_is_string(v))
        return zl_fail(r->err, ZL_EINPUT, "%s: \"%s\" is %s, expected a string", r->file, key,
                       zl_json_kind(v));
    *id = zl_vocab_find(&t->vocab, json_string_value(v), json_string_length(v));
    if (*id < 0 && json_string_length(v))
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: \"%s\" is \"%s\", which is no token of tokenizer.json", r->file, key,
                       zl_quote(json_string_value(v)).s);
    return 0;
}

static int one_id(const struct zl_json *r, const char *key, const json_t *v,
                  const struct zl_tokenizer *t, int32_t *id)
{
    if (!json_is_integer(v))
        return zl_fail(r->err, ZL_EINPUT, "%s: \"%s\" is %s, expected an integer", r->file, key,
                       zl_json_kind(v));
    json_int_t n = json_integer_value(v);
    if (n < 0 || n >= t->vocab.n || !(t->vocab.piece[n].flags & ZL_PIECE_PRESENT))
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: \"%s\" is %lld, which no token of tokenizer.json has", r->file, key,
                       (long long)n);
    *id = (int32_t)n;
    return 0;
}

/* "eos_token_id": 2 or [2, 7]: the first is the EOS where none is known, all of them end a turn. */
static int numbered_token(const struct zl_json *r, const json_t *root, const char *key,
                          struct zl_tokenizer *t, int32_t *id, bool ends)
{
    const json_t *v = json_object_get(root, key);
    size_t n = json_is_array(v) ? json_array_size(v) : v && !json_is_null(v) ? 1 : 0;
    for (size_t i = 0; i < n && i < 64; i++) {
        int32_t got = -1;
        int rc = one_id(r, key, json_is_array(v) ? json_array_get(v, i) : v, t, &got);
        if (!rc && ends && !zl_tokenizer_is_end(t, got))
            rc = zl_ids_add(&t->ends, got, r->err);
        if (rc)
            return rc;
        if (*id < 0)
            *id = got;
    }
    return 0;
}

/* "chat_template": "…" or [{"name": "default", "template": "…"}, …] */
static int config_template(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t)
{
    const json_t *v = json_object_get(root, "chat_template"), *entry;
    size_t i;
    if (json_is_array(v)) {
        const json_t *list = v;
        v = NULL;
        json_array_foreach(list, i, entry)
        {
            const char *name = json_string_value(json_object_get(entry, "name"));
            if (name && strcmp(name, "default") == 0)
                v = json_object_get(entry, "template");
        }
    }
    if (!v || json_is_null(v) || t->chat_template)
        return 0;
    if (!json_is_string(v))
        return zl_fail(r->err, ZL_EINPUT, "%s: \"chat_template\" is %s, expected a string", r->file,
                       zl_json_kind(v));
    if (json_string_length(v) > MAX_TEMPLATE)
        return zl_fail(r->err, ZL_EINPUT, "%s: the chat template is longer than 1 MiB", r->file);
    t->chat_template = zl_tok_strdup(json_string_value(v), json_string_length(v), r->err);
    return t->chat_template ? 0 : ZL_EMEMORY;
}

static int tokenizer_config(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t)
{
    int rc = named_token(r, root, "bos_token", t, &t->bos);
    if (!rc)
        rc = named_token(r, root, "eos_token", t, &t->eos);
    return rc ? rc : config_template(r, root, t);
}

static int special_tokens_map(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t)
{
    int rc = named_token(r, root, "bos_token", t, &t->bos);
    return rc ? rc : named_token(r, root, "eos_token", t, &t->eos);
}

static int generation_config(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t)
{
    int rc = numbered_token(r, root, "bos_token_id", t, &t->bos, false);
    return rc ? rc : numbered_token(r, root, "eos_token_id", t, &t->eos, true);
}

/* A model may have more rows than the tokenizer has ids (padding), never fewer. */
static int model_config(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t)
{
    int64_t rows = 0;
    int rc = zl_json_int(r, root, "the file", "vocab_size", &rows);
    if (rc < 0)
        return rc;
    if (rc == 0 && rows < (int64_t)t->vocab.n)
        return zl_fail(
            r->err, ZL_EINPUT, "%s: vocab_size is %lld, but the tokenizer has the id %u (\"%s\")",
            r->file, (long long)rows, t->vocab.n - 1, zl_quote(t->vocab.piece[t->vocab.n - 1].s).s);
    return generation_config(r, root, t);
}

static const struct {
    const char *name;
    int (*read)(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t);
} files[] = {
    {"tokenizer_config.json", tokenizer_config},
    {"special_tokens_map.json", special_tokens_map},
    {"generation_config.json", generation_config},
    {"config.json", model_config},
};

static int read_file(const char *dir, size_t i, struct zl_tokenizer *t, struct zl_error *err)
{
    char *path = join(dir, files[i].name, err);
    if (!path)
        return ZL_EMEMORY;
    struct zl_json r = {.file = path, .err = err};
    json_t *root = zl_json_load(&r, true);
    int rc = err->code;
    if (root && !json_is_object(root))
        rc = zl_fail(err, ZL_EINPUT, "%s is %s, expected an object", path, zl_json_kind(root));
    else if (root)
        rc = files[i].read(&r, root, t);
    json_decref(root);
    free(path);
    return rc;
}

/* chat_template.jinja goes before the template in tokenizer_config.json. */
static int template_file(const char *dir, struct zl_tokenizer *t, struct zl_error *err)
{
    char *path = join(dir, "chat_template.jinja", err);
    if (!path)
        return ZL_EMEMORY;
    FILE *f;
    struct zl_error why = {0};
    struct zl_text text = {0};
    char chunk[4096];
    int rc = zl_file_stream(path, &f, &why);
    if (rc) {
        rc = errno == ENOENT ? 0 : zl_fail(err, rc, "%s", why.text);
        goto out;
    }
    rc = zl_text_add(&text, "", 0, err);
    for (size_t n; !rc && (n = fread(chunk, 1, sizeof chunk, f)) > 0;) {
        rc = zl_text_add(&text, chunk, n, err);
        if (!rc && text.n > MAX_TEMPLATE)
            rc = zl_fail(err, ZL_EINPUT, "%s: the chat template is longer than 1 MiB", path);
    }
    if (!rc && ferror(f))
        rc = zl_fail_errno(err, ZL_EINPUT, "%s cannot be read", path);
    if (!rc && (zl_utf8_check(text.s, text.n) != text.n || strlen(text.s) != text.n))
        rc = zl_fail(err, ZL_EINPUT, "%s: the chat template is no UTF-8 text", path);
    if (!rc) {
        t->chat_template = text.s;
        text.s = NULL;
    }
    fclose(f);
out:
    free(text.s);
    free(path);
    return rc;
}

int zl_tokenizer_open_dir(const char *dir, struct zl_tokenizer **out, struct zl_error *err)
{
    struct zl_error own = {0};
    struct zl_tokenizer *t = NULL;
    err = err ? err : &own;
    char *path = join(dir, "tokenizer.json", err);
    int rc = path ? zl_tok_read_json(path, &t, err) : ZL_EMEMORY;
    free(path);
    if (!rc)
        rc = template_file(dir, t, err);
    for (size_t i = 0; i < sizeof files / sizeof *files && !rc; i++)
        rc = read_file(dir, i, t, err);
    if (rc) {
        zl_tokenizer_close(t);
        return rc;
    }
    *out = t;
    return 0;
}
