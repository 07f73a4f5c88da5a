/* The options of `zerolock simulate`, and what follows from them. */
#ifndef ZL_CMD_SIMULATE_H
#define ZL_CMD_SIMULATE_H

#include "cmd/entry.h"
#include "sim/scene.h"
#include "train/options.h"

struct zl_simulate_options {
    struct zl_strings schedules;
    uint64_t stages, micro, steps, interleave, ring_depth, window;
    enum zl_placement placement; /* spread or stacked */
    uint64_t lag;
    enum zl_switch replay;
    enum zl_readout_kind readout;
    uint64_t look_ahead, layers;
    struct zl_numbers bounds, freeze;
    double layer_ms, backward, readout_ms, update_ms;
    struct zl_strings forward, loss, backwards; /* ms a stage */
    uint64_t layer_memory, input_memory;
    const char *costs_from;
    uint64_t cores;
    struct zl_strings core_groups; /* "4", "4:0.5" */
    double serial;
    uint64_t columns;
    const char *svg;
    bool json, quiet;
    struct zl_given given;
};

/* One simulation: the scene of an entry of --schedules. */
struct zl_simulation {
    struct zl_entry entry;
    struct zl_simulate_options o;
    struct zl_scene scene;
    struct zl_sim_plan plan;
    struct zl_sim_result result;
};

/* The options of an entry, and the scene that they describe. */
int zl_simulation_make(struct zl_simulation *s, const char *entry, const struct zl_simulate_options *o, struct zl_memory *m,
                       struct zl_error *err);

/* What a run's trace says about costs takes the place of options that were not given (simulate_costs.c). */
int zl_simulate_costs(struct zl_simulate_options *o, struct zl_error *err);

void zl_simulate_print(const struct zl_simulation *s, size_t n, int columns, FILE *f);
int zl_simulate_json(const struct zl_simulation *s, size_t n, FILE *f, struct zl_error *err);
int zl_simulate_svg(const struct zl_simulation *s, size_t n, const char *path, struct zl_error *err);

#endif
