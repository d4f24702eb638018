/* Tests versions that the ranks of a job give up, as their replicas differ: nothing begins with
 * one, also where a replica holder has it. */
#include "daemon/cluster/lookup.h"
#include "tests/unit/daemon/cluster/keepers_world.h"

/* Device @device of @node says that epoch @epoch of job 1 gives up @version. */
static void gives_up(struct cw_world *w, uint32_t node, uint32_t device, uint64_t epoch,
                     uint64_t version)
{
    kw_msg(w, node,
           (struct hsp_msg){.type = HSP_MSG_STATE_DAMAGED,
                            .u.damaged = {.job = 1,
                                          .device = device,
                                          .plan = 1,
                                          .rank = device,
                                          .owner = 0,
                                          .version = version,
                                          .live = true,
                                          .given_up_in = epoch,
                                          .part = "replicas differ"}});
}

/* A job with a replica holder, of which vote 6 has passed. */
static void begin_kept(struct cw_world *w)
{
    kw_begin(w, 3, 1);
    kw_submit(w, "a", 2);
    kw_run(w, 1, 0);
    kw_msg(w, 0,
           (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 1, .u.step = {.job = 1, .step = 6}});
    assert_int_equal(cw_job(w, 1)->stable, 6);
}

static void break_and_seal(struct cw_world *w, uint64_t own_version, uint64_t kept_version)
{
    struct hsp_m_holding own = {1, 0, 1, 0, 0, own_version};
    struct hsp_m_holding kept[2] = {{1, 1, 1, 1, 0, kept_version},
                                    {1, 1, 1, 1, 0, kept_version - 1}};
    kw_msg(w, 0,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "it differs"}});
    for (uint32_t i = 0; i < 3; i++) { /* no pair is broken */
        kw_msg(w, i,
               (struct hsp_msg){.type = HSP_MSG_REACHED, .u.reached = {.round = w->c->next_round}});
    }
    kw_sealed(w, 0, &own, 1);
    kw_sealed(w, 1, kept, 2);
}

/* A replica holder has a version before the vote on it. When its ranks have given the version up,
 * nothing begins with it; where all have deleted it, it can be made again. */
static void what_was_given_up_is_not_taken_from_a_replica_holder(void **state)
{
    (void)state;
    struct cw_world w;
    begin_kept(&w);
    gives_up(&w, 0, 0, 1, 7);
    assert_string_equal(cw_fact(&w, "state.given_up"),
                        "version 7 in layout 1: replicas differ; it is computed again from an "
                        "earlier one");
    break_and_seal(&w, 6, 7);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_true(j->att.mode == HSP_MODE_RECOVER && j->att.plan == 1);
    assert_int_equal(j->att.step, 6);
    assert_int_equal(cw_find(&w, HSP_ACT_PREPARE)->msg->u.prepare.void_from, 7);
    kw_run(&w, 1, 6);
    assert_true(j->plans[0].void_from == UINT64_MAX);
    gives_up(&w, 0, 0, 1, 7); /* said again after a reconnect */
    assert_true(j->plans[0].void_from == UINT64_MAX);
    break_and_seal(&w, 7, 7);
    assert_int_equal(j->att.step, 7);
    assert_true(cw_find(&w, HSP_ACT_PREPARE)->msg->u.prepare.void_from == UINT64_MAX);
    cw_end(&w);
}

/* The report may come when an attempt with that version is prepared. */
static void what_is_given_up_late_is_left(void **state)
{
    (void)state;
    struct cw_world w;
    begin_kept(&w);
    break_and_seal(&w, 6, 7);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->att.step, 7);
    uint32_t failures = j->failures;
    gives_up(&w, 0, 0, 1, 7);
    assert_int_equal(j->att.step, 6);
    assert_int_equal(j->failures, failures);
    cw_end(&w);
}

/* Only a rank may give up a version, and only one that no vote has passed. */
static void who_may_give_up_what(void **state)
{
    (void)state;
    struct cw_world w;
    begin_kept(&w);
    gives_up(&w, 1, 1, 1, 7); /* the replica holder */
    gives_up(&w, 2, 0, 1, 7); /* no member */
    gives_up(&w, 0, 0, 1, 6); /* the version is stable */
    gives_up(&w, 0, 0, 2, 7); /* no epoch */
    assert_true(cw_job(&w, 1)->plans[0].void_from == UINT64_MAX);
    gives_up(&w, 0, 0, 1, 8);
    assert_int_equal(cw_job(&w, 1)->plans[0].void_from, 8);
    gives_up(&w, 0, 0, 1, 9);
    assert_null(cw_fact(&w, "state.given_up")); /* version 8 is given up, with all above */
    gives_up(&w, 0, 0, 1, 7);
    assert_int_equal(cw_job(&w, 1)->plans[0].void_from, 7);
    cw_end(&w);
}

static void what_was_given_up_survives_a_restart(void **state)
{
    (void)state;
    struct cw_world w;
    begin_kept(&w);
    gives_up(&w, 0, 0, 1, 7);
    cw_restart(&w, NULL);
    assert_int_equal(cw_job(&w, 1)->plans[0].void_from, 7);
    struct hsp_buf b;
    cw_text(&w, &b);
    assert_non_null(strstr(hsp_buf_cstr(&b), "void from 7"));
    hsp_buf_fini(&b);
    cw_end(&w);
}

HSP_TEST_FILE(given_up_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_given_up_is_not_taken_from_a_replica_holder),
        cmocka_unit_test(what_is_given_up_late_is_left),
        cmocka_unit_test(who_may_give_up_what),
        cmocka_unit_test(what_was_given_up_survives_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
