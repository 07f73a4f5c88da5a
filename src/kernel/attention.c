/*
 * Attention over packed sequences: who computes what. The blocks themselves are in
 * isa/attention*.c.
 *
 * Forward: a task is a block of queries of one head. Backward: a task is a sequence and a key/value
 * head, which costs five products a pair of blocks; where these do not come out even for the team,
 * blocks of queries and blocks of keys of the last are tasks by themselves at seven products a pair.
 * Threads take tasks by turns, the largest first. A task's result is the same whoever computes it, and a
 * sum has the same order in both ways, so no choice made here changes a bit.
 */
#include "config.h"

#include "kernel/attention.h"

#include <assert.h>
#include <omp.h>

#include "kernel/attention_block.h"
#include "kernel/profile.h"

enum {
    BLOCK = ZL_ATTN_BLOCK,
    LINE = 16,              /* floats */
    LOADS = 64,             /* threads whose loads are weighed */
    WHOLE = 5,              /* products a pair of blocks, */
    IN_BLOCKS = 7,          /* where queries and keys are tasks by themselves */
    SINGLE_WORTH = 1 << 14  /* products of single queries that are worth a part */
};

static int64_t blocks_of(int64_t rows)
{
    return (rows + BLOCK - 1) / BLOCK;
}

static int64_t round_up(int64_t floats)
{
    return (floats + LINE - 1) / LINE * LINE;
}

static int64_t thread_floats(int head_dim, int64_t longest)
{
    return round_up(zl_attn_block_floats(head_dim)) +
           round_up(2 * longest * zl_attn_padded(head_dim)) + LINE;
}

uint64_t zl_attention_scratch_bytes(int threads, int heads, int kv_heads, int head_dim,
                                    int64_t longest, int64_t total_tokens)
{
    (void)heads, (void)kv_heads, (void)total_tokens;
    return (uint64_t)threads * (uint64_t)thread_floats(head_dim, longest) * sizeof(float);
}

/* The tasks in their order: blocks from the last of the longest sequence down; in a block,
 * sequences; in a sequence, heads. A cursor only moves forward, so a thread that takes task after
 * task walks the list once. */
struct cursor {
    const struct zl_attn *a;
    int heads;
    int64_t block;
    int seq, head;
    int64_t task;
};

static int64_t longest_of(const struct zl_attn *a)
{
    int64_t longest = 0;
    for (int s = 0; s < a->n_seqs; s++)
        longest = a->seqs[s].q_len > longest ? a->seqs[s].q_len : longest;
    return longest;
}

static int64_t tasks_of(const struct zl_attn *a, int heads)
{
    int64_t n = 0;
    for (int s = 0; s < a->n_seqs; s++)
        n += blocks_of(a->seqs[s].q_len) * heads;
    return n;
}

static struct cursor first(const struct zl_attn *a, int heads)
{
    return (struct cursor){a, heads, blocks_of(longest_of(a)) - 1, -1, heads - 1, -1};
}

static void advance(struct cursor *c, int64_t task)
{
    while (c->task < task) {
        if (++c->head == c->heads) {
            c->head = 0;
            do
                if (++c->seq == c->a->n_seqs) {
                    c->seq = 0;
                    c->block--;
                }
            while (blocks_of(c->a->seqs[c->seq].q_len) <= c->block);
        }
        c->task++;
    }
}

static void check(const struct zl_team *team, const struct zl_attn *a)
{
    assert(a->head_dim >= 1 && a->head_dim <= 256 && a->kv_heads >= 1 &&
           a->heads % a->kv_heads == 0);
    assert(team->scratch_bytes >=
           zl_attention_scratch_bytes(team->threads, a->heads, a->kv_heads, a->head_dim, 0, 0));
    (void)team, (void)a;
}

/* One query a sequence, as in generation: parts are too short for a region of their own. */
struct single {
    const struct zl_attn *a;
    float *out, *lse;
    int64_t ldo;
    int heads; /* a part */
};

