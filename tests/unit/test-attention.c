/* Attention, forward and backward: the reference against finite differences, blocks against the
 * reference, threads, edges. */
#include "kernel/attention.h"
#include "kernel/reference.h"
#include "tests/unit/near.h"

#define MOST_SEQS 8

/* q, k and v in one buffer, as a fused projection leaves them, in floats and in doubles. */
struct setup {
    struct zl_attn a;
    struct zl_attn_seq seq[MOST_SEQS];
    int64_t q_rows, kv_rows, ldo, longest;
    float *q, *kv, *dout;
};

static struct setup make(int heads, int kv_heads, int head_dim, const int64_t (*lens)[2], int n,
                         float amplitude, uint64_t *seed, int gap)
{
    struct setup s = {
        .a = {heads, kv_heads, head_dim, 1 / sqrtf(head_dim), n, NULL, NULL, NULL, NULL, 0, 0, 0}};
    for (int i = 0; i < n; i++) {
        s.seq[i] = (struct zl_attn_seq){s.q_rows, lens[i][0], s.kv_rows, lens[i][1]};
        s.q_rows += lens[i][0];
        s.kv_rows += lens[i][1];
        s.longest = lens[i][1] > s.longest ? lens[i][1] : s.longest;
    }
    s.a.ldq = heads * head_dim + gap;
    s.a.ldk = s.a.ldv = 2 * kv_heads * head_dim + gap;
    s.ldo = heads * head_dim + gap;
    s.q = near_floats(s.q_rows * s.a.ldq, amplitude, seed);
    s.kv = near_floats(s.kv_rows * s.a.ldk, amplitude, seed);
    s.dout = near_floats(s.q_rows * s.ldo, 1, seed);
    s.a.q = s.q;
    s.a.k = s.kv;
    s.a.v = s.kv + kv_heads * head_dim;
    return s;
}

static struct zl_team team_for(const struct setup *s, int threads)
{
    return near_team(threads, zl_attention_scratch_bytes(threads, s->a.heads, s->a.kv_heads,
                                                         s->a.head_dim, s->longest, s->q_rows));
}

/* All results of a team of so many threads; buffers start from one known content, so gaps between
 * rows must keep it. */
struct result {
    float *out, *lse, *dq, *dkv;
};

static struct result run(struct setup *s, int threads, int backward)
{
    uint64_t seed = 99;
    struct result r = {
        near_floats(s->q_rows * s->ldo, 1, &seed), near_floats(s->q_rows * s->a.heads, 1, &seed),
        near_floats(s->q_rows * s->a.ldq, 1, &seed), near_floats(s->kv_rows * s->a.ldk, 1, &seed)};
    struct zl_team team = team_for(s, threads);
    s->a.seqs = s->seq;
    zl_attention(&team, &s->a, r.out, s->ldo, r.lse);
    memset(team.scratch, 0xff, team.scratch_bytes);
    if (backward)
        zl_attention_backward(&team, &s->a, r.out, s->dout, s->ldo, r.lse, r.dq, r.dkv,
                              r.dkv + s->a.kv_heads * s->a.head_dim);
    free(team.scratch);
    return r;
}

static void release(struct result r)
{
    free(r.out), free(r.lse), free(r.dq), free(r.dkv);
}

static void check_against_reference(struct setup *s, int backward, double bound)
{
    const int64_t nq = s->q_rows * s->a.ldq, nkv = s->kv_rows * s->a.ldk, no = s->q_rows * s->ldo;
    const int64_t nl = s->q_rows * s->a.heads, v = s->a.kv_heads * s->a.head_dim;
    uint64_t seed = 99;
    float *fout = near_floats(no, 1, &seed), *flse = near_floats(nl, 1, &seed),
          *fdq = near_floats(nq, 1, &seed);
    float *fdkv = near_floats(nkv, 1, &seed);
    double *q = near_doubles(s->q, nq), *kv = near_doubles(s->kv, nkv),
           *dout = near_doubles(s->dout, no);
    double *out = near_doubles(fout, no), *lse = near_doubles(flse, nl),
           *dq = near_doubles(fdq, nq);
    double *dkv = near_doubles(fdkv, nkv);
    struct result r = run(s, 2, backward);
    zl_attention_ref(&s->a, q, kv, kv + v, out, s->ldo, lse);
    near_check("out", r.out, out, no, bound);
    near_check("lse", r.lse, lse, nl, bound);
    if (backward) {
        zl_attention_backward_ref(&s->a, q, kv, kv + v, out, dout, s->ldo, lse, dq, dkv, dkv + v);
        near_check("dq", r.dq, dq, nq, bound);
        near_check("dk, dv", r.dkv, dkv, nkv, bound);
    }
    release(r);
    free(fout), free(flse), free(fdq), free(fdkv);
    free(q), free(kv), free(dout), free(out), free(lse), free(dq), free(dkv);
}

