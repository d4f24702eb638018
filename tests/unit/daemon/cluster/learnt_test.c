/* Tests facts learnt from failed attempts: the planner gets them, they expire, and the job then
 * asks the planner again. */
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/plan_requests.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

#define LASTS_MS 600000u

/* The node on connection @conn says that it cannot prepare epoch @epoch of job 1. */
static void refuse(struct cw_world *w, uint32_t conn, uint64_t epoch, uint32_t fact)
{
    cw_msg(w, conn,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = epoch,
                            .u.failed = {.job = 1,
                                         .fact = fact,
                                         .amount = 4096,
                                         .peer = HSP_MSG_RANKS,
                                         .reason = "no memory for the program"}});
}

/* Lets time pass while all nodes send heartbeats. */
static void wait(struct cw_world *w, uint32_t n_nodes, hsp_msec ms)
{
    for (hsp_msec end = w->now + ms; w->now < end;) {
        w->now += end - w->now < 500 ? end - w->now : 500;
        for (uint32_t i = 0; i < n_nodes; i++) {
            cw_msg(w, i + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

/* A job that runs on n0 asks again for n1, which had no memory ten minutes ago. */
static void a_fact_ends(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_let_go(&w, 1, 2);
    const struct hsp_job *j = cw_job(&w, 1);
    uint64_t epoch = j->cur.epoch;
    struct hsp_job *mine = w.c->jobs[0];
    const struct hsp_plan_fact fact = {HSP_FACT_OUT_OF_MEMORY, HSP_DEVICE(1, 0), HSP_DEVICE(1, 0),
                                       4096, 0};
    hsp_ci_learn(w.c, mine, &fact, 0, "no memory");
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONFIG, .u.config = &w.c->cfg}); /* all is new */
    assert_true(mine->facts[0].since_ms == w.now);
    assert_true(mine->facts[0].until_ms == w.now + LASTS_MS);
    uint64_t asked = w.ticket;
    wait(&w, 2, LASTS_MS - 1);
    assert_int_equal(j->n_facts, 1);
    assert_true(w.ticket == asked);
    wait(&w, 2, 1);
    assert_int_equal(j->n_facts, 0);
    assert_true(w.ticket > asked);
    assert_int_equal(w.n_facts, 0);
    assert_string_equal(j->cause, "n1/0 may be used as before, it was left out: out-of-memory");
    assert_true(j->cur.epoch == epoch);
    cw_end(&w);
}

/* The coordinator wakes up when a fact expires, although nothing else happens. */
static void its_end_is_a_deadline(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    const struct hsp_plan_fact fact = {HSP_FACT_OTHER, HSP_DEVICE(0, 0), HSP_DEVICE(0, 0), 0, 0};
    hsp_ci_learn(w.c, w.c->jobs[0], &fact, w.now + 40, "no");
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONFIG, .u.config = &w.c->cfg});
    assert_true(hsp_cluster_deadline(w.c) == w.now + 40);
    cw_end(&w);
}

/* A fact that repeats is believed for longer each time, and the planner keeps its count in
 * between. */
static void repeated_facts_last_longer(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    cw_plan(&w, 1);
    refuse(&w, 2, 1, HSP_FACT_OTHER);
    const struct hsp_job *j = cw_job(&w, 1);
    hsp_msec first = j->facts[0].until_ms;
    assert_true(first == w.now + LASTS_MS);
    assert_string_equal(j->facts[0].why, "no memory for the program");
    wait(&w, 2, 2000);
    cw_plan(&w, 1);
    refuse(&w, 2, j->att.epoch, HSP_FACT_OTHER);
    assert_int_equal(j->n_facts, 1); /* one fact, one line in status */
    assert_true(j->facts[0].until_ms == first + 2000);
    assert_int_equal(w.n_facts, 1);
    assert_true(w.facts[0].again == 1 && w.facts[0].amount == 4096);
    wait(&w, 2, LASTS_MS);
    assert_int_equal(j->n_facts, 0);
    const struct hsp_plan_fact fact = {HSP_FACT_OTHER, HSP_DEVICE(1, 0), HSP_DEVICE(1, 0), 0, 0};
    for (uint32_t k = 0; k < 6; k++) {
        w.c->jobs[0]->fact_tries = k;
        hsp_ci_learn(w.c, w.c->jobs[0], &fact, 0, "no");
        hsp_msec last = (hsp_msec)LASTS_MS << (k < 3 ? k : 3);
        assert_int_equal(j->n_facts, 1);
        assert_true(j->facts[0].until_ms == w.now + last && j->facts[0].fact.again == k);
    }
    cw_end(&w);
}

