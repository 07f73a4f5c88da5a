/*
 * What a tokenizer does, with small ones made here. Expected ids follow from the reference
 * library's rules; whole vocabularies are compared in test-tokenizer-golden.c, what is refused at
 * load in test-tokenizer-files.c.
 */
#include "tests/unit/tiny-tokenizer.h"

enum { SPM_MARK = 259, SPM_X, SPM_Y, SPM_MARK_Y }; /* what spm_xy() adds to tiny_spm() */

static json_t *spm_xy(void)
{
    json_t *root = tiny_spm();
    assert_int_equal(tiny_piece(root, SPACE_MARK), SPM_MARK);
    tiny_piece(root, "x");
    tiny_piece(root, "y");
    assert_int_equal(tiny_merge(root, SPACE_MARK, "y"), SPM_MARK_Y);
    return root;
}

static void lowest_rank_merges_first_and_the_leftmost_of_equals(void **state)
{
    (void)state;
    json_t *root = tiny_byte_level();
    int bc = tiny_merge(root, "b", "c"), ab = tiny_merge(root, "a", "b"),
        aa = tiny_merge(root, "a", "a");
    struct zl_tokenizer *t = tiny_open(root, NULL);
    EXPECT(t, "abc", 0, 'a', bc);
    EXPECT(t, "ab", 0, ab);
    EXPECT(t, "aaa", 0, aa, 'a');
    EXPECT(t, "abcabd", 0, 'a', bc, ab, 'd');
    zl_tokenizer_close(t);
}

/* A word long enough for the heap merges as a short one does. */
static void long_words_merge_as_short_ones(void **state)
{
    (void)state;
    json_t *root = tiny_byte_level();
    tiny_merge(root, "a", "b");
    int abab = tiny_merge(root, "ab", "ab"), ca = tiny_merge(root, "c", "a");
    struct zl_tokenizer *t = tiny_open(root, NULL);
    char text[601];
    int want[300];
    size_t n = 0;
    for (int i = 0; i < 600; i += 6)
        memcpy(text + i, "ababac", 6);
    text[600] = '\0';
    for (int i = 0; i < 100;
         i++) { /* "abab" merges; "ca" lost its a to "ab", but for the "ac" in front of it */
        want[n++] = abab;
        want[n++] = 'a';
        want[n++] = 'c';
    }
    tiny_expect(t, text, 0, want, n);
    EXPECT(t, "cac", 0, ca, 'c');
    zl_tokenizer_close(t);
}

static void a_megabyte_of_one_letter_is_no_quadratic_work(void **state)
{
    (void)state;
    json_t *root = tiny_byte_level();
    char piece[65] = "a"; /* and NULs */
    for (int i = 0; i < 5; i++) {
        tiny_merge(root, piece, piece);
        size_t n = strlen(piece);
        memset(piece + n, 'a', n);
    }
    struct zl_tokenizer *t = tiny_open(root, NULL);
    size_t n = 1 << 20;
    char *text = malloc(n);
    memset(text, 'a', n);
    struct zl_ids ids = {0};
    struct zl_error err = {0};
    alarm(120); /* minutes would be quadratic work; a slow machine needs seconds */
    assert_int_equal(zl_tokenizer_encode(t, text, n, 0, &ids, &err), 0);
    memset(text, ' ', n);
    assert_int_equal(zl_tokenizer_encode(t, text, n, 0, &ids, &err), 0);
    alarm(0);
    assert_int_equal(ids.n, (1 << 15) + (1 << 20));
    zl_ids_free(&ids);
    free(text);
    zl_tokenizer_close(t);
}

/* A Llama-3 word with its diacritic: the vocabulary has it whole, the merges would give three. */
static void whole_word_wins_with_ignore_merges_only(void **state)
{
    (void)state;
    for (int ignore = 0; ignore < 2; ignore++) {
        json_t *root = tiny_byte_level();
        int vi = tiny_merge(root, "V", "i");
        int word =
            tiny_piece(root, "\xc4\xa0Vi\xc3\xa1\xc2\xbb\xc4\xa9t"); /* " Viet" with U+1EC7 */
        json_object_set_new(json_object_get(root, "model"), "ignore_merges", json_boolean(ignore));
        struct zl_tokenizer *t = tiny_open(root, NULL);
        if (ignore)
            EXPECT(t, " Vi\xe1\xbb\x87t", 0, word);
        else
            EXPECT(t, " Vi\xe1\xbb\x87t", 0, ' ', vi, 0xe1, 0xbb, 0x87, 't');
        zl_tokenizer_close(t);
    }
}

