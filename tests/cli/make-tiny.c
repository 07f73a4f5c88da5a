/* make-tiny [LAYERS [ROWS [poisoned]]]: the tiny model of tests/tiny.h in a new folder, whose name is printed, for scripts. */
#include "tests/unit/test.h"

#include "tests/tiny.h"

int main(int argc, char **argv)
{
    struct tiny t;
    tiny_make_poisoned(&t, argc > 1 ? (uint32_t)atoi(argv[1]) : 6, argc > 2 ? (uint32_t)atoi(argv[2]) : 40, argc > 3);
    puts(t.dir);
    return 0;
}
