/* `zerolock simulate`: runs the simulations that the options describe and prints them. The computing is src/sim's. */
#include "config.h"

#include "cmd/simulate.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "cmd/commands.h"
#include "sim/picture.h"

#define LABEL      10 /* of a picture's row */
#define PICTURES   16 /* rows of a picture that is printed among others */
#define SVG_WIDTH  960

/* Plan and run; where the placement is free, both, and the faster one stays. */
static int simulate(struct zl_simulation *x, struct zl_error *err)
{
    const enum zl_placement asked = x->scene.placement;
    struct zl_sim_plan *plan = &x->plan;
    if (asked == ZL_PLACEMENT_AUTO)
        x->scene.placement = ZL_PLACEMENT_SPREAD;
    int rc = zl_scene_plan(&x->scene, plan, err);
    if (!rc)
        rc = zl_sim_run(&plan->request, &x->result, err);
    if (rc || asked != ZL_PLACEMENT_AUTO || plan->request.workers == 1)
        return rc;
    struct zl_simulation *stacked = malloc(sizeof *stacked);
    if (!stacked)
        return zl_fail(err, ZL_EMEMORY, "no memory for the simulation");
    *stacked = *x;
    stacked->scene.placement = ZL_PLACEMENT_STACKED;
    rc = zl_scene_plan(&stacked->scene, &stacked->plan, err);
    if (!rc)
        rc = zl_sim_run(&stacked->plan.request, &stacked->result, err);
    if (!rc && stacked->result.makespan_ns < x->result.makespan_ns) {
        zl_sim_free(&x->result);
        *x = *stacked;
    } else if (!rc) {
        zl_sim_free(&stacked->result);
    }
    free(stacked);
    return rc;
}

static const char *placement(const struct zl_simulation *x)
{
    return x->plan.request.workers > 1 ? "spread" : x->plan.request.stages > 1 ? "stacked" : "whole";
}

static double step_ns(const struct zl_simulation *x)
{
    return (double)x->result.makespan_ns / (double)x->scene.steps;
}

static double per_second(const struct zl_simulation *x)
{
    return (double)x->scene.micro / (step_ns(x) * 1e-9);
}

static void print_summary(const struct zl_simulation *s, size_t n, FILE *f)
{
    size_t width = 8;
    for (size_t i = 0; i < n; i++)
        width = strlen(s[i].entry.text) > width ? strlen(s[i].entry.text) : width;
    fprintf(f, "%-*s  stages  placed      a step   micro-batches/s  idle  idle after fill  live activations\n", (int)width, "schedule");
    for (size_t i = 0; i < n; i++) {
        const struct zl_simulation *x = &s[i];
        const uint32_t workers = x->plan.request.workers;
        char bytes[ZL_NUMBER_TEXT], step[ZL_NUMBER_TEXT], speed[ZL_NUMBER_TEXT];
        zl_number_bytes(bytes, x->result.peak_bytes);
        zl_number_fixed(step, step_ns(x) * 1e-6, 1);
        zl_number_fixed(speed, per_second(x), 2);
        fprintf(f, "%-*s  %6u  %-7s %9s ms  %16s  %3.0f%%  %14.0f%%  %16s\n", (int)width, x->entry.text, x->plan.request.stages,
                placement(x), step, speed, 100 * zl_sim_bubble_all(&x->result, workers), 100 * zl_sim_wait_all(&x->result, workers),
                bytes);
    }
}

static void print_stages(const struct zl_simulation *x, FILE *f)
{
    const struct zl_sim_request *r = &x->plan.request;
    fprintf(f, "\nstage  layers  look-ahead  cores         forward       loss   backward     update  idle  in flight  live activations\n");
    for (uint32_t k = 0; k < r->stages; k++) {
        const struct zl_cut *c = &x->plan.partition.cut[k];
        const struct zl_sim_cost *t = &r->cost[k];
        const struct zl_sim_group *g = &x->plan.group[r->worker[k]];
        char ms[4][ZL_NUMBER_TEXT], speed[ZL_NUMBER_TEXT], bytes[ZL_NUMBER_TEXT], cores[64];
        const uint64_t ns[4] = {t->forward_ns, t->loss_ns, t->backward_ns, t->update_ns};
        for (int i = 0; i < 4; i++)
            zl_number_fixed(ms[i], r->frozen[k] && i ? 0 : (double)ns[i] * 1e-6, 2);
        zl_number_text(speed, g->speed);
        zl_number_bytes(bytes, x->result.stage[k].peak_bytes);
        snprintf(cores, sizeof cores, "%u%s%s", g->cores, g->speed != 1 ? " of " : "", g->speed != 1 ? speed : "");
        fprintf(f, "%5u  %2u..%-3u %11u  %-10s %7s ms %7s ms %7s ms %7s ms  %3.0f%%  %9llu  %16s\n", k, c->first, c->first + c->n_own - 1,
                c->n_shadow, cores, ms[0], ms[1], ms[2], ms[3],
                100 * (r->common ? zl_sim_bubble_all(&x->result, r->workers) : zl_sim_bubble(&x->result, r->worker[k])),
                (unsigned long long)x->result.stage[k].peak_micro, bytes);
    }
}

