/* Tests replica holders, the nodes that keep the state of a job that stands on too few nodes: how
 * they come, go and refuse. */
#include "tests/unit/daemon/cluster/keepers_world.h"

#include <stdio.h>

#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/replica_holders.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/spread.h"
#include "proto/base/size.h"

/* The running epoch has n replica holders, the first on device @d. */
static void assert_keeps(const struct cw_world *w, uint32_t id, uint32_t n, hsp_device_id d)
{
    const struct hsp_cl_epoch *e = &cw_job(w, id)->cur;
    assert_int_equal(e->n_replica_holders, n);
    assert_true(n == 0 || e->peers[1].device == d);
    assert_int_equal(e->n_peers >= 1 + n, 1);
}

static void assert_nodes(const struct cw_world *w, uint32_t id, uint32_t n)
{
    struct hsp_spread s;
    assert_true(hsp_cluster_spread(w->c, cw_job(w, id), &s));
    assert_int_equal(s.min_nodes, n);
}

/* The order against its definition, on random lists. */
static void choice(void **state)
{
    (void)state;
    uint64_t k = 0;
    for (uint32_t round = 0; round < 5000; round++) {
        struct hsp_replica_holder_node a[6], b[6];
        uint32_t n = (uint32_t)(hsp_test_rand("c", k++) % 7), want = 1 + round % 3;
        for (uint32_t i = 0; i < n; i++, k += 4) {
            a[i] = (struct hsp_replica_holder_node){.node = i,
                                                    .mine = hsp_test_rand("c", k) % 4 == 0,
                                                    .up = hsp_test_rand("c", k + 1) % 3 != 0,
                                                    .kept = hsp_test_rand("c", k + 2) % 3,
                                                    .room = hsp_test_rand("c", k + 3) % 3};
            b[n - 1 - i] = a[i]; /* the order they come in does not matter */
        }
        uint32_t got = hsp_replica_holders_order(a, n, want, 1), fit = 0;
        for (uint32_t i = 0; i < n; i++) {
            fit += a[i].mine || a[i].room >= 1;
        }
        assert_int_equal(got, fit < want ? fit : want);
        assert_int_equal(hsp_replica_holders_order(b, n, want, 1), got);
        for (uint32_t i = 0; i < got; i++) {
            assert_int_equal(a[i].node, b[i].node);
            assert_true(a[i].mine || a[i].room >= 1);
        }
        for (uint32_t i = 0; i < got; i++) { /* nobody behind is better */
            for (uint32_t j = i + 1; j < fit; j++) {
                uint64_t x = (uint64_t)!a[i].mine << 40 | (uint64_t)!a[i].up << 32 |
                             a[i].kept << 16 | a[i].node;
                uint64_t y = (uint64_t)!a[j].mine << 40 | (uint64_t)!a[j].up << 32 |
                             a[j].kept << 16 | a[j].node;
                assert_true(x < y);
            }
        }
    }
}

/* A job that waits is told the holders of the devices that it needs: replica holders are none of
 * these. */
static void replica_holders_are_not_had(void **state)
{
    (void)state;
    struct cw_world w;
    kw_begin(&w, 3, 2);
    kw_submit(&w, "a", 2);
    kw_run(&w, 1, 0);
    assert_keeps(&w, 1, 1, HSP_DEVICE(1, 1));
    assert_int_equal(cw_submit(&w, "big", 0, 3, 3), HSP_OK);
    assert_string_equal(cw_job(&w, 2)->reason,
                        "waits for 3 devices; 2 of 3 can be used (job a has 1); devices become "
                        "free when a job ends or is scaled down");
    cw_end(&w);
}

