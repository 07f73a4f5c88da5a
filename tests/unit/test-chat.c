/*
 * Chat templates: recognition, ids of the rendered messages, and which of them are labels. The
 * golden cases compare with the reference's rendering; messages that hold special tokens themselves
 * differ on purpose: here they stay text.
 */
#include "tests/unit/tiny-tokenizer.h"

#include "format/chat.h"

#define CHATML                                                                                     \
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "                   \
    "message['content'] + '<|im_end|>' + "                                                         \
    "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
#define LLAMA3                                                                                     \
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "        \
    "'<|start_header_id|>' + "                                                                     \
    "message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% "  \
    "if loop.index0 == 0 "                                                                         \
    "%}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if "          \
    "add_generation_prompt %}{{ "                                                                  \
    "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"

enum { BOS = 256, START, END, HEADER, HEADER_END, EOT, NEWLINES };

/* Bytes, and the special tokens of both families. */
static struct zl_tokenizer *open_with(const char *template)
{
    static const char *const names[] = {"<|begin_of_text|>",   "<|im_start|>",      "<|im_end|>",
                                        "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
    json_t *root = tiny_byte_level();
    for (int i = 0; i < 6; i++) {
        tiny_piece(root, names[i]);
        tiny_added(root, 256 + i, names[i], FLAGS("special"));
    }
    assert_int_equal(tiny_merge(root, "\xc4\x8a", "\xc4\x8a"), NEWLINES); /* two newlines */
    json_t *config = json_pack("{s:s, s:s, s:s}", "bos_token", names[0], "eos_token", names[5],
                               "chat_template", template);
    char *text = json_dumps(config, 0);
    struct zl_tokenizer *t = tiny_open(root, text);
    free(text);
    json_decref(config);
    return t;
}

static struct zl_message say(const char *role, const char *content)
{
    return (struct zl_message){role, content, strlen(content)};
}

/* Render and write ids with labels as text: special tokens by a letter, labels in capitals or
 * behind a '!'. */
static char *rendered(const struct zl_tokenizer *t, const struct zl_message *m, size_t n,
                      bool prompt)
{
    struct zl_chat c;
    struct zl_error err = {0};
    struct zl_ids ids = {0};
    uint8_t *trained = NULL;
    size_t capacity = 0;
    static const char *const names[] = {"[BOS]", "[S]", "[E]", "[H]", "[/H]", "[EOT]", "\n\n"};
    if (zl_chat_recognize(t, &c, &err) ||
        zl_chat_render(&c, t, m, n, prompt, &ids, &trained, &capacity, &err))
        fail_msg("%s", err.text);
    char *out = NULL;
    size_t out_n;
    FILE *f = open_memstream(&out, &out_n);
    for (size_t i = 0; i < ids.n; i++) {
        if (trained[i])
            fputc('!', f);
        if (ids.id[i] < 256)
            fputc(ids.id[i], f);
        else
            fputs(names[ids.id[i] - 256], f);
    }
    fclose(f);
    free(trained);
    zl_ids_free(&ids);
    zl_chat_free(&c);
    return out;
}

static void expect(const char *template, const struct zl_message *m, size_t n, bool prompt,
                   const char *want)
{
    struct zl_tokenizer *t = open_with(template);
    char *got = rendered(t, m, n, prompt);
    assert_string_equal(got, want);
    free(got);
    zl_tokenizer_close(t);
}

static void labels_are_the_assistants_content_and_end(void **state)
{
    (void)state;
    const struct zl_message m[] = {say("user", "q"), say("assistant", "ab"), say("user", "r"),
                                   say("assistant", "")};
    expect(CHATML, m, 4, false,
           "[S]user\nq[E]\n[S]assistant\n!a!b![E]\n[S]user\nr[E]\n[S]assistant\n![E]\n");
    expect(CHATML, m, 1, true, "[S]user\nq[E]\n[S]assistant\n");
}

static void an_id_across_the_start_of_the_content_is_no_label(void **state)
{
    (void)state;
    const struct zl_message m[] = {say("assistant", "\n\nx")};
    expect(CHATML, m, 1, false, "[S]assistant\n\n!\n!x![E]\n");
}

static void contents_cannot_hold_special_tokens(void **state)
{
    (void)state;
    const struct zl_message m[] = {say("user", "<|im_end|>")};
    expect(CHATML, m, 1, false, "[S]user\n<|im_end|>[E]\n");
}

static void default_system_message_comes_from_the_template(void **state)
{
    (void)state;
    static const char template[] =
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
        "'<|im_start|>system\\nBe {kind} \\\\ good<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + "
        "message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
        "'<|im_start|>assistant\\n' }}{% endif %}";
    const struct zl_message m[] = {say("user", "q"), say("system", "z")};
    expect(template, m, 1, false, "[S]system\nBe {kind} \\ good[E]\n[S]user\nq[E]\n");
    expect(template, m + 1, 1, false, "[S]system\nz[E]\n");
}

static void llama3_has_exactly_one_bos_and_strips_contents(void **state)
{
    (void)state;
    const struct zl_message m[] = {say("user", " \n q \xe3\x80\x80"), say("assistant", "ab\n")};
    expect(LLAMA3, m, 2, true,
           "[BOS][H]user[/H]\n\nq[EOT][H]assistant[/H]\n\n!a!b![EOT][H]assistant[/H]\n\n");
}

static void spelling_of_a_template_does_not_matter(void **state)
{
    (void)state;
    static const char *const same[] = {
        "{%- for message in messages -%}\n  {{- \"<|im_start|>\" ~ message.role }}{{ \"\\n\" + "
        "message[\"content\"] }}"
        "{{ '<|im_end|>\\n' -}}\n{%- endfor -%}\n{%- if add_generation_prompt -%}{{- "
        "'<|im_start|>' + 'assistant\\n' -}}"
        "{%- endif -%}\n",
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content "
        "}}<|im_end|>\n{% endfor %}\n"
        "{% if add_generation_prompt %}\n<|im_start|>assistant\n  {% endif %}\n",
        "{# a comment #}{% if not add_generation_prompt is defined %}{% set add_generation_prompt "
        "= false %}{% endif "
        "%}" CHATML,
    };
    const struct zl_message m[] = {say("user", "q")};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        expect(same[i], m, 1, true, "[S]user\nq[E]\n[S]assistant\n");
}

/* A template that is not one of ours is named, with the construct and its line; close is not equal.
 */
static void other_templates_are_refused_by_construct_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *template, *why;
    } cases[] = {
        {"{# x #}\n{%- set ns = namespace(a=1) %}\n", "namespace in line 2"},
        {"\n\n{{ raise_exception('no') }}", "raise_exception in line 3"},
        {"{{ strftime_now('%d') }}", "strftime_now in line 1"},
        {"{{ tools | tojson(indent=2) }}", "tools in line 1"},
        {"{{ messages | tojson }}", "tojson in line 1"},
        {"{% for m in messages %}{% if m %}{% break %}{% endif %}{% endfor %}", "break in line 1"},
        {"<s>[INST] {{ messages }}", "[INST] in line 1"},
        {"plain", "begins with \"plain\""},
        {"", "begins with \"\""},
        {"{% for message in messages", "open tag at byte 0"},
        {"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
         "message['content'] + '<|im_end|>'}}"
         "{% endfor %}",
         "begins with"},
        {"x" CHATML, "begins with"},
        {CHATML "x", "begins with"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zl_tokenizer *t = open_with(cases[i].template);
        struct zl_chat c;
        struct zl_error err = {0};
        assert_int_equal(zl_chat_recognize(t, &c, &err), ZL_EINPUT);
        if (!strstr(err.text, cases[i].why))
            fail_msg("%s: %s", cases[i].template, err.text);
        zl_tokenizer_close(t);
    }
}

static void a_template_without_its_tokens_is_refused(void **state)
{
    (void)state;
    struct zl_chat c;
    struct zl_error err = {0};
    json_t *config = json_pack("{s:s}", "chat_template", CHATML);
    char *text = json_dumps(config, 0);
    struct zl_tokenizer *t = tiny_open(tiny_byte_level(), text);
    assert_int_equal(zl_chat_recognize(t, &c, &err), ZL_EINPUT);
    assert_non_null(strstr(err.text, "<|im_start|>"));
    zl_tokenizer_close(t);
    free(text);
    json_decref(config);
    t = tiny_open(tiny_byte_level(), NULL);
    assert_int_equal(zl_chat_recognize(t, &c, NULL), 0);
    assert_int_equal(c.kind, ZL_CHAT_NONE);
    zl_tokenizer_close(t);
}

/* ---- against the reference ---- */
static bool compare(const struct zl_chat *c, const struct zl_tokenizer *t, const json_t *row,
                    size_t *n_compared)
{
    const json_t *messages = json_object_get(row, "messages"), *v;
    struct zl_message m[32];
    size_t n = json_array_size(messages), i;
    bool injected = false, foreign = false;
    assert_true(n <= 32);
    json_array_foreach(messages, i, v)
    {
        const json_t *content = json_object_get(v, "content");
        m[i] = (struct zl_message){json_string_value(json_object_get(v, "role")),
                                   json_string_value(content), json_string_length(content)};
        injected |= strstr(m[i].content, "<|im_end|>") != NULL;
        foreign |= c->plain_roles && strcmp(m[i].role, "tool") == 0;
    }
    struct zl_ids ids = {0};
    struct zl_error err = {0};
    bool prompt = json_is_true(json_object_get(row, "add_generation_prompt"));
    int rc = zl_chat_render(c, t, m, n, prompt, &ids, NULL, NULL, &err);
    if (foreign) {
        assert_int_equal(rc, ZL_EINPUT);
        return true;
    }
    if (rc)
        fail_msg("%s", err.text);
    const json_t *want = json_object_get(row, "ids");
    bool same = ids.n == json_array_size(want);
    for (i = 0; i < ids.n && same; i++)
        same = ids.id[i] == json_integer_value(json_array_get(want, i));
    *n_compared += !injected;
    zl_ids_free(&ids);
    return same != injected;
}

static void equals_reference(void **state)
{
    const char *name = *state;
    char relative[256];
    snprintf(relative, sizeof relative, "golden/tokenizers/%s/chat.jsonl", name);
    FILE *f = fopen(zl_test_shared(relative), "r");
    snprintf(relative, sizeof relative, "golden/tokenizers/%s", name);
    struct zl_tokenizer *t = NULL;
    struct zl_chat c;
    struct zl_error err = {0};
    if (zl_tokenizer_open_dir(zl_test_shared(relative), &t, &err) || zl_chat_recognize(t, &c, &err))
        fail_msg("%s", err.text);
    assert_int_equal(c.kind, ZL_CHAT_CHATML);
    char *line = NULL;
    size_t size = 0, n = 0, failed = 0;
    for (ssize_t len; (len = getline(&line, &size, f)) > 0;) {
        json_t *row = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, NULL);
        bool same = compare(&c, t, row, &n);
        if (!same)
            print_error("%s: differs: %.200s\n", name,
                        json_string_value(json_object_get(row, "rendered")));
        failed += !same;
        json_decref(row);
    }
    print_message("%s: %zu cases compared, %zu differ\n", name, n, failed);
    assert_int_equal(failed, 0);
    assert_true(n >= 38);
    free(line);
    fclose(f);
    zl_chat_free(&c);
    zl_tokenizer_close(t);
}

#define EQUAL(name)                                                                                \
    {                                                                                              \
        "equals-reference-" name, equals_reference, NULL, NULL, (void *)name                       \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_the_assistants_content_and_end),
        cmocka_unit_test(an_id_across_the_start_of_the_content_is_no_label),
        cmocka_unit_test(contents_cannot_hold_special_tokens),
        cmocka_unit_test(default_system_message_comes_from_the_template),
        cmocka_unit_test(llama3_has_exactly_one_bos_and_strips_contents),
        cmocka_unit_test(spelling_of_a_template_does_not_matter),
        cmocka_unit_test(other_templates_are_refused_by_construct_and_line),
        cmocka_unit_test(a_template_without_its_tokens_is_refused),
        EQUAL("smollm2"),
        EQUAL("tiny-qwen"),
        EQUAL("qwen2_5"),
    };
    return cmocka_run_group_tests_name("chat", tests, NULL, NULL);
}
