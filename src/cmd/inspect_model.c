/*
 * `zerolock inspect MODEL`: tensors, architecture, tokenizer and chat template of a Hugging Face folder, a GGUF file or a
 * single safetensors file. Files that break their format are refused; a sound file that zerolock cannot train (another
 * architecture, an element type it does not compute with) is shown in full, with the reason at its end and in the exit status.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "cmd/inspect.h"
#include "format/chat.h"
#include "format/tensors.h"
#include "model/model.h"

#define MOST_TYPES 48

struct type_count {
    const char *name;
    bool computed; /* one of the types that kernels exist for */
    uint64_t tensors, parameters, bytes;
};

struct facts {
    const char *path, *format;
    bool whole; /* a model with its configuration, not a bare file of tensors */
    struct zl_gguf *gguf;
    struct zl_tensors *safetensors;
    const struct zl_tensors *tensors;
    struct type_count types[MOST_TYPES];
    size_t n_types;
    uint64_t parameters, bytes;
    struct zl_config config;
    bool has_config;
    struct zl_model model;
    bool is_open; /* model was opened: every tensor that is needed is there */
    struct zl_tokenizer *tokenizer;
    struct zl_chat chat;
    bool has_chat;
    struct zl_error problem[3]; /* of the model, the tokenizer, the template; code 0: none */
};

enum kind { SAFETENSORS, GGUF, NEITHER };

/* What the first bytes of a file say it is. A safetensors file begins with the length of its header, whose highest byte is 0;
 * in a text no byte is. What cannot be read is left to the reader of safetensors, which says why. */
static enum kind kind_of(const char *path)
{
    char begin[8] = "";
    FILE *f;
    bool whole = zl_file_stream(path, &f, NULL) == 0 && fread(begin, 1, sizeof begin, f) == sizeof begin;
    if (f)
        fclose(f);
    if (memcmp(begin, "GGUF", 4) == 0)
        return GGUF;
    return whole && begin[7] ? NEITHER : SAFETENSORS;
}

static int open_files(struct facts *f, struct zl_error *err)
{
    int rc;
    enum kind kind = kind_of(f->path);
    if (zl_is_folder(f->path)) {
        f->format = "safetensors (Hugging Face folder)";
        f->whole = true;
        rc = zl_safetensors_open_dir(f->path, &f->safetensors, err);
    } else if (kind == NEITHER) {
        return zl_fail(err, ZL_EINPUT,
                       "%s: neither a GGUF nor a safetensors file (data is shown by 'zerolock inspect data FILE --tokenizer MODEL')",
                       f->path);
    } else if (kind == GGUF) {
        f->format = "GGUF";
        f->whole = true;
        rc = zl_gguf_open(f->path, &f->gguf, err);
    } else {
        f->format = "safetensors (one file)";
        rc = zl_safetensors_open(f->path, &f->safetensors, err);
    }
    if (rc == 0)
        f->tensors = f->gguf ? zl_gguf_tensors(f->gguf) : f->safetensors;
    return rc;
}

static int by_bytes(const void *a, const void *b)
{
    const struct type_count *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void count_types(struct facts *f)
{
    for (size_t i = 0; i < zl_tensors_count(f->tensors); i++) {
        const struct zl_named_tensor *t = zl_tensors_at(f->tensors, i);
        uint64_t n = zl_tensor_elements(&t->t);
        size_t k = 0;
        while (k < f->n_types && strcmp(f->types[k].name, t->type_name) != 0)
            k++;
        if (k == MOST_TYPES)
            continue;
        if (k == f->n_types)
            f->types[f->n_types++] = (struct type_count){.name = t->type_name, .computed = t->t.type != ZL_OTHER};
        f->types[k].tensors++;
        f->types[k].parameters += n;
        f->types[k].bytes += t->t.bytes;
        f->parameters += n;
        f->bytes += t->t.bytes;
    }
    qsort(f->types, f->n_types, sizeof f->types[0], by_bytes);
}

static void gather(struct facts *f)
{
    struct zl_error ignored = {0};
    count_types(f);
    if (!f->whole)
        return;
    f->has_config = (f->gguf ? zl_config_from_gguf(f->gguf, &f->config, &ignored)
                             : zl_config_from_hf(f->path, &f->config, &ignored)) == 0;
    f->is_open = zl_model_open(f->path, 1, &f->model, &f->problem[0]) == 0;
    int rc = f->is_open ? zl_model_tokenizer(&f->model, &f->tokenizer, &f->problem[1])
             : f->gguf  ? zl_tokenizer_open_gguf(f->gguf, &f->tokenizer, &f->problem[1])
                        : zl_tokenizer_open_dir(f->path, &f->tokenizer, &f->problem[1]);
    if (rc)
        f->tokenizer = NULL;
    else
        f->has_chat = zl_chat_recognize(f->tokenizer, &f->chat, &f->problem[2]) == 0;
}

static const char *const rope_names[] = {[ZL_ROPE_PLAIN] = "plain",
                                         [ZL_ROPE_LINEAR] = "linear",
                                         [ZL_ROPE_LLAMA3] = "llama3",
                                         [ZL_ROPE_YARN] = "yarn",
                                         [ZL_ROPE_DYNAMIC] = "dynamic"};
static const char *const chat_names[] = {[ZL_CHAT_NONE] = "none", [ZL_CHAT_CHATML] = "ChatML", [ZL_CHAT_LLAMA3] = "Llama-3"};

/* ---- JSON ---- */

static json_t *tensors_json(const struct facts *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < zl_tensors_count(f->tensors); i++) {
        const struct zl_named_tensor *t = zl_tensors_at(f->tensors, i);
        json_t *shape = json_array();
        for (int k = 0; k < t->t.n_dims; k++)
            json_array_append_new(shape, json_integer((json_int_t)t->t.shape[k]));
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:I}", "name", zl_inspect_string(t->name), "type", t->type_name, "shape",
                                              shape, "bytes", (json_int_t)t->t.bytes));
    }
    return list;
}

