/* Tests a check of nodes: the order of the questions, and that it ends with any behaviour of
 * agents. */
#include <stdio.h>

#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/cluster_step.h"
#include "proto/base/size.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

static void begin(struct cw_world *w, uint32_t n, const char *const *names, bool busy)
{
    struct hsp_admin_event a = {
        .verb = HSP_ADMIN_CHECK,
        .request = 5,
        .actor = "me",
        .check = {
            .threshold = 0.7, .busy = busy, .n_nodes = n, .node = (const char **)(uintptr_t)names}};
    cw_step(w, (struct hsp_event){.type = HSP_EV_ADMIN, .u.admin = a});
}

/* The order that went to @conn in the last step, NULL none. */
static const struct hsp_m_check *order_to(const struct cw_world *w, uint32_t conn)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        if (w->a.item[i].type == HSP_ACT_CHECK && w->a.item[i].conn == conn) {
            return &w->a.item[i].msg->u.check;
        }
    }
    return NULL;
}

static uint32_t seq_of(const struct cw_world *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->c->check.n_nodes; i++) {
        if (w->c->check.nodes[i].node == node) {
            return w->c->check.nodes[i].seq;
        }
    }
    return 0;
}

static void answer(struct cw_world *w, uint32_t node, const char *fault)
{
    char address[16];
    struct hsp_m_figures f = {.gemm_fp32_flops = 1e9, .share = 1};
    (void)snprintf(address, sizeof(address), "h%u:1", node);
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKED,
                            .u.checked = {.check = w->c->check.number,
                                          .seq = seq_of(w, node),
                                          .fault = fault,
                                          .address = address,
                                          .transport = "tls",
                                          .latency_s = 1e-4,
                                          .bytes_per_s = 1e8 + node,
                                          .n_devices = 1,
                                          .devices = &f}});
}

static const struct hsp_action *ended(const struct cw_world *w)
{
    return w->c->check.active ? NULL : cw_find(w, HSP_ACT_REPLY);
}

static void devices_then_pairs(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    begin(&w, 0, NULL, false);
    assert_string_equal(cw_fact(&w, "admin.check"), "3 nodes, 3 pairs");
    for (uint32_t i = 0; i < 3; i++) { /* different hosts: all at once */
        assert_int_equal(order_to(&w, i + 1)->what, HSP_CHECK_COMPUTE);
    }
    begin(&w, 0, NULL, false); /* one at a time */
    assert_int_equal(cw_find(&w, HSP_ACT_REPLY)->status, HSP_ESTATE);
    answer(&w, 1, "");
    answer(&w, 0, "");
    assert_null(order_to(&w, 1)); /* links only when no device is measured any more */
    answer(&w, 2, "");
    const struct hsp_m_check *a = order_to(&w, 1), *b = order_to(&w, 2);
    assert_true(a->what == HSP_CHECK_LINK && b->what == HSP_CHECK_LINK && a->seq == b->seq);
    assert_true(a->rank == 0 && b->rank == 1 && a->tls);
    assert_string_equal(a->peer, "n1");
    assert_string_equal(a->peer_address, "h1:1");
    assert_string_equal(b->peer_address, "h0:1");
    assert_null(order_to(&w, 3)); /* each node one at a time */
    answer(&w, 0, "");
    assert_null(cw_find(&w, HSP_ACT_CHECK)); /* the other end still measures */
    answer(&w, 0, "");                       /* said twice */
    assert_null(cw_find(&w, HSP_ACT_CHECK));
    answer(&w, 1, "");
    assert_true(order_to(&w, 1)->seq == order_to(&w, 3)->seq && order_to(&w, 2) == NULL);
    answer(&w, 0, "");
    answer(&w, 2, "");
    answer(&w, 1, "");
    answer(&w, 2, "n1 cannot be reached");
    assert_int_equal(ended(&w)->status, HSP_OK);
    assert_int_equal(ended(&w)->request, 5);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(order_to(&w, i + 1)->what, HSP_CHECK_END);
    }
    const struct hsp_check *k = &w.c->check;
    assert_int_equal(k->pairs[0].state, HSP_CHECK_DONE);
    assert_true(k->pairs[0].end[0].bytes_per_s == 1e8 && k->pairs[0].end[1].bytes_per_s == 1e8 + 1);
    assert_string_equal(k->pairs[0].transport, "tls");
    assert_int_equal(k->pairs[2].state, HSP_CHECK_FAILED);
    assert_string_equal(k->pairs[2].why, "n2: n1 cannot be reached");
    assert_int_equal(k->nodes[2].n_devices, 1);
    cw_end(&w);
}

/* A link that hspmdd is to measure for itself waits for the end of the check, and no longer. */
static void a_link_that_is_doubted_is_measured_behind_it(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    begin(&w, 0, NULL, false);
    hsp_ci_pair_doubt(w.c, 0, 1);
    for (uint32_t i = 0; i < 4; i++) { /* devices, then the link */
        assert_false(w.c->probe.active);
        answer(&w, i % 2, "");
    }
    assert_int_equal(ended(&w)->status, HSP_OK);
    assert_true(w.c->probe.active);
    cw_end(&w);
}

static void a_host_does_one_thing_at_a_time(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    for (uint32_t i = 0; i < 2; i++) {
        (void)snprintf(w.c->nodes[i].dev[0].address, HSP_ADDRESS_MAX, "10.0.0.1:%u", 40 + i);
    }
    begin(&w, 0, NULL, false);
    assert_non_null(order_to(&w, 1));
    assert_null(order_to(&w, 2));
    assert_non_null(order_to(&w, 3));
    answer(&w, 0, "");
    assert_non_null(order_to(&w, 2));
    answer(&w, 1, "");
    answer(&w, 2, "");
    assert_true(order_to(&w, 1) != NULL && order_to(&w, 2) != NULL);
    cw_end(&w);
}

