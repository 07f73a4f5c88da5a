/* `zerolock compare`: options in, runs, a table or JSON and the page out. The running and the page are src/train's. */
#include "config.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "cmd/commands.h"
#include "train/compare.h"

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:+/%@" /* needs no quotes in a shell */

/* A number in a column of `width`, a dash for what was not measured. */
static void put(FILE *f, int width, double v, int decimals, const char *unit)
{
    char text[ZL_NUMBER_TEXT];
    zl_number_fixed(text, v, decimals);
    fprintf(f, "  %*s%s", width - (int)strlen(unit), isfinite(v) ? text : "-", isfinite(v) ? unit : "");
    if (!isfinite(v))
        fprintf(f, "%*s", (int)strlen(unit), "");
}

static void print_table(const struct zl_compare_request *r, const struct zl_compared *c, FILE *f)
{
    size_t width = 8;
    for (size_t i = 0; i < r->n; i++)
        width = strlen(r->contender[i].name) > width ? strlen(r->contender[i].name) : width;
    fprintf(f, "%-*s  tokens/s   idle  after fill  live activations  peak memory  held-out loss\n", (int)width, "schedule");
    for (size_t i = 0; i < r->n; i++) {
        const struct zl_compared *x = &c[i];
        fprintf(f, "%-*s", (int)width, r->contender[i].name);
        if (x->problem) {
            fprintf(f, "  %s\n", x->problem);
            continue;
        }
        put(f, 8, x->tokens_per_second, 0, "");
        put(f, 5, 100 * x->idle, 1, "%");
        put(f, 10, 100 * x->idle_after_fill, 1, "%");
        put(f, 16, (double)x->costs.peak_bytes / 1048576, 1, " MiB");
        put(f, 11, (double)x->peak_pss_bytes / 1048576, 1, " MiB");
        put(f, 13, x->n_evals ? x->eval[x->n_evals - 1].loss : (double)NAN, 4, "");
        fputc('\n', f);
    }
}

/* What was asked, as one could type it again. */
static char *command_text(int argc, char **argv)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return NULL;
    fputs("zerolock", f);
    for (int i = 0; i < argc; i++) {
        const bool plain = argv[i][0] && !argv[i][strspn(argv[i], PLAIN)];
        fputs(plain ? " " : " '", f);
        for (const char *s = argv[i]; *s; s++)
            fputs(*s == '\'' ? "'\\''" : (const char[]){*s, 0}, f);
        fputs(plain ? "" : "'", f);
    }
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}

static int write_results(const struct zl_compare_options *o, const struct zl_compare_request *r, const struct zl_compared *c,
                         const char *command, const char *page, const char *figures, struct zl_error *err)
{
    json_t *root = zl_compare_json(r, c, command);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!text)
        return zl_fail(err, ZL_EMEMORY, "no memory for the figures");
    int rc = zl_file_write(figures, text, strlen(text), err);
    if (!rc)
        rc = zl_compare_page(r, c, command, page, err);
    if (o->json)
        puts(text);
    else
        print_table(r, c, stdout);
    free(text);
    if (!rc)
        zl_note("page written to %s", page);
    return rc;
}

/* Nothing of an earlier comparison is overwritten by accident. */
static int check_place(const struct zl_compare_options *o, const char *figures, struct zl_error *err)
{
    if (!o->force && access(figures, F_OK) == 0)
        return zl_fail(err, ZL_EUSAGE, "%s holds the results of an earlier comparison; choose another folder or add --force", o->output);
    return 0;
}

static int run(const struct zl_compare_options *o, const char *command, struct zl_memory *m, struct zl_error *err)
{
    const size_t n = o->schedules.n;
    const char *const **argv = zl_memory_keep(m, calloc(n, sizeof *argv));
    struct zl_contender *who = zl_memory_keep(m, calloc(n, sizeof *who));
    struct zl_compared *results = calloc(n, sizeof *results);
    char *page = zl_path_join(o->output, "compare.html"), *figures = zl_path_join(o->output, "compare.json");
    int rc = argv && who && results && page && figures && command ? 0 : zl_fail(err, ZL_EMEMORY, "no memory for the comparison");
    if (!rc)
        rc = zl_compare_options_settle(o, argv, m, err);
    if (!rc)
        rc = check_place(o, figures, err);
    for (size_t i = 0; !rc && i < n; i++)
        who[i] = (struct zl_contender){o->schedules.v[i], argv[i]};
    const struct zl_compare_request r = {.dir = o->output, .contender = who, .n = n, .hooks = zl_process_prepare(o->quiet)};
    if (!rc)
        rc = zl_compare_run(&r, results, err);
    if (!rc || rc == ZL_ESTOPPED) {
        struct zl_error late = {0};
        int written = write_results(o, &r, results, command, page, figures, rc ? &late : err);
        rc = rc ? rc : written;
    }
    if (!rc)
        for (size_t i = 0; i < n && !rc; i++)
            if (results[i].problem)
                rc = zl_fail(err, ZL_ESYSTEM, "not every run came to its end; the table says which, their folders say why");
    if (results)
        zl_compare_free(results, n);
    free(results);
    free(page);
    free(figures);
    return rc;
}

int zl_cmd_compare(int argc, char **argv)
{
    struct zl_compare_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    char *command = command_text(argc, argv);
    int rc = zl_options_parse(&zl_compare_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED)
        rc = run(&o, command, &memory, &err);
    free(command);
    zl_memory_free(&memory);
    return zl_command_finish(&zl_compare_command, rc, &err);
}
