/*
 * The stages of tokenizer.json around the model: normalizer, pre_tokenizer and post_processor
 * (decoders are in tokenizer_decoder.c). Each is an object with a "type", or a Sequence of such;
 * the types are tables here, and one that is not in them is refused by name: leaving a stage out
 * would give other ids. Called by tokenizer_json.c once the vocabulary is there.
 */
#include "config.h"

#include "format/quote.h"
#include "format/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

int zl_json_stage(const struct zl_json *r, const struct zl_json_part *part, const json_t *stage,
                  struct zl_tokenizer *t, int depth)
{
    const char *type = NULL;
    int rc = zl_json_need(r, zl_json_string(r, stage, part->name, "type", &type, NULL), part->name,
                          "type");
    if (rc)
        return rc;
    if (strcmp(type, "Sequence") == 0) {
        json_t *list = NULL, *v;
        size_t i;
        if (depth == 4)
            return zl_fail(r->err, ZL_EINPUT, "%s: %s has sequences nested more than 4 deep",
                           r->file, part->name);
        rc = zl_json_need(r, zl_json_array(r, stage, part->name, part->list, &list), part->name,
                          part->list);
        if (rc)
            return rc;
        json_array_foreach(list, i, v)
        {
            if ((rc = zl_json_stage(r, part, v, t, depth + 1)) != 0)
                return rc;
        }
        return 0;
    }
    for (size_t i = 0; i < part->n_types; i++)
        if (strcmp(part->types[i].name, type) == 0)
            return part->types[i].read(r, stage, t);
    return zl_fail(r->err, ZL_EINPUT, "%s: the %s type \"%s\" is not supported", r->file,
                   part->name, zl_quote(type).s);
}

int zl_json_pattern(const struct zl_json *r, const json_t *stage, const char *where,
                    const char **text, size_t *len, bool *regex)
{
    json_t *pattern = NULL;
    int rc =
        zl_json_need(r, zl_json_object(r, stage, where, "pattern", &pattern), where, "pattern");
    if (rc)
        return rc;
    *regex = false;
    rc = zl_json_string(r, pattern, "pattern", "String", text, len);
    if (rc == 1) {
        *regex = true;
        rc = zl_json_need(r, zl_json_string(r, pattern, "pattern", "Regex", text, len), "pattern",
                          "Regex");
    }
    if (!rc && *len > 1 << 14)
        rc = zl_fail(r->err, ZL_EINPUT,
                     "%s: a pattern of a %s is %zu bytes long, at most 16384 are supported",
                     r->file, where, *len);
    return rc;
}

int zl_json_content(const struct zl_json *r, const json_t *stage, const char *where,
                    const char *key, char **out, size_t *len)
{
    const char *s = NULL;
    int rc = zl_json_need(r, zl_json_string(r, stage, where, key, &s, len), where, key);
    if (rc)
        return rc;
    if (*len > ZL_JSON_MAX_CONTENT)
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: \"%s\" of a %s is %zu bytes long, at most %d are supported", r->file,
                       key, where, *len, ZL_JSON_MAX_CONTENT);
    *out = zl_tok_strdup(s, *len, r->err);
    return *out ? 0 : ZL_EMEMORY;
}

/* ---- normalizers ---- */
static struct zl_normalizer *new_normalizer(const struct zl_json *r, struct zl_tokenizer *t,
                                            enum zl_normalizer_kind kind)
{
    if (t->n_normalizers == ZL_TOK_MAX_STAGES) {
        zl_fail(r->err, ZL_EINPUT, "%s: more than %d normalizers", r->file, ZL_TOK_MAX_STAGES);
        return NULL;
    }
    struct zl_normalizer *z = &t->normalizer[t->n_normalizers++];
    *z = (struct zl_normalizer){.kind = kind};
    return z;
}

static int norm_form(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char *const names[] = {[ZL_NORM_NFC] = "NFC",
                                        [ZL_NORM_NFD] = "NFD",
                                        [ZL_NORM_NFKC] = "NFKC",
                                        [ZL_NORM_NFKD] = "NFKD"};
    const char *type = json_string_value(json_object_get(stage, "type"));
    for (int k = 0; k < 4; k++)
        if (strcmp(names[k], type) == 0)
            return new_normalizer(r, t, (enum zl_normalizer_kind)k) ? 0 : ZL_EINPUT;
    return ZL_EINPUT;
}

