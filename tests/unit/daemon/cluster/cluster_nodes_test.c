/* Tests nodes as the coordinator sees them: hello, heartbeats, links, drains. */
#include "tests/unit/daemon/cluster/cluster_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/measure.h"
#include "daemon/cluster/namesake.h"
#include "daemon/cluster/plan_info.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

static void hello_refused(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    cw_msg(&w, 9, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    assert_string_equal(cw_find(&w, HSP_ACT_CLOSE)->text, "a message before hello");
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = 19,
                                    .protocol_oldest = 19,
                                    .node = "a",
                                    .address = "",
                                    .incarnation = cw_secret(1)}};
    cw_msg(&w, 10, m);
    assert_string_equal(cw_find(&w, HSP_ACT_CLOSE)->text,
                        "the agent speaks protocol 19, hspmdd protocol 14 to 18: upgrade hspmdd");
    assert_null(cw_find(&w, HSP_ACT_SEND)); /* FENCED would cost it its executors */
    m.u.hello.protocol_oldest = 17;
    m.u.hello.incarnation = cw_secret(0);
    m.u.hello.term = 5;
    cw_msg(&w, 11, m);
    assert_string_equal(cw_fact(&w, "node.parked"),
                        "it has obeyed a newer hspmdd of this cluster: term 5, here 1");
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 1);
    assert_false(w.c->behind); /* the agent is no member */
    m.u.hello.term = 1;
    m.u.hello.node = "No Name";
    cw_msg(&w, 12, m);
    assert_string_equal(cw_find(&w, HSP_ACT_CLOSE)->text, "not a node name");
    m.u.hello.node = "new"; /* of a range with ours in it */
    m.u.hello.protocol_oldest = 12;
    m.u.hello.protocol = 99;
    cw_msg(&w, 13, m);
    assert_int_equal(cw_find(&w, HSP_ACT_SEND)->msg->type, HSP_MSG_WELCOME);
    assert_int_equal(cw_find(&w, HSP_ACT_SEND)->msg->u.welcome.protocol, 18);
    cw_end(&w);
}

/* Impossible cards are ignored: a card with a wrong name or a wrong speed, and a device at a card
 * that is not in the list. */
static void cards_are_checked(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_m_card card[2] = {{"eth0", 0}, {"ib0", 200}};
    struct hsp_m_device dev = {.index = 0,
                               .card = 1,
                               .kind = "cpu",
                               .speed = 1,
                               .mem_bytes = 1,
                               .up = true,
                               .address = "x"};
    const struct {
        const char *name;
        double gbit_per_s;
        uint32_t device;
    } wrong[] = {{"", 1, 0},    {"a b", 1, 0},  {"a\n", 1, 0},         {"a", -1, 0},
                 {"a", 1e9, 0}, {"a", 1e-9, 0}, {"a", (double)NAN, 0}, {"ib0", 200, 2}};
    cw_begin(&w, 0, 0);
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = "a",
                                    .address = "",
                                    .n_cards = 2,
                                    .cards = card,
                                    .n_devices = 1,
                                    .devices = &dev}};
    cw_msg(&w, 11, m);
    const struct hsp_cluster_node *n = hsp_cluster_node_by_name(w.c, "a");
    assert_int_equal(n->n_cards, 2);
    assert_string_equal(n->card[1].name, "ib0");
    assert_near(n->card[1].gbit_per_s, 200, 0);
    assert_int_equal(n->dev[0].profile.card, 1);
    m.u.hello.incarnation = n->secret;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        card[1] = (struct hsp_m_card){wrong[i].name, wrong[i].gbit_per_s};
        dev.card = wrong[i].device;
        cw_msg(&w, 11, m);
        assert_int_equal(hsp_cluster_node_by_name(w.c, "a")->n_cards, 0);
        assert_string_equal(cw_fact(&w, "node.cards"), "its network cards make no sense");
    }
    cw_end(&w);
}

