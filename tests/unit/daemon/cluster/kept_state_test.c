/* Tests a job that fails: its devices are free, its state stays until an administrator gives it
 * up. */
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/index.h"
#include "daemon/cluster/job_list.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/spread.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

static enum hsp_status admin(struct cw_world *w, enum hsp_admin_verb verb)
{
    return cw_admin(w, (struct hsp_admin_event){.verb = verb, .job = 1, .actor = "me"});
}

/* Node @node holds version @version of the first layout. */
static struct hsp_m_holding held(uint32_t node, uint64_t version)
{
    return (struct hsp_m_holding){
        .job = 1, .plan = 1, .rank = node, .owner = node, .version = version};
}

/* The node comes back with the pieces that it holds. */
static void returns(struct cw_world *w, uint32_t node, uint32_t conn, const char *name)
{
    struct hsp_m_holding h = held(node, 7);
    cw_say_hello(w, conn,
                 (struct hsp_m_hello){
                     .node = name, .was = cw_last(w, name), .n_holdings = 1, .holdings = &h});
}

/* A job of two nodes, version 7, diverges. */
static void failed(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    cw_run_job(w, 2);
    cw_pass(w, 1, 7, cw_even, 2);
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_JOB_FAILED,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.jobfail = {.job = 1, .reason = "diverged"}});
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_FAILED);
    assert_int_equal(cw_count_sent(w, HSP_MSG_SEAL), 2);
    assert_int_equal(cw_count_sent(w, HSP_MSG_STOP), 0);
}

/* hspmdd ends before its members hear that the job is set aside: the next one has them seal it. */
static void what_was_not_told_is_told_again(void **state)
{
    (void)state;
    for (int heard = 0; heard < 2; heard++) {
        struct cw_world w;
        cw_begin(&w, 2, 1);
        cw_run_job(&w, 2);
        cw_pass(&w, 1, 7, cw_even, 2);
        cw_restart(&w, NULL);
        cw_step(&w, (struct hsp_event){.type = HSP_EV_UNREADABLE, .u.unreadable = {1, "test"}});
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
        for (int term = heard; term < 2; term++) {
            for (uint32_t i = 0; i < 2; i++) {
                char name[8];
                (void)snprintf(name, sizeof name, "n%u", i);
                cw_hello_running(&w, i + 1, name, w.c->nodes[i].incarnation, 1, 1);
                assert_int_equal(cw_count_sent(&w, HSP_MSG_SEAL), 1);
            }
            if (term == 0) {
                cw_restart(&w, NULL);
            }
        }
        cw_sealed(&w, 0, 1, 7);
        cw_sealed(&w, 1, 1, 7);
        assert_int_equal(cw_job(&w, 1)->n_leases, 0);
        cw_end(&w);
    }
}

/* The report of the other rank about the epoch that broke may come first. */
static void a_failure_behind_a_loss_is_heard(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_pass(&w, 1, 7, cw_even, 2);
    uint64_t epoch = cw_job(&w, 1)->cur.epoch;
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = epoch,
                            .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "aborted"}});
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_JOB_FAILED,
                            .epoch = epoch,
                            .u.jobfail = {.job = 1, .reason = "diverged"}});
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
    assert_string_equal(cw_job(&w, 1)->reason, "diverged");
    cw_sealed(&w, 0, 1, 7);
    cw_sealed(&w, 1, 1, 7);
    assert_true(hsp_ci_keeps_state(cw_job(&w, 1)));
    assert_int_equal(cw_job(&w, 1)->n_leases, 0);
    cw_end(&w);
}

/* The same, and its nodes have answered. */
static void at_rest(struct cw_world *w)
{
    failed(w);
    cw_sealed(w, 0, 1, 7);
    cw_sealed(w, 1, 1, 7);
    assert_int_equal(cw_job(w, 1)->n_leases, 0);
    assert_true(hsp_ci_keeps_state(cw_job(w, 1)));
}

