/*
 * Generation's key/value cache: tokens fed one by one, few together and all at once give the same logits but for rounding; with a crew of
 * any size the same bits; in 8-bit integers nearly the same.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <unistd.h>

#include "bench/random_model.h"
#include "model/decoder.h"
#include "pipe/crew.h"

enum { TOKENS = 40, VOCAB = 512 };

static const struct zl_shape shape = {.name = "small", .layers = 3, .d = 256, .ffn = 320, .heads = 6, .kv_heads = 2, .head_dim = 64,
                                      .vocab = VOCAB, .context = 128, .norm_eps = 1e-5, .rope_theta = 10000};
static struct zl_model model;
static char path[256];

static int open_model(void **state)
{
    (void)state;
    struct zl_error err = {0};
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/zerolock-decoder-XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    if (zl_random_model_write(path, &shape, ZL_Q4_1, NULL, &err) || zl_model_open(path, 64, &model, &err))
        fail_msg("%s", err.text);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    zl_model_close(&model);
    unlink(path);
    return 0;
}

static int32_t token(int i)
{
    return (int32_t)(i * 37 % 250);
}

/* Logits behind TOKENS tokens that were fed `step` at a time, by a crew of so many threads. */
static void feed(enum zl_compute compute, int threads, int step, float *logits)
{
    struct zl_decoder d;
    struct zl_crew *crew = NULL;
    struct zl_error err = {0};
    if (zl_decoder_open(&d, &model, NULL, TOKENS, 16, compute, threads, &err) || zl_crew_open(&crew, threads, &err))
        fail_msg("%s", err.text);
    zl_crew_join(crew, &d.block.team);
    for (int round = 0; round < 2; round++) { /* the second after a reset */
        const float *last = NULL;
        for (int i = 0; i < TOKENS; i += step) {
            int32_t ids[TOKENS];
            int n = TOKENS - i < step ? TOKENS - i : step;
            for (int j = 0; j < n; j++)
                ids[j] = token(i + j);
            last = zl_decoder_feed(&d, ids, n);
            assert_non_null(last);
        }
        if (round)
            assert_memory_equal(logits, last, VOCAB * sizeof *logits);
        memcpy(logits, last, VOCAB * sizeof *logits);
        assert_null(zl_decoder_feed(&d, &(int32_t){1}, 1)); /* full */
        zl_decoder_reset(&d);
    }
    zl_crew_close(crew);
    zl_decoder_close(&d);
}

/* Root of the mean square of the difference, as a share of that of the logits. */
static double apart(const float *a, const float *b)
{
    double error = 0, square = 0;
    for (int i = 0; i < VOCAB; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        square += a[i] * a[i];
    }
    return sqrt(error / square);
}

static void the_cache_gives_what_the_whole_sequence_gives(void **state)
{
    (void)state;
    float whole[VOCAB], stepped[VOCAB];
    feed(ZL_COMPUTE_F32, 1, TOKENS, whole);
    for (int step = 1; step <= 5; step++) {
        feed(ZL_COMPUTE_F32, 1, step, stepped);
        double off = apart(whole, stepped);
        print_message("%d at a time: residual %.2g, bound 1e-5\n", step, off);
        assert_true(off < 1e-5);
    }
}

static void a_crew_of_any_size_gives_the_same_bits(void **state)
{
    (void)state;
    for (enum zl_compute c = ZL_COMPUTE_F32; c <= ZL_COMPUTE_INT8; c += ZL_COMPUTE_INT8 - ZL_COMPUTE_F32) {
        float one[VOCAB], more[VOCAB];
        if (zl_compute_missing(c))
            continue;
        for (int step = 1; step <= 4; step += 3) {
            feed(c, 1, step, one);
            for (int threads = 2; threads <= 4; threads++) {
                feed(c, threads, step, more);
                assert_memory_equal(one, more, sizeof one);
            }
        }
    }
}

static void integers_of_8_bits_are_near_float32(void **state)
{
    (void)state;
    float f32[VOCAB], int8[VOCAB];
    const char *why = zl_compute_missing(ZL_COMPUTE_INT8);
    if (why) {
        print_message("skipped: %s\n", why);
        skip();
    }
    feed(ZL_COMPUTE_F32, 1, 1, f32);
    feed(ZL_COMPUTE_INT8, 1, 1, int8);
    double off = apart(f32, int8);
    print_message("residual %.2g, bound 0.03, and not 0\n", off);
    assert_true(off > 1e-5 && off < 0.03);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_gives_what_the_whole_sequence_gives),
        cmocka_unit_test(a_crew_of_any_size_gives_the_same_bits),
        cmocka_unit_test(integers_of_8_bits_are_near_float32),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