static void last_blank_of_a_run_joins_the_next_word(void **state)
{
    (void)state;
    json_t *root = tiny_byte_level();
    int two = tiny_merge(root, "\xc4\xa0", "\xc4\xa0"), b = tiny_merge(root, "\xc4\xa0", "b");
    struct zl_tokenizer *t = tiny_open(root, NULL);
    EXPECT(t, "a  b", 0, 'a', ' ', b);
    EXPECT(t, "a   b", 0, 'a', two, b);
    EXPECT(t, "b  ", 0, 'b', two);
    EXPECT(t, "\tb", 0, '\t', 'b');
    EXPECT(t,
           " \xe3\x80\x80"
           "b",
           0, ' ', 0xe3, 0x80, 0x80, 'b'); /* U+3000 is a blank, but none that joins a word */
    zl_tokenizer_close(t);
}

static void added_tokens_take_the_blanks_beside_them(void **state)
{
    (void)state;
    json_t *root = tiny_byte_level();
    tiny_piece(root, "<|a|>");
    tiny_added(root, 256, "<|a|>", FLAGS("lstrip"));
    tiny_piece(root, "<|b|>");
    tiny_added(root, 257, "<|b|>", FLAGS("rstrip"));
    struct zl_tokenizer *t = tiny_open(root, NULL);
    EXPECT(t, "   <|a|> <|b|>   ", 0, 256, ' ', 257);
    EXPECT(t, "x \xe3\x80\x80<|a|>y<|b|>\n z", 0, 'x', 256, 'y', 257, 'z');
    EXPECT(t, "<|b|>  <|a|>", 0, 257, 256);
    zl_tokenizer_close(t);
}

static void single_words_stand_alone(void **state)
{
    (void)state;
    json_t *root = tiny_byte_level();
    tiny_piece(root, "cat");
    tiny_added(root, 256, "cat", FLAGS("single_word"));
    struct zl_tokenizer *t = tiny_open(root, NULL);
    EXPECT(t, "cat", 0, 256);
    EXPECT(t, "a cat.", 0, 'a', ' ', 256, '.');
    EXPECT(t, "cats", 0, 'c', 'a', 't', 's');
    EXPECT(t,
           "\xc3\xa9"
           "cat",
           0, 0xc3, 0xa9, 'c', 'a', 't');
    EXPECT(t, "cat_", 0, 'c', 'a', 't', '_');
    zl_tokenizer_close(t);
}

static void the_longest_added_token_wins(void **state)
{
    (void)state;
    json_t *root = tiny_byte_level();
    static const char *const names[] = {"<a", "<a>", "a>b", "<ab>"};
    for (int i = 0; i < 4; i++) {
        tiny_piece(root, names[i]);
        tiny_added(root, 256 + i, names[i], NULL);
    }
    struct zl_tokenizer *t = tiny_open(root, NULL);
    EXPECT(t, "<a>b", 0, 257, 'b');
    EXPECT(t, "<a<ab>a>b", 0, 256, 259, 258);
    EXPECT(t, "x<ac", 0, 'x', 256, 'c');
    zl_tokenizer_close(t);
}

/* A decomposed e-acute in the text is the added token after NFC, if that token matches normalized
 * text. */
static void added_tokens_match_raw_or_normalized_text(void **state)
{
    (void)state;
    for (int normalized = 0; normalized < 2; normalized++) {
        json_t *root = tiny_byte_level();
        json_object_set_new(root, "normalizer", tiny_json("{\"type\":\"NFC\"}"));
        tiny_piece(root, "\xc3\xa9!");
        tiny_added(root, 256, "\xc3\xa9!", normalized ? FLAGS("normalized") : NULL);
        struct zl_tokenizer *t = tiny_open(root, NULL);
        if (normalized)
            EXPECT(t, "ae\xcc\x81!", 0, 'a', 256);
        else
            EXPECT(t, "ae\xcc\x81!", 0, 'a', 0xc3, 0xa9, '!');
        EXPECT(t, "a\xc3\xa9!", 0, 'a', 256);
        zl_tokenizer_close(t);
    }
}

