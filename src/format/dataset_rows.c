/*
 * Rows to tokens: the three forms of JSONL rows, and what to say about the forms that we do not
 * read. Not tokenization itself and not the chat templates. Invariant: each form decides alone
 * which tokens are labels; nothing is trained by default. Called by dataset.c.
 *
 * - {messages}: as the chat template renders them; labels: the contents of assistant turns and the
 *   token that ends each.
 * - {prompt, completion}: [BOS] prompt | completion EOS, tokenized apart; labels: completion, EOS.
 * - {text}: [BOS] text EOS (both only with add_bos_eos); labels: all but the first token.
 *
 * BOS stands only where the tokenizer adds one by itself, and exactly once: a text that spells it
 * out does not get a second. EOS is not doubled either, and does not follow an end-of-turn token
 * that the text brings. Special tokens spelled out in prompt, completion and text are special
 * tokens (rows rendered by another program train as rendered); in message contents they are text.
 */
#include "format/dataset_build.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/jsonl.h"

static const char *type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        break;
    }
    return "null";
}

/* The value of a key, NULL when absent or null (merged files carry null in the columns that a row
 * does not use). */
static const json_t *field(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    return json_is_null(v) ? NULL : v;
}

static int want_string(const json_t *v, const char *key, struct zl_error *err)
{
    return json_is_string(v)
               ? 0
               : zl_fail(err, ZL_EINPUT, "\"%s\" is %s, expected a string", key, type_name(v));
}

static int add_prompt(struct zl_data_builder *b, const json_t *prompt, const json_t *completion,
                      uint64_t line, struct zl_error *err)
{
    int rc = want_string(prompt, "prompt", err);
    if (!rc)
        rc = want_string(completion, "completion", err);
    if (rc)
        return rc;
    size_t prompt_len = json_string_length(prompt), completion_len = json_string_length(completion);
    if (!completion_len) {
        zl_data_drop(b, ZL_DROP_EMPTY, line);
        return 0;
    }
    rc = zl_data_encode_start(b, json_string_value(prompt), prompt_len, true, err);
    size_t n_prompt = b->ids.n;
    if (!rc)
        rc = zl_tokenizer_encode(b->t, json_string_value(completion), completion_len, 0, &b->ids,
                                 err);
    if (!rc && b->ids.n == n_prompt) { /* text that the tokenizer's normalizer removes */
        zl_data_drop(b, ZL_DROP_EMPTY, line);
        return 0;
    }
    if (!rc)
        rc = zl_data_push_eos(b, err);
    if (!rc)
        rc = zl_data_append(b, b->ids.id, NULL, b->ids.n, n_prompt, line,
                            prompt_len + completion_len, err);
    return rc;
}

static int add_text(struct zl_data_builder *b, const json_t *text, uint64_t line,
                    struct zl_error *err)
{
    int rc = want_string(text, "text", err);
    if (rc)
        return rc;
    size_t len = json_string_length(text);
    if (!len) {
        zl_data_drop(b, ZL_DROP_EMPTY, line);
        return 0;
    }
    rc = zl_data_encode_start(b, json_string_value(text), len, b->o->add_bos_eos, err);
    if (!rc && b->o->add_bos_eos)
        rc = zl_data_push_eos(b, err);
    if (!rc)
        rc = zl_data_append(b, b->ids.id, NULL, b->ids.n, 0, line, len, err);
    return rc;
}

/* One element of "messages" into *m; its strings stay owned by the row. */
static int read_message(const json_t *v, size_t i, struct zl_message *m, struct zl_error *err)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    const json_t *role = field(v, "role"), *content = field(v, "content");
    const char *problem = NULL;
    if (!json_is_object(v))
        problem = "is no object";
    else if (!json_is_string(role))
        problem = "has no \"role\" string";
    else if (field(v, "tool_calls"))
        problem = "has tool calls, which are not supported";
    else if (!json_is_string(content))
        problem = "has no \"content\" string";
    if (problem)
        return zl_fail(err, ZL_EINPUT,
                       "message %zu %s; expected {\"role\": \"user\", \"content\": \"…\"}", i + 1,
                       problem);
    bool known = false;
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
        known = known || !strcmp(json_string_value(role), roles[r]);
    if (!known)
        return zl_fail(err, ZL_EINPUT,
                       "message %zu has the role \"%.40s\"; expected system, user or assistant",
                       i + 1, json_string_value(role));
    m->role = json_string_value(role);
    m->content = json_string_value(content);
    m->len = json_string_length(content);
    return 0;
}

