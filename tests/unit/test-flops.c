/* The operations that a step needs, against a count by hand. */
#include "tests/unit/test.h"

#include "bench/flops.h"
#include "bench/shapes.h"

/* Two layers, d 4, two query heads and one of keys of 2, MLP 6, vocabulary 10. The linear layers of one: q 4 x 4, k 4 x 2, v 4 x 2, o 4 x 4,
 * gate 4 x 6, up 4 x 6, down 6 x 4. */
static const struct zl_shape tiny = {
    .layers = 2, .d = 4, .ffn = 6, .heads = 2, .kv_heads = 1, .head_dim = 2, .vocab = 10, .norm_eps = 1, .rope_theta = 1};

static void layers_attention_and_head_are_counted_as_by_hand(void **state)
{
    (void)state;
    const struct zl_config c = zl_shape_config(&tiny);
    const struct zl_lora_spec none = {.rank = 3};
    const struct zl_work_done w = {.tokens = 5, .labelled = 3, .pairs = 3 * 4 / 2 + 2 * 3 / 2}; /* sequences of 3 and 2 */
    double f[ZL_PARTS];
    zl_flops(&c, &none, &w, f);
    const double weights = 16 + 8 + 8 + 16 + 24 + 24 + 24;
    assert_true(f[ZL_PART_FORWARD] == 2 * 5 * 2 * weights);
    assert_true(f[ZL_PART_BACKWARD] == 2 * 5 * (2 * weights - 32)); /* nothing behind the first q, k, v */
    assert_true(f[ZL_PART_LORA] == 0);
    assert_true(f[ZL_PART_ATTENTION] == 2 * 2 * 2 * 4 * 9);
    assert_true(f[ZL_PART_ATTENTION_BACKWARD] == 2 * 2 * 2 * 8 * 9);
    assert_true(f[ZL_PART_HEAD] == 4 * 3 * 4 * 10);
    assert_true(f[ZL_PART_NORM] == 0 && f[ZL_PART_OPTIMIZER] == 0);
}

static void adapters_add_six_operations_a_weight_of_theirs(void **state)
{
    (void)state;
    const struct zl_config c = zl_shape_config(&tiny);
    const struct zl_lora_spec none = {.rank = 3}, down = {.rank = 3, .targets = 1u << ZL_W_DOWN};
    const struct zl_work_done w = {.tokens = 7, .labelled = 1, .pairs = 28};
    double with[ZL_PARTS], without[ZL_PARTS], more = 0;
    zl_flops(&c, &down, &w, with);
    zl_flops(&c, &none, &w, without);
    for (int i = 0; i < ZL_PARTS; i++)
        more += with[i] - without[i];
    assert_true(more == 2 /* layers */ * 7 * 6 * 3 * (6 + 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_attention_and_head_are_counted_as_by_hand),
        cmocka_unit_test(adapters_add_six_operations_a_weight_of_theirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
