/*
 * fuzz-checkpoint [COUNT [FIRST]]: mutated checkpoints. Either refused with a sentence, or open with parts that can be read to the last
 * byte. A mutant would hardly ever get past its first hash, so most get their hashes put right again: what is tested is what stands
 * behind them.
 */
#include "tests/fuzz/mutate.h"

#include "store/generation_impl.h"

/* A file of three parts in small blocks, as the writer lays it out. */
static struct bytes make_file(uint32_t block_bytes)
{
    static const struct zl_checkpoint_part parts[] = {{0, 1, 9000}, {0, 2, 1}, {3, 1, 4096}};
    static const char text[] = "{\"step\": 12}";
    const struct zl_head h = {.program = "0.0.0", .generation = 5, .step = 12};
    struct zl_layout l;
    struct zl_error err = {0};
    struct bytes b = {0};
    assert_int_equal(zl_layout_make(&l, parts, 3, block_bytes, &err), 0);
    assert_true(zl_layout_text(&l, sizeof text - 1));
    b.p = calloc(1, l.file_bytes);
    b.n = l.file_bytes;
    for (uint64_t at = l.head_bytes; at < l.text_offset; at++)
        b.p[at] = (unsigned char)(at * 7);
    for (uint32_t i = 0; i < 3; i++)
        memset(b.p + l.part[i].offset + l.part[i].part.bytes, 0, zl_format_padded(l.part[i].part.bytes) - l.part[i].part.bytes);
    memcpy(b.p + l.text_offset, text, sizeof text - 1);
    unsigned char *index = b.p + l.index_offset;
    for (uint32_t i = 0; i <= 3; i++) {
        const uint64_t bytes = i < 3 ? l.part[i].part.bytes : l.text_bytes, offset = i < 3 ? l.part[i].offset : l.text_offset;
        for (uint64_t block = 0; block * block_bytes < bytes; block++, index += 16) {
            const struct zl_hash hash =
                zl_hash_of(b.p + offset + block * block_bytes, zl_format_block_bytes(bytes, block, block_bytes));
            memcpy(index, hash.byte, 16);
        }
    }
    zl_head_encode(&l, &h, b.p);
    zl_foot_encode(&l, &h, b.p, b.p + l.index_offset, b.p + b.n - ZL_FORMAT_PAGE);
    zl_layout_free(&l);
    return b;
}

static uint64_t read_u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* The preamble's hash, and the hash over the whole as far as head and index can be found where the mutant says. */
static void put_hashes_right(struct bytes *b)
{
    unsigned char all[80], *foot = b->p + b->n - ZL_FORMAT_PAGE;
    if (b->n < 3 * ZL_FORMAT_PAGE)
        return;
    struct zl_hash hash = zl_hash_of(b->p, 48);
    memcpy(b->p + 48, hash.byte, 16);
    const uint64_t head_bytes = read_u64(b->p + 8) >> 32, at = read_u64(foot + 24), n = zl_format_padded(read_u64(foot + 32) % (b->n + 1));
    if (head_bytes > b->n || at > b->n || n > b->n - at)
        return;
    hash = zl_hash_of(b->p, head_bytes);
    memcpy(all, hash.byte, 16);
    hash = zl_hash_of(b->p + at, n);
    memcpy(all + 16, hash.byte, 16);
    memcpy(all + 32, foot, 48);
    hash = zl_hash_of(all, sizeof all);
    memcpy(foot + 48, hash.byte, 16);
}