static void drop(struct setup *s)
{
    free(s->q), free(s->kv), free(s->dout);
}

struct scalar {
    struct setup *s;
    double *q, *kv, *dout, *out;
};

static double value(void *arg)
{
    struct scalar *c = arg;
    const struct setup *s = c->s;
    zl_attention_ref(&s->a, c->q, c->kv, c->kv + s->a.kv_heads * s->a.head_dim, c->out, s->ldo,
                     NULL);
    double sum = 0;
    for (int64_t i = 0; i < s->q_rows; i++)
        for (int j = 0; j < s->a.heads * s->a.head_dim; j++)
            sum += c->out[i * s->ldo + j] * c->dout[i * s->ldo + j];
    return sum;
}

static void reference_gradient_agrees_with_finite_differences(void **state)
{
    (void)state;
    uint64_t seed = 1;
    const int64_t lens[][2] = {{5, 5}, {1, 1}, {3, 3}};
    struct setup s = make(4, 2, 3, lens, 3, 2, &seed, 3);
    s.a.seqs = s.seq;
    const int64_t nq = s.q_rows * s.a.ldq, nkv = s.kv_rows * s.a.ldk, no = s.q_rows * s.ldo,
                  v = 2 * 3;
    struct scalar c = {&s, near_doubles(s.q, nq), near_doubles(s.kv, nkv), near_doubles(s.dout, no),
                       near_doubles(s.dout, no)};
    double *lse = calloc(s.q_rows * 4, sizeof *lse), *dq = calloc(nq, sizeof *dq),
           *dkv = calloc(nkv, sizeof *dkv);
    zl_attention_ref(&s.a, c.q, c.kv, c.kv + v, c.out, s.ldo, lse);
    zl_attention_backward_ref(&s.a, c.q, c.kv, c.kv + v, c.out, c.dout, s.ldo, lse, dq, dkv,
                              dkv + v);
    double worst = 0;
    for (int64_t i = 0; i < nq; i++)
        worst = fmax(worst, fabs(near_slope(value, &c, c.q + i) - dq[i]));
    for (int64_t i = 0; i < nkv; i++)
        worst = fmax(worst, fabs(near_slope(value, &c, c.kv + i) - dkv[i]));
    print_message("  residual %.2e, bound 1e-08\n", worst);
    assert_true(worst < 1e-8);
    free(c.q), free(c.kv), free(c.dout), free(c.out), free(lse), free(dq), free(dkv);
    drop(&s);
}

static void blocks_match_reference_for_all_head_sizes(void **state)
{
    (void)state;
    static const int dims[] = {1, 7, 16, 24, 64, 80, 96, 128, 256};
    const int64_t lens[][2] = {{1, 1}, {70, 70}, {17, 17}};
    uint64_t seed = 2;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        print_message(" head_dim %d\n", dims[i]);
        struct setup s = make(6, 2, dims[i], lens, 3, 1, &seed, 3);
        check_against_reference(&s, 1, 3e-6);
        drop(&s);
    }
}

static void blocks_match_reference_for_all_lengths(void **state)
{
    (void)state;
    uint64_t seed = 3;
    static const int64_t ts[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 300};
    for (size_t i = 0; i < sizeof ts / sizeof *ts; i++) {
        const int64_t lens[][2] = {{ts[i], ts[i]}};
        print_message(" T %d\n", (int)ts[i]);
        struct setup s = make(3, 1, 24, lens, 1, 2, &seed, 3);
        check_against_reference(&s, 1, 3e-6);
        drop(&s);
    }
}

/* Strides that are multiples of a cache's sets, and those that are not, take different ways through
 * the blocks. */
static void rows_may_be_any_distance_apart(void **state)
{
    (void)state;
    uint64_t seed = 9;
    const int64_t lens[][2] = {{100, 100}};
    for (int gap = 0; gap <= 16; gap += 16) {
        struct setup s = make(4, 2, 64, lens, 1, 1, &seed, gap);
        check_against_reference(&s, 1, 3e-6);
        drop(&s);
    }
}

static void cached_keys_are_seen_by_all_queries(void **state)
{
    (void)state;
    uint64_t seed = 4;
    const int64_t lens[][2] = {{1, 1}, {1, 100}, {3, 64}, {64, 65}, {70, 200}, {1, 64}, {5, 300}};
    struct setup s = make(4, 2, 64, lens, 7, 1, &seed, 3);
    check_against_reference(&s, 0, 1e-6);
    drop(&s);
}

static void a_single_query_sees_its_cache(void **state)
{
    (void)state;
    static const int dims[] = {1, 7, 16, 24, 64, 80, 96, 128, 256};
    const int64_t lens[][2] = {{1, 1}, {1, 63}, {1, 65}, {1, 331}};
    uint64_t seed = 8;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        print_message(" head_dim %d\n", dims[i]);
        struct setup s = make(6, 2, dims[i], lens, 4, 2, &seed, 3);
        check_against_reference(&s, 0, 2e-6);
        drop(&s);
    }
}

