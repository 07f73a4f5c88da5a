/*
 * Measuring on this machine: the multiply-add peak of a core, and what part of it matrix products, the kernels around them and a whole
 * training step reach. Results go to the caller one by one, as they are there; nothing here prints. Best of several repetitions for
 * single kernels, since other programs can only slow them down, and with one thread the processor's time instead of the clock's; a step is
 * measured as a whole, by the clock.
 */
#ifndef ZL_BENCH_BENCH_H
#define ZL_BENCH_BENCH_H

#include <stdbool.h>

#include "base/error.h"
#include "base/values.h"
#include "kernel/compute.h"
#include "kernel/gemm.h"
#include "kernel/isa.h"
#include "kernel/profile.h"
#include "train/hooks.h"

struct zl_bench_options {
    const char *model;     /* of the step; NULL: random weights, in a temporary file, of the shape of */
    bool tinyllama;        /* TinyLlama-1.1B instead of SmolLM2-135M */
    const char *type;      /* of random weights: a name of zl_type_info */
    struct zl_strings only; /* of "gemm", "ops", "step"; n == 0: all. The peak is always measured */
    struct zl_strings types; /* of the products' weights; n == 0: f32, bf16, q8_0, q4_1, q4_K */
    struct zl_numbers rows; /* of the products; n == 0: 1, 8, 32, 128, 512, 2048 */
    uint64_t batch_tokens, micro_batch_tokens, max_length; /* of a step */
    uint64_t rank;
    enum zl_compute compute; /* of products with frozen weights */
    bool quick;
    uint64_t threads; /* 0: all usable cores */
    bool json, quiet; /* for the caller who prints */
    const struct zl_hooks *hooks; /* NULL: none */
    struct zl_given given;
};

enum { ZL_ISAS = ZL_ISA_AVX512 + 1 };

struct zl_bench_peak {
    char cpu[80];     /* the processor's name, or "" */
    int threads;
    enum zl_compute compute;
    enum zl_isa isa;  /* in use */
    double isa_gflops[ZL_ISAS]; /* of one core alone, by instruction set; 0: not measured */
    double gflops;    /* of one core alone: the largest of them. What shares are of, times the cores */
    double all_gflops; /* of one core while all threads are at it */
    const char *microkernel; /* its name */
    double microkernel_gflops; /* of one core, with panels in the first-level cache */
    const char *bf16;          /* the same of the one in bfloat16, if that is asked for, else NULL */
    double bf16_gflops;
    const char *no_amx;        /* why that isn't AMX's; NULL: it is, or isn't asked for */
};

struct zl_bench_product {
    const char *model;
    enum zl_type type;
    enum zl_layout layout; /* forward or backward */
    int64_t in, out, m; /* of the linear layer; rows */
    double seconds, gflops, share; /* of peak times threads */
};

/* A layer whose products are not measured: its rows of `in` weights are no whole number of the type's blocks. */
struct zl_bench_skipped {
    const char *model;
    enum zl_type type;
    int64_t in, out;
};

struct zl_bench_kernel {
    const char *name;
    int64_t tokens;
    double seconds;
    double gflops, share; /* 0 where memory and not arithmetic counts */
    double gbytes; /* GB/s, each array once in and once out; 0 where arithmetic counts */
};

struct zl_bench_step {
    const char *model;  /* path, or the shape of random weights */
    bool random;
    const char *type;   /* of random weights */
    uint64_t tokens, labelled, steps, micro_tokens, length; /* of all measured steps; of a micro-batch; of its sequences */
    double seconds;
    double flops, utilisation; /* that the mathematics needs; per peak x threads x seconds */
    struct zl_part_time {
        double seconds, gflops; /* 0: not counted in operations */
    } part[ZL_PARTS];
    double rest_seconds;
    uint64_t peak_pss_bytes, peak_private_bytes;
};

struct zl_bench_sink {
    void *context;
    void (*peak)(void *context, const struct zl_bench_peak *p);
    void (*product)(void *context, const struct zl_bench_product *p);
    void (*skipped)(void *context, const struct zl_bench_skipped *s);
    void (*kernel)(void *context, const struct zl_bench_kernel *k);
    void (*step)(void *context, const struct zl_bench_step *s);
};

int zl_bench_run(const struct zl_bench_options *o, const struct zl_bench_sink *sink, struct zl_error *err);

#endif
