/* Tests the coordinator's machine, event by event. Every pair of state and event is in
 * cluster_pairs_test.c; whole stories and random faults are in tests/sim. */
#include "tests/unit/daemon/cluster/ckpt_world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/spread.h"
#include "proto/base/size.h"

static bool is_held(const struct hsp_piece_holder *p, uint64_t version,
                    const struct hsp_state_piece *held, uint32_t n_held)
{
    bool any = false;
    for (uint32_t i = 0; i < n_held; i++) {
        any = any || (held[i].version == version && held[i].rank == p->holder &&
                      held[i].owner == p->owner);
    }
    return any;
}

/* The definition: the newest of versions 0 to 2 of which somebody holds a piece of every shard; -1:
 * none. */
static int newest_whole(const struct hsp_plan_info *info, const struct hsp_state_piece *held,
                        uint32_t n_held)
{
    int newest = -1;
    for (int v = 0; v < 3; v++) {
        uint32_t covered = 0;
        for (uint32_t s = 0; s < info->n_shards; s++) {
            bool any = false;
            for (uint32_t p = info->shard_first[s]; p < info->shard_first[s + 1]; p++) {
                any = any || is_held(&info->pieces[p], (uint64_t)v, held, n_held);
            }
            covered += any;
        }
        newest = covered == info->n_shards ? v : newest;
    }
    return newest;
}

/* hsp_recover_version against the definition, on random layouts. */
static void recover_version(void **state)
{
    (void)state;
    uint64_t k = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        uint32_t n_ranks = 1 + (uint32_t)(hsp_test_rand("r", k++) % 5);
        uint32_t n_shards = 1 + (uint32_t)(hsp_test_rand("r", k++) % 4);
        struct hsp_piece_holder pieces[40];
        uint32_t first[5] = {0}, n = 0;
        for (uint32_t s = 0; s < n_shards; s++) {
            uint64_t c = 1 + hsp_test_rand("r", k++) % 3;
            for (uint64_t i = 0; i < c; i++) {
                pieces[n].holder = (uint32_t)(hsp_test_rand("r", k++) % n_ranks);
                pieces[n++].owner = (uint32_t)(hsp_test_rand("r", k++) % n_ranks);
            }
            first[s + 1] = n;
        }
        struct hsp_plan_info info = {
            .n_ranks = n_ranks, .n_shards = n_shards, .shard_first = first, .pieces = pieces};
        struct hsp_state_piece held[12];
        uint32_t n_held = (uint32_t)(hsp_test_rand("r", k++) % 13);
        for (uint32_t i = 0; i < n_held; i++) {
            held[i] = (struct hsp_state_piece){.version = hsp_test_rand("r", k++) % 3};
            held[i].rank = (uint32_t)(hsp_test_rand("r", k++) % n_ranks);
            held[i].owner = (uint32_t)(hsp_test_rand("r", k++) % n_ranks);
        }
        int want = newest_whole(&info, held, n_held);
        uint64_t got = 99;
        assert_int_equal(hsp_recover_version(&info, held, n_held, &got), want >= 0);
        assert_true(want < 0 || got == (uint64_t)want);
    }
}

/* A loss among two thousand, in the middle of a step: the newest version lacks the piece that is
 * looked at last. */
static void recover_version_of_a_large_layout(void **state)
{
    (void)state;
    enum { N = 2000 };
    uint32_t n = 0, *first = calloc(N + 1, sizeof(*first));
    struct hsp_piece_holder *pieces = calloc((size_t)2 * N, sizeof(*pieces));
    struct hsp_state_piece *held = calloc((size_t)4 * N, sizeof(*held));
    assert_true(first != NULL && pieces != NULL && held != NULL);
    for (uint32_t s = 0; s < N; s++) {
        first[s + 1] = 2 * (s + 1);
        for (uint32_t i = 0; i < 2; i++) { /* its own home and the copy of its buddy */
            uint32_t rank = (s + i) % N;
            pieces[2 * s + i] = (struct hsp_piece_holder){rank, s};
            for (uint32_t v = 9; v <= (s == N - 1 ? 9 : 10); v++) {
                held[n++] = (struct hsp_state_piece){.rank = rank, .owner = s, .version = v};
            }
        }
    }
    struct hsp_plan_info info = {
        .n_ranks = N, .n_shards = N, .shard_first = first, .pieces = pieces};
    uint64_t got = 0;
    clock_t begin = clock();
    assert_true(hsp_recover_version(&info, held, n, &got));
    assert_int_equal(got, 9);
    assert_true(clock() - begin < 2 * CLOCKS_PER_SEC); /* nobody is answered meanwhile */
    free(first);
    free(pieces);
    free(held);
}

