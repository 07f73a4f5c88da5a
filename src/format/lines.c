/*
 * Lines of text files: see lines.h. Not a parser: it knows of JSON only whether a value is open, to
 * tell a CR that ends a row from one that is white space inside it. Invariant: memory is bounded by
 * the longest line, whatever the file. Called by jsonl.c and by the dataset's plain text.
 */
#include "format/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/grow.h"

enum { FIRST_CAPACITY = 1 << 16 };

/* Read more behind buffer[end): moves what is pending to the front, grows the buffer when it is
 * full (to at most limit + 1 bytes). Sets eof. */
static int fill(struct zl_lines *l, uint64_t limit, struct zl_error *err)
{
    if (l->start) {
        memmove(l->buffer, l->buffer + l->start, l->end - l->start);
        l->end -= l->start;
        l->start = 0;
    }
    if (l->end == l->capacity) {
        uint64_t want = l->capacity ? (uint64_t)l->capacity * 2 : FIRST_CAPACITY;
        if (want > limit + 1)
            want = limit + 1;
        int rc = zl_array_check(want - l->capacity, 1, "bytes of text", err);
        if (rc) {
            zl_fail_prefix(err, "%s", l->path);
            return rc;
        }
        char *b = want > l->capacity ? realloc(l->buffer, (size_t)want) : NULL;
        if (!b)
            return zl_fail(err, ZL_EMEMORY, "%s: no memory for a buffer of %" PRIu64 " bytes",
                           l->path, want);
        l->buffer = b;
        l->capacity = (size_t)want;
    }
    for (;;) {
        ssize_t n = read(l->fd, l->buffer + l->end, l->capacity - l->end);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return zl_fail_errno(err, ZL_ESYSTEM, "%s: cannot read at byte %" PRIu64, l->path,
                                 l->start_offset + (l->end - l->start));
        l->eof = n == 0;
        l->end += (size_t)n;
        return 0;
    }
}

/* Have at least `want` bytes pending, or all that is left. */
static int have(struct zl_lines *l, size_t want, struct zl_error *err)
{
    int rc = 0;
    while (!rc && !l->eof && l->end - l->start < want)
        rc = fill(l, ZL_LINE_MAX, err);
    return rc;
}

static void consume(struct zl_lines *l, size_t n)
{
    l->start += n;
    l->start_offset += n;
}

int zl_lines_open(struct zl_lines *l, const char *path, struct zl_error *err)
{
    memset(l, 0, sizeof *l);
    l->path = path;
    l->next_line = 1;
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        return zl_fail_errno(err, ZL_ESYSTEM, "cannot open %s", path);
    struct stat st;
    int rc = 0;
    if (fstat(l->fd, &st) == 0 && S_ISDIR(st.st_mode))
        rc = zl_fail(err, ZL_EINPUT, "%s is a folder, expected a file of JSON lines or plain text",
                     path);
    if (!rc)
        rc = have(l, 3, err);
    if (rc) {
        zl_lines_close(l);
        return rc;
    }
    if (l->end - l->start >= 3 && !memcmp(l->buffer + l->start, "\xEF\xBB\xBF", 3))
        consume(l, 3);
    return 0;
}

void zl_lines_close(struct zl_lines *l)
{
    if (l->fd >= 0)
        close(l->fd);
    free(l->buffer);
    memset(l, 0, sizeof *l);
    l->fd = -1;
}

int zl_lines_peek(struct zl_lines *l, const char **text, size_t *len, struct zl_error *err)
{
    int rc = have(l, 4096, err);
    size_t blank = 0;
    for (;;) {
        *text = l->buffer ? l->buffer + l->start : "";
        *len = l->end - l->start;
        while (blank < *len && strchr(" \t\r\n", (*text)[blank]) && (*text)[blank])
            blank++;
        if (rc || l->eof || blank < *len)
            return rc;
        if (blank > ZL_LINE_MAX)
            return zl_fail(err, ZL_EINPUT,
                           "%s: the first %zu bytes are blank, expected JSON lines or text",
                           l->path, blank);
        rc = fill(l, ZL_LINE_MAX, err);
    }
}

/* How deep in JSON values the bytes seen so far end; fed once per byte, and only for lines with a
 * CR in them. */
struct nesting {
    size_t seen;
    uint64_t depth;
    bool string, escape;
};

static bool value_open(struct nesting *s, const char *text, size_t len)
{
    for (; s->seen < len; s->seen++) {
        char c = text[s->seen];
        if (s->string) {
            if (s->escape)
                s->escape = false;
            else if (c == '\\')
                s->escape = true;
            else if (c == '"')
                s->string = false;
        } else if (c == '"') {
            s->string = true;
        } else if (c == '{' || c == '[') {
            s->depth++;
        } else if ((c == '}' || c == ']') && s->depth) {
            s->depth--;
        }
    }
    return s->string || s->depth;
}

/* Give out buffer[start..start+len), followed by `ending` bytes of line end. */
static int give(struct zl_lines *l, size_t len, size_t ending)
{
    l->text = l->buffer + l->start;
    l->len = len;
    l->line = l->next_line++;
    l->offset = l->start_offset;
    consume(l, len + ending);
    return 1;
}

int zl_lines_next(struct zl_lines *l, struct zl_error *err)
{
    struct nesting nesting = {0};
    size_t seen = 0; /* bytes behind start without a line end */
    for (;;) {
        const char *line = l->buffer + l->start;
        size_t pending = l->end - l->start;
        const char *lf = pending > seen ? memchr(line + seen, '\n', pending - seen) : NULL;
        size_t to = lf ? (size_t)(lf - line) : pending;
        for (const char *cr; seen < to && (cr = memchr(line + seen, '\r', to - seen));
             seen = (size_t)(cr - line) + 1) {
            size_t len = (size_t)(cr - line);
            if (len + 1 == pending && !l->eof) {
                to = len; /* whether LF follows is not known yet */
                break;
            }
            bool crlf = len + 1 < pending && line[len + 1] == '\n';
            if (crlf ? len + 2 <= ZL_LINE_MAX : !value_open(&nesting, line, len))
                return give(l, len, crlf ? 2 : 1);
        }
        if (lf && to < ZL_LINE_MAX)
            return give(l, to, 1);
        seen = to;
        if (pending > ZL_LINE_MAX)
            return zl_fail(err, ZL_EINPUT,
                           "%s: line %" PRIu64 ", byte %" PRIu64
                           ": the line is longer than %" PRIu64
                           " bytes; a row must be one shorter line",
                           l->path, l->next_line, l->start_offset, ZL_LINE_MAX);
        if (l->eof)
            return pending ? give(l, pending, 0) : 0;
        int rc = fill(l, ZL_LINE_MAX, err);
        if (rc)
            return rc;
    }
}

int zl_lines_rest(struct zl_lines *l, struct zl_error *err)
{
    while (!l->eof) {
        int rc = fill(l, ZL_TEXT_MAX, err);
        if (rc)
            return rc;
        if (l->end > ZL_TEXT_MAX)
            return zl_fail(err, ZL_EINPUT,
                           "%s: the text is larger than %" PRIu64
                           " bytes; split it into several files",
                           l->path, ZL_TEXT_MAX);
    }
    give(l, l->end - l->start, 0);
    return 0;
}