/* Two nodes have one name: a node that is connected and live stays; when it is silent, the second
 * one is taken for its restart. */
static void a_second_node_of_that_name_is_refused(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    cw_hello(&w, 13, "n0", 0, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_FENCED), 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 0);
    assert_non_null(strstr(cw_find(&w, HSP_ACT_CLOSE)->text, "another agent of node n0"));
    assert_int_equal(cw_find(&w, HSP_ACT_CLOSE)->conn, 13);
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n0")->incarnation, 1);
    assert_non_null(
        strstr(cw_fact(&w, "node.namesake"), "another agent under this name is refused"));
    assert_non_null(hsp_cluster_namesake(hsp_cluster_node_by_name(w.c, "n0"), w.now));
    assert_null(hsp_cluster_namesake(hsp_cluster_node_by_name(w.c, "n0"), w.now + 180000));
    cw_hello(&w, 15, "n0", 0, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_FENCED), 1);
    assert_null(cw_fact(&w, "node.namesake")); /* once in ten minutes */
    w.now += 1500;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n0")->state, HSP_NODE_SUSPECT);
    cw_hello(&w, 14, "n0", 0, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
    assert_string_equal(cw_fact(&w, "node.dead"), "a new agent took its place");
    cw_end(&w);
}

/* A silent node comes back only as another agent. */
static void who_is_silent_for_the_bound_is_fenced(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    w.now += 1500;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    w.now += 1500;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_string_equal(cw_fact(&w, "node.dead"), "silent for 3000 ms");
    cw_hello(&w, 13, "n0", 1, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_FENCED), 1);
    cw_hello(&w, 14, "n0", 0, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n0")->incarnation, 2);
    cw_end(&w);
}

static void hello_as(struct cw_world *w, uint32_t conn, const char *node, struct hsp_digest is,
                     struct hsp_digest was)
{
    struct hsp_m_holding h = {.job = 1, .plan = 1, .rank = 1, .owner = 1, .version = 99};
    cw_say_hello(w, conn,
                 (struct hsp_m_hello){
                     .node = node, .incarnation = is, .was = was, .n_holdings = 1, .holdings = &h});
}

static void refused(const struct cw_world *w, const char *why)
{
    assert_int_equal(cw_count_sent(w, HSP_MSG_FENCED), 1);
    assert_int_equal(cw_count_sent(w, HSP_MSG_WELCOME), 0);
    assert_string_equal(cw_find(w, HSP_ACT_CLOSE)->text, why);
}

/* An agent cannot take the place of a live node by a guessed incarnation, nor by the name alone. */
static void an_incarnation_is_not_guessed(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    struct hsp_digest none = cw_secret(0), n1 = w.c->nodes[1].secret;
    for (uint64_t i = 0; i < 200; i++) {
        hello_as(&w, 20, "n1", (struct hsp_digest){i / 100, i % 100 + 1}, none);
        refused(&w, "another process has been node n1 since; this one connects again by itself; "
                    "if two hosts have this name, set `node` of one");
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 20});
    }
    cw_hello(&w, 20, "n7", 2, 1);
    refused(&w, "node n7 is not known here any more; it connects again by itself");
    assert_int_equal(w.c->n_nodes, 2);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    hello_as(&w, 21, "n1", none, none);
    refused(&w, "node n1 may still be running: an agent without its state folder joins when the "
                "node has been silent for 3000 ms");
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_SUSPECT);
    hello_as(&w, 22, "n1", n1, none);
    assert_int_equal(w.c->nodes[1].conn, 22);
    assert_int_equal(w.c->nodes[1].incarnation, 2);
    cw_end(&w);
}