static void stores_before_sends(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    cw_plan(&w, 1);
    bool stored = false;
    for (uint32_t i = 0; i < w.a.n; i++) {
        stored =
            stored || (w.a.item[i].type == HSP_ACT_STORE && strcmp(w.a.item[i].key, "job/1") == 0);
        assert_true(w.a.item[i].type != HSP_ACT_PREPARE || stored);
    }
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PREPARE), 2);
    cw_ready(&w, 1, 0, 5);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_START), 0);
    cw_ready(&w, 1, 1, 5);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_START), 2);
    stored = false;
    for (uint32_t i = 0; i < w.a.n; i++) {
        stored = stored || w.a.item[i].type == HSP_ACT_STORE;
        assert_true(w.a.item[i].type != HSP_ACT_SEND || stored);
    }
    cw_end(&w);
}

static void spread(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_spread got;
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    assert_false(hsp_cluster_spread(w.c, cw_job(&w, 1), &got));
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    cw_pass(&w, 1, 0, cw_even, 2);
    assert_true(hsp_cluster_spread(w.c, cw_job(&w, 1), &got));
    assert_int_equal(got.min_nodes, 2);
    assert_int_equal(got.n_sole, 0);
    /* shards: 0 has its own and 1's copy of it; 1 has the second alone; the third is on 0, twice */
    struct hsp_plan_info *p = &((struct hsp_job_plan *)hsp_ci_plan(cw_job(&w, 1), 1))->info;
    uint32_t first[4] = {0, 2, 3, 5};
    struct hsp_piece_holder pieces[5] = {{0, 0}, {1, 0}, {1, 1}, {0, 0}, {0, 1}};
    struct hsp_plan_info kept = *p;
    p->n_shards = 3;
    p->shard_first = first;
    p->pieces = pieces;
    assert_true(hsp_cluster_spread(w.c, cw_job(&w, 1), &got));
    assert_int_equal(got.min_nodes, 1);
    assert_int_equal(got.n_sole, 2);
    assert_int_equal(got.node, 0);
    p->n_shards = 2;
    assert_true(hsp_cluster_spread(w.c, cw_job(&w, 1), &got));
    assert_int_equal(got.n_sole, 1);
    assert_int_equal(got.node, 1);
    w.c->nodes[1].state = HSP_NODE_DEAD;
    assert_true(hsp_cluster_spread(w.c, cw_job(&w, 1), &got));
    assert_int_equal(got.min_nodes, 0);
    w.c->nodes[1].state = HSP_NODE_LIVE;
    *p = kept;
    /* another that has only the name of n1 */
    const uint64_t since = w.c->nodes[1].same_since;
    w.c->nodes[1].same_since = ++w.c->nodes[1].incarnation;
    assert_true(hsp_cluster_spread(w.c, cw_job(&w, 1), &got));
    assert_int_equal(got.min_nodes, 1);
    assert_int_equal(got.node, 0);
    w.c->nodes[1].incarnation--;
    w.c->nodes[1].same_since = since;
    cw_end(&w);
}

static void facts_reach_the_planner(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    uint64_t old = w.ticket;
    cw_plan(&w, 1);
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = 1,
                            .u.failed = {.job = 1,
                                         .fact = HSP_FACT_OUT_OF_MEMORY,
                                         .amount = 4096,
                                         .peer = HSP_MSG_RANKS,
                                         .reason = "out of memory by 4096 bytes"}});
    assert_true(w.ticket > old);
    assert_int_equal(w.n_facts, 1);
    assert_int_equal(w.facts[0].kind, HSP_FACT_OUT_OF_MEMORY);
    assert_int_equal(w.facts[0].device, HSP_DEVICE(1, 0));
    assert_int_equal(w.facts[0].amount, 4096);
    uint64_t now = w.ticket;
    w.ticket = old; /* an answer to the old question is not used */
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.epoch, 0);
    w.ticket = now;
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.epoch, 2);
    cw_end(&w);
}

