/*
 * The page of a comparison: see compare.h. HTML and SVG only, no script, nothing from elsewhere: it works from a file, offline and in
 * print, and says everything in text too. Every text that comes from outside is escaped.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/number.h"
#include "sim/chart.h"
#include "sim/picture.h"
#include "train/compare.h"

static const char style[] =
    ":root{color-scheme:light}body{font:15px/1.5 system-ui,sans-serif;color:#1c1e21;background:#fff;max-width:62rem;margin:2rem auto;"
    "padding:0 1rem}h1{font-size:1.5rem;margin:0 0 .5rem}h2{font-size:1.15rem;margin:2.2rem 0 .4rem}"
    "h3{font-size:1rem;margin:1.6rem 0 .3rem}"
    "code,pre{font:13px/1.45 ui-monospace,monospace}pre{background:#f4f5f7;padding:.6rem .8rem;white-space:pre-wrap;"
    "overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.25rem .6rem;border-bottom:1px solid "
    "#e3e5e8;font-variant-numeric:tabular-nums;vertical-align:top}th:first-child,td:first-child{text-align:left}thead th{font-weight:600;"
    "border-bottom:2px solid #aab}svg{width:100%;height:auto;display:block;margin:.3rem 0}.bar{height:5px;background:#2f6fb3;"
    "margin:3px 0 0 auto}.bad{color:#a3243b}.key{display:inline-block;width:.8em;height:.8em;margin-right:.4em}"
    ".note{color:#555}th:first-child{white-space:nowrap}.scroll{overflow-x:auto}@media print{body{margin:0;max-width:none}}";

static void put(FILE *f, const char *text)
{
    zl_xml_text(text, f);
}

static void put_fixed(FILE *f, double v, int decimals)
{
    char text[ZL_NUMBER_TEXT];
    zl_number_fixed(text, v, decimals);
    fputs(isfinite(v) ? text : "–", f);
}

static void put_mib(FILE *f, uint64_t bytes)
{
    put_fixed(f, (double)bytes / 1048576, bytes < 100u << 20 ? 1 : 0);
}

/* The columns of the first table: what is measured, how it is written, its bar. */
struct column {
    const char *head;
    double (*value)(const struct zl_compared *c);
    int decimals;
    bool bar;
};

static double speed(const struct zl_compared *c)
{
    return c->tokens_per_second;
}

static double idle(const struct zl_compared *c)
{
    return 100 * c->idle;
}

static double idle_after_fill(const struct zl_compared *c)
{
    return 100 * c->idle_after_fill;
}

static double activations(const struct zl_compared *c)
{
    return (double)c->costs.peak_bytes / 1048576;
}

static double pss(const struct zl_compared *c)
{
    return (double)c->peak_pss_bytes / 1048576;
}

static double loss_before(const struct zl_compared *c)
{
    return c->n_evals && c->eval[0].step == 0 ? c->eval[0].loss : (double)NAN;
}

static double loss_after(const struct zl_compared *c)
{
    return c->n_evals && c->eval[c->n_evals - 1].step ? c->eval[c->n_evals - 1].loss : (double)NAN;
}

