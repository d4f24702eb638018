/* Tests the question for checkpoints: which nodes get it, and the report on nodes that do not
 * answer. */
#include "daemon/app/api/ckpt_answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/marks.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/adopt_sample.h"

#define NODES   20u
#define NOTHING "nothing in checkpoint.path shows that the job began there: is that mounted?"

struct world {
    struct hsp_cluster *c;
    struct hsp_job *j;
    struct hsp_ckpt_answers x;
};

static void hello(struct hsp_cluster *c, uint32_t node, const char *kind)
{
    char name[HSP_NAME_MAX + 1];
    struct hsp_m_device dev = {
        .kind = kind, .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};
    (void)snprintf(name, sizeof name, "node-with-a-name-%02u", node);
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = name,
                                    .address = "x",
                                    .n_devices = 1,
                                    .devices = &dev}};
    (void)adopt_step(
        c, (struct hsp_event){
               .type = HSP_EV_MSG, .conn = node + 1, .random = {7, node + 1}, .u.msg = &m});
}

/* Makes @n nodes on connections 1, 2, ...; the nodes from number @replica holders on are replica
 * holders only. The last two nodes that compute keep state of the job. */
static void begin(struct world *w, uint32_t n, uint32_t replica_holders, bool shared)
{
    *w = (struct world){.c = adopt_core((struct hsp_digest){1, 0})};
    struct hsp_admin_event submit = {.verb = HSP_ADMIN_SUBMIT,
                                     .spec = {.name = "mist",
                                              .min = 100,
                                              .max = 200,
                                              .steps = 4,
                                              .checkpoint_path = "/srv/ckpt",
                                              .checkpoint_shared = shared}};
    (void)adopt_step(w->c, (struct hsp_event){.type = HSP_EV_ADMIN, .u.admin = submit});
    w->j = w->c->jobs[0];
    for (uint32_t i = 0; i < n; i++) {
        hello(w->c, i, i < replica_holders ? "cpu" : HSP_KIND_REPLICA_HOLDER);
    }
    for (uint32_t i = replica_holders; shared && i > 0 && i > replica_holders - 2; i--) {
        hsp_ci_mark(w->c, w->j, i - 1)->keeps = true;
    }
    assert_true(hsp_ckpt_answers_begin(&w->x, w->c));
}

static void finish(struct world *w)
{
    hsp_ckpt_answers_free(&w->x);
    (void)hsp_cluster_free(w->c);
}

static void says(struct world *w, uint32_t conn, uint32_t n, struct hsp_m_seen *seen,
                 const char *why)
{
    const struct hsp_m_ckpts m = {
        .job = 1, .n_seen = n, .seen = seen, .damaged = "", .reason = why};
    assert_true(hsp_ckpt_answers_take(&w->x, conn, &m));
    assert_false(hsp_ckpt_answers_take(&w->x, conn, &m)); /* once */
}

/* The node on connection @conn answers that nothing in the folder shows that the job began. */
static void lacks(struct world *w, uint32_t conn)
{
    const struct hsp_m_ckpts m = {.job = 1, .absent = true, .damaged = "", .reason = ""};
    assert_true(hsp_ckpt_answers_take(&w->x, conn, &m));
}

static void told(const struct world *w, size_t size, const char *text)
{
    char why[HSP_TEXT_MAX + 1];
    hsp_ckpt_answers_fault(&w->x, why, size);
    assert_string_equal(why, text);
}

/* The shared path is mounted on some nodes only, and not on the nodes with the smallest numbers.
 * The nodes that keep state of the job are asked first. */