static void the_oldest_gives_way(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    struct hsp_job *j = w.c->jobs[0];
    for (uint32_t k = 0; k <= HSP_CLUSTER_FACTS; k++) {
        const struct hsp_plan_fact fact = {
            k / HSP_NODE_DEVICES, HSP_DEVICE(1, k % HSP_NODE_DEVICES), HSP_DEVICE(1, 0), k, 0};
        w.c->now_ms++;
        hsp_ci_learn(w.c, j, &fact, 0, "no");
    }
    w.now = w.c->now_ms;
    assert_int_equal(j->n_facts, HSP_CLUSTER_FACTS);
    assert_int_equal(j->facts[0].fact.amount, 1);
    assert_int_equal(j->facts[HSP_CLUSTER_FACTS - 1].fact.amount, HSP_CLUSTER_FACTS);
    wait(&w, 1, w.c->cfg.dead_ms + 1000); /* n1 is silent */
    assert_int_equal(j->n_facts, HSP_CLUSTER_FACTS);
    cw_hello(&w, 7, "n1", 0, 1); /* another process of it: nothing of the old one counts */
    assert_int_equal(j->n_facts, 0);
    cw_end(&w);
}

/* A job trains on n0, and n1 cannot take part in any switch: steps pass, so no failure counts. */
static void switches_that_fail_pause_longer_each_time(void **state)
{
    (void)state;
    static const hsp_msec pause[] = {0, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 64000};
    struct cw_world w;
    cw_begin(&w, 1, 1);
    cw_run_job(&w, 1);
    const struct hsp_job *j = cw_job(&w, 1);
    cw_hello(&w, 2, "n1", 0, 1);
    uint64_t n = j->stable;
    for (size_t k = 0; k < sizeof pause / sizeof pause[0]; k++) {
        cw_plan(&w, 1);
        assert_int_equal(j->state, HSP_JOB_SWITCHING);
        uint64_t asked = w.ticket;
        refuse(&w, 2, j->att.epoch, HSP_FACT_OUT_OF_MEMORY);
        if (pause[k] > 0) {
            wait(&w, 2, pause[k] - 1);
            cw_pass(&w, 1, ++n, cw_even, 1);
            assert_true(w.ticket == asked && j->failures == 0);
            wait(&w, 2, 1);
        }
        assert_true(w.ticket == asked + 1);
        assert_int_equal(w.n_facts, 1);
    }
    cw_end(&w);
}

/* n2 comes. */
static void comes(struct cw_world *w)
{
    cw_hello(w, 3, "n2", 0, 1);
}

static void is_scaled(struct cw_world *w)
{
    struct hsp_admin_event a = {.verb = HSP_ADMIN_SCALE, .job = 1, .min = 1, .max = 2};
    assert_int_equal(cw_admin(w, a), HSP_OK);
}

static void is_drained(struct cw_world *w)
{
    assert_int_equal(cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = "n0"}),
                     HSP_OK);
}

static void leaves(struct cw_world *w)
{
    cw_msg(w, 1, (struct hsp_msg){.type = HSP_MSG_LEAVE, .u.leave.reason = "SIGTERM"});
}

static void is_unwell(struct cw_world *w)
{
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_DEVICE_HEALTH,
                            .u.health = {.health = HSP_HEALTH_CORDON, .reason = "Xid 79"}});
}

/* A fact comes late, from an attempt that is over. */
static void has_a_broken_folder(struct cw_world *w)
{
    refuse(w, 1, 3, HSP_FACT_STATE_FOLDER);
}

/* A node whose power ends soon cannot wait because n1 had no memory before. */
static void what_is_new_ends_the_pause(void **state)
{
    (void)state;
    static void (*const news[])(struct cw_world * w) = {comes,  is_scaled, is_drained,
                                                        leaves, is_unwell, has_a_broken_folder};
    for (size_t i = 0; i < sizeof news / sizeof news[0]; i++) {
        struct cw_world w;
        cw_begin(&w, 1, 1);
        cw_run_job(&w, 1);
        cw_hello(&w, 2, "n1", 0, 1);
        for (uint32_t k = 0; k < 2; k++) {
            cw_plan(&w, 1);
            refuse(&w, 2, cw_job(&w, 1)->att.epoch, HSP_FACT_OUT_OF_MEMORY);
        }
        uint64_t asked = w.ticket;
        assert_true(cw_job(&w, 1)->ticket == 0);
        assert_true(cw_job(&w, 1)->switch_retry_ms == w.now + 1000);
        news[i](&w);
        assert_true(w.ticket == asked + 1);
        cw_end(&w);
    }
}

