/* Tests state that its holder finds damaged when it is asked for it: others are asked, without a
 * failure that counts, as long as there are others. */
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/lookup.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

/* Both have version 7, n1 has version 8, too. */
static void sealed(struct cw_world *w)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct hsp_m_holding h[2] = {{.job = 1, .plan = 1, .version = 7, .rank = i, .owner = i},
                                     {.job = 1, .plan = 1, .version = 8, .rank = i, .owner = i}};
        cw_msg(
            w, i + 1,
            (struct hsp_msg){.type = HSP_MSG_SEALED,
                             .epoch = cw_job(w, 1)->seal_upto,
                             .u.sealed = {.job = 1, .n_holdings = i == 0 ? 1 : 2, .holdings = h}});
    }
}

/* Two data parallel devices that hold the same; n1's executor ends and both are sealed with version
 * 7; epoch 2 is prepared to go on from it. */
static void recovering(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    cw_run_job(w, 2);
    cw_pass(w, 1, 7, cw_even, 2);
    cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_DEAD, .u.dead.reason = "signal 9"});
    sealed(w);
    cw_msg(w, 2,
           (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.device = 0, .address = "y"}});
}

static const struct hsp_prepare_action *asked(const struct cw_world *w)
{
    const struct hsp_action *a = cw_find(w, HSP_ACT_PREPARE);
    assert_non_null(a);
    return a->u.prepare;
}

static void damaged(struct cw_world *w, uint32_t node, uint32_t rank, uint64_t version, bool live)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_STATE_DAMAGED,
                            .u.damaged = {.job = 1,
                                          .plan = 1,
                                          .rank = rank,
                                          .owner = rank,
                                          .version = version,
                                          .live = live,
                                          .part = "wte.weight (m) [0:8, 0:4]"}});
}

static void refuses(struct cw_world *w, uint32_t node)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = cw_job(w, 1)->att.epoch,
                            .u.failed = {.job = 1,
                                         .fact = HSP_FACT_NO_STATE,
                                         .peer = HSP_MSG_RANKS,
                                         .reason = "version 8 of wte.weight is not here"}});
}

/* Version 8 is whole at n1 alone; when it is damaged there, version 7 is taken, of which both are
 * sources; and when n1 has no good one of that either, n0 is. None of it counts as a failure. */
static void test_another_owner_is_asked(void **state)
{
    (void)state;
    struct cw_world w;
    recovering(&w);
    assert_int_equal(cw_job(&w, 1)->att.step, 8);
    assert_int_equal(asked(&w)->n_sources, 1);
    uint32_t failures = cw_job(&w, 1)->failures;
    damaged(&w, 1, 1, 8, false);
    assert_string_equal(cw_fact(&w, "state.damaged"),
                        "n1/0: version 8 of its state in layout 1: wte.weight (m) [0:8, 0:4]");
    refuses(&w, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RECOVERING);
    assert_int_equal(cw_job(&w, 1)->att.step, 7);
    assert_int_equal(asked(&w)->n_sources, 2);
    damaged(&w, 1, 1, 7, false);
    refuses(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.step, 7);
    assert_int_equal(asked(&w)->n_sources, 1);
    assert_int_equal(asked(&w)->sources[0].holder, 0);
    assert_int_equal(cw_job(&w, 1)->failures, failures);
    assert_int_equal(cw_job(&w, 1)->n_facts, 0); /* planning has nothing to learn from it */
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    cw_pass(&w, 1, 8, cw_even, 2);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    assert_string_equal(cw_job(&w, 1)->damage, "");
    cw_end(&w);
}

/* The first epoch takes no state from anybody. A member that lacks some is wrong, as one with a bad
 * program is: the attempt fails, and counts. */
static void test_a_member_that_lacks_state_at_the_begin(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.mode, HSP_MODE_FRESH);
    refuses(&w, 1);
    assert_non_null(cw_fact(&w, "switch.aborted"));
    assert_int_equal(cw_job(&w, 1)->failures, 1);
    assert_string_equal(cw_job(&w, 1)->damage, "");
    cw_end(&w);
}

