/*
 * tokenizer.json of Hugging Face's tokenizers: the model (vocabulary and merges) and the added
 * tokens. The stages around it are read by tokenizer_pipeline.c, the files beside it by
 * tokenizer_dir.c. Only models of type BPE are read. Invariant: an id is accepted when the
 * vocabulary is dense enough to hold it in an array (at most 4 ids for each token, and 65536 more).
 */
#include "config.h"

#include "base/file.h"
#include "format/quote.h"
#include "format/tokenizer_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

json_t *zl_json_load(const struct zl_json *r, bool may_be_absent)
{
    FILE *f;
    struct zl_error why = {0};
    if (zl_file_stream(r->file, &f, &why)) {
        if (!may_be_absent || errno != ENOENT)
            zl_fail(r->err, why.code, "%s", why.text);
        return NULL;
    }
    json_error_t e;
    json_t *root = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
    fclose(f);
    if (root)
        return root;
    for (char *c = e.text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    e.text[zl_utf8_check(e.text, strlen(e.text))] = '\0';
    zl_fail(r->err, ZL_EINPUT, "%s: line %d, byte %d: no valid JSON: %s", r->file, e.line,
            e.position, e.text);
    return NULL;
}

const char *zl_json_kind(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a fraction", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    return v ? names[json_typeof(v)] : "nothing";
}

static int member(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                  json_type type, const char *expected, json_t **out)
{
    if (!json_is_object(o))
        return zl_fail(r->err, ZL_EINPUT, "%s: %s is %s, expected an object", r->file, where,
                       zl_json_kind(o));
    json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v))
        return 1;
    if (json_typeof(v) != type && !(type == JSON_TRUE && json_is_boolean(v)))
        return zl_fail(r->err, ZL_EINPUT, "%s: \"%s\" of %s is %s, expected %s", r->file,
                       zl_quote(key).s, zl_quote(where).s, zl_json_kind(v), expected);
    *out = v;
    return 0;
}

int zl_json_object(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                   json_t **out)
{
    return member(r, o, where, key, JSON_OBJECT, "an object", out);
}

int zl_json_array(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                  json_t **out)
{
    return member(r, o, where, key, JSON_ARRAY, "an array", out);
}

int zl_json_string(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                   const char **out, size_t *len)
{
    json_t *v = NULL;
    int rc = member(r, o, where, key, JSON_STRING, "a string", &v);
    if (rc)
        return rc;
    *out = json_string_value(v);
    if (len)
        *len = json_string_length(v);
    return 0;
}

int zl_json_bool(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                 bool *out)
{
    json_t *v = NULL;
    int rc = member(r, o, where, key, JSON_TRUE, "true or false", &v);
    if (!rc)
        *out = json_is_true(v);
    return rc;
}

int zl_json_int(const struct zl_json *r, const json_t *o, const char *where, const char *key,
                int64_t *out)
{
    json_t *v = NULL;
    int rc = member(r, o, where, key, JSON_INTEGER, "an integer", &v);
    if (!rc)
        *out = json_integer_value(v);
    return rc;
}

int zl_json_need(const struct zl_json *r, int found, const char *where, const char *key)
{
    return found == 1 ? zl_fail(r->err, ZL_EINPUT, "%s: %s has no \"%s\"", r->file,
                                zl_quote(where).s, zl_quote(key).s)
                      : found;
}

struct counts {
    size_t tokens, bytes;
    int64_t largest; /* id */
};

static int count(const struct zl_json *r, struct counts *c, const char *text, size_t len,
                 int64_t id)
{
    if (id < 0 || id >= INT32_MAX)
        return zl_fail(r->err, ZL_EINPUT, "%s: the token \"%s\" has id %lld, expected 0 to %d",
                       r->file, zl_quote(text).s, (long long)id, INT32_MAX - 1);
    if (len > ZL_TOK_MAX_SURFACE)
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: the token with id %lld is %zu bytes long, at most %d are supported",
                       r->file, (long long)id, len, ZL_TOK_MAX_SURFACE);
    c->tokens++;
    c->bytes += len;
    if (id > c->largest)
        c->largest = id;
    return 0;
}

