/* Tests jobs in which not every version is due: votes pass beyond the newest stable one; steps made
 * again are counted, and no state is said to be lost. */
#include "daemon/cluster/live_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

static void says_step(struct cw_world *w, uint64_t step, uint64_t ahead)
{
    double compute[2] = {1, 1};
    cw_msg(w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_STEP,
               .epoch = cw_job(w, 1)->cur.epoch,
               .u.step = {
                   .job = 1, .step = step, .ahead = ahead, .n_compute = 2, .compute_s = compute}});
}

/* Both have their piece of layout 1 in @version; the next epoch begins with it. */
static void loses_a_peer(struct cw_world *w, uint64_t version)
{
    cw_msg(w, 2,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "it is silent"}});
    cw_sealed(w, 0, 1, version);
    cw_sealed(w, 1, 1, version);
    for (uint32_t n = 1; n <= 2; n++) { /* no pair is broken */
        cw_msg(w, n,
               (struct hsp_msg){.type = HSP_MSG_REACHED, .u.reached = {.round = w->c->next_round}});
    }
    assert_int_equal(cw_job(w, 1)->att.step, version);
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
}

static void breaks(struct cw_world *w)
{
    cw_msg(w, 2,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "it is silent"}});
}

/* @node tells that it has these versions of layout 1; 0: nothing. */
static void sealed(struct cw_world *w, uint32_t node, uint64_t one, uint64_t other)
{
    struct hsp_m_holding h[2] = {
        {.job = 1, .plan = 1, .rank = node, .owner = node, .version = one},
        {.job = 1, .plan = 1, .rank = node, .owner = node, .version = other}};
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_SEALED,
                            .epoch = cw_job(w, 1)->seal_upto,
                            .u.sealed = {.job = 1, .n_holdings = 1 + (other > 0), .holdings = h}});
}

static void steps_beyond_the_stable_version_are_made_again(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says_step(&w, 4, 0);
    says_step(&w, 7, 0);
    says_step(&w, 12, 5);
    assert_int_equal(cw_job(&w, 1)->stable, 7);
    assert_int_equal(cw_job(&w, 1)->cur.due_steps, 3);
    loses_a_peer(&w, 7);
    assert_null(cw_fact(&w, "state.lost"));
    cw_pass(&w, 1, 7, cw_even, 2);
    assert_int_equal(wc_steps_lost(&w), 6);            /* 7 to 12 */
    assert_int_equal(cw_job(&w, 1)->cur.due_steps, 0); /* of another epoch */
    says_step(&w, 8, 1); /* steps that were there before are no news of this epoch */
    loses_a_peer(&w, 7);
    cw_pass(&w, 1, 7, cw_even, 2);
    assert_int_equal(wc_steps_lost(&w), 2);
    cw_end(&w);
}

/* The store has the stable version of the begin of the epoch, which is no measure. */
static void after_a_restart_the_distance_is_learnt_anew(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says_step(&w, 10, 0);
    says_step(&w, 15, 0);
    assert_int_equal(cw_job(&w, 1)->cur.due_steps, 5);
    cw_restart_nodes(&w, 2);
    says_step(&w, 23, 3);
    assert_int_equal(cw_job(&w, 1)->stable, 20);
    assert_int_equal(cw_job(&w, 1)->cur.due_steps, 0);
    says_step(&w, 26, 1);
    assert_int_equal(cw_job(&w, 1)->cur.due_steps, 5);
    cw_end(&w);
}

/* hspmdd begins again right behind a loss, with the row of the begin of the epoch. Agents tell
 * again the steps that hspmdd may not have heard of. */
static void steps_told_again_behind_a_restart_count(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says_step(&w, 7, 0);
    says_step(&w, 12, 5);
    breaks(&w);
    cw_restart_nodes(&w, 2);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    says_step(&w, 11, 4);
    says_step(&w, 12, 5);
    sealed(&w, 0, 7, 0);
    sealed(&w, 1, 7, 0);
    for (uint32_t n = 1; n <= 2; n++) {
        cw_msg(&w, n,
               (struct hsp_msg){.type = HSP_MSG_REACHED, .u.reached = {.round = w.c->next_round}});
    }
    assert_int_equal(cw_job(&w, 1)->att.step, 7);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    cw_pass(&w, 1, 7, cw_even, 2);
    assert_int_equal(wc_steps_lost(&w), 6);
    cw_end(&w);
}