static void single_queries(void *arg, int64_t part)
{
    const struct single *s = arg;
    const int64_t per_seq = (s->a->heads + s->heads - 1) / s->heads;
    const int from = (int)(part % per_seq) * s->heads, to = from + s->heads;
    for (int head = from; head < to && head < s->a->heads; head++)
        ZL_ISA_PICK(zl_attn_one)(s->a, &s->a->seqs[part / per_seq], head, 0, s->out, s->ldo, s->lse);
}

static void share_single_queries(const struct zl_team *team, struct single *s)
{
    int64_t keys = 0;
    for (int i = 0; i < s->a->n_seqs; i++)
        keys += s->a->seqs[i].kv_len;
    const int64_t work = keys * s->a->heads * s->a->head_dim;
    const int64_t per_seq = team->threads == 1 || work < 2 * SINGLE_WORTH ? 1
                            : work / SINGLE_WORTH / s->a->n_seqs + 1;
    s->heads = per_seq < s->a->heads ? (int)((s->a->heads + per_seq - 1) / per_seq) : 1;
    zl_team_share(team, s->a->n_seqs * ((s->a->heads + s->heads - 1) / s->heads), single_queries, s);
}

void zl_attention(const struct zl_team *team, const struct zl_attn *a, float *out, int64_t ldo,
                  float *lse)
{
    ZL_PROFILE(team, ZL_PART_ATTENTION);
    check(team, a);
    if (longest_of(a) == 1 && a->n_seqs * a->heads <= ZL_TEAM_PARTS) {
        share_single_queries(team, &(struct single){.a = a, .out = out, .lse = lse, .ldo = ldo});
        return;
    }
    const int64_t n = tasks_of(a, a->heads), own = thread_floats(a->head_dim, 0);
#pragma omp parallel num_threads(team->threads) if (team->threads > 1 && n > 1)
    {
        struct cursor c = first(a, a->heads);
        float *scratch = (float *)team->scratch + omp_get_thread_num() * own;
#pragma omp for schedule(monotonic : dynamic, 1)
        for (int64_t task = 0; task < n; task++) {
            advance(&c, task);
            ZL_ISA_PICK(zl_attn_forward)
            (a, &a->seqs[c.seq], c.head, c.block * BLOCK, scratch, out, ldo, lse);
        }
    }
}

/* Sequences in the order of their length would need memory; instead each length of blocks is a pass
 * over all of them. In that order, and of a sequence by heads, the first (sequence, key/value head)
 * that is not a task as a whole. */
struct cut {
    int64_t blocks;
    int seq, head;
};

static int is_whole(const struct zl_attn *a, const struct cut *c, int seq, int head)
{
    const int64_t blocks = blocks_of(a->seqs[seq].q_len);
    if (blocks != c->blocks)
        return blocks > c->blocks;
    return seq != c->seq ? seq < c->seq : head < c->head;
}

/* Whole tasks go to the thread with the least of them. What is left, in blocks, fills the threads
 * up, so that they end together unless one has more whole ones than that. */
static struct cut choose_cut(const struct zl_team *team, const struct zl_attn *a)
{
    int64_t load[LOADS] = {0}, all = 0, done = 0, most = 0;
    const int threads = team->threads < LOADS ? team->threads : LOADS, group = a->heads / a->kv_heads;
    for (int s = 0; s < a->n_seqs; s++) {
        const int64_t n = blocks_of(a->seqs[s].q_len);
        assert(a->seqs[s].q_len == a->seqs[s].kv_len);
        all += n * (n + 1) / 2 * group * a->kv_heads;
    }
    struct cut best = {INT64_MAX, 0, 0};
    int64_t least = IN_BLOCKS * all;
    for (int64_t n = blocks_of(longest_of(a)); n > 0; n--)
        for (int s = 0; s < a->n_seqs; s++)
            for (int head = 0; head < a->kv_heads && blocks_of(a->seqs[s].q_len) == n; head++) {
                int to = 0;
                for (int i = 1; i < threads; i++)
                    to = load[i] < load[to] ? i : to;
                load[to] += n * (n + 1) / 2 * group;
                most = load[to] > most ? load[to] : most;
                done += n * (n + 1) / 2 * group;
                const int64_t even = WHOLE * done + IN_BLOCKS * (all - done), last = WHOLE * most * threads;
                const int64_t cost = even > last ? even : last;
                if (cost <= least) {
                    least = cost;
                    best = (struct cut){n, s, head + 1};
                }
            }
    return best;
}

