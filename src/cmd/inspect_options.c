/* The options of `zerolock inspect`: their table and what they mean together. */
#include "config.h"

#include <string.h>

#include "base/log.h"
#include "cmd/commands.h"

#define FIELD(f) .offset = offsetof(struct zl_inspect_options, f)

static const struct zl_operand operands[] = {
    {.name = "WHAT",
     FIELD(what),
     .many = true,
     .help = "A model (Hugging Face folder, GGUF or safetensors file), an adapter (PEFT folder), or the word 'data' and files."},
};

static const struct zl_option options[] = {
    {.name = "tensors",
     .letter = 't',
     .kind = ZL_OPTION_FLAG,
     FIELD(tensors),
     .also = "weights layers modules",
     .group = "Models and adapters",
     .help = "List every tensor with type and shape; of an adapter, every module with the norms of A and B."},
    {.name = "metadata",
     .letter = 'm',
     .kind = ZL_OPTION_FLAG,
     FIELD(metadata),
     .also = "meta keys kv",
     .help = "List the metadata of a GGUF file."},
    {.name = "tokenizer",
     .arg = "MODEL",
     .kind = ZL_OPTION_STRING,
     FIELD(tokenizer),
     .also = "model",
     .group = "Data",
     .help = "The model whose tokenizer and chat template turn the data into tokens. Needed for data."},
    {.name = "examples",
     .letter = 'n',
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(examples),
     .fallback = "3",
     .also = "limit rows",
     .help = "Show so many examples with their trained tokens marked."},
    {.name = "max-length",
     .letter = 'l',
     .arg = "TOKENS",
     .kind = ZL_OPTION_COUNT,
     FIELD(max_length),
     .fallback = "1024",
     .min = 2,
     .max = 4194304,
     .also = "max-seq-length context-length",
     .help = "Cut longer examples at their end, as training does."},
    {.name = "json", .kind = ZL_OPTION_FLAG, FIELD(json), .group = "Output", .help = "Print one JSON object."},
    {.name = "quiet", .letter = 'q', .kind = ZL_OPTION_FLAG, FIELD(quiet), .help = "No notes, only warnings and errors."},
};

static const char *const usage[] = {"MODEL [OPTION]...", "ADAPTER [OPTION]...", "data FILE... --tokenizer MODEL [OPTION]...", NULL};

const struct zl_command zl_inspect_command = {
    .name = "inspect",
    .summary = "show what a model, an adapter or training data holds",
    .usage = usage,
    .about = "Show what a model, an adapter or training data holds, and check it on the way as training would.",
    .operands = operands,
    .n_operands = sizeof operands / sizeof operands[0],
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .given = offsetof(struct zl_inspect_options, given),
};

int zl_inspect_options_settle(const struct zl_inspect_options *o, struct zl_error *err)
{
    bool data = strcmp(o->what.v[0], "data") == 0;
    if (data && o->what.n < 2)
        return zl_fail(err, ZL_EUSAGE, "'inspect data' needs a file (a folder called data is written ./data)");
    if (data && !o->tokenizer)
        return zl_fail(err, ZL_EUSAGE, "'inspect data' needs --tokenizer MODEL, whose tokenizer makes the tokens");
    if (!data && o->what.n > 1)
        return zl_fail(err, ZL_EUSAGE, "'%s' is one argument too many", o->what.v[1]);
    if (data && o->tensors)
        zl_note("--tensors has no effect on data");
    if (data && o->metadata)
        zl_note("--metadata has no effect on data");
    if (!data && o->tokenizer)
        zl_note("--tokenizer has an effect only on data");
    if (!data && ZL_GIVEN(o, examples))
        zl_note("--examples has an effect only on data");
    if (!data && ZL_GIVEN(o, max_length))
        zl_note("--max-length has an effect only on data");
    return 0;
}
