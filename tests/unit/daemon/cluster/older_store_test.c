/* Tests an older store in the place of the newest: jobs that may have ended since, numbers that may
 * have been given since, and the ways out for an administrator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/row_read.h"
#include "daemon/cluster/standing.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"
#include "tests/unit/daemon/cluster/cluster_stories.h"

/* hspmdd starts with the rows as they are, put back with --restore over a store of generation
 * @least. */
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
    struct hsp_m_kept kept = s->kept;
    struct hsp_m_run run = {
        .job = kept.job, .running = kept.epoch, .finished = s->finished, .version = 3};
    cw_say_hello(w, conn,
                 (struct hsp_m_hello){.node = s->node,
                                      .address = "a",
                                      .incarnation = cw_secret(s->incarnation),
                                      .cluster = w->c->id,
                                      .generation = s->generation,
                                      .term = s->term,
                                      .n_kept = kept.job != 0,
                                      .kept = &kept,
                                      .n_runs = s->runs,
                                      .runs = &run});
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

/* ---- after --restore: jobs that may have ended since ---- */

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
    cw_sealed(w, 0, 0, 0);
    cw_sealed(w, 1, 0, 0);
}

static void a_job_without_state_is_held(void **state)
{
    (void)state;
    struct cw_world w;
    ended_since(&w);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_PAUSED);
    assert_string_equal(
        cw_fact(&w, "job.held"),
        "an older store was put back and no connected agent proves that it stores state of it: it "
        "may have ended since; hspmdctl resume j continues it, hspmdctl cancel j ends it");
    assert_string_equal(j->reason, cw_fact(&w, "job.held"));
    w.n_asked = 0;
    wait(&w, 2 * w.c->cfg.state_wait_ms);
    assert_int_equal(w.n_asked, 0);
    assert_int_equal(j->state, HSP_JOB_PAUSED);
    /* over a restart */
    cw_restart(&w, NULL);
    hello_empty(&w, "n0");
    hello_empty(&w, "n1");
    cw_sealed(&w, 0, 0, 0);
    cw_sealed(&w, 1, 0, 0);
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
    assert_non_null(strstr(cw_job(&w, 1)->reason, "all nodes that had it are back without it"));
    wait(&w, w.c->cfg.dead_ms + 1000); /* much less than the time for nodes that are away */
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED); /* the job has no checkpoint */
    cw_end(&w);
}

/* Its row tells of no step: the agents, with their memory, have deleted the state since. */
static void a_held_job_of_unknown_progress_does_not_begin_anew(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_pass(&w, 1, 3, cw_even, 2);
    restore(&w, 0);
    hello_empty(&w, "n0");
    hello_empty(&w, "n1");
    cw_sealed(&w, 0, 0, 0);
    cw_sealed(&w, 1, 0, 0);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_not_equal(cw_job(&w, 1)->state, HSP_JOB_STARTING);
    wait(&w, w.c->cfg.dead_ms + 1000);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "its newest step is not known here"));
    cw_end(&w);
}

/* The job may have run since on nodes that are not here. The administrator says that it has not
 * ended, not that it has no checkpoints. */
static void a_job_that_had_not_begun_waits_for_who_is_away(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    wc_submit(&w, (struct hsp_job_terms){0});
    restore(&w, 0);
    assert_string_equal(
        cw_job(&w, 1)->reason,
        "an older store was put back: waiting for 2 nodes to come back, or to be dead");
    hello_empty(&w, "n0");
    wait(&w, 2 * w.c->cfg.dead_ms);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "it had not begun by then"));
    w.asks = true;
    w.lack = HSP_LACK_AWAY;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    for (uint32_t i = 0; i < 20; i++) {
        wait(&w, 10000);
        if (w.find_job != 0) {
            cw_ckpts(&w, NULL, 0, "n1: it is not connected");
        }
        assert_int_equal(cw_job(&w, 1)->ticket, 0);
    }
    assert_non_null(strstr(cw_job(&w, 1)->reason, "n1: it is not connected"));
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

