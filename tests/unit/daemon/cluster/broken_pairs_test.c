/* Tests nodes that do not reach each other: the questions, the answers that count, the nodes left
 * out. Node k has one device, which is rank k. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/lookup.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

enum { MANY = 60 };

static const struct hsp_m_reach *asked(const struct cw_world *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type == HSP_ACT_SEND && a->conn == node + 1 && a->msg->type == HSP_MSG_REACH) {
            return &a->msg->u.reach;
        }
    }
    return NULL;
}

/* The nodes of a round, ascending, but @node: its targets. */
static void answer(struct cw_world *w, uint32_t node, uint32_t n, const uint32_t *target,
                   bool refused)
{
    struct hsp_m_deaf deaf[MANY];
    for (uint32_t i = 0; i < n; i++) {
        deaf[i] = (struct hsp_m_deaf){target[i], refused};
    }
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_REACHED,
                            .u.reached = {.round = w->c->next_round, .n_deaf = n, .deaf = deaf}});
}

static void hears(struct cw_world *w, uint32_t node)
{
    answer(w, node, 0, NULL, false);
}

static void deaf_to(struct cw_world *w, uint32_t node, uint32_t target)
{
    answer(w, node, 1, &target, false);
}

/* @node tells that ranks @by and @peer have fallen silent to each other. */
static void silence(struct cw_world *w, uint32_t node, uint32_t by, uint32_t peer)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){
               .type = HSP_MSG_PEER_LOST,
               .epoch = cw_job(w, 1)->cur.epoch,
               .u.lost = {.job = 1, .peer = peer, .by = by, .silent = true, .reason = "silent"}});
}

static void tick(struct cw_world *w, uint32_t ms)
{
    for (uint32_t i = 0; i < w->c->n_nodes; i++) {
        if (w->c->nodes[i].conn != 0) {
            cw_msg(w, w->c->nodes[i].conn, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
    }
    w->now += ms;
    cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
}

/* Each shard is held by one rank. */
static void split_plan(struct cw_world *w)
{
    uint64_t mem[8] = {0};
    double compute[8];
    uint32_t first[9];
    struct hsp_piece_holder pieces[8];
    for (uint32_t i = 0; i <= w->n_asked; i++) {
        first[i] = i;
    }
    for (uint32_t i = 0; i < w->n_asked; i++) {
        compute[i] = 1;
        pieces[i] = (struct hsp_piece_holder){i, i};
    }
    struct hsp_plan_info info = {.n_ranks = w->n_asked,
                                 .device = w->asked,
                                 .mem_bytes = mem,
                                 .compute_s = compute,
                                 .n_shards = w->n_asked,
                                 .shard_first = first,
                                 .pieces = pieces};
    cw_step(w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                  .u.plan = {.job = 1, .ticket = w->ticket, .info = &info}});
}

static void assert_asked(const struct cw_world *w, uint32_t n, const uint32_t *node)
{
    assert_int_equal(cw_job(w, 1)->ticket, w->ticket);
    assert_int_equal(w->n_asked, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(w->asked[i], HSP_DEVICE(node[i], 0));
    }
}

static void lose(struct cw_world *w, uint32_t n_nodes)
{
    cw_begin(w, n_nodes, 1);
    cw_run_job(w, n_nodes);
    silence(w, 0, 0, 1);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_SEALING);
}

/* ---- rounds ---- */

static void a_silent_pair_is_measured(void **state)
{
    (void)state;
    struct cw_world w;
    lose(&w, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(asked(&w, i)->n_targets, 2);
    }
    for (uint32_t i = 0; i < 3; i++) {
        cw_sealed(&w, i, 1, 4);
    }
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RECOVERING);
    silence(&w, 1, 1, 0); /* the other end, late */
    assert_int_equal(cw_count_sent(&w, HSP_MSG_REACH), 0);
    hears(&w, 2);
    deaf_to(&w, 0, 0);
    assert_null(cw_find(&w, HSP_ACT_START_PLAN)); /* not before all is known */
    deaf_to(&w, 1, 0);
    assert_string_equal(cw_fact(&w, "link.broken"),
                        "n0 and n1 cannot reach each other: neither answers calls of the other; "
                        "jobs use only one of them, and their connection is tried every 5 s");
    assert_asked(&w, 2, (uint32_t[]){0, 2});
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.n_peers, 2); /* nor is n1 a source: n0 and n2 have all */
    assert_int_equal(cw_job(&w, 1)->att.n_apart, 0);
    cw_end(&w);
}