/* The GPU's memory was damaged, not the segment: SEALED offers it after the report, and the job
 * goes on from it. */
static void test_a_segment_that_is_intact(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_pass(&w, 1, 7, cw_even, 2);
    damaged(&w, 1, 1, 8, true);
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = 1,
                            .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "damaged"}});
    sealed(&w);
    for (uint32_t n = 1; n <= 2; n++) { /* no pair is broken */
        cw_msg(&w, n,
               (struct hsp_msg){.type = HSP_MSG_REACHED, .u.reached = {.round = w.c->next_round}});
    }
    assert_int_equal(cw_job(&w, 1)->att.step, 8);
    assert_int_equal(asked(&w)->n_sources, 1);
    assert_int_equal(asked(&w)->sources[0].holder, 1);
    cw_end(&w);
}

/* With no owner left there is a checkpoint, or the end; both say why. */
static void test_without_an_owner(void **state)
{
    (void)state;
    for (int ckpt = 0; ckpt < 2; ckpt++) {
        struct cw_world w;
        recovering(&w);
        if (ckpt) {
            cw_msg(&w, 1,
                   (struct hsp_msg){
                       .type = HSP_MSG_CHECKPOINTED,
                       .epoch = 1,
                       .u.ckpt = {.job = 1, .step = 5, .term = 1, .complete = true, .reason = ""}});
        }
        damaged(&w, 1, 1, 8, false);
        refuses(&w, 1);
        damaged(&w, 0, 0, 7, false);
        damaged(&w, 1, 1, 7, false);
        refuses(&w, 0);
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED); /* for nodes that may have more */
        char said[256] = "";
        for (uint32_t s = 0; s <= w.c->cfg.state_wait_ms / 1000 && said[0] == '\0'; s++) {
            w.now += 1000;
            for (uint32_t i = 0; i < 2; i++) {
                cw_msg(&w, i + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
                const char *why = cw_fact(&w, ckpt ? "state.lost" : "job.failed");
                if (why != NULL) {
                    (void)snprintf(said, sizeof said, "%s", why);
                }
            }
        }
        assert_string_equal(
            said,
            ckpt ? "version 8 is lost, going back to version 5: 3 steps are made again; damaged on "
                   "n1/0: wte.weight (m) [0:8, 0:4]"
                 : "the state of version 8 is lost and there is no checkpoint; damaged on n1/0: "
                   "wte.weight (m) [0:8, 0:4]");
        assert_int_equal(cw_job(&w, 1)->state, ckpt ? HSP_JOB_RECOVERING : HSP_JOB_FAILED);
        cw_end(&w);
    }
}

/* All that is known is a checkpoint: no version beyond it is named, and none is said to be lost at
 * it. */
static void test_how_far_it_was_is_not_known(void **state)
{
    (void)state;
    struct cw_world w;
    recovering(&w);
    cw_msg(&w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_CHECKPOINTED,
               .epoch = 1,
               .u.ckpt = {.job = 1, .step = 8, .term = 1, .complete = true, .reason = ""}});
    damaged(&w, 1, 1, 8, false);
    refuses(&w, 1);
    damaged(&w, 0, 0, 7, false);
    damaged(&w, 1, 1, 7, false);
    refuses(&w, 0);
    char said[256] = "";
    for (uint32_t s = 0; s <= w.c->cfg.state_wait_ms / 1000 && said[0] == '\0'; s++) {
        w.now += 1000;
        for (uint32_t i = 0; i < 2; i++) {
            cw_msg(&w, i + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            const char *why = cw_fact(&w, "state.lost");
            if (why != NULL) {
                (void)snprintf(said, sizeof said, "%s", why);
            }
        }
    }
    assert_non_null(strstr(
        said,
        "its state is lost, and its newest step is not known here: it resumes from version 8"));
    cw_end(&w);
}