static int read_added_token(const struct zl_json *r, const json_t *v, struct zl_added_token *a)
{
    static const char where[] = "an entry of added_tokens";
    const char *text = NULL;
    int64_t id = -1;
    *a = (struct zl_added_token){0};
    int rc =
        zl_json_need(r, zl_json_string(r, v, where, "content", &text, &a->len), where, "content");
    if (!rc)
        rc = zl_json_need(r, zl_json_int(r, v, where, "id", &id), where, "id");
    if (rc)
        return rc;
    if (id < 0 || id >= INT32_MAX)
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: the added token \"%s\" has id %lld, expected 0 to %d", r->file,
                       zl_quote(text).s, (long long)id, INT32_MAX - 1);
    a->id = (int32_t)id;
    a->s = text;
    const struct {
        const char *key;
        bool *flag;
    } flags[] = {{"special", &a->special},
                 {"lstrip", &a->lstrip},
                 {"rstrip", &a->rstrip},
                 {"single_word", &a->single_word},
                 {"normalized", &a->normalized}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if ((rc = zl_json_bool(r, v, where, flags[i].key, flags[i].flag)) < 0)
            return rc;
    return 0;
}

static int count_all(const struct zl_json *r, json_t *vocab, const json_t *added, struct counts *c)
{
    const char *key;
    json_t *v;
    size_t i;
    int rc;
    json_object_foreach(vocab, key, v)
    {
        if (!json_is_integer(v))
            return zl_fail(r->err, ZL_EINPUT,
                           "%s: the id of \"%s\" in model.vocab is %s, expected an integer",
                           r->file, zl_quote(key).s, zl_json_kind(v));
        if ((rc = count(r, c, key, strlen(key), json_integer_value(v))) != 0)
            return rc;
    }
    struct zl_added_token a;
    json_array_foreach(added, i, v)
    {
        if ((rc = read_added_token(r, v, &a)) != 0 || (rc = count(r, c, a.s, a.len, a.id)) != 0)
            return rc;
    }
    if (c->tokens == 0)
        return zl_fail(r->err, ZL_EINPUT, "%s: model.vocab is empty", r->file);
    if ((uint64_t)c->largest > 4 * (uint64_t)c->tokens + 65536)
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: the largest id is %lld, but there are only %zu tokens", r->file,
                       (long long)c->largest, c->tokens);
    return 0;
}

static int put_added(const struct zl_json *r, const struct zl_added_token *a,
                     struct zl_tokenizer *t)
{
    int32_t known = zl_vocab_find(&t->vocab, a->s, a->len);
    if (known >= 0 && known != a->id)
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: the added token \"%s\" has id %d, but the vocabulary has it with id %d",
                       r->file, zl_quote(a->s).s, a->id, known);
    if (known < 0 && !zl_vocab_put(&t->vocab, (uint32_t)a->id, a->s, a->len, ZL_PIECE_UNMERGED))
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: the added token \"%s\" has id %d, which is that of \"%s\"", r->file,
                       zl_quote(a->s).s, a->id, zl_quote(t->vocab.piece[a->id].s).s);
    return zl_tok_add_token(t, a, r->err);
}

static int read_vocabulary(const struct zl_json *r, json_t *vocab, const json_t *added,
                           struct zl_tokenizer *t)
{
    struct counts c = {.largest = -1};
    const char *key;
    json_t *v;
    size_t i;
    int rc = count_all(r, vocab, added, &c);
    if (!rc)
        rc = zl_vocab_reserve(&t->vocab, (uint32_t)c.largest + 1, c.bytes + c.tokens, r->err);
    if (rc)
        return rc;
    json_object_foreach(vocab, key, v)
    {
        uint32_t id = (uint32_t)json_integer_value(v);
        if (!zl_vocab_put(&t->vocab, id, key, strlen(key), 0))
            return zl_fail(r->err, ZL_EINPUT,
                           "%s: \"%s\" and \"%s\" in model.vocab have the same id %u", r->file,
                           zl_quote(t->vocab.piece[id].s).s, zl_quote(key).s, id);
    }
    json_array_foreach(added, i, v)
    {
        struct zl_added_token a;
        if ((rc = read_added_token(r, v, &a)) != 0 || (rc = put_added(r, &a, t)) != 0)
            return rc;
    }
    return 0;
}

/* The two texts of a merge, from "left right" or ["left", "right"]. */
static bool merge_texts(const json_t *v, const char *text[2], size_t len[2])
{
    if (json_is_array(v)) {
        for (size_t k = 0; k < 2; k++) {
            const json_t *part = json_array_get(v, k);
            text[k] = json_string_value(part);
            len[k] = json_string_length(part);
        }
        return json_array_size(v) == 2 && text[0] && text[1];
    }
    const char *s = json_string_value(v), *blank = s ? strchr(s, ' ') : NULL;
    if (!blank || strchr(blank + 1, ' '))
        return false;
    text[0] = s;
    len[0] = (size_t)(blank - s);
    text[1] = blank + 1;
    len[1] = json_string_length(v) - len[0] - 1;
    return true;
}