static void beside_other_jobs(void **state)
{
    (void)state;
    struct cw_world w;
    kw_begin(&w, 3, 2);
    kw_submit(&w, "a", 2);
    const struct hsp_cl_epoch *e = &cw_job(&w, 1)->att;
    assert_int_equal(e->n_ranks, 1);
    assert_int_equal(e->n_replica_holders, 1);
    assert_int_equal(e->peers[1].device, HSP_DEVICE(1, 1));
    uint32_t prepares = 0;
    for (uint32_t i = 0; i < w.a.n; i++) {
        if (w.a.item[i].type == HSP_ACT_PREPARE) {
            assert_int_equal(w.a.item[i].msg->u.prepare.n_keepers, 1);
            assert_int_equal(w.a.item[i].u.prepare->n_replica_holders, 1);
            prepares++;
        }
    }
    assert_int_equal(prepares, 2);
    kw_run(&w, 1, 0);
    assert_keeps(&w, 1, 1, HSP_DEVICE(1, 1));
    assert_nodes(&w, 1, 2);
    /* the node that keeps is free for another job; that one is kept where the least is kept */
    assert_int_equal(hsp_ci_device(w.c, HSP_DEVICE(1, 0))->job, 0);
    kw_submit(&w, "b", 3);
    assert_int_equal(w.asked[0], HSP_DEVICE(1, 0));
    kw_run(&w, 2, 0);
    assert_keeps(&w, 2, 2, HSP_DEVICE(0, 1));
    assert_int_equal(cw_job(&w, 2)->cur.peers[2].device, HSP_DEVICE(2, 1));
    assert_nodes(&w, 2, 3);
    kw_submit(&w, "c", 2);
    assert_int_equal(w.asked[0], HSP_DEVICE(2, 0));
    kw_run(&w, 3, 0);
    assert_keeps(&w, 3, 1, HSP_DEVICE(0, 2));
    assert_int_equal(cw_job(&w, 1)->cur.epoch, 1); /* nobody was disturbed */
    cw_end(&w);
}

/* A replica holder was given room when its agent began; the free bytes of the folder now count as
 * well. */
static void what_is_free_now_counts(void **state)
{
    (void)state;
    for (int full = 0; full < 2; full++) {
        struct cw_world w;
        kw_begin(&w, 3, 1);
        kw_msg(
            &w, 1,
            (struct hsp_msg){.type = HSP_MSG_HEARTBEAT,
                             .u.beat = {.seq = 1, .folder_free = full ? KW_BYTES - 1 : KW_BYTES}});
        kw_submit(&w, "a", 2);
        assert_int_equal(cw_job(&w, 1)->att.peers[1].device, HSP_DEVICE(full ? 2 : 1, 1));
        cw_end(&w);
    }
}

