/* Mutated safetensors files: either refused with a sentence or open with every byte readable.
 * Usage: fuzz-safetensors [COUNT [FIRST]] */
#include "tests/fuzz/mutate.h"

#include "format/tensors.h"

static uint64_t visit(const struct zl_tensors *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < zl_tensors_count(s); i++) {
        const struct zl_named_tensor *t = zl_tensors_at(s, i);
        assert_ptr_equal(zl_tensors_find(s, t->name), t);
        assert_true(t->t.type == ZL_OTHER || t->t.n_dims <= 4);
        uint64_t bytes;
        if (t->t.type != ZL_OTHER) {
            assert_true(zl_type_bytes(t->t.type, zl_tensor_elements(&t->t), &bytes));
            assert_true(bytes == t->t.bytes);
        }
        sum += touch(t->t.data, t->t.bytes) + strlen(t->type_name);
    }
    zl_tensors_metadata(s, "format");
    return sum;
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "\"",
                                        "{}",
                                        "[]",
                                        "0",
                                        "-1",
                                        "4",
                                        "16",
                                        "1e3",
                                        "99999999999999999999",
                                        "9223372036854775807",
                                        "null",
                                        "true",
                                        "\"F32\"",
                                        "\"BF16\"",
                                        "\"F4\"",
                                        "\"dtype\"",
                                        "\"shape\"",
                                        "\"data_offsets\"",
                                        "\"__metadata__\":{},",
                                        "\\u0000",
                                        "\\ud800",
                                        "\xff",
                                        "\"a\":",
                                        NULL};
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_"
        "offsets\":[0,16]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]},"
        "\"c\":{\"dtype\":\"F4\",\"shape\":[1,1,1,1,4],\"data_offsets\":[22,24]}}";
    struct mutator m;
    struct bytes file = {0};
    uint64_t first, end, opened = 0, sum = 0;
    fuzz_range(argc, argv, &first, &end);
    mutator_init(&m, words);
    put_u64(&file, strlen(header));
    put_text(&file, header);
    put_zeros(&file, 24);
    for (uint64_t i = first; i < end; i++) {
        struct zl_tensors *s;
        struct zl_error err = {0};
        mutant(&m, &file, i, 0);
        if (!zl_safetensors_open(m.path, &s, &err)) {
            opened++;
            sum += visit(s);
            zl_tensors_close(s);
        } else if (err.code == ZL_OK || !*err.text) {
            fprintf(stderr, "mutant %llu: refused without a word\n", (unsigned long long)i);
            return 1;
        }
    }
    printf("%llu mutants, %llu open, byte sum %llu\n", (unsigned long long)(end - first),
           (unsigned long long)opened, (unsigned long long)sum);
    bytes_free(&file);
    return 0;
}