static int read_merge(const struct zl_json *r, const json_t *v, size_t i, uint32_t rank,
                      struct zl_text *joined, struct zl_tokenizer *t)
{
    const char *text[2];
    size_t len[2];
    if (!merge_texts(v, text, len))
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: merge %zu is %s, expected \"left right\" or [\"left\", \"right\"]",
                       r->file, i,
                       json_is_string(v) ? "a string without exactly one blank" : zl_json_kind(v));
    return zl_tok_add_merge(t, i, rank, text[0], len[0], text[1], len[1], joined, r->err);
}

static int read_merges(const struct zl_json *r, const json_t *merges, struct zl_tokenizer *t)
{
    struct zl_text joined = {0};
    const json_t *v;
    size_t i, n = json_array_size(merges);
    uint32_t rank = 0;
    if (n >= 1u << 30)
        return zl_fail(r->err, ZL_EINPUT, "%s: %zu merges are too many", r->file, n);
    int rc = zl_merges_reserve(&t->merges, (uint32_t)n, r->err);
    json_array_foreach(merges, i, v)
    {
        if (rc)
            break;
        if (!json_is_string(v) || strncmp(json_string_value(v), "#version", 8) != 0)
            rc = read_merge(r, v, i, rank++, &joined, t);
    }
    free(joined.s);
    return rc;
}

/* What would change the ids and is not built is refused. */
static int refuse_unsupported(const struct zl_json *r, const json_t *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = "BPE";
    int rc = zl_json_string(r, model, "model", "type", &type, NULL);
    if (rc < 0)
        return rc;
    if (strcmp(type, "BPE") != 0)
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: the model type \"%s\" is not supported, expected \"BPE\"", r->file,
                       zl_quote(type).s);
    for (size_t i = 0; i < 2; i++) {
        const char *affix = "";
        if ((rc = zl_json_string(r, model, "model", affixes[i], &affix, NULL)) < 0)
            return rc;
        if (*affix)
            return zl_fail(r->err, ZL_EINPUT, "%s: model.%s \"%s\" is not supported", r->file,
                           affixes[i], zl_quote(affix).s);
    }
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) &&
        !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return zl_fail(r->err, ZL_EINPUT, "%s: model.dropout is not supported: ids would be random",
                       r->file);
    return 0;
}

static int read_model(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t)
{
    json_t *model = NULL, *vocab = NULL, *merges = NULL, *added = NULL;
    const char *unk = NULL;
    size_t unk_len = 0;
    int rc =
        zl_json_need(r, zl_json_object(r, root, "the file", "model", &model), "the file", "model");
    if (rc || (rc = refuse_unsupported(r, model)) != 0 ||
        (rc = zl_json_need(r, zl_json_object(r, model, "model", "vocab", &vocab), "model",
                           "vocab")) != 0 ||
        (rc = zl_json_need(r, zl_json_array(r, model, "model", "merges", &merges), "model",
                           "merges")) != 0 ||
        (rc = zl_json_array(r, root, "the file", "added_tokens", &added)) < 0 ||
        (rc = zl_json_bool(r, model, "model", "byte_fallback", &t->byte_fallback)) < 0 ||
        (rc = zl_json_bool(r, model, "model", "fuse_unk", &t->fuse_unk)) < 0 ||
        (rc = zl_json_bool(r, model, "model", "ignore_merges", &t->ignore_merges)) < 0 ||
        (rc = zl_json_string(r, model, "model", "unk_token", &unk, &unk_len)) < 0 ||
        (rc = read_vocabulary(r, vocab, added, t)) != 0 || (rc = read_merges(r, merges, t)) != 0)
        return rc;
    if (unk) {
        t->unk = zl_vocab_find(&t->vocab, unk, unk_len);
        if (t->unk < 0)
            return zl_fail(r->err, ZL_EINPUT, "%s: model.unk_token \"%s\" is not in the vocabulary",
                           r->file, zl_quote(unk).s);
    }
    return 0;
}

int zl_tok_read_json(const char *path, struct zl_tokenizer **out, struct zl_error *err)
{
    struct zl_error own = {0};
    struct zl_json r = {.file = path, .err = err ? err : &own};
    json_t *root = zl_json_load(&r, false);
    if (!root)
        return r.err->code;
    struct zl_tokenizer *t = zl_tok_new(path, r.err);
    int rc = t ? read_model(&r, root, t) : ZL_EMEMORY;
    if (!rc)
        rc = zl_json_pipeline(&r, root, t);
    json_decref(root);
    if (!rc)
        rc = zl_tok_finish(t, r.err);
    if (rc)
        zl_tokenizer_close(t);
    else
        *out = t;
    return rc;
}
