/* Reading safetensors: what must load, and what must be refused with file, place, found and
 * expected. */
#include "tests/unit/format_files.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "format/tensors.h"

static const char *make(const char *header, uint64_t header_length, size_t data)
{
    struct bytes b = {0};
    put_u64(&b, header_length);
    put_text(&b, header);
    for (size_t i = 0; i < data; i++)
        put(&b, &(unsigned char){(unsigned char)i}, 1);
    const char *path = files_write("x.safetensors", b.p, b.n);
    bytes_free(&b);
    return path;
}

static int open_text(const char *header, size_t data, struct zl_tensors **s, struct zl_error *err)
{
    *err = (struct zl_error){0};
    *s = NULL;
    return zl_safetensors_open(make(header, strlen(header), data), s, err);
}

static void expect_load(const char *header, size_t data, size_t tensors)
{
    struct zl_tensors *s;
    struct zl_error err;
    assert_accepted(open_text(header, data, &s, &err), &err);
    assert_int_equal(zl_tensors_count(s), tensors);
    zl_tensors_close(s);
}

#define EXPECT_REJECT(header, data, ...)                                                           \
    do {                                                                                           \
        struct zl_tensors *s_;                                                                     \
        struct zl_error err_;                                                                      \
        int rc_ = open_text(header, data, &s_, &err_);                                             \
        ASSERT_REJECTED(rc_, &err_, "x.safetensors", __VA_ARGS__);                                 \
    } while (0)

static void a_plain_file_loads(void **state)
{
    (void)state;
    struct zl_tensors *s;
    struct zl_error err;
    assert_accepted(
        open_text("{\"__metadata__\":{\"format\":\"pt\"},"
                  "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                  "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]}}   ",
                  26, &s, &err),
        &err);
    const struct zl_named_tensor *a = zl_tensors_find(s, "a"), *b = zl_tensors_find(s, "b");
    assert_non_null(a);
    assert_non_null(b);
    assert_null(zl_tensors_find(s, "c"));
    assert_null(zl_tensors_at(s, 2));
    assert_int_equal(a->t.type, ZL_F32);
    assert_int_equal(a->t.n_dims, 2);
    assert_int_equal(a->t.shape[0], 2);
    assert_int_equal(a->t.shape[1], 3);
    assert_int_equal(a->t.bytes, 24);
    assert_int_equal(((const unsigned char *)a->t.data)[5], 5);
    assert_int_equal(b->t.type, ZL_BF16);
    assert_int_equal(b->t.n_dims, 0);
    assert_int_equal(zl_tensor_elements(&b->t), 1);
    assert_string_equal(a->type_name, "F32");
    assert_string_equal(a->file, files_path("x.safetensors"));
    assert_string_equal(zl_tensors_metadata(s, "format"), "pt");
    assert_null(zl_tensors_metadata(s, "none"));
    zl_tensors_advise(a->t.data, a->t.bytes, ZL_ADVICE_SOON);
    zl_tensors_advise(a->t.data, a->t.bytes, ZL_ADVICE_DONE);
    assert_int_equal(((const unsigned char *)a->t.data)[23], 23);
    zl_tensors_close(s);
}

static void overlap_is_rejected(void **state)
{
    (void)state;
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                  "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}",
                  24, "\"b\"", "overlaps", "8", "expected 16");
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                  "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
                  16, "overlaps");
}

static void hole_is_rejected(void **state)
{
    (void)state;
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                  "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[20,36]}}",
                  36, "\"b\"", "hole", "20", "expected 16");
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[4,20]}}", 20, "hole",
                  "expected 0");
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 17, "16",
                  "17");
    EXPECT_REJECT("{}", 1, "0", "1 bytes");
}

