/* The subcommands: their tables, what follows from their options together, and the functions that main calls. */
#ifndef ZL_CMD_COMMANDS_H
#define ZL_CMD_COMMANDS_H

#include "bench/bench.h"
#include "cmd/options.h"
#include "train/evaluate.h"
#include "train/generate.h"
#include "train/options.h"

extern const struct zl_command zl_train_command, zl_plan_command, zl_eval_command, zl_generate_command, zl_inspect_command,
    zl_bench_command, zl_simulate_command, zl_compare_command, zl_checkpoint_command;

/* After parsing: apply presets, refuse options that contradict each other, and note each given option that changes nothing in
 * this run. Values that follow from other values (stages from bounds) are filled in. */
int zl_train_options_settle(struct zl_train_options *o, struct zl_memory *m, struct zl_error *err);
void zl_eval_options_settle(const struct zl_eval_options *o);
void zl_generate_options_settle(const struct zl_generate_options *o);
int zl_bench_options_settle(const struct zl_bench_options *o, struct zl_error *err);

struct zl_inspect_options {
    struct zl_strings what; /* one model or adapter; or "data" and files */
    const char *tokenizer;
    uint64_t examples, max_length;
    bool tensors, metadata, json, quiet;
    struct zl_given given;
};
int zl_inspect_options_settle(const struct zl_inspect_options *o, struct zl_error *err);

struct zl_compare_options {
    const char *model;
    struct zl_strings data;
    struct zl_strings schedules;
    const char *output;
    bool force, json, quiet;
    struct zl_strings passed; /* options of train, as "--name=value" */
    struct zl_given given;
};

/* The arguments of train for each entry of --schedules, ended by NULL: what all share, then the entry's own. [schedules.n] */
int zl_compare_options_settle(const struct zl_compare_options *o, const char *const **argv, struct zl_memory *m, struct zl_error *err);

enum zl_checkpoint_action { ZL_CHECKPOINT_LIST, ZL_CHECKPOINT_VERIFY, ZL_CHECKPOINT_RESTORE };
struct zl_checkpoint_options {
    const char *action, *run;
    enum zl_checkpoint_action what; /* settled from action */
    uint64_t generation;            /* when given */
    bool json, quiet;
    struct zl_given given;
};
int zl_checkpoint_options_settle(struct zl_checkpoint_options *o, struct zl_error *err);

/* What a command that computes does to its process first (process.c): take the signals that stop it, catch reads beyond a model file
 * that was cut short, note which OMP_ or BLIS_ settings of the environment do not count here. Returns the hooks for its work. */
const struct zl_hooks *zl_process_prepare(bool quiet);

/* Each runs its command with argv[0] = the command's name and returns the exit status. */
int zl_cmd_train(int argc, char **argv);
int zl_cmd_plan(int argc, char **argv);
int zl_cmd_eval(int argc, char **argv);
int zl_cmd_generate(int argc, char **argv);
int zl_cmd_inspect(int argc, char **argv);
int zl_cmd_bench(int argc, char **argv);
int zl_cmd_simulate(int argc, char **argv);
int zl_cmd_compare(int argc, char **argv);
int zl_cmd_checkpoint(int argc, char **argv);

#endif