static const struct column columns[] = {
    {"tokens/s", speed, 0, true},
    {"idle, %", idle, 1, true},
    {"idle after fill, %", idle_after_fill, 1, true},
    {"live activations, MiB", activations, 1, true},
    {"peak memory (PSS), MiB", pss, 0, true},
    {"held-out loss before", loss_before, 4, false},
    {"after", loss_after, 4, false},
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static void put_name(FILE *f, const struct zl_compare_request *r, size_t i)
{
    fprintf(f, "<span class=\"key\" style=\"background:%s\"></span><code>", zl_chart_colour(i));
    put(f, r->contender[i].name);
    fputs("</code>", f);
}

static void put_summary(FILE *f, const struct zl_compare_request *r, const struct zl_compared *c)
{
    double most[COLUMNS] = {0};
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < COLUMNS; k++)
            if (!c[i].problem && columns[k].value(&c[i]) > most[k])
                most[k] = columns[k].value(&c[i]);
    fputs("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">schedule</th>", f);
    for (size_t k = 0; k < COLUMNS; k++)
        fprintf(f, "<th scope=\"col\">%s</th>", columns[k].head);
    fputs("</tr></thead><tbody>\n", f);
    for (size_t i = 0; i < r->n; i++) {
        fputs("<tr><th scope=\"row\">", f);
        put_name(f, r, i);
        fputs("</th>", f);
        if (c[i].problem) {
            fprintf(f, "<td class=\"bad\" colspan=\"%zu\">", COLUMNS);
            put(f, c[i].problem);
            fputs("</td>", f);
        }
        for (size_t k = 0; !c[i].problem && k < COLUMNS; k++) {
            const double v = columns[k].value(&c[i]);
            fputs("<td>", f);
            put_fixed(f, v, columns[k].decimals);
            if (columns[k].bar && most[k] > 0 && v >= 0)
                fprintf(f, "<div class=\"bar\" style=\"width:%d%%;background:%s\"></div>", (int)(100 * v / most[k] + 0.5),
                        zl_chart_colour(i));
            fputs("</td>", f);
        }
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
}

static int put_losses(FILE *f, const struct zl_compare_request *r, const struct zl_compared *c, struct zl_error *err)
{
    size_t total = 0, n = 0;
    for (size_t i = 0; i < r->n; i++)
        total += c[i].n_evals;
    if (!total) {
        fputs("<p class=\"note\">No data was held out: --eval-data or --eval-split, and --eval-every, would draw the loss.</p>\n", f);
        return 0;
    }
    struct zl_series *s = calloc(2 * r->n, sizeof *s);
    double *v = calloc(3 * total, sizeof *v);
    if (!s || !v) {
        free(s);
        free(v);
        return zl_fail(err, ZL_EMEMORY, "out of memory for the page");
    }
    for (size_t i = 0; i < r->n; n += c[i++].n_evals) {
        double *tokens = v + n, *seconds = v + total + n, *loss = v + 2 * total + n;
        for (size_t p = 0; p < c[i].n_evals; p++) {
            tokens[p] = (double)c[i].eval[p].tokens;
            seconds[p] = c[i].eval[p].seconds;
            loss[p] = c[i].eval[p].loss;
        }
        s[i] = (struct zl_series){r->contender[i].name, tokens, loss, c[i].problem ? 0 : c[i].n_evals};
        s[r->n + i] = (struct zl_series){r->contender[i].name, seconds, loss, c[i].problem ? 0 : c[i].n_evals};
    }
    fputs("<h3>by tokens</h3>\n", f);
    zl_chart_svg(s, r->n, "tokens trained on", "held-out loss, nats a token", "Held-out loss by tokens", "loss-tokens", f);
    fputs("<h3>by seconds of training</h3>\n", f);
    zl_chart_svg(s + r->n, r->n, "seconds", "held-out loss, nats a token", "Held-out loss by seconds of training", "loss-seconds", f);
    fputs("<p>", f);
    for (size_t i = 0; i < r->n; i++) {
        put_name(f, r, i);
        fputs(" &emsp; ", f);
    }
    fputs("</p>\n<details><summary>the numbers</summary><table><thead><tr><th scope=\"col\">schedule</th><th scope=\"col\">step</th>"
          "<th scope=\"col\">tokens</th><th scope=\"col\">seconds</th><th scope=\"col\">held-out loss</th></tr></thead><tbody>\n", f);
    for (size_t i = 0; i < r->n; i++)
        for (size_t p = 0; !c[i].problem && p < c[i].n_evals; p++) {
            fputs("<tr><td>", f);
            put_name(f, r, i);
            fprintf(f, "</td><td>%llu</td><td>%llu</td><td>", (unsigned long long)c[i].eval[p].step,
                    (unsigned long long)c[i].eval[p].tokens);
            put_fixed(f, c[i].eval[p].seconds, 2);
            fputs("</td><td>", f);
            put_fixed(f, c[i].eval[p].loss, 4);
            fputs("</td></tr>\n", f);
        }
    fputs("</tbody></table></details>\n", f);
    free(s);
    free(v);
    return 0;
}

static void put_stages(FILE *f, const struct zl_compared *c)
{
    static const struct {
        const char *head;
        enum zl_trace_kind kind;
    } kinds[] = {{"forward", ZL_TRACE_FORWARD}, {"loss", ZL_TRACE_LOCAL_LOSS}, {"backward", ZL_TRACE_BACKWARD},
                 {"forward again", ZL_TRACE_REPLAY}, {"update", ZL_TRACE_UPDATE}};
    const json_t *stages = json_object_get(c->about, "stages");
    fputs("<details><summary>by stage</summary><div class=\"scroll\"><table><thead><tr><th scope=\"col\">stage</th>"
          "<th scope=\"col\">layers</th><th scope=\"col\">look-ahead</th><th scope=\"col\">worker</th><th scope=\"col\">cores</th>", f);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        fprintf(f, "<th scope=\"col\">%s, ms</th>", kinds[k].head);
    fputs("<th scope=\"col\">live activations, MiB</th></tr></thead><tbody>\n", f);
    for (uint32_t k = 0; k < c->costs.stages; k++) {
        const json_t *s = json_array_get(stages, k);
        const long long first = json_integer_value(json_object_get(s, "first_layer")), n = json_integer_value(json_object_get(s, "layers"));
        char worker[16] = "any";
        if (!c->costs.stage[k].roams)
            snprintf(worker, sizeof worker, "%u", c->costs.stage[k].worker);
        fprintf(f, "<tr><td>%u</td><td>%lld–%lld</td><td>%lld</td><td>%s</td><td>%lld</td>", k, first, first + n - 1,
                (long long)json_integer_value(json_object_get(s, "look_ahead")), worker,
                (long long)json_integer_value(json_object_get(s, "threads")));
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            fputs("<td>", f);
            put_fixed(f, c->costs.stage[k].n[kinds[i].kind] ? zl_trace_mean(&c->costs, k, kinds[i].kind) * 1e-6 : (double)NAN, 2);
            fputs("</td>", f);
        }
        fputs("<td>", f);
        put_mib(f, c->costs.stage[k].peak_bytes);
        fputs("</td></tr>\n", f);
    }
    fputs("</tbody></table></div></details>\n", f);
}

static void put_pictures(FILE *f, const struct zl_compare_request *r, const struct zl_compared *c)
{
    uint64_t longest = 1;
    for (size_t i = 0; i < r->n; i++)
        longest = !c[i].problem && c[i].shown_ns > longest ? c[i].shown_ns : longest;
    fputs("<p class=\"note\">The first steps of training, a row a stage, all on one scale of time. Numbers are micro-batches; pointing at "
          "a span names it.</p>\n", f);
    zl_picture_svg_legend(960, f);
    for (size_t i = 0; i < r->n; i++) {
        char id[32];
        fputs("<h3>", f);
        put_name(f, r, i);
        fputs("</h3>\n", f);
        if (c[i].problem) {
            fputs("<p class=\"bad\">", f);
            put(f, c[i].problem);
            fputs("</p>\n", f);
            if (c[i].log && *c[i].log) {
                fputs("<details><summary>what it said</summary><pre>", f);
                put(f, c[i].log);
                fputs("</pre></details>\n", f);
            }
            continue;
        }
        const struct zl_picture p = {.event = c[i].event, .n = c[i].n_events, .rows = c[i].costs.stages, .to_ns = longest,
                                     .end_ns = c[i].shown_ns};
        snprintf(id, sizeof id, "run-%zu", i + 1);
        zl_picture_svg(&p, 960, r->contender[i].name, id, f);
        put_stages(f, &c[i]);
    }
}

static void put_conditions(FILE *f, const struct zl_compared *c, size_t n, const char *command)
{
    const json_t *about = NULL;
    for (size_t i = 0; i < n && !about; i++)
        about = c[i].problem ? NULL : c[i].about;
    fputs("<pre>", f);
    put(f, command);
    fputs("</pre>\n", f);
    if (!about)
        return;
    const char *model = json_string_value(json_object_get(about, "model"));
    const long long steps = json_integer_value(json_object_get(about, "steps"));
    const long long micro = json_integer_value(json_object_get(about, "micro_batches"));
    const long long seed = json_integer_value(json_object_get(about, "seed")), rank = json_integer_value(json_object_get(about, "rank"));
    fputs("<p>Model <code>", f);
    put(f, model ? model : "?");
    fprintf(f, "</code>, %lld steps of %lld micro-batches in all, seed %lld, rank %lld; zerolock ", steps, micro, seed, rank);
    const char *version = json_string_value(json_object_get(about, "zerolock"));
    put(f, version ? version : "?");
    fputs(". The runs had the machine one after the other, each as a process of its own.</p>\n", f);
}

static int write_page(FILE *f, const struct zl_compare_request *r, const struct zl_compared *c, const char *command, struct zl_error *err)
{
    fprintf(f, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>zerolock compare</title>\n"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<style>%s%s%s</style></head><body>\n", style,
            zl_picture_style, zl_chart_style);
    fputs("<h1>Schedules compared</h1>\n", f);
    put_conditions(f, c, r->n, command);
    put_summary(f, r, c);
    fputs("<p class=\"note\">idle: the share of time in which workers wait, from the first operation of training to the last; "
          "after fill: for each worker from its own first to its own last. live activations: what all stages together keep for backward "
          "passes, at the moment when it is most. peak memory: of the whole process, the model's pages included.</p>\n", f);
    fputs("<h2>Held-out loss</h2>\n", f);
    int rc = put_losses(f, r, c, err);
    fputs("<h2>What the stages did when</h2>\n", f);
    put_pictures(f, r, c);
    fputs("</body></html>\n", f);
    return rc;
}

int zl_compare_page(const struct zl_compare_request *r, const struct zl_compared *c, const char *command, const char *path,
                    struct zl_error *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return zl_fail(err, ZL_EMEMORY, "out of memory for the page");
    int rc = write_page(f, r, c, command, err);
    if (fclose(f) && !rc)
        rc = zl_fail(err, ZL_EMEMORY, "out of memory for the page");
    if (!rc)
        rc = zl_file_write(path, text, n, err);
    free(text);
    return rc;
}