static void plain_text_never_becomes_a_special_token(void **state)
{
    (void)state;
    json_t *root = tiny_byte_level();
    tiny_piece(root, "<s>");
    tiny_added(root, 256, "<s>", FLAGS("special"));
    tiny_piece(root, "<tool>");
    tiny_added(root, 257, "<tool>", NULL);
    struct zl_tokenizer *t = tiny_open(root, NULL);
    EXPECT(t, "<s><tool>", 0, 256, 257);
    EXPECT(t, "<s><tool>", ZL_ENCODE_PLAIN, '<', 's', '>', 257);
    zl_tokenizer_close(t);

    root = tiny_byte_level(); /* merges that spell a special token */
    tiny_merge(root, "s", ">");
    tiny_added(root, tiny_merge(root, "<", "s>"), "<s>", FLAGS("special"));
    json_object_set_new(
        root, "pre_tokenizer",
        tiny_json("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"));
    t = tiny_open(root, NULL);
    struct zl_ids ids = {0};
    struct zl_error err = {0};
    assert_int_equal(zl_tokenizer_encode(t, "<s>", 3, ZL_ENCODE_PLAIN, &ids, &err), ZL_EINPUT);
    assert_int_equal(ids.n, 0);
    assert_non_null(strstr(err.text, "\"<s>\""));
    zl_ids_free(&ids);
    zl_tokenizer_close(t);
}

static void bytes_stand_for_a_character_all_or_not_at_all(void **state)
{
    (void)state;
    json_t *root = spm_xy();
    struct zl_tokenizer *t = tiny_open(root, NULL);
    EXPECT(t, "x\xf0\x9f\x99\x82", 0, SPM_MARK, SPM_X, 3 + 0xf0, 3 + 0x9f, 3 + 0x99, 3 + 0x82);
    EXPECT(t, "<0x41>", 0, SPM_MARK, 3 + '<', 3 + '0', SPM_X, 3 + '4', 3 + '1', 3 + '>');
    zl_tokenizer_close(t);

    root = spm_xy(); /* without one of the four, the unknown token, one for a run of such */
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    json_object_del(vocab, "<0x99>");
    t = tiny_open(root, NULL);
    EXPECT(t, "x\xf0\x9f\x99\x82\xf0\x9f\x99\x82y", 0, SPM_MARK, SPM_X, 0, SPM_Y);
    assert_null(zl_tokenizer_token(t, 3 + 0x99, NULL));
    assert_int_equal(zl_tokenizer_size(t), SPM_MARK_Y + 1);
    zl_tokenizer_close(t);
}

static void every_piece_between_special_tokens_gets_its_own_prefix(void **state)
{
    (void)state;
    struct zl_tokenizer *t = tiny_open(spm_xy(), NULL);
    EXPECT(t, "x<s> y", 0, SPM_MARK, SPM_X, 1, SPM_MARK, SPM_MARK_Y);
    EXPECT(t, "<s>y", ZL_ENCODE_SPECIAL, 1, 1, SPM_MARK_Y);
    EXPECT(t, "", ZL_ENCODE_SPECIAL, 1);
    zl_tokenizer_close(t);
}

/* A long text is merged in parts where no token spans; where one does, it is merged as a whole. */
static void parts_of_a_long_text_merge_as_the_whole(void **state)
{
    (void)state;
    for (int spans = 0; spans < 2; spans++) {
        json_t *root = spm_xy();
        int xm = spans ? tiny_merge(root, "x", SPACE_MARK) : -1;
        struct zl_tokenizer *t = tiny_open(root, NULL);
        char text[401] = "";
        int want[500];
        size_t n = 0;
        want[n++] = SPM_MARK;
        for (int i = 0; i < 100; i++) {
            strcat(text, "x xy");
            if (i == 0 || !spans)
                want[n++] = SPM_X;
            if (spans && i == 0)
                want[n - 1] = xm;
            else if (spans)
                want[n++] = xm;
            else
                want[n++] = SPM_MARK;
            want[n++] = SPM_X;
            want[n++] = SPM_Y;
        }
        tiny_expect(t, text, 0, want, n);
        zl_tokenizer_close(t);
    }
}

