/* `zerolock bench`: what src/bench measures, as tables while it comes or as one JSON object at the end. */
#include "config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/type.h"
#include "cmd/commands.h"

static const char *const isa_names[ZL_ISAS] = {
    [ZL_ISA_BASELINE] = "baseline", [ZL_ISA_AVX2] = "avx2", [ZL_ISA_AVX512] = "avx512"};

static const char *direction(enum zl_layout layout)
{
    return layout == ZL_B_NK ? "forward" : "backward";
}

/* ---- tables ---- */
struct table {
    struct zl_bench_product line[64]; /* the products of a line: one layer and direction, all rows */
    int n;
    const char *model; /* whose block is begun, and of which type; NULL: none */
    enum zl_type type;
    bool rows; /* of the block are named */
    bool kernels;
};

/* Begin a block of lines where the model or the type is another than before. */
static void heading(struct table *t, const char *model, enum zl_type type)
{
    if (t->model && strcmp(t->model, model) == 0 && t->type == type)
        return;
    printf("\n%s, %s weights: GFLOP/s and share by rows\n", model, zl_type_info[type].name);
    t->model = model;
    t->type = type;
    t->rows = false;
}

/* Print the line that is complete. */
static void end_line(struct table *t)
{
    const struct zl_bench_product *first = t->line;
    if (!t->n)
        return;
    heading(t, first->model, first->type);
    if (!t->rows) {
        printf("  %5s   %-5s %-8s", "in", "out", "");
        for (int i = 0; i < t->n; i++)
            printf("  %14lld", (long long)t->line[i].m);
        putchar('\n');
    }
    t->rows = true;
    printf("  %5lld x %-5lld %-8s", (long long)first->in, (long long)first->out, direction(first->layout));
    for (int i = 0; i < t->n; i++)
        printf("  %7.1f %3.0f %%", t->line[i].gflops, 100 * t->line[i].share);
    putchar('\n');
    t->n = 0;
    fflush(stdout);
}

static void print_peak(void *context, const struct zl_bench_peak *p)
{
    (void)context;
    printf("%s%s%d thread%s\n\npeak of a core, GFLOP/s (multiply-add counts two, float32)\n", p->cpu, p->cpu[0] ? ", " : "",
           p->threads, p->threads == 1 ? "" : "s");
    for (int i = 0; i < ZL_ISAS; i++)
        if (p->isa_gflops[i] > 0)
            printf("  %-22s %8.1f%s\n", isa_names[i], p->isa_gflops[i], i == (int)p->isa ? "  (in use)" : "");
    printf("  %-22s %8.1f  %3.0f %%\n", "all threads at once", p->all_gflops, 100 * p->all_gflops / p->gflops);
    printf("  %-22s %8.1f  %3.0f %%\n", p->microkernel, p->microkernel_gflops, 100 * p->microkernel_gflops / p->gflops);
    if (p->bf16)
        printf("  %-22s %8.1f  %3.0f %%  (bfloat16%s%s)\n", p->bf16, p->bf16_gflops, 100 * p->bf16_gflops / p->gflops, p->no_amx ? "; " : "",
               p->no_amx ? p->no_amx : "");
    printf("Shares below are of %d x %.1f GFLOP/s%s.\n", p->threads, p->gflops,
           p->compute == ZL_COMPUTE_BF16   ? "; frozen weights are multiplied in bfloat16"
           : p->compute == ZL_COMPUTE_INT8 ? "; frozen weights are multiplied in 8-bit integers, forward"
                                           : "");
    fflush(stdout);
}

static void print_product(void *context, const struct zl_bench_product *p)
{
    struct table *t = context;
    const struct zl_bench_product *first = t->line;
    if (t->n == 64 || (t->n && (first->in != p->in || first->out != p->out || first->layout != p->layout || first->type != p->type)))
        end_line(t);
    t->line[t->n++] = *p;
}