static int norm_prepend(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    struct zl_normalizer *z = new_normalizer(r, t, ZL_NORM_PREPEND);
    return z ? zl_json_content(r, stage, "Prepend normalizer", "prepend", &z->text.to,
                               &z->text.to_len)
             : ZL_EINPUT;
}

static int norm_replace(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char where[] = "Replace normalizer";
    const char *text = NULL;
    size_t len = 0;
    bool regex = false;
    struct zl_normalizer *z = new_normalizer(r, t, ZL_NORM_REPLACE);
    int rc = z ? zl_json_pattern(r, stage, where, &text, &len, &regex) : ZL_EINPUT;
    if (!rc)
        rc = zl_json_content(r, stage, where, "content", &z->text.to, &z->text.to_len);
    if (!rc && regex && (rc = zl_regex_compile(text, len, &z->re, r->err)) != 0)
        return zl_fail_prefix(r->err, "%s", r->file);
    if (!rc && !regex) {
        z->text.from = zl_tok_strdup(text, len, r->err);
        z->text.from_len = len;
        rc = z->text.from ? 0 : ZL_EMEMORY;
    }
    return rc;
}

static const struct zl_json_type normalizers[] = {
    {"NFC", norm_form},  {"NFD", norm_form},        {"NFKC", norm_form},
    {"NFKD", norm_form}, {"Prepend", norm_prepend}, {"Replace", norm_replace},
};

/* ---- pre-tokenizers ---- */

/* \w where the reference does not use Oniguruma: as zl_char_is_word. */
#define REGEX_WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}" ZL_REGEX_LETTER_SYMBOLS

static int pre_byte_level(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    bool add_space = true, use_regex = true;
    if (zl_json_bool(r, stage, "ByteLevel pre_tokenizer", "add_prefix_space", &add_space) < 0 ||
        zl_json_bool(r, stage, "ByteLevel pre_tokenizer", "use_regex", &use_regex) < 0)
        return ZL_EINPUT;
    return zl_tok_byte_level_stage(t, add_space, use_regex, r->err);
}

static int read_behavior(const struct zl_json *r, const json_t *stage, const char *where,
                         enum zl_split *how)
{
    static const char *const names[] = {
        [ZL_SPLIT_ISOLATED] = "Isolated",           [ZL_SPLIT_REMOVED] = "Removed",
        [ZL_SPLIT_PREVIOUS] = "MergedWithPrevious", [ZL_SPLIT_NEXT] = "MergedWithNext",
        [ZL_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name = "Isolated";
    int rc = zl_json_string(r, stage, where, "behavior", &name, NULL);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            *how = (enum zl_split)i;
            return 0;
        }
    }
    return zl_fail(r->err, ZL_EINPUT, "%s: the behavior \"%s\" of a %s is not known", r->file,
                   zl_quote(name).s, where);
}

static int pre_split(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char where[] = "Split pre_tokenizer";
    const char *text = NULL;
    size_t len = 0;
    bool regex = false, invert = false;
    enum zl_split how = ZL_SPLIT_ISOLATED;
    int rc = zl_json_pattern(r, stage, where, &text, &len, &regex);
    if (rc || (rc = read_behavior(r, stage, where, &how)) != 0 ||
        (rc = zl_json_bool(r, stage, where, "invert", &invert)) < 0)
        return rc;
    if (regex)
        return zl_tok_regex_stage(t, text, len, how, invert, r->err);
    const struct zl_pretokenizer p = {.cuts = len > 0, .how = how, .invert = invert};
    return zl_tok_literal_stage(t, &p, text, len, r->err);
}

static int pre_digits(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    bool individual = false;
    if (zl_json_bool(r, stage, "Digits pre_tokenizer", "individual_digits", &individual) < 0)
        return ZL_EINPUT;
    return zl_tok_regex_stage(t, "\\p{N}+", individual ? 5 : 6, ZL_SPLIT_ISOLATED, false, r->err);
}

static int pre_punctuation(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char marks[] = "[!-/:-@\\[-`{-~\\p{P}]";
    enum zl_split how = ZL_SPLIT_ISOLATED;
    if (read_behavior(r, stage, "Punctuation pre_tokenizer", &how))
        return ZL_EINPUT;
    return zl_tok_regex_stage(t, marks, sizeof marks - 1, how, false, r->err);
}