static json_t *metadata_json(const struct zl_gguf *g)
{
    json_t *list = json_array();
    const char *key;
    char value[256];
    for (size_t i = 0; g && zl_gguf_describe(g, i, &key, value, sizeof value); i++)
        json_array_append_new(list, json_pack("[o, o]", zl_inspect_string(key), zl_inspect_string(value)));
    return list;
}

static json_t *config_json(const struct zl_config *c)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:{s:s, s:f, s:f}}", "name", c->arch->name, "layers",
                     (json_int_t)c->layers, "hidden", (json_int_t)c->d, "heads", (json_int_t)c->heads, "kv_heads",
                     (json_int_t)c->kv_heads, "head_dim", (json_int_t)c->head_dim, "mlp", (json_int_t)c->ffn, "vocabulary",
                     (json_int_t)c->vocab, "context", (json_int_t)c->max_positions, "tied", (int)c->tied, "rope", "kind",
                     rope_names[c->rope.kind], "theta", c->rope.theta, "factor", c->rope.factor);
}

static int print_json(const struct zl_inspect_options *o, const struct facts *f, struct zl_error *err)
{
    json_t *types = json_array(), *problems = json_array(), *unused = json_array();
    for (size_t i = 0; i < f->n_types; i++)
        json_array_append_new(types, json_pack("{s:s, s:I, s:I, s:I}", "type", f->types[i].name, "tensors",
                                               (json_int_t)f->types[i].tensors, "parameters", (json_int_t)f->types[i].parameters,
                                               "bytes", (json_int_t)f->types[i].bytes));
    for (size_t i = 0; i < 3; i++)
        if (f->problem[i].code)
            json_array_append_new(problems, zl_inspect_string(f->problem[i].text));
    for (size_t i = 0; f->is_open && i < f->model.n_unused; i++)
        json_array_append_new(unused, zl_inspect_string(f->model.unused[i]));
    json_t *v = json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:o, s:o, s:o}", "kind", "model", "path", zl_inspect_string(f->path),
                          "format", f->format, "tensors", (json_int_t)zl_tensors_count(f->tensors), "parameters",
                          (json_int_t)f->parameters, "bytes", (json_int_t)f->bytes, "types", types, "unused", unused, "problems",
                          problems);
    if (f->has_config)
        json_object_set_new(v, "architecture", config_json(&f->config));
    if (f->tokenizer)
        json_object_set_new(v, "tokenizer",
                            json_pack("{s:i, s:i, s:i, s:b}", "tokens", (int)zl_tokenizer_size(f->tokenizer), "bos",
                                      (int)zl_tokenizer_bos(f->tokenizer), "eos", (int)zl_tokenizer_eos(f->tokenizer), "adds_bos",
                                      (int)zl_tokenizer_adds_bos(f->tokenizer)));
    if (f->has_chat)
        json_object_set_new(v, "chat", json_string(chat_names[f->chat.kind]));
    if (o->tensors)
        json_object_set_new(v, "tensor_list", tensors_json(f));
    if (o->metadata)
        json_object_set_new(v, "metadata", metadata_json(f->gguf));
    return zl_inspect_json(v, err);
}

/* ---- text ---- */

static void print_config(const struct zl_config *c)
{
    char theta[ZL_NUMBER_TEXT], factor[ZL_NUMBER_TEXT];
    zl_inspect_label("architecture");
    printf("%s: %u layers, hidden %u, MLP %u\n", c->arch->name, c->layers, c->d, c->ffn);
    zl_inspect_label("attention");
    printf("%u heads of %u, %u for keys and values\n", c->heads, c->head_dim, c->kv_heads);
    zl_inspect_label("vocabulary");
    printf("%u rows, head %s\n", c->vocab, c->tied ? "tied to the embedding" : "of its own");
    zl_number_text(theta, c->rope.theta);
    zl_inspect_label("context");
    printf("%u tokens, rotary base %s", c->max_positions, theta);
    if (c->rope.kind != ZL_ROPE_PLAIN) {
        zl_number_text(factor, c->rope.factor);
        printf(", %s scaling by %s", rope_names[c->rope.kind], factor);
    }
    putchar('\n');
}