static void print_skipped(void *context, const struct zl_bench_skipped *s)
{
    struct table *t = context;
    end_line(t);
    heading(t, s->model, s->type);
    printf("  %5lld x %-5lld cannot be: %s has blocks of %lld, which do not divide rows of %lld\n", (long long)s->in, (long long)s->out,
           zl_type_info[s->type].name, (long long)zl_type_info[s->type].block, (long long)s->in);
}

static void print_kernel(void *context, const struct zl_bench_kernel *k)
{
    struct table *t = context;
    end_line(t);
    if (!t->kernels)
        printf("\n%-20s %8s %12s %10s %7s %8s\n", "kernel", "tokens", "microseconds", "GFLOP/s", "share", "GB/s");
    t->kernels = true;
    printf("%-20s %8lld %12.1f", k->name, (long long)k->tokens, k->seconds * 1e6);
    if (k->gflops > 0)
        printf(" %10.1f %5.0f %%\n", k->gflops, 100 * k->share);
    else
        printf(" %10s %7s %8.1f\n", "", "", k->gbytes);
    fflush(stdout);
}

static void print_step(void *context, const struct zl_bench_step *s)
{
    end_line(context);
    printf("\ntraining step, %s%s%s%s\n  %llu step%s of backpropagation, %llu tokens in micro-batches of %llu, sequences of %llu\n", s->model,
           s->random ? " with random " : "", s->random ? s->type : "", s->random ? " weights" : "",
           (unsigned long long)s->steps, s->steps == 1 ? "" : "s", (unsigned long long)s->tokens, (unsigned long long)s->micro_tokens,
           (unsigned long long)s->length);
    printf("  %.1f tokens/s, model-FLOPs utilisation %.1f %%, peak memory %.0f MiB (%.0f MiB private)\n\n", (double)s->tokens / s->seconds,
           100 * s->utilisation, (double)s->peak_pss_bytes / 1048576, (double)s->peak_private_bytes / 1048576);
    printf("  %-20s %9s %7s %10s\n", "part", "seconds", "time", "GFLOP/s");
    for (int part = 0; part < ZL_PARTS; part++) {
        printf("  %-20s %9.3f %5.1f %%", zl_part_names[part], s->part[part].seconds, 100 * s->part[part].seconds / s->seconds);
        if (s->part[part].gflops > 0)
            printf(" %10.1f", s->part[part].gflops);
        putchar('\n');
    }
    printf("  %-20s %9.3f %5.1f %%\n", "rest", s->rest_seconds, 100 * s->rest_seconds / s->seconds);
}

/* ---- one JSON object ---- */
static json_t *array_of(json_t *root, const char *name)
{
    json_t *a = json_object_get(root, name);
    if (!a) {
        a = json_array();
        json_object_set_new(root, name, a);
    }
    return a;
}

static void keep_peak(void *context, const struct zl_bench_peak *p)
{
    json_t *isa = json_object();
    for (int i = 0; i < ZL_ISAS; i++)
        if (p->isa_gflops[i] > 0)
            json_object_set_new(isa, isa_names[i], json_real(p->isa_gflops[i]));
    json_object_set_new(context, "cpu", json_string(p->cpu));
    json_object_set_new(context, "threads", json_integer(p->threads));
    json_object_set_new(context, "isa", json_string(isa_names[p->isa]));
    json_object_set_new(context, "compute", json_string(zl_compute_names[p->compute]));
    json_object_set_new(context, "peak",
                        json_pack("{s:f, s:f, s:o, s:s, s:f}", "gflops", p->gflops, "all_threads_gflops", p->all_gflops, "isa_gflops",
                                  isa, "microkernel", p->microkernel, "microkernel_gflops", p->microkernel_gflops));
    if (p->bf16) {
        json_t *peak = json_object_get(context, "peak");
        json_object_set_new(peak, "bf16_microkernel", json_string(p->bf16));
        json_object_set_new(peak, "bf16_microkernel_gflops", json_real(p->bf16_gflops));
    }
}

