/* Tests restarts of the coordinator, and losses in the middle of something. */
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/lookup.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

#include <stdio.h>

static void dead_executor(struct cw_world *w, uint32_t node)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_EXECUTOR_DEAD, .u.dead = {.reason = "signal 9"}});
}

static void sealed(struct cw_world *w, uint32_t node, uint64_t plan, uint64_t version, bool holds)
{
    struct hsp_m_holding h = {.job = 1, .plan = plan, .version = version, .rank = 1, .owner = 1};
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_SEALED,
                            .epoch = cw_job(w, 1)->seal_upto,
                            .u.sealed = {.job = 1, .n_holdings = holds, .holdings = &h}});
}

/* The node is lost: its connection, and a peer saw its data plane break. */
static void lost(struct cw_world *w, uint32_t node, uint32_t seen_by, uint32_t rank)
{
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = node + 1});
    cw_msg(w, seen_by + 1,
           (struct hsp_msg){
               .type = HSP_MSG_PEER_LOST,
               .epoch = cw_job(w, 1)->att.epoch,
               .u.lost = {.job = 1, .device = 0, .peer = rank, .reason = "connection broke"}});
    assert_int_equal(w->c->nodes[node].state, HSP_NODE_DEAD);
}

static void submit(struct cw_world *w, uint32_t max)
{
    wc_submit(w, (struct hsp_job_terms){.max = max});
    cw_plan(w, 1);
    wc_begins(w, 0);
}

/* The agent of n0 dies and begins anew. */
static void n0_crashed(struct cw_world *w)
{
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    cw_hello(w, 5, "n0", 0, 1);
}

static void waits_for_version(struct cw_world *w)
{
    assert_int_equal(cw_job(w, 1)->att.epoch, 0); /* the job does not begin anew */
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_PAUSED);
    assert_non_null(strstr(cw_job(w, 1)->reason, "not complete on the connected nodes"));
}

/* n1 alone has the version they go on from, and is lost before n0, which is new, has got it. The
 * lack of n0 proves nothing, though the layout was begun again with it. */
static void who_joined_since_is_no_witness(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    submit(&w, 2);
    n0_crashed(&w);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    sealed(&w, 1, 1, 3, true);
    assert_true(cw_job(&w, 1)->att.mode == HSP_MODE_RECOVER && cw_job(&w, 1)->att.plan == 1);
    uint64_t since = cw_job(&w, 1)->plans[0].since;
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(
            &w, i == 0 ? 5 : 2,
            (struct hsp_msg){
                .type = HSP_MSG_READY,
                .epoch = 2,
                .u.ready = {.job = 1, .data_bytes = 7, .data_tokens = 3, .data_digest = {5, 1}}});
    }
    assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_GO);
    assert_true(cw_job(&w, 1)->plans[0].since == since);
    lost(&w, 1, 4, 1);
    sealed(&w, 4, 1, 0, false);
    waits_for_version(&w);
    cw_end(&w);
}

/* Time passes, and n0 beats on connection 5. */
static void n0_beats(struct cw_world *w, hsp_msec ms)
{
    for (hsp_msec until = w->now + ms; w->now < until;) {
        w->now += 500;
        cw_msg(w, 5, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

/* All nodes that had state are back without it, so the job waits for a moment. A node that dies in
 * that moment may come back with the state, and is waited for like any other node. */
static void who_goes_in_the_moment_is_waited_for(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    submit(&w, 2);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    cw_hello(&w, 6, "n1", 0, 1);
    sealed(&w, 5, 1, 0, false);
    w.now += 1000;
    n0_crashed(&w);
    sealed(&w, 4, 1, 0, false);
    n0_beats(&w, 500);
    waits_for_version(&w);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "waits for a moment"));
    n0_beats(&w, 5000);
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_DEAD);
    waits_for_version(&w);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "waiting for more, on n1,"));
    n0_beats(&w, w.c->cfg.state_wait_ms);
    assert_int_equal(cw_job(&w, 1)->n_plans, 0); /* not without end */
    cw_end(&w);
}

/* The state is given up, and the attempt that goes on from the checkpoint fails: the devices are
 * let go, and delete the layouts that they still have. */
