/* Models with random weights: they open in every type, and their weights are such as a model has. */
#include "tests/unit/test.h"

#include <math.h>
#include <unistd.h>

#include "bench/blocks.h"
#include "bench/random_model.h"
#include "kernel/dequant.h"
#include "model/model.h"

static const struct zl_shape small = {.name = "small",
                                      .layers = 2,
                                      .d = 256,
                                      .ffn = 320, /* blocks of 256 do not divide it */
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .head_dim = 64,
                                      .vocab = 512,
                                      .context = 128,
                                      .norm_eps = 1e-5,
                                      .rope_theta = 10000};

static void name_file(char *path, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, size, "%s/zerolock-random-XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

static void open_model(const char *path, struct zl_model *m, struct zl_tokenizer **t)
{
    struct zl_error err = {0};
    if (zl_model_open(path, 64, m, &err) || zl_model_tokenizer(m, t, &err))
        fail_msg("%s", err.text);
}

static void values_spread_as_weights_do_in_every_type(void **state)
{
    (void)state;
    enum { N = 256 * 64 };
    for (int type = 0; type < ZL_TYPES; type++) {
        uint64_t seed = 5, bytes = N / zl_type_info[type].block * zl_type_info[type].block_bytes;
        uint8_t *stored = malloc(bytes);
        float *x = malloc(N * sizeof *x);
        zl_blocks_random((enum zl_type)type, stored, N / zl_type_info[type].block, &seed);
        zl_dequant_ref((enum zl_type)type, stored, x, N);
        double mean = 0, square = 0, most = 0;
        for (int i = 0; i < N; i++) {
            mean += (double)x[i] / N;
            square += (double)x[i] * (double)x[i] / N;
            most = fmax(most, fabs((double)x[i]));
        }
        print_message("%s: mean %.2g, deviation %.3g, largest %.3g\n", zl_type_info[type].name, mean, sqrt(square), most);
        assert_true(fabs(mean) < 2.5e-3); /* q4_0 has one level more below zero than above */
        assert_true(sqrt(square) > 0.008 && sqrt(square) < 0.03 && most < 0.06);
        free(stored), free(x);
    }
}

static void a_model_of_every_type_opens_and_reads_text(void **state)
{
    (void)state;
    char path[256];
    name_file(path, sizeof path);
    for (int type = 0; type < ZL_TYPES; type++) {
        struct zl_error err = {0};
        struct zl_model m;
        struct zl_tokenizer *t;
        if (zl_random_model_write(path, &small, (enum zl_type)type, NULL, &err))
            fail_msg("%s", err.text);
        open_model(path, &m, &t);
        assert_int_equal(m.layer[1].linear[ZL_W_Q].type, type);
        assert_int_equal(m.config.layers, 2);
        assert_false(m.config.tied);
        assert_int_equal(m.n_unused, 0);
        assert_int_equal(zl_tokenizer_size(t), 512);
        zl_tokenizer_close(t);
        zl_model_close(&m);
    }
    unlink(path);
}

static void a_tokenizer_is_copied_from_another_file(void **state)
{
    (void)state;
    char from[256], to[256];
    struct zl_error err = {0};
    struct zl_model m;
    struct zl_tokenizer *t;
    struct zl_shape wider = small;
    wider.vocab = 600;
    name_file(from, sizeof from);
    name_file(to, sizeof to);
    assert_int_equal(zl_random_model_write(from, &small, ZL_Q8_0, NULL, &err), 0);
    assert_int_equal(zl_random_model_write(to, &wider, ZL_Q4_K, from, &err), 0);
    open_model(to, &m, &t);
    assert_int_equal(zl_tokenizer_size(t), 600);
    size_t n;
    assert_memory_equal(zl_tokenizer_token(t, 257, &n), "<|endoftext|>", 13);
    zl_tokenizer_close(t);
    zl_model_close(&m);
    /* more tokens than rows are refused, and nothing is left behind */
    wider.vocab = 300;
    assert_int_equal(zl_random_model_write(to, &wider, ZL_Q8_0, from, &err), ZL_EINPUT);
    assert_non_null(strstr(err.text, "512 tokens, expected 1 to 300"));
    assert_int_equal(access(to, F_OK), -1);
    unlink(from);
}

static void a_folder_that_is_not_there_is_said(void **state)
{
    (void)state;
    struct zl_error err = {0};
    assert_int_equal(zl_random_model_write("/nowhere/at/all.gguf", &small, ZL_F16, NULL, &err), ZL_ESYSTEM);
    assert_non_null(strstr(err.text, "/nowhere/at/all.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_spread_as_weights_do_in_every_type),
        cmocka_unit_test(a_model_of_every_type_opens_and_reads_text),
        cmocka_unit_test(a_tokenizer_is_copied_from_another_file),
        cmocka_unit_test(a_folder_that_is_not_there_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