/* The agent of n1 was started again behind the backup: its folder is the right one, and knows more
 * than the store. */
static void a_folder_of_before_is_not_called_wrong(void **state)
{
    (void)state;
    struct cw_world w;
    put_back(&w);
    hello_keeping(&w, "n0", 1, 1);
    hello(&w, &(struct says){.node = "n1",
                             .incarnation = 77,
                             .generation = w.c->generation - 1,
                             .kept = {.job = 1, .name = "j", .epoch = 1, .plan = 1},
                             .runs = true});
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_LIVE);
    assert_non_null(cw_fact(&w, "node.joined"));
    assert_null(strstr(cw_fact(&w, "node.joined"), "state folder"));
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
    cw_sealed(&w, 0, 0, 0);
    cw_sealed(&w, 1, 0, 0);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
    assert_non_null(strstr(cw_fact(&w, "job.held"),
                           "node n1 is connected and does not prove that it stores state of it"));
    cw_end(&w);
}

/* n1 is gone for good: the state of n0 is all there is, and nobody contradicts. */
static void who_is_dead_does_not_contradict(void **state)
{
    (void)state;
    struct cw_world w;
    put_back(&w);
    hello_keeping(&w, "n0", 1, 1);
    wait(&w, w.c->cfg.dead_ms);
    cw_sealed(&w, 0, 0, 0);
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
    assert_null(cw_fact(&w, "job.blocked"));                 /* which would say the same */
    assert_int_equal(cw_submit(&w, "new", 0, 1, 1), HSP_OK); /* is no matter of the backup */
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, w.asked_job), HSP_OK);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_equal(w.asked_job, 1);
    cw_end(&w);
}

/* ---- a job that has gone on elsewhere ---- */

static bool closed(const struct cw_world *w, uint32_t conn)
{
    bool is = false;
    for (uint32_t i = 0; i < w->a.n; i++) {
        is = is || (w->a.item[i].type == HSP_ACT_CLOSE && w->a.item[i].conn == conn);
    }
    return is;
}

/* The store has j on n0 and n1 of four nodes; it went on on n2 and n3 in epoch @epoch. */
static void gone_on_in(struct cw_world *w, uint64_t epoch, bool with_restore)
{
    cw_begin(w, 4, 1);
    assert_int_equal(cw_submit(w, "j", 0, 1, 2), HSP_OK);
    cw_plan(w, 1);
    wc_begins(w, 0);
    if (with_restore) {
        restore(w, 0);
    } else {
        cw_restart(w, NULL);
    }
    hello_keeping(w, "n2", 1, epoch);
    assert_int_equal(hsp_cluster_parked_by_name(w->c, "n2")->as, HSP_PARKED_AHEAD);
    hello_empty(w, "n0");
    hello_empty(w, "n1");
    cw_sealed(w, 0, 0, 0);
    cw_sealed(w, 1, 0, 0);
    hello_keeping(w, "n3", 1, epoch);
}

static void gone_on_elsewhere(struct cw_world *w, bool with_restore)
{
    gone_on_in(w, 9, with_restore);
}