static void keep_product(void *context, const struct zl_bench_product *p)
{
    json_array_append_new(array_of(context, "gemm"),
                          json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f}", "model", p->model, "type",
                                    zl_type_info[p->type].name, "direction", direction(p->layout), "in", (json_int_t)p->in, "out",
                                    (json_int_t)p->out, "rows", (json_int_t)p->m, "seconds", p->seconds, "gflops", p->gflops,
                                    "share", p->share));
}

static void keep_skipped(void *context, const struct zl_bench_skipped *s)
{
    json_array_append_new(array_of(context, "gemm_impossible"),
                          json_pack("{s:s, s:s, s:I, s:I}", "model", s->model, "type", zl_type_info[s->type].name, "in",
                                    (json_int_t)s->in, "out", (json_int_t)s->out));
}

static void keep_kernel(void *context, const struct zl_bench_kernel *k)
{
    json_t *o = json_pack("{s:s, s:I, s:f}", "name", k->name, "tokens", (json_int_t)k->tokens, "seconds", k->seconds);
    if (k->gflops > 0) {
        json_object_set_new(o, "gflops", json_real(k->gflops));
        json_object_set_new(o, "share", json_real(k->share));
    } else {
        json_object_set_new(o, "gbytes_per_second", json_real(k->gbytes));
    }
    json_array_append_new(array_of(context, "ops"), o);
}

static void keep_step(void *context, const struct zl_bench_step *s)
{
    json_t *parts = json_object();
    json_t *o = json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:o}", "model", s->model, "random", s->random,
                          "steps", (json_int_t)s->steps, "tokens", (json_int_t)s->tokens, "labelled_tokens",
                          (json_int_t)s->labelled, "micro_batch_tokens", (json_int_t)s->micro_tokens, "max_length",
                          (json_int_t)s->length, "seconds", s->seconds, "tokens_per_second", (double)s->tokens / s->seconds, "flops",
                          s->flops, "utilisation", s->utilisation, "peak_pss_bytes", (json_int_t)s->peak_pss_bytes,
                          "peak_private_bytes", (json_int_t)s->peak_private_bytes, "parts", parts);
    for (int part = 0; part < ZL_PARTS; part++)
        json_object_set_new(parts, zl_part_names[part],
                            json_pack("{s:f, s:f, s:f}", "seconds", s->part[part].seconds, "share",
                                      s->part[part].seconds / s->seconds, "gflops", s->part[part].gflops));
    json_object_set_new(parts, "rest", json_pack("{s:f, s:f}", "seconds", s->rest_seconds, "share", s->rest_seconds / s->seconds));
    if (s->random)
        json_object_set_new(o, "type", json_string(s->type));
    json_object_set_new(context, "step", o);
}

static int run_json(const struct zl_bench_options *o, struct zl_error *err)
{
    json_t *root = json_object();
    json_object_set_new(root, "zerolock", json_string(PACKAGE_VERSION));
    const struct zl_bench_sink sink = {root, keep_peak, keep_product, keep_skipped, keep_kernel, keep_step};
    int rc = zl_bench_run(o, &sink, err);
    char *text = rc ? NULL : json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(root);
    if (!rc && !text)
        rc = zl_fail(err, ZL_EMEMORY, "no memory for the JSON text");
    if (text)
        puts(text);
    free(text);
    return rc;
}

static int run_tables(const struct zl_bench_options *o, struct zl_error *err)
{
    struct table t = {0};
    const struct zl_bench_sink sink = {&t, print_peak, print_product, print_skipped, print_kernel, print_step};
    int rc = zl_bench_run(o, &sink, err);
    end_line(&t);
    return rc;
}

int zl_cmd_bench(int argc, char **argv)
{
    struct zl_bench_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    int rc = zl_options_parse(&zl_bench_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED) {
        o.hooks = zl_process_prepare(o.quiet);
        rc = zl_bench_options_settle(&o, &err);
        if (!rc)
            rc = o.json ? run_json(&o, &err) : run_tables(&o, &err);
    }
    zl_memory_free(&memory);
    return zl_command_finish(&zl_bench_command, rc, &err);
}