static void room_and_refusal(void **state)
{
    (void)state;
    struct cw_world w;
    kw_begin(&w, 2, 1);
    kw_hello(&w, 2, 1, KW_BYTES - 1); /* too small */
    kw_submit(&w, "a", 2);
    assert_int_equal(cw_job(&w, 1)->att.peers[1].device, HSP_DEVICE(1, 1));
    /* the only one that fits cannot: the job begins without, and nothing counts as a failure */
    kw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = 1,
                            .u.failed = {.job = 1,
                                         .device = 1,
                                         .fact = HSP_FACT_OUT_OF_MEMORY,
                                         .peer = HSP_MSG_RANKS,
                                         .reason = "no space"}});
    kw_plan(&w, 2);
    assert_int_equal(cw_job(&w, 1)->failures, 0);
    assert_int_equal(cw_job(&w, 1)->n_facts, 0);
    assert_int_equal(cw_job(&w, 1)->att.n_replica_holders, 0);
    kw_run(&w, 1, 0);
    assert_nodes(&w, 1, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    /* a while later it is asked again */
    assert_true(hsp_cluster_deadline(w.c) <= 31000);
    hsp_msec until = w.now + 30000;
    while (w.now < until) {
        w.now += 1000;
        for (uint32_t i = 0; i < 3; i++) {
            kw_msg(&w, i, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
    }
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SWITCHING);
    assert_int_equal(cw_job(&w, 1)->att.peers[1].device, HSP_DEVICE(1, 1));
    kw_run(&w, 1, 7);
    assert_nodes(&w, 1, 2);
    cw_end(&w);
}

/* A job runs on n0, whose folder is full, and n1 could keep a copy: in a new layout, for which n0
 * has no room. The layout is tried again after longer and longer. */
static void a_rank_that_cannot_prepare(void **state)
{
    (void)state;
    static const hsp_msec pause[] = {0, 1000, 2000, 4000};
    struct cw_world w;
    kw_begin(&w, 1, 1);
    kw_submit(&w, "a", 2);
    kw_run(&w, 1, 0);
    assert_nodes(&w, 1, 1);
    kw_hello_replica_holder(&w, 1);
    const struct hsp_job *j = cw_job(&w, 1);
    for (size_t k = 0; k < sizeof pause / sizeof pause[0]; k++) {
        assert_int_equal(j->state, HSP_JOB_SWITCHING);
        kw_msg(&w, 0,
               (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                                .epoch = j->att.epoch,
                                .u.failed = {.job = 1,
                                             .fact = HSP_FACT_STATE_FOLDER,
                                             .peer = HSP_MSG_RANKS,
                                             .reason = "no space"}});
        for (hsp_msec end = w.now + pause[k]; w.now < end;) {
            assert_int_equal(j->state, HSP_JOB_RUNNING);
            w.now += 500;
            kw_msg(&w, 0, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            kw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
    }
    assert_int_equal(j->failures, 0);
    cw_end(&w);
}

/* Another layout lies beside the one that runs for a while. Where a rank, or a replica holder that
 * stays, has no room for it, no switch begins, and the job says so; it does when there is room. */
static void another_layout_needs_room(void **state)
{
    (void)state;
    for (uint32_t full = 0; full < 2; full++) {
        struct cw_world w;
        kw_begin(&w, 1, 1);
        kw_submit(&w, "a", 3);
        kw_run(&w, 1, 0);
        kw_hello_replica_holder(&w, 1);
        kw_run(&w, 1, 5);
        assert_keeps(&w, 1, 1, HSP_DEVICE(1, 0));
        const struct hsp_job *j = cw_job(&w, 1);
        struct hsp_msg beat = {.type = HSP_MSG_HEARTBEAT, .u.beat = {.folder_free = KW_BYTES - 1}};
        kw_msg(&w, full, beat);
        kw_hello_replica_holder(&w, 2);
        for (hsp_msec end = w.now + 40000; w.now < end; w.now += 1000) {
            assert_int_equal(j->state, HSP_JOB_RUNNING);
            assert_string_equal(
                j->reason, full == 0 ? "n2/0 can store a copy: cannot be done: the state folder of "
                                       "n0 has no room for another 0.001 MB, which a switch takes: "
                                       "make room there, or mount it with a greater size"
                                     : "n2/0 can store a copy: cannot be done: the state folder of "
                                       "n1 has no room for another 0.001 MB, which a switch takes: "
                                       "make room there, or mount it with a greater size");
            for (uint32_t i = 0; i < 3; i++) {
                kw_msg(&w, i, i == full ? beat : (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            }
        }
        assert_int_equal(j->failures, 0);
        beat.u.beat.folder_free = KW_BYTES;
        for (hsp_msec end = w.now + 61000; w.now < end && j->state == HSP_JOB_RUNNING;) {
            for (uint32_t i = 0; i < 3; i++) {
                kw_msg(&w, i, i == full ? beat : (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            }
            w.now += 1000;
        }
        assert_int_equal(j->state, HSP_JOB_SWITCHING);
        kw_run(&w, 1, 9);
        assert_keeps(&w, 1, 2, HSP_DEVICE(1, 0));
        cw_end(&w);
    }
}

/* A replica holder that does not get ready in time: as one that cannot. The planner is told nothing
 * of it. */
static void late(void **state)
{
    (void)state;
    struct cw_world w;
    kw_begin(&w, 2, 1);
    kw_submit(&w, "a", 2);
    assert_int_equal(cw_job(&w, 1)->att.peers[1].device, HSP_DEVICE(1, 1));
    kw_msg(&w, 0, (struct hsp_msg){.type = HSP_MSG_READY, .epoch = 1, .u.ready = {.job = 1}});
    for (hsp_msec until = cw_job(&w, 1)->att.deadline_ms; w.now < until;) {
        assert_int_equal(cw_job(&w, 1)->att.epoch, 1);
        w.now += 500;
        kw_msg(&w, 0, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        kw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    }
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(cw_job(&w, 1)->att.epoch, 0);
    kw_plan(&w, 2);
    assert_int_equal(cw_job(&w, 1)->failures, 0);
    assert_int_equal(cw_job(&w, 1)->n_facts, 0);
    assert_int_equal(cw_job(&w, 1)->att.n_replica_holders, 0);
    kw_run(&w, 1, 0);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_end(&w);
}

static void drain(struct cw_world *w, const char *node)
{
    cw_step(w, (struct hsp_event){
                   .type = HSP_EV_ADMIN,
                   .u.admin = {.verb = HSP_ADMIN_DRAIN, .node = node, .reason = "maintenance"}});
}

static void comes_and_is_drained(void **state)
{
    (void)state;
    struct cw_world w;
    kw_begin(&w, 1, 1);
    kw_submit(&w, "a", 2);
    kw_run(&w, 1, 0);
    assert_keeps(&w, 1, 0, 0);
    assert_nodes(&w, 1, 1);
    kw_hello(&w, 1, 1, 0);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_SWITCHING);
    assert_int_equal(w.n_copied, 1);
    assert_int_equal(j->att.mode, HSP_MODE_SWITCH);
    assert_int_equal(j->att.from_plan, 1);
    assert_int_equal(j->att.plan, 2);
    assert_int_equal(j->att.n_replica_holders, 1);
    kw_run(&w, 1, 5);
    assert_keeps(&w, 1, 1, HSP_DEVICE(1, 1));
    assert_nodes(&w, 1, 2);
    assert_int_equal(j->n_plans, 1);
    /* one more than needed changes nothing */
    kw_hello(&w, 2, 1, 0);
    assert_int_equal(j->state, HSP_JOB_RUNNING);
    /* drained: another takes over, and the old one is told so as a source without rows */
    drain(&w, "n1");
    assert_int_equal(j->state, HSP_JOB_SWITCHING);
    assert_int_equal(j->att.n_peers, 3);
    assert_int_equal(j->att.peers[1].device, HSP_DEVICE(2, 1));
    assert_int_equal(j->att.peers[2].device, HSP_DEVICE(1, 1));
    assert_int_equal(j->att.n_sources, 1);
    kw_run(&w, 1, 9);
    assert_keeps(&w, 1, 1, HSP_DEVICE(2, 1));
    assert_int_equal(hsp_ci_device(w.c, HSP_DEVICE(1, 1))->job, 0);
    assert_true(w.c->nodes[1].drained_told);
    cw_end(&w);
}

/* The state of a job goes to no node that was not allowed to have it, however much it offers. */
static void only_where_it_is_allowed(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 0, 0);
    kw_joins(&w, 0, 1, 0);
    kw_joins(&w, 1, 1, 0);
    kw_submit(&w, "a", 2);
    kw_run(&w, 1, 0);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_keeps(&w, 1, 0, 0);
    kw_joins(&w, 2, 1, 0);
    assert_int_equal(j->state, HSP_JOB_RUNNING);
    cw_restart(&w, NULL);
    cw_hello_running(&w, 1, "n0", w.c->nodes[0].incarnation, 1, 1);
    assert_false(w.c->nodes[1].holder);
    cw_let_go(&w, 1, 1);
    kw_joins(&w, 1, 1, 0);
    kw_joins(&w, 2, 1, 0);
    kw_allow(&w, 2, true);
    assert_string_equal(cw_fact(&w, "admin.allow"), "to store copies of state");
    j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_SWITCHING);
    assert_string_equal(j->cause, "n2/1 can store a copy");
    kw_run(&w, 1, 3);
    assert_keeps(&w, 1, 1, HSP_DEVICE(2, 1));
    kw_allow(&w, 1, true); /* one more than needed */
    assert_int_equal(j->state, HSP_JOB_RUNNING);
    kw_allow(&w, 2, false);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "its copies move to another allowed node that has room");
    assert_int_equal(j->state, HSP_JOB_SWITCHING);
    assert_string_equal(j->cause, "deny of n2/1, which stores a copy");
    kw_run(&w, 1, 5);
    assert_keeps(&w, 1, 1, HSP_DEVICE(1, 1));
    assert_string_equal(hsp_cluster_not_allowed(w.c, j), "n2");
    kw_allow(&w, 1, false);
    assert_non_null(
        strstr(cw_find(&w, HSP_ACT_REPLY)->text,
               "its copies are deleted, for no other node that may store copies is free"));
    kw_run(&w, 1, 8);
    assert_keeps(&w, 1, 0, 0);
    kw_allow(&w, 0, false); /* whose loss is spoken of: a copy beside the state is none */
    assert_string_equal(hsp_cluster_not_allowed(w.c, j), "n1");
    kw_allow(&w, 1, true);
    kw_allow(&w, 2, true);
    assert_null(hsp_cluster_not_allowed(w.c, j));
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "jobs that lack a copy get one there, without losing a step");
    cw_end(&w);
}

/* The node need not be known: the word of the administrator is there first, and over restarts. */
static void allowed_before_it_joins(void **state)
{
    (void)state;
    struct cw_world w;
    kw_begin(&w, 1, 1);
    kw_allow(&w, 5, true);
    assert_int_equal(w.c->n_nodes, 2);
    assert_string_equal(w.c->nodes[1].reason, "has not joined yet");
    assert_non_null(strstr(
        cw_find(&w, HSP_ACT_REPLY)->text,
        "no node of that name has joined yet: the setting is stored until hspmdctl node remove "));
    kw_allow(&w, 0, true);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "jobs that lack a copy get one there, without losing a step");
    kw_allow(&w, 0, false);
    cw_restart(&w, NULL);
    assert_true(w.c->nodes[1].holder && w.c->nodes[1].state == HSP_NODE_LEFT);
    kw_hello(&w, 0, 1, 0);
    assert_int_equal(w.c->nodes[0].state, HSP_NODE_LIVE);
    kw_submit(&w, "a", 2);
    kw_run(&w, 1, 0);
    kw_joins(&w, 5, 1, 0);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SWITCHING);
    assert_int_equal(w.c->nodes[1].incarnation, 3);
    assert_string_equal(w.c->nodes[1].reason, "");
    struct hsp_admin_event a = {.verb = HSP_ADMIN_ALLOW, .node = "No Name"};
    assert_int_equal(cw_admin(&w, a), HSP_EINVAL);
    a = (struct hsp_admin_event){.verb = HSP_ADMIN_DENY, .node = "n9"};
    assert_int_equal(cw_admin(&w, a), HSP_ENOENT);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "no node n9; hspmdctl node list shows all");
    cw_end(&w);
}