/* A node that executes a job is left alone, also one that begins to meanwhile. */
static void busy_nodes_are_left_out(void **state)
{
    (void)state;
    static const char *const two[] = {"n0", "n2"};
    struct cw_world w;
    cw_begin(&w, 3, 1);
    (void)cw_admin(
        &w, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = "n2", .reason = "test"});
    cw_run_job(&w, 2);
    begin(&w, 2, two, false);
    assert_null(order_to(&w, 1));
    assert_int_equal(w.c->check.nodes[0].state, HSP_CHECK_SKIPPED);
    assert_string_equal(w.c->check.nodes[0].why, "n0 executes job j");
    assert_non_null(order_to(&w, 3));
    answer(&w, 2, "");
    assert_int_equal(ended(&w)->status, HSP_OK);
    assert_int_equal(w.c->check.pairs[0].state, HSP_CHECK_SKIPPED);
    begin(&w, 2, two, true);
    assert_non_null(order_to(&w, 1));
    cw_end(&w);
    cw_begin(&w, 2, 1);
    begin(&w, 0, NULL, false);
    answer(&w, 0, "");
    cw_run_job(&w, 2);
    answer(&w, 1, "");
    assert_int_equal(ended(&w)->status, HSP_OK);
    assert_int_equal(w.c->check.pairs[0].state, HSP_CHECK_SKIPPED);
    cw_end(&w);
}

static void agents_that_go_or_stay_silent_end_it_too(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    begin(&w, 0, NULL, false);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    assert_int_equal(w.c->check.nodes[0].state, HSP_CHECK_FAILED);
    assert_string_equal(w.c->check.nodes[0].why, "n0 is not connected");
    answer(&w, 1, "");
    answer(&w, 2, "");
    assert_non_null(order_to(&w, 3)); /* the pair that is left */
    answer(&w, 1, "");
    for (uint32_t i = 0; i < 50 && w.c->check.active; i++) { /* n2 beats, but does not answer */
        w.now += 499;
        cw_msg(&w, 2 + i % 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        w.now++;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        assert_true(!w.c->check.active || hsp_cluster_deadline(w.c) <= w.now + 20000);
    }
    assert_int_equal(ended(&w)->status, HSP_OK);
    assert_string_equal(w.c->check.pairs[2].why, "n2 did not answer within 20 s");
    assert_string_equal(w.c->check.pairs[0].why, "n0 is not connected");
    cw_end(&w);
}

static void who_asked_may_go(void **state)
{
    (void)state;
    static const char *const unknown[] = {"n0", "x"};
    struct cw_world w;
    cw_begin(&w, 2, 1);
    begin(&w, 2, unknown, false);
    assert_int_equal(cw_find(&w, HSP_ACT_REPLY)->status, HSP_ENOENT);
    begin(&w, 0, NULL, false);
    struct hsp_admin_event stop = {.verb = HSP_ADMIN_CHECK_STOP, .request = 6};
    cw_step(&w, (struct hsp_event){.type = HSP_EV_ADMIN, .u.admin = stop});
    assert_true(w.c->check.active); /* another request */
    stop.request = 5;
    assert_int_equal(cw_admin(&w, stop), HSP_ECANCELED);
    assert_non_null(cw_fact(&w, "check.stopped"));
    assert_int_equal(order_to(&w, 1)->what, HSP_CHECK_END);
    assert_int_equal(order_to(&w, 2)->what, HSP_CHECK_END);
    begin(&w, 0, NULL, false); /* earlier questions count no more */
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKED,
                            .u.checked = {.check = w.c->check.number - 1, .seq = 1, .fault = ""}});
    assert_int_equal(w.c->check.nodes[0].state, HSP_CHECK_RUNS);
    cw_end(&w);
    cw_begin(&w, 0, 1);
    begin(&w, 0, NULL, false);
    assert_int_equal(cw_find(&w, HSP_ACT_REPLY)->status, HSP_ESTATE);
    cw_end(&w);
}

/* A node that an earlier hspmdd has asked may answer only now. */
static void what_was_asked_before_a_restart(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    begin(&w, 0, NULL, false);
    uint32_t number = w.c->check.number;
    assert_int_equal(seq_of(&w, 0), 1);
    cw_restart_nodes(&w, 2);
    begin(&w, 0, NULL, false);
    assert_int_equal(seq_of(&w, 0), 1);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKED,
                            .u.checked = {.check = number, .seq = 1, .fault = "", .address = "x"}});
    assert_int_equal(w.c->check.nodes[0].state, HSP_CHECK_RUNS);
    answer(&w, 0, "");
    assert_int_equal(w.c->check.nodes[0].state, HSP_CHECK_DONE);
    w.c->check.number = UINT32_MAX; /* 0 says that there was none */
    struct hsp_admin_event stop = {.verb = HSP_ADMIN_CHECK_STOP, .request = 5};
    assert_int_equal(cw_admin(&w, stop), HSP_ECANCELED);
    begin(&w, 0, NULL, false);
    assert_int_not_equal(w.c->check.number, 0);
    cw_end(&w);
}

HSP_TEST_FILE(node_check_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_then_pairs),
        cmocka_unit_test(a_host_does_one_thing_at_a_time),
        cmocka_unit_test(busy_nodes_are_left_out),
        cmocka_unit_test(a_link_that_is_doubted_is_measured_behind_it),
        cmocka_unit_test(agents_that_go_or_stay_silent_end_it_too),
        cmocka_unit_test(who_asked_may_go),
        cmocka_unit_test(what_was_asked_before_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