/* n1 of a running job dies. Its state folder says whether its state is that of the job. */
static void the_state_folder_proves_which_node_it_is(void **state)
{
    (void)state;
    for (int proof = 0; proof < 3; proof++) { /* none, the last incarnation, the one before */
        struct cw_world w;
        cw_begin(&w, 2, 1);
        struct hsp_digest first = w.c->nodes[1].secret;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
        hello_as(&w, 3, "n1", cw_secret(0),
                 first); /* the agent began again, and did not write the new one down */
        cw_uplink(&w, 3, 1e-4, 1e8);
        assert_int_equal(w.c->nodes[1].same_since, 2);
        assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
        cw_plan(&w, 1);
        cw_ready(&w, 1, 0, 5);
        cw_msg(
            &w, 3,
            (struct hsp_msg){
                .type = HSP_MSG_READY,
                .epoch = 1,
                .u.ready = {.job = 1, .data_bytes = 7, .data_tokens = 3, .data_digest = {5, 1}}});
        cw_pass(&w, 1, 0, cw_even, 2);
        struct hsp_digest last = w.c->nodes[1].secret;
        cw_restart(&w, NULL);
        cw_hello_running(&w, 1, "n0", w.c->nodes[0].incarnation, 1, 1);
        for (uint32_t i = 0; i < 6; i++) {
            w.now += 500;
            cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
        w.now += 2;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        assert_int_equal(w.c->nodes[1].state, HSP_NODE_DEAD);
        hello_as(&w, 5, "n1", cw_secret(0), proof == 0 ? cw_secret(0) : proof == 1 ? last : first);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 0); /* nothing is deleted */
        assert_int_equal(w.c->nodes[1].same_since, proof == 0 ? 4 : 2);
        assert_int_equal(cw_job(&w, 1)->n_held, proof == 0 ? 0 : 1);
        cw_end(&w);
    }
}

/* n1 is silent until it counts as dead, while n0 sends heartbeats. */
static void n1_dies(struct cw_world *w, uint32_t conn)
{
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = conn});
    for (uint32_t i = 0; i < 7; i++) {
        w->now += 500;
        cw_msg(w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    }
    cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(w->c->nodes[1].state, HSP_NODE_DEAD);
}

/* Job 1 runs on n0 and n1, and n1 dies. Returns the secret of its folder, which has state. */
static struct hsp_digest n1_dies_with_state(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    cw_run_job(w, 2);
    const struct hsp_digest right = w->c->nodes[1].secret;
    n1_dies(w, 2);
    return right;
}

/* Somebody mistypes state_dir: n1 joins without its state. With the right folder it is the n1 of
 * the job again, also over a restart of hspmdd, and as often as that happens; the other folder is
 * itself, too. */
static void a_mistyped_state_folder_costs_nothing(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_digest shown[2] = {n1_dies_with_state(&w), cw_secret(0)}; /* right, mistyped */
    for (uint32_t turn = 0; turn < 6; turn++) {
        bool typo = turn % 2 == 0;
        uint32_t conn = 20 + turn;
        if (turn == 3) {
            cw_restart(&w, NULL);
            cw_hello_running(&w, 1, "n0", w.c->nodes[0].incarnation, 1, 1);
        }
        hello_as(&w, conn, "n1", cw_secret(0), shown[typo]);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 0); /* nothing is deleted */
        assert_int_equal(cw_job(&w, 1)->n_held, !typo);
        assert_int_equal(w.c->nodes[1].same_since, typo ? 3 : 2);
        assert_int_equal(strstr(cw_fact(&w, "node.joined"), "where state_dir is mistyped") != NULL,
                         typo);
        shown[typo] = w.c->nodes[1].secret;
        n1_dies(&w, conn);
    }
    /* shows an incarnation that it never was */
    hello_as(&w, 30, "n1", cw_secret(0), (struct hsp_digest){66, 6});
    assert_int_equal(cw_job(&w, 1)->n_held, 0);
    assert_int_equal(w.c->nodes[1].same_since, w.c->nodes[1].incarnation);
    cw_end(&w);
}

/* After a reboot the state folder of n1 is empty: the event says so, and is no warning as for the
 * state folder of another node. */
