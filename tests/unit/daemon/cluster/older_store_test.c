/* An older store in the place of the newest: what may have ended since, which numbers may have been given since, and
 * how an administrator gets out of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/standing.h"
#include "tests/unit/daemon/cluster/cluster_stories.h"

/* hspmdd starts with the rows as they are, put back with --restore over a store of generation @least. */
static void restore(struct cw_world *w, uint64_t least)
{
    struct hsp_buf b;
    struct cw_row *r = &w->rows[w->n_rows++];
    hsp_buf_init(&b, 100);
    hsp_cluster_restored_row(least, &b);
    *r = (struct cw_row){.value = b.data, .len = (uint32_t)b.len};
    (void)snprintf(r->key, sizeof(r->key), HSP_RESTORED_ROW);
    cw_restart(w, NULL);
}

struct says {
    const char *node;
    uint64_t incarnation, generation, term;
    struct hsp_m_kept kept; /* job 0: nothing */
    bool runs, finished;
};

/* One device; node nK on connection K + 1, unless @conn. */
static void hello_on(struct cw_world *w, uint32_t conn, const struct says *s)
{
    struct hsp_m_device dev = {
        .kind = "cpu", .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};
    struct hsp_m_kept kept = s->kept;
    struct hsp_m_run run = {
        .job = kept.job, .running = kept.epoch, .finished = s->finished, .version = 3};
    cw_msg(w, conn,
           (struct hsp_msg){.type = HSP_MSG_HELLO,
                            .u.hello = {.protocol = HSP_PROTO_VERSION,
                                        .node = s->node,
                                        .address = "a",
                                        .incarnation = cw_secret(s->incarnation),
                                        .cluster = w->c->id,
                                        .generation = s->generation,
                                        .term = s->term,
                                        .n_devices = 1,
                                        .devices = &dev,
                                        .n_kept = kept.job != 0,
                                        .kept = &kept,
                                        .n_runs = s->runs,
                                        .runs = &run}});
}

static void hello(struct cw_world *w, const struct says *s)
{
    hello_on(w, (uint32_t)(s->node[1] - '0') + 1, s);
}

static void hello_empty(struct cw_world *w, const char *node)
{
    hello(w, &(struct says){.node = node,
                            .incarnation = hsp_cluster_node_by_name(w->c, node)->incarnation});
}

static void hello_keeping(struct cw_world *w, const char *node, uint32_t job, uint64_t epoch)
{
    hello(w, &(struct says){.node = node,
                            .incarnation = hsp_cluster_node_by_name(w->c, node)->incarnation,
                            .kept = {.job = job, .name = "j", .epoch = epoch, .plan = 1},
                            .runs = true});
}

static void sealed_empty(struct cw_world *w, uint32_t node)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){
               .type = HSP_MSG_SEALED, .epoch = cw_job(w, 1)->seal_upto, .u.sealed = {.job = 1}});
}

static void wait(struct cw_world *w, hsp_msec ms)
{
    for (hsp_msec end = w->now + ms; w->now < end;) {
        w->now += 500;
        for (uint32_t i = 0; i < w->c->n_nodes; i++) {
            if (w->c->nodes[i].conn != 0) {
                cw_msg(w, w->c->nodes[i].conn, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            }
        }
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

/* ---- after --restore: what may have ended since ---- */

/* j runs on n0 and n1 and has done step 3, when a backup is made and put back. */
static void put_back(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    cw_run_job(w, 2);
    cw_pass(w, 1, 3, cw_even, 2);
    assert_int_equal(
        cw_admin(w,
                 (struct hsp_admin_event){.verb = HSP_ADMIN_SCALE, .job = 1, .min = 1, .max = 8}),
        HSP_OK); /* so that the row tells of the step */
    restore(w, 0);
}

/* The agents have deleted its state since. */
static void ended_since(struct cw_world *w)
{
    put_back(w);
    hello_empty(w, "n0");
    hello_empty(w, "n1");
    sealed_empty(w, 0);
    sealed_empty(w, 1);
}

static void a_job_without_state_is_held(void **state)
{
    (void)state;
    struct cw_world w;
    ended_since(&w);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_PAUSED);
    assert_string_equal(cw_fact(&w, "job.held"),
                        "an older store was put back and no agent keeps state of it: it may have "
                        "ended since; hspmdctl resume j lets it go on, hspmdctl cancel j ends it");
    assert_string_equal(j->reason, cw_fact(&w, "job.held"));
    w.n_asked = 0;
    wait(&w, 2 * w.c->cfg.state_wait_ms);
    assert_int_equal(w.n_asked, 0);
    assert_int_equal(j->state, HSP_JOB_PAUSED);
    /* over a restart */
    cw_restart(&w, NULL);
    hello_empty(&w, "n0");
    hello_empty(&w, "n1");
    sealed_empty(&w, 0);
    sealed_empty(&w, 1);
    wait(&w, 2 * w.c->cfg.state_wait_ms);
    assert_int_equal(w.n_asked, 0);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "it may have ended since"));
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_CANCELLED);
    assert_false(cw_job(&w, 1)->doubted);
    cw_end(&w);
}