static void its_devices_are_free_when_it_is_sealed(void **state)
{
    (void)state;
    struct cw_world w;
    failed(&w);
    assert_int_equal(cw_job(&w, 1)->n_leases, 2);
    assert_int_equal(admin(&w, HSP_ADMIN_FORGET), HSP_ESTATE);
    cw_sealed(&w, 0, 1, 7);
    assert_int_equal(cw_job(&w, 1)->n_leases, 1);
    cw_sealed(&w, 1, 1, 7);
    assert_int_equal(cw_job(&w, 1)->n_leases, 0);
    assert_int_equal(cw_submit(&w, "k", 0, 2, 2), HSP_OK);
    assert_int_equal(w.n_asked, 2);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE) + cw_count_sent(&w, HSP_MSG_STOP), 0);
    cw_end(&w);
}

/* The job goes on from the answers of its nodes, whether they have answered before or not. */
static void resumed_while_it_is_sealed(void **state)
{
    (void)state;
    for (uint32_t answered = 0; answered < 2; answered++) {
        struct cw_world w;
        failed(&w);
        for (uint32_t i = 0; i < answered; i++) {
            cw_sealed(&w, i, 1, 7);
        }
        assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_OK);
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
        cw_sealed(&w, 0, 1, 7);
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
        cw_sealed(&w, 1, 1, 7);
        cw_plan(&w, 1);
        assert_int_equal(cw_job(&w, 1)->att.mode, HSP_MODE_RECOVER);
        assert_int_equal(cw_job(&w, 1)->att.step, 7);
        cw_end(&w);
    }
}

/* Neither status nor resume says that there is state which no node here is known to have. */
static void a_part_is_not_here(void **state)
{
    (void)state;
    for (uint32_t other = 0; other < 2; other++) {
        struct hsp_spread s;
        struct cw_world w;
        at_rest(&w);
        assert_true(hsp_cluster_spread(w.c, cw_job(&w, 1), &s));
        assert_true(s.min_nodes > 0);
        for (uint32_t i = 0; other && i < 2; i++) {
            cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1 + i});
        }
        while (other && w.c->nodes[1].state != HSP_NODE_DEAD) {
            w.now += 400;
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        for (uint32_t i = 0; other && i < 2; i++) { /* others with the names */
            cw_say_hello(&w, 1 + i, (struct hsp_m_hello){.node = w.c->nodes[i].name});
            assert_int_equal(w.c->nodes[i].state, HSP_NODE_LIVE);
        }
        assert_true(hsp_cluster_spread(w.c, cw_job(&w, 1), &s));
        assert_int_equal(s.min_nodes > 0, !other);
        assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_OK);
        assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                            other ? "a part of its state of step 7 is on no connected node: the "
                                    "job waits for a node that has it"
                                  : "it begins with the state that its workers store, of step 7");
        cw_end(&w);
    }
}

/* One that does not answer is dead, as after a loss, and its device is not the job's any more. */
static void a_node_that_does_not_seal(void **state)
{
    (void)state;
    struct cw_world w;
    failed(&w);
    cw_sealed(&w, 0, 1, 7);
    for (uint32_t i = 0; i < 20; i++) {
        w.now += 400;
        cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n1")->state, HSP_NODE_DEAD);
    assert_int_equal(cw_job(&w, 1)->n_leases, 0);
    assert_true(hsp_ci_keeps_state(cw_job(&w, 1)));
    cw_end(&w);
}

/* Nor does the connection of another that breaks again and again, and its own neither, give it more
 * time. */
static void one_that_says_hello_again_and_again(void **state)
{
    (void)state;
    struct cw_world w;
    failed(&w);
    const struct hsp_cluster_node *n = w.c->nodes;
    const uint64_t incarnation = n[0].incarnation;
    uint32_t hellos = 0;
    for (; hellos < 20 && n[1].state != HSP_NODE_DEAD; hellos++) {
        w.now += 400;
        cw_hello_running(&w, 10 + hellos, "n0", incarnation, 1, 1);
        cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(hellos, (w.c->cfg.seal_ms + 399) / 400);
    assert_int_equal(n[1].state, HSP_NODE_DEAD);
    assert_int_equal(n[0].state, HSP_NODE_DEAD);
    cw_end(&w);
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    n = w.c->nodes;
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref = {.job = 1}});
    for (uint32_t i = 0; i < 59; i++) {
        assert_int_equal(n[1].state, HSP_NODE_LIVE);
        w.now += 1000;
        cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_hello_running(&w, 10 + i, "n1", n[1].incarnation, 1, 1);
    }
    w.now += 1000;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(n[1].state, HSP_NODE_DEAD);
    cw_end(&w);
}

