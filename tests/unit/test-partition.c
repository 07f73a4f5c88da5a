/* The cut of a model into stages. */
#include "tests/unit/test.h"

#include "pipe/partition.h"

static struct zl_partition make(struct zl_partition_request r)
{
    struct zl_partition p;
    struct zl_error err = {0};
    if (zl_partition_make(&r, &p, &err))
        fail_msg("%s", err.text);
    uint32_t next = 0;
    for (uint32_t k = 0; k < p.n; k++) {
        assert_int_equal(p.cut[k].first, next);
        assert_true(p.cut[k].n_own >= 1);
        next += p.cut[k].n_own;
        assert_true(next + p.cut[k].n_shadow <= r.layers);
        assert_int_equal(p.cut[k].map, !p.cut[k].frozen && r.readout != ZL_READOUT_LENS && next + p.cut[k].n_shadow < r.layers);
    }
    assert_int_equal(next, r.layers);
    return p;
}

static void two_stages_of_thirty_layers_compute_the_same_number(void **state)
{
    (void)state;
    struct zl_partition p = make((struct zl_partition_request){.layers = 30, .stages = 2, .readout = ZL_READOUT_SHADOW});
    assert_int_equal(p.cut[0].n_own, 9);
    assert_int_equal(p.cut[0].n_shadow, 12);
    assert_true(p.cut[0].map);
    assert_int_equal(p.cut[1].n_own, 21);
    assert_int_equal(p.cut[1].n_shadow, 0);
    assert_false(p.cut[1].map);
}

static void every_size_gives_a_whole_cut(void **state)
{
    (void)state;
    for (uint32_t layers = 1; layers <= 48; layers++)
        for (uint32_t stages = 1; stages <= layers; stages++)
            for (int readout = 0; readout < 3; readout++)
                for (uint32_t ahead = 0; ahead <= layers; ahead += 5)
                    make((struct zl_partition_request){
                        .layers = layers, .stages = stages, .readout = (enum zl_readout_kind)readout, .look_ahead = ahead});
}

static void blocks_without_look_ahead_are_equal(void **state)
{
    (void)state;
    struct zl_partition p = make((struct zl_partition_request){.layers = 5, .stages = 3, .readout = ZL_READOUT_LENS});
    assert_int_equal(p.cut[1].first, 1); /* floor(k L / K) */
    assert_int_equal(p.cut[2].first, 3);
}

static void the_last_stage_is_smaller_by_what_stands_behind_it_and_larger_where_others_work_twice(void **state)
{
    (void)state;
    /* 30 layers and 8 of readout over 2 stages: 19 and 11 + 8 */
    struct zl_partition p = make((struct zl_partition_request){.layers = 30, .stages = 2, .readout = ZL_READOUT_LENS, .tail = 8});
    assert_int_equal(p.cut[1].first, 19);
    /* a layer of the first costs one and a half: 15 x 1.5 = 22.5 and 15 + 8 = 23 */
    p = make((struct zl_partition_request){.layers = 30, .stages = 2, .readout = ZL_READOUT_LENS, .tail = 8, .front = 1.5});
    assert_int_equal(p.cut[1].first, 15);
}

