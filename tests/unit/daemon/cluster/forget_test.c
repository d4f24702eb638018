/* Tests that nodes that have gone are forgotten, and their numbers go to others: never while
 * anything still needs them. */
#include <stdio.h>

#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"
#include "tests/unit/daemon/cluster/cluster_stories.h"

static enum hsp_status remove_node(struct cw_world *w, const char *node)
{
    return cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_REMOVE, .node = node});
}

static void stays(struct cw_world *w, const char *node, const char *why)
{
    assert_int_equal(remove_node(w, node), HSP_ESTATE);
    assert_string_equal(cw_find(w, HSP_ACT_REPLY)->text, why);
    assert_non_null(hsp_cluster_node_by_name(w->c, node));
}

static void drain(struct cw_world *w, const char *node, bool on)
{
    enum hsp_admin_verb verb = on ? HSP_ADMIN_DRAIN : HSP_ADMIN_UNDRAIN;
    assert_int_equal(
        cw_admin(w, (struct hsp_admin_event){.verb = verb, .node = node, .reason = "test"}),
        HSP_OK);
}

/* As planned, with nothing left on it. */
static void leaves(struct cw_world *w, uint32_t node)
{
    cw_of_node(w, node, HSP_MSG_LEAVE);
    assert_int_equal(cw_count_sent(w, HSP_MSG_BYE), 1);
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = node + 1});
    assert_int_equal(w->c->nodes[node].state, HSP_NODE_LEFT);
}

static void has_row(const struct cw_world *w, const char *key, bool there)
{
    bool found = false;
    for (uint32_t i = 0; i < w->n_rows; i++) {
        found = found || strcmp(w->rows[i].key, key) == 0;
    }
    assert_int_equal(found, there);
}

static void refused_while_it_matters(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    cw_run_job(&w, 3);
    assert_int_equal(remove_node(&w, "n9"), HSP_ENOENT);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "no node n9; hspmdctl node list shows all");
    stays(&w, "n1", "node n1 stays: it is connected: stop its agent first");
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    stays(&w, "n1",
          "node n1 stays: it is suspect and may come back: it is dead when it has been "
          "silent for 3000 ms");
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = 1,
                            .u.lost = {.job = 1, .peer = 1, .reason = "broke"}});
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_DEAD);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    stays(&w, "n1", "node n1 stays: job j may need the state that it holds");
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_int_equal(remove_node(&w, "n1"), HSP_OK);
    assert_string_equal(cw_fact(&w, "node.forgotten"), "it was removed");
    has_row(&w, "node/1", false);
    assert_null(hsp_cluster_node_by_name(w.c, "n1"));
    cw_end(&w);
}

/* n1 was a source of the epoch that runs, is remembered here and there, and the planner is asked
 * about it. Its number goes to n7, of which nothing of that is true. */
static void its_number_goes_to_another(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 2), HSP_OK);
    cw_plan(&w, 1);
    wc_begins(&w, 0);
    drain(&w, "n1", true);
    cw_plan(&w, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(&w, 1, i, 5);
    }
    cw_pass(&w, 1, 4, cw_even, 2);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->cur.n_peers, 3);
    cw_said(&w, 1, HSP_MSG_STARTED, 2); /* as a source */
    cw_said(&w, 0, HSP_MSG_RELEASED, 2);
    cw_said(&w, 2, HSP_MSG_RELEASED, 2);
    cw_said(&w, 1, HSP_MSG_RELEASED, 2);
    struct hsp_job *mine = w.c->jobs[0];
    for (uint32_t peer = 1; peer <= 2; peer++) {
        const struct hsp_plan_fact fact = {HSP_FACT_CANNOT_CONNECT, HSP_DEVICE(0, 0),
                                           HSP_DEVICE(peer, 0), 0, 0};
        hsp_ci_learn(w.c, mine, &fact, 0, "no answer");
    }
    hsp_ci_mark(w.c, mine, 1)->blamed = true;
    mine->asked[0] = HSP_DEVICE(1, 0);
    mine->asked_valid = true;
    leaves(&w, 1);
    assert_int_equal(remove_node(&w, "n1"), HSP_OK);
    assert_int_equal(j->cur.n_peers, 2);
    assert_int_equal(j->n_facts, 1);
    assert_null(hsp_ci_marked(j, 1));
    cw_hello(&w, 9, "n7", 0, 1);
    const struct hsp_cluster_node *n = hsp_cluster_node_by_name(w.c, "n7");
    assert_int_equal(n - w.c->nodes, 1);
    assert_true(!n->draining && !n->holder && n->incarnation == 4 && n->same_since == 4);
    assert_int_equal(w.c->n_nodes, 3);
    assert_int_equal(j->state, HSP_JOB_RUNNING);
    /* its predecessor could have told of epoch 1, n7 cannot */
    cw_msg(&w, 9,
           (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 1, .u.step = {.job = 1, .step = 3}});
    assert_null(cw_find(&w, HSP_ACT_METRIC));
    cw_restart(&w, NULL);
    assert_string_equal(w.c->nodes[1].name, "n7");
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    assert_int_equal(cw_job(&w, 1)->cur.n_peers, 2);
    cw_end(&w);
}