/* n1 beats, and never says that it has let go: its device is not the job's for ever. */
static void a_node_that_does_not_let_go(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 2);
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref = {.job = 1}});
    for (uint32_t i = 0; i < 59; i++) {
        w.now += 1000;
        cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    }
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n1")->state, HSP_NODE_LIVE);
    assert_int_equal(cw_job(&w, 1)->n_leases, 1);
    w.now += 1000;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n1")->state, HSP_NODE_DEAD);
    assert_string_equal(
        cw_fact(&w, "node.dead"),
        "did not release the state of job j within 60000 ms; it joins again, or see its log");
    assert_int_equal(cw_job(&w, 1)->n_leases, 0);
    assert_int_equal(admin(&w, HSP_ADMIN_FORGET), HSP_OK);
    cw_end(&w);
}

static void drain(struct cw_world *w, const char *node)
{
    (void)cw_admin(
        w, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = node, .reason = "test"});
}

/* n1 is drained and gives its state to n2. n1 beats, and never says that it has left the epoch
 * before: its device is not the job's for ever, and the job is planned anew. */
static void a_source_that_does_not_leave(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 2), HSP_OK);
    cw_plan(&w, 1);
    wc_begins(&w, 0);
    drain(&w, "n1");
    cw_plan(&w, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(&w, 1, i, 5);
    }
    cw_pass(&w, 1, 4, cw_even, 2);
    assert_int_equal(cw_job(&w, 1)->cur.n_peers, 3);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 2); /* to n0 and n2 */
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_RELEASED, .u.devref = {.job = 1}});
    cw_msg(&w, 3, (struct hsp_msg){.type = HSP_MSG_RELEASED, .u.devref = {.job = 1}});
    drain(&w, "n2");
    for (uint32_t s = 1; s <= 60; s++) {
        assert_int_equal(hsp_cluster_node_by_name(w.c, "n1")->state, HSP_NODE_LIVE);
        assert_int_equal(cw_job(&w, 1)->ticket, 0);
        w.now += s < 60 ? 1000 : 500;
        for (uint32_t i = 0; i < 3; i++) {
            cw_msg(&w, i + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    w.now += 500;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n1")->state, HSP_NODE_DEAD);
    assert_string_equal(cw_fact(&w, "node.dead"),
                        "did not leave the previous epoch of job j within 60000 ms; it joins "
                        "again, or see its log");
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    assert_int_not_equal(cw_job(&w, 1)->ticket, 0);
    cw_end(&w);
}

static void it_goes_on_from_what_is_kept(struct cw_world *w)
{
    assert_int_equal(admin(w, HSP_ADMIN_RESUME), HSP_OK);
    assert_string_equal(cw_fact(w, "admin.resume"), "from the state of its nodes, version 7");
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_SEALING);
    assert_int_equal(cw_count_sent(w, HSP_MSG_SEAL), 2);
    cw_sealed(w, 0, 1, 7);
    cw_sealed(w, 1, 1, 7);
    const struct hsp_job *j = cw_job(w, 1);
    assert_int_equal(j->state, HSP_JOB_RECOVERING);
    if (j->att.epoch == 0) {
        cw_plan(w, 1);
    }
    assert_int_equal(j->att.mode, HSP_MODE_RECOVER);
    assert_int_equal(j->att.step, 7);
    for (uint32_t i = 0; i < 2; i++) {
        cw_ready(w, 1, i, 5);
    }
    cw_pass(w, 1, 7, cw_even, 2);
    assert_int_equal(j->state, HSP_JOB_RUNNING);
    assert_int_equal(j->failures, 0);
}

/* Step 7 had its vote, and is made again. */
static void resume_goes_on_from_the_newest_version(void **state)
{
    (void)state;
    struct cw_world w;
    at_rest(&w);
    it_goes_on_from_what_is_kept(&w);
    assert_int_equal(wc_steps_lost(&w), 1);
    cw_end(&w);
}

static enum hsp_status resume_of(struct cw_world *w, uint64_t diverged_from)
{
    return cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_RESUME,
                                                .job = 1,
                                                .diverged = true,
                                                .diverged_from = diverged_from});
}