/* READY tells of the data: one that was lost on the way is said again, a HELLO does not stand for
 * it. */
static void lost_ready(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    struct hsp_m_run run = {.job = 1, .prepared = 1};
    cw_say_hello(
        &w, 2,
        (struct hsp_m_hello){.node = "n1", .incarnation = cw_secret(2), .n_runs = 1, .runs = &run});
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PREPARE), 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_START), 0);
    cw_ready(&w, 1, 1, 5);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_START), 2);
    assert_int_equal(cw_job(&w, 1)->data_bytes, 7);
    cw_end(&w);
}

static void nothing_alarms(const struct cw_world *w)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        if (w->a.item[i].type == HSP_ACT_FACT) {
            assert_true(w->a.item[i].u.fact->severity <= HSP_SEV_NOTICE);
        }
    }
}

/* An end that was asked for is no failure: not in the events, and not counted. */
static void planned_ends(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    cw_run_job(&w, 3);
    /* n2 goes; before the switch is ready the last step is done */
    cw_msg(&w, 3, (struct hsp_msg){.type = HSP_MSG_LEAVE, .u.leave.reason = "SIGTERM"});
    assert_string_equal(cw_fact(&w, "node.leaving"), "SIGTERM");
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SWITCHING);
    struct hsp_msg last = {.type = HSP_MSG_STEP,
                           .epoch = cw_job(&w, 1)->cur.epoch,
                           .u.step = {.job = 1, .step = 100, .final = true}};
    cw_msg(&w, 1, last);
    nothing_alarms(&w);
    assert_string_equal(cw_fact(&w, "switch.aborted"), "epoch 2: the last step is done");
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FINISHING);
    assert_int_equal(cw_job(&w, 1)->failures, 0);
    assert_string_equal(cw_job(&w, 1)->reason, "");
    cw_msg(&w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_FINISHED, .epoch = 1, .u.finished = {.job = 1, .step = 100}});
    nothing_alarms(&w);
    for (uint32_t i = 0; i < 3; i++) {
        cw_msg(&w, i + 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref = {.job = 1}});
        nothing_alarms(&w);
    }
    assert_int_equal(cw_count_sent(&w, HSP_MSG_BYE), 1);
    cw_msg(&w, 3, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_DEAD, .u.dead.reason = "signal 9"});
    assert_null(cw_fact(&w, "node.executor_dead"));
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 3});
    nothing_alarms(&w);
    assert_string_equal(cw_fact(&w, "node.left"), "left as planned");
    cw_end(&w);
}

static void allocation(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 4, 1);
    assert_int_equal(cw_submit(&w, "low", 0, 1, 8), HSP_OK);
    assert_int_equal(w.n_asked, 4);
    assert_int_equal(cw_submit(&w, "high", 5, 2, 2), HSP_OK);
    assert_int_equal(w.n_asked, 2);
    cw_plan(&w, 2);
    assert_int_equal(cw_job(&w, 2)->state, HSP_JOB_STARTING);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PENDING); /* its question was asked anew */
    assert_true(cw_job(&w, 1)->ticket != 0);
    assert_int_equal(cw_job(&w, 1)->n_asked, 2);
    assert_int_equal(cw_submit(&w, "big", 9, 5, 5), HSP_OK);
    assert_string_equal(cw_job(&w, 3)->reason,
                        "waits for 5 devices; 2 of 4 can be used (job high has 2); devices become "
                        "free when a job ends or is scaled down");
    assert_int_equal(cw_submit(&w, "big", 0, 1, 1), HSP_EINVAL);
    assert_int_equal(cw_submit(&w, "bad", 0, 3, 2), HSP_EINVAL);
    assert_int_equal(cw_submit(&w, "Bad Name", 0, 1, 2), HSP_EINVAL);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 77), HSP_ENOENT);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 3), HSP_ESTATE);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 3), HSP_OK);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 3), HSP_ESTATE);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 3), HSP_OK);
    assert_int_equal(
        cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = "none"}),
        HSP_ENOENT);
    cw_end(&w);
}

