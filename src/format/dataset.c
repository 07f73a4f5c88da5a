/*
 * Training data in memory: all files tokenized once into one packed array. Not the forms of rows
 * (dataset_rows.c), not the order of training (order.c). Invariant: examples lie behind one another
 * in row order, each has 2..max_length tokens and at least one label, and its first token is none.
 * Called by the commands that train, evaluate and inspect.
 *
 * Plain text is one sequence of tokens per file, cut into windows of max_length (the last one as
 * long as what is left); every token of a window but its first is a label. With add_bos_eos the
 * file as a whole has BOS before it (where the tokenizer adds one) and EOS behind it; the windows
 * in between have neither.
 */
#include "format/dataset_build.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/grow.h"
#include "format/jsonl.h"

/* ---- growing ---- */

/* tokens and trained share one capacity: the second array must follow when the first has grown. */
static int grow_tokens(struct zl_data_builder *b, uint64_t need, struct zl_error *err)
{
    static const char tokens[] = "tokens of training data";
    uint64_t capacity = b->tokens_capacity;
    int rc =
        zl_array_grow((void **)&b->d->tokens, need, &capacity, sizeof *b->d->tokens, tokens, err);
    if (!rc)
        rc = zl_array_grow((void **)&b->d->trained, need, &b->tokens_capacity,
                           sizeof *b->d->trained, tokens, err);
    return rc;
}

int zl_data_push(struct zl_data_builder *b, int32_t id, struct zl_error *err)
{
    struct zl_ids *ids = &b->ids;
    if (ids->n == ids->capacity) {
        size_t want = ids->capacity ? ids->capacity * 2 : 256;
        int32_t *p = realloc(ids->id, want * sizeof *p);
        if (!p)
            return zl_fail(err, ZL_EMEMORY, "no memory for %zu tokens of one row", want);
        ids->id = p;
        ids->capacity = want;
    }
    ids->id[ids->n++] = id;
    return 0;
}

int zl_data_encode_start(struct zl_data_builder *b, const char *text, size_t len, bool bos,
                         struct zl_error *err)
{
    int32_t id = bos && zl_tokenizer_adds_bos(b->t) ? zl_tokenizer_bos(b->t) : -1;
    int rc = id >= 0 ? zl_data_push(b, id, err) : 0;
    size_t n = b->ids.n;
    if (!rc)
        rc = zl_tokenizer_encode(b->t, text, len, 0, &b->ids, err);
    if (!rc && id >= 0 && b->ids.n > n && b->ids.id[n] == id) { /* the text brings its own */
        memmove(b->ids.id + n, b->ids.id + n + 1, (b->ids.n - n - 1) * sizeof *b->ids.id);
        b->ids.n--;
    }
    return rc;
}

int zl_data_push_eos(struct zl_data_builder *b, struct zl_error *err)
{
    int32_t eos = zl_tokenizer_eos(b->t);
    if (b->ids.n && zl_tokenizer_is_end(b->t, b->ids.id[b->ids.n - 1]))
        return 0;
    if (eos < 0) {
        b->d->report.no_eos = true;
        return 0;
    }
    return zl_data_push(b, eos, err);
}

/* ---- counting ---- */

void zl_data_drop(struct zl_data_builder *b, enum zl_drop reason, uint64_t line)
{
    struct zl_data_report *r = &b->d->report;
    uint64_t k = r->dropped[reason]++;
    if (k < ZL_DATA_LINES) {
        r->first_lines[reason][k] = line;
        r->first_files[reason][k] = b->file;
    }
}

int zl_data_append(struct zl_data_builder *b, const int32_t *ids, const uint8_t *trained, size_t n,
                   size_t n_prompt, uint64_t line, uint64_t text_bytes, struct zl_error *err)
{
    struct zl_dataset *d = b->d;
    uint32_t kept = n > b->o->max_length ? b->o->max_length : (uint32_t)n;
    if (kept < 2) {
        zl_data_drop(b, ZL_DROP_SHORT, line);
        return 0;
    }
    int rc = grow_tokens(b, d->n_tokens + kept, err);
    if (!rc)
        rc = zl_array_grow((void **)&d->examples, d->n_examples + 1, &b->examples_capacity,
                           sizeof *d->examples, "examples of training data", err);
    if (rc)
        return rc;
    struct zl_example e = {.first = d->n_tokens,
                           .n = kept,
                           .file = b->file,
                           .line = line,
                           .text_bytes = (uint32_t)text_bytes,
                           .cut = kept < n};
    for (uint32_t i = 0; i < kept; i++) {
        uint8_t label = i > 0 && (trained ? trained[i] == 1 : i >= n_prompt);
        d->tokens[e.first + i] = ids[i];
        d->trained[e.first + i] = label;
        e.n_trained += label;
        if (!e.n_trained)
            e.n_prompt++;
    }
    if (!e.n_trained) { /* it had labels: they are all behind the cut */
        zl_data_drop(b, ZL_DROP_PROMPT_LONG, line);
        return 0;
    }
    d->n_tokens += kept;
    d->examples[d->n_examples++] = e;
    zl_data_report_count(&d->report, &e);
    return 0;
}