/* A stable version that is not there any more is still lost. */
static void a_stable_version_that_is_gone_is_lost(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says_step(&w, 12, 5);
    loses_a_peer(&w, 6);
    assert_non_null(cw_fact(&w, "state.lost"));
    cw_pass(&w, 1, 6, cw_even, 2);
    assert_int_equal(wc_steps_lost(&w), 7);
    cw_end(&w);
}

/* A part of @version is damaged at @node, which has it as its rank. */
static void damaged(struct cw_world *w, uint32_t node, uint64_t version, bool live,
                    uint64_t gave_up)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_STATE_DAMAGED,
                            .u.damaged = {.job = 1,
                                          .plan = 1,
                                          .rank = node,
                                          .owner = node,
                                          .version = version,
                                          .live = live,
                                          .given_up_in = gave_up,
                                          .part = "wte.weight (m) [0:8, 0:4]"}});
}

/* n0 falls silent for good. n1 has sealed its piece of @version, with which the job goes on at
 * once. */
static void loses_n0(struct cw_world *w, uint64_t version)
{
    for (uint32_t ms = 0; ms < w->c->cfg.dead_ms; ms += 500) {
        w->now += 500;
        cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(w->c->nodes[0].state, HSP_NODE_DEAD);
    cw_sealed(w, 1, 1, version);
    cw_plan(w, 1);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RECOVERING);
    assert_int_equal(cw_job(w, 1)->att.step, version);
}

/* n1 finds version 11 damaged before its update, and gives up 12. Only 7 was sealed: nobody can
 * bring more. */
static void damage_between_due_versions_is_waited_for_by_nobody(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says_step(&w, 7, 0);
    says_step(&w, 11, 4);
    damaged(&w, 1, 12, true, 1);
    damaged(&w, 1, 11, true, 0);
    loses_n0(&w, 7);
    cw_end(&w);
}

/* Version 7 was damaged everywhere, and the job goes on from 6. The next loss has nothing to do
 * with that. */
static void damage_before_the_epoch_is_over(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says_step(&w, 6, 0);
    damaged(&w, 0, 7, false, 0);
    damaged(&w, 1, 7, false, 0);
    loses_a_peer(&w, 6);
    cw_pass(&w, 1, 6, cw_even, 2);
    loses_n0(&w, 6);
    cw_end(&w);
}

