/*
 * Which chat template a tokenizer has, by comparing its canonical form (chat_canon.c) with a table.
 * A template that is equal to none is refused with the construct and line that chat.c has nothing
 * for; it is never rendered as another. The table's patterns hold, beside text that must be equal:
 *
 *     $  the default system message: text without any tag
 *     @  a branch that is never taken here (tools): whole statements that leave no branch they did
 * not open ^  the same, and other branches of the statement it stands in
 */
#include "config.h"

#include "format/quote.h"
#include "format/chat_impl.h"

#include <stdlib.h>
#include <string.h>

#define CHATML_LOOP                                                                                \
    "<|im_start|>{{message.role}}\n{{message.content}}<|im_end|>\n{%endfor%}" CHATML_PROMPT
#define CHATML_PROMPT "{%if add_generation_prompt%}<|im_start|>assistant\n{%endif%}"
#define LLAMA3_PROMPT                                                                              \
    "{%if add_generation_prompt%}<|start_header_id|>assistant<|end_header_id|>\n\n{%endif%}"
#define LLAMA3_HEADER "<|start_header_id|>{{message.role}}<|end_header_id|>\n\n"
#define LLAMA3_SET                                                                                 \
    "{%set content='<|start_header_id|>'+message.role+'<|end_header_id|>\n\n'+message.content"

struct form {
    enum zl_chat_kind kind;
    const char *pattern;
    bool bos, trim, plain_roles;
};

static const struct form forms[] = {
    {ZL_CHAT_CHATML, "{%for message in messages%}" CHATML_LOOP, .bos = false},
    {ZL_CHAT_CHATML, "{{bos_token}}{%for message in messages%}" CHATML_LOOP, .bos = true},
    /* SmolLM2, Qwen2 */
    {ZL_CHAT_CHATML,
     "{%for message in messages%}{%if loop.first and "
     "messages[0].role!='system'%}<|im_start|>system\n"
     "$<|im_end|>\n{%endif%}" CHATML_LOOP,
     .bos = false},
    /* Qwen2.5 */
    {ZL_CHAT_CHATML,
     "{%if tools%}@{%else%}{%if messages[0].role=='system'%}<|im_start|>system\n"
     "{{messages[0].content}}<|im_end|>\n{%else%}<|im_start|>system\n$<|im_end|>\n{%endif%}{%endif%"
     "}"
     "{%for message in messages%}{%if(message.role=='user')or(message.role=='system'and not "
     "loop.first)or(message.role=='assistant'and not message.tool_calls)%}<|im_start|>"
     "{{message.role}}\n{{message.content}}<|im_end|>\n{%elif message.role=='assistant'%}^{%endif%}"
     "{%endfor%}" CHATML_PROMPT,
     .plain_roles = true},
    /* Llama 3 */
    {ZL_CHAT_LLAMA3,
     "{%set loop_messages=messages%}{%for message in loop_messages%}" LLAMA3_SET
     "|trim+'<|eot_id|>'%}{%if loop.index0==0%}{%set content=bos_token+content%}{%endif%}"
     "{{content}}{%endfor%}" LLAMA3_PROMPT,
     .bos = true, .trim = true},
    {ZL_CHAT_LLAMA3,
     "{{bos_token}}{%for message in messages%}" LLAMA3_HEADER
     "{{message.content|trim}}<|eot_id|>{%endfor%}" LLAMA3_PROMPT,
     .bos = true, .trim = true},
    {ZL_CHAT_LLAMA3,
     "{{bos_token}}{%for message in messages%}" LLAMA3_HEADER
     "{{message.content}}<|eot_id|>{%endfor%}" LLAMA3_PROMPT,
     .bos = true},
    {ZL_CHAT_LLAMA3,
     "{%for message in messages%}" LLAMA3_HEADER
     "{{message.content|trim}}<|eot_id|>{%endfor%}" LLAMA3_PROMPT,
     .trim = true},
};

/* Statements that many templates open with and that change nothing here. */
static const char *const preambles[] = {
    "{%if not add_generation_prompt is defined%}{%set add_generation_prompt=false%}{%endif%}",
};

/* Whether s[0..n) is made of whole statements: no end and no branch of a statement it did not open.
 */
static bool is_closed(const char *s, size_t n, bool branches)
{
    int depth = 0;
    for (size_t i = 0; i + 2 < n; i++) {
        if (s[i] == '\\') {
            i++;
            continue;
        }
        if (s[i] != '{' || s[i + 1] != '%')
            continue;
        const char *word = s + i + 2;
        size_t left = n - i - 2;
        if (left >= 3 && memcmp(word, "end", 3) == 0)
            depth--;
        else if (left >= 2 && memcmp(word, "el", 2) == 0 && depth == 0 && !branches)
            return false;
        else if ((left >= 3 && memcmp(word, "if ", 3) == 0) ||
                 (left >= 3 && memcmp(word, "if(", 3) == 0) ||
                 (left >= 4 && memcmp(word, "for ", 4) == 0))
            depth++;
        if (depth < 0)
            return false;
    }
    return depth == 0;
}