/* ---- files ---- */

/* Files that are no text, by their first bytes: what they are is a better message than where they
 * stop being UTF-8. */
static const struct magic {
    const char *bytes;
    uint8_t n;
    const char *what;
} magics[] = {
    {"\x1F\x8B", 2, "gzip-compressed; unpack it first"},
    {"\x28\xB5\x2F\xFD", 4, "zstd-compressed; unpack it first"},
    {"BZh", 3, "bzip2-compressed; unpack it first"},
    {"\xFD"
     "7zXZ",
     5, "xz-compressed; unpack it first"},
    {"PK\x03\x04", 4, "a zip archive; unpack it first"},
    {"PAR1", 4, "Parquet; export it as JSON lines"},
    {"ARROW1", 6, "Arrow; export it as JSON lines"},
    {"SQLite format 3", 15, "a SQLite database; export it as JSON lines"},
    {"GGUF", 4, "a GGUF model, not data"},
    {"\xFF\xFE", 2, "UTF-16; convert it to UTF-8"},
    {"\xFE\xFF", 2, "UTF-16; convert it to UTF-8"},
};

static bool named(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    return n >= k && !strcmp(path + n - k, suffix);
}

enum content { CONTENT_EMPTY, CONTENT_JSONL, CONTENT_TEXT };

static int nul_byte(const struct zl_lines *l, uint64_t at, struct zl_error *err)
{
    return zl_fail(err, ZL_EINPUT, "%s: byte %" PRIu64 ": a NUL byte, expected UTF-8 text", l->path,
                   at);
}

static int sniff(struct zl_lines *l, enum content *out, struct zl_error *err)
{
    const char *text;
    size_t len, i = 0;
    int rc = zl_lines_peek(l, &text, &len, err);
    if (rc)
        return rc;
    for (size_t k = 0; k < sizeof magics / sizeof *magics; k++)
        if (len >= magics[k].n && !memcmp(text, magics[k].bytes, magics[k].n))
            return zl_fail(err, ZL_EINPUT, "%s is %s", l->path, magics[k].what);
    while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n'))
        i++;
    bool json = named(l->path, ".jsonl") || named(l->path, ".json") || named(l->path, ".ndjson");
    char first = i < len ? text[i] : 0, second = 0;
    for (size_t j = i + 1; j < len && !second; j++)
        if (!strchr(" \t\r\n", text[j]))
            second = text[j];
    if (i == len)
        *out = CONTENT_EMPTY;
    else if (first == '{')
        *out = CONTENT_JSONL;
    else if (first == '[' && (json || second == '{'))
        return zl_fail(err, ZL_EINPUT,
                       "%s holds one JSON array, expected one object a line; convert it with: jq "
                       "-c '.[]' FILE > FILE.jsonl",
                       l->path);
    else if (json)
        return zl_fail(err, ZL_EINPUT,
                       "%s: byte %" PRIu64
                       ": found 0x%02x, expected { (a JSON object) because of the file's name",
                       l->path, l->start_offset + i, (unsigned)(unsigned char)first);
    else
        *out = CONTENT_TEXT;
    const char *nul = *out == CONTENT_TEXT ? memchr(text, 0, len) : NULL;
    return nul ? nul_byte(l, l->start_offset + (uint64_t)(nul - text), err) : 0;
}

static int load_rows(struct zl_data_builder *b, struct zl_lines *l, struct zl_error *err)
{
    json_t *row;
    int rc;
    while ((rc = zl_jsonl_next(l, &row, err)) > 0) {
        rc = zl_data_add_row(b, row, l, err);
        json_decref(row);
        if (rc)
            return rc;
    }
    return rc;
}