/* A device without a piece that it offered has none of that version: it did not say which piece. */
static void test_a_piece_that_is_gone(void **state)
{
    (void)state;
    struct cw_world w;
    recovering(&w);
    uint32_t failures = cw_job(&w, 1)->failures;
    refuses(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.step, 7);
    assert_int_equal(cw_job(&w, 1)->failures, failures);
    for (int i = 0; cw_job(&w, 1)->att.epoch != 0; i++) { /* each time less is left */
        assert_true(i < 4);
        refuses(&w, 0);
        if (cw_job(&w, 1)->att.epoch != 0) {
            refuses(&w, 1);
        }
    }
    cw_end(&w);
}

static void n1_beats(struct cw_world *w)
{
    cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
}

/* Both devices have the stable version 8; n0 is dead, and n1, which is to go on alone, finds its
 * own damaged: version 7 is whole. */
static void other_owner_is_away(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    w->unix_s = 86400 + 23 * 3600 + 59 * 60 + 7;
    cw_run_job(w, 2);
    cw_pass(w, 1, 8, cw_even, 2);
    for (uint32_t ms = 0; ms < w->c->cfg.dead_ms; ms += 500) {
        w->now += 500;
        n1_beats(w);
    }
    assert_int_equal(w->c->nodes[0].state, HSP_NODE_DEAD);
    struct hsp_m_holding h[2] = {{.job = 1, .plan = 1, .version = 7, .rank = 1, .owner = 1},
                                 {.job = 1, .plan = 1, .version = 8, .rank = 1, .owner = 1}};
    cw_msg(w, 2,
           (struct hsp_msg){.type = HSP_MSG_SEALED,
                            .epoch = cw_job(w, 1)->seal_upto,
                            .u.sealed = {.job = 1, .n_holdings = 2, .holdings = h}});
    cw_plan(w, 1);
    assert_int_equal(cw_job(w, 1)->att.step, 8);
    damaged(w, 1, 1, 8, false);
    refuses(w, 1);
}

/* With its state, if it proves to be the one that had it. */
static void n0_comes(struct cw_world *w, uint32_t conn, uint32_t n_holdings, struct hsp_digest was)
{
    struct hsp_m_holding h = {.job = 1, .plan = 1, .version = 8};
    cw_say_hello(
        w, conn,
        (struct hsp_m_hello){.node = "n0", .was = was, .n_holdings = n_holdings, .holdings = &h});
}

/* A version that was there is not given up while its other owner may come back with it. */
static void test_an_owner_that_comes_back(void **state)
{
    (void)state;
    struct cw_world w;
    other_owner_is_away(&w);
    assert_int_equal(cw_job(&w, 1)->att.epoch, 0);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
    assert_string_equal(cw_job(&w, 1)->reason,
                        "version 8 of the state is not complete on the connected nodes: waiting "
                        "for more, on n0, until 00:00:07 UTC, then it continues without");
    n0_comes(&w, 3, 1, cw_last(&w, "n0"));
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.step, 8);
    assert_int_equal(cw_job(&w, 1)->att.n_sources, 1);
    assert_int_equal(cw_job(&w, 1)->att.sources[0].owner, 0);
    assert_int_equal(cw_job(&w, 1)->stable, 8);
    cw_end(&w);
}

/* n1 has gone on alone from version 7, and falls silent: it is waited for as long as was n0. */
static void loses_n1_in_the_next_epoch(struct cw_world *w)
{
    double compute = 1;
    cw_msg(
        w, 2,
        (struct hsp_msg){.type = HSP_MSG_STEP,
                         .epoch = cw_job(w, 1)->att.epoch,
                         .u.step = {.job = 1, .step = 9, .n_compute = 1, .compute_s = &compute}});
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RUNNING);
    for (uint32_t ms = 0; ms < w->c->cfg.dead_ms + w->c->cfg.state_wait_ms / 2; ms += 500) {
        w->now += 500;
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(w->c->nodes[1].state, HSP_NODE_DEAD);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_PAUSED);
    assert_non_null(strstr(
        cw_job(w, 1)->reason,
        "version 9 of the state is not complete on the connected nodes: waiting for more, on n1,"));
}

/* When it does not come, the wait ends, and the loss is told where it is decided. Another that has
 * its name and proves nothing does not end it. */