/* The layout to which the job wants to move cannot be had, or not be planned: its present state is
 * kept all the same. */
static void kept_though_it_cannot_move(void **state)
{
    (void)state;
    for (int planned = 0; planned < 2; planned++) {
        struct cw_world w;
        kw_begin(&w, 1, 1);
        kw_submit(&w, "a", 2);
        kw_run(&w, 1, 0);
        drain(&w, "n0");
        const struct hsp_job *j = cw_job(&w, 1);
        assert_int_equal(j->state, HSP_JOB_RUNNING);
        assert_non_null(strstr(j->reason, "needs 1 device; no node offers any"));
        hsp_device_id replica_holder = planned == 0 ? HSP_DEVICE(1, 0) : HSP_DEVICE(1, 1);
        if (planned == 0) {
            kw_hello_replica_holder(&w, 1);
        } else {
            kw_hello(&w, 1, 1, 0);
            assert_int_equal(w.asked[0], HSP_DEVICE(1, 0));
            cw_step(&w, (struct hsp_event){
                            .type = HSP_EV_PLAN_DONE,
                            .u.plan = {.job = 1, .ticket = w.ticket, .status = HSP_ENOSPC}});
        }
        assert_int_equal(j->state, HSP_JOB_SWITCHING);
        assert_int_equal(j->att.peers[1].device, replica_holder);
        kw_run(&w, 1, 5);
        assert_keeps(&w, 1, 1, replica_holder);
        assert_nodes(&w, 1, 2);
        cw_end(&w);
    }
}