static void a_reboot_is_no_mistake(void **state)
{
    (void)state;
    for (uint32_t other = 0; other < 2; other++) {
        struct cw_world w;
        const struct hsp_fact *f = NULL;
        cw_begin(&w, 2, 1);
        cw_run_job(&w, 2);
        n1_dies(&w, 2);
        hello_as(&w, 20, "n1", cw_secret(0), (struct hsp_digest){other, other});
        for (uint32_t i = 0; i < w.a.n && f == NULL; i++) {
            const struct hsp_action *a = &w.a.item[i];
            f = a->type == HSP_ACT_FACT && strcmp(a->u.fact->type, "node.joined") == 0 ? a->u.fact
                                                                                       : NULL;
        }
        assert_non_null(f);
        assert_int_equal(f->severity, other ? HSP_SEV_WARN : HSP_SEV_NOTICE);
        assert_string_equal(
            f->reason,
            other ? "incarnation 3, 1 device; its state folder is not that of this node: where "
                    "state_dir is mistyped, start it with the right one, which still has the state "
                    "of "
                    "job j"
                  : "incarnation 3, 1 device; its state folder is empty, as after a reboot: where "
                    "state_dir is mistyped, start it with the right one, which still has the state "
                    "of "
                    "job j");
        cw_end(&w);
    }
}

/* Somebody mistypes state_dir several times, and the job begins an epoch with the right folder each
 * time in between. */
static void a_state_folder_is_mistyped_again(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_digest shown[2] = {n1_dies_with_state(&w), cw_secret(0)}; /* right, mistyped */
    for (uint32_t turn = 0; turn < 6; turn++) {
        bool typo = turn % 2 == 0;
        hello_as(&w, 20 + turn, "n1", cw_secret(0), shown[typo]);
        assert_int_equal(cw_job(&w, 1)->n_held, !typo);
        shown[typo] = w.c->nodes[1].secret;
        for (uint32_t i = 0; !typo && i < 2; i++) {
            const struct hsp_job_plan *p = &cw_job(&w, 1)->plans[0];
            p->holder[i] = hsp_ci_node(w.c, hsp_ci_holder(&p->info, i))->incarnation; /* as GO */
        }
        n1_dies(&w, 20 + turn);
    }
    cw_end(&w);
}

/* hspmdd begins again, and all nodes of a job come with other folders. How far the job had come is
 * not known, and it has no checkpoint: it does not begin anew by itself, and the right folders
 * still have its state. */
static void a_job_does_not_begin_anew_behind_a_restart(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    const struct hsp_digest right[2] = {w.c->nodes[0].secret, w.c->nodes[1].secret};
    cw_restart(&w, NULL);
    for (uint32_t turn = 0; turn < 2; turn++) { /* other folders, then the right ones */
        for (uint32_t i = 0; i < 8; i++) {
            w.now += 500;
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        for (uint32_t i = 0; i < 2; i++) {
            const struct hsp_digest other = {66, i};
            hello_as(&w, 10 * turn + 11 + i, i == 0 ? "n0" : "n1", cw_secret(0),
                     turn ? right[i] : other);
            assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
        }
        for (hsp_msec ms = 0; turn == 0 && ms < 2u * w.c->cfg.state_wait_ms; ms += 500) {
            w.now += 500;
            for (uint32_t i = 0; i < 2; i++) {
                cw_msg(&w, 11 + i, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            }
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
        assert_non_null(strstr(cw_job(&w, 1)->reason, "its newest step is not known here"));
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 11});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 12});
    }
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    cw_end(&w);
}

/* n1 has executed job 1, and another folder under its name job 2: each is known again by its
 * own. */