static void assert_elsewhere_blocks(bool with_restore)
{
    struct cw_world w;
    gone_on_elsewhere(&w, with_restore);
    const struct hsp_job *j = cw_job(&w, 1);
    w.n_asked = 0;
    wait(&w, 2 * w.c->cfg.state_wait_ms);
    assert_int_equal(w.n_asked, 0);
    assert_int_equal(j->state, HSP_JOB_PAUSED);
    assert_string_equal(
        j->reason, "node n2 stores a newer epoch of it and is no member of it by this store, which "
                   "is older: put the newer store back; hspmdctl cancel j gives up its state");
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_ESTATE);
    /* a connection that breaks is no word, nor is a restart */
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 3});
    wait(&w, w.c->cfg.dead_ms);
    assert_int_equal(w.n_asked, 0);
    cw_restart(&w, NULL);
    assert_string_equal(cw_job(&w, 1)->ahead, "n2");
    hello_empty(&w, "n0");
    hello_empty(&w, "n1");
    hello_keeping(&w, "n2", 1, 9);
    hello_keeping(&w, "n3", 1, 9);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_true(closed(&w, 3) && closed(&w, 4)); /* judged anew: the job that they keep is over */
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 3});
    hello_keeping(&w, "n2", 1, 9);
    /* without --restore its incarnation has died meanwhile */
    assert_int_equal(cw_count_sent(&w, with_restore ? HSP_MSG_WELCOME : HSP_MSG_FENCED), 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), with_restore);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 0);
    cw_end(&w);
}

static void a_proven_node_with_more_blocks_the_job(void **state)
{
    (void)state;
    assert_elsewhere_blocks(true);
    assert_elsewhere_blocks(false);
}

/* When the node is gone, an administrator may say that nothing comes of it; resume --from 0 begins
 * anew. */
static void resume_without_the_node_that_is_ahead(void **state)
{
    (void)state;
    struct cw_world w;
    gone_on_elsewhere(&w, true);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 3});
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 4});
    w.n_asked = 0;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    wait(&w, w.c->cfg.dead_ms + 2 * w.c->cfg.state_wait_ms);
    assert_string_equal(cw_job(&w, 1)->ahead, "");
    assert_int_equal(w.n_asked, 0); /* nobody knows how far it had come */
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
    cw_end(&w);
}

/* A holder of the key may take the name of n2, and does not know its incarnation. */
static void who_proves_nothing_blocks_nothing(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 2), HSP_OK);
    cw_restart(&w, NULL);
    hello(&w, &(struct says){.node = "n2",
                             .incarnation = 77,
                             .kept = {.job = 1, .name = "j", .epoch = 9, .plan = 1},
                             .runs = true});
    assert_int_equal(hsp_cluster_parked_by_name(w.c, "n2")->as, HSP_PARKED_UNPROVEN);
    assert_false(cw_job(&w, 1)->doubted);
    cw_end(&w);
}

/* ---- numbers that were given before ---- */

static uint32_t submitted(struct cw_world *w, const char *name)
{
    assert_int_equal(cw_submit(w, name, 0, 1, 1), HSP_OK);
    return cw_find(w, HSP_ACT_REPLY)->job;
}

static void a_number_is_given_once(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_restart(&w, NULL); /* of before the jobs dusk, dawn and noon */
    uint32_t next = w.c->next_job;
    hello(&w, &(struct says){.node = "n1",
                             .incarnation = w.c->nodes[1].incarnation,
                             .kept = {.job = next, .name = "dusk", .epoch = 3, .plan = 1},
                             .runs = true});
    hello_on(&w, 9,
             &(struct says){.node = "n9", .kept = {.job = next + 2, .name = "dawn", .epoch = 3}});
    hello_on(&w, 10,
             &(struct says){.node = "n8", .kept = {.job = next + 1, .name = "noon", .epoch = 3}});
    assert_int_equal(w.c->n_parked, 2);
    hsp_ci_job_over(w.c, next + 3);
    assert_int_equal(submitted(&w, "new"), next + 4);
    assert_int_equal(submitted(&w, "newer"), next + 5);
    assert_string_equal(cw_job(&w, next)->name, "dusk");
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, next + 4), HSP_OK);
    assert_int_equal(cw_job(&w, next)->state, HSP_JOB_BEHIND);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP) + cw_count_sent(&w, HSP_MSG_RELEASE), 0);
    cw_end(&w);
}

