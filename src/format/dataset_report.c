/*
 * What became of the rows, counted and said. Numbers are printed without the locale. Called by the
 * loader (counting) and the commands (printing, before the first step).
 */
#include "format/dataset_build.h"

#include <inttypes.h>
#include <string.h>

const char *const zl_drop_names[ZL_DROP_REASONS] = {
    [ZL_DROP_EMPTY] = "nothing to train (empty text or completion, or no assistant turn)",
    [ZL_DROP_PROMPT_LONG] = "the prompt alone fills the maximum length",
    [ZL_DROP_SHORT] = "fewer than two tokens",
};

void zl_data_report_count(struct zl_data_report *r, const struct zl_example *e)
{
    r->kept++;
    r->tokens += e->n;
    r->trained += e->n_trained;
    r->text_bytes += e->text_bytes;
    if (e->n > r->longest)
        r->longest = e->n;
    if (!e->cut)
        return;
    if (r->cut < ZL_DATA_LINES) {
        r->cut_lines[r->cut] = e->line;
        r->cut_files[r->cut] = e->file;
    }
    r->cut++;
}

void zl_data_report_recount(struct zl_dataset *d)
{
    struct zl_data_report *r = &d->report;
    r->kept = r->cut = r->tokens = r->trained = r->text_bytes = 0;
    r->longest = 0;
    r->n_files = d->n_files;
    for (uint64_t i = 0; i < d->n_examples; i++)
        zl_data_report_count(r, &d->examples[i]);
}

/* ", at lines 3, 9, 12, …"; nothing for windows of plain text, which have no lines. */
static void print_lines(const struct zl_data_report *r, uint64_t n, const uint64_t *lines,
                        const uint32_t *files, FILE *f)
{
    uint64_t shown = n < ZL_DATA_LINES ? n : ZL_DATA_LINES, with_line = 0;
    for (uint64_t i = 0; i < shown; i++)
        with_line += lines[i] > 0;
    if (!with_line)
        return;
    fputs(with_line > 1 ? ", at lines " : ", at line ", f);
    const char *between = "";
    for (uint64_t i = 0; i < shown; i++) {
        if (!lines[i])
            continue;
        fprintf(f, "%s%" PRIu64, between, lines[i]);
        if (r->n_files > 1)
            fprintf(f, " of file %" PRIu32, files[i] + 1);
        between = ", ";
    }
    if (n > shown)
        fputs(", …", f);
}

/* "66.7 %" of part in whole. */
static void print_percent(uint64_t part, uint64_t whole, FILE *f)
{
    uint64_t tenths = whole ? (uint64_t)((double)part * 1000.0 / (double)whole + 0.5) : 0;
    fprintf(f, "%" PRIu64 ".%" PRIu64 " %%", tenths / 10, tenths % 10);
}

void zl_data_report_print(const struct zl_data_report *r, const char *title, FILE *f)
{
    fprintf(f, "%s: %" PRIu64 " of %" PRIu64 " rows kept", title ? title : "data", r->kept,
            r->rows);
    if (r->n_files > 1)
        fprintf(f, " from %" PRIu32 " files", r->n_files);
    fprintf(f, "\n  %" PRIu64 " tokens, %" PRIu64 " trained (", r->tokens, r->trained);
    print_percent(r->trained, r->tokens, f);
    fprintf(f, "), longest %" PRIu32 ", %" PRIu64 " bytes of text\n", r->longest, r->text_bytes);
    if (r->cut) {
        fprintf(f, "  cut %" PRIu64 ": longer than the maximum length", r->cut);
        print_lines(r, r->cut, r->cut_lines, r->cut_files, f);
        fputc('\n', f);
    }
    for (int k = 0; k < ZL_DROP_REASONS; k++) {
        if (!r->dropped[k])
            continue;
        fprintf(f, "  dropped %" PRIu64 ": %s", r->dropped[k], zl_drop_names[k]);
        print_lines(r, r->dropped[k], r->first_lines[k], r->first_files[k], f);
        fputc('\n', f);
    }
    if (r->no_eos)
        fputs("  note: the tokenizer names no EOS token, so no row ends with one\n", f);
}