static void of_a_shared_path_the_jobs_nodes_are_asked_first(void **state)
{
    (void)state;
    struct world w;
    struct hsp_m_seen seen = {40, 1, 1, 77};
    begin(&w, NODES, NODES - 1, true);
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 8);
    static const uint32_t first[] = {18, 19, 1, 2, 3, 4, 5, 6};
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(hsp_ckpt_answers_conn(&w.x, i), first[i]);
        if (i < 7) {
            lacks(&w, first[i]);
        }
    }
    assert_int_equal(w.x.n_left, 1);
    /* nobody sees any: it may be mounted on others alone */
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 11); /* the replica holder has none */
    assert_int_equal(hsp_ckpt_answers_conn(&w.x, 8), 7);
    assert_int_equal(w.x.n_left, 12);
    says(&w, 17, 1, &seen, "");
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 0);
    assert_int_equal(w.x.n_seen, 1);
    finish(&w);
    begin(&w, NODES, NODES, true);
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 8);
    says(&w, 20, 1, &seen, ""); /* one sees it: no more are asked */
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 0);
    finish(&w);
    begin(&w, NODES, NODES, true);
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 8);
    for (uint32_t i = 0; i < 8; i++) { /* one of the job's own sees that there is none */
        uint32_t conn = hsp_ckpt_answers_conn(&w.x, i);
        if (conn != 20) {
            lacks(&w, conn);
        } else {
            says(&w, conn, 0, NULL, "");
        }
    }
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 0);
    assert_int_equal(hsp_ckpt_answers_lack(&w.x), HSP_LACK_OTHERS);
    finish(&w);
    begin(&w, NODES, NODES, false);
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), NODES);
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 0);
    finish(&w);
    begin(&w, 2, 0, false);
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 0);
    told(&w, 200, "no node is connected");
    finish(&w);
}

static void who_could_not_look_is_named(void **state)
{
    (void)state;
    struct world w;
    begin(&w, NODES, NODES, false);
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), NODES);
    for (uint32_t i = 1; i <= NODES; i++) {
        if (i != 3 && i != 5 && i != 6) {
            says(&w, i, 0, NULL, "");
        }
    }
    struct hsp_m_seen seen = {40, 1, 1, 77};
    says(&w, 6, 1, &seen, "/srv/ckpt: input or output error"); /* of another step */
    assert_int_equal(w.x.n_seen, 1);
    assert_true(hsp_ckpt_answers_gone(&w.x, 3));
    assert_false(hsp_ckpt_answers_gone(&w.x, 3) || hsp_ckpt_answers_gone(&w.x, 99));
    assert_int_equal(w.x.n_left, 1);
    told(&w, 200,
         "node-with-a-name-02: it has gone; node-with-a-name-04: no answer; node-with-a-name-05: "
         "/srv/ckpt: input or output error");
    told(&w, 100, "node-with-a-name-02: it has gone; node-with-a-name-04: no answer; and 1 more");
    finish(&w);
}

/* The job waits only for nodes that have run it. If the path is shared, it waits for none of them
 * once a node sees the folder. */
static void whose_failure_holds_the_job_up(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 4, 4, false);
    hsp_ci_mark(w.c, w.j, 1)->keeps = true;
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 4);
    says(&w, 1, 0, NULL, "a stranger's reason");
    says(&w, 2, 0, NULL, "");
    says(&w, 3, 0, NULL, "");
    says(&w, 4, 0, NULL, "");
    assert_int_equal(hsp_ckpt_answers_lack(&w.x), HSP_LACK_OTHERS);
    told(&w, 200, "node-with-a-name-00: a stranger's reason");
    finish(&w);
    for (uint32_t shared = 0; shared < 2; shared++) {
        begin(&w, 3, 3, shared != 0);
        for (uint32_t i = 0; i < 3; i++) {
            *hsp_ci_mark(w.c, w.j, i) = (struct hsp_job_mark){.node = i, .ran = i == 1};
        }
        assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 3);
        lacks(&w, 2);
        says(&w, 1, 0, NULL, "a reason");
        assert_int_equal(w.x.n_left, 1);
        lacks(&w, 3);
        assert_int_equal(hsp_ckpt_answers_lack(&w.x),
                         HSP_LACK_LOOK); /* its own file is not there */
        told(&w, 300,
             shared ? "node-with-a-name-01: " NOTHING
                      "; node-with-a-name-00: a reason; node-with-a-name-02: " NOTHING
                    : "node-with-a-name-01: " NOTHING "; node-with-a-name-00: a reason");
        w.x.path_seen = true; /* as one says that has not run it: that counts in time */
        assert_int_equal(hsp_ckpt_answers_lack(&w.x), shared ? HSP_LACK_PATH : HSP_LACK_LOOK);
        w.x.own_seen = true;
        assert_int_equal(hsp_ckpt_answers_lack(&w.x), shared ? HSP_LACK_OTHERS : HSP_LACK_LOOK);
        finish(&w);
    }
}

/* An agent of a protocol without the question is not asked, and matters only if it may have
 * executed the job. */