static void print_token(const struct zl_tokenizer *t, const char *what, int32_t id)
{
    size_t n = 0;
    const char *surface = zl_tokenizer_token(t, id, &n);
    char text[64];
    if (id < 0 || !surface)
        return;
    snprintf(text, sizeof text, "%.*s", (int)(n < 40 ? n : 40), surface);
    printf(", %s %d ", what, id);
    zl_inspect_text(text);
}

static void print_tokenizer(const struct facts *f)
{
    zl_inspect_label("tokenizer");
    printf("%d tokens", zl_tokenizer_size(f->tokenizer));
    print_token(f->tokenizer, "BOS", zl_tokenizer_bos(f->tokenizer));
    print_token(f->tokenizer, "EOS", zl_tokenizer_eos(f->tokenizer));
    puts(zl_tokenizer_adds_bos(f->tokenizer) ? ", adds BOS" : ", adds no BOS");
    if (!f->has_chat)
        return;
    zl_inspect_label("chat template");
    fputs(chat_names[f->chat.kind], stdout);
    if (f->chat.default_system) {
        fputs(", system message \"", stdout);
        zl_inspect_text(f->chat.default_system);
        putchar('"');
    }
    putchar('\n');
}

static void print_types(const struct facts *f)
{
    for (size_t i = 0; i < f->n_types; i++) {
        char count[ZL_NUMBER_TEXT], bytes[ZL_NUMBER_TEXT];
        zl_number_count(count, f->types[i].parameters);
        zl_number_bytes(bytes, f->types[i].bytes);
        zl_inspect_label(i ? "" : "types");
        printf("%-8s  %6llu tensor%s  %9s  %10s%s\n", f->types[i].name, (unsigned long long)f->types[i].tensors,
               f->types[i].tensors == 1 ? " " : "s", count, bytes,
               f->types[i].computed ? "" : "  (zerolock does not compute with it)");
    }
}

static void print_tensors(const struct facts *f)
{
    int width = 6;
    for (size_t i = 0; i < zl_tensors_count(f->tensors); i++) {
        size_t n = strlen(zl_tensors_at(f->tensors, i)->name);
        width = n > (size_t)width && n < 64 ? (int)n : width;
    }
    printf("\n%-*s  %-8s  %10s  shape\n", width, "tensor", "type", "bytes");
    for (size_t i = 0; i < zl_tensors_count(f->tensors); i++) {
        const struct zl_named_tensor *t = zl_tensors_at(f->tensors, i);
        int n = (int)strlen(t->name);
        zl_inspect_text(t->name);
        printf("%*s  %-8s  %10llu  [", n < width ? width - n : 0, "", t->type_name, (unsigned long long)t->t.bytes);
        for (int k = 0; k < t->t.n_dims; k++)
            printf("%s%llu", k ? ", " : "", (unsigned long long)t->t.shape[k]);
        puts("]");
    }
}

static void print_metadata(const struct zl_gguf *g)
{
    const char *key;
    char value[256];
    putchar('\n');
    for (size_t i = 0; zl_gguf_describe(g, i, &key, value, sizeof value); i++) {
        zl_inspect_text(key);
        fputs(" = ", stdout);
        zl_inspect_text(value);
        putchar('\n');
    }
}

static void print_text(const struct zl_inspect_options *o, const struct facts *f)
{
    char count[ZL_NUMBER_TEXT], bytes[ZL_NUMBER_TEXT];
    zl_inspect_label("model");
    zl_inspect_text(f->path);
    putchar('\n');
    zl_inspect_label("format");
    puts(f->format);
    if (f->has_config)
        print_config(&f->config);
    zl_number_count(count, f->parameters);
    zl_number_bytes(bytes, f->bytes);
    zl_inspect_label("parameters");
    printf("%s in %zu tensors, %s\n", count, zl_tensors_count(f->tensors), bytes);
    print_types(f);
    if (f->tokenizer)
        print_tokenizer(f);
    for (size_t i = 0; f->is_open && i < f->model.n_unused; i++) {
        zl_inspect_label(i ? "" : "unused");
        zl_inspect_text(f->model.unused[i]);
        putchar('\n');
    }
    if (o->tensors)
        print_tensors(f);
    if (o->metadata && f->gguf)
        print_metadata(f->gguf);
}

int zl_inspect_model(const struct zl_inspect_options *o, struct zl_error *err)
{
    struct facts f = {.path = o->what.v[0]};
    int rc = open_files(&f, err);
    if (rc)
        return rc;
    if (o->metadata && !f.gguf)
        zl_note("--metadata has an effect only on GGUF files");
    gather(&f);
    if (o->json)
        rc = print_json(o, &f, err);
    else
        print_text(o, &f);
    for (int i = 0; rc == 0 && i < 3; i++)
        if (f.problem[i].code) {
            *err = f.problem[i];
            rc = err->code == ZL_EUSAGE ? ZL_EINPUT : err->code;
        }
    if (f.is_open)
        zl_model_close(&f.model);
    zl_chat_free(&f.chat);
    zl_tokenizer_close(f.tokenizer);
    zl_tensors_close(f.safetensors);
    zl_gguf_close(f.gguf);
    return rc;
}
