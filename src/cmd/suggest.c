/* "Did you mean": what a mistyped option or command could have been. Nothing is ever accepted because it is near. */
#include "config.h"

#include <string.h>

#include "cmd/options.h"

#define LONGEST 32

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b; LONGEST when either is too long to be one of ours. */
static int distance(const char *a, size_t n, const char *b, size_t m)
{
    int row[3][LONGEST + 1];
    if (n >= LONGEST || m >= LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= m; j++)
        row[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = row[i % 3], *before = row[(i - 1) % 3], *earlier = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = least(before[j - 1] + (a[i - 1] != b[j - 1]), least(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], earlier[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

bool zl_near_miss(const char *a, size_t a_length, const char *b)
{
    size_t n = strlen(b), shorter = n < a_length ? n : a_length;
    return a_length > 1 && distance(a, a_length, b, n) <= (shorter < 4 ? 1 : shorter < 9 ? 2 : 3);
}

/* Is `name` one of the words in `words`, blanks between? */
static bool among(const char *words, const char *name, size_t length)
{
    while (words && *words) {
        size_t n = strcspn(words, " ");
        if (n == length && strncmp(words, name, n) == 0)
            return true;
        words += n + (words[n] == ' ');
    }
    return false;
}

void zl_option_suggest(const struct zl_command *c, const char *name, size_t length, const char *dashes, char *out, size_t size)
{
    const struct zl_option *best = NULL;
    int best_score = LONGEST;
    char plain[LONGEST] = "";
    out[0] = '\0';
    if (length >= sizeof plain || length < 2)
        return;
    for (size_t i = 0; i < length; i++)
        plain[i] = name[i] == '_' ? '-' : name[i];
    const struct zl_option *o;
    for (size_t i = 0; (o = zl_option_at(c, i)); i++) {
        int score = LONGEST;
        if (strcmp(o->name, plain) == 0 || among(o->also, plain, length))
            score = 0;
        else if (zl_near_miss(plain, length, o->name))
            score = distance(plain, length, o->name, strlen(o->name));
        else if (length > 2 && strncmp(o->name, plain, length) == 0)
            score = 4;
        if (score < best_score) {
            best = o;
            best_score = score;
        }
    }
    if (best)
        snprintf(out, size, " (did you mean '%s%s'?)", dashes, best->name);
}
