/*
 * Reading one generation: head, foot, index and text at the opening, parts when asked for. Whatever the file holds, memory stays bounded by
 * the limits of the format and every byte that leaves here was under a hash that held. See generation.h and format.h.
 */
#include "config.h"

#include "store/generation_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define BUFFER ZL_FORMAT_BLOCK_MOST

/* `bytes` and `offset` are multiples of the page. A device that cannot read a place is damage as a wrong hash is. */
static int read_at(struct zl_generation_file *f, uint64_t offset, size_t bytes, unsigned char *to, struct zl_error *err)
{
    while (bytes) {
        const ssize_t n = pread(f->fd, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && f->direct) {
            f->direct = false;
            if (fcntl(f->fd, F_SETFL, 0) == 0)
                continue;
        }
        if (n < 0)
            return zl_fail_errno(err, ZL_EINPUT, "%s cannot be read at byte %llu", f->what, (unsigned long long)offset);
        if (n == 0)
            return zl_fail(err, ZL_EINPUT, "%s ends at byte %llu, expected %llu bytes", f->what, (unsigned long long)offset,
                           (unsigned long long)f->bytes);
        if (f->direct && n % ZL_FORMAT_PAGE) { /* the rest begins where no direct read may */
            f->direct = false;
            fcntl(f->fd, F_SETFL, 0);
        }
        to += n, offset += (uint64_t)n, bytes -= (size_t)n;
    }
    return 0;
}

/* Something that is padded and cut into blocks, checked block by block; to [bytes], or NULL: only check it. */
static int read_blocks(struct zl_generation_file *f, uint64_t offset, uint64_t bytes, uint64_t first_block, const char *whose,
                       unsigned char *to, struct zl_error *err)
{
    const uint32_t block_bytes = f->layout.block_bytes;
    const uint64_t chunk_most = BUFFER / block_bytes * block_bytes;
    for (uint64_t at = 0; at < bytes;) {
        const uint64_t left = zl_format_padded(bytes) - at, chunk = left < chunk_most ? left : chunk_most;
        int rc = read_at(f, offset + at, (size_t)chunk, f->buffer, err);
        if (rc)
            return rc;
        for (uint64_t k = 0; k < chunk; k += block_bytes) {
            const uint64_t block = (at + k) / block_bytes;
            const uint32_t n = zl_format_block_bytes(bytes, block, block_bytes);
            const struct zl_hash hash = zl_hash_of(f->buffer + k, n);
            if (!zl_hash_equal(&hash, f->index + (first_block + block) * sizeof hash))
                return zl_fail(err, ZL_EINPUT, "%s is damaged in the %u bytes from %llu on, block %llu of %s", f->what, n,
                               (unsigned long long)(offset + at + k), (unsigned long long)block, whose);
        }
        if (to)
            memcpy(to + at, f->buffer, (size_t)(bytes - at < chunk ? bytes - at : chunk));
        at += chunk;
    }
    return 0;
}