/* Both ends and a third one tell of one loss: one round. */
static void one_loss_is_one_round(void **state)
{
    (void)state;
    struct cw_world w;
    lose(&w, 3);
    silence(&w, 2, 0, 1);
    silence(&w, 1, 1, 0);
    for (uint32_t i = 0; i < 3; i++) {
        cw_sealed(&w, i, 1, 4);
    }
    hears(&w, 2);
    deaf_to(&w, 0, 0);
    deaf_to(&w, 1, 0);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_REACH), 0);
    assert_int_equal(cw_job(&w, 1)->round, 0);
    assert_asked(&w, 2, (uint32_t[]){0, 2});
    cw_end(&w);
}

static void a_third_one_tells_first(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    cw_run_job(&w, 3);
    silence(&w, 2, 0, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_REACH), 3);
    for (uint32_t i = 0; i < 3; i++) {
        cw_sealed(&w, i, 1, 4);
    }
    answer(&w, 0, 1, (uint32_t[]){0}, true);
    hears(&w, 1);
    hears(&w, 2);
    assert_non_null(strstr(cw_fact(&w, "link.broken"), ": n1 refuses calls of n0; "));
    assert_asked(&w, 2, (uint32_t[]){0, 2});
    cw_end(&w);
}

/* Also when another has ended the attempt; and news about a known pair is old. */
static void who_cannot_connect_tells_it(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    cw_plan(&w, 1);
    struct hsp_msg m = {.type = HSP_MSG_PREPARE_FAILED,
                        .epoch = 1,
                        .u.failed = {.job = 1,
                                     .fact = HSP_FACT_OTHER,
                                     .peer = HSP_MSG_RANKS,
                                     .by = HSP_MSG_RANKS,
                                     .reason = "it was told to stop"}};
    cw_msg(&w, 3, m);
    assert_int_equal(cw_job(&w, 1)->att.epoch, 0);
    m.u.failed.fact = HSP_FACT_CANNOT_CONNECT;
    m.u.failed.peer = 0;
    m.u.failed.by = 1;
    m.u.failed.silent = true;
    cw_msg(&w, 2, m);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_REACH), 3);
    hears(&w, 2);
    deaf_to(&w, 1, 0);
    deaf_to(&w, 0, 0);
    assert_int_equal(w.c->n_broken, 1);
    m.u.failed.by = 0;
    m.u.failed.peer = 1;
    cw_msg(&w, 1, m);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_REACH), 0);
    cw_end(&w);
}

static void answered_calls_count_once(void **state)
{
    (void)state;
    struct cw_world w;
    for (uint32_t late = 0; late < 2; late++) {
        lose(&w, 2);
        for (uint32_t again = 0; again < 2; again++) {
            for (uint32_t i = 0; i < 2; i++) {
                cw_sealed(&w, i, 1, 4);
            }
            hears(&w, 0);
            hears(&w, 1);
            if (again == 1) {
                break;
            }
            assert_int_equal(w.c->n_broken, 0); /* something else held them up */
            cw_plan(&w, 1);
            wc_begins(&w, 4);
            for (uint32_t s = 0; late == 1 && s < 61; s++) {
                tick(&w, 1000);
            }
            silence(&w, 1, 1, 0);
            silence(&w, 0, 0, 1); /* one loss, however many tell of it */
        }
        assert_int_equal(w.c->n_broken, 1 - late);
        cw_end(&w);
    }
}

/* An executor that has begun anew meanwhile is refused by right. */
static void another_executor_since(void **state)
{
    (void)state;
    struct cw_world w;
    lose(&w, 3);
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_EXECUTOR_DEAD,
                            .u.dead = {.restart_ms = 0, .reason = "signal 9"}});
    cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "y"}});
    answer(&w, 0, 1, (uint32_t[]){0}, true);
    hears(&w, 1);
    hears(&w, 2);
    assert_int_equal(w.c->n_broken, 0);
    assert_int_equal(cw_job(&w, 1)->round, 0);
    cw_end(&w);
}

