/* Tests a crowd of agents that are no members: some have a place, the others are told to come
 * back. */
#include "daemon/cluster/crowd.h"

#include <stdio.h>
#include <string.h>

#include "daemon/cluster/parked.h"
#include "tests/unit/daemon/cluster/cluster_stories.h"

/* An agent @name from @source keeps @n_kept jobs of a cluster that nobody here knows. */
static void strange_hello(struct cw_world *w, uint32_t conn, const char *name, uint64_t source,
                          uint32_t n_kept)
{
    struct hsp_m_kept kept[HSP_MSG_KEPT];
    for (uint32_t i = 0; i < n_kept; i++) {
        kept[i] = (struct hsp_m_kept){
            .job = 1 + i, .name = "mist", .cluster = {1, 2}, .epoch = 5, .plan = 1};
    }
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = name,
                                    .address = "a",
                                    .n_kept = n_kept,
                                    .kept = kept}};
    cw_step(w, (struct hsp_event){.type = HSP_EV_MSG, .conn = conn, .source = source, .u.msg = &m});
}

static void many(struct cw_world *w, uint32_t first, uint32_t n, bool one_source, uint32_t n_kept)
{
    for (uint32_t i = first; i < first + n; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "x%u", i);
        strange_hello(w, 100 + i, name, one_source ? 7 : 1000 + i, n_kept);
    }
}

static const struct hsp_m_parked *turned_away(const struct cw_world *w, uint32_t conn)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type == HSP_ACT_SEND && a->conn == conn && a->msg->type == HSP_MSG_PARKED &&
            a->msg->u.parked.again_ms != 0) {
            return &a->msg->u.parked;
        }
    }
    return NULL;
}

/* The holder of a worker key parks as many agents as it likes: each other agent takes the place of
 * one of these, and a node that the store knows comes in, and stays. */
static void a_crowd_leaves_places_for_others(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    w.c->cfg.max_parked = 8;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    many(&w, 0, 20, true, 1);
    assert_int_equal(w.c->n_parked, 8);
    assert_non_null(hsp_cluster_parked_by_name(w.c, "x7"));
    assert_null(hsp_cluster_parked_by_name(w.c, "x8")); /* an agent with a place stays */
    assert_string_equal(cw_find(&w, HSP_ACT_CLOSE)->text, "too many agents that are no members");
    assert_non_null(turned_away(&w, 119));
    strange_hello(&w, 50, "y", 8, 1);
    assert_non_null(hsp_cluster_parked_by_name(w.c, "y"));
    assert_null(hsp_cluster_parked_by_name(w.c, "x0"));
    assert_string_equal(cw_find(&w, HSP_ACT_CLOSE)->text,
                        "another agent that is no member has its place");
    assert_non_null(turned_away(&w, 100));
    many(&w, 20, 9, false, 1);
    assert_int_equal(w.c->n_parked, 8);
    assert_non_null(hsp_cluster_parked_by_name(w.c, "x25"));
    assert_null(hsp_cluster_parked_by_name(w.c, "x26")); /* each source has one now */
    strange_hello(&w, 2, "n1", 9, 1);
    assert_int_equal(w.c->n_parked, 8);
    assert_non_null(hsp_cluster_parked_by_name(w.c, "n1"));
    w.now += HSP_CROWD_TURN_MS;
    many(&w, 30, 40, false, 1);
    assert_int_equal(w.c->n_parked, 8);
    assert_null(hsp_cluster_parked_by_name(w.c, "y"));
    assert_non_null(hsp_cluster_parked_by_name(w.c, "n1"));
    cw_end(&w);
}

/* A name costs nothing: those of nodes that are not here protect no crowd of one source. */
static void a_crowd_under_the_names_of_nodes(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    w.c->cfg.max_parked = 8;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    for (uint32_t i = 0; i < 12; i++) {
        strange_hello(&w, 50 + i, "n1", 7, 1);
    }
    many(&w, 0, 9, false, 1);
    assert_int_equal(w.c->n_parked, 8);
    for (uint32_t i = 0; i < 6; i++) { /* a quarter is left to the names */
        assert_non_null(hsp_ci_parked_of(w.c, 100 + i));
    }
    assert_null(hsp_ci_parked_of(w.c, 106));
    cw_end(&w);
}