/* The number was given again before its agents came. */
static void another_job_of_the_number_is_left_alone(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_restart(&w, NULL);
    uint32_t id = submitted(&w, "new");
    hello(&w, &(struct says){.node = "n1",
                             .incarnation = w.c->nodes[1].incarnation,
                             .kept = {.job = id, .name = "dusk", .epoch = 3, .plan = 1},
                             .runs = true});
    assert_string_equal(cw_fact(&w, "node.parked"),
                        "it stores state of job dusk, number 1, and here that is job new");
    assert_int_equal(hsp_cluster_parked_by_name(w.c, "n1")->as, HSP_PARKED_AHEAD);
    assert_int_equal(cw_job(&w, id)->state, HSP_JOB_PENDING);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, id), HSP_OK);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    hello(&w, &(struct says){.node = "n1",
                             .incarnation = w.c->nodes[1].incarnation,
                             .kept = {.job = id, .name = "dusk", .epoch = 3, .plan = 1},
                             .runs = true});
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PARKED), 1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP) + cw_count_sent(&w, HSP_MSG_RELEASE), 0);
    cw_end(&w);
}

/* ---- a store that was replaced, and is still beside this one ---- */

static void in_which_generation_it_was_given(void **state)
{
    (void)state;
    const struct hsp_cluster c = {.generation = (uint64_t)2 << 32 | 7};
    static const struct {
        struct hsp_m_kept kept;
        uint64_t in;
    } is[] = {
        {{.epoch = 5, .plan = 7, .generation = (uint64_t)2 << 32 | 7}, 0},
        {{.epoch = 1000001, .plan = 7}, 1},
        {{.epoch = 5, .plan = 2000001}, 2},
        {{.epoch = 5, .plan = 7, .generation = (uint64_t)3 << 32}, 3}, /* ahead of this store */
        {{.epoch = UINT64_MAX, .plan = 1}, UINT64_MAX / 1000000},
    };
    for (size_t i = 0; i < sizeof is / sizeof is[0]; i++) {
        assert_int_equal(hsp_ci_given_in(&c, &is[i].kept), is[i].in);
    }
}

/* This store is of generation 1, put back as it was last week. Numbers that nodes have seen since
 * were given in generation 1: a store of generation 0, which a restore has replaced before, knows
 * less of it. */
static void a_replaced_store_that_is_older_is_not_named(void **state)
{
    (void)state;
    for (uint32_t g = 0; g < 2; g++) { /* generation of the one that was replaced */
        struct cw_world w;
        put_back(&w);
        assert_int_equal(hsp_generation_number(w.c->generation), 1);
        struct hsp_cluster_config cfg = w.c->cfg;
        cfg.replaced = "/s/state.db.replaced-7.0";
        cfg.replaced_generation = g;
        cw_restart(&w, &cfg);
        hello_keeping(&w, "n0", 1, hsp_generation_first(w.c->generation) + 1);
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_BEHIND);
        assert_non_null(strstr(cw_job(&w, 1)->reason, "or put the newer store back"));
        assert_int_equal(strstr(cw_job(&w, 1)->reason, cfg.replaced) != NULL, g == 1);
        cw_end(&w);
        /* a term of the later generation, of all jobs */
        put_back(&w);
        cw_restart(&w, &cfg);
        hello(&w, &(struct says){.node = "n1",
                                 .incarnation = w.c->nodes[1].incarnation,
                                 .generation = w.c->generation,
                                 .term = w.c->term + 1});
        assert_true(w.c->behind);
        assert_int_equal(strstr(w.c->behind_why, cfg.replaced) != NULL, g == 1);
        cw_end(&w);
    }
}

/* The job has gone on here above the checkpoints of another cluster, in epochs of a later
 * generation than this cluster's, and a store of before is put back: its node says that there were
 * newer ones all the same, and is no stranger. */