static void two_folders_with_state(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_m_step first = {.job = 2, .step = 1};
    struct hsp_digest shown[2] = {n1_dies_with_state(&w), cw_secret(0)};
    hello_as(&w, 20, "n1", cw_secret(0), cw_secret(0));
    assert_int_equal(cw_submit(&w, "k", 9, 1, 1), HSP_OK);
    assert_true(w.asked_job == 2 && w.n_asked == 1 && HSP_DEVICE_NODE(w.asked[0]) == 1);
    cw_plan(&w, 2);
    cw_msg(&w, 20,
           (struct hsp_msg){.type = HSP_MSG_READY,
                            .epoch = cw_job(&w, 2)->att.epoch,
                            .u.ready = {.job = 2, .data_bytes = 7, .data_tokens = 3}});
    cw_msg(&w, 20, (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 1, .u.step = first});
    assert_int_equal(cw_job(&w, 2)->state, HSP_JOB_RUNNING);
    shown[1] = w.c->nodes[1].secret;
    n1_dies(&w, 20);
    for (uint32_t turn = 0; turn < 4; turn++) {
        hello_as(&w, 30 + turn, "n1", cw_secret(0), shown[turn % 2]);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(hsp_ci_proven_member(w.c, w.c->jobs[i], &w.c->nodes[1]),
                             turn % 2 == i);
        }
        shown[turn % 2] = w.c->nodes[1].secret;
        n1_dies(&w, 30 + turn);
    }
    cw_end(&w);
}

/* A container without a volume begins with an empty state folder each time. Such a folder has no
 * state, so it never replaces the folder that has the state of the node. */
static void agents_without_a_folder_push_nobody_out(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_digest right = n1_dies_with_state(&w);
    for (uint32_t i = 0; i < 5; i++) {
        hello_as(&w, 20 + i, "n1", cw_secret(0), cw_secret(0));
        assert_int_equal(cw_job(&w, 1)->n_held, 0);
        n1_dies(&w, 20 + i);
    }
    hello_as(&w, 30, "n1", cw_secret(0), right);
    assert_int_equal(cw_job(&w, 1)->n_held, 1);
    assert_int_equal(w.c->nodes[1].same_since, 2);
    assert_null(strstr(cw_fact(&w, "node.joined"), "mistyped"));
    cw_end(&w);
}

static void of_nodes(struct cw_world *w, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%u", i);
        cw_hello(w, i + 1, name, 0, 1);
    }
}

/* n0 and n1 are measured, two of four others are being measured. */
static void measuring(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    w->c->cfg.measures = 2;
    of_nodes(w, 2, 6);
}

static void tick(struct cw_world *w, hsp_msec later)
{
    w->now += later;
    cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
}

/* Few nodes are measured at a time, each node once, whatever it answers. */
static void links_are_measured_in_turn(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    w.c->cfg.measures = 2;
    for (uint32_t i = 2; i < 6; i++) {
        of_nodes(&w, i, i + 1);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_MEASURE), i < 4);
        assert_int_equal(hsp_cluster_measures(w.c, i + 1), i < 4);
    }
    assert_false(hsp_cluster_measures(w.c, 1) || hsp_cluster_measures(w.c, 99));
    cw_uplink(&w, 3, 2e-3, 5e6); /* done: the next one's turn */
    assert_int_equal(cw_count_sent(&w, HSP_MSG_MEASURE), 1);
    assert_true(hsp_cluster_measures(w.c, 5) && !hsp_cluster_measures(w.c, 3));
    assert_true(w.c->nodes[2].measured && w.c->nodes[2].uplink.bytes_per_s == 5e6);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 4}); /* gone: the last one */
    assert_true(hsp_cluster_measures(w.c, 6) && !hsp_cluster_measures(w.c, 4));
    cw_hello(&w, 9, "n3", w.c->nodes[3].incarnation, 1); /* back, to the end of the line */
    assert_int_equal(cw_count_sent(&w, HSP_MSG_MEASURE), 0);
    cw_uplink(&w, 6, 0, 5e6);
    assert_false(w.c->nodes[5].measured);
    assert_non_null(cw_fact(&w, "node.unmeasured"));
    assert_true(hsp_cluster_measures(w.c, 9));
    cw_hello(&w, 6, "n5", w.c->nodes[5].incarnation, 1);
    assert_false(hsp_cluster_measures(w.c, 6));
    cw_end(&w);
}

