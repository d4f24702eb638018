#include "tests/lib/testlib.h"

#include <math.h>

#include "worker/exec/vote.h"

static const struct hsp_train_bind HYPER = {
    .steps = 10, .lr = 0.5, .clip_norm = 1.0, .beta1 = 0.9, .beta2 = 0.99};

static void records_round_trip(void **state)
{
    (void)state;
    struct hsp_vote_record r = {.rank = 3,
                                .flags = 5,
                                .step = 77,
                                .stat = {1, 2, 3, 4, NAN},
                                .armed = 9,
                                .compute_s = 0.25,
                                .wait_s = 0.5,
                                .data = UINT64_MAX - 3,
                                .state = UINT64_MAX - 4},
                           q;
    uint8_t bytes[HSP_VOTE_BYTES];
    hsp_vote_encode(&r, bytes);
    hsp_vote_decode(bytes, &q);
    assert_int_equal(q.rank, 3);
    assert_int_equal(q.flags, 5);
    assert_int_equal(q.step, 77);
    assert_near(q.stat[3], 4.0, 0.0);
    assert_true(isnan(q.stat[4]));
    assert_int_equal(q.armed, 9);
    assert_near(q.wait_s, 0.5, 0.0);
    assert_true(q.data == UINT64_MAX - 3);
    assert_true(q.state == UINT64_MAX - 4);
}

static void sums_clip_and_scale(void **state)
{
    (void)state;
    /* The square sums of the summed gradient are 500 + 400 = 900, so its norm is 30. There are 6 +
     * 4 = 10 tokens, so the norm of the mean gradient is 3, three times the limit clip_norm. */
    struct hsp_vote_record r[2] = {{.rank = 0, .step = 4, .stat = {12, 6, 500, 0, 0}, .armed = 8},
                                   {.rank = 1, .step = 4, .stat = {8, 4, 400, 3, 2}, .armed = 8}};
    struct hsp_vote v;
    assert_int_equal(hsp_vote_count(r, 2, 4, &HYPER, &v, NULL), HSP_OK);
    assert_near(v.loss, 2.0, 1e-15);
    assert_near(v.norm, 3.0, 1e-15);
    assert_near(v.clip, 1.0 / 3.0, 1e-15);
    assert_near(v.scalars.grad_scale, 1.0 / 30.0, 1e-15);
    assert_near(v.scalars.bias1, 1.0 - pow(0.9, 5), 1e-15);
    assert_near(v.eval_loss, 1.5, 1e-15);
    r[0].step = r[1].step = 99999;
    struct hsp_vote late;
    assert_int_equal(hsp_vote_count(r, 2, 99999, &HYPER, &late, NULL), HSP_OK);
    assert_near(late.scalars.bias2, 1.0 - pow(0.99, 1e5), 1e-15);
    for (uint64_t t = 0; t < 500; t++) {
        r[0].step = r[1].step = t;
        assert_int_equal(hsp_vote_count(r, 2, t, &HYPER, &late, NULL), HSP_OK);
        assert_near(late.scalars.bias2, 1.0 - pow(0.99, (double)(t + 1)), 1e-14);
    }
    r[0].step = r[1].step = 4;
    assert_int_equal(v.armed, 8);
    assert_false(v.noop);
    r[1].armed = 0;
    r[0].stat[HSP_STAT_SQNORM] = r[1].stat[HSP_STAT_SQNORM] = 1.0; /* the norm is below the limit */
    assert_int_equal(hsp_vote_count(r, 2, 4, &HYPER, &v, NULL), HSP_OK);
    assert_near(v.clip, 1.0, 0.0);
    assert_int_equal(v.armed, 0);
}

static void not_finite_is_a_noop(void **state)
{
    (void)state;
    struct hsp_vote_record r = {.stat = {NAN, 4, 1, 0, 0}};
    struct hsp_vote v;
    assert_int_equal(hsp_vote_count(&r, 1, 0, &HYPER, &v, NULL), HSP_OK);
    assert_true(v.noop);
    r.stat[HSP_STAT_LOSS] = 1.0;
    r.stat[HSP_STAT_SQNORM] = INFINITY;
    assert_int_equal(hsp_vote_count(&r, 1, 0, &HYPER, &v, NULL), HSP_OK);
    assert_true(v.noop);
    r.stat[HSP_STAT_SQNORM] = 1.0;
    r.stat[HSP_STAT_TOKENS] = 0.0;
    assert_int_equal(hsp_vote_count(&r, 1, 0, &HYPER, &v, NULL), HSP_OK);
    assert_true(v.noop);
}

static void strangers_are_refused(void **state)
{
    (void)state;
    struct hsp_vote_record r[2] = {{.rank = 0, .step = 4}, {.rank = 1, .step = 5}};
    struct hsp_vote v;
    struct hsp_err err = {0};
    assert_status(hsp_vote_count(r, 2, 4, &HYPER, &v, &err), HSP_EPROTO);
    assert_err(&err, HSP_EPROTO, "vote of rank 1, step 4 says rank 1, step 5");
}

static void ranks_at_different_places_commit_nothing(void **state)
{
    (void)state;
    struct hsp_vote_record r[3] = {{.rank = 0, .step = 4, .data = 77},
                                   {.rank = 1, .step = 4, .data = 77},
                                   {.rank = 2, .step = 4, .data = 78}};
    struct hsp_vote v;
    struct hsp_err err = {0};
    assert_status(hsp_vote_count(r, 2, 4, &HYPER, &v, &err), HSP_OK);
    assert_status(hsp_vote_count(r, 3, 4, &HYPER, &v, &err), HSP_EPROTO);
    assert_err(&err, HSP_EPROTO,
               "at step 4 rank 2 is at another place in the data, or in other data, than rank 0");
}

static void equal_copies_add_up_to_nothing(void **state)
{
    (void)state;
    struct hsp_vote_record r[3] = {{.state = 5}, {.state = UINT64_MAX - 7}, {.state = 3}};
    assert_true(hsp_vote_state_agrees(r, 3));
    assert_false(hsp_vote_state_agrees(r, 2));
    r[1].state ^= 1;
    assert_false(hsp_vote_state_agrees(r, 3));
}

HSP_TEST_FILE(vote_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_round_trip),
        cmocka_unit_test(sums_clip_and_scale),
        cmocka_unit_test(not_finite_is_a_noop),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(ranks_at_different_places_commit_nothing),
        cmocka_unit_test(equal_copies_add_up_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