static void test_an_owner_that_stays_away(void **state)
{
    (void)state;
    struct cw_world w;
    other_owner_is_away(&w);
    hsp_msec until = w.now + w.c->cfg.state_wait_ms;
    n0_comes(&w, 3, 0, (struct hsp_digest){0, 0});
    assert_non_null(cw_fact(&w, "node.joined"));
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 3});
    for (; w.now < until; n1_beats(&w)) {
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
        w.now += 1000;
    }
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.step, 7);
    assert_int_equal(cw_job(&w, 1)->stable, 8);
    cw_ready(&w, 1, 1, 5);
    assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_GO);
    assert_string_equal(
        cw_fact(&w, "state.lost"),
        "version 8 is lost, going back to version 7: 2 steps are made again; damaged on "
        "n1/0: wte.weight (m) [0:8, 0:4]");
    assert_int_equal(cw_job(&w, 1)->stable, 7);
    loses_n1_in_the_next_epoch(&w);
    cw_end(&w);
}

/* Only the holder of a piece may say that it is damaged. */
static void test_who_may_say_so(void **state)
{
    (void)state;
    struct cw_world w;
    recovering(&w);
    damaged(&w, 0, 1, 8, false);
    assert_null(cw_fact(&w, "state.damaged"));
    damaged(&w, 1, 77, 8, false);
    assert_null(cw_fact(&w, "state.damaged"));
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_STATE_DAMAGED,
                            .u.damaged = {.job = 9, .plan = 1, .part = "all"}});
    assert_null(cw_fact(&w, "state.damaged"));
    assert_int_equal(cw_job(&w, 1)->n_held, 3);
    damaged(&w, 1, 1, UINT64_MAX, true); /* its head: which version it was is not known */
    assert_non_null(strstr(cw_fact(&w, "state.damaged"), "a version of its state"));
    assert_non_null(strstr(cw_fact(&w, "state.damaged"), "went bad while the job ran"));
    cw_end(&w);
}

static void refuses_shape(struct cw_world *w, uint32_t node, uint64_t amount)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = cw_job(w, 1)->att.epoch,
                            .u.failed = {.job = 1,
                                         .fact = HSP_FACT_STATE_SHAPE,
                                         .amount = amount,
                                         .peer = HSP_MSG_RANKS,
                                         .reason = "version 8 of layout 1 is laid out by another "
                                                   "version of hspmdd"}});
}

/* After an upgrade of hspmdd the program of a layout places its state elsewhere: a new layout is
 * made of it, since a layout that keeps its number would be written over the only state there
 * is. */
static void test_state_laid_out_by_another_version(void **state)
{
    (void)state;
    struct cw_world w;
    recovering(&w);
    const struct hsp_job *j = cw_job(&w, 1);
    uint32_t failures = j->failures;
    assert_true(j->att.plan == 1 && j->att.from_plan == 1 && j->att.step == 8);
    refuses_shape(&w, 1, 0);
    assert_true(j->att.epoch == 0 && j->failures == failures && j->n_facts == 0);
    assert_int_equal(j->n_plans, 1); /* the old one is where the state is */
    cw_plan(&w, 1);
    assert_true(j->att.plan == 2 && j->att.from_plan == 1 && j->att.step == 8);
    assert_int_equal(j->att.mode, HSP_MODE_RECOVER);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    cw_pass(&w, 1, 9, cw_even, 2);
    assert_true(j->state == HSP_JOB_RUNNING && j->cur.plan == 2);
    cw_end(&w);
}

/* Where hspmdd would cut the tensors otherwise nothing can be made of the state, so the job waits
 * for people and keeps its state. */