static int pre_whitespace(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char words[] = "[" REGEX_WORD "]+|[^" REGEX_WORD "\\s]+";
    (void)stage;
    return zl_tok_regex_stage(t, words, sizeof words - 1, ZL_SPLIT_REMOVED, true, r->err);
}

static int pre_whitespace_split(const struct zl_json *r, const json_t *stage,
                                struct zl_tokenizer *t)
{
    (void)stage;
    return zl_tok_regex_stage(t, "\\s", 2, ZL_SPLIT_REMOVED, false, r->err);
}

int zl_json_prepend_scheme(const struct zl_json *r, const json_t *stage, const char *where,
                           enum zl_prepend *out)
{
    static const char *const names[] = {
        [ZL_PREPEND_NEVER] = "never", [ZL_PREPEND_FIRST] = "first", [ZL_PREPEND_ALWAYS] = "always"};
    bool add = true;
    const char *scheme = NULL;
    int rc = zl_json_bool(r, stage, where, "add_prefix_space", &add);
    if (rc < 0 || (rc = zl_json_string(r, stage, where, "prepend_scheme", &scheme, NULL)) < 0)
        return rc;
    if (!scheme)
        scheme = add ? "always" : "never";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], scheme) == 0) {
            *out = (enum zl_prepend)i;
            return 0;
        }
    }
    return zl_fail(r->err, ZL_EINPUT, "%s: the prepend_scheme \"%s\" of a %s is not known", r->file,
                   zl_quote(scheme).s, where);
}

static int pre_metaspace(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char where[] = "Metaspace pre_tokenizer";
    struct zl_pretokenizer p = {.metaspace = true, .cuts = true, .how = ZL_SPLIT_NEXT};
    char *text = NULL;
    size_t len = 0;
    int rc = zl_json_prepend_scheme(r, stage, where, &p.prepend);
    if (rc || (rc = zl_json_bool(r, stage, where, "split", &p.cuts)) < 0 ||
        (rc = zl_json_content(r, stage, where, "replacement", &text, &len)) != 0)
        return rc;
    if (len == 0 || memchr(text, ' ', len))
        rc = zl_fail(r->err, ZL_EINPUT, "%s: the replacement of a %s is empty or has a blank",
                     r->file, where);
    else
        rc = zl_tok_literal_stage(t, &p, text, len, r->err);
    free(text);
    return rc;
}

static const struct zl_json_type pre_tokenizers[] = {
    {"ByteLevel", pre_byte_level},
    {"Split", pre_split},
    {"Digits", pre_digits},
    {"Metaspace", pre_metaspace},
    {"Punctuation", pre_punctuation},
    {"Whitespace", pre_whitespace},
    {"WhitespaceSplit", pre_whitespace_split},
};

/* ---- post-processors: the ids before and after a text; a later one goes around an earlier one
 * ---- */
static int known_id(const struct zl_json *r, const struct zl_tokenizer *t, const json_t *v,
                    int32_t *id)
{
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    if (n < 0 || n >= t->vocab.n || !(t->vocab.piece[n].flags & ZL_PIECE_PRESENT))
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: the post_processor adds the id %lld, which no token has", r->file,
                       (long long)n);
    *id = (int32_t)n;
    return 0;
}

static int surround(struct zl_tokenizer *t, struct zl_ids *before, const struct zl_ids *after,
                    struct zl_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < t->before.n && !rc; i++)
        rc = zl_ids_add(before, t->before.id[i], err);
    for (size_t i = 0; i < after->n && !rc; i++)
        rc = zl_ids_add(&t->after, after->id[i], err);
    struct zl_ids old = t->before;
    t->before = *before;
    *before = old;
    return rc;
}

static int template_token(const struct zl_json *r, const struct zl_tokenizer *t,
                          const json_t *specials, const json_t *token, struct zl_ids *to)
{
    static const char where[] = "SpecialToken of TemplateProcessing";
    const char *name = NULL;
    json_t *special = NULL, *ids = NULL, *v;
    size_t i;
    int rc = zl_json_need(r, zl_json_string(r, token, where, "id", &name, NULL), where, "id");
    if (rc ||
        (rc = zl_json_need(r, zl_json_object(r, specials, "special_tokens", name, &special),
                           "special_tokens", name)) != 0 ||
        (rc = zl_json_need(r, zl_json_array(r, special, name, "ids", &ids), name, "ids")) != 0)
        return rc;
    json_array_foreach(ids, i, v)
    {
        int32_t id;
        if ((rc = known_id(r, t, v, &id)) != 0 || (rc = zl_ids_add(to, id, r->err)) != 0)
            return rc;
        if (to->n > 64)
            return zl_fail(r->err, ZL_EINPUT, "%s: TemplateProcessing adds more than 64 ids",
                           r->file);
    }
    return 0;
}