/* Past the page cache where that is possible, else at least what it holds of the file is dropped: the disk is to be asked. */
static int check_file(struct zl_generation_file *f, struct zl_error *err)
{
    struct stat st;
    if (fstat(f->fd, &st))
        return zl_fail_errno(err, ZL_ESYSTEM, "cannot stat %s", f->what);
    if (!S_ISREG(st.st_mode))
        return zl_fail(err, ZL_EINPUT, "%s is not a plain file", f->what);
    f->bytes = (uint64_t)st.st_size;
    if (f->bytes < 3 * (uint64_t)ZL_FORMAT_PAGE || f->bytes % ZL_FORMAT_PAGE || f->bytes > ZL_FORMAT_FILE_MOST)
        return zl_fail(err, ZL_EINPUT, "%s has %llu bytes: no checkpoint has that length, it is cut short or not complete", f->what,
                       (unsigned long long)f->bytes);
    f->direct = fcntl(f->fd, F_SETFL, O_DIRECT) == 0;
    if (!f->direct) {
        fcntl(f->fd, F_SETFL, 0); /* no O_NONBLOCK any more either */
        posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    return 0;
}

static unsigned char *pages(uint64_t bytes)
{
    return aligned_alloc(ZL_FORMAT_PAGE, (size_t)zl_format_padded(bytes));
}

static int no_memory(const struct zl_generation_file *f, struct zl_error *err)
{
    return zl_fail(err, ZL_EMEMORY, "no memory to read %s", f->what);
}

/* The text, and what callers see of the head. */
static int fill(struct zl_generation *g, struct zl_error *err)
{
    struct zl_generation_file *f = g->file;
    const struct zl_layout *l = &f->layout;
    g->generation = f->head.generation;
    g->step = f->head.step;
    g->run = f->head.run;
    g->bytes = f->bytes;
    memcpy(g->program, f->head.program, sizeof g->program);
    g->parts = malloc(l->n_parts * sizeof *g->parts);
    g->text = malloc((size_t)l->text_bytes + 1);
    if (!g->parts || !g->text)
        return no_memory(f, err);
    for (g->n_parts = 0; g->n_parts < l->n_parts; g->n_parts++)
        g->parts[g->n_parts] = l->part[g->n_parts].part;
    g->text_bytes = l->text_bytes;
    g->text[g->text_bytes] = '\0';
    return read_blocks(f, l->text_offset, l->text_bytes, l->part_blocks, "the text", (unsigned char *)g->text, err);
}

static int read_frame(struct zl_generation_file *f, struct zl_error *err)
{
    uint64_t head_bytes = 0;
    unsigned char *head = NULL, *foot = f->buffer + ZL_FORMAT_PAGE;
    int rc = read_at(f, 0, ZL_FORMAT_PAGE, f->buffer, err);
    if (!rc)
        rc = zl_preamble_check(f->buffer, f->bytes, f->what, &head_bytes, err);
    if (rc)
        return rc;
    if (!(head = pages(head_bytes)))
        return no_memory(f, err);
    rc = read_at(f, 0, (size_t)head_bytes, head, err);
    if (!rc && memcmp(head, f->buffer, ZL_FORMAT_PREAMBLE) != 0)
        rc = zl_fail(err, ZL_EINPUT, "%s is being changed", f->what);
    if (!rc)
        rc = zl_head_decode(head, head_bytes, f->bytes, f->what, &f->layout, &f->head, err);
    if (!rc)
        rc = read_at(f, f->bytes - ZL_FORMAT_PAGE, ZL_FORMAT_PAGE, foot, err);
    if (!rc)
        rc = zl_foot_decode(foot, f->bytes, f->what, &f->head, &f->layout, err);
    if (!rc && !(f->index = pages(f->layout.index_bytes)))
        rc = no_memory(f, err);
    if (!rc)
        rc = read_at(f, f->layout.index_offset, (size_t)zl_format_padded(f->layout.index_bytes), f->index, err);
    if (!rc)
        rc = zl_whole_check(&f->layout, head, f->index, foot, f->what, err);
    free(head);
    return rc;
}

int zl_generation_open_fd(struct zl_generation *g, int fd, const char *what, struct zl_error *err)
{
    *g = (struct zl_generation){.file = calloc(1, sizeof *g->file)};
    struct zl_generation_file *f = g->file;
    if (!f) {
        close(fd);
        return zl_fail(err, ZL_EMEMORY, "no memory to read %s", what);
    }
    f->fd = fd;
    f->what = strdup(what);
    f->buffer = pages(BUFFER);
    int rc = f->what && f->buffer ? check_file(f, err) : zl_fail(err, ZL_EMEMORY, "no memory to read %s", what);
    if (!rc)
        rc = read_frame(f, err);
    if (!rc)
        rc = fill(g, err);
    if (rc)
        zl_generation_close(g);
    return rc;
}

int zl_generation_open_at(struct zl_generation *g, int folder, const char *name, const char *what, uint64_t generation, uint64_t step,
                          struct zl_error *err)
{
    *g = (struct zl_generation){0};
    /* a link leads to a file that is none of ours, and a FIFO would let us wait for ever */
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ELOOP)
        return zl_fail(err, ZL_EINPUT, "%s is a symbolic link, expected a file", what);
    if (fd < 0)
        return zl_fail_errno(err, errno == ENOENT ? ZL_EINPUT : ZL_ESYSTEM, "cannot open %s", what);
    int rc = zl_generation_open_fd(g, fd, what, err);
    if (!rc && (g->generation != generation || g->step != step)) {
        rc = zl_fail(err, ZL_EINPUT, "%s holds generation %llu of step %llu: it was renamed", what, (unsigned long long)g->generation,
                     (unsigned long long)g->step);
        zl_generation_close(g);
    }
    return rc;
}

void zl_generation_close(struct zl_generation *g)
{
    struct zl_generation_file *f = g->file;
    if (f) {
        close(f->fd);
        zl_layout_free(&f->layout);
        free(f->what);
        free(f->index);
        free(f->buffer);
        free(f);
    }
    free(g->parts);
    free(g->text);
    *g = (struct zl_generation){0};
}

/* "section 3 of stage 1" */
static const char *part_name(const struct zl_checkpoint_part *p, char name[64])
{
    if (p->stage == ZL_CHECKPOINT_DRIVER)
        snprintf(name, 64, "section %u of the driver", p->section);
    else
        snprintf(name, 64, "section %u of stage %u", p->section, p->stage);
    return name;
}

static int read_part(struct zl_generation_file *f, const struct zl_layout_part *p, void *data, struct zl_error *err)
{
    char name[64];
    return read_blocks(f, p->offset, p->part.bytes, p->first_block, part_name(&p->part, name), data, err);
}

int zl_generation_verify(struct zl_generation *g, struct zl_error *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < g->n_parts && !rc; i++)
        rc = read_part(g->file, &g->file->layout.part[i], NULL, err);
    return rc;
}

const struct zl_checkpoint_part *zl_generation_part(const struct zl_generation *g, uint32_t stage, uint32_t section)
{
    const uint32_t i = zl_layout_find(&g->file->layout, stage, section);
    return i < g->n_parts ? &g->parts[i] : NULL;
}

int zl_generation_read(struct zl_generation *g, uint32_t stage, uint32_t section, void *data, uint64_t bytes, struct zl_error *err)
{
    char name[64];
    const struct zl_checkpoint_part wanted = {.stage = stage, .section = section};
    const struct zl_checkpoint_part *p = zl_generation_part(g, stage, section);
    if (!p)
        return zl_fail(err, ZL_EINPUT, "%s has no %s", g->file->what, part_name(&wanted, name));
    if (p->bytes != bytes)
        return zl_fail(err, ZL_EINPUT, "%s has %llu bytes in %s, expected %llu", g->file->what, (unsigned long long)p->bytes,
                       part_name(&wanted, name), (unsigned long long)bytes);
    return read_part(g->file, &g->file->layout.part[p - g->parts], data, err);
}