/* The death of the node is the cause then, and nobody waits for more. */
static void a_node_that_dies_explains_it(void **state)
{
    (void)state;
    struct cw_world w;
    lose(&w, 3);
    cw_sealed(&w, 0, 1, 4);
    cw_sealed(&w, 2, 1, 4);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    cw_hello(&w, 9, "n1", 0, 1);
    assert_int_equal(cw_job(&w, 1)->round, 0);
    assert_int_equal(w.c->n_pairs, 0);
    cw_end(&w);
}

static void nobody_answers(void **state)
{
    (void)state;
    struct cw_world w;
    lose(&w, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cw_sealed(&w, i, 1, 4);
    }
    answer(&w, 1, 0, NULL, false); /* of two others it is known that they reach each other */
    w.c->next_round++;             /* and an answer to nothing */
    deaf_to(&w, 0, 1);
    w.c->next_round--;
    tick(&w, 999);
    assert_int_not_equal(cw_job(&w, 1)->round, 0);
    tick(&w, 1);
    assert_int_equal(w.c->n_broken, 0); /* n1 has reached n0 */
    assert_int_equal(cw_job(&w, 1)->att.n_ranks, 3);
    cw_end(&w);

    lose(&w, 3);
    tick(&w, 1000);
    assert_non_null(strstr(cw_fact(&w, "link.broken"),
                           "reach each other: executors fell silent to each other"));
    cw_end(&w);
}

/* Every 5 s; every 10 s when it breaks again soon. */
static void until_it_is_mended(void **state)
{
    (void)state;
    struct cw_world w;
    lose(&w, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cw_sealed(&w, i, 1, 4);
    }
    hears(&w, 2);
    for (uint32_t k = 0; k < 3; k++) {
        deaf_to(&w, 0, 0);
        deaf_to(&w, 1, 0);
        assert_int_equal(w.c->n_broken, 1);
        tick(&w, 2500);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_REACH), 0);
        tick(&w, 2500);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_REACH), 2);
        assert_int_equal(asked(&w, 1)->n_targets, 1);
    }
    hears(&w, 0);
    hears(&w, 1);
    assert_string_equal(cw_fact(&w, "link.mended"), "n0 and n1 reach each other again");
    assert_int_equal(w.c->n_broken, 0);
    assert_int_equal(cw_job(&w, 1)->att.n_ranks, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(&w, 1, i, 5);
    }
    cw_pass(&w, 1, 4, cw_even, 3);
    cw_let_go(&w, 1, 3);
    silence(&w, 1, 1, 0);
    hears(&w, 2);
    deaf_to(&w, 0, 0);
    deaf_to(&w, 1, 0);
    assert_non_null(strstr(cw_fact(&w, "link.broken"), "tried every 10 s"));
    cw_end(&w);
}

/* ---- nodes that are left out ---- */

static void broken(struct cw_world *w, uint32_t n, const uint32_t (*pair)[2])
{
    uint32_t all = w->c->n_nodes;
    for (uint32_t a = 0; a < all; a++) {
        uint32_t target[8] = {0}, k = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (pair[i][0] == a || pair[i][1] == a) {
                uint32_t b = pair[i][0] == a ? pair[i][1] : pair[i][0];
                target[k++] = b > a ? b - 1 : b;
            }
        }
        answer(w, a, k, target, false);
    }
}

/* n1 and n2 are faster than n0 and n3 together: {n1}, {n2} or {n0, n3}. */
static void the_most_speed_is_kept(void **state)
{
    (void)state;
    static const uint32_t pair[][2] = {{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}};
    for (uint32_t fast = 1; fast <= 2; fast++) {
        struct cw_world w;
        lose(&w, 4);
        w.c->nodes[fast].dev[0].profile.gemm_fp32_flops = 3;
        for (uint32_t i = 0; i < 4; i++) {
            cw_sealed(&w, i, 1, 4);
        }
        broken(&w, 5, pair);
        assert_asked(&w, 1, &fast);
        cw_end(&w);
    }
    struct cw_world w;
    lose(&w, 4);
    for (uint32_t i = 0; i < 4; i++) {
        cw_sealed(&w, i, 1, 4);
    }
    broken(&w, 5, pair);
    assert_asked(&w, 2, (uint32_t[]){0, 3});
    cw_end(&w);
}