static void who_is_let_go_deletes_what_was_given_up(void **state)
{
    (void)state;
    struct cw_world w;
    wc_running(&w);
    wc_saved_in(&w, 1, 20, 7);
    wc_sees(&w, 20, 1, 7);
    dead_executor(&w, 0);
    sealed(&w, 0, 1, 0, false);
    sealed(&w, 1, 1, 0, false);
    for (uint32_t i = 0; cw_job(&w, 1)->att.epoch == 0 && i < 200; i++) {
        if (cw_job(&w, 1)->ticket != 0) {
            cw_plan(&w, 1);
            continue;
        }
        wc_beats(&w, 500);
    }
    assert_int_equal(cw_job(&w, 1)->att.mode, HSP_MODE_RESTORE);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 0);
    w.asks = true; /* of the next look, which is another step */
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = cw_job(&w, 1)->att.epoch,
                            .u.failed = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "no"}});
    assert_int_equal(cw_job(&w, 1)->att.epoch, 0);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 2);
    cw_end(&w);
}

/* The same with another layout: a node that was there when that was begun knows nothing of the one
 * before. */
static void each_layout_needs_a_witness(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    submit(&w, 2);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = 1,
                            .u.lost = {.job = 1, .peer = 0, .reason = "connection broke"}});
    assert_int_equal(w.c->nodes[0].state, HSP_NODE_DEAD);
    cw_plan(&w, 1); /* n1 and n2 */
    sealed(&w, 1, 1, 3, true);
    assert_true(cw_job(&w, 1)->att.mode == HSP_MODE_RECOVER && cw_job(&w, 1)->att.plan == 2);
    cw_ready(&w, 1, 1, 5);
    cw_ready(&w, 1, 2, 5);
    assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_GO);
    lost(&w, 1, 2, 0);
    sealed(&w, 2, 1, 0, false);
    waits_for_version(&w);
    cw_end(&w);
}

/* A switch to three nodes that cannot be taken back: it has happened where it could, and nobody
 * heard. */
static void switch_unheard(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    cw_run_job(w, 2);
    cw_hello(w, 3, "n2", 0, 1);
    cw_uplink(w, 3, 1e-4, 1e8);
    assert_int_equal(w->n_asked, 3);
    cw_plan(w, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(w, 1, i, 5);
    }
    assert_true(cw_job(w, 1)->att.epoch == 2 && cw_job(w, 1)->att.phase == HSP_ATT_GO);
}

static void what_has_gone_is_waited_for(void **state)
{
    (void)state;
    struct cw_world w;
    switch_unheard(&w);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    cw_hello_running(&w, 7, "n1", w.c->nodes[1].incarnation, 1, 2);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SWITCHING);
    cw_pass(&w, 1, 9, cw_even, 3);
    assert_int_equal(cw_job(&w, 1)->cur.epoch, 2);
    cw_end(&w);
}

static void and_by_another_process_too(void **state)
{
    (void)state;
    struct cw_world w;
    switch_unheard(&w);
    uint64_t incarnation[] = {w.c->nodes[0].incarnation, w.c->nodes[1].incarnation,
                              w.c->nodes[2].incarnation};
    cw_restart(&w, NULL);
    assert_true(cw_job(&w, 1)->att.epoch == 2 && cw_job(&w, 1)->att.phase == HSP_ATT_GO);
    for (uint32_t i = 0; i < 3; i++) {
        const char name[3] = {'n', (char)('0' + i), '\0'};
        cw_hello_running(&w, i + 1, name, incarnation[i], 1, 2);
    }
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SWITCHING);
    cw_pass(&w, 1, 9, cw_even, 3);
    assert_int_equal(cw_job(&w, 1)->cur.epoch, 2);
    assert_int_equal(cw_job(&w, 1)->stable, 9);
    cw_end(&w);
}

/* The words of the others are forgotten with the process that they told. */
static void a_recovery_under_way_begins_again(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    submit(&w, 2);
    n0_crashed(&w);
    sealed(&w, 1, 1, 3, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RECOVERING);
    assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_PREPARING);
    uint64_t tried = cw_job(&w, 1)->att.epoch;
    cw_restart(&w, NULL);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    assert_true(cw_job(&w, 1)->seal_upto >= tried);
    cw_end(&w);
}

