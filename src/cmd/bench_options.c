/* The options of `zerolock bench`: their table and what they mean together. Fields: src/bench/bench.h. */
#include "config.h"

#include <string.h>

#include "base/log.h"
#include "cmd/commands.h"

#define FIELD(f) .offset = offsetof(struct zl_bench_options, f)

static const char *const parts[] = {"gemm", "ops", "step"};

static const struct zl_option options[] = {
    {.name = "only",
     .letter = 'o',
     .arg = "PART,...",
     .kind = ZL_OPTION_COMMAS,
     FIELD(only),
     .shown = "all",
     .also = "part what",
     .group = "What is measured",
     .help = "Beside the peak, only these: gemm (matrix products), ops (the kernels around them), step (a whole training step)."},
    {.name = "compute",
     .kind = ZL_OPTION_CHOICE,
     FIELD(compute),
     .choices = zl_compute_names,
     .fallback = "f32",
     .also = "dtype precision",
     .help = "Number format in which products with frozen weights are multiplied. Shares stay those of the float32 peak."},
    {.name = "quick",
     .kind = ZL_OPTION_FLAG,
     FIELD(quick),
     .also = "fast short",
     .help = "A few seconds: fewer shapes, types and repetitions, a step of one micro-batch. The figures are rougher."},
    {.name = "types",
     .letter = 't',
     .arg = "TYPE,...",
     .kind = ZL_OPTION_COMMAS,
     FIELD(types),
     .shown = "f32,bf16,q8_0,q4_1,q4_K",
     .also = "weights quants",
     .group = "Matrix products",
     .help = "Stored types of the weights."},
    {.name = "rows",
     .arg = "NUMBER,...",
     .kind = ZL_OPTION_NUMBERS,
     FIELD(rows),
     .min = 1,
     .max = 16384,
     .shown = "1,8,32,128,512,2048",
     .also = "m tokens",
     .help = "Rows of activations: the tokens that go through a layer together."},
    {.name = "model",
     .letter = 'm',
     .arg = "MODEL",
     .kind = ZL_OPTION_STRING,
     FIELD(model),
     .shown = "random weights in a temporary file, in the shape of SmolLM2-135M",
     .group = "Training step",
     .help = "The model whose step is measured: a Hugging Face folder or a GGUF file."},
    {.name = "tinyllama", .kind = ZL_OPTION_FLAG, FIELD(tinyllama), .help = "Random weights in the shape of TinyLlama-1.1B instead."},
    {.name = "type",
     .arg = "TYPE",
     .kind = ZL_OPTION_STRING,
     FIELD(type),
     .fallback = "q4_1",
     .help = "Stored type of random weights."},
    {.name = "batch-tokens",
     .letter = 'b',
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(batch_tokens),
     .fallback = "2048",
     .min = 2,
     .max = 16777216,
     .also = "batch-size",
     .help = "Tokens between two updates."},
    {.name = "micro-batch-tokens",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(micro_batch_tokens),
     .fallback = "256",
     .min = 2,
     .max = 65536,
     .also = "micro-batch-size",
     .help = "Tokens that go through the model together."},
    {.name = "max-length",
     .letter = 'l',
     .arg = "TOKENS",
     .kind = ZL_OPTION_COUNT,
     FIELD(max_length),
     .fallback = "256",
     .min = 2,
     .max = 65536,
     .also = "max-seq-length context-length",
     .help = "Tokens of a sequence; as many whole ones as a micro-batch holds."},
    {.name = "rank",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(rank),
     .fallback = "8",
     .min = 1,
     .max = 1024,
     .also = "lora-r lora-rank r",
     .help = "Rank of the LoRA factors."},
    {.name = "threads",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(threads),
     .min = 1,
     .max = 1024,
     .shown = "all usable cores",
     .also = "cores num-threads cpus jobs",
     .group = "Machine and output",
     .help = "Cores to use."},
    {.name = "json", .kind = ZL_OPTION_FLAG, FIELD(json), .help = "Print one JSON object."},
    {.name = "quiet", .letter = 'q', .kind = ZL_OPTION_FLAG, FIELD(quiet), .help = "No notes, only warnings and errors."},
};

static const char *const usage[] = {"[OPTION]...", NULL};

const struct zl_command zl_bench_command = {
    .name = "bench",
    .summary = "measure what this machine does of its peak",
    .usage = usage,
    .about = "Measure the multiply-add peak of a core, and what part of it matrix products, the kernels around them and a whole training "
             "step reach. Nothing else should run meanwhile.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .given = offsetof(struct zl_bench_options, given),
};

static bool measures(const struct zl_bench_options *o, const char *part)
{
    for (size_t i = 0; i < o->only.n; i++)
        if (strcmp(o->only.v[i], part) == 0)
            return true;
    return o->only.n == 0;
}

int zl_bench_options_settle(const struct zl_bench_options *o, struct zl_error *err)
{
    for (size_t i = 0; i < o->only.n; i++) {
        size_t known = 0;
        while (known < sizeof parts / sizeof parts[0] && strcmp(parts[known], o->only.v[i]) != 0)
            known++;
        if (known == sizeof parts / sizeof parts[0])
            return zl_fail(err, ZL_EUSAGE, "--only: '%s' is not one of gemm, ops, step", o->only.v[i]);
    }
    if (!measures(o, "gemm") && (ZL_GIVEN(o, types) || ZL_GIVEN(o, rows)))
        zl_note("--types and --rows have an effect only on matrix products");
    if (!measures(o, "step") && (ZL_GIVEN(o, model) || ZL_GIVEN(o, tinyllama) || ZL_GIVEN(o, type) || ZL_GIVEN(o, rank) ||
                                 ZL_GIVEN(o, batch_tokens) || ZL_GIVEN(o, micro_batch_tokens) || ZL_GIVEN(o, max_length)))
        zl_note("options of the training step have no effect without it");
    else if (o->model && (ZL_GIVEN(o, tinyllama) || ZL_GIVEN(o, type)))
        zl_note("--tinyllama and --type have no effect with --model");
    if (o->quick && ZL_GIVEN(o, batch_tokens))
        zl_note("--batch-tokens has no effect with --quick: the step is one micro-batch");
    return 0;
}