static void unordered_keys_load_in_file_order(void **state)
{
    (void)state;
    struct zl_tensors *s;
    struct zl_error err;
    assert_accepted(open_text("{\"a\":{\"data_offsets\":[8,12],\"shape\":[1],\"dtype\":\"F32\"},"
                              "\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]},"
                              "\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                              12, &s, &err),
                    &err);
    assert_string_equal(zl_tensors_at(s, 0)->name, "c");
    assert_string_equal(zl_tensors_at(s, 1)->name, "z");
    assert_string_equal(zl_tensors_at(s, 2)->name, "a");
    zl_tensors_close(s);
}

static void header_length_is_held_against_the_file(void **state)
{
    (void)state;
    static const char good[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    const uint64_t size = 8 + strlen(good) + 4;
    const uint64_t lengths[] = {UINT64_MAX, size + 1, size - 7, 0, 1, 100000001};
    struct zl_tensors *s;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct zl_error err = {0};
        int rc = zl_safetensors_open(make(good, lengths[i], 4), &s, &err);
        ASSERT_REJECTED(rc, &err, "x.safetensors", "header length");
    }
    struct zl_error err = {0};
    int rc = zl_safetensors_open(make(good, 7, 4), &s, &err); /* cut in the middle of its JSON */
    ASSERT_REJECTED(rc, &err, "x.safetensors", "byte 15");
    err = (struct zl_error){0};
    rc = zl_safetensors_open(files_write("5", "\2\0\0\0\0", 5), &s, &err);
    ASSERT_REJECTED(rc, &err, "5 bytes");
    err = (struct zl_error){0};
    rc = zl_safetensors_open(files_write("0", "", 0), &s, &err);
    ASSERT_REJECTED(rc, &err, "0 bytes");
    err = (struct zl_error){0};
    rc = zl_safetensors_open(files_dir, &s, &err);
    ASSERT_REJECTED(rc, &err, "is a folder, expected a file");
    err = (struct zl_error){0};
    rc = zl_safetensors_open(files_path("absent"), &s, &err);
    ASSERT_REJECTED(rc, &err, "absent", "No such file");
}

static void header_must_be_one_object(void **state)
{
    (void)state;
    EXPECT_REJECT("[]", 0, "byte 8", "0x5b", "\"{\"");
    EXPECT_REJECT(" {}", 0, "byte 8", "0x20");
    EXPECT_REJECT("{}x", 0, "byte 10");
    EXPECT_REJECT("{\"a\"}", 0, "byte 12", "\":\"");
    EXPECT_REJECT("{,}", 0, "byte 9");
    EXPECT_REJECT("{\"a\":1,}", 0, "\"a\"");
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},}", 4,
                  "a name in quotes");
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]} \"b\"", 4,
                  "\",\" or \"}\"");
    EXPECT_REJECT("{\"\\u0000\":1}", 0, "byte");
    EXPECT_REJECT("{\"\xff\":1}", 0, "byte");
    expect_load("{}", 0, 0);
    expect_load("{}     ", 0, 0);
    expect_load("{ }\n\t ", 0, 0);
}

static void deep_and_long_headers_cost_no_memory(void **state)
{
    (void)state;
    struct bytes b = {0};
    put_text(&b, "{\"a\":");
    for (int i = 0; i < 1000000; i++)
        put_text(&b, "[");
    put(&b, "", 1);
    EXPECT_REJECT((char *)b.p, 0, "byte");
    bytes_free(&b);
    put_text(&b, "{\"a\":[");
    for (int i = 0; i < 300000; i++)
        put_text(&b, "[],");
    put_text(&b, "[]]}");
    put(&b, "", 1);
    EXPECT_REJECT((char *)b.p, 0, "longer than", "65536");
    bytes_free(&b);
}

static void duplicate_names_are_rejected_as_such(void **state)
{
    (void)state;
    EXPECT_REJECT("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                  "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                  8, "duplicate", "\"w\"");
    EXPECT_REJECT("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                  "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                  4, "duplicate", "\"w\"");
    EXPECT_REJECT(
        "{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
        "duplicate", "dtype");
    EXPECT_REJECT("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "duplicate", "\"k\"");
    EXPECT_REJECT("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate", "__metadata__");
}

static void metadata_forms(void **state)
{
    (void)state;
    static const char entry[] = "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    char text[256];
    expect_load((snprintf(text, sizeof text, "{%s", entry), text), 4, 1);
    expect_load((snprintf(text, sizeof text, "{\"__metadata__\":{},%s", entry), text), 4, 1);
    expect_load((snprintf(text, sizeof text, "{\"__metadata__\":{\"x\":\"\"},%s", entry), text), 4,
                1);
    EXPECT_REJECT((snprintf(text, sizeof text, "{\"__metadata__\":{\"x\":1},%s", entry), text), 4,
                  "__metadata__", "\"x\"", "text");
    EXPECT_REJECT((snprintf(text, sizeof text, "{\"__metadata__\":{\"x\":{}},%s", entry), text), 4,
                  "__metadata__", "\"x\"");
    EXPECT_REJECT((snprintf(text, sizeof text, "{\"__metadata__\":null,%s", entry), text), 4,
                  "byte 24");
    EXPECT_REJECT((snprintf(text, sizeof text, "{\"__metadata__\":[],%s", entry), text), 4,
                  "byte 24");
}