/* The newest state comes before speed, where it is. */
static void state_is_kept(void **state)
{
    (void)state;
    struct cw_world w;
    lose(&w, 3);
    w.c->nodes[0].dev[0].profile.gemm_fp32_flops = 9;
    cw_sealed(&w, 0, 1, 3);
    cw_sealed(&w, 1, 1, 5);
    cw_sealed(&w, 2, 1, 3);
    broken(&w, 2, (const uint32_t[][2]){{0, 1}, {1, 2}});
    assert_asked(&w, 1, (uint32_t[]){1});
    cw_end(&w);
}

/* Of two shards n0 and n1, which do not reach each other, have one each; n2 has none. n2 reaches
 * both, so the state of n1 comes by way of n2, though n0 alone is planned with, and though the
 * executor of n2 is just being started. */
static void state_comes_over_a_third(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 3; kind++) {
        uint32_t alone = kind > 0;
        bool starts = kind == 2;
        struct cw_world w;
        cw_begin(&w, 2, 1);
        assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
        split_plan(&w);
        wc_begins(&w, 0);
        silence(&w, 0, 0, 1);
        cw_hello(&w, 3, "n2", 0, 1);
        if (starts) {
            cw_msg(&w, 3,
                   (struct hsp_msg){.type = HSP_MSG_EXECUTOR_DEAD, .u.dead.reason = "exit 1"});
        }
        cw_sealed(&w, 0, 1, 4);
        cw_sealed(&w, 1, 1, 4);
        broken(&w, 1, (const uint32_t[][2]){{0, 1}});
        assert_asked(&w, 2, (uint32_t[]){0, 2});
        w.n_asked -= alone;
        split_plan(&w);
        const struct hsp_cl_epoch *e = &cw_job(&w, 1)->att;
        assert_int_equal(e->mode, HSP_MODE_RECOVER);
        assert_int_equal(e->step, 4);
        assert_int_equal(e->n_peers, 3);
        assert_int_equal(e->n_sources, 2);
        assert_int_equal(e->n_ranks, 2 - alone);
        assert_int_equal(e->peers[0].device, HSP_DEVICE(0, 0));
        assert_int_equal(e->peers[1].device, HSP_DEVICE(2 - alone, 0));
        assert_int_equal(e->n_apart, 1);
        assert_int_equal(e->apart[0].a, 0);
        assert_int_equal(e->apart[0].b, 2 - alone);
        const struct hsp_action *a = cw_find(&w, HSP_ACT_PREPARE);
        assert_true(starts ? a == NULL : a->u.prepare->n_apart == 1);
        cw_end(&w);
    }
}

/* Nobody reaches both: the state is waited for, then the job begins anew. */
static void state_that_is_cut_off(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    split_plan(&w);
    wc_begins(&w, 0);
    silence(&w, 0, 0, 1);
    cw_sealed(&w, 0, 1, 4);
    cw_sealed(&w, 1, 1, 4);
    broken(&w, 1, (const uint32_t[][2]){{0, 1}});
    assert_null(cw_find(&w, HSP_ACT_START_PLAN));
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
    assert_string_equal(cw_job(&w, 1)->reason,
                        "version 4 of the state is not complete on the connected nodes; n1 is left "
                        "out, as it cannot reach other nodes of the job: waiting for more, for up "
                        "to 60 s, then it fails, as it has no checkpoint");
    cw_end(&w);
}

/* n2 joins n0 and n1, and does not reach n0: n0, n2 and n1 call each other, in this order. */
static void joins_in_vain(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    cw_run_job(w, 2);
    cw_hello(w, 3, "n2", 0, 1);
    w->c->nodes[2].dev[0].profile.gemm_fp32_flops = 9;
    cw_uplink(w, 3, 1e-4, 1e8);
    cw_plan(w, 1);
    assert_int_equal(cw_job(w, 1)->att.n_peers, 3);
    struct hsp_msg m = {.type = HSP_MSG_PREPARE_FAILED,
                        .epoch = 2,
                        .u.failed = {.job = 1,
                                     .fact = HSP_FACT_CANNOT_CONNECT,
                                     .peer = 0,
                                     .by = 2,
                                     .silent = true,
                                     .reason = "silent"}};
    cw_msg(w, 3, m);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RUNNING);
}

