/*
 * A generation's file, byte by byte; zerolock-checkpoint(5) says the same for people. Integers are little-endian, hashes XXH3-128 in
 * canonical order, and all that is not named is zero. P is 4096: everything begins at a multiple of it, so that the file can be
 * written and read past the page cache.
 *
 *     preamble      0  8  magic 89 "ZLCKPT" 0a                          } the same in every version of the format, so that a file
 *                   8  4  version: 1                                    } of another version is known for what it is
 *                  12  4  bytes of the head, a multiple of P            }
 *                  16 32  version of the program that wrote it, text    }
 *                  48 16  hash of bytes 0 to 47                         }
 *     head         64 16  the run
 *                  80  8  generation
 *                  88  8  step
 *                  96  4  number of parts n
 *                 100  4  bytes of a block b, a multiple of P
 *                 104  8  offset of the text
 *                 112 16  zero
 *                 128 24  each part, ascending by (stage, section): stage 4, section 4, bytes 8, offset 8
 *     parts               one behind the other, each padded to a multiple of P and cut into blocks of b; the last block is shorter
 *     text                the driver's, padded and cut in the same way
 *     index               16 bytes a block in the order of the file: the hash of the block with its padding; padded
 *     foot          0  8  magic 89 "ZLCEND" 0a
 *                   8  8  generation
 *                  16  8  bytes of the text, without padding
 *                  24  8  offset of the index
 *                  32  8  bytes of the index, without padding
 *                  40  8  bytes of the file
 *                  48 16  over the whole: hash of these 80 bytes: hash of the head, hash of the index with padding, bytes 0 to 47 of the
 *                         foot. The index has the blocks'
 *                  64     zero up to P
 *
 * Nothing of it is believed before it is checked: the offsets follow from the sizes and must be what is written, the sizes must add up to
 * the file's own, and each byte is under a hash or must be zero. This file knows layouts and bytes in memory, not files.
 */
#ifndef ZL_STORE_FORMAT_H
#define ZL_STORE_FORMAT_H

#include <stddef.h>

#include "store/generation.h"
#include "store/hash.h"

#define ZL_FORMAT_VERSION 1u
#define ZL_FORMAT_PAGE 4096u
#define ZL_FORMAT_BLOCK 65536u       /* what we write; any multiple of the page up to the most is read */
#define ZL_FORMAT_BLOCK_MOST 1048576u
#define ZL_FORMAT_PARTS_MOST 65536u
#define ZL_FORMAT_TEXT_MOST 16777216u
#define ZL_FORMAT_INDEX_MOST 67108864u  /* a reader holds the index: this is 256 GiB in blocks of 64 KiB */
#define ZL_FORMAT_FILE_MOST (UINT64_C(1) << 48)
#define ZL_FORMAT_PREAMBLE 64u
#define ZL_FORMAT_HEAD_FIXED 128u
#define ZL_FORMAT_HEAD_PART 24u
#define ZL_FORMAT_FOOT_USED 64u

struct zl_layout_part {
    struct zl_checkpoint_part part;
    uint64_t offset, first_block;
};

/* Where everything lies. Parts of a generation are known before a run; the text's length only when it is there. */
struct zl_layout {
    uint32_t n_parts, block_bytes;
    uint64_t head_bytes, text_offset;
    uint64_t part_blocks; /* blocks of all parts: the text's come behind them */
    struct zl_layout_part *part; /* [n_parts], ascending by (stage, section) */
    /* with the text: zl_layout_text */
    uint64_t text_bytes, blocks, index_offset, index_bytes, file_bytes;
};

/* What a head says beside its layout. */
struct zl_head {
    char program[33];
    struct zl_run_id run;
    uint64_t generation, step;
};

static inline uint64_t zl_format_padded(uint64_t bytes)
{
    return (bytes + ZL_FORMAT_PAGE - 1) / ZL_FORMAT_PAGE * ZL_FORMAT_PAGE;
}

/* Bytes that block `block` of something `bytes` long takes in the file, padding included. */
static inline uint32_t zl_format_block_bytes(uint64_t bytes, uint64_t block, uint32_t block_bytes)
{
    const uint64_t left = zl_format_padded(bytes) - block * block_bytes;
    return left < block_bytes ? (uint32_t)left : block_bytes;
}

/* ZL_EUSAGE: no layout can be made of these parts (none, too many, empty, twice the same, too large). Frees with zl_layout_free. */
int zl_layout_make(struct zl_layout *l, const struct zl_checkpoint_part *parts, uint32_t n, uint32_t block_bytes, struct zl_error *err);
void zl_layout_free(struct zl_layout *l);
/* False: the file would be too large. */
bool zl_layout_text(struct zl_layout *l, uint64_t text_bytes);
/* Index into l->part, or n_parts. */
uint32_t zl_layout_find(const struct zl_layout *l, uint32_t stage, uint32_t section);

void zl_head_encode(const struct zl_layout *l, const struct zl_head *h, unsigned char *head /* [l->head_bytes] */);
/* index: [padded index_bytes], filled but for nothing; foot: [ZL_FORMAT_PAGE]. */
void zl_foot_encode(const struct zl_layout *l, const struct zl_head *h, const unsigned char *head, const unsigned char *index,
                    unsigned char *foot);

/* The first ZL_FORMAT_PREAMBLE bytes: how long the head is. ZL_EUSAGE for a sound preamble of another version, ZL_EINPUT for damage.
 * what: the file, for sentences. */
int zl_preamble_check(const unsigned char *bytes, uint64_t file_bytes, const char *what, uint64_t *head_bytes, struct zl_error *err);
/* A whole head, its preamble checked: a layout without text, and what else it says. */
int zl_head_decode(const unsigned char *head, uint64_t head_bytes, uint64_t file_bytes, const char *what, struct zl_layout *l,
                   struct zl_head *h, struct zl_error *err);
/* The last page against the file's size and the head's layout; completes the layout. */
int zl_foot_decode(const unsigned char *foot, uint64_t file_bytes, const char *what, const struct zl_head *h, struct zl_layout *l,
                   struct zl_error *err);
/* Head, index and foot belong together: the hash over the whole. */
int zl_whole_check(const struct zl_layout *l, const unsigned char *head, const unsigned char *index, const unsigned char *foot,
                   const char *what, struct zl_error *err);

#endif