/* Honest agents behind one address, and a place too few: nobody is pushed out again and again, and
 * in time each has a place. An agent without one is told when to come back, and once a minute
 * people are told. */
static void a_crowd_takes_turns(void **state)
{
    (void)state;
    struct cw_world w;
    uint32_t pushed = 0;
    cw_begin(&w, 1, 1);
    w.c->cfg.max_parked = 8;
    many(&w, 0, 8, true, 1);
    for (uint32_t s = 0; s < 300; s += 30) {
        strange_hello(&w, 60 + s, "z", 7, 1);
        const struct hsp_m_parked *m = turned_away(&w, 60 + s);
        assert_true(m != NULL && m->again_ms >= 30000 && m->again_ms < 60000);
        assert_int_equal(cw_fact(&w, "node.crowd") != NULL, s % 60 == 0);
        pushed += hsp_ci_parked_of(w.c, 100) == NULL;
        w.now += 30000;
    }
    assert_int_equal(pushed, 0);
    strange_hello(&w, 59, "z", 7, 1);
    assert_non_null(hsp_ci_parked_of(w.c, 59));
    assert_null(hsp_ci_parked_of(w.c, 100));
    strange_hello(&w, 58, "x0", 7, 1); /* x0 comes back, and z has only just come */
    assert_non_null(hsp_ci_parked_of(w.c, 59));
    assert_null(hsp_ci_parked_of(w.c, 101)); /* an agent that was here longer than z goes */
    cw_end(&w);
}

/* Nodes of the store have all places: strangers get none, another such node does in its turn. */
static void a_place_is_not_given_to_somebody_unknown(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    w.c->cfg.max_parked = 2;
    for (uint32_t i = 0; i < 3; i++) {
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = i + 1});
    }
    strange_hello(&w, 51, "n0", 1, 1);
    strange_hello(&w, 52, "n1", 2, 1);
    w.now += HSP_CROWD_TURN_MS;
    many(&w, 0, 3, false, 1);
    assert_string_equal(cw_find(&w, HSP_ACT_CLOSE)->text, "too many agents that are no members");
    assert_true(hsp_ci_parked_of(w.c, 51) != NULL && hsp_ci_parked_of(w.c, 52) != NULL);
    strange_hello(&w, 53, "n2", 3, 1);
    assert_true(hsp_ci_parked_of(w.c, 51) == NULL && hsp_ci_parked_of(w.c, 53) != NULL);
    cw_end(&w);
}

static void who_names_the_most_jobs_goes(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    many(&w, 0, HSP_MAX_PARKED_JOBS / HSP_MSG_KEPT, false, HSP_MSG_KEPT);
    assert_int_equal(w.c->n_parked_jobs, HSP_MAX_PARKED_JOBS);
    many(&w, 2000, 1, false, HSP_MSG_KEPT);
    assert_string_equal(cw_find(&w, HSP_ACT_CLOSE)->text, "too many agents that are no members");
    strange_hello(&w, 50, "y", 8, 2);
    assert_non_null(hsp_cluster_parked_by_name(w.c, "y"));
    assert_int_equal(w.c->n_parked_jobs, HSP_MAX_PARKED_JOBS - HSP_MSG_KEPT + 2);
    cw_end(&w);
}

/* An agent of another cluster has the name of a node that is gone, and goes with it. */
static void a_removed_node_frees_its_name(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    for (uint32_t ms = 0; ms < 2 * w.c->cfg.dead_ms; ms += 500) {
        w.now += 500;
        cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    strange_hello(&w, 9, "n1", 7, 1);
    assert_int_equal(hsp_cluster_parked_by_name(w.c, "n1")->as, HSP_PARKED_FOREIGN);
    assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_REMOVE, .node = "n1"}),
                     HSP_OK);
    assert_int_equal(cw_find(&w, HSP_ACT_CLOSE)->conn, 9);
    cw_end(&w);
}

HSP_TEST_FILE(crowd_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_removed_node_frees_its_name),
        cmocka_unit_test(a_crowd_leaves_places_for_others),
        cmocka_unit_test(a_crowd_under_the_names_of_nodes),
        cmocka_unit_test(a_crowd_takes_turns),
        cmocka_unit_test(a_place_is_not_given_to_somebody_unknown),
        cmocka_unit_test(who_names_the_most_jobs_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
