/*
 * A GGUF file with random weights, for measurements where the real model is not at hand:
 *     make-gguf [-s smollm2|tinyllama] [-t TYPE] [-k MODEL.gguf] FILE
 * TYPE is that of the matrices: f32, f16, bf16, q8_0, q4_0, q4_1 (the default), q5_0, q5_1, q4_K, q5_K, q6_K. -k copies that file's tokenizer; without it
 * there is one of single bytes.
 */
#include <stdio.h>
#include <unistd.h>

#include "bench/blocks.h"
#include "bench/random_model.h"

int main(int argc, char **argv)
{
    const struct zl_shape *shape = &zl_shapes[ZL_SHAPE_SMOLLM2];
    enum zl_type type = ZL_Q4_1;
    const char *tokenizer = NULL;
    struct zl_error err = {0};
    bool ok = true;
    for (int c; (c = getopt(argc, argv, "s:t:k:")) != -1;) {
        if (c == 's')
            ok &= (shape = zl_shape_find(optarg)) != NULL;
        else if (c == 't')
            ok &= zl_type_find(optarg, &type);
        else if (c == 'k')
            tokenizer = optarg;
        else
            ok = false;
    }
    if (!ok || optind + 1 != argc) {
        fprintf(stderr, "usage: make-gguf [-s smollm2|tinyllama] [-t TYPE] [-k MODEL.gguf] FILE\n");
        return 2;
    }
    if (zl_random_model_write(argv[optind], shape, type, tokenizer, &err)) {
        fprintf(stderr, "make-gguf: %s\n", err.text);
        return 1;
    }
    return 0;
}