static void test_state_cut_by_another_version(void **state)
{
    (void)state;
    struct cw_world w;
    recovering(&w);
    const struct hsp_job *j = cw_job(&w, 1);
    uint32_t failures = j->failures;
    for (int again = 0; again < 3; again++) {
        refuses_shape(&w, 1, UINT64_MAX);
        assert_true(j->att.epoch == 0 && j->failures == failures);
        assert_non_null(strstr(j->reason, "is laid out by another version of hspmdd"));
        for (int s = 0; s < 30; s++) {
            assert_int_equal(j->att.epoch, 0);
            w.now += 1000;
            cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        assert_true(j->att.plan == 1 && j->att.from_plan == 1 && j->att.step == 8);
    }
    cw_end(&w);
}

/* ---- a version that was given up by a node that nobody heard ---- */

static void offers(struct cw_world *w, uint32_t conn, const struct hsp_m_holding *h, uint32_t n)
{
    struct hsp_m_holding copy[4];
    for (uint32_t i = 0; i < n; i++) {
        copy[i] = h[i];
    }
    cw_msg(w, conn,
           (struct hsp_msg){.type = HSP_MSG_SEALED,
                            .epoch = cw_job(w, 1)->seal_upto,
                            .u.sealed = {.job = 1, .n_holdings = n, .holdings = copy}});
}

static void loses_a_peer(struct cw_world *w, uint32_t conn, uint64_t epoch)
{
    cw_msg(w, conn,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = epoch,
                            .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "it is silent"}});
    for (uint32_t n = 1; n <= 3; n++) { /* no pair is broken */
        cw_msg(w, n,
               (struct hsp_msg){.type = HSP_MSG_REACHED, .u.reached = {.round = w->c->next_round}});
    }
}

/* n0 and n1 train, vote 7 has passed. Both give up version 8, which n0 cannot tell, as it is cut
 * off; n1 has lost it before it had its record. n0 is dead: layout 2, on n1 and n2, is begun with
 * n1's version 8. */
static void begun_with_what_is_void(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    cw_run_job(w, 2);
    cw_pass(w, 1, 7, cw_even, 2);
    cw_hello(w, 3, "n2", 0, 1);
    for (uint32_t ms = 0; ms < w->c->cfg.dead_ms; ms += 500) {
        w->now += 500;
        cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_msg(w, 3, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(w->c->nodes[0].state, HSP_NODE_DEAD);
    const struct hsp_m_holding n1[] = {{.job = 1, .plan = 1, .version = 7, .rank = 1, .owner = 1},
                                       {.job = 1, .plan = 1, .version = 8, .rank = 1, .owner = 1}};
    offers(w, 2, n1, 2);
    cw_plan(w, 1);
    const struct hsp_job *j = cw_job(w, 1);
    assert_true(j->att.plan == 2 && j->att.from_plan == 1 && j->att.step == 8);
    assert_int_equal(j->att.n_ranks, 2);
    cw_ready(w, 1, 1, 5);
    cw_ready(w, 1, 2, 5);
    assert_int_equal(j->att.phase, HSP_ATT_GO);
}

/* n0 is back with its state, and reports the damage. */
static void n0_tells(struct cw_world *w)
{
    n0_comes(w, 4, 0, cw_last(w, "n0"));
    cw_msg(w, 4,
           (struct hsp_msg){.type = HSP_MSG_STATE_DAMAGED,
                            .u.damaged = {.job = 1,
                                          .plan = 1,
                                          .version = 8,
                                          .live = true,
                                          .given_up_in = 1,
                                          .part = "replicas differ"}});
}

static const struct hsp_m_holding of_n1[] = {
    {.job = 1, .plan = 1, .version = 7, .rank = 1, .owner = 1},
    {.job = 1, .plan = 1, .version = 8, .rank = 1, .owner = 1},
    {.job = 1, .plan = 2, .version = 8}};
static const struct hsp_m_holding of_n2 = {
    .job = 1, .plan = 2, .version = 8, .rank = 1, .owner = 1};

/* The epoch of layout 2 broke. n2 has sealed nothing of it, so no vote of version 8 has passed
 * there: layout 2 is void with the version that it was made of, also when the report comes while an
 * attempt with it is prepared. */
static void test_what_was_made_of_it_is_void(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct cw_world w;
        begun_with_what_is_void(&w);
        const struct hsp_job *j = cw_job(&w, 1);
        loses_a_peer(&w, 2, j->att.epoch);
        assert_int_equal(j->state, HSP_JOB_SEALING);
        offers(&w, 2, of_n1, 3);
        offers(&w, 3, NULL, 0);
        if (late == 1) {
            cw_plan(&w, 1);
            assert_true(j->att.from_plan == 2 && j->att.step == 8);
        }
        n0_tells(&w);
        assert_non_null(cw_fact(&w, "state.given_up"));
        assert_int_equal(hsp_ci_plan(j, 2)->void_from, 8);
        assert_int_equal(j->att.epoch, 0);
        cw_plan(&w, 1);
        assert_true(j->att.mode == HSP_MODE_RECOVER && j->att.from_plan == 1 && j->att.step == 7);
        cw_end(&w);
    }
}

/* All ranks of layout 2 have sealed version 8, so its vote may have passed, though nobody has told
 * of it. */
static void test_what_may_be_committed_stays(void **state)
{
    (void)state;
    struct cw_world w;
    begun_with_what_is_void(&w);
    const struct hsp_job *j = cw_job(&w, 1);
    loses_a_peer(&w, 2, j->att.epoch);
    offers(&w, 2, of_n1, 3);
    offers(&w, 3, &of_n2, 1);
    n0_tells(&w);
    assert_int_equal(hsp_ci_plan(j, 1)->void_from, 8);
    assert_true(hsp_ci_plan(j, 2)->void_from == UINT64_MAX);
    cw_plan(&w, 1);
    assert_true(j->att.from_plan == 2 && j->att.step == 8);
    cw_end(&w);
}

/* The report comes when both may begin: they are sealed, and n2 shows that it had not. */
static void test_what_may_begin_is_sealed_first(void **state)
{
    (void)state;
    struct cw_world w;
    begun_with_what_is_void(&w);
    n0_tells(&w);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_SEALING);
    assert_string_equal(j->cause, "version 8 was given up");
    offers(&w, 2, of_n1, 3);
    offers(&w, 3, NULL, 0);
    assert_int_equal(hsp_ci_plan(j, 2)->void_from, 8);
    cw_plan(&w, 1);
    assert_true(j->att.from_plan == 1 && j->att.step == 7);
    cw_end(&w);
}