static struct zl_picture picture_of(const struct zl_simulation *x, uint64_t to_ns)
{
    return (struct zl_picture){.event = x->result.event, .n = x->result.n, .rows = x->plan.request.stages, .to_ns = to_ns,
                               .end_ns = x->result.makespan_ns};
}

static uint64_t longest(const struct zl_simulation *s, size_t n)
{
    uint64_t ns = 1;
    for (size_t i = 0; i < n; i++)
        ns = s[i].result.makespan_ns > ns ? s[i].result.makespan_ns : ns;
    return ns;
}

void zl_simulate_print(const struct zl_simulation *s, size_t n, int columns, FILE *f)
{
    struct zl_picture *pictures = calloc(n, sizeof *pictures);
    print_summary(s, n, f);
    for (size_t i = 0; n == 1 && i < n; i++)
        print_stages(&s[i], f);
    if (!pictures)
        return;
    for (size_t i = 0; i < n; i++)
        pictures[i] = picture_of(&s[i], longest(s, n));
    columns = zl_picture_columns(pictures, n, columns > LABEL + 10 ? columns - LABEL : 10);
    for (size_t i = 0; i < n; i++) {
        if (n > 1 && pictures[i].rows > PICTURES)
            continue;
        fprintf(f, "\n");
        if (n > 1)
            fprintf(f, "%s\n", s[i].entry.text);
        zl_picture_text(&pictures[i], columns, f);
    }
    free(pictures);
    fputc('\n', f);
    zl_picture_legend(f);
}

static json_t *seconds(uint64_t ns)
{
    return json_real((double)ns * 1e-9);
}

static json_t *json_stages(const struct zl_simulation *x)
{
    const struct zl_sim_request *r = &x->plan.request;
    json_t *list = json_array();
    for (uint32_t k = 0; k < r->stages; k++) {
        const struct zl_cut *c = &x->plan.partition.cut[k];
        const struct zl_sim_cost *t = &r->cost[k];
        const struct zl_sim_stage *g = &x->result.stage[k];
        const bool frozen = r->frozen[k];
        json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "first_layer", (int)c->first,
                                              "layers", (int)c->n_own, "look_ahead", (int)c->n_shadow, "frozen", frozen, "worker",
                                              r->common ? json_null() : json_integer(r->worker[k]), "forward_seconds", seconds(t->forward_ns), "loss_seconds",
                                              seconds(frozen ? 0 : t->loss_ns), "backward_seconds", seconds(frozen ? 0 : t->backward_ns),
                                              "update_seconds", seconds(frozen ? 0 : t->update_ns), "busy_seconds", seconds(g->busy_ns),
                                              "peak_in_flight", (json_int_t)g->peak_micro, "peak_activation_bytes",
                                              (json_int_t)g->peak_bytes));
    }
    return list;
}

static json_t *json_workers(const struct zl_simulation *x)
{
    json_t *list = json_array();
    for (uint32_t w = 0; w < x->plan.request.workers; w++)
        json_array_append_new(list, json_pack("{s:i, s:f, s:o, s:f, s:f}", "cores", (int)x->plan.group[w].cores, "speed",
                                              x->plan.group[w].speed, "busy_seconds", seconds(x->result.worker[w].busy_ns), "idle",
                                              zl_sim_bubble(&x->result, w), "idle_after_fill", zl_sim_wait(&x->result, w)));
    return list;
}