static void a_measurement_that_takes_too_long_ends(void **state)
{
    (void)state;
    struct cw_world w;
    measuring(&w);
    w.c->cfg.measure_ms = 20; /* of turns from now on */
    cw_uplink(&w, 3, 1e-4, 1e8);
    assert_true(hsp_cluster_measures(w.c, 5));
    assert_true(hsp_cluster_deadline(w.c) <= w.now + 20);
    tick(&w, 19);
    assert_true(hsp_cluster_measures(w.c, 5));
    tick(&w, 1);
    assert_non_null(cw_fact(&w, "node.unmeasured"));
    assert_false(hsp_cluster_measures(w.c, 5));
    assert_true(hsp_cluster_measures(w.c, 6)); /* the next one's turn */
    cw_end(&w);
}

static void figures_that_no_link_has_change_nothing(void **state)
{
    (void)state;
    static const double wrong[][2] = {
        {(double)NAN, 1e6}, {(double)INFINITY, 1e6},  {-1, 1e6},           {61, 1e6},
        {1e-3, 0.5},        {1e-3, (double)INFINITY}, {1e-3, (double)NAN}, {1e-3, -1}};
    struct cw_world w;
    measuring(&w);
    cw_uplink(&w, 3, 2e-3, 5e6);
    for (size_t i = 0; i < HSP_ARRAY_LEN(wrong); i++) {
        cw_uplink(&w, 3, wrong[i][0], wrong[i][1]);
        assert_true(w.c->nodes[2].uplink.latency_s == 2e-3 &&
                    w.c->nodes[2].uplink.bytes_per_s == 5e6);
    }
    cw_end(&w);
}

static void a_link_is_measured_again_for_another_agent(void **state)
{
    (void)state;
    struct cw_world w;
    measuring(&w);
    w.c->cfg.measures = 9;
    cw_uplink(&w, 3, 2e-3, 5e6);
    cw_hello(&w, 3, "n2", w.c->nodes[2].incarnation, 1); /* a mere reconnect */
    assert_int_equal(cw_count_sent(&w, HSP_MSG_MEASURE), 0);
    assert_true(w.c->nodes[2].measured);
    cw_hello(&w, 3, "n2", 0, 1); /* another agent: perhaps another link */
    assert_int_equal(cw_count_sent(&w, HSP_MSG_MEASURE), 1);
    assert_false(w.c->nodes[2].measured);
    cw_end(&w);
}

/* New measurements of links do not change plans that were made before. */
static void new_figures_ask_for_no_plan(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    for (uint32_t i = 0; i < 2; i++) {
        cw_uplink(&w, i + 1, 1, 1e3);
        assert_true(w.c->nodes[i].uplink.latency_s == 1);
        assert_null(cw_find(&w, HSP_ACT_START_PLAN));
    }
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_null(cw_find(&w, HSP_ACT_START_PLAN));
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_end(&w);
}

static void one_lost_beat(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    w.now += 1400;
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT, .u.beat.seq = 3});
    assert_int_equal(cw_count_sent(&w, HSP_MSG_HEARTBEAT), 1);
    assert_null(cw_fact(&w, "node.suspect")); /* its beat may be the next to be read */
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_string_equal(cw_fact(&w, "node.suspect"), "a heartbeat is missing"); /* n1 */
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    assert_string_equal(cw_fact(&w, "node.live"), "heard again");
    assert_null(cw_find(&w, HSP_ACT_START_PLAN));
    cw_end(&w);
}