static void an_agent_that_is_too_old_matters_to_its_own_job(void **state)
{
    (void)state;
    for (uint32_t own = 0; own < 3; own++) {
        struct world w;
        begin(&w, 2, 2, false);
        w.c->nodes[0].protocol = HSP_PROTO_CKPTS - 1;
        if (own < 2) { /* else its executing nodes are not on record */
            hsp_ci_mark(w.c, w.j, own)->keeps = true;
        }
        assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 1);
        assert_int_equal(w.x.n_asked, own == 1 ? 1 : 2);
        says(&w, 2, 0, NULL, "");
        assert_int_equal(w.x.mute, own != 1);
        assert_int_equal(hsp_ckpt_answers_lack(&w.x), own == 1 ? HSP_LACK_OTHERS : HSP_LACK_LOOK);
        told(&w, 200,
             own == 1 ? ""
                      : "node-with-a-name-00: its hspmd-worker is too old to list checkpoints: "
                        "upgrade it");
        finish(&w);
    }
}

/* All connected agents are too old and have not run the job: the answer says so. */
static void nobody_can_be_asked(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 2, 2, false);
    w.c->nodes[0].protocol = w.c->nodes[1].protocol = HSP_PROTO_CKPTS - 1;
    hsp_ci_mark(w.c, w.j, 0)->ran = hsp_ci_mark(w.c, w.j, 1)->ran = false;
    struct hsp_job_plan plan = {.started = true};
    struct hsp_job j = *w.j;
    j.plans = &plan; /* others have */
    j.n_plans = 1;
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, &j), 0);
    assert_int_equal(w.x.n_asked, 0);
    told(&w, 200, "no connected node has an hspmd-worker that can list checkpoints: upgrade one");
    finish(&w);
}

/* Agents below protocol 16 know no file of the job's begin. So neither the lack of files nor a
 * mounted path proves anything there. A later agent that has run the job and lacks the file has not
 * mounted the path, also where others not on record may have run it. */
static void an_older_agent_proves_nothing(void **state)
{
    (void)state;
    for (uint32_t absent = 0; absent < 3; absent++) {
        for (uint32_t old = 0; old < 2; old++) {
            struct world w;
            begin(&w, 2, 2, false);
            w.c->nodes[0].protocol = old ? 15 : HSP_PROTO_VERSION;
            hsp_ci_mark(w.c, w.j, 0)->ran = true;
            w.j->ran_unknown = absent == 2;
            assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 2);
            if (absent) {
                lacks(&w, 1);
                lacks(&w, 2);
                assert_int_equal(hsp_ckpt_answers_lack(&w.x), old ? HSP_LACK_PATH : HSP_LACK_LOOK);
            } else {
                says(&w, 1, 0, NULL, "");
                assert_true(w.x.path_seen);
                assert_int_equal(w.x.begun, !old);
                assert_int_equal(w.x.own_seen, !old);
            }
            finish(&w);
        }
    }
}

/* The node of a rank is away, and its disk has checkpoints. */
static void a_node_that_has_run_it_and_is_away(void **state)
{
    (void)state;
    for (uint32_t shared = 0; shared < 2; shared++) {
        struct world w;
        hsp_device_id ranks[] = {HSP_DEVICE(0, 0), HSP_DEVICE(1, 0)};
        struct hsp_job_plan plan = {.started = true, .info = {.n_ranks = 2, .device = ranks}};
        begin(&w, 3, 3, shared != 0);
        struct hsp_job j = *w.j;
        j.plans = &plan;
        j.n_plans = 1;
        w.c->nodes[0].conn = 0;
        assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, &j), 2);
        says(&w, 2, 0, NULL, "");
        says(&w, 3, 0, NULL, "");
        assert_int_equal(hsp_ckpt_answers_lack(&w.x), shared ? HSP_LACK_OTHERS : HSP_LACK_AWAY);
        told(&w, 200, shared ? "" : "node-with-a-name-00: it is not connected");
        finish(&w);
    }
}

/* A stranger with the worker key reports a checkpoint: it is not believed, unless it is on record
 * or the nodes that have run the job are not known. */