static void two_fifths_of_the_layers_are_looked_ahead_through_unless_asked(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {{1, 1}, {2, 1}, {4, 1}, {5, 2}, {22, 8}, {30, 12}, {32, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(zl_partition_look_ahead(cases[i][0]), cases[i][1]);
    struct zl_partition p = make((struct zl_partition_request){.layers = 30, .stages = 2, .readout = ZL_READOUT_SHADOW, .look_ahead = 7});
    assert_int_equal(p.cut[0].n_shadow, 7);
}

/* Where the head takes the memory of 8 layers, a stage with its look-ahead may have up to 8 layers more than the last one. */
static void a_lighter_last_stage_makes_up_for_its_head(void **state)
{
    (void)state;
    for (uint32_t layers = 2; layers <= 48; layers++)
        for (uint32_t stages = 2; stages <= layers; stages++)
            for (uint32_t ahead = 1; ahead <= 12 && ahead < layers; ahead += 3)
                for (uint32_t lighter = 1; lighter <= 64; lighter *= 4) {
                    struct zl_partition p = make((struct zl_partition_request){
                        .layers = layers, .stages = stages, .readout = ZL_READOUT_SHADOW, .look_ahead = ahead, .lighter = lighter});
                    const uint32_t last = p.cut[stages - 1].n_own;
                    uint32_t most = 0;
                    for (uint32_t k = 0; k + 1 < stages; k++)
                        most = p.cut[k].n_own + ahead > most ? p.cut[k].n_own + ahead : most;
                    if (last > 1 && last + stages <= layers) /* neither end of what is possible */
                        assert_in_range(last + lighter + 2, most, most + 4);
                }
    struct zl_partition p = make(
        (struct zl_partition_request){.layers = 30, .stages = 7, .readout = ZL_READOUT_SHADOW, .look_ahead = 5, .lighter = 8});
    assert_int_equal(p.cut[0].n_own, 4);
    assert_int_equal(p.cut[6].n_own, 1);
}

static void look_ahead_that_reaches_the_end_needs_no_map(void **state)
{
    (void)state;
    struct zl_partition p =
        make((struct zl_partition_request){.layers = 10, .stages = 2, .readout = ZL_READOUT_SHADOW, .look_ahead = 9});
    assert_false(p.cut[0].map);
}

static void layers_that_do_not_train_are_frozen_stages(void **state)
{
    (void)state;
    for (uint32_t still = 0; still < 12; still++)
        for (uint32_t stages = 1; stages <= 12; stages++)
            for (int local = 0; local < 2; local++) {
                if (local && still < stages - 1)
                    continue;
                struct zl_partition p = make((struct zl_partition_request){.layers = 12, .stages = stages, .readout = ZL_READOUT_LENS,
                                                                           .tail = local ? 0 : 1.5, .still = still,
                                                                           .last = local && still ? 12 - still : 0});
                for (uint32_t k = 0; k < p.n; k++)
                    assert_int_equal(p.cut[k].frozen, p.cut[k].first + p.cut[k].n_own <= still);
                if (local && still && stages > 1)
                    assert_int_equal(p.cut[stages - 1].first, still);
            }
    /* a layer that trains costs twice: 14, 6 + 2 4 and 2 6 + 3 */
    struct zl_partition p =
        make((struct zl_partition_request){.layers = 30, .stages = 3, .readout = ZL_READOUT_LENS, .tail = 1.5, .still = 20});
    print_message("  %u, %u and %u layers\n", p.cut[0].n_own, p.cut[1].n_own, p.cut[2].n_own);
    assert_true(p.cut[0].n_own == 14 && p.cut[1].n_own == 10 && p.cut[2].n_own == 6);
}

static void impossible_requests_are_refused(void **state)
{
    (void)state;
    uint64_t late[2] = {1, 2}, falling[3] = {0, 4, 4}, stage[1] = {2}, both[2] = {0, 1};
    const struct zl_partition_request bad[] = {
        {.layers = 4, .stages = 5, .readout = ZL_READOUT_SHADOW},
        {.layers = 4, .stages = 0, .readout = ZL_READOUT_SHADOW},
        {.layers = 4, .stages = 2, .readout = ZL_READOUT_SHADOW, .bounds = late},
        {.layers = 6, .stages = 3, .readout = ZL_READOUT_SHADOW, .bounds = falling},
        {.layers = 6, .stages = 2, .readout = ZL_READOUT_SHADOW, .freeze = stage, .n_freeze = 1},
        {.layers = 6, .stages = 2, .readout = ZL_READOUT_SHADOW, .freeze = both, .n_freeze = 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct zl_partition p;
        struct zl_error err = {0};
        assert_int_equal(zl_partition_make(&bad[i], &p, &err), ZL_EUSAGE);
        assert_true(err.text[0] != 0);
        print_message("  %s\n", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_of_thirty_layers_compute_the_same_number),
        cmocka_unit_test(every_size_gives_a_whole_cut),
        cmocka_unit_test(blocks_without_look_ahead_are_equal),
        cmocka_unit_test(the_last_stage_is_smaller_by_what_stands_behind_it_and_larger_where_others_work_twice),
        cmocka_unit_test(two_fifths_of_the_layers_are_looked_ahead_through_unless_asked),
        cmocka_unit_test(a_lighter_last_stage_makes_up_for_its_head),
        cmocka_unit_test(look_ahead_that_reaches_the_end_needs_no_map),
        cmocka_unit_test(layers_that_do_not_train_are_frozen_stages),
        cmocka_unit_test(impossible_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
