/* Tests a node that was away and still has work and state of a job that has ended: both go, also
 * where the node lists only a part, and no other job has the device before. */
#include "daemon/cluster/reconcile.h"

#include "daemon/cluster/lookup.h"
#include "daemon/cluster/standing.h"
#include "tests/unit/daemon/cluster/cluster_stories.h"

static struct hsp_digest owner; /* of the state that n2 keeps; zeros: the cluster */

/* n2, now with two devices, says hello again. n2 keeps @job, and the first device runs epoch @runs
 * of it; 0: none. */
static void hello(struct cw_world *w, uint32_t job, uint64_t runs)
{
    struct hsp_m_device dev[2];
    for (uint32_t i = 0; i < 2; i++) {
        dev[i] = (struct hsp_m_device){
            .index = i, .kind = "cpu", .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};
    }
    struct hsp_m_run run = {.job = job, .running = runs};
    struct hsp_m_kept kept = {.job = job,
                              .name = job == 1 ? "j" : "gone",
                              .cluster = hsp_digest_is_zero(owner) ? w->c->id : owner,
                              .generation = w->c->generation,
                              .epoch = 1,
                              .plan = 1};
    cw_msg(w, 3,
           (struct hsp_msg){.type = HSP_MSG_HELLO,
                            .u.hello = {.protocol = HSP_PROTO_VERSION,
                                        .node = "n2",
                                        .address = "n2",
                                        .incarnation = cw_secret(w->c->nodes[2].incarnation),
                                        .cluster = w->c->id,
                                        .generation = w->c->generation,
                                        .n_devices = 2,
                                        .devices = dev,
                                        .n_kept = 1,
                                        .kept = &kept,
                                        .n_runs = runs != 0,
                                        .runs = &run}});
}

/* Both devices are told to stop @job, each once. */
static void assert_stops(const struct cw_world *w, uint32_t job)
{
    uint32_t told = 0;
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type == HSP_ACT_SEND && a->msg->type == HSP_MSG_STOP) {
            assert_int_equal(a->conn, 3);
            assert_int_equal(a->msg->u.devref.job, job);
            assert_int_equal(told & 1u << a->msg->u.devref.device, 0);
            told |= 1u << a->msg->u.devref.device;
        }
    }
    assert_int_equal(told, 3);
    assert_int_equal(cw_count_sent(w, HSP_MSG_RELEASE), 0);
}

static void a_forgotten_job_that_still_runs_is_stopped(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 2);
    hsp_ci_job_over(w.c, 40);
    hello(&w, 40, 1);
    assert_stops(&w, 40);
    assert_int_equal(cw_submit(&w, "new", 0, 6, 6), HSP_OK);
    assert_int_equal(w.n_asked, 0); /* one of the six would refuse: it works for another job */
    cw_msg(&w, 3,
           (struct hsp_msg){
               .type = HSP_MSG_STOPPED, .epoch = 1, .u.devref = {.job = 40, .device = 1}});
    assert_int_equal(w.n_asked, 0);
    cw_msg(&w, 3,
           (struct hsp_msg){
               .type = HSP_MSG_STOPPED, .epoch = 1, .u.devref = {.job = 40, .device = 0}});
    assert_int_equal(w.n_asked, 6);
    cw_end(&w);
}

/* Papers, and segments that no vote has sealed, are in no list of pieces. */
static void what_is_in_no_list_goes_too(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    cw_run_job(&w, 3);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    for (uint32_t i = 0; i < 3; i++) {
        cw_said(&w, i, HSP_MSG_STOPPED, 1);
    }
    assert_int_equal(cw_job(&w, 1)->n_leases, 0);
    hello(&w, 1, 0);
    assert_stops(&w, 1);
    cw_end(&w);
}

/* The same of a job that was adopted. Its agent is told first that all of it is the cluster's now:
 * else it would obey no STOP. */