/* A job that keeps its min gives the rest up: the job that gets that is told so. */
static void a_device_that_is_on_its_way_is_told(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    assert_int_equal(cw_submit(&w, "next", 0, 1, 8), HSP_OK);
    assert_string_equal(
        cw_job(&w, 2)->reason,
        "waits for 1 device; 0 of 2 can be used (job j has 2); 1 of them is being given up");
    cw_end(&w);
}

/* The time for which a job waits for devices is none of its first switch. */
static void to_wait_for_devices_is_not_to_switch(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 2, 2), HSP_OK);
    w.now += 1000;
    cw_hello(&w, 2, "n1", 0, 1);
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_STARTING);
    assert_true(cw_job(&w, 1)->att.trace.detect_ms == w.now);
    cw_end(&w);
}

static void cancel_gives_back(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 2);
    assert_int_equal(cw_submit(&w, "next", 0, 2, 2), HSP_OK);
    assert_string_equal(
        cw_job(&w, 2)->reason,
        "waits for 2 devices; 0 of 2 can be used (job j has 2); 2 of them are being given up");
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(&w, i + 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref = {.job = 1}});
    }
    assert_true(cw_job(&w, 2)->ticket != 0);
    cw_end(&w);
}

/* Three nodes with a job on them, and one that waits. */
static void two_jobs(struct cw_world *w)
{
    cw_begin(w, 3, 1);
    cw_run_job(w, 3);
    assert_int_equal(cw_submit(w, "second", 3, 1, 1), HSP_OK);
}

static void rows_load_in_any_order(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_err err = {0};
    struct hsp_actions acts;
    struct hsp_cluster_row rows[CW_ROWS], turned[CW_ROWS];
    two_jobs(&w);
    uint32_t n = cw_rows(&w, rows);
    for (uint32_t i = 0; i < n; i++) {
        turned[n - 1 - i] = rows[i];
    }
    struct hsp_cluster *c = hsp_cluster_new(&w.c->cfg);
    assert_ok(hsp_cluster_load(c, turned, n, 5, &acts, &err), &err);
    hsp_cluster_check(c);
    assert_int_equal(c->term, 2);
    assert_int_equal(hsp_cluster_job(c, 1)->state, HSP_JOB_RUNNING);
    assert_int_equal(hsp_cluster_job(c, 1)->cur.epoch, 1);
    assert_int_equal(hsp_cluster_job(c, 1)->cur.n_ranks, 3);
    assert_int_equal(hsp_cluster_job(c, 1)->n_plans, 1);
    assert_int_equal(hsp_cluster_job(c, 2)->priority, 3);
    assert_int_equal(c->nodes[2].state, HSP_NODE_AWAY);
    assert_int_equal(c->nodes[2].dev[0].job, 1);
    hsp_cluster_free(c);
    cw_end(&w);
}

static void a_cut_row_is_refused(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_cluster_row rows[CW_ROWS];
    two_jobs(&w);
    uint32_t n = cw_rows(&w, rows);
    for (uint32_t k = 0; k < 1300 + 40 * n; k++) {
        bool near = k >= 1300; /* the end of each row, byte by byte */
        uint32_t i = near ? (k - 1300) / 40 : (uint32_t)(hsp_test_rand("row", 2 * k) % n);
        struct hsp_cluster_row *r = &rows[i], keep = *r;
        struct hsp_actions acts;
        struct hsp_err err = {0};
        uint32_t less = near ? (k - 1300) % 40 + 1 : 0;
        r->len = less != 0 ? (less < r->len ? r->len - less : 0)
                           : (uint32_t)(hsp_test_rand("row", 2 * k + 1) % r->len);
        uint8_t *exact = malloc(r->len + 1); /* reading on is seen by the sanitizer */
        r->value = memcpy(exact + 1, keep.value, r->len);
        struct hsp_cluster *c = hsp_cluster_new(&w.c->cfg);
        assert_status(hsp_cluster_load(c, rows, n, 5, &acts, &err), HSP_EPARSE);
        hsp_cluster_free(c);
        free(exact);
        *r = keep;
    }
    cw_end(&w);
}

