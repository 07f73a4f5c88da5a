/* The options of `zerolock generate`: their table and what they mean together. Fields: src/train/generate.h. */
#include "config.h"

#include "base/log.h"
#include "cmd/commands.h"

#define FIELD(f) .offset = offsetof(struct zl_generate_options, f)

static const struct zl_operand operands[] = {
    {.name = "MODEL", FIELD(model), .help = "A Hugging Face folder or a GGUF file."},
    {.name = "PROMPT",
     FIELD(prompt),
     .optional = true,
     .help = "The text to continue. Read from standard input when it is missing or '-'."},
};

static const struct zl_option options[] = {
    {.name = "adapter",
     .letter = 'a',
     .arg = "DIR",
     .kind = ZL_OPTION_STRING,
     FIELD(adapter),
     .also = "lora peft",
     .group = "Model and prompt",
     .help = "Put this adapter (a run's folder or a PEFT folder) on the model."},
    {.name = "chat",
     .kind = ZL_OPTION_FLAG,
     FIELD(chat),
     .also = "instruct conversation",
     .help = "PROMPT is a user's message; render it with the model's chat template."},
    {.name = "system",
     .letter = 's',
     .arg = "TEXT",
     .kind = ZL_OPTION_STRING,
     FIELD(system),
     .may_be_empty = true,
     .shown = "the template's own, if it has one",
     .also = "system-prompt",
     .help = "With --chat: the system message."},
    {.name = "max-new-tokens",
     .letter = 'n',
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(max_new_tokens),
     .fallback = "256",
     .min = 1,
     .max = 1048576,
     .also = "max-tokens n-predict length",
     .group = "Sampling",
     .help = "Stop after so many tokens."},
    {.name = "temperature",
     .letter = 't',
     .arg = "NUMBER",
     .kind = ZL_OPTION_DOUBLE,
     FIELD(temperature),
     .fallback = "0",
     .max = 100,
     .also = "temp",
     .help = "0 takes the likeliest token each time; more gives more chance to others."},
    {.name = "top-p",
     .letter = 'p',
     .arg = "SHARE",
     .kind = ZL_OPTION_SHARE,
     FIELD(top_p),
     .fallback = "1",
     .above_min = true,
     .also = "nucleus",
     .help = "Draw only from the likeliest tokens that together have this probability."},
    {.name = "seed",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(seed),
     .fallback = "0",
     .help = "Chooses the draws; the same seed gives the same text."},
    {.name = "stop",
     .arg = "TEXT",
     .kind = ZL_OPTION_LIST,
     FIELD(stop),
     .help = "Stop before this text. May be given several times."},
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
     .help = "Format in which the layers multiply by the weights. int8: activations rounded to 8 bits, weights that are stored as integers "
             "as they are; faster. bf16: the prompt only."},
    {.name = "quiet", .letter = 'q', .kind = ZL_OPTION_FLAG, FIELD(quiet), .help = "Only warnings and errors on standard error."},
};

static const char *const usage[] = {"MODEL [PROMPT] [OPTION]...", NULL};

const struct zl_command zl_generate_command = {
    .name = "generate",
    .summary = "continue a prompt, with or without an adapter",
    .usage = usage,
    .about = "Print MODEL's continuation of PROMPT until the model ends it.",
    .operands = operands,
    .n_operands = sizeof operands / sizeof operands[0],
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .given = offsetof(struct zl_generate_options, given),
};

void zl_generate_options_settle(const struct zl_generate_options *o)
{
    if (ZL_GIVEN(o, system) && !o->chat)
        zl_note("--system has no effect without --chat");
    if (ZL_GIVEN(o, top_p) && !(o->temperature > 0))
        zl_note("--top-p has no effect with --temperature 0");
    if (ZL_GIVEN(o, seed) && !(o->temperature > 0))
        zl_note("--seed has no effect with --temperature 0");
}