/* The version of which a layout was made stands in its row, but for some rows of that form. */
static void test_of_what_it_was_made_is_on_record(void **state)
{
    (void)state;
    struct cw_world w;
    begun_with_what_is_void(&w);
    for (int had = 1; had >= 0; had--) {
        for (uint32_t i = 0; had == 0 && i < w.n_rows; i++) {
            if (strcmp(w.rows[i].key, "plan/1/2") == 0) { /* some of form 15 lack it */
                ((uint8_t *)w.rows[i].value)[0] = 15;
                w.rows[i].len -= CW_MADE_OF_BYTES;
            }
        }
        cw_restart(&w, NULL);
        const struct hsp_job_plan *p = hsp_ci_plan(cw_job(&w, 1), 2);
        assert_int_equal(p->from_plan, had == 1 ? 1 : 0);
        assert_int_equal(p->from_step, had == 1 ? 8 : 0);
    }
    cw_end(&w);
}

HSP_TEST_FILE(state_damage_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_owner_is_asked),
        cmocka_unit_test(test_a_member_that_lacks_state_at_the_begin),
        cmocka_unit_test(test_a_segment_that_is_intact),
        cmocka_unit_test(test_without_an_owner),
        cmocka_unit_test(test_how_far_it_was_is_not_known),
        cmocka_unit_test(test_state_laid_out_by_another_version),
        cmocka_unit_test(test_state_cut_by_another_version),
        cmocka_unit_test(test_a_piece_that_is_gone),
        cmocka_unit_test(test_an_owner_that_comes_back),
        cmocka_unit_test(test_an_owner_that_stays_away),
        cmocka_unit_test(test_who_may_say_so),
        cmocka_unit_test(test_what_was_made_of_it_is_void),
        cmocka_unit_test(test_what_may_be_committed_stays),
        cmocka_unit_test(test_what_may_begin_is_sealed_first),
        cmocka_unit_test(test_of_what_it_was_made_is_on_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