/* Agents that say anything at any time: the invariants hold, nothing is asserted. */
static uint32_t below(uint64_t *k, uint64_t n)
{
    return (uint32_t)(hsp_test_rand("any", (*k)++) % n);
}

#define R(n) below(k, n)
static struct hsp_msg random_msg(uint64_t *k, double *compute, struct hsp_m_holding *h)
{
    static const uint16_t types[] = {
        HSP_MSG_READY,        HSP_MSG_PREPARE_FAILED, HSP_MSG_STARTED,     HSP_MSG_SEALED,
        HSP_MSG_STEP,         HSP_MSG_PEER_LOST,      HSP_MSG_STOPPED,     HSP_MSG_RELEASED,
        HSP_MSG_CHECKPOINTED, HSP_MSG_FINISHED,       HSP_MSG_JOB_FAILED,  HSP_MSG_EXECUTOR_DEAD,
        HSP_MSG_EXECUTOR_UP,  HSP_MSG_LEAVE,          HSP_MSG_CKPT_REFUSED};
    struct hsp_msg m = {.type = types[R(HSP_ARRAY_LEN(types))], .epoch = R(6)};
    uint32_t j = 1 + R(3), d = R(2);
    bool final = R(40) == 0;
    switch ((enum hsp_msg_type)m.type) {
    case HSP_MSG_READY: m.u.ready = (struct hsp_m_ready){.job = j, .device = d}; break;
    case HSP_MSG_PREPARE_FAILED:
        m.u.failed = (struct hsp_m_failed){
            .job = j, .device = d, .fact = R(8), .peer = R(6), .reason = "no"};
        break;
    case HSP_MSG_STARTED:
        m.u.started = (struct hsp_m_started){.job = j, .device = d, .step = R(9)};
        break;
    case HSP_MSG_SEALED:
        for (uint32_t i = 0; i < 4; i++) {
            h[i] = (struct hsp_m_holding){j, R(2), R(4), R(5), R(5), R(9)};
        }
        m.u.sealed = (struct hsp_m_sealed){.job = j, .n_holdings = R(5), .holdings = h};
        break;
    case HSP_MSG_STEP:
        m.u.step = (struct hsp_m_step){.job = j,
                                       .step = final ? 100 : R(30),
                                       .final = final,
                                       .n_compute = R(5),
                                       .compute_s = compute};
        break;
    case HSP_MSG_PEER_LOST:
        m.u.lost = (struct hsp_m_lost){
            .job = j, .device = d, .peer = R(6), .before_start = R(2) == 0, .reason = "broke"};
        break;
    case HSP_MSG_CHECKPOINTED:
        m.u.ckpt = (struct hsp_m_ckpt){.job = j, .step = R(30), .complete = true, .reason = ""};
        break;
    case HSP_MSG_FINISHED:
        m.u.finished = (struct hsp_m_finished){R(50) == 0 ? j : 9, 100, "", ""};
        break;
    case HSP_MSG_JOB_FAILED:
        m.u.jobfail = (struct hsp_m_jobfail){R(50) == 0 ? j : 9, d, "bad"};
        break;
    case HSP_MSG_CKPT_REFUSED:
        m.u.refused = (struct hsp_m_refused){j, d, R(3) == 0 ? R(30) : 9, R(2) == 0, "gone"};
        break;
    case HSP_MSG_EXECUTOR_DEAD: m.u.dead = (struct hsp_m_dead){d, R(300), "exit 1"}; break;
    case HSP_MSG_EXECUTOR_UP: m.u.up = (struct hsp_m_up){d, "y"}; break;
    case HSP_MSG_LEAVE: m.u.leave = (struct hsp_m_leave){"notice", 0}; break;
    default: m.u.devref = (struct hsp_m_devref){j, d}; break;
    }
    return m;
}
#undef R