static void others_are_believed_what_is_on_record(void **state)
{
    (void)state;
    struct hsp_m_seen own = {40, 1, 1, 77}, other = {60, 1, 1, 78};
    for (uint32_t k = 0; k < 4; k++) { /* 1: on record; 2: nobody knows its nodes */
        struct world w;
        begin(&w, 3, 3, false);
        if (k < 3) { /* 3: nobody has, as far as is known */
            hsp_ci_mark(w.c, w.j, 1)->ran = true;
        }
        w.j->has_ckpt = k == 1;
        w.j->ckpt_step = 60;
        w.j->ckpt.content = 78;
        w.j->ran_unknown = k == 2;
        assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 3);
        says(&w, 1, 1, &other, "");
        says(&w, 2, 1, &own, "");
        says(&w, 3, 0, NULL, "");
        hsp_ckpt_answers_believe(&w.x, w.j);
        assert_int_equal(w.x.n_seen, k == 0 ? 1 : 2);
        assert_int_equal(w.x.n_others, k == 0 ? 1 : 0);
        assert_int_equal(w.x.seen[k > 0].step, 40); /* believed ones come first */
        assert_int_equal(w.x.seen[k == 0].step, 60);
        assert_int_equal(hsp_ckpt_answers_lack(&w.x), HSP_LACK_OTHERS);
        told(&w, 200,
             k > 0 ? ""
                   : "node-with-a-name-00: it has not run the job and says that it has checkpoint "
                     "60: to take that: cancel mist, then resume mist --from 60");
        finish(&w);
    }
}

/* The path is shared, and no node that has run the job can look: new nodes have replaced them. */
static void others_see_a_shared_path_for_those_that_are_away(void **state)
{
    (void)state;
    for (uint32_t here = 0; here < 2; here++) {
        struct hsp_m_seen seen = {60, 1, 1, 78};
        struct world w;
        begin(&w, 3, 3, true);
        for (uint32_t i = 0; i < 3; i++) {
            *hsp_ci_mark(w.c, w.j, i) = (struct hsp_job_mark){.node = i, .ran = i == 1};
        }
        w.c->nodes[1].conn = here ? 2 : 0;
        assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 2 + here);
        if (here) {
            says(&w, 2, 0, NULL, "");
        }
        says(&w, 1, 1, &seen, "");
        says(&w, 3, 0, NULL, "");
        hsp_ckpt_answers_believe(&w.x, w.j);
        assert_int_equal(w.x.n_seen, here ? 0 : 1);
        assert_int_equal(hsp_ckpt_answers_lack(&w.x), here ? HSP_LACK_OTHERS : HSP_LACK_PATH);
        finish(&w);
    }
}

/* The row says which nodes have run the job, also after a cancel. Where the row may be of before,
 * any node of the store may have run it. */
static void who_has_run_it_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t unknown = 0; unknown < 2; unknown++) {
        struct world w;
        begin(&w, 4, 4, false);
        hsp_ci_mark(w.c, w.j, 0)->ran = true;
        w.j->ran_unknown = unknown != 0;
        const struct hsp_admin_event allow = {.verb = HSP_ADMIN_ALLOW, .node = "future"};
        (void)adopt_step(w.c, (struct hsp_event){.type = HSP_EV_ADMIN, .u.admin = allow});
        assert_non_null(hsp_cluster_node_by_name(w.c, "future")); /* never joined */
        hsp_ckpt_answers_free(&w.x);
        assert_true(hsp_ckpt_answers_begin(&w.x, w.c));
        w.c->nodes[0].conn = w.c->nodes[1].conn = 0;
        assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 2);
        lacks(&w, 3);
        says(&w, 4, 0, NULL, "");
        assert_true(w.x.begun);
        assert_int_equal(hsp_ckpt_answers_lack(&w.x), HSP_LACK_AWAY);
        told(&w, 400,
             unknown ? "node-with-a-name-00: it is not connected; node-with-a-name-01: it is not "
                       "connected; node-with-a-name-02: " NOTHING
                     : "node-with-a-name-00: it is not connected");
        finish(&w);
    }
}

static struct hsp_buf listed(const struct world *w)
{
    const struct hsp_ckpt_lines l = {.job = "mist", .id = 1, .seq = 5, .of = w->j};
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_LIST_MAX);
    assert_true(hsp_ckpt_answers_list(&w->x, &l, &b));
    return b;
}

