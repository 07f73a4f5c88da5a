/* Models read from GGUF files of every supported type: logits against torch's with the dequantized weights. */
#include "tests/golden/golden.h"

static void logits_match(void **state)
{
    (void)state;
    static const struct {
        const char *model, *file;
    } files[] = {
        {"llama", "llama-f32"},   {"llama", "llama-f16"},       {"llama", "llama-q8_0"},      {"llama", "llama-Q4_0"},
        {"llama", "llama-Q5_1"},  {"llama-k", "llama-k-Q4_K_M"}, {"llama-k", "llama-k-Q5_K_S"}, {"llama3", "llama3-f32"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        struct golden g;
        struct golden_batch batch;
        struct zl_block b;
        struct zl_error err = {0};
        snprintf(path, sizeof path, "golden/gguf/%s.gguf", files[i].file);
        golden_open(&g, path, "golden/gguf/golden.safetensors", 256);
        golden_batch(&g, files[i].model, &batch);
        const struct zl_block_spec spec = {.n_own = g.model.config.layers, .tokens = batch.tok.t, .longest = batch.longest};
        assert_int_equal(zl_block_open(&b, &g.model, &spec, 2, &err), 0);
        float *x = golden_embed(&g, &batch);
        float *logits = golden_logits(&g, &b, zl_block_forward(&b, 0, &batch.tok, x), batch.tok.t);
        golden_close_to(files[i].file, logits, golden_tensor(&g, "%s.logits", files[i].file), 2e-4, 2e-5);
        free(logits);
        free(x);
        zl_block_close(&b);
        golden_batch_free(&batch);
        golden_close(&g);
    }
}

static void unsupported_types_are_refused_by_tensor_name(void **state)
{
    (void)state;
    struct zl_model m;
    static const char *const files[] = {"golden/gguf/llama-k-Q2_K.gguf", "golden/gguf/llama-k-IQ4_XS.gguf"};
    for (int i = 0; i < 2; i++) {
        struct zl_error err = {0};
        assert_int_not_equal(zl_model_open(zl_test_shared(files[i]), 64, &m, &err), 0);
        assert_non_null(strstr(err.text, "token_embd.weight has type"));
        print_message("  %s\n", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_match),
        cmocka_unit_test(unsupported_types_are_refused_by_tensor_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