static void a_replica_holder_dies(void **state)
{
    (void)state;
    struct cw_world w;
    kw_begin(&w, 3, 1);
    kw_submit(&w, "a", 2);
    kw_run(&w, 1, 0);
    kw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_EXECUTOR_DEAD,
                            .u.dead = {.device = 1, .restart_ms = 0, .reason = "signal 9"}});
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    struct hsp_m_holding own = {1, 0, 1, 0, 0, 4}, kept = {1, 1, 1, 1, 0, 4};
    kw_sealed(&w, 0, &own, 1);
    kw_sealed(&w, 1, &kept, 1);
    /* the replica holder comes back soon: the same layout goes on with it */
    assert_int_equal(cw_job(&w, 1)->att.plan, 1);
    assert_int_equal(cw_job(&w, 1)->att.step, 4);
    assert_int_equal(cw_job(&w, 1)->att.n_sources, 2);
    kw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.device = 1, .address = "y"}});
    kw_run(&w, 1, 4);
    /* now with its node: another layout, from the old one, with another replica holder */
    kw_msg(&w, 0,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = cw_job(&w, 1)->cur.epoch,
                            .u.lost = {.job = 1, .peer = 1, .reason = "closed"}});
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    own.version = 6;
    kw_sealed(&w, 0, &own, 1);
    assert_int_equal(cw_job(&w, 1)->att.from_plan, 1);
    assert_true(cw_job(&w, 1)->att.plan > 1);
    assert_int_equal(cw_job(&w, 1)->att.step, 6);
    assert_int_equal(cw_job(&w, 1)->att.peers[1].device, HSP_DEVICE(2, 1));
    kw_run(&w, 1, 6);
    assert_nodes(&w, 1, 2);
    cw_end(&w);
}