/* Its state is no better than its loss: a checkpoint of before is named, and none is taken
 * unasked. */
static void a_diverged_job_is_not_resumed(void **state)
{
    (void)state;
    struct cw_world w;
    at_rest(&w);
    assert_int_equal(resume_of(&w, 6), HSP_ESTATE);
    assert_string_equal(
        cw_find(&w, HSP_ACT_REPLY)->text,
        "job j has diverged: its loss is not finite from step 6 on, and it has no checkpoint: "
        "cancel it, and submit it again with other settings, such as a smaller lr");
    struct hsp_job *j = w.c->jobs[0];
    j->has_ckpt = true;
    j->ckpt_step = 6;
    assert_int_equal(resume_of(&w, 6), HSP_ESTATE);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "job j has diverged: its loss is not finite from step 6 on, nor is that of "
                        "its checkpoints; resume --from still accepts one: 6");
    for (uint64_t step = 4; step < 6; step++) {
        j->older[j->n_older++].step = step;
    }
    assert_int_equal(resume_of(&w, 5), HSP_ESTATE);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "job j has diverged: its loss is not finite from step 5 on; hspmdctl "
                        "resume j --from 4 uses its newest checkpoint with a finite loss");
    assert_int_equal(j->state, HSP_JOB_FAILED);
    assert_true(hsp_ci_keeps_state(j) && j->stable == 7);
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK); /* its newest checkpoint is no better */
    assert_int_equal(resume_of(&w, 6), HSP_ESTATE);
    assert_non_null(strstr(cw_find(&w, HSP_ACT_REPLY)->text, "resume j --from 5 uses"));
    assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_RESUME,
                                                           .job = 1,
                                                           .has_step = true,
                                                           .step = 5,
                                                           .diverged = true,
                                                           .diverged_from = 6}),
                     HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.resume"), "from version 5");
    cw_end(&w);
}

/* The steps that were not finite were behind its present version. */
static void what_diverged_is_over(void **state)
{
    (void)state;
    struct cw_world w;
    at_rest(&w);
    assert_int_equal(resume_of(&w, 8), HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.resume"), "from the state of its nodes, version 7");
    cw_end(&w);
}

/* hspmdd starts again, and nodes come back with their state: nothing is deleted. */
static void it_outlives_a_restart(void **state)
{
    (void)state;
    struct cw_world w;
    at_rest(&w);
    cw_restart(&w, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "n%u", i);
        returns(&w, i, i + 1, name);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE) + cw_count_sent(&w, HSP_MSG_STOP), 0);
    }
    assert_true(hsp_ci_keeps_state(cw_job(&w, 1)));
    assert_int_equal(cw_job(&w, 1)->n_leases, 0);
    it_goes_on_from_what_is_kept(&w);
    cw_end(&w);
}

/* hspmdd starts again before its nodes have answered: they are asked again. */
static void a_restart_while_it_is_sealed(void **state)
{
    (void)state;
    struct cw_world w;
    failed(&w);
    cw_restart_nodes(&w, 2);
    assert_int_equal(cw_job(&w, 1)->n_leases, 2);
    cw_sealed(&w, 0, 1, 7);
    cw_sealed(&w, 1, 1, 7);
    assert_int_equal(cw_job(&w, 1)->n_leases, 0);
    cw_end(&w);
}

static void cancel_gives_it_up(void **state)
{
    (void)state;
    struct cw_world w;
    at_rest(&w);
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_CANCELLED);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 2);
    assert_false(hsp_ci_keeps_state(cw_job(&w, 1)));
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_ESTATE);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text, "job j was already cancelled");
    for (uint32_t i = 0; i < w.n_rows; i++) {
        assert_int_not_equal(strncmp(w.rows[i].key, "plan/", 5), 0);
    }
    cw_end(&w);
}

/* A node that was away deletes the state that it holds when it comes back. */
static void forget_removes_it(void **state)
{
    (void)state;
    struct cw_world w;
    at_rest(&w);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    assert_int_equal(admin(&w, HSP_ADMIN_FORGET), HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.forget"),
                        "j: it was job number 1, failed; the state on its nodes is deleted");
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 1);
    assert_null(cw_job(&w, 1));
    for (uint32_t i = 0; i < w.n_rows; i++) {
        assert_int_not_equal(strncmp(w.rows[i].key, "plan/", 5), 0);
        assert_int_not_equal(strncmp(w.rows[i].key, "job/", 4), 0);
    }
    assert_int_equal(admin(&w, HSP_ADMIN_FORGET), HSP_ENOENT);
    returns(&w, 1, 7, "n1");
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 1);
    cw_end(&w);
}