static void splits_follow_their_behavior(void **state)
{
    (void)state;
    static const struct {
        const char *how;
        bool invert;
        const char *words; /* of "a--bc-", '|' between them */
    } cases[] = {
        {"Isolated", false, "a|-|-|bc|-"},         {"Removed", false, "a|bc"},
        {"MergedWithPrevious", false, "a-|-|bc-"}, {"MergedWithNext", false, "a|-|-bc|-"},
        {"Contiguous", false, "a|--|bc|-"},        {"Removed", true, "-|-|-"},
        {"Isolated", true, "a|-|-|bc|-"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* every pair of these characters merges, so an id is a word */
        json_t *root = tiny_root(json_object());
        static const char *const words[] = {"a", "b", "c", "-", "bc", "--", "a-", "bc-", "-bc"};
        for (size_t k = 0; k < 4; k++)
            tiny_piece(root, words[k]);
        tiny_merge(root, "b", "c");
        tiny_merge(root, "-", "-");
        tiny_merge(root, "a", "-");
        tiny_merge(root, "bc", "-");
        tiny_merge(root, "-", "bc");
        json_object_set_new(root, "pre_tokenizer",
                            json_pack("{s:s,s:{s:s},s:s,s:b}", "type", "Split", "pattern", "Regex",
                                      "-", "behavior", cases[i].how, "invert", cases[i].invert));
        struct zl_tokenizer *t = tiny_open(root, NULL);
        struct zl_ids ids = {0};
        struct zl_error err = {0};
        char got[64] = "";
        assert_int_equal(zl_tokenizer_encode(t, "a--bc-", 6, 0, &ids, &err), 0);
        for (size_t k = 0; k < ids.n; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", k ? "|" : "",
                     zl_tokenizer_token(t, ids.id[k], NULL));
        assert_string_equal(got, cases[i].words);
        zl_ids_free(&ids);
        zl_tokenizer_close(t);
    }
}

static void invalid_utf8_is_an_error_with_its_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *where;
    } cases[] = {
        {"abc\xff", 4, "byte 3 "},          {"0123456789\xc3", 11, "byte 10 "},
        {"\xed\xa0\x80", 3, "byte 0 "},     /* a surrogate */
        {"a\xc0\x80", 3, "byte 1 "},        /* an overlong NUL */
        {"\xf4\x90\x80\x80", 4, "byte 0 "}, /* beyond U+10FFFF */
    };
    struct zl_tokenizer *t = tiny_open(tiny_byte_level(), NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zl_ids ids = {0};
        struct zl_error err = {0};
        assert_int_equal(zl_tokenizer_encode(t, cases[i].text, cases[i].n, 0, &ids, &err),
                         ZL_EINPUT);
        if (!strstr(err.text, cases[i].where))
            fail_msg("%s", err.text);
        zl_ids_free(&ids);
    }
    tiny_expect(t, "", 0, NULL, 0);
    struct zl_ids ids = {0};
    assert_int_equal(zl_tokenizer_encode(t, "a\0b", 3, 0, &ids, NULL), 0); /* NUL is a character */
    assert_int_equal(ids.n, 3);
    zl_ids_free(&ids);
    zl_tokenizer_close(t);
}

static char *decode(const struct zl_tokenizer *t, const int32_t *ids, size_t n, bool skip)
{
    char *text = NULL;
    size_t len = 0;
    struct zl_error err = {0};
    if (zl_tokenizer_decode(t, ids, n, skip, &text, &len, &err))
        fail_msg("%s", err.text);
    return text;
}

static void streaming_never_gives_half_a_character(void **state)
{
    (void)state;
    struct zl_tokenizer *t = tiny_open(tiny_byte_level(), NULL);
    struct zl_detokenizer *d = zl_detokenizer_new(t, false);
    static const int32_t ids[] = {'a', 0xf0, 0x9f, 0x99, 0x82, 0xc3, 'b', 0xe2, 0x82};
    static const char *const want[] = {"a", "", "", "", "\xf0\x9f\x99\x82", "", "\xef\xbf\xbd\x62",
                                       "",  ""};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_string_equal(zl_detokenizer_push(d, ids[i], NULL), want[i]);
    assert_string_equal(zl_detokenizer_finish(d, NULL), "\xef\xbf\xbd");
    assert_string_equal(zl_detokenizer_push(d, 12345, NULL), ""); /* no such id */
    zl_detokenizer_free(d);
    char *text = decode(t, ids, sizeof ids / sizeof *ids, false);
    assert_string_equal(text, "a\xf0\x9f\x99\x82\xef\xbf\xbd"
                              "b\xef\xbf\xbd");
    free(text);
    zl_tokenizer_close(t);
}