static void the_trainer_dies(void **state)
{
    (void)state;
    struct cw_world w;
    kw_begin(&w, 3, 1);
    kw_submit(&w, "a", 2);
    kw_run(&w, 1, 0);
    /* a replica holder says it where the trainer may not have come to; a node that is no member has
     * no say */
    struct hsp_msg said = {.type = HSP_MSG_STEP, .epoch = 1, .u.step = {.job = 1, .step = 6}};
    kw_msg(&w, 2, said);
    assert_null(cw_find(&w, HSP_ACT_METRIC));
    kw_msg(&w, 1, said);
    assert_non_null(cw_find(&w, HSP_ACT_METRIC));
    kw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = 1,
                            .u.lost = {.job = 1, .device = 1, .peer = 0, .reason = "closed"}});
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n0")->state, HSP_NODE_DEAD);
    kw_plan(&w, 2); /* asked while the nodes seal */
    struct hsp_m_holding kept[2] = {{1, 1, 1, 1, 0, 7}, {1, 1, 1, 1, 0, 6}};
    kw_sealed(&w, 1, kept, 2);
    const struct hsp_cl_epoch *e = &cw_job(&w, 1)->att;
    assert_int_equal(e->mode, HSP_MODE_RECOVER);
    assert_int_equal(e->step, 7);
    assert_int_equal(e->from_plan, 1);
    assert_int_equal(e->peers[0].device, HSP_DEVICE(1, 0));
    assert_int_equal(e->n_replica_holders, 1);
    assert_int_equal(e->peers[1].device, HSP_DEVICE(2, 1));
    assert_int_equal(e->peers[2].device, HSP_DEVICE(1, 1)); /* whose copy it is */
    assert_int_equal(e->n_sources, 1);
    assert_int_equal(e->sources[0].peer, 2);
    assert_int_equal(e->sources[0].holder, 1);
    assert_int_equal(e->sources[0].owner, 0);
    kw_run(&w, 1, 7);
    assert_nodes(&w, 1, 2);
    /* its copies are released */
    assert_int_equal(hsp_ci_device(w.c, HSP_DEVICE(1, 1))->job, 0);
    cw_end(&w);
}

static void survives_a_restart(void **state)
{
    (void)state;
    struct cw_world w;
    kw_begin(&w, 3, 1);
    kw_submit(&w, "a", 3);
    kw_run(&w, 1, 0);
    cw_restart(&w, NULL);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_RUNNING);
    assert_int_equal(j->cur.n_replica_holders, 2);
    assert_int_equal(j->cur.peers[2].device, HSP_DEVICE(2, 1));
    assert_int_equal(j->plans[0].info.n_spare, 2);
    assert_int_equal(j->plans[0].info.keep_bytes, KW_BYTES);
    assert_int_equal(j->plans[0].info.replica_holder[1], HSP_DEVICE(2, 1));
    assert_int_equal(hsp_ci_device(w.c, HSP_DEVICE(1, 1))->job, 1);
    struct hsp_buf b;
    cw_text(&w, &b);
    assert_non_null(strstr(hsp_buf_cstr(&b), "replica holder 1/1"));
    hsp_buf_fini(&b);
    cw_end(&w);
}

HSP_TEST_FILE(replica_holders_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choice),
        cmocka_unit_test(replica_holders_are_not_had),
        cmocka_unit_test(beside_other_jobs),
        cmocka_unit_test(what_is_free_now_counts),
        cmocka_unit_test(room_and_refusal),
        cmocka_unit_test(a_rank_that_cannot_prepare),
        cmocka_unit_test(another_layout_needs_room),
        cmocka_unit_test(late),
        cmocka_unit_test(comes_and_is_drained),
        cmocka_unit_test(only_where_it_is_allowed),
        cmocka_unit_test(allowed_before_it_joins),
        cmocka_unit_test(kept_though_it_cannot_move),
        cmocka_unit_test(a_replica_holder_dies),
        cmocka_unit_test(the_trainer_dies),
        cmocka_unit_test(survives_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
