/*
 * The ledger's cut and the text of a checkpoint: a marker that passes the stages at different times cuts their reports so that what was booked
 * before and what comes again make the same steps; the text gives the same bits back, and no damage to it does more than an error.
 */
#include "tests/unit/test.h"

#include <math.h>

#include "train/standing.h"

enum { STAGES = 3, STEPS = 12, MICRO = 4, ALL = STEPS * MICRO };

static uint32_t state = 1;

static uint32_t any(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

/* What stage k reports of micro-batch m. */
static struct zl_report report_of(uint32_t k, uint64_t m)
{
    return (struct zl_report){.kind = ZL_TRAIN,
                              .stage = k,
                              .step = m / MICRO + 1,
                              .micro = m,
                              .last_of_step = (m + 1) % MICRO == 0,
                              .updated = (m + 1) % MICRO == 0,
                              .loss_sum = 1.0 / (double)(3 + m * 7 + k),
                              .n = m % 5,
                              .grad_norm = 1.0 / (double)(1 + m + k),
                              .busy_ns = m * 1000 + k};
}

struct stream { /* reports still to come of each stage, and after which the marker comes; UINT64_MAX: it has */
    uint64_t next[STAGES], mark[STAGES];
};

static bool over(const struct stream *s)
{
    for (uint32_t k = 0; k < STAGES; k++)
        if (s->next[k] < ALL || s->mark[k] != UINT64_MAX)
            return false;
    return true;
}

/* The next report of any stage whose turn chance says it is. Stages do not run further apart than rings allow. */
static void pass(struct stream *s, struct zl_ledger *l, struct zl_step_record *out, uint32_t *n, bool *cut)
{
    struct zl_eval_record eval;
    const uint32_t k = any(STAGES);
    uint64_t least = ALL;
    for (uint32_t i = 0; i < STAGES; i++)
        least = s->next[i] < least ? s->next[i] : least;
    if (s->mark[k] != UINT64_MAX && s->next[k] == s->mark[k]) {
        const struct zl_report mark = {.kind = ZL_MARK, .stage = k, .generation = 1, .finished = s->next[k], .forwarded = s->next[k]};
        *cut |= zl_ledger_book(l, &mark, &eval) == ZL_NEWS_CUT;
        s->mark[k] = UINT64_MAX;
        return;
    }
    if (s->next[k] == ALL || s->next[k] > least + 6)
        return;
    const struct zl_report r = report_of(k, s->next[k]++);
    assert_int_equal(zl_ledger_book(l, &r, &eval), ZL_NEWS_NONE);
    while (zl_ledger_next(l, &out[*n]))
        ++*n;
}

static void assert_same_steps(const struct zl_step_record *a, const struct zl_step_record *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(a[i].step, b[i].step);
        assert_int_equal(a[i].stages_done, b[i].stages_done);
        assert_memory_equal(a[i].loss_sum, b[i].loss_sum, sizeof a[i].loss_sum);
        assert_memory_equal(a[i].n, b[i].n, sizeof a[i].n);
        assert_memory_equal(a[i].grad_norm, b[i].grad_norm, sizeof a[i].grad_norm);
        assert_memory_equal(a[i].updated, b[i].updated, sizeof a[i].updated);
        assert_memory_equal(a[i].n_micro, b[i].n_micro, sizeof a[i].n_micro);
        assert_memory_equal(a[i].busy_seconds, b[i].busy_seconds, sizeof a[i].busy_seconds);
    }
}

static json_t *identity;

static char *text_of_cut(const struct zl_ledger *l)
{
    struct zl_standing s = {.begun = l->cut.open_step, .n_begun = l->cut.n, .n_stages = STAGES, .tally = {.steps_done = l->cut.whole,
                            .seconds = 1.0 / 3, .step_seconds = 1.0 / 7, .first_eval = (double)NAN, .last_eval = 2.0 / 7}, .isa = "avx2", .identity = identity,
                            .vitals = {.step = 3, .loss = {1.0 / 9, 1e-300, 5}}};
    memcpy(s.count, l->cut.count, sizeof s.count);
    char *text = zl_standing_text(&s);
    assert_non_null(text);
    return text;
}

