/*
 * write-checkpoints [-b] [-p] [-k KEEP] [-m BYTES] DIR STEP|sh:COMMAND...: writes a made-up state behind each step through the checkpoint
 * writer, as a run would, and prints what became of it; a command runs between steps. For scripts.
 *     -b buffered  -p pwrite  -k generations that stay (2)  -m memory for snapshots
 */
#define _GNU_SOURCE
#include "tests/fault/scene.h"

static void print(struct scene *s, const struct zl_checkpoint_event *e)
{
    struct zl_checkpoint_totals t;
    zl_checkpoint_totals(s->c, &t);
    printf("step %llu: ", (unsigned long long)e->step);
    if (e->rc)
        printf("lost: %s\n", e->why);
    else
        printf("generation %llu, %u removed, %s%s%s\n", (unsigned long long)e->generation, e->removed, t.back_end, e->why[0] ? "; " : "",
               e->why);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct scene s = {.o = {.parts = scene_parts, .n_parts = SCENE_PARTS, .keep = 2}};
    struct zl_error err = {0};
    int option, lost = 0;
    memset(s.o.run.byte, 0x5a, sizeof s.o.run.byte);
    while ((option = getopt(argc, argv, "+bpk:m:")) != -1)
        switch (option) {
        case 'b':
            s.o.buffered = true;
            break;
        case 'p':
            s.o.plain = true;
            break;
        case 'k':
            s.o.keep = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'm':
            s.o.buffer_bytes = strtoull(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    if (optind == argc)
        return 2;
    snprintf(s.dir, sizeof s.dir, "%s", argv[optind++]);
    if (zl_checkpoints_open(&s.c, s.dir, &s.o, s.note, &err)) {
        printf("%s\n", err.text);
        return 1;
    }
    if (s.note[0])
        printf("%s\n", s.note);
    fflush(stdout);
    for (; optind < argc; optind++) {
        if (strncmp(argv[optind], "sh:", 3) == 0) {
            if (system(argv[optind] + 3))
                return 3;
            continue;
        }
        const struct zl_checkpoint_event e = scene_write(&s, strtoull(argv[optind], NULL, 10));
        print(&s, &e);
        lost |= e.rc != 0;
    }
    scene_close(&s);
    return lost;
}