/* If there was no event for a minute, hspmdd was stopped: no node counts as silent. */
static void own_stall_kills_nobody(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    w.now += 60000;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_non_null(cw_fact(&w, "coordinator.stalled"));
    assert_null(cw_fact(&w, "node.dead"));
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT}); /* was waiting to be read */
    hsp_msec at = hsp_cluster_deadline(w.c);
    assert_true(at > w.now && at <= w.now + 3000);
    while (w.now < at + 3000) { /* the other one is gone indeed */
        w.now += 100;
        cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        if (cw_job(&w, 1)->state != HSP_JOB_RUNNING) {
            break;
        }
    }
    assert_int_not_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_end(&w);
}

/* At the last tick before the stall, n1 had been silent for almost the bound. After the stall n1
 * has time for a heartbeat. */
static void after_a_stall_there_is_time_for_a_beat(void **state)
{
    (void)state;
    for (int beats = 0; beats < 2; beats++) {
        struct cw_world w;
        cw_begin(&w, 2, 1);
        cw_run_job(&w, 2);
        hsp_msec heard = w.now;
        while (w.now < heard + w.c->cfg.dead_ms - 10) {
            w.now += 10;
            cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        assert_int_equal(w.c->nodes[1].state, HSP_NODE_SUSPECT);
        assert_true(hsp_cluster_deadline(w.c) == heard + w.c->cfg.dead_ms);
        w.now += 60000;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        assert_non_null(cw_fact(&w, "coordinator.stalled"));
        assert_int_equal(w.c->nodes[1].state, HSP_NODE_SUSPECT);
        hsp_msec late = w.now + w.c->cfg.heartbeat_ms + w.c->cfg.suspect_ms;
        while (w.now < late) {
            assert_int_equal(w.c->nodes[1].state, HSP_NODE_SUSPECT);
            w.now++;
            cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            if (beats != 0 && w.now == late) {
                cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            }
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        assert_int_equal(w.c->nodes[1].state, beats != 0 ? HSP_NODE_LIVE : HSP_NODE_DEAD);
        cw_end(&w);
    }
}

/* No node is heard, then hspmdd is stopped until just after the bound of the first node. That node
 * does not count as dead, because hspmdd did not listen for so long. */
static void a_stall_before_the_bound(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    hsp_msec heard = w.now;
    w.now += w.c->cfg.suspect_ms;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_SUSPECT);
    w.now = heard + w.c->cfg.dead_ms + 1;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_non_null(cw_fact(&w, "coordinator.stalled"));
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_SUSPECT);
    cw_end(&w);
}

/* A node shows the reason of a drain until the drain is over; an event has the reason why it is
 * over. */