/* Mutations fall on the frame more often than on the bytes of the parts, and on whole fields more often than on bytes. */
static void mutate_frame(struct mutator *m, struct bytes *b)
{
    static const uint64_t values[] = {0, 1, 2, 3, 23, 24, 4095, 4096, 4097, 8192, 65535, 65536, 65537, 1048576, 1048577, 16777216, 16777217,
                                      UINT32_MAX, 1ull << 32, 1ull << 48, 1ull << 60, INT64_MAX, 1ull << 63, UINT64_MAX};
    const bool head = draw(m, 2) || b->n < 3 * ZL_FORMAT_PAGE;
    const size_t width = draw(m, 2) ? 8 : 4;
    const size_t at = head ? 8 + draw(m, 50) * 4 : b->n - ZL_FORMAT_PAGE + draw(m, 18) * 4;
    if (at + width > b->n)
        return;
    uint64_t v = 0;
    memcpy(&v, b->p + at, width);
    switch (draw(m, 3)) {
    case 0:
        v = values[draw(m, sizeof values / sizeof *values)];
        break;
    case 1:
        v += (draw(m, 17) - 8) * (draw(m, 2) ? ZL_FORMAT_PAGE : 1);
        break;
    case 2:
        v ^= 1ull << draw(m, 8 * width);
        break;
    }
    memcpy(b->p + at, &v, width);
}

static uint64_t visit(struct zl_generation *g, uint64_t file_bytes)
{
    struct zl_error err = {0};
    uint64_t sum = touch(g->text, g->text_bytes) + strlen(g->program), all = g->text_bytes;
    const bool sound = zl_generation_verify(g, &err) == 0;
    assert_int_equal(err.code == 0, sound);
    for (uint32_t i = 0; i < g->n_parts; i++) {
        const struct zl_checkpoint_part *p = &g->parts[i];
        assert_ptr_equal(zl_generation_part(g, p->stage, p->section), p);
        all += p->bytes;
        assert_true(all < file_bytes);
        unsigned char *data = malloc(p->bytes);
        struct zl_error why = {0};
        if (!zl_generation_read(g, p->stage, p->section, data, p->bytes, &why))
            sum += touch(data, p->bytes);
        else
            assert_true(!sound && *why.text);
        free(data);
    }
    return sum;
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"\x89ZLCKPT\n", "\x89ZLCEND\n", NULL};
    struct mutator m;
    struct bytes file[2] = {make_file(ZL_FORMAT_PAGE), make_file(ZL_FORMAT_BLOCK)};
    uint64_t first, end, opened = 0, other_format = 0, sum = 0;
    fuzz_range(argc, argv, &first, &end);
    if (argc < 2)
        end = first + 50000;
    mutator_init(&m, words);
    for (uint64_t i = first; i < end; i++) {
        struct bytes b = {0};
        struct zl_generation g;
        struct zl_error err = {0};
        put(&b, file[i % 2].p, file[i % 2].n);
        m.seed = i;
        m.draws = 0;
        const bool frame = draw(&m, 4) > 0;
        for (uint64_t k = 1 + draw(&m, 3); k; k--)
            frame ? mutate_frame(&m, &b) : mutate_once(&m, &b);
        if (draw(&m, 8) == 0)
            b.n = draw(&m, 2) ? draw(&m, b.n + 1) : b.n / ZL_FORMAT_PAGE * ZL_FORMAT_PAGE;
        if (draw(&m, 8))
            put_hashes_right(&b);
        assert_int_equal(ftruncate(m.fd, 0), 0);
        assert_int_equal(pwrite(m.fd, b.p, b.n, 0), b.n);
        const int rc = zl_generation_open_fd(&g, open(m.path, O_RDONLY), "mutant", &err);
        if (!rc) {
            opened++;
            sum += visit(&g, b.n);
            zl_generation_close(&g);
        } else if (err.code != rc || !*err.text || strchr(err.text, '\n') || g.file) {
            fprintf(stderr, "mutant %llu: refused without a word\n", (unsigned long long)i);
            return 1;
        }
        other_format += rc == ZL_EUSAGE;
        bytes_free(&b);
    }
    printf("%llu mutants, %llu open, %llu of other formats, byte sum %llu\n", (unsigned long long)(end - first),
           (unsigned long long)opened, (unsigned long long)other_format, (unsigned long long)sum);
    bytes_free(&file[0]);
    bytes_free(&file[1]);
    return opened > 0 && other_format > 0 ? 0 : 1;
}