/* n1 was away when the other was told to seal, and is told when it is back: its time to answer
 * begins then. */
static void who_is_told_later_to_seal_has_its_time(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    w.c->cfg.seal_ms = 1000;
    submit(&w, 2);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    dead_executor(&w, 0);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    sealed(&w, 0, 1, 3, true);
    w.now += 1500;
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    uint64_t upto = cw_job(&w, 1)->seal_upto;
    cw_hello_running(&w, 6, "n1", w.c->nodes[1].incarnation, 1, 1);
    assert_true(cw_count_sent(&w, HSP_MSG_SEAL) > 0);
    assert_int_equal(cw_job(&w, 1)->seal_upto, upto);
    w.now += 999;
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    cw_msg(&w, 6, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_LIVE);
    w.now += 1;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_DEAD);
    cw_end(&w);
}

/* No step was heard of, but n1 has its half of version 3, so there was one: with n0 it is lost. */
static void half_of_a_version_nobody_told(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    (void)cw_submit(&w, "j", 0, 1, 2);
    cw_plan_in_halves(&w);
    wc_begins(&w, 0);
    n0_crashed(&w);
    sealed(&w, 1, 1, 3, true);
    assert_int_equal(cw_job(&w, 1)->stable, 0);
    waits_for_version(&w);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "version 3 "));
    cw_end(&w);
}

/* A switch is armed and has happened, but a loss is heard of first: its checkpoints count. */
static void checkpoints_of_an_epoch_that_was_lost_unheard(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_msg m = {.type = HSP_MSG_CHECKPOINTED,
                        .epoch = 2,
                        .u.ckpt = {.job = 1, .step = 12, .reason = "no space"}};
    cw_begin(&w, 2, 1);
    submit(&w, 8);
    cw_hello(&w, 3, "n2", 0, 1);
    cw_plan(&w, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(&w, 1, i, 5);
    }
    assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_GO);
    dead_executor(&w, 1);
    assert_true(cw_job(&w, 1)->state == HSP_JOB_SEALING && cw_job(&w, 1)->cur.epoch == 1);
    cw_msg(&w, 1, m);
    assert_null(cw_find(&w, HSP_ACT_FACT)); /* one that failed is no news */
    m.u.ckpt.complete = true;
    m.u.ckpt.reason = "";
    cw_msg(&w, 1, m);
    assert_true(cw_job(&w, 1)->has_ckpt && cw_job(&w, 1)->ckpt_step == 12);
    m.epoch = 3; /* never given */
    m.u.ckpt.step = 13;
    cw_msg(&w, 1, m);
    assert_int_equal(cw_job(&w, 1)->ckpt_step, 12);
    cw_end(&w);
}

/* The HELLO of the node could not tell of an epoch that was still being prepared. */
static void what_gets_ready_for_nobody_is_dropped(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_msg ready = {.type = HSP_MSG_READY, .epoch = 1, .u.ready.job = 1};
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    cw_plan(&w, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PREPARE), 2);
    cw_restart_nodes(&w, 2);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PENDING);
    cw_msg(&w, 1, ready);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_DROP), 1);
    assert_int_equal(cw_find(&w, HSP_ACT_SEND)->conn, 1);
    assert_true(cw_find(&w, HSP_ACT_SEND)->msg->epoch == 1);
    cw_plan(&w, 1);
    cw_msg(&w, 1, ready); /* said again */
    assert_int_equal(cw_count_sent(&w, HSP_MSG_DROP), 1);
    ready.epoch = 7; /* never given */
    cw_msg(&w, 1, ready);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_DROP), 0);
    ready.epoch = 2;
    cw_msg(&w, 1, ready);
    cw_msg(&w, 2, ready);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_DROP), 0);
    cw_pass(&w, 1, 0, cw_even, 2);
    cw_msg(&w, 1, ready); /* of the epoch that runs */
    assert_int_equal(cw_count_sent(&w, HSP_MSG_DROP), 0);
    cw_end(&w);
}