static void epochs_above_those_of_another_cluster_are_newer(void **state)
{
    (void)state;
    const uint64_t epoch = 12 * HSP_GENERATION_NUMBERS + 282002;
    struct cw_world w;
    put_back(&w);
    hello_keeping(&w, "n0", 1, epoch);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_BEHIND);
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n0")->state, HSP_NODE_LIVE);
    cw_end(&w);
    gone_on_in(&w, epoch, true); /* on nodes that are not its by this store */
    assert_string_equal(cw_job(&w, 1)->ahead, "n2");
    cw_end(&w);
}

/* Another cluster adopted j by mistake, and wrote 30 in epoch @theirs. Here j went on from 30 in
 * the epoch above, and in two more. The store of before those two is put in the place of the
 * newest, without --restore. */
static void an_older_store_after_a_mistaken_adoption(void **state)
{
    (void)state;
    const uint64_t theirs = HSP_GENERATION_NUMBERS + 409002;
    for (uint32_t first = 0; first < 2;
         first++) { /* n2, which never had j, comes before or after those that have */
        struct cw_world w;
        wc_running(&w);
        wc_cancelled(&w);
        wc_sees(&w, 30, theirs, 7);
        wc_resumed(&w);
        wc_begins(&w, 31);
        assert_int_equal(cw_job(&w, 1)->cur.epoch, theirs + 1);
        cw_restart(&w, NULL);
        w.n_asked = 0;
        if (first == 0) {
            cw_hello(&w, 3, "n2", 0, 1);
        }
        for (uint32_t i = 0; i < 2; i++) {
            struct hsp_m_kept kept = {.job = 1,
                                      .name = "j",
                                      .cluster = w.c->id,
                                      .generation = w.c->generation,
                                      .epoch = theirs + 3,
                                      .plan = 2};
            hello(&w, &(struct says){.node = i == 0 ? "n0" : "n1",
                                     .incarnation = w.c->nodes[i].incarnation,
                                     .generation = w.c->generation,
                                     .kept = kept,
                                     .runs = true});
            assert_int_equal(cw_count_sent(&w, HSP_MSG_FENCED), 0);
        }
        if (first == 1) {
            cw_hello(&w, 3, "n2", 0, 1);
        }
        wait(&w, 2 * w.c->cfg.state_wait_ms);
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_BEHIND);
        assert_int_equal(w.n_asked, 0); /* nor is anything planned for n2 */
        assert_int_equal(w.c->nodes[0].state, HSP_NODE_LIVE);
        cw_end(&w);
    }
}

static void of_a_job_that_has_gone_on_elsewhere(void **state)
{
    (void)state;
    struct cw_world w;
    gone_on_elsewhere(&w, true);
    assert_int_equal(hsp_ci_ahead_given_in(w.c, cw_job(&w, 1)), 0); /* epoch 9 */
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 3});
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 4});
    assert_true(hsp_ci_ahead_given_in(w.c, cw_job(&w, 1)) == UINT64_MAX);
    cw_end(&w);
}

/* The nodes that keep it come and go: that is no news. */
static void what_holds_a_job_is_told_once(void **state)
{
    (void)state;
    struct cw_world w;
    uint32_t told = 0;
    gone_on_elsewhere(&w, true);
    w.c->cfg.replaced = "/s/state.db.replaced-7.0";
    w.c->cfg.replaced_generation = 1;
    wait(&w, w.c->cfg.dead_ms + 1000u);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
    for (uint32_t i = 0; i < 9; i++) { /* n3, n2, then n2 again */
        if (i % 3 < 2) {
            cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 4 - i % 3});
        } else {
            hello_keeping(&w, "n2", 1, 9);
            assert_int_equal(hsp_cluster_parked_by_name(w.c, "n2")->as, HSP_PARKED_AHEAD);
        }
        told += cw_fact(&w, "job.held") != NULL || cw_fact(&w, "job.blocked") != NULL;
        assert_non_null(strstr(cw_job(&w, 1)->reason, w.c->cfg.replaced));
    }
    assert_int_equal(told, 0);
    cw_end(&w);
}

/* ---- two restores of one backup ---- */

