/* What failed attempts have taught: it reaches the planner, ends in time, and is asked about again. */
#include <string.h>

#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

#define LASTS_MS 600000u

/* The node on connection @conn cannot prepare epoch @epoch of job 1. */
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

/* Time passes while all nodes are heard. */
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
                                       4096};
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
    assert_string_equal(j->cause, "n1/0 may be used as before, it was kept from it: out-of-memory");
    assert_true(j->cur.epoch == epoch);
    cw_end(&w);
}

/* The machine wakes up for it although nothing else happens. */
static void its_end_is_a_deadline(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    (void)cw_submit(&w, "j", 0, 1, 8);
    const struct hsp_plan_fact fact = {HSP_FACT_OTHER, HSP_DEVICE(0, 0), HSP_DEVICE(0, 0), 0};
    hsp_ci_learn(w.c, w.c->jobs[0], &fact, w.now + 40, "no");
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONFIG, .u.config = &w.c->cfg});
    assert_true(hsp_cluster_deadline(w.c) == w.now + 40);
    cw_end(&w);
}

/* The one that repeats is trusted for longer each time, and the planner keeps its count meanwhile. */
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
    assert_int_equal(j->n_facts, 2);
    assert_true(j->facts[0].until_ms == first + 2000 && j->facts[1].until_ms == first + 2000);
    assert_int_equal(w.n_facts, 2);
    wait(&w, 2, LASTS_MS);
    assert_int_equal(j->n_facts, 0);
    const struct hsp_plan_fact fact = {HSP_FACT_OTHER, HSP_DEVICE(1, 0), HSP_DEVICE(1, 0), 0};
    for (uint32_t k = 0; k < 6; k++) {
        w.c->jobs[0]->fact_tries = k;
        hsp_ci_learn(w.c, w.c->jobs[0], &fact, 0, "no");
        hsp_msec last = (hsp_msec)LASTS_MS << (k < 3 ? k : 3);
        assert_true(j->facts[k].until_ms == w.now + last);
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
        const struct hsp_plan_fact fact = {HSP_FACT_OTHER, HSP_DEVICE(1, 0), HSP_DEVICE(1, 0), k};
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

HSP_TEST_FILE(learnt_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fact_ends),
        cmocka_unit_test(its_end_is_a_deadline),
        cmocka_unit_test(repeated_facts_last_longer),
        cmocka_unit_test(the_oldest_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