/* Devices that the stored rows give to job 1. */
static uint32_t stored_leases(const struct cw_world *w)
{
    struct hsp_cluster_row rows[256];
    struct hsp_actions a;
    struct hsp_err err = {0};
    struct hsp_cluster *c = hsp_cluster_new(&w->c->cfg);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        rows[i] = (struct hsp_cluster_row){w->rows[i].key, w->rows[i].value, w->rows[i].len};
    }
    assert_ok(hsp_cluster_load(c, rows, w->n_rows, w->now, &a, &err), &err);
    uint32_t n = hsp_cluster_job(c, 1)->n_leases;
    hsp_cluster_free(c);
    return n;
}

/* A restart must not take for a job the devices that others may have by then. */
static void leases_given_up_are_not_stored(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_msg m = {.type = HSP_MSG_STOPPED, .u.devref.job = 1};
    cw_begin(&w, 2, 1);
    submit(&w, 8);
    assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_CANCEL, .job = 1}),
                     HSP_OK);
    cw_msg(&w, 1, m);
    assert_null(cw_find(&w, HSP_ACT_STORE)); /* one row for all of them */
    cw_msg(&w, 2, m);
    assert_non_null(cw_find(&w, HSP_ACT_STORE));
    assert_int_equal(stored_leases(&w), 0);
    n0_crashed(&w); /* and nothing of it is there any more */
    for (uint32_t i = 0; i < w.a.n; i++) {
        assert_true(w.a.item[i].key == NULL || strcmp(w.a.item[i].key, "job/1") != 0);
    }
    cw_end(&w);
    cw_begin(&w, 2, 1); /* the node dies */
    submit(&w, 8);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    cw_hello(&w, 5, "n0", 0, 1);
    assert_int_equal(cw_job(&w, 1)->n_leases, 1);
    assert_int_equal(stored_leases(&w), 1);
    cw_end(&w);
    cw_begin(&w, 2, 2); /* the node has one device less */
    assert_int_equal(cw_submit(&w, "j", 0, 4, 4), HSP_OK);
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->n_leases, 4);
    cw_hello(&w, 5, "n0", w.c->nodes[0].incarnation, 1);
    assert_int_equal(cw_job(&w, 1)->n_leases, stored_leases(&w));
    cw_end(&w);
}

/* Rows come in the order of their texts: job/10 before job/9. */
static void jobs_stay_in_the_order_they_were_submitted_in(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    for (uint32_t i = 1; i <= 10; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "j%u", i < 9 ? i : 9);
        assert_int_equal(cw_submit(&w, name, 0, 1, 1), HSP_OK);
        assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, i), HSP_OK);
    }
    assert_int_equal(hsp_cluster_job_by_name(w.c, "j9")->id, 10); /* the newer of two */
    cw_restart(&w, NULL);
    for (uint32_t i = 0; i < w.c->n_jobs; i++) {
        assert_int_equal(w.c->jobs[i]->id, i + 1);
    }
    assert_int_equal(hsp_cluster_job_by_name(w.c, "j9")->id, 10);
    cw_end(&w);
}

static void goes(struct cw_world *w)
{
    cw_plan(w, 1);
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
    assert_int_equal(cw_job(w, 1)->att.phase, HSP_ATT_GO);
}

/* hspmdd restarts before the first epoch of a job is past GO, or after that epoch without a missed
 * message, and hears the whole of the next epoch. That epoch is lost before it commits a step, so
 * the job begins anew. Where hspmdd was away at the loss, the job may have come further. */