static int load_text(struct zl_data_builder *b, struct zl_lines *l, struct zl_error *err)
{
    int rc = zl_lines_rest(l, err);
    if (rc)
        return rc;
    const char *nul = memchr(l->text, 0, l->len);
    if (nul)
        return nul_byte(l, l->offset + (uint64_t)(nul - l->text), err);
    /* ids grow in the tokenizer: a token is rarely shorter than two bytes of a large text */
    rc = zl_array_check(l->len / 2, sizeof *b->ids.id, "tokens of one text", err);
    if (rc)
        return rc;
    struct zl_error inner = {0};
    b->ids.n = 0;
    rc = zl_data_encode_start(b, l->text, l->len, b->o->add_bos_eos, &inner);
    if (!rc && b->o->add_bos_eos)
        rc = zl_data_push_eos(b, &inner);
    if (rc) {
        zl_fail_prefix(&inner, "%s", l->path);
        return zl_fail(err, rc, "%s", inner.text);
    }
    const uint64_t n = b->ids.n, bytes = l->len;
    for (uint64_t i = 0; !rc && i < n; i += b->o->max_length) {
        uint64_t end = n - i < b->o->max_length ? n : i + b->o->max_length;
        uint64_t share =
            bytes * end / n - bytes * i / n; /* bytes <= 2^30, tokens <= bytes + 2: no overflow */
        b->d->report.rows++;
        rc = zl_data_append(b, b->ids.id + i, NULL, (size_t)(end - i), 0, 0, share, err);
    }
    return rc;
}

static int load_file(struct zl_data_builder *b, const char *path, struct zl_error *err)
{
    struct zl_lines l;
    enum content content = CONTENT_EMPTY;
    b->path = path;
    int rc = zl_lines_open(&l, path, err);
    if (rc)
        return rc;
    rc = sniff(&l, &content, err);
    if (!rc && content == CONTENT_JSONL)
        rc = load_rows(b, &l, err);
    else if (!rc && content == CONTENT_TEXT)
        rc = load_text(b, &l, err);
    zl_lines_close(&l);
    return rc;
}

static int nothing_left(const struct zl_dataset *d, const struct zl_data_options *o,
                        struct zl_error *err)
{
    const struct zl_data_report *r = &d->report;
    char reasons[600] = "";
    size_t at = 0;
    for (int k = 0; k < ZL_DROP_REASONS; k++) {
        if (!r->dropped[k] || at >= sizeof reasons)
            continue;
        int w = snprintf(reasons + at, sizeof reasons - at, "%s%" PRIu64 " dropped because: %s",
                         at ? ", " : "; ", r->dropped[k], zl_drop_names[k]);
        at += w > 0 ? (size_t)w : 0;
        if (r->first_lines[k][0] && at < sizeof reasons) {
            w = snprintf(reasons + at, sizeof reasons - at, " (first: %.200s line %" PRIu64 ")",
                         d->files[r->first_files[k][0]], r->first_lines[k][0]);
            at += w > 0 ? (size_t)w : 0;
        }
    }
    char more[40] = "";
    if (d->n_files > 1)
        snprintf(more, sizeof more, " and %" PRIu32 " more", d->n_files - 1);
    return zl_fail(err, ZL_EINPUT,
                   "nothing left to train on in %.200s%s: %" PRIu64
                   " rows at a maximum length of %" PRIu32 " tokens%s",
                   d->files[0], more, r->rows, o->max_length, reasons);
}

int zl_dataset_load(const char *const *paths, size_t n_paths, const struct zl_tokenizer *t,
                    const struct zl_data_options *o, struct zl_dataset *out, struct zl_error *err)
{
    memset(out, 0, sizeof *out);
    if (!n_paths || n_paths > UINT32_MAX)
        return zl_fail(err, ZL_EUSAGE, "no data files given");
    if (o->max_length < 2)
        return zl_fail(err, ZL_EUSAGE,
                       "the maximum length is %" PRIu32 " tokens, expected at least 2",
                       o->max_length);
    struct zl_dataset d = {.files = calloc(n_paths, sizeof *d.files)};
    struct zl_data_builder b = {.t = t, .o = o, .d = &d};
    int rc = d.files ? 0 : zl_fail(err, ZL_EMEMORY, "no memory for %zu file names", n_paths);
    for (size_t i = 0; !rc && i < n_paths; i++) {
        d.files[i] = strdup(paths[i]);
        b.file = d.n_files++;
        rc = d.files[i] ? load_file(&b, paths[i], err)
                        : zl_fail(err, ZL_EMEMORY, "no memory for a file name");
    }
    d.report.n_files = d.n_files;
    if (!rc && !d.n_examples)
        rc = nothing_left(&d, o, err);
    if (b.chat_known)
        zl_chat_free(&b.chat);
    zl_ids_free(&b.ids);
    free(b.trained);
    if (rc)
        zl_dataset_free(&d);
    else
        *out = d;
    return rc;
}

void zl_dataset_free(struct zl_dataset *d)
{
    for (uint32_t i = 0; i < d->n_files; i++)
        free(d->files[i]);
    free(d->files);
    free(d->examples);
    free(d->trained);
    free(d->tokens);
    memset(d, 0, sizeof *d);
}