static void whole_heads(const struct zl_attn *a, const struct zl_attn_grad *g, const struct cut *c,
                        float *scratch)
{
    const int64_t tasks = (int64_t)a->n_seqs * a->kv_heads;
    float *sums = scratch + round_up(zl_attn_block_floats(a->head_dim));
    for (int64_t blocks = blocks_of(longest_of(a)); blocks > 0; blocks--) {
#pragma omp for schedule(dynamic, 1) nowait
        for (int64_t task = 0; task < tasks; task++) {
            const int seq = (int)(task / a->kv_heads), head = (int)(task % a->kv_heads);
            if (blocks_of(a->seqs[seq].q_len) == blocks && is_whole(a, c, seq, head))
                ZL_ISA_PICK(zl_attn_backward)
            (a, g, &a->seqs[seq], ZL_ATTN_BOTH, head, 0, scratch, sums);
        }
    }
}

static void blocks_alone(const struct zl_attn *a, const struct zl_attn_grad *g, const struct cut *cut,
                         float *scratch)
{
    const int64_t dkv = tasks_of(a, a->kv_heads), dq = tasks_of(a, a->heads);
    const int group = a->heads / a->kv_heads;
    struct cursor c = first(a, a->kv_heads);
    /* The first keys are seen by most queries: blocks of keys run the other way. */
#pragma omp for schedule(monotonic : dynamic, 1) nowait
    for (int64_t task = 0; task < dkv; task++) {
        advance(&c, task);
        const struct zl_attn_seq *seq = &a->seqs[c.seq];
        if (!is_whole(a, cut, c.seq, c.head))
            ZL_ISA_PICK(zl_attn_backward)
        (a, g, seq, ZL_ATTN_DKV, c.head, blocks_of(seq->q_len) - 1 - c.block, scratch, 0);
    }
    c = first(a, a->heads);
#pragma omp for schedule(monotonic : dynamic, 1) nowait
    for (int64_t task = 0; task < dq; task++) {
        advance(&c, task);
        if (!is_whole(a, cut, c.seq, c.head / group))
            ZL_ISA_PICK(zl_attn_backward)
        (a, g, &a->seqs[c.seq], ZL_ATTN_DQ, c.head, c.block, scratch, 0);
    }
}

void zl_attention_backward(const struct zl_team *team, const struct zl_attn *a, const float *out,
                           const float *dout, int64_t ldo, const float *lse, float *dq, float *dk,
                           float *dv)
{
    ZL_PROFILE(team, ZL_PART_ATTENTION_BACKWARD);
    check(team, a);
    const struct zl_attn_grad g = {out, dout, ldo, lse, dq, dk, dv};
    const struct cut c = choose_cut(team, a);
    const int64_t own = thread_floats(a->head_dim, longest_of(a));
    assert(team->scratch_bytes >= (uint64_t)team->threads * (uint64_t)own * sizeof(float));
#pragma omp parallel num_threads(team->threads) if (team->threads > 1)
    {
        float *scratch = (float *)team->scratch + omp_get_thread_num() * own;
        whole_heads(a, &g, &c, scratch);
        blocks_alone(a, &g, &c, scratch);
    }
}