/* One entry of "single": {"Sequence": {"id": "A"}} or {"SpecialToken": {"id": "<s>"}}. */
static int template_entry(const struct zl_json *r, const struct zl_tokenizer *t,
                          const json_t *specials, const json_t *v, struct zl_ids around[2],
                          int *texts)
{
    static const char where[] = "an entry of single";
    const char *name = "";
    json_t *part = NULL;
    int rc = zl_json_object(r, v, where, "Sequence", &part);
    if (rc == 1) {
        rc = zl_json_need(r, zl_json_object(r, v, where, "SpecialToken", &part), where,
                          "SpecialToken");
        return rc ? rc : template_token(r, t, specials, part, &around[*texts ? 1 : 0]);
    }
    if (!rc)
        rc = zl_json_need(r, zl_json_string(r, part, "Sequence", "id", &name, NULL), "Sequence",
                          "id");
    if (!rc && (strcmp(name, "A") != 0 || (*texts)++))
        rc =
            zl_fail(r->err, ZL_EINPUT,
                    "%s: single of TemplateProcessing has the sequence \"%s\", expected \"A\" once",
                    r->file, zl_quote(name).s);
    return rc;
}

static int post_template(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char where[] = "TemplateProcessing";
    json_t *single = NULL, *specials = NULL, *v;
    struct zl_ids around[2] = {0};
    size_t i;
    int texts = 0;
    int rc = zl_json_need(r, zl_json_array(r, stage, where, "single", &single), where, "single");
    if (!rc)
        rc = zl_json_need(r, zl_json_object(r, stage, where, "special_tokens", &specials), where,
                          "special_tokens");
    json_array_foreach(single, i, v)
    {
        if (rc)
            break;
        rc = template_entry(r, t, specials, v, around, &texts);
    }
    if (!rc && !texts)
        rc = zl_fail(r->err, ZL_EINPUT, "%s: single of %s has no sequence \"A\"", r->file, where);
    if (!rc)
        rc = surround(t, &around[0], &around[1], r->err);
    zl_ids_free(&around[0]);
    zl_ids_free(&around[1]);
    return rc;
}

/* RobertaProcessing and BertProcessing: cls TEXT sep, each given as [text, id]. */
static int post_cls_sep(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char *const keys[] = {"cls", "sep"};
    struct zl_ids around[2] = {0};
    int rc = 0;
    for (int k = 0; k < 2 && !rc; k++) {
        json_t *pair = NULL;
        int32_t id = -1;
        rc = zl_json_need(r, zl_json_array(r, stage, "post_processor", keys[k], &pair),
                          "post_processor", keys[k]);
        if (!rc)
            rc = known_id(r, t, json_array_get(pair, 1), &id);
        if (!rc)
            rc = zl_ids_add(&around[k], id, r->err);
    }
    if (!rc)
        rc = surround(t, &around[0], &around[1], r->err);
    zl_ids_free(&around[0]);
    zl_ids_free(&around[1]);
    return rc;
}

static int post_offsets_only(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    (void)r, (void)stage, (void)t; /* ByteLevel as a post-processor moves offsets, not ids */
    return 0;
}

static const struct zl_json_type post_processors[] = {
    {"TemplateProcessing", post_template},
    {"RobertaProcessing", post_cls_sep},
    {"BertProcessing", post_cls_sep},
    {"ByteLevel", post_offsets_only},
};

#define TYPES(table) table, sizeof table / sizeof *table
static const struct zl_json_part parts[] = {
    {"normalizer", "normalizers", TYPES(normalizers)},
    {"pre_tokenizer", "pretokenizers", TYPES(pre_tokenizers)},
    {"post_processor", "processors", TYPES(post_processors)},
};

int zl_json_pipeline(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *stage = NULL;
        int rc = zl_json_object(r, root, "the file", parts[i].name, &stage);
        if (rc == 0)
            rc = zl_json_stage(r, &parts[i], stage, t, 0);
        if (rc < 0)
            return rc;
    }
    return zl_json_decoder(r, root, t);
}