/* Also a number in the middle, over a restart; n1 itself comes back as a new node. */
static void the_lowest_number_first(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 4, 1);
    struct hsp_digest n1 = w.c->nodes[1].secret;
    leaves(&w, 1);
    leaves(&w, 2);
    assert_int_equal(remove_node(&w, "n2"), HSP_OK);
    assert_int_equal(remove_node(&w, "n1"), HSP_OK);
    cw_restart(&w, NULL);
    assert_int_equal(w.c->n_vacant, 2);
    cw_hello(&w, 9, "n8", 0, 1);
    assert_string_equal(w.c->nodes[1].name, "n8");
    cw_say_hello(&w, 10, (struct hsp_m_hello){.node = "n1", .address = "", .incarnation = n1});
    assert_int_equal(cw_count_sent(&w, HSP_MSG_FENCED), 1);
    cw_hello(&w, 10, "n1", 0, 1);
    assert_string_equal(w.c->nodes[2].name, "n1");
    cw_hello(&w, 11, "n9", 0, 1);
    assert_string_equal(w.c->nodes[4].name, "n9");
    assert_int_equal(w.c->n_vacant, 0);
    cw_end(&w);
}

static void at(struct cw_world *w, uint64_t unix_s)
{
    w->unix_s = unix_s;
    w->now += 3600000;
    cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
}

/* After forget_s of the wall clock, also when hspmdd was not there meanwhile. The word of an
 * administrator keeps a node in mind, and so does a clock that was not set. */
static void forgotten_in_time(void **state)
{
    (void)state;
    struct cw_world w;
    const uint64_t begin = 1700000000, week = 7 * 86400;
    cw_begin(&w, 4, 1);
    w.unix_s = begin;
    assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_ALLOW, .node = "n2"}),
                     HSP_OK);
    for (uint32_t i = 0; i < 3; i++) {
        leaves(&w, i);
    }
    drain(&w, "n1", true);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 4});
    for (int i = 0; i < 2; i++) {
        w.now += 1500;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(w.c->nodes[3].state, HSP_NODE_DEAD);
    assert_true(hsp_cluster_deadline(w.c) <= w.now + 3600000);
    at(&w, begin + week - 1);
    assert_null(cw_fact(&w, "node.forgotten"));
    cw_restart(&w, NULL);
    at(&w, begin + week);
    assert_string_equal(cw_fact(&w, "node.forgotten"), "it has been gone for long");
    assert_null(hsp_cluster_node_by_name(w.c, "n0"));
    assert_null(hsp_cluster_node_by_name(w.c, "n3"));
    assert_non_null(hsp_cluster_node_by_name(w.c, "n1"));
    assert_non_null(hsp_cluster_node_by_name(w.c, "n2"));
    drain(&w, "n1", false);
    at(&w, begin + week + 1);
    assert_null(hsp_cluster_node_by_name(w.c, "n1"));
    at(&w, begin + 9 * week);
    assert_non_null(hsp_cluster_node_by_name(w.c, "n2"));
    assert_int_equal(hsp_cluster_deadline(w.c), HSP_NEVER);
    cw_end(&w);
}

/* A job waits for n1, which has run it and may have its checkpoints. Without n1 the job would begin
 * at step 0, so only an administrator removes n1. */
static void not_while_a_job_waits_for_it(void **state)
{
    (void)state;
    const uint64_t begin = 1700000000, week = 7 * 86400;
    for (uint32_t shared = 0; shared < 2; shared++) {
        struct cw_world w;
        cw_begin(&w, 2, 1);
        w.unix_s = begin;
        wc_submit(&w, (struct hsp_job_terms){.checkpoint_shared = shared != 0});
        cw_plan(&w, 1);
        wc_begins(&w, 1);
        wc_cancelled(&w);
        w.asks = true;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        leaves(&w, 1);
        for (uint32_t i = 1; i < 3; i++) {
            w.unix_s = begin + i * week;
            w.now += 3600000;
            cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        if (shared) { /* n0 sees the same */
            assert_null(hsp_cluster_node_by_name(w.c, "n1"));
        } else {
            assert_non_null(hsp_cluster_node_by_name(w.c, "n1"));
            assert_true(hsp_ci_marked(cw_job(&w, 1), 1)->ran);
            assert_int_equal(remove_node(&w, "n1"), HSP_OK);
        }
        cw_end(&w);
    }
}

/* A job that is not on record is all that a node says of it: it goes with the last node that keeps
 * it. */
static void a_job_that_nobody_keeps_any_more(void **state)
{
    (void)state;
    struct cw_world w;
    const uint64_t begin = 1700000000, week = 7 * 86400;
    size_t i = 0;
    while (i < cw_n_scenarios && strcmp(cw_scenarios[i].name, "behind: not on record") != 0) {
        i++;
    }
    assert_true(i < cw_n_scenarios);
    cw_scenarios[i].tell(&w);
    assert_true(cw_job(&w, 1)->unrecorded);
    w.unix_s = begin;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    for (int k = 0; k < 2; k++) {
        w.now += 1500;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_DEAD);
    assert_non_null(cw_job(&w, 1));
    at(&w, begin + week);
    assert_null(hsp_cluster_node_by_name(w.c, "n1"));
    assert_null(cw_job(&w, 1));
    cw_end(&w);
}

static void a_clock_that_was_not_set(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    leaves(&w, 0); /* before the time is known */
    at(&w, 1700000000);
    assert_int_equal(w.c->nodes[0].gone_s, 1700000000);
    at(&w, 5); /* the clock was wrong */
    assert_int_equal(w.c->nodes[0].gone_s, 5);
    at(&w, 5 + 7 * 86400);
    assert_null(hsp_cluster_node_by_name(w.c, "n0"));
    cw_end(&w);
}

HSP_TEST_FILE(forget_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_while_it_matters),
        cmocka_unit_test(its_number_goes_to_another),
        cmocka_unit_test(the_lowest_number_first),
        cmocka_unit_test(forgotten_in_time),
        cmocka_unit_test(a_clock_that_was_not_set),
        cmocka_unit_test(a_job_that_nobody_keeps_any_more),
        cmocka_unit_test(not_while_a_job_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