/* n2 comes, and fails each time that it is to take part. No version becomes stable meanwhile. */
static void a_job_that_trains_does_not_end_by_switches(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says_step(&w, 7, 0);
    cw_hello(&w, 3, "n2", 0, 1);
    w.c->nodes[2].dev[0].profile.gemm_fp32_flops = 9;
    cw_uplink(&w, 3, 1e-4, 1e8);
    uint32_t n_failed = 0;
    for (uint64_t s = 8; s < 40000 && n_failed <= 2 * w.c->cfg.max_failures; s++) {
        if (w.ticket != 0 && cw_job(&w, 1)->ticket == w.ticket) {
            cw_plan(&w, 1);
        }
        if (cw_job(&w, 1)->att.epoch != 0) {
            cw_msg(&w, 3,
                   (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                                    .epoch = cw_job(&w, 1)->att.epoch,
                                    .u.failed = {.job = 1,
                                                 .fact = HSP_FACT_OTHER,
                                                 .peer = HSP_MSG_RANKS,
                                                 .reason = "it cannot"}});
            n_failed++;
        }
        w.now += 1000;
        for (uint32_t n = 1; n <= 3; n++) {
            cw_msg(&w, n, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
        says_step(&w, s, s - 7);
        assert_true(hsp_ci_job_runs(cw_job(&w, 1)));
    }
    assert_true(n_failed > 2 * w.c->cfg.max_failures);
    assert_int_equal(cw_job(&w, 1)->stable, 7);
    cw_end(&w);
}

/* Each epoch makes five steps, none of which outlives it. */
static void a_job_ends_that_gets_no_stable_version(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_job *j;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says_step(&w, 7, 0);
    for (uint32_t i = 0; i < w.c->cfg.max_failures; i++) {
        uint64_t plan = cw_job(&w, 1)->cur.plan;
        says_step(&w, 12, 5);
        breaks(&w);
        cw_sealed(&w, 0, plan, 7);
        cw_sealed(&w, 1, plan, 7);
        for (uint32_t s = 0; s < 10 && cw_job(&w, 1)->att.epoch == 0; s++) {
            w.now += 1000;
            for (uint32_t n = 1; n <= 2; n++) {
                cw_msg(&w, n, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
                cw_msg(&w, n,
                       (struct hsp_msg){.type = HSP_MSG_REACHED,
                                        .u.reached = {.round = w.c->next_round}});
            }
            if (cw_job(&w, 1)->ticket != 0) {
                cw_plan(&w, 1);
            }
        }
        cw_ready(&w, 1, 0, 5);
        cw_ready(&w, 1, 1, 5);
        cw_pass(&w, 1, 7, cw_even, 2);
        cw_let_go(&w, 1, 2);
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    }
    says_step(&w, 12, 5);
    breaks(&w);
    j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_FAILED);
    assert_string_equal(j->reason, "30 attempts without progress: no version later than 7 became "
                                   "stable, the last: n1/0: it is silent");
    cw_end(&w);
}

/* An executor of the version before would wait for versions that never come. */
static void all_or_none_know_that_few_versions_are_due(void **state)
{
    (void)state;
    for (uint32_t older = 0; older < 2; older++) {
        struct cw_world w;
        uint32_t n = 0;
        cw_begin(&w, 2, 1);
        w.c->nodes[1].protocol = HSP_PROTO_DUE - older;
        assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
        cw_plan(&w, 1);
        for (uint32_t i = 0; i < w.a.n; i++) {
            if (w.a.item[i].type == HSP_ACT_PREPARE) {
                assert_int_equal(w.a.item[i].msg->u.prepare.due_every, older ? 0 : HSP_DUE_AUTO);
                n++;
            }
        }
        assert_int_equal(n, 2);
        cw_end(&w);
    }
}

/* The message that the last event sent to connection @conn; NULL: no such message. */
static const struct hsp_msg *sent(const struct cw_world *w, uint32_t conn, uint16_t type)
{
    const struct hsp_msg *found = NULL;
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        found = a->msg != NULL && a->conn == conn && a->msg->type == type ? a->msg : found;
    }
    return found;
}

/* Both have version 8 of layout 1, node @node also the newer one: the job goes on from that, and
 * version 8 stays. */
static void a_version_that_a_survivor_sealed_is_kept(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    says_step(&w, 8, 0);
    says_step(&w, 12, 4);
    breaks(&w);
    sealed(&w, 0, 8, 13);
    sealed(&w, 1, 8, 0);
    for (uint32_t n = 1; n <= 2; n++) {
        cw_msg(&w, n,
               (struct hsp_msg){.type = HSP_MSG_REACHED, .u.reached = {.round = w.c->next_round}});
    }
    const struct hsp_cl_epoch *e = &cw_job(&w, 1)->att;
    assert_true(e->step == 13 && e->keeps && e->keep == 8);
    const struct hsp_msg *m = sent(&w, 1, HSP_MSG_PREPARE);
    assert_true(m != NULL && m->u.prepare.keeps && m->u.prepare.keep == 8);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    assert_null(cw_fact(&w, "state.lost"));
    cw_pass(&w, 1, 13, cw_even, 2);
    assert_int_equal(wc_steps_lost(&w), 0);
    assert_int_equal(cw_job(&w, 1)->stable, 13);
    cw_end(&w);
}

/* On both sides of a vote: no newer version is whole where each has a half, and none is kept. */
static void halves_on_both_sides_of_a_vote(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    cw_plan_in_halves(&w);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    cw_pass(&w, 1, 0, cw_even, 2);
    cw_let_go(&w, 1, 2);
    says_step(&w, 8, 0);
    says_step(&w, 12, 4);
    breaks(&w);
    sealed(&w, 0, 8, 13);
    sealed(&w, 1, 8, 12);
    for (uint32_t n = 1; n <= 2; n++) {
        cw_msg(&w, n,
               (struct hsp_msg){.type = HSP_MSG_REACHED, .u.reached = {.round = w.c->next_round}});
    }
    assert_int_equal(cw_job(&w, 1)->att.step, 8);
    assert_false(cw_job(&w, 1)->att.keeps);
    cw_end(&w);
}

/* Of a job on two devices of @n_nodes nodes. */
static bool says_live(uint32_t n_nodes, uint32_t copies, uint32_t protocol, bool halves)
{
    struct cw_world w;
    uint32_t n = 0, live = 0;
    cw_begin(&w, n_nodes, 2 / n_nodes);
    w.c->nodes[n_nodes - 1].protocol = protocol;
    wc_submit(&w, (struct hsp_job_terms){.copies = copies});
    if (halves) {
        cw_plan_in_halves(&w);
    } else {
        cw_plan(&w, 1);
    }
    for (uint32_t i = 0; i < w.a.n; i++) {
        if (w.a.item[i].type == HSP_ACT_PREPARE) {
            live += w.a.item[i].msg->u.prepare.live;
            n++;
        }
    }
    assert_true(n == 2 && (live == 0 || live == 2));
    cw_end(&w);
    return live > 0;
}

/* Ranks seal at a loss where each part is at home on two nodes, and all executors know of it. More
 * copies, which nobody here can keep, change nothing. */
static void who_seals_at_a_loss(void **state)
{
    (void)state;
    assert_true(says_live(2, 2, HSP_PROTO_LIVE, false));
    assert_true(says_live(2, 3, HSP_PROTO_LIVE, false));
    assert_false(says_live(2, 1, HSP_PROTO_LIVE, false));
    assert_false(says_live(1, 2, HSP_PROTO_LIVE, false));
    assert_false(says_live(2, 2, HSP_PROTO_LIVE - 1, false));
    assert_false(says_live(2, 2, HSP_PROTO_LIVE, true));
}

/* So status tells the same cost of a loss behind a restart of hspmdd. */
static void who_seals_is_known_behind_a_restart(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    assert_true(cw_job(&w, 1)->cur.live);
    cw_restart_nodes(&w, 2);
    assert_true(cw_job(&w, 1)->cur.live);
    cw_end(&w);
}

/* The more there is to copy, the longer a node may take to answer SEAL. */
static void time_to_seal_grows_with_the_state(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_job(&w, 1)->plans[0].info.mem_bytes[0] = UINT64_C(1) << 30;
    breaks(&w);
    assert_int_equal(sent(&w, 1, HSP_MSG_SEAL)->u.jobref.more_ms, 2097);
    assert_int_equal(sent(&w, 2, HSP_MSG_SEAL)->u.jobref.more_ms, 0);
    cw_job(&w, 1)->plans[0].info.mem_bytes[0] = UINT64_MAX;
    assert_int_equal(hsp_ci_seal_more_ms(cw_job(&w, 1), 0), HSP_SEAL_MORE_MS);
    assert_int_equal(hsp_ci_mark(w.c, (struct hsp_job *)cw_job(&w, 1), 0)->seal_by_ms,
                     w.c->now_ms + w.c->cfg.seal_ms + 2097);
    cw_end(&w);
}

/* n1 is of the protocol before: nobody saves state at a loss, and an executor that hangs is ended
 * as ever. */
static void no_time_to_seal_is_given_to_those_that_save_none(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    w.c->nodes[1].protocol = HSP_PROTO_LIVE - 1;
    cw_run_job(&w, 2);
    cw_job(&w, 1)->plans[0].info.mem_bytes[0] = UINT64_C(1) << 30;
    breaks(&w);
    assert_int_equal(sent(&w, 1, HSP_MSG_SEAL)->u.jobref.more_ms, 0);
    cw_end(&w);
}

HSP_TEST_FILE(due_versions_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_that_a_survivor_sealed_is_kept),
        cmocka_unit_test(halves_on_both_sides_of_a_vote),
        cmocka_unit_test(who_seals_at_a_loss),
        cmocka_unit_test(who_seals_is_known_behind_a_restart),
        cmocka_unit_test(time_to_seal_grows_with_the_state),
        cmocka_unit_test(no_time_to_seal_is_given_to_those_that_save_none),
        cmocka_unit_test(steps_beyond_the_stable_version_are_made_again),
        cmocka_unit_test(after_a_restart_the_distance_is_learnt_anew),
        cmocka_unit_test(steps_told_again_behind_a_restart_count),
        cmocka_unit_test(a_stable_version_that_is_gone_is_lost),
        cmocka_unit_test(a_job_that_trains_does_not_end_by_switches),
        cmocka_unit_test(a_job_ends_that_gets_no_stable_version),
        cmocka_unit_test(damage_between_due_versions_is_waited_for_by_nobody),
        cmocka_unit_test(damage_before_the_epoch_is_over),
        cmocka_unit_test(all_or_none_know_that_few_versions_are_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