static void what_is_kept_of_an_adopted_job_goes_too(void **state)
{
    (void)state;
    struct cw_world w;
    uint32_t papers = UINT32_MAX, stop = UINT32_MAX;
    cw_begin(&w, 3, 1);
    cw_run_job(&w, 3);
    owner = w.c->jobs[0]->from = w.c->adopted[w.c->n_adopted++] = (struct hsp_digest){7, 8};
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    for (uint32_t i = 0; i < 3; i++) {
        cw_said(&w, i, HSP_MSG_STOPPED, 1);
    }
    hello(&w, 1, 0);
    owner = (struct hsp_digest){0, 0};
    assert_stops(&w, 1);
    for (uint32_t i = w.a.n; i-- > 0;) {
        const struct hsp_action *a = &w.a.item[i];
        papers = a->type == HSP_ACT_PAPERS ? i : papers;
        stop = a->type == HSP_ACT_SEND && a->msg->type == HSP_MSG_STOP ? i : stop;
    }
    assert_true(papers < stop);
    cw_end(&w);
}

static const struct cw_scenario *story(const char *name)
{
    const struct cw_scenario *s = NULL;
    for (size_t i = 0; i < cw_n_scenarios && s == NULL; i++) {
        s = strcmp(cw_scenarios[i].name, name) == 0 ? &cw_scenarios[i] : NULL;
    }
    assert_non_null(s);
    return s;
}

/* The job has gone on in epoch 2; n2 still runs epoch 1 when it comes back. */
static void a_device_that_is_being_sealed_is_nobody_elses(void **state)
{
    (void)state;
    struct cw_world w;
    story("running")->tell(&w);
    assert_int_equal(cw_job(&w, 1)->cur.epoch, 2);
    hello(&w, 1, 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_SEAL), 1);
    assert_int_equal(cw_submit(&w, "other", 0, 2, 2), HSP_OK);
    assert_int_not_equal(w.asked_job, 2);
    cw_said(&w, 2, HSP_MSG_SEALED, 1);
    assert_int_equal(w.asked_job, 2);
    assert_int_equal(w.n_asked, 2);
    cw_end(&w);
}

/* The executor that had it is gone: there is nothing to wait for. */
static void a_device_is_free_when_its_executor_has_ended(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 2);
    hsp_ci_job_over(w.c, 40);
    hello(&w, 40, 1);
    cw_of_node(&w, 2, HSP_MSG_EXECUTOR_DEAD);
    assert_int_equal(cw_submit(&w, "new", 0, 6, 6), HSP_OK);
    cw_of_node(&w, 2, HSP_MSG_EXECUTOR_UP);
    assert_int_equal(w.n_asked, 6);
    cw_end(&w);
}

static void assert_said(struct cw_world *w, uint32_t node, uint64_t epoch, bool counts)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = epoch, .u.step = {.job = 1, .step = 7}});
    assert_int_equal(cw_find(w, HSP_ACT_METRIC) != NULL, counts);
    assert_int_equal(w->a.n, counts);
}

/* Agents repeat the steps of the time when hspmdd was away behind the HELLO, which may end the
 * job. */
static void steps_of_a_job_that_has_ended_are_recorded(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    cw_run_job(&w, 3);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    uint64_t stable = cw_job(&w, 1)->stable;
    for (uint32_t i = 0; i < 3; i++) {
        assert_said(&w, i, 1, i < 2); /* of rank 0, and of its successor */
        cw_said(&w, i, HSP_MSG_STOPPED, 1);
    }
    assert_said(&w, 0, 1, true);
    assert_said(&w, 0, 2, false); /* there was none */
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_CANCELLED);
    assert_int_equal(cw_job(&w, 1)->stable, stable);
    cw_end(&w);
}

HSP_TEST_FILE(ended_jobs_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forgotten_job_that_still_runs_is_stopped),
        cmocka_unit_test(what_is_in_no_list_goes_too),
        cmocka_unit_test(what_is_kept_of_an_adopted_job_goes_too),
        cmocka_unit_test(a_device_that_is_being_sealed_is_nobody_elses),
        cmocka_unit_test(a_device_is_free_when_its_executor_has_ended),
        cmocka_unit_test(steps_of_a_job_that_has_ended_are_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