static void anything(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 40; round++) {
        struct cw_world w;
        uint64_t k = 100000ull * round;
        uint32_t conn[3] = {1, 2, 3}, next = 4;
        double compute[5] = {1, 2, 0, -1, 5};
        struct hsp_m_holding h[4];
        cw_begin(&w, 3, 2);
        (void)cw_submit(&w, "a", 0, 1, 4);
        (void)cw_submit(&w, "b", 1, 1, 3);
        for (uint32_t i = 0; i < 1500; i++) {
            uint32_t who = below(&k, 3), what = below(&k, 20);
            char name[8];
            (void)snprintf(name, sizeof(name), "n%u", who);
            w.now += below(&k, 8) == 0 ? below(&k, 900) : 0;
            if (what < 3 && w.ticket != 0) {
                cw_plan(&w, 1 + below(&k, 2));
            } else if (what == 3) {
                cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = conn[who]});
            } else if (what == 4) {
                conn[who] = next++;
                cw_hello(&w, conn[who], name, below(&k, 2) * w.c->nodes[who].incarnation, 2);
            } else if (what == 5) {
                cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
            } else {
                cw_msg(&w, conn[who], random_msg(&k, compute, h));
            }
        }
        struct hsp_buf b;
        cw_text(&w, &b);
        assert_true(b.len > 0 && !b.failed);
        hsp_buf_fini(&b);
        cw_end(&w);
    }
}

static const struct hsp_msg *sent_msg(const struct cw_world *w, uint16_t type)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        if (w->a.item[i].type == HSP_ACT_SEND && w->a.item[i].msg->type == type) {
            return w->a.item[i].msg;
        }
    }
    fail_msg("nothing of type %u was sent", type);
    return NULL;
}

static void all_prepared_with(const struct cw_world *w, uint32_t n, bool tls, const char *trusted,
                              bool share_notes, bool buckets)
{
    assert_int_equal(cw_count_sent(w, HSP_MSG_PREPARE), n);
    for (uint32_t i = 0; i < w->a.n; i++) {
        if (w->a.item[i].type == HSP_ACT_PREPARE) {
            assert_int_equal(w->a.item[i].msg->u.prepare.data_tls, tls);
            assert_string_equal(w->a.item[i].msg->u.prepare.trusted_network, trusted);
            assert_int_equal(w->a.item[i].msg->u.prepare.share_notes, share_notes);
            assert_int_equal(w->a.item[i].u.prepare->buckets, buckets);
        }
    }
}

/* An epoch keeps the settings with which it began, also over a restart with others; the next one
 * has the new. */
static void data_plane(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    w.c->cfg.trusted = CW_TRUSTED;
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    cw_plan(&w, 1);
    all_prepared_with(&w, 2, true, CW_TRUSTED, true, true);
    wc_begins(&w, 0);
    struct hsp_cluster_config cfg = w.c->cfg;
    cfg.data_tls = false;
    cfg.address = "head:7071";
    cw_restart(&w, &cfg);
    assert_true(cw_job(&w, 1)->cur.data_tls);
    assert_string_equal(cw_job(&w, 1)->cur.trusted, CW_TRUSTED);
    cw_hello_running(&w, 1, "n0", 1, 1, 1);
    assert_string_equal(sent_msg(&w, HSP_MSG_WELCOME)->u.welcome.address, "head:7071");
    cw_hello_running(&w, 2, "n1", 2, 1, 1);
    cw_let_go(&w, 1, 2);
    cw_hello(&w, 3, "n2", 0, 1);
    w.c->nodes[2].protocol = HSP_PROTO_NOTES - 1; /* an older one is among them */
    cw_plan(&w, 1);
    all_prepared_with(&w, 3, false, "", false, false); /* in clear all networks are alike */
    assert_true(cw_job(&w, 1)->cur.data_tls && cw_job(&w, 1)->cur.share_notes);
    assert_false(cw_job(&w, 1)->att.data_tls);
    cw_end(&w);
}

/* A row of form 9 is of an epoch whose PREPAREs said nothing of trusted networks. */
static void rows_without_trusted_networks(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    w.c->cfg.trusted = CW_TRUSTED;
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    cw_plan(&w, 1);
    wc_begins(&w, 0);
    cw_untrusting_row(&w);
    cw_restart_nodes(&w, 2);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    assert_true(cw_job(&w, 1)->cur.data_tls);
    assert_string_equal(cw_job(&w, 1)->cur.trusted, "");
    assert_int_equal(cw_job(&w, 1)->cur.n_ranks, 2);
    cw_end(&w);
}

