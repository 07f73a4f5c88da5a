/*
 * A run's folder of its own, a made-up state that is a pure function of step, stage and section, and the way of it through a checkpoint
 * writer and back. What the tests of the store share.
 */
#ifndef ZL_FAULT_SCENE_H
#define ZL_FAULT_SCENE_H

#include "tests/unit/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "store/checkpoint.h"

#define SCENE_PARTS 6u

/* Sizes around the borders of pages and blocks; two stages and the driver. */
static const struct zl_checkpoint_part scene_parts[SCENE_PARTS] = {
    {.stage = 0, .section = 1, .bytes = 200001}, {.stage = 0, .section = 2, .bytes = 65536},
    {.stage = 1, .section = 1, .bytes = 65537},  {.stage = 1, .section = 2, .bytes = 1},
    {.stage = 1, .section = 7, .bytes = 4096},   {.stage = ZL_CHECKPOINT_DRIVER, .section = 0, .bytes = 4095},
};

struct scene {
    char dir[4096];
    struct zl_checkpoints_options o;
    struct zl_checkpoints *c;
    char note[256];
};

static inline int scene_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

/* Below `root`, or TMPDIR. */
static inline void scene_make(struct scene *s, const char *root)
{
    const char *tmp = root ? root : getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    *s = (struct scene){.o = {.parts = scene_parts, .n_parts = SCENE_PARTS, .keep = 2}};
    memset(s->o.run.byte, 0x5a, sizeof s->o.run.byte);
    snprintf(s->dir, sizeof s->dir, "%s/zerolock-store-XXXXXX", tmp);
    assert_non_null(mkdtemp(s->dir));
}

static inline void scene_open(struct scene *s)
{
    struct zl_error err = {0};
    if (zl_checkpoints_open(&s->c, s->dir, &s->o, s->note, &err))
        fail_msg("%s", err.text);
}

static inline void scene_close(struct scene *s)
{
    zl_checkpoints_close(s->c);
    s->c = NULL;
}

static inline void scene_end(struct scene *s)
{
    scene_close(s);
    nftw(s->dir, scene_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline const char *scene_path(const struct scene *s, const char *name)
{
    static char path[4][8192];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/checkpoints%s%s", s->dir, *name ? "/" : "", name);
    return p;
}

/* Bytes from `from` on of a part's state at a step. */
static inline void scene_state(unsigned char *to, uint64_t from, uint64_t bytes, uint64_t step, const struct zl_checkpoint_part *p)
{
    for (uint64_t i = 0; i < bytes; i++) {
        const uint64_t whose = (uint64_t)p->stage << 32 | p->section, word = (from + i) / 8;
        const uint64_t x = (step * 0x9e3779b97f4a7c15u) ^ whose ^ (word * 0xbf58476d1ce4e5b9u);
        to[i] = (unsigned char)((x * 0x94d049bb133111ebu) >> (8 * ((from + i) % 8)));
    }
}

/* Put a part in pieces of at most `piece` bytes; the first negative code. */
static inline int scene_put(struct zl_checkpoints *c, uint64_t generation, uint64_t step, const struct zl_checkpoint_part *p,
                            uint64_t piece)
{
    unsigned char *buffer = malloc(piece);
    int rc = 0;
    for (uint64_t at = 0; at < p->bytes && !rc; at += piece) {
        const uint64_t n = p->bytes - at < piece ? p->bytes - at : piece;
        scene_state(buffer, at, n, step, p);
        rc = zl_checkpoint_put(c, generation, p->stage, p->section, buffer, n);
    }
    free(buffer);
    return rc;
}

static inline void scene_text(uint64_t step, char text[64])
{
    snprintf(text, 64, "{\"step\": %llu, \"of\": \"a test\"}", (unsigned long long)step);
}

/* A whole generation, waited for; its event. */
static inline struct zl_checkpoint_event scene_write(struct scene *s, uint64_t step)
{
    struct zl_checkpoint_event event = {0};
    struct zl_error err = {0};
    uint64_t generation = 0;
    char text[64];
    assert_int_equal(zl_checkpoint_begin(s->c, step, &generation), 0);
    for (uint32_t i = 0; i < s->o.n_parts; i++)
        if (scene_put(s->c, generation, step, &s->o.parts[i], 100000))
            break;
    scene_text(step, text);
    assert_int_equal(zl_checkpoint_text(s->c, generation, text, strlen(text), &err), 0);
    assert_true(zl_checkpoint_wait(s->c, generation, (int64_t)120e9));
    assert_true(zl_checkpoint_poll(s->c, &event));
    assert_int_equal(event.generation, generation);
    assert_int_equal(event.step, step);
    return event;
}

static inline void scene_write_well(struct scene *s, uint64_t step)
{
    const struct zl_checkpoint_event e = scene_write(s, step);
    if (e.rc || e.why[0])
        fail_msg("step %llu: %s", (unsigned long long)step, e.why);
}

/* Every part and the text of an open generation are what was put at its step: the first difference as a sentence, or NULL. */
static inline const char *scene_compare(struct zl_generation *g, const struct zl_checkpoint_part *parts, uint32_t n)
{
    static char why[1200];
    struct zl_error err = {0};
    char text[64];
    scene_text(g->step, text);
    if (g->n_parts != n)
        return "another number of parts";
    if (strcmp(text, g->text) != 0)
        return "another text";
    for (uint32_t i = 0; i < n; i++) {
        unsigned char *is = malloc(parts[i].bytes), *should = malloc(parts[i].bytes);
        scene_state(should, 0, parts[i].bytes, g->step, &parts[i]);
        const int rc = zl_generation_read(g, parts[i].stage, parts[i].section, is, parts[i].bytes, &err);
        const bool same = !rc && memcmp(is, should, parts[i].bytes) == 0;
        free(is);
        free(should);
        if (!same) {
            snprintf(why, sizeof why, "part %u: %s", i, rc ? err.text : "other bytes");
            return why;
        }
    }
    return NULL;
}

static inline void scene_say(void *context, const char *sentence)
{
    char *all = context;
    snprintf(all + strlen(all), 4096 - strlen(all), "%s\n", sentence);
}

/* The newest that verifies is of this step (0: there is none); what was passed over is in said[4096], which may be NULL. */
static inline void scene_expect_newest(const struct scene *s, uint64_t step, char *said)
{
    struct zl_generation g;
    struct zl_error err = {0};
    char unheard[4096] = "";
    if (said)
        said[0] = '\0';
    if (zl_generation_newest(&g, s->dir, &s->o.run, scene_say, said ? said : unheard, &err))
        fail_msg("%s", err.text);
    if (!step) {
        assert_null(g.file);
        return;
    }
    assert_non_null(g.file);
    assert_int_equal(g.step, step);
    const char *difference = scene_compare(&g, s->o.parts, s->o.n_parts);
    if (difference)
        fail_msg("step %llu: %s", (unsigned long long)step, difference);
    zl_generation_close(&g);
}

/* The names in the folder, sorted, one behind the other with a space. */
static inline const char *scene_names(const struct scene *s)
{
    static char all[4096];
    struct dirent **entry;
    const int n = scandir(scene_path(s, ""), &entry, NULL, alphasort);
    all[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.')
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] ? " " : "", entry[i]->d_name);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    return all;
}

static inline void scene_flip(const char *path, uint64_t byte, unsigned char mask)
{
    unsigned char b;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &b, 1, (off_t)byte), 1);
    b ^= mask;
    assert_int_equal(pwrite(fd, &b, 1, (off_t)byte), 1);
    close(fd);
}

#endif