static void a_job_that_was_heard_begins_anew(void **state)
{
    (void)state;
    enum { BEFORE, BEHIND, AWAY };
    for (int when = BEFORE; when <= AWAY; when++) {
        struct cw_world w;
        cw_begin(&w, 2, 1);
        assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
        if (when != BEFORE) {
            goes(&w);
        }
        if (when != AWAY) {
            cw_restart_nodes(&w, 2);
            for (uint32_t i = 0; i < 2 && when == BEHIND; i++) { /* the nodes hold nothing */
                cw_sealed(&w, i, 0, 0);
            }
            goes(&w);
        } else {
            cw_restart(&w, NULL);
        }
        for (uint32_t i = 0; i < 2; i++) {
            cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1 + i});
        }
        for (uint32_t i = 0; i < 8; i++) {
            w.now += 500;
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        for (uint32_t i = 0; i < 2; i++) {
            cw_say_hello(&w, 11 + i, (struct hsp_m_hello){.node = i == 0 ? "n0" : "n1"});
        }
        w.ticket = 0;
        for (hsp_msec ms = 0; ms < 2u * w.c->cfg.state_wait_ms && w.ticket == 0; ms += 500) {
            w.now += 500;
            for (uint32_t i = 0; i < 2; i++) {
                cw_msg(&w, 11 + i, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            }
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        assert_int_equal(w.ticket != 0, when != AWAY);
        assert_int_equal(cw_job(&w, 1)->state == HSP_JOB_FAILED, when == AWAY);
        cw_end(&w);
    }
}

/* hspmdd ends as the first epoch goes, and its one node reboots before it has heard START or marked
 * its folder. The job may have run while hspmdd was away, so it does not begin anew by itself: it
 * waits for word where the folder of the node has no mark, which may not be mounted, and fails
 * where there is a mark and no checkpoint. */
static void lost_as_its_first_epoch_goes(void **state)
{
    (void)state;
    for (uint32_t marked = 0; marked < 2; marked++) {
        struct cw_world w;
        cw_begin(&w, 1, 1);
        w.asks = true;
        w.begun = marked;
        wc_submit(&w, (struct hsp_job_terms){.checkpoint_path = "/c"});
        cw_plan(&w, 1);
        cw_ready(&w, 1, 0, 5);
        assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_GO);
        cw_restart(&w, NULL);
        while (w.c->nodes[0].state != HSP_NODE_DEAD) {
            w.now += 500;
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        cw_say_hello(&w, 2, (struct hsp_m_hello){.node = "n0"});
        w.ticket = 0;
        for (hsp_msec until = w.now + 3u * w.c->cfg.state_wait_ms; w.now < until; w.now += 500) {
            cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
            if (w.find_job != 0) {
                cw_ckpts(&w, NULL, 0, marked ? "" : "n0: nothing shows that the job began there");
            }
        }
        const struct hsp_job *j = cw_job(&w, 1);
        assert_int_equal(w.ticket, 0);
        assert_int_equal(j->state, marked ? HSP_JOB_FAILED : HSP_JOB_PAUSED);
        assert_non_null(strstr(j->reason, marked ? "cancel, then resume --from 0, starts again"
                                                 : "hspmdctl cancel j, then resume j --from 0"));
        assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
        assert_int_equal(wc_resume_from(&w, 0), HSP_OK);
        for (uint32_t i = 0; i < 2 && w.find_job != 0; i++) {
            cw_ckpts(&w, NULL, 0, "");
        }
        assert_true(w.ticket != 0 && w.n_asked == 1);
        cw_end(&w);
    }
}

HSP_TEST_FILE(restart_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_as_its_first_epoch_goes),
        cmocka_unit_test(a_job_that_was_heard_begins_anew),
        cmocka_unit_test(who_joined_since_is_no_witness),
        cmocka_unit_test(who_goes_in_the_moment_is_waited_for),
        cmocka_unit_test(who_is_let_go_deletes_what_was_given_up),
        cmocka_unit_test(each_layout_needs_a_witness),
        cmocka_unit_test(half_of_a_version_nobody_told),
        cmocka_unit_test(what_has_gone_is_waited_for),
        cmocka_unit_test(and_by_another_process_too),
        cmocka_unit_test(a_recovery_under_way_begins_again),
        cmocka_unit_test(who_is_told_later_to_seal_has_its_time),
        cmocka_unit_test(checkpoints_of_an_epoch_that_was_lost_unheard),
        cmocka_unit_test(what_gets_ready_for_nobody_is_dropped),
        cmocka_unit_test(leases_given_up_are_not_stored),
        cmocka_unit_test(jobs_stay_in_the_order_they_were_submitted_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