/* A drain has ended when nothing is left on the node: state of a failed job would go with its
 * agent. */
static void a_drain_waits_for_it(void **state)
{
    (void)state;
    struct cw_world w;
    at_rest(&w);
    cw_hello(&w, 3, "n2", 0, 1);
    drain(&w, "n2");
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "it has no state and is drained: its agent may be stopped");
    assert_non_null(cw_fact(&w, "node.drained"));
    const struct hsp_cluster_node *n = hsp_cluster_node_by_name(w.c, "n0");
    assert_string_equal(hsp_cluster_node_word(w.c, n), "live");
    drain(&w, "n0");
    assert_string_equal(
        cw_find(&w, HSP_ACT_REPLY)->text,
        "waits: job j has failed and its state is stored here: resume or cancel it");
    assert_null(cw_fact(&w, "node.drained"));
    assert_string_equal(hsp_cluster_node_word(w.c, n), "draining");
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    assert_string_equal(cw_fact(&w, "node.drained"), "test");
    assert_string_equal(hsp_cluster_node_word(w.c, n), "drained");
    cw_end(&w);
}

/* A reason that is too long for a node is seen to be cut. */
static void a_long_reason_of_a_drain_ends_with_dots(void **state)
{
    (void)state;
    struct cw_world w;
    char reason[301], want[160];
    cw_begin(&w, 1, 1);
    memset(reason, ')', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    const struct hsp_admin_event long_one = {
        .verb = HSP_ADMIN_DRAIN, .node = "n0", .reason = reason};
    assert_int_equal(cw_admin(&w, long_one), HSP_OK);
    (void)snprintf(want, sizeof want, "%.156s...", reason);
    assert_string_equal(hsp_cluster_node_by_name(w.c, "n0")->reason, want);
    cw_end(&w);
}

/* The part of a job that keeps a drain from its end is told: it may have nowhere to go. */
static void a_drain_says_what_it_waits_for(void **state)
{
    (void)state;
    struct cw_world w;
    char text[HSP_TEXT_MAX + 1];
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    const struct hsp_admin_event most = {.verb = HSP_ADMIN_SCALE, .job = 1, .min = 2, .max = 8};
    assert_int_equal(cw_admin(&w, most), HSP_OK);
    drain(&w, "n0");
    const struct hsp_cluster_node *n = hsp_cluster_node_by_name(w.c, "n0");
    hsp_cluster_drain_text(w.c, n, text, sizeof text);
    assert_non_null(strstr(text, "waits: job j is still here, running: drain of n0"));
    assert_non_null(strstr(text, "cannot be done: needs 2 devices"));
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    hsp_cluster_drain_text(w.c, n, text, sizeof text);
    assert_string_equal(text, "waits: job j is cancelled and has not stopped here yet");
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    for (uint32_t i = 0; i < 20; i++) {
        w.now += 400;
        cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_string_equal(hsp_cluster_node_word(w.c, n), "dead"); /* drained, and gone */
    cw_end(&w);
}

static void only_what_has_ended_is_forgotten(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    assert_int_equal(admin(&w, HSP_ADMIN_FORGET), HSP_ESTATE);
    assert_string_equal(
        cw_find(&w, HSP_ACT_REPLY)->text,
        "job j is running: only a job that has ended can be forgotten; cancel it first");
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "its executors stop, then its devices are free; no checkpoint of it is "
                        "known: resume would begin at step 0");
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 2);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 0);
    assert_int_equal(admin(&w, HSP_ADMIN_FORGET), HSP_ESTATE);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "job j is still stopping on n0/0, n1/0: forget it again in a minute; an "
                        "executor that does not stop is killed, see the log of its hspmd-worker");
    struct hsp_admin_event late = {
        .verb = HSP_ADMIN_RESUME, .job = 1, .has_step = true, .stopping = true};
    assert_int_equal(cw_admin(&w, late), HSP_ESTATE);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "job j is still stopping on n0/0, n1/0: resume it again in a minute; an "
                        "executor that does not stop is killed, see the log of its hspmd-worker");
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(&w, i + 1,
               (struct hsp_msg){.type = HSP_MSG_STOPPED,
                                .epoch = cw_job(&w, 1)->next_epoch - 1,
                                .u.devref.job = 1});
    }
    w.c->jobs[0]->has_ckpt = true;
    w.c->jobs[0]->ckpt_step = 4;
    assert_int_equal(admin(&w, HSP_ADMIN_FORGET), HSP_OK);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "it was job number 1, cancelled; its checkpoints 4 stay on disk, but "
                        "resume cannot use them any more");
    assert_null(cw_job(&w, 1));
    cw_end(&w);
}