static void byte_tokens_decode_as_a_run(void **state)
{
    (void)state;
    struct zl_tokenizer *t = tiny_open(spm_xy(), NULL);
    char *text =
        decode(t, (const int32_t[]){SPM_MARK_Y, 3 + 0xc3, 3 + 0xa9, SPM_MARK_Y, 2}, 5, true);
    assert_string_equal(text, "y\xc3\xa9 y");
    free(text);
    text = decode(t, (const int32_t[]){3 + 0xc3, 3 + 0xa9, 3 + 0xc3, SPM_X}, 4,
                  false); /* not all of it UTF-8 */
    assert_string_equal(text, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx");
    free(text);
    struct zl_detokenizer *d = zl_detokenizer_new(t, true);
    assert_string_equal(zl_detokenizer_push(d, 1, NULL), "");
    assert_string_equal(zl_detokenizer_push(d, SPM_MARK_Y, NULL), "y");
    assert_string_equal(zl_detokenizer_push(d, 3 + 0xc3, NULL), "");
    assert_string_equal(zl_detokenizer_push(d, 3 + 0xa9, NULL), "");
    assert_string_equal(zl_detokenizer_push(d, SPM_MARK_Y, NULL), "\xc3\xa9 y");
    assert_string_equal(zl_detokenizer_finish(d, NULL), "");
    zl_detokenizer_free(d);
    zl_tokenizer_close(t);
}

static void decoding_an_id_without_a_token_is_an_error(void **state)
{
    (void)state;
    struct zl_tokenizer *t = tiny_open(tiny_byte_level(), NULL);
    char *text = NULL;
    size_t n = 0;
    static const int32_t bad[] = {256, -1, INT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        struct zl_error err = {0};
        assert_int_equal(zl_tokenizer_decode(t, &bad[i], 1, false, &text, &n, &err), ZL_EINPUT);
        assert_null(text);
    }
    zl_tokenizer_close(t);
}

static void decoding_appends(void **state)
{
    (void)state;
    struct zl_tokenizer *t = tiny_open(tiny_byte_level(), NULL);
    char *text = NULL;
    size_t n = 0;
    struct zl_error err = {0};
    assert_int_equal(zl_tokenizer_decode(t, (const int32_t[]){'a'}, 1, false, &text, &n, &err), 0);
    assert_int_equal(zl_tokenizer_decode(t, (const int32_t[]){'b'}, 1, false, &text, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_string_equal(text, "ab");
    free(text);
    zl_tokenizer_close(t);
}

static void ends_come_from_names_and_config(void **state)
{
    (void)state;
    json_t *root = spm_xy();
    tiny_piece(root, "<|eot_id|>");
    tiny_added(root, SPM_MARK_Y + 1, "<|eot_id|>", FLAGS("special"));
    char *text = json_dumps(root, 0);
    struct zl_tokenizer *t;
    struct zl_error err;
    assert_int_equal(
        tiny_open_texts(text,
                        "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\","
                        "\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},"
                        "{\"name\":\"default\",\"template\":\"y\"}]}",
                        "{\"vocab_size\":300,\"eos_token_id\":[2,260]}", &t, &err),
        0);
    assert_int_equal(zl_tokenizer_bos(t), 1);
    assert_int_equal(zl_tokenizer_eos(t), 2);
    assert_true(zl_tokenizer_adds_bos(t));
    assert_true(zl_tokenizer_is_end(t, 2));
    assert_true(zl_tokenizer_is_end(t, 260));
    assert_true(zl_tokenizer_is_end(t, SPM_MARK_Y + 1));
    assert_false(zl_tokenizer_is_end(t, 1));
    assert_false(zl_tokenizer_is_end(t, -1));
    assert_true(zl_tokenizer_is_special(t, 1));
    assert_false(zl_tokenizer_is_special(t, SPM_X));
    assert_false(zl_tokenizer_is_special(t, 100000));
    assert_int_equal(zl_tokenizer_find(t, "x"), SPM_X);
    assert_int_equal(zl_tokenizer_find(t, "xx"), -1);
    assert_string_equal(zl_tokenizer_chat_template(t), "y");
    zl_tokenizer_close(t);
    json_decref(root);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowest_rank_merges_first_and_the_leftmost_of_equals),
        cmocka_unit_test(long_words_merge_as_short_ones),
        cmocka_unit_test(a_megabyte_of_one_letter_is_no_quadratic_work),
        cmocka_unit_test(whole_word_wins_with_ignore_merges_only),
        cmocka_unit_test(last_blank_of_a_run_joins_the_next_word),
        cmocka_unit_test(added_tokens_take_the_blanks_beside_them),
        cmocka_unit_test(single_words_stand_alone),
        cmocka_unit_test(the_longest_added_token_wins),
        cmocka_unit_test(added_tokens_match_raw_or_normalized_text),
        cmocka_unit_test(plain_text_never_becomes_a_special_token),
        cmocka_unit_test(bytes_stand_for_a_character_all_or_not_at_all),
        cmocka_unit_test(every_piece_between_special_tokens_gets_its_own_prefix),
        cmocka_unit_test(parts_of_a_long_text_merge_as_the_whole),
        cmocka_unit_test(splits_follow_their_behavior),
        cmocka_unit_test(invalid_utf8_is_an_error_with_its_offset),
        cmocka_unit_test(streaming_never_gives_half_a_character),
        cmocka_unit_test(byte_tokens_decode_as_a_run),
        cmocka_unit_test(decoding_an_id_without_a_token_is_an_error),
        cmocka_unit_test(decoding_appends),
        cmocka_unit_test(ends_come_from_names_and_config),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
