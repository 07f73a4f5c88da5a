/*
 * One example as people read it, for `zerolock inspect data`: its text cut at token borders, the
 * trained tokens marked. Not a format that a program reads back. Invariant: nothing from the data
 * reaches the terminal as a control sequence.
 */
#include "format/dataset.h"

#include <inttypes.h>
#include <string.h>

#define BORDER  "\u2502"   /* thin vertical line */
#define NEWLINE "\u23CE\n" /* return symbol, then a real line end: the text keeps its shape */

static const struct style {
    const char *on, *off, *border;
} styles[2] = {
    {"\u27E6", "\u27E7", BORDER},                           /* brackets */
    {"\033[1;32m", "\033[0m", "\033[2m" BORDER "\033[22m"}, /* bold green; borders dimmed */
};

/* Text of a piece; control bytes (C0, DEL, and C1 as UTF-8) made visible. */
static void put(const char *s, size_t len, FILE *f)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i], next = i + 1 < len ? (unsigned char)s[i + 1] : 0;
        if (c == '\n')
            fputs(NEWLINE, f);
        else if (c == 0xC2 && next >= 0x80 && next < 0xA0)
            fprintf(f, "\\u%04x", (unsigned)next), i++;
        else if ((c < ' ' && c != '\t') || c == 127)
            fprintf(f, "\\x%02x", (unsigned)c);
        else
            fputc(c, f);
    }
}

void zl_data_print_example(const struct zl_dataset *d, uint64_t i, const struct zl_tokenizer *t,
                           bool color, FILE *f)
{
    const struct zl_example *e = &d->examples[i];
    const struct style *style = &styles[color];
    fprintf(f, "example %" PRIu64 ": %s", i, d->files[e->file]);
    if (e->line)
        fprintf(f, " line %" PRIu64, e->line);
    fprintf(f, ", %" PRIu32 " tokens, %" PRIu32 " trained%s\n", e->n, e->n_trained,
            e->cut ? ", cut" : "");

    struct zl_detokenizer *text = zl_detokenizer_new(t, false);
    if (!text) {
        fputs("no memory to decode it\n", f);
        return;
    }
    bool on = false, first = true;
    for (uint32_t k = 0; k <= e->n; k++) { /* one past the end: what the decoder still holds */
        size_t len;
        bool trained = k < e->n ? d->trained[e->first + k] : on;
        const char *piece = k < e->n ? zl_detokenizer_push(text, d->tokens[e->first + k], &len)
                                     : zl_detokenizer_finish(text, &len);
        if (!piece || !len)
            continue; /* part of a character: shown with the token that completes it */
        if (trained != on)
            fputs(trained ? style->on : style->off, f);
        else if (!first)
            fputs(style->border, f);
        put(piece, len, f);
        on = trained;
        first = false;
    }
    if (on)
        fputs(style->off, f);
    fputc('\n', f);
    zl_detokenizer_free(text);
}