static void a_restore_comes_after_what_members_have_obeyed(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_cluster_row rows[CW_ROWS];
    struct hsp_whose whose = {.generation = 0};
    struct says n1 = {.node = "n1", .generation = (uint64_t)5 << 32 | 3, .term = 5000003};
    cw_begin(&w, 2, 1);
    cw_restart(&w, NULL);
    n1.incarnation = w.c->nodes[1].incarnation;
    hello(&w, &n1);
    assert_true(w.c->behind);
    assert_non_null(
        strstr(w.c->behind_why, "if that store is lost, hspmdd --restore with a backup"));
    assert_true(hsp_cluster_parked_by_name(w.c, "n1")->ahead);
    assert_int_equal(hsp_cluster_parked_by_name(w.c, "n1")->as, HSP_PARKED_AHEAD);
    hello_empty(&w, "n0");
    assert_int_equal(hsp_cluster_parked_by_name(w.c, "n0")->as, HSP_PARKED_WAITS);
    cw_restart(&w, NULL);
    assert_int_equal(hsp_generation_number(w.c->ahead), 5);
    uint32_t n = cw_rows(&w, rows);
    for (uint32_t i = 0; i < n; i++) {
        (void)hsp_cluster_row_whose(&rows[i], &whose); /* the facts for the next --restore */
    }
    assert_int_equal(hsp_generation_number(whose.generation), 5);
    restore(&w, 0);
    assert_int_equal(hsp_generation_number(w.c->generation), 6);
    hello(&w, &n1);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_WELCOME), 1);
    assert_false(w.c->behind);
    cw_end(&w);
}

/* ---- a job that is behind ---- */

static void finished(struct cw_world *w, uint32_t node, uint64_t epoch)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){
               .type = HSP_MSG_FINISHED, .epoch = epoch, .u.finished = {.job = 1, .step = 100}});
}

static void the_end_of_a_job_that_is_behind(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 2), HSP_OK);
    cw_plan(&w, 1);
    wc_begins(&w, 0);
    cw_restart(&w, NULL);
    hello_keeping(&w, "n0", 1, 9);
    hello_keeping(&w, "n1", 1, 9);
    hello_empty(&w, "n2");
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_BEHIND);
    finished(&w, 2, 9); /* the node holds nothing of the job */
    finished(&w, 0, 8); /* another epoch came */
    assert_null(strstr(j->reason, "done"));
    finished(&w, 0, 9);
    assert_string_equal(j->reason, cw_fact(&w, "job.says_done"));
    assert_string_equal(j->reason,
                        "n0 reports that it is done and its outputs are written: hspmdctl cancel j "
                        "ends it here too, and gives back its devices");
    finished(&w, 0, 9);
    assert_null(cw_fact(&w, "job.says_done"));
    assert_int_equal(j->state, HSP_JOB_BEHIND); /* an administrator may believe it */
    assert_int_equal(
        cw_admin(&w,
                 (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = "n0", .reason = "fan"}),
        HSP_OK);
    assert_non_null(strstr(cw_fact(&w, "node.drain_waits"), "job j is behind, its state stays"));
    assert_ptr_equal(hsp_cluster_stays(w.c, &w.c->nodes[0]), j);
    assert_null(hsp_cluster_stays(w.c, &w.c->nodes[2]));
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    cw_said(&w, 0, HSP_MSG_STOPPED, 9);
    assert_non_null(cw_fact(&w, "node.drained"));
    cw_end(&w);
}

/* The agent said so when nobody listened. */
static void the_end_is_told_by_hello_too(void **state)
{
    (void)state;
    struct cw_world w;
    put_back(&w);
    hello(&w, &(struct says){.node = "n0",
                             .incarnation = w.c->nodes[0].incarnation,
                             .kept = {.job = 1, .name = "j", .epoch = 9, .plan = 1},
                             .runs = true,
                             .finished = true});
    assert_non_null(strstr(cw_job(&w, 1)->reason, "n0 reports that it is done"));
    cw_restart(&w, NULL);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "n0 reports that it is done"));
    cw_end(&w);
}