/* Makes a job that trains on n0 and has learnt that n1 cannot take part. */
static void without_n1(struct cw_world *w)
{
    cw_begin(w, 1, 1);
    cw_run_job(w, 1);
    cw_hello(w, 2, "n1", 0, 1);
    cw_plan(w, 1);
    refuse(w, 2, cw_job(w, 1)->att.epoch, HSP_FACT_OUT_OF_MEMORY);
    assert_int_equal(w->n_facts, 1);
    cw_step(w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                  .u.plan = {.job = 1, .ticket = w->ticket, .keep = true}});
    assert_true(cw_job(w, 1)->ticket == 0 && cw_job(w, 1)->n_facts == 1);
    uint64_t asked = w->ticket;
    wait(w, 2, 5000);
    assert_true(w->ticket == asked);
}

/* n1, which a job had learnt to do without, is undrained, drained and undrained, or comes back as
 * another process: the planner is asked at once for a plan with it. */
static void who_is_mended_is_asked_about_at_once(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct cw_world w;
        without_n1(&w);
        uint64_t asked = w.ticket;
        if (how == 1) {
            assert_int_equal(
                cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = "n1"}),
                HSP_OK);
        }
        if (how == 2) {
            cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
            cw_hello(&w, 7, "n1", 0, 1);
        } else {
            assert_int_equal(
                cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_UNDRAIN, .node = "n1"}),
                HSP_OK);
        }
        assert_int_equal(cw_job(&w, 1)->n_facts, 0);
        assert_true(w.ticket == asked + 1);
        assert_int_equal(w.n_facts, 0);
        assert_int_equal(w.n_asked, 2);
        cw_plan(&w, 1);
        assert_int_equal(cw_job(&w, 1)->att.n_ranks, 2);
        cw_end(&w);
    }
}

/* A question about the node that the planner has not answered yet is cancelled, because it was
 * asked with facts that no longer hold. */
static void a_question_about_it_is_asked_anew(void **state)
{
    (void)state;
    struct cw_world w;
    without_n1(&w);
    cw_hello(&w, 3, "n2", 0, 1);
    uint64_t asked = w.ticket;
    assert_true(cw_job(&w, 1)->ticket == asked && w.n_asked == 3 && w.n_facts == 1);
    assert_int_equal(
        cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_UNDRAIN, .node = "n1"}), HSP_OK);
    const struct hsp_action *a = cw_find(&w, HSP_ACT_CANCEL_PLAN);
    assert_true(a != NULL && a->ticket == asked);
    assert_true(w.ticket == asked + 1 && w.n_asked == 3 && w.n_facts == 0);
    cw_end(&w);
}

/* The devices of a node leave both lists: that of the last question, and that of devices declined
 * before. */
static void its_devices_were_not_asked_about(void **state)
{
    (void)state;
    static const hsp_device_id last[] = {HSP_DEVICE(0, 0), HSP_DEVICE(1, 0), HSP_DEVICE(1, 1),
                                         HSP_DEVICE(2, 0)},
                               before[] = {HSP_DEVICE(1, 2), HSP_DEVICE(3, 0), HSP_DEVICE(4, 0)};
    struct cw_world w;
    cw_begin(&w, 1, 1);
    (void)cw_submit(&w, "j", 0, 9, 9); /* the job asks nothing */
    struct hsp_job *j = w.c->jobs[0];
    hsp_ci_unask_node(w.c, j, 1); /* nothing was asked */
    j->asked = malloc(sizeof last + sizeof before);
    assert_non_null(j->asked);
    memcpy(j->asked, last, sizeof last);
    memcpy(j->asked + 4, before, sizeof before);
    j->cap_asked = 7;
    j->n_asked = 4;
    j->n_declined = 3;
    j->asked_valid = true;
    hsp_ci_unask_node(w.c, j, 1);
    assert_true(j->asked_valid && j->n_asked == 2 && j->n_declined == 2);
    for (uint32_t i = 0; i < 7; i++) {
        hsp_device_id d = i < 4 ? last[i] : before[i - 4];
        assert_int_equal(hsp_ci_was_asked(j, d), HSP_DEVICE_NODE(d) != 1);
    }
    j->ticket = 77;
    hsp_ci_unask_node(w.c, j, 3); /* which the question is not about */
    assert_true(j->ticket == 77 && j->asked_valid && j->n_declined == 1);
    hsp_ci_unask_node(w.c, j, 2);
    assert_true(j->ticket == 0 && !j->asked_valid);
    assert_true(j->n_asked == 1 && j->asked[0] == last[0] && j->asked[1] == before[2]);
    cw_end(&w);
}

HSP_TEST_FILE(learnt_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fact_ends),
        cmocka_unit_test(its_end_is_a_deadline),
        cmocka_unit_test(repeated_facts_last_longer),
        cmocka_unit_test(the_oldest_gives_way),
        cmocka_unit_test(switches_that_fail_pause_longer_each_time),
        cmocka_unit_test(what_is_new_ends_the_pause),
        cmocka_unit_test(who_is_mended_is_asked_about_at_once),
        cmocka_unit_test(a_question_about_it_is_asked_anew),
        cmocka_unit_test(its_devices_were_not_asked_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