/* A named checkpoint is taken instead of it; state made from then on is not deleted. */
static void resume_from_a_checkpoint_gives_it_up(void **state)
{
    (void)state;
    struct cw_world w;
    at_rest(&w);
    struct hsp_job *j = w.c->jobs[0];
    j->has_ckpt = true;
    j->ckpt_step = 5;
    w.asks = true; /* nothing follows this step */
    assert_int_equal(cw_admin(&w,
                              (struct hsp_admin_event){
                                  .verb = HSP_ADMIN_RESUME, .job = 1, .has_step = true, .step = 5}),
                     HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.resume"), "from version 5");
    uint32_t n = 0;
    for (uint32_t i = 0; i < w.a.n; i++) {
        const struct hsp_action *a = &w.a.item[i];
        if (a->type == HSP_ACT_SEND && a->msg->type == HSP_MSG_RELEASE) {
            assert_int_equal(a->msg->u.release.keep_plan, 2);
            n++;
        }
    }
    assert_int_equal(n, 2);
    assert_int_equal(j->state, HSP_JOB_PENDING);
    assert_int_equal(j->n_plans, 0);
    cw_end(&w);
}

/* Jobs that have ended make room for new ones; one that keeps its state does not. */
static void it_makes_no_room(void **state)
{
    (void)state;
    struct cw_world w;
    at_rest(&w);
    for (uint32_t id = 2; w.c->n_jobs < HSP_MAX_JOBS; id++) {
        struct hsp_job *j = hsp_ci_job_add(w.c, id);
        assert_non_null(j);
        j->state = id == 7 ? HSP_JOB_DONE : HSP_JOB_SUSPENDED;
        j->next_epoch = 1;
        j->data_path = strdup("");
        j->checkpoint_path = strdup("");
        w.c->next_job = id + 1;
    }
    assert_int_equal(cw_submit(&w, "k", 0, 9, 9), HSP_OK);
    assert_true(hsp_ci_keeps_state(cw_job(&w, 1)));
    assert_null(cw_job(&w, 7));
    assert_int_equal(cw_submit(&w, "m", 0, 9, 9), HSP_ELIMIT);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "too many jobs are stored: hspmdctl forget JOB removes an ended job");
    cw_end(&w);
}

/* Two devices of two nodes, each with a shard of its own that nobody else has. */
static void failed_in_two_parts(struct cw_world *w)
{
    uint64_t mem[2] = {0};
    double compute[2] = {1, 1};
    uint32_t first[3] = {0, 1, 2};
    struct hsp_piece_holder pieces[2] = {{0, 0}, {1, 1}};
    struct hsp_plan_info info = {.n_ranks = 2,
                                 .device = w->asked,
                                 .mem_bytes = mem,
                                 .compute_s = compute,
                                 .n_shards = 2,
                                 .shard_first = first,
                                 .pieces = pieces};
    cw_begin(w, 2, 1);
    assert_int_equal(cw_submit(w, "j", 0, 1, 2), HSP_OK);
    cw_step(w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                  .u.plan = {.job = 1, .ticket = w->ticket, .info = &info}});
    wc_begins(w, 7);
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_JOB_FAILED,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.jobfail = {.job = 1, .reason = "disk full"}});
    cw_sealed(w, 0, 1, 7);
    cw_sealed(w, 1, 1, 7);
    assert_true(hsp_ci_keeps_state(cw_job(w, 1)));
}