static void resume_lets_a_held_job_go_on(void **state)
{
    (void)state;
    struct cw_world w;
    ended_since(&w);
    assert_int_equal(cw_admin(&w,
                              (struct hsp_admin_event){
                                  .verb = HSP_ADMIN_RESUME, .job = 1, .has_step = true, .step = 7}),
                     HSP_ESTATE);
    assert_true(cw_job(&w, 1)->doubted);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.resume"),
                        "it was held since an older store was put back");
    assert_non_null(strstr(cw_job(&w, 1)->reason, "waiting for more"));
    wait(&w, 2 * w.c->cfg.state_wait_ms);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED); /* it has no checkpoint */
    cw_end(&w);
}

static void a_job_that_its_agents_keep_goes_on(void **state)
{
    (void)state;
    struct cw_world w;
    put_back(&w);
    hello_keeping(&w, "n0", 1, 1);
    assert_true(cw_job(&w, 1)->doubted); /* n1 may know better */
    hello_keeping(&w, "n1", 1, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    assert_false(cw_job(&w, 1)->doubted);
    assert_string_equal(cw_job(&w, 1)->reason, "");
    cw_restart(&w, NULL);
    assert_false(cw_job(&w, 1)->doubted);
    cw_end(&w);
}

/* n0 was away when the job ended. */
static void one_of_two_does_not_vouch(void **state)
{
    (void)state;
    struct cw_world w;
    put_back(&w);
    hello_keeping(&w, "n0", 1, 1);
    hello_empty(&w, "n1");
    sealed_empty(&w, 0);
    sealed_empty(&w, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
    assert_non_null(strstr(cw_fact(&w, "job.held"), "node n1 keeps no state of it any more"));
    cw_end(&w);
}

/* n1 is gone for good: what n0 keeps is all there is, and nobody contradicts. */
static void who_is_dead_does_not_contradict(void **state)
{
    (void)state;
    struct cw_world w;
    put_back(&w);
    hello_keeping(&w, "n0", 1, 1);
    wait(&w, w.c->cfg.dead_ms);
    sealed_empty(&w, 0);
    assert_false(cw_job(&w, 1)->doubted);
    cw_end(&w);
}

static void a_job_that_had_not_begun_is_held(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 1), HSP_OK);
    restore(&w, 0);
    w.n_asked = 0;
    hello_empty(&w, "n0");
    assert_int_equal(w.n_asked, 0);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PENDING);
    assert_non_null(strstr(cw_fact(&w, "job.held"), "it had not begun by then"));
    assert_int_equal(cw_submit(&w, "new", 0, 1, 1), HSP_OK); /* is no matter of the backup */
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, w.asked_job), HSP_OK);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_equal(w.asked_job, 1);
    cw_end(&w);
}

HSP_TEST_FILE(older_store_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_state_is_held),
        cmocka_unit_test(resume_lets_a_held_job_go_on),
        cmocka_unit_test(a_job_that_its_agents_keep_goes_on),
        cmocka_unit_test(one_of_two_does_not_vouch),
        cmocka_unit_test(who_is_dead_does_not_contradict),
        cmocka_unit_test(a_job_that_had_not_begun_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