/* The running members stay: a node that does not reach all of them is left out, and an attempt with
 * it is dropped. */
static void what_runs_stays(void **state)
{
    (void)state;
    struct cw_world w;
    joins_in_vain(&w);
    deaf_to(&w, 0, 0);
    hears(&w, 1);
    deaf_to(&w, 2, 0);
    assert_int_equal(w.c->n_broken, 1);
    assert_asked(&w, 2, (uint32_t[]){0, 1});
    cw_end(&w);
}

/* Job j has n0/0 and n1/0, and needs two; job x, which comes first, runs on n0/1; n1/1 is free. */
static void j_beside_x(struct cw_world *w)
{
    cw_begin(w, 2, 2);
    assert_int_equal(cw_submit(w, "j", 0, 2, 8), HSP_OK);
    w->n_asked = 2; /* the planner leaves two of the four alone */
    w->asked[1] = HSP_DEVICE(1, 0);
    cw_plan(w, 1);
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
    cw_pass(w, 1, 0, cw_even, 2);
    assert_int_equal(cw_submit(w, "x", 1, 1, 1), HSP_OK);
    assert_int_equal(w->asked[0], HSP_DEVICE(0, 1));
    cw_plan(w, 2);
    cw_msg(
        w, 1,
        (struct hsp_msg){
            .type = HSP_MSG_READY,
            .epoch = cw_job(w, 2)->att.epoch,
            .u.ready = {
                .job = 2, .device = 1, .data_bytes = 7, .data_tokens = 3, .data_digest = {5, 1}}});
    cw_pass(w, 2, 0, cw_even, 1);
    cw_msg(w, 1, (struct hsp_msg){.type = HSP_MSG_RELEASED, .u.devref = {.job = 2, .device = 1}});
    assert_int_equal(cw_job(w, 2)->state, HSP_JOB_RUNNING);
}

/* x may have one device more, and cannot use those of n1, which n0 does not reach. So j has n1/1,
 * though j comes second, and though the holders of devices are gone through job by job. */
static void what_cannot_be_used_is_not_taken(void **state)
{
    (void)state;
    struct cw_world w;
    j_beside_x(&w);
    silence(&w, 0, 0, 1);
    cw_sealed(&w, 0, 1, 4);
    cw_sealed(&w, 1, 1, 4);
    deaf_to(&w, 0, 0);
    deaf_to(&w, 1, 0);
    assert_int_equal(w.n_asked, 2);
    assert_true(w.asked[0] == HSP_DEVICE(1, 0) && w.asked[1] == HSP_DEVICE(1, 1));
    uint64_t ticket = cw_job(&w, 1)->ticket;
    assert_int_not_equal(ticket, 0);
    assert_int_equal(
        cw_admin(&w,
                 (struct hsp_admin_event){.verb = HSP_ADMIN_SCALE, .job = 2, .min = 1, .max = 2}),
        HSP_OK);
    assert_null(cw_fact(&w, "job.paused"));
    assert_null(cw_find(&w, HSP_ACT_START_PLAN));
    assert_int_equal(cw_job(&w, 1)->ticket, ticket);
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.n_ranks, 2);
    cw_end(&w);
}

/* Two nodes of the running epoch cannot connect anew, and a switch would need that: none is planned
 * or begun until they can. */
