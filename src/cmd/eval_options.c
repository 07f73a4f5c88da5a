/* The options of `zerolock eval`: their table and what they mean together. Fields: src/train/evaluate.h. */
#include "config.h"

#include "base/log.h"
#include "cmd/commands.h"


#define FIELD(f) .offset = offsetof(struct zl_eval_options, f)

static const struct zl_operand operands[] = {
    {.name = "MODEL", FIELD(model), .help = "A Hugging Face folder or a GGUF file."},
    {.name = "DATA", FIELD(data), .many = true, .help = "Data as for 'zerolock train'."},
};

static const struct zl_option options[] = {
    {.name = "adapter",
     .letter = 'a',
     .arg = "DIR",
     .kind = ZL_OPTION_STRING,
     FIELD(adapter),
     .also = "lora peft",
     .group = "What to measure",
     .help = "Put this adapter (a run's folder or a PEFT folder) on the model."},
    {.name = "max-length",
     .letter = 'l',
     .arg = "TOKENS",
     .kind = ZL_OPTION_COUNT,
     FIELD(max_length),
     .fallback = "1024",
     .min = 2,
     .max = 4194304,
     .also = "max-seq-length context-length",
     .help = "Cut longer examples at their end; plain text is cut into pieces of this length."},
    {.name = "limit",
     .letter = 'n',
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(limit),
     .min = 1,
     .shown = "all",
     .also = "max-examples examples rows samples",
     .help = "Only the first so many examples."},
    {.name = "exact-match",
     .letter = 'x',
     .kind = ZL_OPTION_FLAG,
     FIELD(exact_match),
     .also = "accuracy",
     .help = "Also generate an answer to each prompt, without chance, and count those that equal the completion."},
    {.name = "max-new-tokens",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(max_new_tokens),
     .fallback = "256",
     .min = 1,
     .max = 1048576,
     .also = "max-tokens",
     .help = "With --exact-match: end an answer after so many tokens."},
    {.name = "json", .kind = ZL_OPTION_FLAG, FIELD(json), .group = "Output", .help = "Print one JSON object."},
    {.name = "threads",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(threads),
     .min = 1,
     .max = 1024,
     .shown = "all usable cores",
     .also = "cores num-threads cpus jobs",
     .group = "Machine",
     .help = "Cores to use. Never changes the result."},
    {.name = "compute",
     .kind = ZL_OPTION_CHOICE,
     FIELD(compute),
     .choices = zl_compute_names,
     .fallback = "f32",
     .also = "compute-type dtype precision bf16 int8",
     .help = "Format in which the layers multiply by the weights. bf16: both factors rounded to bfloat16. int8: activations rounded to 8 "
             "bits, weights that are stored as integers as they are."},
    {.name = "quiet", .letter = 'q', .kind = ZL_OPTION_FLAG, FIELD(quiet), .help = "No notes and no progress, only warnings and errors."},
};

static const char *const usage[] = {"MODEL DATA... [OPTION]...", NULL};

const struct zl_command zl_eval_command = {
    .name = "eval",
    .summary = "measure a model's loss, perplexity and exact matches on data",
    .usage = usage,
    .about = "Print the mean loss of MODEL over the trained tokens of DATA (completions and assistant turns, or whole texts), with or "
             "without an adapter.",
    .operands = operands,
    .n_operands = sizeof operands / sizeof operands[0],
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .given = offsetof(struct zl_eval_options, given),
};

void zl_eval_options_settle(const struct zl_eval_options *o)
{
    if (ZL_GIVEN(o, max_new_tokens) && !o->exact_match)
        zl_note("--max-new-tokens has no effect without --exact-match");
}
