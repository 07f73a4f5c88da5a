/* Training runs on a tiny model, for tests of whole runs: short options, the run, what it wrote. */
#ifndef ZL_TESTS_TINY_RUN_H
#define ZL_TESTS_TINY_RUN_H

#include <jansson.h>

#include "tests/tiny.h"
#include "train/train.h"

static inline struct zl_train_options tiny_run_options(const struct tiny *t, const char *output)
{
    static const char *data[1];
    data[0] = t->data;
    return (struct zl_train_options){
        .model = t->model,
        .data = {data, 1},
        .output = output,
        .eval_data = t->held_out,
        .steps = 12,
        .batch_tokens = 512,
        .micro_batch_tokens = 200,
        .max_length = 128,
        .schedule = ZL_SCHEDULE_ZEROLOCK,
        .stages = 2,
        .readout = ZL_READOUT_SHADOW,
        .train_map = ZL_ON,
        .belief_weight = 1,
        .ring_depth = 2,
        .rank = 4,
        .alpha = 8,
        .lr = 1e-2,
        .lr_schedule = ZL_LR_LINEAR,
        .warmup = 0.1,
        .beta1 = 0.9,
        .beta2 = 0.99,
        .adam_eps = 1e-8,
        .clip = 1,
        .threads = 2,
        .quiet = true,
    };
}

/* A folder for a run that stays named while 64 others are. */
static inline const char *tiny_run_folder(const struct tiny *t, const char *name)
{
    static char folder[64][300];
    static unsigned turn;
    char *to = folder[turn++ % 64];
    snprintf(to, sizeof folder[0], "%s", tiny_path(t, name));
    return to;
}

/* The run's adapter file, malloc'd. */
static inline char *tiny_run(struct zl_train_options o, size_t *size)
{
    char path[700];
    struct zl_error err = {0};
    if (zl_train_run(&o, &err))
        fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/adapter/adapter_model.safetensors", o.output);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *bytes = malloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, f);
    assert_true(*size > 1000 && *size < 1 << 20);
    fclose(f);
    return bytes;
}

/* The lines of a run's metrics.jsonl as an array. */
static inline json_t *tiny_run_metrics(const char *output)
{
    char path[700], *line = NULL;
    size_t n = 0;
    json_t *all = json_array();
    snprintf(path, sizeof path, "%s/metrics.jsonl", output);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (getline(&line, &n, f) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        assert_non_null(o);
        json_array_append_new(all, o);
    }
    free(line);
    fclose(f);
    return all;
}

static inline double tiny_run_number(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_number(v))
        fail_msg("no number %s", key);
    return json_number_value(v);
}

#endif