static void beats(struct cw_world *w, uint32_t ms, bool with_n1)
{
    for (uint32_t i = 0; i < ms; i += 500) {
        w->now += 500;
        cw_msg(w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_msg(w, 3, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        if (with_n1) {
            cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

/* Job k works on n0, which has one part of j; the other part is on n1. j is resumed from its kept
 * state. */
static void a_part_is_in_the_way(struct cw_world *w, bool with_n1)
{
    failed_in_two_parts(w);
    assert_int_equal(cw_submit(w, "k", 0, 1, 1), HSP_OK);
    cw_plan(w, 2);
    cw_ready(w, 2, 0, 5);
    cw_pass(w, 2, 1, cw_even, 1);
    cw_let_go(w, 2, 1);
    assert_int_equal(w->c->nodes[0].dev[0].job, 2);
    cw_hello(w, 3, "n2", 0, 1);
    if (!with_n1) {
        cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
        beats(w, w->c->cfg.dead_ms + 500, false);
        assert_int_equal(w->c->nodes[1].state, HSP_NODE_DEAD);
    }
    struct hsp_job *j = w->c->jobs[0];
    j->has_ckpt = true;
    j->ckpt_step = 5;
    assert_int_equal(admin(w, HSP_ADMIN_RESUME), HSP_OK);
    cw_sealed(w, 0, 1, 7);
    if (with_n1) {
        cw_sealed(w, 1, 1, 7);
    }
    assert_int_equal(j->state, HSP_JOB_PAUSED);
    beats(w, w->c->cfg.state_wait_ms + 500, with_n1);
}

/* All of it is there, and comes when the other job lets the device go: that is waited for. */
static void state_that_is_whole_is_waited_for(void **state)
{
    (void)state;
    struct cw_world w;
    a_part_is_in_the_way(&w, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
    assert_string_equal(cw_job(&w, 1)->reason,
                        "its state is on devices that job k has: waiting for those");
    assert_int_equal(cw_job(&w, 1)->att.epoch, 0);
    cw_end(&w);
}

/* The other part is lost: the part of the device makes nothing whole. After the time for it the job
 * goes on from its checkpoint, and names the steps that this costs. */
static void a_part_that_makes_nothing_whole(void **state)
{
    (void)state;
    struct cw_world w;
    a_part_is_in_the_way(&w, false);
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.mode, HSP_MODE_RESTORE);
    assert_int_equal(cw_job(&w, 1)->origin, HSP_MODE_RESTORE);
    assert_int_equal(cw_job(&w, 1)->origin_step, 5);
    assert_int_equal(cw_job(&w, 1)->lost_from, 8); /* step 7 had its vote */
    cw_end(&w);
}

HSP_TEST_FILE(kept_state_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_behind_a_loss_is_heard),
        cmocka_unit_test(what_was_not_told_is_told_again),
        cmocka_unit_test(its_devices_are_free_when_it_is_sealed),
        cmocka_unit_test(resumed_while_it_is_sealed),
        cmocka_unit_test(a_part_is_not_here),
        cmocka_unit_test(a_node_that_does_not_seal),
        cmocka_unit_test(one_that_says_hello_again_and_again),
        cmocka_unit_test(a_node_that_does_not_let_go),
        cmocka_unit_test(a_source_that_does_not_leave),
        cmocka_unit_test(resume_goes_on_from_the_newest_version),
        cmocka_unit_test(a_diverged_job_is_not_resumed),
        cmocka_unit_test(what_diverged_is_over),
        cmocka_unit_test(it_outlives_a_restart),
        cmocka_unit_test(a_restart_while_it_is_sealed),
        cmocka_unit_test(cancel_gives_it_up),
        cmocka_unit_test(forget_removes_it),
        cmocka_unit_test(a_drain_waits_for_it),
        cmocka_unit_test(a_long_reason_of_a_drain_ends_with_dots),
        cmocka_unit_test(a_drain_says_what_it_waits_for),
        cmocka_unit_test(only_what_has_ended_is_forgotten),
        cmocka_unit_test(resume_from_a_checkpoint_gives_it_up),
        cmocka_unit_test(it_makes_no_room),
        cmocka_unit_test(state_that_is_whole_is_waited_for),
        cmocka_unit_test(a_part_that_makes_nothing_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