/* One sequence alone, and with neighbours around it. */
static void sequences_never_see_each_other(void **state)
{
    (void)state;
    uint64_t seed = 5;
    const int64_t lens[][2] = {{40, 40}, {90, 90}, {1, 1}};
    struct setup s = make(4, 2, 32, lens, 3, 1, &seed, 3);
    struct result all = run(&s, 1, 1);
    s.seq[0] = s.seq[1];
    s.a.n_seqs = 1;
    struct result alone = run(&s, 1, 1);
    assert_memory_equal(all.out + 40 * s.ldo, alone.out + 40 * s.ldo, 90 * s.ldo * sizeof(float));
    assert_memory_equal(all.dq + 40 * s.a.ldq, alone.dq + 40 * s.a.ldq,
                        90 * s.a.ldq * sizeof(float));
    assert_memory_equal(all.dkv + 40 * s.a.ldk, alone.dkv + 40 * s.a.ldk,
                        90 * s.a.ldk * sizeof(float));
    release(all), release(alone);
    drop(&s);
}

/* Where whole heads don't come out even the backward of the last is cut into other tasks than on one thread. */
static void results_do_not_depend_on_threads(void **state)
{
    (void)state;
    uint64_t seed = 6;
    const int64_t lens[][2] = {{200, 200}, {3, 3}, {64, 64}, {1, 1}};
    for (int i = 0; i < 8; i++) {
        struct setup s = make(6, i % 2 ? 2 : 3, 40, lens, 1 + i / 2, 1, &seed, 3);
        struct result one = run(&s, 1, 1);
        for (int threads = 2; threads <= 7; threads++) {
            struct result r = run(&s, threads, 1);
            assert_memory_equal(r.out, one.out, s.q_rows * s.ldo * sizeof(float));
            assert_memory_equal(r.lse, one.lse, s.q_rows * 6 * sizeof(float));
            assert_memory_equal(r.dq, one.dq, s.q_rows * s.a.ldq * sizeof(float));
            assert_memory_equal(r.dkv, one.dkv, s.kv_rows * s.a.ldk * sizeof(float));
            release(r);
        }
        release(one);
        drop(&s);
    }
}

/* Scores of 1e4: most weights vanish, one remains, and its error is that of a float of that size.
 */
static void huge_scores_stay_finite(void **state)
{
    (void)state;
    uint64_t seed = 7;
    const int64_t lens[][2] = {{100, 100}};
    struct setup s = make(2, 1, 64, lens, 1, 60, &seed, 3);
    s.a.scale = 1;
    check_against_reference(&s, 1, 2e-2);
    drop(&s);
}

static void equal_scores_give_the_mean_of_values(void **state)
{
    (void)state;
    uint64_t seed = 8;
    const int64_t lens[][2] = {{130, 130}};
    struct setup s = make(1, 1, 16, lens, 1, 1, &seed, 3);
    memset(s.q, 0, s.q_rows * s.a.ldq * sizeof(float));
    struct result r = run(&s, 1, 0);
    double sum = 0;
    for (int i = 0; i < 130; i++) {
        sum += s.a.v[i * s.a.ldv];
        assert_true(fabs(r.out[i * s.ldo] - sum / (i + 1)) < 1e-6);
        assert_true(fabs(r.lse[i] - log(i + 1)) < 1e-6);
    }
    release(r);
    drop(&s);
}

static void no_sequences_no_work(void **state)
{
    (void)state;
    struct zl_attn a = {1, 1, 16, 1, 0, NULL, NULL, NULL, NULL, 16, 16, 16};
    struct zl_team team = near_team(2, zl_attention_scratch_bytes(2, 1, 1, 16, 0, 0));
    zl_attention(&team, &a, NULL, 16, NULL);
    zl_attention_backward(&team, &a, NULL, NULL, 16, NULL, NULL, NULL, NULL);
    free(team.scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_gradient_agrees_with_finite_differences),
        cmocka_unit_test(blocks_match_reference_for_all_head_sizes),
        cmocka_unit_test(blocks_match_reference_for_all_lengths),
        cmocka_unit_test(rows_may_be_any_distance_apart),
        cmocka_unit_test(cached_keys_are_seen_by_all_queries),
        cmocka_unit_test(a_single_query_sees_its_cache),
        cmocka_unit_test(sequences_never_see_each_other),
        cmocka_unit_test(results_do_not_depend_on_threads),
        cmocka_unit_test(huge_scores_stay_finite),
        cmocka_unit_test(equal_scores_give_the_mean_of_values),
        cmocka_unit_test(no_sequences_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