static int recognize_chat(struct zl_data_builder *b, struct zl_error *err)
{
    if (b->chat_known)
        return 0;
    int rc = zl_chat_recognize(b->t, &b->chat, err);
    if (rc)
        return rc;
    b->chat_known = true;
    if (b->chat.kind == ZL_CHAT_NONE)
        return zl_fail(
            err, ZL_EINPUT,
            "the row holds messages, but the model has no chat template; use rows of prompt and "
            "completion, or an instruction-tuned model");
    return 0;
}

static int add_messages(struct zl_data_builder *b, const json_t *messages, uint64_t line,
                        struct zl_error *err)
{
    if (!json_is_array(messages))
        return zl_fail(err, ZL_EINPUT, "\"messages\" is %s, expected an array of messages",
                       type_name(messages));
    int rc = recognize_chat(b, err);
    if (rc)
        return rc;
    size_t n = json_array_size(messages);
    uint64_t bytes = 0;
    bool any = false;
    struct zl_message *m = calloc(n ? n : 1, sizeof *m);
    if (!m)
        return zl_fail(err, ZL_EMEMORY, "no memory for %zu messages", n);
    for (size_t i = 0; !rc && i < n; i++) {
        rc = read_message(json_array_get(messages, i), i, &m[i], err);
        bytes += m[i].len;
        any = any || (!rc && !strcmp(m[i].role, "assistant") && m[i].len);
    }
    if (!rc && !any)
        zl_data_drop(b, ZL_DROP_EMPTY, line);
    else if (!rc) {
        rc = zl_chat_render(&b->chat, b->t, m, n, false, &b->ids, &b->trained, &b->trained_capacity,
                            err);
        bool labels = !rc && b->ids.n && memchr(b->trained, 1, b->ids.n);
        if (!rc && !labels)
            rc = zl_fail(err, ZL_EINPUT,
                         "the chat template rendered the assistant's turns without a token to "
                         "train, expected at "
                         "least the token that ends a turn");
        if (!rc)
            rc = zl_data_append(b, b->ids.id, b->trained, b->ids.n, 0, line, bytes, err);
    }
    free(m);
    return rc;
}

/* A row with none of our forms: say what it looks like and what to write instead. */
static int unknown_form(const json_t *row, struct zl_error *err)
{
    bool prompt = field(row, "prompt"), completion = field(row, "completion");
    if (field(row, "conversations"))
        return zl_fail(err, ZL_EINPUT,
                       "the row looks like ShareGPT (conversations of from and value), which is "
                       "not read; convert it "
                       "to {\"messages\": [{\"role\": \"user\", \"content\": \"…\"}, {\"role\": "
                       "\"assistant\", …}]}");
    if (field(row, "instruction") && field(row, "output"))
        return zl_fail(err, ZL_EINPUT,
                       "the row looks like Alpaca (instruction, input, output), which is not read; "
                       "convert it to "
                       "{\"prompt\": instruction and input, \"completion\": output}");
    if (prompt || completion)
        return zl_fail(
            err, ZL_EINPUT,
            "the row has a %s without a %s, expected both as strings (a prompt may be empty)",
            prompt ? "prompt" : "completion", prompt ? "completion" : "prompt");
    char keys[480];
    zl_jsonl_keys(row, keys, sizeof keys);
    return zl_fail(err, ZL_EINPUT,
                   "the row's keys are %s; expected text, or prompt and completion, or messages",
                   keys);
}

int zl_data_add_row(struct zl_data_builder *b, const json_t *row, const struct zl_lines *at,
                    struct zl_error *err)
{
    struct zl_error inner = {0};
    b->ids.n = 0;
    b->d->report.rows++;
    const json_t *messages = field(row, "messages"), *prompt = field(row, "prompt");
    const json_t *completion = field(row, "completion"), *text = field(row, "text");
    int rc;
    if (messages)
        rc = add_messages(b, messages, at->line, &inner);
    else if (prompt && completion)
        rc = add_prompt(b, prompt, completion, at->line, &inner);
    else if (text)
        rc = add_text(b, text, at->line, &inner);
    else
        rc = unknown_form(row, &inner);
    zl_jsonl_printable(inner.text);
    return rc ? zl_fail(err, rc, "%s: line %" PRIu64 ": %s", at->path, at->line, inner.text) : 0;
}