static void shape_must_fit_the_bytes(void **state)
{
    (void)state;
    static const char *const bad[] = {"[4]",
                                      "[2,1]",
                                      "[]",
                                      "[0]",
                                      "[8589934592,8589934592]",
                                      "[4294967296,4294967296,4294967296]",
                                      "[0,9223372036854775807,9223372036854775807]",
                                      "[4611686018427387904]",
                                      "[-3]",
                                      "[3.0]",
                                      "[3e0]",
                                      "[1e3]",
                                      "[\"3\"]",
                                      "[null]",
                                      "[true]",
                                      "[99999999999999999999]",
                                      "3",
                                      "null",
                                      "{}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[0,12]}}", bad[i]);
        EXPECT_REJECT(text, 12, "");
    }
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,12]}}", 12, "\"a\"",
                  "4 elements of F32", "12 bytes");
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
                  "3 elements of F4");
    static const char *const offsets[] = {"[0]",
                                          "[0,12,24]",
                                          "[12,0]",
                                          "[0,13]",
                                          "[-1,12]",
                                          "[0,18446744073709551615]",
                                          "[0,9223372036854775807]",
                                          "[0,1e1]",
                                          "null",
                                          "{}"};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":%s}}",
                 offsets[i]);
        EXPECT_REJECT(text, 12, "");
    }
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[3]}}", 12, "data_offsets");
    EXPECT_REJECT("{\"a\":{\"dtype\":32,\"shape\":[3],\"data_offsets\":[0,12]}}", 12, "dtype");
    EXPECT_REJECT("{\"a\":[]}", 0, "\"a\"", "expected an object");
}

static void misaligned_data_loads(void **state)
{
    (void)state;
    for (int spaces = 0; spaces < 8; spaces++) {
        char header[256];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}%.*s", spaces,
                 "        ");
        struct zl_tensors *s;
        struct zl_error err;
        assert_accepted(open_text(header, 8, &s, &err), &err);
        uint32_t word;
        memcpy(&word, (const char *)zl_tensors_at(s, 0)->t.data + 4, sizeof word);
        assert_int_equal(word, 0x07060504);
        zl_tensors_close(s);
    }
}

static void types_that_we_lack_are_kept_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        unsigned bits;
    } t[] = {{"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
             {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"BOOL", 8},        {"I8", 8},
             {"U8", 8},      {"I16", 16},    {"U16", 16},    {"I32", 32},        {"U32", 32},
             {"I64", 64},    {"U64", 64},    {"F64", 64},    {"C64", 64},        {"F7", 7}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        char header[256];
        unsigned bytes = t[i].bits * 8 / 8;
        snprintf(header, sizeof header,
                 "{\"w\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%u]},"
                 "\"w.scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%u,%u]}}",
                 t[i].dtype, bytes, bytes, bytes + 4);
        struct zl_tensors *s;
        struct zl_error err;
        assert_accepted(open_text(header, bytes + 4, &s, &err), &err);
        assert_int_equal(zl_tensors_find(s, "w")->t.type, ZL_OTHER);
        assert_string_equal(zl_tensors_find(s, "w")->type_name, t[i].dtype);
        assert_int_equal(zl_tensors_find(s, "w")->t.bytes, bytes);
        assert_int_equal(zl_tensors_find(s, "w.scale")->t.type, ZL_F32);
        zl_tensors_close(s);
    }
    struct zl_tensors *s;
    struct zl_error err;
    assert_accepted(
        open_text("{\"c\":{\"dtype\":\"F32\",\"shape\":[1,1,1,2,2],\"data_offsets\":[0,16]}}", 16,
                  &s, &err),
        &err);
    assert_int_equal(zl_tensors_at(s, 0)->t.type, ZL_OTHER);
    assert_string_equal(zl_tensors_at(s, 0)->type_name, "F32 of 5 dimensions");
    assert_int_equal(zl_tensor_elements(&zl_tensors_at(s, 0)->t), 4);
    zl_tensors_close(s);
}