int zl_simulate_json(const struct zl_simulation *s, size_t n, FILE *f, struct zl_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct zl_simulation *x = &s[i];
        const uint32_t workers = x->plan.request.workers;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:f, s:f, s:f, s:I, s:o, s:o}", "entry", x->entry.text, "schedule",
                            x->entry.schedule, "placement", placement(x), "micro_batches", (json_int_t)x->scene.micro, "steps",
                            (json_int_t)x->scene.steps, "makespan_seconds", seconds(x->result.makespan_ns), "step_seconds",
                            json_real(step_ns(x) * 1e-9), "micro_batches_per_second", per_second(x), "idle",
                            zl_sim_bubble_all(&x->result, workers), "idle_after_fill", zl_sim_wait_all(&x->result, workers),
                            "peak_activation_bytes", (json_int_t)x->result.peak_bytes, "workers", json_workers(x), "stages",
                            json_stages(x)));
    }
    json_t *root = json_pack("{s:s, s:o}", "zerolock", PACKAGE_VERSION, "schedules", list);
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!text)
        return zl_fail(err, ZL_EMEMORY, "no memory for the JSON text");
    fprintf(f, "%s\n", text);
    free(text);
    return 0;
}

/* One picture below the other, each with its heading, and the legend. */
static void draw_all(const struct zl_simulation *s, size_t n, FILE *f)
{
    unsigned height = 30;
    for (size_t i = 0; i < n; i++)
        height += 24 + zl_picture_height(s[i].plan.request.stages) + 12;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-10 -10 %d %u\">\n<style>%s</style>\n", SVG_WIDTH + 20, height + 20,
            zl_picture_style);
    fprintf(f, "<rect x=\"-10\" y=\"-10\" width=\"%d\" height=\"%u\" fill=\"#fff\"/>\n", SVG_WIDTH + 20, height + 20);
    unsigned y = 0;
    for (size_t i = 0; i < n; i++) {
        const struct zl_picture p = picture_of(&s[i], longest(s, n));
        char title[256], id[32];
        snprintf(title, sizeof title, "%s: %u stages, %.0f %% idle", s[i].entry.text, p.rows,
                 100 * zl_sim_bubble_all(&s[i].result, s[i].plan.request.workers));
        snprintf(id, sizeof id, "schedule-%zu", i);
        fprintf(f, "<g class=\"zl\"><text class=\"h\" x=\"0\" y=\"%u\">", y + 14);
        zl_xml_text(title, f);
        fprintf(f, "</text></g>\n<svg y=\"%u\" width=\"%d\" height=\"%u\">\n", y + 24, SVG_WIDTH, zl_picture_height(p.rows));
        zl_picture_svg(&p, SVG_WIDTH, title, id, f);
        fputs("</svg>\n", f);
        y += 24 + zl_picture_height(p.rows) + 12;
    }
    fprintf(f, "<svg y=\"%u\" width=\"%d\" height=\"22\">\n", y, SVG_WIDTH);
    zl_picture_svg_legend(SVG_WIDTH, f);
    fputs("</svg>\n</svg>\n", f);
}

int zl_simulate_svg(const struct zl_simulation *s, size_t n, const char *path, struct zl_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return zl_fail(err, ZL_EMEMORY, "no memory for the pictures");
    draw_all(s, n, f);
    int rc = fclose(f) ? zl_fail(err, ZL_EMEMORY, "no memory for the pictures") : zl_file_write(path, text, size, err);
    free(text);
    return rc;
}

static int run(const struct zl_simulate_options *o, struct zl_memory *m, struct zl_error *err)
{
    const size_t n = o->schedules.n;
    struct zl_simulation *s = calloc(n, sizeof *s);
    int rc = s ? 0 : zl_fail(err, ZL_EMEMORY, "no memory for the simulations");
    for (size_t i = 0; !rc && i < n; i++) {
        rc = zl_simulation_make(&s[i], o->schedules.v[i], o, m, err);
        if (!rc)
            rc = simulate(&s[i], err);
    }
    if (!rc && o->json)
        rc = zl_simulate_json(s, n, stdout, err);
    else if (!rc)
        zl_simulate_print(s, n, o->columns ? (int)o->columns : zl_help_columns(), stdout);
    if (!rc && o->svg)
        rc = zl_simulate_svg(s, n, o->svg, err);
    for (size_t i = 0; s && i < n; i++)
        zl_sim_free(&s[i].result);
    free(s);
    return rc;
}

int zl_cmd_simulate(int argc, char **argv)
{
    struct zl_simulate_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    int rc = zl_options_parse(&zl_simulate_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED) {
        zl_log_quiet(o.quiet);
        rc = run(&o, &memory, &err);
    }
    zl_memory_free(&memory);
    return zl_command_finish(&zl_simulate_command, rc, &err);
}