/* The backup was put back before, each time into an empty folder, and the store of that time is
 * lost as well: n0 has obeyed it. */
static void the_same_backup_is_put_back_twice(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) {
        struct cw_world w;
        put_back(&w);
        const uint64_t theirs = (uint64_t)(1 + later) << 32 | 9;
        const uint64_t epoch = hsp_generation_first(theirs);
        assert_int_equal(hsp_generation_number(w.c->generation), 1);
        assert_true(epoch != hsp_generation_first(w.c->generation)); /* even without a word of n0 */
        struct says s = {.node = "n0",
                         .incarnation = hsp_cluster_node_by_name(w.c, "n0")->incarnation,
                         .generation = theirs,
                         .term = HSP_GENERATION_NUMBERS,
                         .kept = {.job = 1,
                                  .name = "j",
                                  .cluster = w.c->id,
                                  .generation = theirs,
                                  .epoch = epoch,
                                  .plan = 1},
                         .runs = true};
        hello(&w, &s);
        assert_false(w.c->behind);
        assert_int_equal(hsp_generation_number(w.c->generation), 2 + later);
        assert_non_null(
            strstr(cw_fact(&w, "coordinator.restored"), "node n0 has obeyed generation"));
        assert_int_equal(hsp_cluster_node_by_name(w.c, "n0")->state, HSP_NODE_LIVE);
        struct hsp_job j = *cw_job(&w, 1);
        assert_int_equal(j.state, HSP_JOB_BEHIND); /* n0 has seen epochs that are not on record */
        assert_true(hsp_ci_take_epoch(w.c, &j) >= hsp_generation_first(w.c->generation));
        /* a later start is no restore: another store may be newer */
        cw_restart(&w, NULL);
        s.node = "n1";
        s.incarnation = hsp_cluster_node_by_name(w.c, "n1")->incarnation;
        s.generation = (uint64_t)5 << 32;
        hello(&w, &s);
        assert_true(w.c->behind);
        cw_end(&w);
    }
}

HSP_TEST_FILE(older_store_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_state_is_held),
        cmocka_unit_test(a_job_that_had_not_begun_waits_for_who_is_away),
        cmocka_unit_test(resume_lets_a_held_job_go_on),
        cmocka_unit_test(a_held_job_of_unknown_progress_does_not_begin_anew),
        cmocka_unit_test(a_job_that_its_agents_keep_goes_on),
        cmocka_unit_test(a_folder_of_before_is_not_called_wrong),
        cmocka_unit_test(one_of_two_does_not_vouch),
        cmocka_unit_test(who_is_dead_does_not_contradict),
        cmocka_unit_test(a_job_that_had_not_begun_is_held),
        cmocka_unit_test(a_proven_node_with_more_blocks_the_job),
        cmocka_unit_test(resume_without_the_node_that_is_ahead),
        cmocka_unit_test(who_proves_nothing_blocks_nothing),
        cmocka_unit_test(a_number_is_given_once),
        cmocka_unit_test(another_job_of_the_number_is_left_alone),
        cmocka_unit_test(in_which_generation_it_was_given),
        cmocka_unit_test(a_replaced_store_that_is_older_is_not_named),
        cmocka_unit_test(epochs_above_those_of_another_cluster_are_newer),
        cmocka_unit_test(an_older_store_after_a_mistaken_adoption),
        cmocka_unit_test(of_a_job_that_has_gone_on_elsewhere),
        cmocka_unit_test(what_holds_a_job_is_told_once),
        cmocka_unit_test(a_restore_comes_after_what_members_have_obeyed),
        cmocka_unit_test(the_same_backup_is_put_back_twice),
        cmocka_unit_test(the_end_of_a_job_that_is_behind),
        cmocka_unit_test(the_end_is_told_by_hello_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