static void members_apart_train_on(void **state)
{
    (void)state;
    struct cw_world w;
    joins_in_vain(&w);
    deaf_to(&w, 0, 1);
    hears(&w, 1);
    hears(&w, 2);
    const struct hsp_job *j = cw_job(&w, 1);
    uint64_t epoch = j->next_epoch, ticket = w.ticket;
    for (uint32_t i = 0; i < 40; i++) {
        if (asked(&w, 0) != NULL) { /* the two are measured again */
            deaf_to(&w, 0, 0);
            deaf_to(&w, 1, 0);
        }
        if (i == 10) {
            cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = "n1"});
        }
        tick(&w, 500);
        assert_int_equal(j->state, HSP_JOB_RUNNING);
        assert_int_equal(j->next_epoch, epoch);
        assert_int_equal(w.ticket, ticket);
        assert_string_equal(
            j->reason,
            i < 10 ? "join of n2/0: cannot be done while n0 and n1 cannot reach each other"
                   : "drain of n1/0: cannot be done while n0 and n1 cannot reach each other");
    }
    while (asked(&w, 0) == NULL) {
        tick(&w, 500);
    }
    hears(&w, 0);
    hears(&w, 1);
    assert_int_equal(w.c->n_broken, 0);
    assert_asked(&w, 2, (uint32_t[]){0, 2});
    cw_plan(&w, 1);
    assert_int_equal(j->state, HSP_JOB_SWITCHING);
    cw_end(&w);
}

/* Two members are joined by a slow connection, which the next epoch has as well. */
static void members_with_a_slow_pair_switch(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    assert_true(hsp_ci_pair_slow(w.c, 0, 1, "waited for by another job"));
    assert_true(hsp_ci_apart(w.c, 0, 1) && !hsp_ci_deaf(w.c, 0, 1));
    cw_hello(&w, 3, "n2", 0, 1);
    cw_uplink(&w, 3, 1e-4, 1e8);
    assert_asked(&w, 3, (uint32_t[]){0, 1, 2});
    cw_plan(&w, 1);
    tick(&w, 100);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SWITCHING);
    assert_true(hsp_ci_pair_slow(w.c, 0, 2, "the same")); /* of one that joins */
    tick(&w, 100);
    tick(&w, 100);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_end(&w);
}

static void an_attempt_of_a_broken_pair(void **state)
{
    (void)state;
    struct cw_world w;
    lose(&w, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cw_sealed(&w, i, 1, 4);
    }
    broken(&w, 0, NULL);
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.n_peers, 3);
    uint64_t epoch = cw_job(&w, 1)->att.epoch;
    cw_msg(&w, 3,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = epoch - 1,
                            .u.failed = {.job = 1,
                                         .fact = HSP_FACT_CANNOT_CONNECT,
                                         .peer = 0,
                                         .by = 2,
                                         .silent = true,
                                         .reason = "of an attempt long over"}});
    assert_int_equal(cw_count_sent(&w, HSP_MSG_REACH), 0);
    cw_end(&w);
}

/* More broken pairs than are remembered: some of them are, and a choice is made. */
static void all_is_broken(void **state)
{
    (void)state;
    static uint32_t all[MANY];
    static struct cw_world w;
    for (uint32_t i = 0; i < MANY; i++) {
        all[i] = i;
    }
    cw_begin(&w, MANY, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, MANY), HSP_OK);
    cw_plan(&w, 1);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = 1,
                            .u.failed = {.job = 1,
                                         .fact = HSP_FACT_CANNOT_CONNECT,
                                         .peer = 1,
                                         .by = 0,
                                         .silent = true,
                                         .reason = "silent"}});
    assert_int_equal(cw_count_sent(&w, HSP_MSG_REACH), MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        answer(&w, i, MANY - 1, all, false);
    }
    assert_int_equal(w.c->n_broken, HSP_MAX_PAIRS);
    assert_non_null(cw_find(&w, HSP_ACT_START_PLAN));
    assert_true(w.n_asked > 0 && w.n_asked < MANY);
    cw_end(&w);
}

/* Rounds of others that wait for node 2: so many that half of the places are left. */
static void occupy(struct cw_world *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        w->c->round[i] = calloc(1, sizeof(*w->c->round[i]));
        assert_non_null(w->c->round[i]);
        *w->c->round[i] =
            (struct hsp_reach_round){.number = 900 + i, .deadline_ms = HSP_NEVER, .n = 1};
        w->c->round[i]->node[0] = (struct hsp_reach_node){
            .node = 2, .incarnation = w->c->nodes[2].incarnation, .waits = true};
    }
}

