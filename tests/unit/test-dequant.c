/* Stored types to float32: the reference against golden data and hand-made blocks, the fast code against the reference. */
#include "tests/unit/test.h"

#include <jansson.h>
#include <sys/wait.h>

#include "base/rng.h"
#include "kernel/dequant.h"
#include "kernel/isa.h"
#include "kernel/pack.h"

static void halves_convert_exactly(void **state)
{
    (void)state;
    static const struct { uint16_t h; uint32_t f; } cases[] = {
        {0x0000, 0x00000000}, {0x8000, 0x80000000}, {0x3c00, 0x3f800000}, {0xc000, 0xc0000000},
        {0x7bff, 0x477fe000}, {0x0400, 0x38800000}, {0x03ff, 0x387fc000}, {0x0001, 0x33800000},
        {0x8001, 0xb3800000}, {0x7c00, 0x7f800000}, {0xfc00, 0xff800000}, {0x7e00, 0x7fc00000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float f = zl_f16_to_f32(cases[i].h);
        assert_memory_equal(&f, &cases[i].f, 4);
    }
    float f = zl_bf16_to_f32(0x7fc1), g = zl_bf16_to_f32(0x0001);
    uint32_t nan = 0x7fc10000, tiny = 0x00010000;
    assert_memory_equal(&f, &nan, 4);
    assert_memory_equal(&g, &tiny, 4);
}

/* One block of each type, worked out by hand from the layouts in dequant.c. */
static void blocks_made_by_hand(void **state)
{
    (void)state;
    float x[256];
    uint8_t q8[34] = {0x00, 0x38, 0x80, 0x7f, 1}; /* d = 0.5 */
    zl_dequant_ref(ZL_Q8_0, q8, x, 32);
    assert_true(x[0] == -64 && x[1] == 63.5f && x[2] == 0.5f && x[3] == 0 && x[31] == 0);
    uint8_t q40[18] = {0x00, 0x40, 0xf0, 0x9}; /* d = 2 */
    zl_dequant_ref(ZL_Q4_0, q40, x, 32);
    assert_true(x[0] == -16 && x[16] == 14 && x[1] == 2 && x[17] == -16);
    uint8_t q41[20] = {0x00, 0x40, 0x00, 0xbc, 0xf0}; /* d = 2, m = -1 */
    zl_dequant_ref(ZL_Q4_1, q41, x, 32);
    assert_true(x[0] == -1 && x[16] == 29 && x[1] == -1);
    uint8_t q50[22] = {0x00, 0x3c, 0x01, 0x00, 0x02, 0x00, 0x53}; /* d = 1, h bits 0 and 17 */
    zl_dequant_ref(ZL_Q5_0, q50, x, 32);
    assert_true(x[0] == 3 && x[16] == -11 && x[1] == -16 && x[17] == 0);
    uint8_t q51[24] = {0x00, 0x3c, 0x00, 0x40, 0x01, 0x00, 0x02, 0x00, 0x53}; /* d = 1, m = 2 */
    zl_dequant_ref(ZL_Q5_1, q51, x, 32);
    assert_true(x[0] == 21 && x[16] == 7 && x[1] == 2 && x[17] == 18);
    uint8_t q4k[144] = {0x00, 0x3c, 0x00, 0x38}; /* d = 1, m = 0.5 */
    q4k[4] = 0x40 | 3;  /* scale 0 = 3, top bits of scale 4 = 1 */
    q4k[8] = 0x80 | 4;  /* minimum 0 = 4, top bits of minimum 4 = 2 */
    q4k[12] = 0x52;     /* scale 4 = 2 + 16, minimum 4 = 5 + 32 */
    q4k[16] = 0x0f;
    q4k[16 + 64] = 0x01;
    zl_dequant_ref(ZL_Q4_K, q4k, x, 256);
    assert_true(x[0] == 43 && x[1] == -2 && x[32] == 0 && x[128] == 18 - 18.5f && x[129] == -18.5f);
    uint8_t q5k[176] = {0x00, 0x3c, 0x00, 0x38};
    memcpy(q5k + 4, q4k + 4, 12);
    q5k[16] = 0x11; /* fifth bit of elements 0 and 128 */
    q5k[48] = 0x0f;
    q5k[48 + 64] = 0x01;
    zl_dequant_ref(ZL_Q5_K, q5k, x, 256);
    assert_true(x[0] == 31 * 3 - 2 && x[1] == -2 && x[128] == 17 * 18 - 18.5f);
    uint8_t q6k[210] = {0xa5};
    q6k[128] = 0x1e; /* upper bits of elements 0, 32, 64, 96: 2, 3, 1, 0 */
    for (int i = 0; i < 16; i++)
        q6k[192 + i] = (uint8_t)(i - 2);
    q6k[209] = 0x3c;
    zl_dequant_ref(ZL_Q6_K, q6k, x, 256);
    assert_true(x[0] == -2 * 5 && x[1] == 64 && x[16] == 32 && x[32] == 0 && x[64] == 2 * (26 - 32) &&
                x[96] == 4 * -32 && x[255] == 13 * -32);
    float f = 1.25f;
    uint8_t raw[5], bf16[2] = {0x20, 0xc1}, f16[2] = {0x00, 0xd2};
    memcpy(raw + 1, &f, 4);
    zl_dequant_ref(ZL_F32, raw + 1, x, 1);
    zl_dequant_ref(ZL_BF16, bf16, x + 1, 1);
    zl_dequant_ref(ZL_F16, f16, x + 2, 1);
    assert_true(x[0] == 1.25f && x[1] == -10 && x[2] == -48);
}

/* The tensor `name` of the golden file, or NULL. */
static uint8_t *golden(FILE *f, json_t *header, uint64_t data, const char *name, uint64_t *bytes)
{
    json_t *offsets = json_object_get(json_object_get(header, name), "data_offsets");
    if (!offsets)
        return NULL;
    uint64_t from = json_integer_value(json_array_get(offsets, 0));
    *bytes = json_integer_value(json_array_get(offsets, 1)) - from;
    uint8_t *p = malloc(*bytes);
    assert_non_null(p);
    fseek(f, data + from, SEEK_SET);
    assert_int_equal(fread(p, 1, *bytes, f), *bytes);
    return p;
}

static void golden_blocks_are_bit_exact(void **state)
{
    (void)state;
    FILE *f = fopen(zl_test_shared("golden/gguf/quants.safetensors"), "rb");
    assert_non_null(f);
    uint64_t size;
    assert_int_equal(fread(&size, 8, 1, f), 1);
    char *text = calloc(size + 1, 1);
    assert_int_equal(fread(text, 1, size, f), size);
    json_t *header = json_loads(text, 0, NULL);
    assert_non_null(header);
    int seen = 0;
    for (int type = 0; type < ZL_TYPES; type++)
        for (int random = 0; random < 2; random++) {
            char name[64];
            uint64_t raw_bytes, f32_bytes;
            const char *middle = random ? ".random" : "";
            snprintf(name, sizeof name, "%s%s.raw", zl_type_info[type].name, middle);
            uint8_t *raw = golden(f, header, size + 8, name, &raw_bytes);
            if (!raw)
                continue;
            snprintf(name, sizeof name, "%s%s.f32", zl_type_info[type].name, middle);
            uint8_t *want = golden(f, header, size + 8, name, &f32_bytes);
            assert_non_null(want);
            float *got = calloc(f32_bytes, 1);
            zl_dequant_ref(type, raw, got, f32_bytes / 4);
            assert_memory_equal(got, want, f32_bytes);
            memset(got, 0, f32_bytes);
            zl_dequant(type, raw, got, f32_bytes / 4);
            assert_memory_equal(got, want, f32_bytes);
            free(raw), free(want), free(got);
            seen++;
        }
    print_message("%d tensors of golden data, no bit differs\n", seen);
    assert_int_equal(seen, 18);
    json_decref(header);
    free(text);
    fclose(f);
}

/* Random blocks; scale fields may be anything finite, subnormals and negative zero among them. */
static void fill(enum zl_type type, uint8_t *p, int64_t blocks, uint64_t seed)
{
    int64_t bytes = zl_type_info[type].block_bytes;
    for (int64_t i = 0; i < blocks * bytes; i++)
        p[i] = (uint8_t)zl_random_u64(seed, ZL_STREAM_TEST, 3, i);
    for (int64_t i = 0; i < blocks; i++) {
        uint8_t *b = p + i * bytes;
        if (type == ZL_Q6_K)
            b[209] &= 0xbb;
        else
            b[1] &= 0xbb;
        if (type == ZL_F32 || type == ZL_Q4_1 || type == ZL_Q5_1 || type == ZL_Q4_K || type == ZL_Q5_K)
            b[3] &= 0xbb;
    }
}

/* dequantize and pack with this program's instruction set; compare with the reference. */
static void this_isa_is_bit_exact(void **state)
{
    (void)state;
    enum { ROWS = 40, COLS = 768, PN = 32 };
    static uint8_t raw[ROWS * COLS * 4 + 8];
    static float want[ROWS][COLS], got[ROWS][COLS], panel[COLS * 64];
    static const int widths[] = {4, 6, 8, 12, 16, 24, 32, 48, 64};
    int32_t ids[ROWS];
    for (int type = 0; type < ZL_TYPES; type++)
        for (int at = 0; at < 2; at++) {
            fill(type, raw + at, ROWS * COLS / zl_type_info[type].block, 7 + type);
            zl_dequant_ref(type, raw + at, want[0], ROWS * COLS);
            zl_dequant(type, raw + at, got[0], ROWS * COLS);
            assert_memory_equal(got, want, sizeof want);
            for (int i = 0; i < ROWS; i++)
                ids[i] = (i * 7 + 3) % ROWS;
            zl_dequant_rows(type, raw + at, COLS, ids, ROWS, got[0]);
            for (int i = 0; i < ROWS; i++)
                assert_memory_equal(got[i], want[ids[i]], sizeof got[i]);
            struct zl_weight w = {type, raw + at, zl_pack_row_bytes(type, COLS), NULL};
            for (size_t v = 0; v < sizeof widths / sizeof *widths; v++) {
                int pn = widths[v];
                for (int n = pn; n > 0; n -= pn > 5 ? 5 : 1) {
                    int part = n < ROWS - 2 ? n : ROWS - 2;
                    w.rows = v & 1 ? ids : NULL;
                    memset(panel, 0xff, sizeof panel);
                    ZL_ISA_PICK(zl_pack_nk)(&w, 2, part, 32, 610, pn, panel);
                    for (int k = 0; k < 610; k++)
                        for (int j = 0; j < part; j++)
                            assert_memory_equal(&panel[k * pn + j], &want[w.rows ? ids[2 + j] : 2 + j][32 + k], 4);
                    for (int n0 = 0; n0 + n <= COLS; n0 += pn * 5) {
                        memset(panel, 0xff, sizeof panel);
                        ZL_ISA_PICK(zl_pack_kn)(&w, n0, n, 3, 30, pn, panel);
                        for (int k = 0; k < 30; k++)
                            for (int j = 0; j < n; j++)
                                assert_memory_equal(&panel[k * pn + j], &want[w.rows ? ids[3 + k] : 3 + k][n0 + j], 4);
                    }
                }
            }
        }
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"baseline", "avx2", "avx512"};
    for (int i = 0; i < 3; i++) { /* the choice is made once a process */
        pid_t pid = fork();
        if (pid == 0) {
            setenv("ZEROLOCK_ISA", names[i], 1);
            execl("/proc/self/exe", "test-dequant", "this isa", NULL);
            _exit(127);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void activations_pack_into_rows_of_k(void **state)
{
    (void)state;
    static float a[40][700], panel[700 * 64];
    for (int i = 0; i < 40; i++)
        for (int k = 0; k < 700; k++)
            a[i][k] = (float)(i * 1000 + k);
    for (int pm = 4; pm <= 32; pm += 2)
        for (int m = 1; m <= pm; m++)
            for (int transposed = 0; transposed < 2; transposed++) {
                int kc = transposed ? 37 : 333;
                memset(panel, 0xff, sizeof panel);
                ZL_ISA_PICK(zl_pack_m)(&a[1][1], 700, transposed, m, kc, pm, panel);
                for (int k = 0; k < kc; k++)
                    for (int i = 0; i < pm; i++) {
                        float want = i >= m ? 0 : transposed ? a[1 + k][1 + i] : a[1 + i][1 + k];
                        assert_true(panel[k * pm + i] == want);
                    }
            }
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        const struct CMUnitTest one[] = {cmocka_unit_test(this_isa_is_bit_exact)};
        return cmocka_run_group_tests_name(zl_isa_get() == ZL_ISA_AVX512 ? "avx512" : zl_isa_get() == ZL_ISA_AVX2 ? "avx2" : "baseline", one, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_convert_exactly),
        cmocka_unit_test(blocks_made_by_hand),
        cmocka_unit_test(golden_blocks_are_bit_exact),
        cmocka_unit_test(activations_pack_into_rows_of_k),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
