/* A generation's bytes: see format.h. */
#include "config.h"

#include "store/format.h"

#include <stdlib.h>

#define PREAMBLE_HASHED 48u
#define FOOT_HASHED 48u

static const unsigned char magic_head[8] = {0x89, 'Z', 'L', 'C', 'K', 'P', 'T', '\n'};
static const unsigned char magic_foot[8] = {0x89, 'Z', 'L', 'C', 'E', 'N', 'D', '\n'};

static void put_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static void put_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_u64(const unsigned char *p)
{
    return (uint64_t)get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

static bool zeros(const unsigned char *p, uint64_t n)
{
    while (n && !*p)
        p++, n--;
    return n == 0;
}

/* ---- layouts --------------------------------------------------------------------------------------------------------- */

static int compare_parts(const void *a, const void *b)
{
    const struct zl_checkpoint_part *x = &((const struct zl_layout_part *)a)->part, *y = &((const struct zl_layout_part *)b)->part;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return x->section < y->section ? -1 : x->section > y->section;
}

static uint64_t blocks_of(uint64_t bytes, uint32_t block_bytes)
{
    return (bytes + block_bytes - 1) / block_bytes;
}

/* Offsets and block numbers of parts that are in order; false when they do not fit into the largest file. */
static bool lay_out(struct zl_layout *l)
{
    uint64_t at = l->head_bytes, block = 0;
    for (uint32_t i = 0; i < l->n_parts; i++) {
        const uint64_t bytes = l->part[i].part.bytes;
        if (bytes > ZL_FORMAT_FILE_MOST)
            return false;
        l->part[i].offset = at;
        l->part[i].first_block = block;
        at += zl_format_padded(bytes);
        block += blocks_of(bytes, l->block_bytes);
        if (at > ZL_FORMAT_FILE_MOST)
            return false;
    }
    l->text_offset = at;
    l->part_blocks = block;
    return true;
}

bool zl_layout_text(struct zl_layout *l, uint64_t text_bytes)
{
    l->text_bytes = text_bytes;
    l->blocks = l->part_blocks + blocks_of(text_bytes, l->block_bytes);
    l->index_offset = l->text_offset + zl_format_padded(text_bytes);
    l->index_bytes = l->blocks * sizeof(struct zl_hash);
    l->file_bytes = l->index_offset + zl_format_padded(l->index_bytes) + ZL_FORMAT_PAGE;
    return text_bytes <= ZL_FORMAT_TEXT_MOST && l->index_bytes <= ZL_FORMAT_INDEX_MOST && l->file_bytes <= ZL_FORMAT_FILE_MOST;
}

int zl_layout_make(struct zl_layout *l, const struct zl_checkpoint_part *parts, uint32_t n, uint32_t block_bytes, struct zl_error *err)
{
    *l = (struct zl_layout){.n_parts = n, .block_bytes = block_bytes};
    if (n == 0 || n > ZL_FORMAT_PARTS_MOST)
        return zl_fail(err, ZL_EUSAGE, "a checkpoint of %u parts, expected 1 to %u", n, ZL_FORMAT_PARTS_MOST);
    l->part = calloc(n, sizeof *l->part);
    if (!l->part)
        return zl_fail(err, ZL_EMEMORY, "no memory for the parts of a checkpoint");
    for (uint32_t i = 0; i < n; i++)
        l->part[i].part = parts[i];
    qsort(l->part, n, sizeof *l->part, compare_parts);
    l->head_bytes = zl_format_padded(ZL_FORMAT_HEAD_FIXED + (uint64_t)n * ZL_FORMAT_HEAD_PART);
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        if (l->part[i].part.bytes == 0 || (i && compare_parts(&l->part[i - 1], &l->part[i]) == 0))
            rc = zl_fail(err, ZL_EUSAGE, "section %u of stage %u in a checkpoint is %s", l->part[i].part.section,
                         l->part[i].part.stage, l->part[i].part.bytes ? "named twice" : "empty");
    if (!rc && (!lay_out(l) || !zl_layout_text(l, 0)))
        rc = zl_fail(err, ZL_EUSAGE, "the parts of a checkpoint are too large for one file");
    if (rc)
        zl_layout_free(l);
    return rc;
}

void zl_layout_free(struct zl_layout *l)
{
    free(l->part);
    *l = (struct zl_layout){0};
}

uint32_t zl_layout_find(const struct zl_layout *l, uint32_t stage, uint32_t section)
{
    const struct zl_layout_part key = {.part = {.stage = stage, .section = section}};
    const struct zl_layout_part *p = l->n_parts ? bsearch(&key, l->part, l->n_parts, sizeof key, compare_parts) : NULL;
    return p ? (uint32_t)(p - l->part) : l->n_parts;
}

/* ---- writing --------------------------------------------------------------------------------------------------------- */

void zl_head_encode(const struct zl_layout *l, const struct zl_head *h, unsigned char *head)
{
    memset(head, 0, l->head_bytes);
    memcpy(head, magic_head, sizeof magic_head);
    put_u32(head + 8, ZL_FORMAT_VERSION);
    put_u32(head + 12, (uint32_t)l->head_bytes);
    memcpy(head + 16, h->program, strnlen(h->program, 32));
    const struct zl_hash preamble = zl_hash_of(head, PREAMBLE_HASHED);
    memcpy(head + PREAMBLE_HASHED, preamble.byte, sizeof preamble.byte);
    memcpy(head + 64, h->run.byte, sizeof h->run.byte);
    put_u64(head + 80, h->generation);
    put_u64(head + 88, h->step);
    put_u32(head + 96, l->n_parts);
    put_u32(head + 100, l->block_bytes);
    put_u64(head + 104, l->text_offset);
    for (uint32_t i = 0; i < l->n_parts; i++) {
        unsigned char *p = head + ZL_FORMAT_HEAD_FIXED + (size_t)i * ZL_FORMAT_HEAD_PART;
        put_u32(p, l->part[i].part.stage);
        put_u32(p + 4, l->part[i].part.section);
        put_u64(p + 8, l->part[i].part.bytes);
        put_u64(p + 16, l->part[i].offset);
    }
}

static struct zl_hash hash_whole(const struct zl_layout *l, const unsigned char *head, const unsigned char *index,
                                 const unsigned char *foot)
{
    unsigned char all[2 * sizeof(struct zl_hash) + FOOT_HASHED];
    const struct zl_hash h = zl_hash_of(head, l->head_bytes), i = zl_hash_of(index, zl_format_padded(l->index_bytes));
    memcpy(all, h.byte, sizeof h.byte);
    memcpy(all + sizeof h.byte, i.byte, sizeof i.byte);
    memcpy(all + 2 * sizeof h.byte, foot, FOOT_HASHED);
    return zl_hash_of(all, sizeof all);
}

void zl_foot_encode(const struct zl_layout *l, const struct zl_head *h, const unsigned char *head, const unsigned char *index,
                    unsigned char *foot)
{
    memset(foot, 0, ZL_FORMAT_PAGE);
    memcpy(foot, magic_foot, sizeof magic_foot);
    put_u64(foot + 8, h->generation);
    put_u64(foot + 16, l->text_bytes);
    put_u64(foot + 24, l->index_offset);
    put_u64(foot + 32, l->index_bytes);
    put_u64(foot + 40, l->file_bytes);
    const struct zl_hash whole = hash_whole(l, head, index, foot);
    memcpy(foot + FOOT_HASHED, whole.byte, sizeof whole.byte);
}

/* ---- reading --------------------------------------------------------------------------------------------------------- */

int zl_preamble_check(const unsigned char *bytes, uint64_t file_bytes, const char *what, uint64_t *head_bytes, struct zl_error *err)
{
    const struct zl_hash hash = zl_hash_of(bytes, PREAMBLE_HASHED);
    if (memcmp(bytes, magic_head, sizeof magic_head) != 0)
        return zl_fail(err, ZL_EINPUT, "%s is not a checkpoint of zerolock: other first bytes", what);
    if (!zl_hash_equal(&hash, bytes + PREAMBLE_HASHED))
        return zl_fail(err, ZL_EINPUT, "%s is damaged in its first 64 bytes", what);
    const uint32_t version = get_u32(bytes + 8);
    char program[33] = {0};
    memcpy(program, bytes + 16, 32);
    for (char *c = program; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    if (version != ZL_FORMAT_VERSION)
        return zl_fail(err, ZL_EUSAGE,
                       "%s is in version %u of the format, written by zerolock %s; this is zerolock %s and reads version %u: continue the "
                       "run with the zerolock that wrote it%s",
                       what, version, program, PACKAGE_VERSION, ZL_FORMAT_VERSION, version > ZL_FORMAT_VERSION ? " or a newer one" : "");
    *head_bytes = get_u32(bytes + 12);
    const uint64_t most = zl_format_padded(ZL_FORMAT_HEAD_FIXED + (uint64_t)ZL_FORMAT_PARTS_MOST * ZL_FORMAT_HEAD_PART);
    if (*head_bytes < ZL_FORMAT_PAGE || *head_bytes % ZL_FORMAT_PAGE || *head_bytes > most || *head_bytes > file_bytes)
        return zl_fail(err, ZL_EINPUT, "%s has a head of %llu bytes in a file of %llu", what, (unsigned long long)*head_bytes,
                       (unsigned long long)file_bytes);
    return 0;
}

static int read_parts(const unsigned char *head, uint64_t file_bytes, const char *what, struct zl_layout *l, struct zl_error *err)
{
    for (uint32_t i = 0; i < l->n_parts; i++) {
        const unsigned char *p = head + ZL_FORMAT_HEAD_FIXED + (size_t)i * ZL_FORMAT_HEAD_PART;
        struct zl_layout_part *part = &l->part[i];
        part->part = (struct zl_checkpoint_part){.stage = get_u32(p), .section = get_u32(p + 4), .bytes = get_u64(p + 8)};
        if (part->part.bytes == 0 || part->part.bytes > file_bytes)
            return zl_fail(err, ZL_EINPUT, "%s has a part of %llu bytes in a file of %llu", what, (unsigned long long)part->part.bytes,
                           (unsigned long long)file_bytes);
        if (i && compare_parts(part - 1, part) >= 0)
            return zl_fail(err, ZL_EINPUT, "%s has its parts out of order at part %u", what, i);
    }
    if (!lay_out(l) || l->text_offset > file_bytes)
        return zl_fail(err, ZL_EINPUT, "%s has parts that are larger together than the file of %llu bytes", what,
                       (unsigned long long)file_bytes);
    for (uint32_t i = 0; i < l->n_parts; i++)
        if (get_u64(head + ZL_FORMAT_HEAD_FIXED + (size_t)i * ZL_FORMAT_HEAD_PART + 16) != l->part[i].offset)
            return zl_fail(err, ZL_EINPUT, "%s gives part %u another place than its sizes do", what, i);
    return 0;
}

int zl_head_decode(const unsigned char *head, uint64_t head_bytes, uint64_t file_bytes, const char *what, struct zl_layout *l,
                   struct zl_head *h, struct zl_error *err)
{
    const uint32_t n = get_u32(head + 96), block = get_u32(head + 100);
    *l = (struct zl_layout){.n_parts = n, .block_bytes = block, .head_bytes = head_bytes};
    *h = (struct zl_head){.generation = get_u64(head + 80), .step = get_u64(head + 88)};
    memcpy(h->program, head + 16, 32);
    memcpy(h->run.byte, head + 64, sizeof h->run.byte);
    if (n == 0 || n > ZL_FORMAT_PARTS_MOST || zl_format_padded(ZL_FORMAT_HEAD_FIXED + (uint64_t)n * ZL_FORMAT_HEAD_PART) != head_bytes)
        return zl_fail(err, ZL_EINPUT, "%s names %u parts in a head of %llu bytes", what, n, (unsigned long long)head_bytes);
    if (block == 0 || block % ZL_FORMAT_PAGE || block > ZL_FORMAT_BLOCK_MOST)
        return zl_fail(err, ZL_EINPUT, "%s has blocks of %u bytes, expected a multiple of %u up to %u", what, block, ZL_FORMAT_PAGE,
                       ZL_FORMAT_BLOCK_MOST);
    const uint64_t used = ZL_FORMAT_HEAD_FIXED + (uint64_t)n * ZL_FORMAT_HEAD_PART;
    if (!zeros(head + 112, ZL_FORMAT_HEAD_FIXED - 112) || !zeros(head + used, head_bytes - used))
        return zl_fail(err, ZL_EINPUT, "%s has something in its head where nothing stands", what);
    l->part = calloc(n, sizeof *l->part);
    if (!l->part)
        return zl_fail(err, ZL_EMEMORY, "no memory for the parts of %s", what);
    int rc = read_parts(head, file_bytes, what, l, err);
    if (!rc && get_u64(head + 104) != l->text_offset)
        rc = zl_fail(err, ZL_EINPUT, "%s gives its text another place than its parts leave", what);
    if (rc)
        zl_layout_free(l);
    return rc;
}

int zl_foot_decode(const unsigned char *foot, uint64_t file_bytes, const char *what, const struct zl_head *h, struct zl_layout *l,
                   struct zl_error *err)
{
    if (memcmp(foot, magic_foot, sizeof magic_foot) != 0)
        return zl_fail(err, ZL_EINPUT, "%s is not complete: %llu bytes without a foot", what, (unsigned long long)file_bytes);
    if (!zl_layout_text(l, get_u64(foot + 16)) || l->file_bytes != file_bytes || get_u64(foot + 40) != file_bytes ||
        get_u64(foot + 24) != l->index_offset || get_u64(foot + 32) != l->index_bytes || get_u64(foot + 8) != h->generation)
        return zl_fail(err, ZL_EINPUT, "%s is damaged: its head, its foot and its %llu bytes do not agree", what,
                       (unsigned long long)file_bytes);
    if (!zeros(foot + ZL_FORMAT_FOOT_USED, ZL_FORMAT_PAGE - ZL_FORMAT_FOOT_USED))
        return zl_fail(err, ZL_EINPUT, "%s is damaged behind its foot", what);
    return 0;
}

int zl_whole_check(const struct zl_layout *l, const unsigned char *head, const unsigned char *index, const unsigned char *foot,
                   const char *what, struct zl_error *err)
{
    const struct zl_hash hash = hash_whole(l, head, index, foot);
    if (!zl_hash_equal(&hash, foot + FOOT_HASHED))
        return zl_fail(err, ZL_EINPUT, "%s is damaged in its head, index or foot", what);
    return 0;
}