static bool links_are(const struct hsp_links *n, uint32_t shm, uint32_t local, uint32_t tls,
                      uint32_t tcp)
{
    return n->shm == shm && n->local == local && n->tls == tls && n->tcp == tcp;
}

/* A row of job 1 in form 7, which knows no trusted networks, no transports and not which
 * checkpoints are meant: the bytes of @known, of no trusted network, and of the mark with term 0,
 * epoch 1, content 77 are taken out. */
static void in_form_7(struct cw_world *w, const struct hsp_links *known)
{
    const uint32_t n[4] = {known->shm, known->local, known->tls, known->tcp};
    uint8_t links[16], ckpts[48] = {[32] = 1, [40] = 77};
    for (uint32_t i = 0; i < 16; i++) {
        links[i] = (uint8_t)(n[i / 4] >> 8 * (i % 4));
    }
    cw_untrusting_row(w);
    cw_older_row(w, links, sizeof(links), 7);
    cw_older_row(w, ckpts, sizeof(ckpts), 7);
}

/* The transports between members and replica holders are known from GO on, and over restarts. */
static void transports_of_an_epoch(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    w.c->cfg.trusted = CW_TRUSTED;
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    cw_plan(&w, 1);
    for (uint32_t i = 0; i < 2; i++) { /* a repeated word counts once */
        cw_msg(&w, 1,
               (struct hsp_msg){.type = HSP_MSG_READY,
                                .epoch = 1,
                                .u.ready = {.job = 1,
                                            .links_shm = 2002,
                                            .links_unix = 4,
                                            .links_tls = 3000,
                                            .links_tcp = 1}});
    }
    assert_true(links_are(&cw_job(&w, 1)->att.links, 0, 0, 0, 0));
    cw_msg(
        &w, 2,
        (struct hsp_msg){
            .type = HSP_MSG_READY,
            .epoch = 1,
            .u.ready = {
                .job = 1, .links_shm = 2002, .links_unix = 4, .links_tls = 3020, .links_tcp = 1}});
    assert_true(links_are(&cw_job(&w, 1)->att.links, 2002, 4, 3010, 1));
    cw_pass(&w, 1, 0, cw_even, 2);
    assert_true(links_are(&cw_job(&w, 1)->cur.links, 2002, 4, 3010, 1));
    cw_msg(&w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_CHECKPOINTED,
               .epoch = 1,
               .u.ckpt = {.job = 1, .step = 9, .complete = true, .content = 77, .reason = ""}});
    cw_let_go(&w, 1, 2);
    cw_restart_nodes(&w, 2);
    assert_true(links_are(&cw_job(&w, 1)->cur.links, 2002, 4, 3010, 1));
    in_form_7(&w, &cw_job(&w, 1)->cur.links);
    cw_restart_nodes(&w, 2);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    assert_true(links_are(&cw_job(&w, 1)->cur.links, 0, 0, 0, 0));
    assert_int_equal(cw_job(&w, 1)->cur.n_ranks, 2);
    cw_end(&w);
}

HSP_TEST_FILE(cluster_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(recover_version),
                                       cmocka_unit_test(recover_version_of_a_large_layout),
                                       cmocka_unit_test(stores_before_sends),
                                       cmocka_unit_test(spread),
                                       cmocka_unit_test(facts_reach_the_planner),
                                       cmocka_unit_test(planned_ends),
                                       cmocka_unit_test(lost_ready),
                                       cmocka_unit_test(allocation),
                                       cmocka_unit_test(a_device_that_is_on_its_way_is_told),
                                       cmocka_unit_test(to_wait_for_devices_is_not_to_switch),
                                       cmocka_unit_test(cancel_gives_back),
                                       cmocka_unit_test(rows_load_in_any_order),
                                       cmocka_unit_test(a_cut_row_is_refused),
                                       cmocka_unit_test(data_plane),
                                       cmocka_unit_test(rows_without_trusted_networks),
                                       cmocka_unit_test(transports_of_an_epoch),
                                       cmocka_unit_test(anything)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