static void a_cut_and_what_comes_again_make_the_same_steps(void **unused)
{
    (void)unused;
    uint32_t most_begun = 0;
    for (uint32_t turn = 0; turn < 400; turn++) {
        static struct zl_step_record straight[STEPS + 1], before[STEPS + 1], after[STEPS + 1];
        struct zl_ledger l, m;
        struct zl_error err = {0};
        struct zl_standing s;
        uint32_t n = 0, n_before = 0, n_after = 0;
        bool cut = false;
        const uint64_t step = 1 + any(STEPS - 1);
        state = turn * 7919 + 1;
        assert_int_equal(zl_ledger_open(&l, STAGES, 0, 16, &err), 0);
        for (uint64_t i = 0; i < ALL; i++)
            for (uint32_t k = 0; k < STAGES; k++) {
                struct zl_eval_record eval;
                const struct zl_report r = report_of(k, i);
                zl_ledger_book(&l, &r, &eval);
                while (zl_ledger_next(&l, &straight[n]))
                    n++;
            }
        assert_int_equal(n, STEPS);
        zl_ledger_close(&l);

        assert_int_equal(zl_ledger_open(&l, STAGES, 0, 16, &err), 0);
        struct stream stream = {{0}, {0}};
        uint64_t again[STAGES];
        for (uint32_t k = 0; k < STAGES; k++) /* a stage has finished fewer micro-batches than were fed, by as many as wait in it */
            again[k] = stream.mark[k] = step * MICRO - any(STAGES + 3 - k) % (step * MICRO);
        bool begun = false;
        while (!over(&stream)) {
            bool now = any(8) == 0; /* at the latest when a stage has come to the marker */
            for (uint32_t k = 0; k < STAGES; k++)
                now |= stream.next[k] == stream.mark[k];
            if (!begun && now) {
                zl_ledger_cut_begin(&l, 1, step);
                begun = true;
            }
            pass(&stream, &l, before, &n_before, &cut);
        }
        assert_true(cut);
        assert_int_equal(n_before, STEPS);
        assert_same_steps(before, straight, STEPS);

        char *text = text_of_cut(&l);
        assert_int_equal(zl_standing_read(text, strlen(text), &s, &err), 0);
        char *copy = zl_standing_text(&s);
        assert_string_equal(text, copy);
        most_begun = s.n_begun > most_begun ? s.n_begun : most_begun;

        assert_int_equal(zl_ledger_open(&m, STAGES, 0, 16, &err), 0);
        for (uint32_t i = 0; i < s.n_begun; i++)
            assert_int_equal(zl_ledger_resume(&m, &s.begun[i], &err), 0);
        struct stream rest;
        for (uint32_t k = 0; k < STAGES; k++) {
            rest.next[k] = again[k];
            rest.mark[k] = UINT64_MAX;
        }
        while (!over(&rest))
            pass(&rest, &m, after, &n_after, &cut);
        while (zl_ledger_next(&m, &after[n_after])) /* one that was whole behind one that was not */
            n_after++;
        assert_int_equal(s.tally.steps_done + n_after, STEPS);
        assert_same_steps(after, straight + s.tally.steps_done, n_after);
        zl_standing_free(&s);
        zl_ledger_close(&l);
        zl_ledger_close(&m);
        free(text);
        free(copy);
    }
    print_message("  400 interleavings, up to %u steps begun at the cut, no number differs (bound 0)\n", most_begun);
    assert_true(most_begun > 1);
}

static void a_damaged_text_is_an_error_at_most(void **unused)
{
    (void)unused;
    struct zl_ledger l;
    struct zl_error err = {0};
    uint32_t read = 0, refused = 0;
    assert_int_equal(zl_ledger_open(&l, STAGES, 0, 16, &err), 0);
    zl_ledger_cut_begin(&l, 1, 3);
    for (uint64_t m = 0; m < 10; m++)
        for (uint32_t k = 0; k < STAGES; k++) {
            struct zl_eval_record eval;
            const struct zl_report r = report_of(k, m);
            if (m + k < 9)
                zl_ledger_book(&l, &r, &eval);
        }
    for (uint32_t k = 0; k < STAGES; k++) {
        struct zl_eval_record eval;
        zl_ledger_book(&l, &(struct zl_report){.kind = ZL_MARK, .stage = k, .generation = 1}, &eval);
    }
    char *text = text_of_cut(&l);
    const size_t n = strlen(text);
    char *bad = malloc(n + 1);
    for (uint32_t turn = 0; turn < 20000; turn++) {
        struct zl_standing s;
        struct zl_error why = {0};
        memcpy(bad, text, n + 1);
        for (uint32_t i = 0; i <= any(3); i++)
            bad[any((uint32_t)n)] = (char)(any(2) ? any(256) : (uint32_t) "0123456789-{}[],\"eE.tfn"[any(22)]);
        const size_t length = any(10) ? n : any((uint32_t)n);
        if (zl_standing_read(bad, length, &s, &why) == 0) {
            read++;
            zl_standing_free(&s);
        } else {
            refused++;
            assert_true(why.code == ZL_EINPUT && why.text[0]);
        }
    }
    print_message("  %u texts refused, %u read\n", refused, read);
    assert_true(refused > 1000);
    free(bad);
    free(text);
    zl_ledger_close(&l);
}

int main(void)
{
    identity = json_pack("{s:i, s:f}", "--rank", 8, "--lr", 0.1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_and_what_comes_again_make_the_same_steps),
        cmocka_unit_test(a_damaged_text_is_an_error_at_most),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(identity);
    return rc;
}