/* Losses that name nobody take half of the places; one that names a pair has its round. */
static void places_for_those_who_name_a_pair(void **state)
{
    (void)state;
    for (uint32_t named = 0; named < 2; named++) {
        for (uint32_t n = HSP_REACH_ROUNDS / 2 - 1; n <= HSP_REACH_ROUNDS / 2; n++) {
            struct cw_world w;
            cw_begin(&w, 3, 1);
            cw_run_job(&w, 3);
            occupy(&w, n);
            if (named) {
                silence(&w, 0, 0, 1);
            } else {
                cw_msg(
                    &w, 1,
                    (struct hsp_msg){
                        .type = HSP_MSG_PEER_LOST,
                        .epoch = cw_job(&w, 1)->cur.epoch,
                        .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "it was aborted"}});
            }
            assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
            assert_int_equal(asked(&w, 0) != NULL, named || n < HSP_REACH_ROUNDS / 2);
            cw_end(&w);
        }
    }
}

static void breaks(struct cw_world *w, uint32_t conn, const char *why)
{
    cw_msg(w, conn,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = why}});
}

/* Ranks that hear of an abort may be heard before the rank that knows the cause. */
static void the_cause_comes_behind_the_abort(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    breaks(&w, 1, "aborted by rank 1 (n1/0)");
    assert_string_equal(cw_job(&w, 1)->cause, "n0/0: aborted by rank 1 (n1/0)");
    breaks(&w, 2, "/srv/text has changed while the job reads it");
    assert_string_equal(cw_job(&w, 1)->cause, "n1/0: /srv/text has changed while the job reads it");
    breaks(&w, 1, "aborted by rank 1 (n1/0)");
    breaks(&w, 1, "the first to know stays");
    assert_string_equal(cw_job(&w, 1)->cause, "n1/0: /srv/text has changed while the job reads it");
    cw_end(&w);
}

/* A rank that has lost the peer which aborted the epoch names that peer, and no reason. */
static void the_cause_comes_behind_the_loss_of_who_aborts(void **state)
{
    (void)state;
    for (uint32_t heard = 0; heard < 2; heard++) { /* of the abort, first */
        struct cw_world w;
        cw_begin(&w, 3, 1);
        cw_run_job(&w, 3);
        if (heard == 1) {
            breaks(&w, 1, "aborted by rank 1 (n1/0)");
        }
        cw_msg(&w, 3,
               (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                                .epoch = cw_job(&w, 1)->cur.epoch,
                                .u.lost = {.job = 1, .peer = 1, .reason = "closed"}});
        assert_string_equal(cw_job(&w, 1)->cause, "n2/0 lost peer 1 on n1: closed");
        breaks(&w, 2, "/srv/text has changed");
        assert_string_equal(cw_job(&w, 1)->cause, heard == 1 ? "n1/0: /srv/text has changed"
                                                             : "n2/0 lost peer 1 on n1: closed");
        cw_end(&w);
    }
}

HSP_TEST_FILE(broken_pairs_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_pair_is_measured),
        cmocka_unit_test(one_loss_is_one_round),
        cmocka_unit_test(places_for_those_who_name_a_pair),
        cmocka_unit_test(a_third_one_tells_first),
        cmocka_unit_test(who_cannot_connect_tells_it),
        cmocka_unit_test(answered_calls_count_once),
        cmocka_unit_test(another_executor_since),
        cmocka_unit_test(a_node_that_dies_explains_it),
        cmocka_unit_test(nobody_answers),
        cmocka_unit_test(until_it_is_mended),
        cmocka_unit_test(the_most_speed_is_kept),
        cmocka_unit_test(state_is_kept),
        cmocka_unit_test(state_comes_over_a_third),
        cmocka_unit_test(state_that_is_cut_off),
        cmocka_unit_test(what_runs_stays),
        cmocka_unit_test(what_cannot_be_used_is_not_taken),
        cmocka_unit_test(members_apart_train_on),
        cmocka_unit_test(members_with_a_slow_pair_switch),
        cmocka_unit_test(an_attempt_of_a_broken_pair),
        cmocka_unit_test(the_cause_comes_behind_the_abort),
        cmocka_unit_test(the_cause_comes_behind_the_loss_of_who_aborts),
        cmocka_unit_test(all_is_broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