static bool is_text(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '{')
            return false;
        i += s[i] == '\\';
    }
    return true;
}

/* Whether a canonical form is the pattern's; what stands for `$` goes to *hole. */
static bool matches(const char *s, const char *pattern, const char **hole, size_t *hole_n)
{
    static const char signs[] = "$@^";
    *hole = NULL;
    for (;;) {
        size_t n = strcspn(pattern, signs);
        if (strncmp(s, pattern, n) != 0)
            return false;
        s += n;
        pattern += n;
        if (!*pattern)
            return !*s;
        char sign = *pattern++;
        size_t next = strcspn(pattern, signs);
        const char *rest = memmem(s, strlen(s), pattern, next);
        if (!rest)
            return false;
        size_t len = (size_t)(rest - s);
        if (sign == '$' ? !is_text(s, len) : !is_closed(s, len, sign == '^'))
            return false;
        if (sign == '$') {
            *hole = s;
            *hole_n = len;
        }
        s = rest;
    }
}

/* What a template has that chat.c has not: the first of these, for the message. */
static const char *const constructs[] = {
    "strftime_now",    "namespace", "raise_exception", "tojson",       "macro",     "rejectattr",
    "selectattr",      "break",     "continue",        "% generation", "tools",     "split(",
    "enable_thinking", "[INST]",    "<start_of_turn>", "<|user|>",     "<|system|>"};

static int refuse(const char *template, struct zl_error *err)
{
    const char *first = NULL, *name = NULL;
    for (size_t i = 0; i < sizeof constructs / sizeof *constructs; i++) {
        const char *hit = strstr(template, constructs[i]);
        if (hit && (!first || hit < first)) {
            first = hit;
            name = constructs[i];
        }
    }
    int line = 1;
    for (const char *p = template; p < (first ? first : template); p++)
        line += *p == '\n';
    if (first)
        return zl_fail(
            err, ZL_EINPUT,
            "the chat template is none that is known (ChatML, Llama 3): it has %s in line %d", name,
            line);
    return zl_fail(
        err, ZL_EINPUT,
        "the chat template is none that is known (ChatML, Llama 3): it begins with \"%s\"",
        zl_quote_n(template, strcspn(template, "\r\n")).s);
}

static int recognize(const char *template, struct zl_chat *out, struct zl_error *err)
{
    struct zl_text form = {0};
    int rc = zl_chat_canonical(template, &form, err);
    const char *s = form.s, *hole = NULL;
    size_t hole_n = 0;
    const struct form *found = NULL;
    for (size_t i = 0; !rc && i < sizeof preambles / sizeof *preambles; i++)
        if (strncmp(s, preambles[i], strlen(preambles[i])) == 0)
            s += strlen(preambles[i]);
    for (size_t i = 0; !rc && !found && i < sizeof forms / sizeof *forms; i++)
        if (matches(s, forms[i].pattern, &hole, &hole_n))
            found = &forms[i];
    if (!rc && !found)
        rc = refuse(template, err);
    if (!rc) {
        *out = (struct zl_chat){.kind = found->kind,
                                .bos = found->bos,
                                .trim = found->trim,
                                .plain_roles = found->plain_roles};
        if (hole && !(out->default_system = zl_tok_strdup(hole, hole_n, err)))
            rc = ZL_EMEMORY;
    }
    if (!rc && hole) { /* undo the backslashes of the canonical form */
        char *to = out->default_system;
        for (const char *p = to; *p; p++) {
            p += *p == '\\';
            *to++ = *p;
        }
        *to = '\0';
    }
    free(form.s);
    return rc;
}

int zl_chat_recognize(const struct zl_tokenizer *t, struct zl_chat *out, struct zl_error *err)
{
    *out = (struct zl_chat){.kind = ZL_CHAT_NONE};
    if (!t->chat_template)
        return 0;
    struct zl_error own = {0};
    err = err ? err : &own;
    int rc = recognize(t->chat_template, out, err);
    if (!rc)
        rc = zl_chat_check_tokens(out, t, err);
    if (rc) {
        zl_chat_free(out);
        return zl_fail_prefix(err, "%s", t->source);
    }
    return 0;
}

void zl_chat_free(struct zl_chat *c)
{
    free(c->default_system);
    *c = (struct zl_chat){.kind = ZL_CHAT_NONE};
}