static void a_file_cut_by_one_byte_is_rejected(void **state)
{
    (void)state;
    EXPECT_REJECT("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 15, "\"a\"",
                  "[0, 16]", "15 bytes");
}

static void hostile_names_do_not_reach_the_terminal(void **state)
{
    (void)state;
    EXPECT_REJECT("{\"a\\n\\u001b[31m\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,15]}}",
                  15, "\"a??[31m\"");
}

static void named(const char *file, const char *name, unsigned value)
{
    char header[256];
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
    struct bytes b = {0};
    put_u64(&b, strlen(header));
    put_text(&b, header);
    put(&b, &(unsigned char){(unsigned char)value}, 1);
    files_write(file, b.p, b.n);
    bytes_free(&b);
}

static void shards_open_through_their_index(void **state)
{
    (void)state;
    struct zl_tensors *s;
    struct zl_error err = {0};
    int rc = zl_safetensors_open_dir(files_dir, &s, &err);
    ASSERT_REJECTED(rc, &err, "expected model.safetensors or model.safetensors.index.json");
    files_write_text("pytorch_model.bin", "");
    err = (struct zl_error){0};
    rc = zl_safetensors_open_dir(files_dir, &s, &err);
    ASSERT_REJECTED(rc, &err, "pytorch_model.bin");
    named("m-1.safetensors", "a", 1);
    named("m-2.safetensors", "b", 2);
    files_write_text("model.safetensors.index.json",
                     "{\"metadata\":{\"total_size\":2},\"weight_map\":{\"b\":\"m-2.safetensors\","
                     "\"a\":\"m-1.safetensors\"}}\n");
    err = (struct zl_error){0};
    assert_accepted(zl_safetensors_open_dir(files_dir, &s, &err), &err);
    assert_int_equal(zl_tensors_count(s), 2);
    assert_string_equal(zl_tensors_at(s, 0)->name, "a");
    assert_int_equal(*(const unsigned char *)zl_tensors_find(s, "b")->t.data, 2);
    assert_string_equal(zl_tensors_find(s, "b")->file, files_path("m-2.safetensors"));
    zl_tensors_close(s);

    static const struct {
        const char *index, *say;
    } bad[] = {
        {"{\"weight_map\":{\"a\":\"m-1.safetensors\",\"c\":\"m-2.safetensors\"}}", "\"c\""},
        {"{\"weight_map\":{\"a\":\"m-2.safetensors\",\"b\":\"m-1.safetensors\"}}",
         "expected it in"},
        {"{\"weight_map\":{\"a\":\"../x/m-1.safetensors\"}}", "the path ../x"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "is a folder, expected a file"},
        {"{\"weight_map\":{\"a\":3}}", "not text"},
        {"{\"weight_map\":{\"a\":\"absent\"}}", "absent"},
        {"{\"weight_map\":{}}", "names no tensors"},
        {"{\"weight_map\":[]}", "byte 14"},
        {"{}", "weight_map"},
        {"[]", "byte 0"},
        {"{\"weight_map\":{\"a\":\"m-1.safetensors\"}} x", "its end"},
        {"{\"weight_map\":{\"a\":\"m-1.safetensors\"},\"weight_map\":{}}", "duplicate"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        files_write_text("model.safetensors.index.json", bad[i].index);
        err = (struct zl_error){0};
        rc = zl_safetensors_open_dir(files_dir, &s, &err);
        ASSERT_REJECTED(rc, &err, files_dir, bad[i].say);
    }
    named("m-2.safetensors", "a", 2);
    files_write_text("model.safetensors.index.json",
                     "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}");
    err = (struct zl_error){0};
    rc = zl_safetensors_open_dir(files_dir, &s, &err);
    ASSERT_REJECTED(rc, &err, "duplicate", "\"a\"", "m-1.safetensors", "m-2.safetensors");
}

static void said_goodbye(void *argument)
{
    ssize_t n = write(STDERR_FILENO, argument, 4);
    (void)n;
}

/* Run `body` in a child with standard error in a pipe; returns its wait status. */
static int in_child(void (*body)(void), char *said, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        body();
        _exit(7);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t r; n + 1 < size && (r = read(ends[0], said + n, size - 1 - n)) > 0;)
        n += (size_t)r;
    said[n] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void train_on_a_file_that_shrinks(void)
{
    struct zl_tensors *s, *other;
    struct zl_error err = {0};
    if (zl_tensors_guard_install(said_goodbye, "bye\n", &err) ||
        zl_safetensors_open(files_path("other"), &other, &err) ||
        zl_safetensors_open(files_path("x.safetensors"), &s, &err) ||
        truncate(files_path("x.safetensors"), 100))
        _exit(8);
    unsigned sum = 0;
    const volatile unsigned char *p = zl_tensors_at(s, 0)->t.data;
    for (uint64_t i = 0; i < zl_tensors_at(s, 0)->t.bytes; i += 512)
        sum += p[i];
    _exit(sum ? 9 : 10);
}

static void a_file_cut_while_in_use_ends_the_run_by_name(void **state)
{
    (void)state;
    named("other", "a", 1);
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[65536],\"data_offsets\":[0,262144]}}";
    make(header, strlen(header), 262144);
    char said[1024];
    int status = in_child(train_on_a_file_that_shrinks, said, sizeof said);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_non_null(strstr(said, files_path("x.safetensors")));
    assert_non_null(strstr(said, "cut short"));
    assert_string_equal(strchr(said, '\n') + 1, "bye\n");
}

static void raise_sigbus(void)
{
    struct zl_error err = {0};
    zl_tensors_guard_install(NULL, NULL, &err);
    raise(SIGBUS);
}

static void a_sigbus_of_others_keeps_its_effect(void **state)
{
    (void)state;
    char said[1024];
    int status = in_child(raise_sigbus, said, sizeof said);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    assert_string_equal(said, "");
}

static void what_is_written_loads_and_is_the_same_each_time(void **state)
{
    (void)state;
    static const float data[6] = {1, -0.0f, NAN, 0x1p-149f, INFINITY, 3};
    const struct zl_safetensors_entry e[] = {{"z", 2, {2, 3, 0, 0}, data},
                                             {"a \"q\" \xc3\xa9", 0, {0}, data + 5},
                                             {"none", 1, {0}, NULL}};
    const struct zl_safetensors_entry turned[] = {e[2], e[1], e[0]};
    const char *const metadata[] = {"format", "pt", "note", "x\ny", NULL};
    const char *one = files_path("one"), *two = files_path("two");
    struct zl_error err = {0};
    struct zl_tensors *s;
    assert_accepted(zl_safetensors_write(one, e, 3, metadata, &err), &err);
    assert_accepted(zl_safetensors_open(one, &s, &err), &err);
    assert_int_equal(zl_tensors_count(s), 3);
    const struct zl_named_tensor *z = zl_tensors_find(s, "z");
    assert_memory_equal(z->t.data, data, sizeof data);
    assert_memory_equal(zl_tensors_find(s, e[1].name)->t.data, data + 5, 4);
    assert_int_equal(zl_tensors_find(s, "none")->t.bytes, 0);
    assert_string_equal(zl_tensors_metadata(s, "note"), "x\ny");
    assert_int_equal(((uintptr_t)zl_tensors_at(s, 0)->t.data) % 64,
                     0); /* the mapping starts at a page */
    zl_tensors_close(s);

    assert_accepted(zl_safetensors_write(two, turned, 3, metadata, &err), &err);
    struct bytes a = {0}, b = {0};
    const char *paths[] = {one, two};
    struct bytes *to[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        unsigned char buffer[1024];
        FILE *f = fopen(paths[i], "rb");
        assert_non_null(f);
        put(to[i], buffer, fread(buffer, 1, sizeof buffer, f));
        fclose(f);
    }
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    bytes_free(&a);
    bytes_free(&b);

    assert_accepted(zl_safetensors_write(two, NULL, 0, NULL, &err), &err);
    assert_accepted(zl_safetensors_open(two, &s, &err), &err);
    assert_int_equal(zl_tensors_count(s), 0);
    zl_tensors_close(s);
}

static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    static const float data[4096];
    const struct zl_safetensors_entry good = {"a", 1, {2, 0, 0, 0}, data},
                                      big = {"a", 1, {4096, 0, 0, 0}, data}, twice[] = {good, good},
                                      binary = {"\xff", 1, {2, 0, 0, 0}, data},
                                      wild = {"a", 2, {1ull << 40, 1ull << 40, 0, 0}, data};
    const char *path = files_path("x");
    struct zl_error err = {0};
    struct rlimit old, small = {4096, RLIM_INFINITY};
    assert_accepted(zl_safetensors_write(path, &good, 1, NULL, &err), &err);
    int rc = zl_safetensors_write(path, twice, 2, NULL, &err);
    ASSERT_REJECTED(rc, &err, path, "duplicate", "\"a\"");
    err = (struct zl_error){0};
    rc = zl_safetensors_write(path, &binary, 1, NULL, &err);
    ASSERT_REJECTED(rc, &err, path, "UTF-8");
    err = (struct zl_error){0};
    rc = zl_safetensors_write(path, &wild, 1, NULL, &err);
    ASSERT_REJECTED(rc, &err, path, "\"a\"");
    err = (struct zl_error){0};
    rc = zl_safetensors_write(path, &good, 1, (const char *const[]){"k", "\xff", NULL}, &err);
    ASSERT_REJECTED(rc, &err, path, "metadata");

    signal(SIGXFSZ, SIG_IGN); /* stands for a full disk: the write fails half way */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    err = (struct zl_error){0};
    rc = zl_safetensors_write(path, &big, 1, NULL, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(rc, ZL_ESYSTEM);
    assert_non_null(strstr(err.text, path));

    struct zl_tensors *s;
    err = (struct zl_error){0};
    assert_accepted(zl_safetensors_open(path, &s, &err), &err);
    assert_int_equal(zl_tensors_find(s, "a")->t.shape[0], 2);
    zl_tensors_close(s);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(files_dir), 0); /* nothing temporary remains */
    assert_int_equal(mkdir(files_dir, 0700), 0);
}