static void all_who_see_one_are_listed_and_who_could_not_look(void **state)
{
    (void)state;
    struct world w;
    struct hsp_m_seen seen[] = {{40, 1, 1, 77}, {60, 1, 2, 78}};
    begin(&w, NODES, NODES, false);
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), NODES);
    for (uint32_t i = NODES; i > 1; i--) {
        says(&w, i, i > 2 ? 2 : 1, seen, "");
    }
    struct hsp_buf b = listed(&w);
    const char *text = hsp_buf_cstr(&b), *end = strchr(text, '\n');
    assert_non_null(strstr(text, "\"reason\":\"version 60 of epoch 2, complete, seen by "
                                 "node-with-a-name-02, node-with-a-name-03, "));
    const char *last = strstr(text, "node-with-a-name-19");
    assert_true(last != NULL && last < end); /* more than 200 bytes of names */
    assert_true(strstr(text, "version 40 of epoch 1, complete, seen by node-with-a-name-01, ") >
                end);
    const char *first = strstr(text, "\"data\":{\"step\":60}}\n");
    assert_true(first != NULL && first < end); /* tools need not read the reason */
    assert_true(strstr(text, "\"data\":{\"step\":40}}\n") > end);
    assert_non_null(strstr(text, "\"ckpt.not_seen\""));
    assert_non_null(
        strstr(text, "there may be more, as not all could look: node-with-a-name-00: no answer"));
    hsp_buf_fini(&b);
    finish(&w);
}

/* A checkpoint that was given up is distinguished from one that counts. */
static void what_was_given_up_is_listed_as_such(void **state)
{
    (void)state;
    struct world w;
    struct hsp_m_seen seen[] = {{40, 1, 1, 77}, {60, 1, 1, 78}, {60, 1, 3, 79}};
    begin(&w, 1, 1, false);
    w.j->cuts = (struct hsp_ckpt_cuts){1, {{0, 3, 40}}};
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 1);
    says(&w, 1, 3, seen, "");
    struct hsp_buf b = listed(&w);
    const char *text = hsp_buf_cstr(&b);
    assert_non_null(strstr(text, "\"version 60 of epoch 1, complete, given-up, seen by node-"));
    assert_non_null(strstr(text, "\"version 60 of epoch 3, complete, seen by node-"));
    assert_non_null(strstr(text, "\"version 40 of epoch 1, complete, seen by node-"));
    hsp_buf_fini(&b);
    finish(&w);
}

/* There are more checkpoints than a message has room for: it holds the newest, and says how many
 * are left out. */
static void a_list_that_is_too_long_is_cut(void **state)
{
    (void)state;
    enum { N = HSP_SEEN_MOST - 1 };
    struct world w;
    struct hsp_m_seen *seen = calloc(N, sizeof *seen);
    assert_non_null(seen);
    for (uint32_t i = 0; i < N; i++) {
        seen[i] = (struct hsp_m_seen){i, 1, 1, 5};
    }
    begin(&w, 2, 2, false);
    assert_int_equal(hsp_ckpt_answers_choose(&w.x, w.c, w.j), 2);
    says(&w, 1, N, seen, "");
    says(&w, 2, 1, seen, ""); /* more than are kept */
    struct hsp_buf b = listed(&w);
    const char *text = hsp_buf_cstr(&b), *cut = strstr(text, " more that are older");
    assert_true(b.len > HSP_LIST_MAX / 2 && b.len < HSP_LIST_MAX);
    assert_non_null(strstr(text, "version 65534 of epoch 1"));
    assert_non_null(cut);
    assert_non_null(strstr(cut, "node-with-a-name-01: too many checkpoints"));
    hsp_buf_fini(&b);
    free(seen);
    finish(&w);
}

HSP_TEST_FILE(ckpt_answers_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_shared_path_the_jobs_nodes_are_asked_first),
        cmocka_unit_test(who_could_not_look_is_named),
        cmocka_unit_test(whose_failure_holds_the_job_up),
        cmocka_unit_test(an_agent_that_is_too_old_matters_to_its_own_job),
        cmocka_unit_test(nobody_can_be_asked),
        cmocka_unit_test(an_older_agent_proves_nothing),
        cmocka_unit_test(a_node_that_has_run_it_and_is_away),
        cmocka_unit_test(others_are_believed_what_is_on_record),
        cmocka_unit_test(others_see_a_shared_path_for_those_that_are_away),
        cmocka_unit_test(who_has_run_it_is_waited_for),
        cmocka_unit_test(all_who_see_one_are_listed_and_who_could_not_look),
        cmocka_unit_test(what_was_given_up_is_listed_as_such),
        cmocka_unit_test(a_list_that_is_too_long_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