static void reasons_of_drains_are_told(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_admin_event a = {.verb = HSP_ADMIN_DRAIN, .node = "n0", .reason = "new disk"};
    cw_begin(&w, 1, 1);
    assert_int_equal(cw_admin(&w, a), HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.drain"), "new disk");
    assert_string_equal(w.c->nodes[0].reason, "new disk");
    a.verb = HSP_ADMIN_UNDRAIN;
    a.reason = "disk is in";
    assert_int_equal(cw_admin(&w, a), HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.undrain"), "disk is in");
    assert_string_equal(w.c->nodes[0].reason, "");
    cw_end(&w);
}

/* When a node is back, the reason why it had gone is no longer shown. */
static void a_reason_goes_with_its_state(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_admin_event a = {.verb = HSP_ADMIN_DRAIN, .node = "n0", .reason = "new disk"};
    cw_begin(&w, 1, 1);
    const struct hsp_cluster_node *n = &w.c->nodes[0];
    w.unix_s = 1000;
    for (uint32_t drained = 0; drained < 2; drained++) {
        uint32_t conn = 5 + drained;
        for (int i = 0; i < 2; i++) {
            w.now += 1500;
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        assert_int_equal(n->state, HSP_NODE_DEAD);
        assert_int_equal(n->gone_s, 1000);
        assert_string_equal(n->reason, drained ? "new disk" : "silent for 3000 ms");
        cw_hello(&w, conn, "n0", 0, 1);
        assert_int_equal(n->state, HSP_NODE_LIVE);
        assert_string_equal(n->reason, drained ? "new disk" : "");
        assert_int_equal(n->gone_s, 0);
        if (!drained) {
            cw_msg(&w, conn,
                   (struct hsp_msg){.type = HSP_MSG_LEAVE, .u.leave.reason = "it is switched off"});
            assert_string_equal(n->reason, "it is switched off");
            cw_hello(&w, conn, "n0", n->incarnation, 1);
            assert_string_equal(n->reason, "");
            assert_int_equal(cw_admin(&w, a), HSP_OK);
        }
    }
    cw_end(&w);
}

static void a_drain_is_over_once(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_admin_event a = {.verb = HSP_ADMIN_DRAIN, .node = "n0", .reason = "new disk"};
    cw_begin(&w, 1, 1);
    assert_int_equal(cw_admin(&w, a), HSP_OK);
    assert_string_equal(cw_fact(&w, "node.drained"), "new disk"); /* the node has nothing */
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "y"}});
    assert_null(cw_fact(&w, "node.drained"));
    a.verb = HSP_ADMIN_UNDRAIN;
    assert_int_equal(cw_admin(&w, a), HSP_OK);
    a.verb = HSP_ADMIN_DRAIN;
    assert_int_equal(cw_admin(&w, a), HSP_OK);
    assert_string_equal(cw_fact(&w, "node.drained"), "new disk"); /* another drain */
    cw_restart_nodes(&w, 1);
    assert_null(cw_fact(&w, "node.drained"));
    cw_end(&w);
}

static void a_long_reason_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 2; shift++) {
        struct cw_world w;
        char text[400];
        memset(text, 'x', shift);
        for (size_t i = shift; i + 2 < sizeof(text); i += 2) {
            memcpy(text + i, "\xc3\xa4", 3);
        }
        cw_begin(&w, 1, 1);
        assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN,
                                                               .node = "n0",
                                                               .reason = text}),
                         HSP_OK);
        const char *kept = w.c->nodes[0].reason;
        assert_true(strlen(kept) > 100 && hsp_utf8_valid((const uint8_t *)kept, strlen(kept)));
        cw_end(&w);
    }
}

HSP_TEST_FILE(cluster_nodes_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_refused),
        cmocka_unit_test(cards_are_checked),
        cmocka_unit_test(a_second_node_of_that_name_is_refused),
        cmocka_unit_test(who_is_silent_for_the_bound_is_fenced),
        cmocka_unit_test(an_incarnation_is_not_guessed),
        cmocka_unit_test(the_state_folder_proves_which_node_it_is),
        cmocka_unit_test(a_mistyped_state_folder_costs_nothing),
        cmocka_unit_test(a_reboot_is_no_mistake),
        cmocka_unit_test(a_state_folder_is_mistyped_again),
        cmocka_unit_test(two_folders_with_state),
        cmocka_unit_test(agents_without_a_folder_push_nobody_out),
        cmocka_unit_test(a_job_does_not_begin_anew_behind_a_restart),
        cmocka_unit_test(links_are_measured_in_turn),
        cmocka_unit_test(a_measurement_that_takes_too_long_ends),
        cmocka_unit_test(figures_that_no_link_has_change_nothing),
        cmocka_unit_test(a_link_is_measured_again_for_another_agent),
        cmocka_unit_test(new_figures_ask_for_no_plan),
        cmocka_unit_test(one_lost_beat),
        cmocka_unit_test(own_stall_kills_nobody),
        cmocka_unit_test(after_a_stall_there_is_time_for_a_beat),
        cmocka_unit_test(a_stall_before_the_bound),
        cmocka_unit_test(reasons_of_drains_are_told),
        cmocka_unit_test(a_reason_goes_with_its_state),
        cmocka_unit_test(a_drain_is_over_once),
        cmocka_unit_test(a_long_reason_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