static void reference_models_open(void **state)
{
    (void)state;
    static const struct {
        const char *dir;
        size_t tensors;
        const char *one;
        uint64_t shape[2];
    } m[] = {{"llama", 48, "lm_head.weight", {480, 64}},
             {"llama3", 38, "model.embed_tokens.weight", {400, 64}},
             {"qwen2", 50, "model.embed_tokens.weight", {432, 64}},
             {"qwen3", 58, "lm_head.weight", {448, 64}},
             {"opt", 84, "model.decoder.embed_positions.weight", {130, 64}},
             {"gpt2", 52, "transformer.wpe.weight", {128, 64}},
             {"gpt2-hubstyle", 56, "wpe.weight", {128, 64}},
             {"roberta-cls", 73, "classifier.dense.weight", {64, 64}},
             {"roberta-mlm", 74, "lm_head.dense.weight", {64, 64}}};
    for (size_t i = 0; i < sizeof m / sizeof *m; i++) {
        char dir[256];
        snprintf(dir, sizeof dir, "golden/models/%s", m[i].dir);
        struct zl_tensors *s;
        struct zl_error err = {0};
        assert_accepted(zl_safetensors_open_dir(zl_test_shared(dir), &s, &err), &err);
        assert_int_equal(zl_tensors_count(s), m[i].tensors);
        const struct zl_named_tensor *t = zl_tensors_find(s, m[i].one);
        assert_non_null(t);
        assert_int_equal(t->t.shape[0], m[i].shape[0]);
        assert_int_equal(t->t.shape[1], m[i].shape[1]);
        assert_int_equal(t->t.type, strcmp(m[i].dir, "qwen2") ? ZL_F32 : ZL_BF16);
        zl_tensors_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILES_TEST(a_plain_file_loads),
        FILES_TEST(overlap_is_rejected),
        FILES_TEST(hole_is_rejected),
        FILES_TEST(unordered_keys_load_in_file_order),
        FILES_TEST(header_length_is_held_against_the_file),
        FILES_TEST(header_must_be_one_object),
        FILES_TEST(deep_and_long_headers_cost_no_memory),
        FILES_TEST(duplicate_names_are_rejected_as_such),
        FILES_TEST(metadata_forms),
        FILES_TEST(shape_must_fit_the_bytes),
        FILES_TEST(misaligned_data_loads),
        FILES_TEST(types_that_we_lack_are_kept_by_name),
        FILES_TEST(a_file_cut_by_one_byte_is_rejected),
        FILES_TEST(hostile_names_do_not_reach_the_terminal),
        FILES_TEST(shards_open_through_their_index),
        FILES_TEST(a_file_cut_while_in_use_ends_the_run_by_name),
        FILES_TEST(a_sigbus_of_others_keeps_its_effect),
        FILES_TEST(what_is_written_loads_and_is_the_same_each_time),
        FILES_TEST(a_failed_write_leaves_the_old_file),
        cmocka_unit_test(reference_models_open),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
