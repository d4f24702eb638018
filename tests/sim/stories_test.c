/* Tests canonical stories: the decisions, their reasons and their order, as the events feed tells
 * them. */
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "tests/sim/simstory.h"

/* @n nodes with one device each; the first ones in order, so that node K is nK. */
static void world(uint32_t n)
{
    ss_begin(n, 1);
    ss_start_nodes();
}

static const struct hsp_job *job(uint32_t id)
{
    return hsp_cluster_job(ss->d, id);
}

static bool settled(struct sim *w)
{
    const struct hsp_job *j = hsp_cluster_job(w->d, 1);
    if (!w->d_alive || j == NULL || j->state != HSP_JOB_RUNNING || !j->cur.settled ||
        j->ticket != 0) {
        return false;
    }
    for (uint32_t d = 0; d < w->d->n_nodes * HSP_NODE_DEVICES; d++) {
        if (w->d->nodes[HSP_DEVICE_NODE(d)].dev[HSP_DEVICE_INDEX(d)].ask != HSP_ASK_NONE) {
            return false;
        }
    }
    return true;
}

static bool preparing(struct sim *w)
{
    return hsp_cluster_job(w->d, 1)->att.phase == HSP_ATT_PREPARING;
}

static bool armed(struct sim *w)
{
    return hsp_cluster_job(w->d, 1)->att.phase == HSP_ATT_GO;
}

static bool sealing(struct sim *w)
{
    return hsp_cluster_job(w->d, 1)->state == HSP_JOB_SEALING;
}

static bool broken(struct sim *w)
{
    return w->d->n_broken > 0;
}

static bool mended(struct sim *w)
{
    return w->d->n_broken == 0;
}

static bool three(struct sim *w)
{
    const struct hsp_job *j = hsp_cluster_job(w->d, 1);
    return j->cur.n_ranks == 3 && settled(w);
}

static bool ended(struct sim *w)
{
    const struct hsp_job *j = hsp_cluster_job(w->d, 1);
    return j != NULL && hsp_job_terminal(j->state);
}

static void running(uint32_t nodes)
{
    world(nodes);
    sim_submit(ss, "story", 0, 1, 8, 1000, 0);
    ss_until(settled, 5000);
    ss_go_on(300);
}

static void tell(void)
{
    hsp_buf_reset(&ss->trace);
    ss->tracing = true;
}

static void told(const char *expected)
{
    ss->tracing = false;
    assert_string_equal(hsp_buf_cstr(&ss->trace), expected);
}

/* Runs to the end: every version is committed once, none is left out. */
static void to_the_end(void)
{
    ss_until(ended, 200000);
    assert_int_equal(job(1)->state, HSP_JOB_DONE);
    assert_int_equal(ss->job[1].committed, 1000);
    assert_int_equal(ss->job[1].commits, 1001);
    assert_false(ss->failed);
}

static void starts(void **state)
{
    (void)state;
    world(2);
    tell();
    sim_submit(ss, "story", 0, 1, 8, 1000, 0);
    ss_until(settled, 5000);
    told("admin.submit job 1: story\n"
         "job.starting job 1 <- submit\n"
         "switch.begin job 1: epoch 1: 2 ranks, 0 sources <- submit\n"
         "switch.phase job 1: epoch 1 starts\n"
         "job.running job 1 <- submit\n"
         "switch.end job 1: epoch 1 runs from step 0 <- submit\n");
    to_the_end();
}

static void join(void **state)
{
    (void)state;
    running(2);
    tell();
    ss->n_nodes = 3;
    sim_start_node(ss, 2);
    ss_go_on(200);
    ss_until(settled, 5000);
    told("node.joined n2: incarnation 3, 1 device\n"
         "job.switching job 1 <- join of n2/0\n"
         "switch.begin job 1: epoch 2: 3 ranks, 0 sources <- join of n2/0\n"
         "switch.phase job 1: epoch 2 armed\n"
         "job.running job 1 <- join of n2/0\n"
         "switch.end job 1: epoch 2 runs from step 15 <- join of n2/0\n");
    assert_int_equal(job(1)->cur.n_ranks, 3);
    to_the_end();
}

static void kill_executor(void **state)
{
    (void)state;
    running(3);
    uint64_t before = ss->now;
    tell();
    sim_kill_exec(ss, 1 * SIM_DEVS);
    ss_until(sealing, 1000);
    ss_until(settled, 5000);
    told("node.executor_dead job 1 n1: n1/0: signal 9\n"
         "job.sealing job 1 <- executor n1/0: signal 9\n"
         "job.recovering job 1 <- executor n1/0: signal 9\n"
         "switch.begin job 1: epoch 2: 3 ranks, 0 sources <- executor n1/0: signal 9\n"
         "switch.phase job 1: epoch 2 starts\n"
         "job.running job 1 <- executor n1/0: signal 9\n"
         "switch.end job 1: epoch 2 runs from step 11 <- executor n1/0: signal 9\n");
    assert_true(ss->now - before < 500);
    assert_int_equal(job(1)->cur.plan, 1); /* the same plan under a new number */
    to_the_end();
}

static void kill_agent(void **state)
{
    (void)state;
    running(3);
    uint64_t before = ss->now;
    tell();
    sim_kill_agent(ss, 1, 100000000);
    ss_until(sealing, 1000);
    ss_until(settled, 5000);
    told("node.suspect n1: connection closed\n"
         "job.sealing job 1 <- n0/0 lost peer 1 on n1: connection broke\n"
         "node.dead n1: connection closed, and a peer lost it too\n"
         "job.recovering job 1 <- n0/0 lost peer 1 on n1: connection broke\n"
         "switch.begin job 1: epoch 2: 2 ranks, 0 sources <- n0/0 lost peer 1 on n1: connection "
         "broke\n"
         "switch.phase job 1: epoch 2 starts\n"
         "job.running job 1 <- n0/0 lost peer 1 on n1: connection broke\n"
         "switch.end job 1: epoch 2 runs from step 11 <- n0/0 lost peer 1 on n1: connection "
         "broke\n");
    assert_true(ss->now - before < 500); /* seen by peers: no bound to wait for */
    assert_int_equal(job(1)->cur.n_ranks, 2);
    to_the_end();
}

static uint64_t joined; /* incarnation of n0 before */

static bool joins(struct sim *w)
{
    return hsp_cluster_node_by_name(w->d, "n0")->incarnation > joined;
}

/* The only node that has the state. Its agent is welcomed as a new process, and never hears it. */
static void welcome_is_lost_again_and_again(void **state)
{
    (void)state;
    running(1);
    sim_kill_agent(ss, 0, 100);
    for (int i = 0; i < 4; i++) {
        joined = hsp_cluster_node_by_name(ss->d, "n0")->incarnation;
        ss_until(joins, 10000);
        sim_reset_control(ss, 0);
    }
    ss_until(settled, 5000);
    to_the_end();
}

static void crash_node(void **state)
{
    (void)state;
    running(3);
    uint64_t before = ss->now;
    tell();
    sim_crash_node(ss, 1, 100000000);
    ss_until(sealing, 4000);
    assert_true(ss->now - before >= 2400 && ss->now - before <= 3100); /* the bound */
    ss_until(settled, 5000);
    told("node.suspect n1: a heartbeat is missing\n"
         "node.dead n1: silent for 3000 ms\n"
         "job.sealing job 1 <- node n1: silent for 3000 ms\n"
         "job.recovering job 1 <- node n1: silent for 3000 ms\n"
         "switch.begin job 1: epoch 2: 2 ranks, 0 sources <- node n1: silent for 3000 ms\n"
         "switch.phase job 1: epoch 2 starts\n"
         "job.running job 1 <- node n1: silent for 3000 ms\n"
         "switch.end job 1: epoch 2 runs from step 12 <- node n1: silent for 3000 ms\n");
    to_the_end();
}

static void drain(void **state)
{
    (void)state;
    running(3);
    tell();
    sim_admin(
        ss, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = "n1", .reason = "new disk"});
    ss_go_on(50);
    ss_until(settled, 5000);
    ss_go_on(50);
    told("admin.drain n1: new disk\n"
         "job.switching job 1 <- drain of n1/0\n"
         "switch.begin job 1: epoch 2: 2 ranks, 1 source <- drain of n1/0\n"
         "switch.phase job 1: epoch 2 armed\n"
         "job.running job 1 <- drain of n1/0\n"
         "switch.end job 1: epoch 2 runs from step 16 <- drain of n1/0\n"
         "node.drained n1: new disk\n");
    assert_int_equal(job(1)->cur.n_ranks, 2);
    to_the_end();
}

static void leave(void **state)
{
    (void)state;
    running(2);
    tell();
    sim_leave(ss, 1);
    ss_go_on(500);
    ss_until(settled, 5000);
    told("node.leaving n1: SIGTERM\n"
         "job.switching job 1 <- planned leave of n1/0\n"
         "switch.begin job 1: epoch 2: 1 rank, 1 source <- planned leave of n1/0\n"
         "switch.phase job 1: epoch 2 armed\n"
         "job.running job 1 <- planned leave of n1/0\n"
         "switch.end job 1: epoch 2 runs from step 16 <- planned leave of n1/0\n"
         "node.left n1: left as planned\n");
    to_the_end();
}

static void daemon_restart(void **state)
{
    (void)state;
    running(3);
    uint64_t epoch = job(1)->cur.epoch, before = ss->job[1].committed;
    sim_kill_daemon(ss, 2000);
    ss_go_on(1900);
    assert_true(ss->job[1].committed > before + 30); /* training goes on */
    tell();
    ss_go_on(3000);
    told("coordinator.started: term 2, 3 nodes, 1 job\n"
         "node.adopted n2: incarnation 3, 1 device\n"
         "node.adopted n1: incarnation 2, 1 device\n"
         "node.adopted n0: incarnation 1, 1 device\n");
    assert_int_equal(job(1)->cur.epoch, epoch); /* untouched */
    to_the_end();
}

static void loss_while_away(void **state)
{
    (void)state;
    running(3);
    sim_kill_daemon(ss, 1000);
    ss_go_on(200);
    sim_kill_exec(ss, 0);
    ss_go_on(100);
    uint64_t at = ss->job[1].committed;
    ss_go_on(600);
    assert_int_equal(ss->job[1].committed, at); /* sealed, waits */
    tell();
    ss_go_on(500);
    ss_until(settled, 10000);
    told(
        "coordinator.started: term 2, 3 nodes, 1 job\n"
        "node.adopted n2: incarnation 3, 1 device\n"
        "job.sealing job 1 <- n2/0: its epoch broke while it was away\n"
        "node.adopted n1: incarnation 2, 1 device\n"
        "node.adopted n0: incarnation 1, 1 device\n"
        "job.recovering job 1 <- n2/0: its epoch broke while it was away\n"
        "switch.begin job 1: epoch 2: 3 ranks, 0 sources <- n2/0: its epoch broke while it was "
        "away\n"
        "switch.phase job 1: epoch 2 starts\n"
        "job.running job 1 <- n2/0: its epoch broke while it was away\n"
        "switch.end job 1: epoch 2 runs from step 18 <- n2/0: its epoch broke while it was away\n");
    to_the_end();
}

static void stopped_agent(void **state)
{
    (void)state;
    running(3);
    tell();
    sim_pause_agent(ss, 1, 6000);
    ss_until(sealing, 4000);
    ss_until(settled, 5000);
    ss_go_on(5000);
    ss_until(settled, 5000);
    told("node.suspect n1: a heartbeat is missing\n"
         "node.dead n1: silent for 3000 ms\n"
         "job.sealing job 1 <- node n1: silent for 3000 ms\n"
         "job.recovering job 1 <- node n1: silent for 3000 ms\n"
         "switch.begin job 1: epoch 2: 2 ranks, 0 sources <- node n1: silent for 3000 ms\n"
         "switch.phase job 1: epoch 2 starts\n"
         "job.running job 1 <- node n1: silent for 3000 ms\n"
         "switch.end job 1: epoch 2 runs from step 104 <- node n1: silent for 3000 ms\n"
         "node.joined n1: incarnation 4, 1 device\n"
         "job.switching job 1 <- join of n1/0\n"
         "switch.begin job 1: epoch 3: 3 ranks, 0 sources <- join of n1/0\n"
         "switch.phase job 1: epoch 3 armed\n"
         "job.running job 1 <- join of n1/0\n"
         "switch.end job 1: epoch 3 runs from step 237 <- join of n1/0\n");
    assert_int_equal(job(1)->cur.n_ranks, 3); /* back, under a new incarnation */
    to_the_end();
}

/* Stopped just before the bound of a node that was cut off, and comes back meanwhile: it waits at
 * the door and has time to say hello. */
static void stopped_coordinator(void **state)
{
    (void)state;
    world(2);
    sim_cut(ss, 1, 4000);
    ss_go_on(1500);
    const struct hsp_cluster_node *n = hsp_cluster_node_by_name(ss->d, "n1");
    assert_true(sim_run(ss, n->last_ms + ss->cfg.dead_ms - 5, NULL));
    tell();
    sim_pause_daemon(ss, 8000);
    ss_go_on(8500);
    told("coordinator.stalled: did not run for 7995 ms; silence of nodes in that time does not "
         "count\n"
         "node.suspect n0: connection closed\n"
         "node.adopted n1: incarnation 2, 1 device\n"
         "node.adopted n0: incarnation 1, 1 device\n");
    assert_int_equal(n->state, HSP_NODE_LIVE);
}

/* A join, and a loss in each phase of its switch. */
static void loss_in(bool (*phase)(struct sim *), uint32_t exec)
{
    running(3);
    sim_start_node(ss, 3);
    ss->n_nodes = 4;
    ss_until(phase, 5000);
    sim_kill_exec(ss, exec * SIM_DEVS);
    ss_go_on(1000);
    ss_until(settled, 20000);
    ss_go_on(1000);
    ss_until(settled, 20000);
    assert_int_equal(job(1)->cur.n_ranks, 4);
    to_the_end();
}

static void loss_in_switch(void **state)
{
    (void)state;
    bool (*const phases[])(struct sim *) = {preparing, armed};
    for (uint32_t k = 0; k < 8; k++) {
        loss_in(phases[k % 2], k / 2);
        sim_fini(ss);
        ss->d = NULL;
    }
    world(1); /* for the teardown */
}

static void loss_while_sealing(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        running(4);
        sim_kill_exec(ss, 0);
        ss_until(sealing, 1000);
        sim_kill_agent(ss, k, 300);
        ss_go_on(4000);
        ss_until(settled, 20000);
        to_the_end();
        sim_fini(ss);
    }
    world(1);
}

static void two_jobs(void **state)
{
    (void)state;
    running(3);
    sim_submit(ss, "urgent", 5, 2, 2, 400, 0);
    ss_go_on(3000);
    assert_int_equal(job(2)->state, HSP_JOB_RUNNING);
    assert_int_equal(job(1)->cur.n_ranks, 1); /* gave two back, keeps its min */
    sim_submit(ss, "greedy", 9, 3, 3, 100, 0);
    ss_go_on(500);
    assert_int_equal(job(3)->state, HSP_JOB_PENDING);
    assert_string_equal(job(3)->reason,
                        "waits for 3 devices; 0 of 3 can be used (job story has 1, job urgent has "
                        "2); devices become free when a job ends or is scaled down");
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_CANCEL, .job = 3});
    to_the_end();
    assert_int_equal(job(2)->state, HSP_JOB_DONE);
}

static bool unwritten(struct sim *w)
{
    const struct hsp_job *j = w->d_alive ? hsp_cluster_job(w->d, 1) : NULL;
    return j != NULL && j->state == HSP_JOB_FINISHING && j->problem[0] != '\0';
}

/* The final model cannot be written: told once, however often it is tried, also by others after a
 * loss; a new coordinator hears it too. Nothing of the training is lost, and no patience ends. */
static void full_disk_at_the_end(void **state)
{
    static const char problem[] =
        "the final model is not written: no space left: it is tried again "
        "until it is; drain gives it to another node, cancel gives it up";
    (void)state;
    running(3);
    ss->job[1].unwritable = UINT32_MAX;
    tell();
    ss_until(unwritten, 200000);
    assert_string_equal(job(1)->problem, problem);
    ss_go_on(3600000);
    told("job.finishing job 1\n"
         "final.failed job 1 n0: the final model is not written: no space left: it is tried again "
         "until it is; drain gives it to another node, cancel gives it up\n");
    tell();
    sim_kill_agent(ss, 1, 100000000);
    ss_until(sealing, 1000);
    ss_until(unwritten, 20000);
    ss_go_on(60000);
    told("node.suspect n1: connection closed\n"
         "job.sealing job 1 <- n2/0 lost peer 1 on n1: connection broke\n"
         "node.dead n1: connection closed, and a peer lost it too\n"
         "job.recovering job 1 <- n2/0 lost peer 1 on n1: connection broke\n"
         "switch.begin job 1: epoch 2: 2 ranks, 0 sources <- n2/0 lost peer 1 on n1: connection "
         "broke\n"
         "switch.phase job 1: epoch 2 starts\n"
         "job.running job 1 <- n2/0 lost peer 1 on n1: connection broke\n"
         "switch.end job 1: epoch 2 runs from step 1000 <- n2/0 lost peer 1 on n1: connection "
         "broke\n"
         "job.finishing job 1\n");
    tell();
    sim_kill_daemon(ss, 300);
    ss_go_on(60000);
    told("coordinator.started: term 2, 3 nodes, 1 job\n"
         "node.adopted n2: incarnation 3, 1 device\n"
         "node.adopted n0: incarnation 1, 1 device\n"
         "final.failed job 1 n0: the final model is not written: no space left: it is tried again "
         "until it is; drain gives it to another node, cancel gives it up\n");
    assert_string_equal(job(1)->problem, problem);
    ss->job[1].unwritable = 0;
    to_the_end();
    assert_string_equal(job(1)->problem, "");
}

/* An administrator that does not want to wait for the disk cancels. */
static void full_disk_is_given_up(void **state)
{
    (void)state;
    running(3);
    ss->job[1].unwritable = UINT32_MAX;
    ss_until(unwritten, 200000);
    tell();
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_CANCEL, .job = 1});
    ss_go_on(10000);
    told("admin.cancel job 1: story\n"
         "job.cancelled job 1: cancelled\n");
    assert_int_equal(job(1)->state, HSP_JOB_CANCELLED);
    assert_int_equal(job(1)->n_leases, 0);
}

static void drain_node(const char *node)
{
    sim_admin(
        ss, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = node, .reason = "full disk"});
}

static bool drained(struct sim *w)
{
    return w->d->nodes[0].drained_told;
}

/* The node whose disk is full is drained: another member writes, by a switch; nothing is sealed,
 * and the present writer tries on until the others are ready. */
static void full_disk_is_drained(void **state)
{
    (void)state;
    running(3);
    ss->job[1].unwritable = 1;
    ss_until(unwritten, 200000);
    tell();
    drain_node("n0");
    ss_until(drained, 3000);
    assert_string_equal(job(1)->problem, "");
    ss_until(ended, 1000);
    ss_go_on(1000);
    told("admin.drain n0: full disk\n"
         "switch.begin job 1: epoch 2: 2 ranks, 1 source <- drain of n0/0\n"
         "switch.phase job 1: epoch 2 armed\n"
         "job.running job 1 <- drain of n0/0\n"
         "switch.end job 1: epoch 2 runs from step 1000 <- drain of n0/0\n"
         "job.finishing job 1\n"
         "node.drained n0: full disk\n"
         "job.done job 1: all steps are done; n1 has written the final model\n");
    assert_int_equal(job(1)->state, HSP_JOB_DONE);
}

/* No other node can write the final model: the reason names the remedy, and one event tells it. A
 * node that joins takes the state and writes. */
static void full_disk_of_the_only_node(void **state)
{
    static const char reason[] = "drain of n0/0: the final model cannot be written elsewhere: no "
                                 "other device is available: let another node join, or undrain n0";
    (void)state;
    running(1);
    ss->job[1].unwritable = 1;
    ss_until(unwritten, 200000);
    tell();
    drain_node("n0");
    ss_go_on(600000);
    assert_int_equal(job(1)->state, HSP_JOB_FINISHING);
    assert_string_equal(job(1)->reason, reason);
    assert_string_not_equal(job(1)->problem, "");
    told("admin.drain n0: full disk\n"
         "job.blocked job 1: drain of n0/0: the final model cannot be written elsewhere: no other "
         "device is available: let another node join, or undrain n0\n");
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_UNDRAIN, .node = "n0"});
    ss_go_on(1000);
    assert_string_equal(job(1)->reason, "");
    drain_node("n0");
    ss->n_nodes = 2;
    sim_push(ss, ss->now, (struct sim_ev){.type = SIM_E_A_START, .who = 1});
    ss_until(drained, 3000);
    ss_until(ended, 1000);
    assert_int_equal(job(1)->state, HSP_JOB_DONE);
}

/* As many as the job's min are not needed to write; and losses then are mended as ever. */
static void full_disk_and_fewer_than_min(void **state)
{
    (void)state;
    world(2);
    sim_submit(ss, "story", 0, 2, 2, 60, 0);
    ss->job[1].unwritable = 3;
    ss_until(unwritten, 200000);
    drain_node("n0");
    ss_until(drained, 3000);
    ss_until(unwritten, 3000);
    assert_int_equal(job(1)->cur.n_ranks, 1);
    sim_kill_exec(ss, SIM_DEVS);
    ss_until(sealing, 1000);
    ss_until(unwritten, 10000);
    assert_int_equal(job(1)->cur.n_ranks, 1);
    ss->job[1].unwritable = 0;
    ss_until(ended, 40000);
    assert_int_equal(job(1)->state, HSP_JOB_DONE);
}

/* n0 and n1 do not hear each other, though hspmdd and n2 hear both. One of them trains on with n2,
 * and the other joins again when they do. A cut one way ends both: nothing is acknowledged. */
static void broken_pair(bool both)
{
    running(3);
    uint64_t before = ss->now;
    tell();
    sim_cut_pair(ss, 0, 1, both, 15000);
    ss_until(sealing, 4000);
    ss_until(settled, 5000);
    told("job.sealing job 1 <- n1/0 lost peer 0 on n0: it is silent\n"
         "job.recovering job 1 <- n1/0 lost peer 0 on n0: it is silent\n"
         "link.broken n0: n0 and n1 cannot reach each other: neither answers calls of the other; "
         "jobs use only one of them, and their connection is tried every 5 s\n"
         "switch.begin job 1: epoch 2: 2 ranks, 0 sources <- n1/0 lost peer 0 on n0: it is silent\n"
         "switch.phase job 1: epoch 2 starts\n"
         "job.running job 1 <- n1/0 lost peer 0 on n0: it is silent\n"
         "switch.end job 1: epoch 2 runs from step 12 <- n1/0 lost peer 0 on n0: it is silent\n");
    assert_true(ss->now - before < ss->cfg.dead_ms + 1500);
    assert_int_equal(job(1)->cur.n_ranks, 2);
    tell();
    ss_until(mended, 40000);
    ss_until(three, 5000);
    told("link.mended n0: n0 and n1 reach each other again\n"
         "job.switching job 1 <- join of n1/0\n"
         "switch.begin job 1: epoch 3: 3 ranks, 0 sources <- join of n1/0\n"
         "switch.phase job 1: epoch 3 armed\n"
         "job.running job 1 <- join of n1/0\n"
         "switch.end job 1: epoch 3 runs from step 578 <- join of n1/0\n");
    to_the_end();
}

static void broken_both_ways(void **state)
{
    (void)state;
    broken_pair(true);
}

static void broken_one_way(void **state)
{
    (void)state;
    broken_pair(false);
}

/* The same, but no rank names the peer that it has lost: the nodes call each other all the same. An
 * attempt with both nodes would notice the cut only after dead_ms. */
static void broken_pair_that_nobody_names(void **state)
{
    (void)state;
    running(4);
    uint64_t before = ss->now;
    ss->nameless = true;
    sim_cut_pair(ss, 0, 1, true, 15000);
    ss_until(sealing, 4000);
    ss_until(settled, 10000);
    assert_true(ss->now - before < ss->cfg.dead_ms + 1500);
    assert_int_equal(job(1)->cur.n_ranks, 3);
    assert_int_equal(job(1)->cur.epoch, 2); /* the first attempt */
    to_the_end();
}

/* Next to nothing comes through between n0 and n1, but both answer calls and beats. The link is
 * named in two periods, so one of the two nodes is left out, and joins again when the link is as
 * fast as before. */
static void slow_pair(void **state)
{
    (void)state;
    running(3);
    uint64_t before = ss->now;
    tell();
    sim_slow_pair(ss, 0, 1, 20000);
    ss_until(sealing, 2 * ss->cfg.dead_ms + 500);
    ss_until(settled, 3000);
    assert_true(ss->now - before < 2 * ss->cfg.dead_ms + 3000);
    assert_int_equal(job(1)->cur.n_ranks, 2);
    assert_non_null(
        strstr(hsp_buf_cstr(&ss->trace),
               "job.stalled job 1 n0: no vote for 3.0 s: 3 threads wait for the connection between "
               "n0 and n1: rank 0 (n0/0) receives from rank 1 (n1/0) for "));
    assert_non_null(strstr(hsp_buf_cstr(&ss->trace),
                           "job.sealing job 1 <- the connection between n0 and n1 is too slow\n"));
    uint64_t step = ss->job[1].committed;
    ss_go_on(8000); /* the link is measured meanwhile, and is not used */
    assert_true(ss->job[1].committed > step + 100);
    assert_int_equal(job(1)->cur.n_ranks, 2);
    tell();
    ss_until(mended, 40000);
    ss_until(three, 5000);
    assert_non_null(strstr(hsp_buf_cstr(&ss->trace),
                           "link.mended n0: n0 and n1 are connected by 900 MB/s again\n"));
    to_the_end();
}

/* n2 joins and does not reach n0, which trains with n1: the running members stay. */
static void joiner_not_reached(void **state)
{
    (void)state;
    running(2);
    sim_cut_pair(ss, 2, 0, true, 20000);
    tell();
    ss->n_nodes = 3;
    sim_start_node(ss, 2);
    ss_until(preparing, 1000);
    ss_until(broken, 5000);
    told("node.joined n2: incarnation 3, 1 device\n"
         "job.switching job 1 <- join of n2/0\n"
         "switch.begin job 1: epoch 2: 3 ranks, 0 sources <- join of n2/0\n"
         "switch.aborted job 1: epoch 2: n2/0: a peer does not answer\n"
         "job.running job 1 <- join of n2/0\n"
         "job.blocked job 1: n2/0: a peer does not answer\n"
         "link.broken n0: n0 and n2 cannot reach each other: neither answers calls of the other; "
         "jobs use only one of them, and their connection is tried every 5 s\n");
    uint64_t step = ss->job[1].committed;
    ss_go_on(3000);
    assert_true(ss->job[1].committed > step + 50);
    assert_int_equal(job(1)->cur.n_ranks, 2);
    ss_until(mended, 60000);
    ss_until(three, 5000);
    to_the_end();
}

static bool kept(struct sim *w)
{
    const struct hsp_job *j = hsp_cluster_job(w->d, 1);
    return settled(w) && hsp_ci_plan(j, j->cur.plan)->info.n_replica_holders == 1;
}

/* The replica holder has confirmed the wrong version, and no vote has shown it. */
static bool differs(struct sim *w)
{
    const struct sim_run *a = &w->exec[0].cur, *b = &w->exec[1].cur;
    return a->wrong && b->wrong && a->phase == SIM_COMPUTE && b->phase == SIM_COMPUTE;
}

/* No rank is left that could say that the version was given up. */
static void a_node_is_lost_with_a_version_that_differs(void **state)
{
    (void)state;
    sim_init(ss, 5, 0, 2);
    ss->n_nodes = 2;
    ss->n_keep = 1;
    ss->plan_all = true;
    ss->cfg.measures = ss->d->cfg.measures = 0;
    sim_push(ss, 0, (struct sim_ev){.type = SIM_E_A_START, .who = 0});
    sim_push(ss, 1000, (struct sim_ev){.type = SIM_E_A_START, .who = 1});
    assert_true(sim_run(ss, 500, NULL));
    sim_submit(ss, "story", 0, 1, 2, 1000, 0);
    assert_true(sim_run(ss, 1500, NULL));
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_ALLOW, .node = "n1"});
    ss_until(kept, 10000);
    assert_int_equal(job(1)->cur.n_ranks, 2);
    ss->wrong_at = ss->job[1].committed + 20;
    ss_until(differs, 5000);
    sim_crash_node(ss, 0, 1000000);
    to_the_end();
    assert_int_equal(ss->n_wrong, 1);
    assert_true(ss->job[1].lineage[ss->wrong[0].version] != ss->wrong[0].lineage);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, ss_setup, ss_teardown)
    const struct CMUnitTest tests[] = {T(starts),
                                       T(join),
                                       T(kill_executor),
                                       T(kill_agent),
                                       T(welcome_is_lost_again_and_again),
                                       T(crash_node),
                                       T(drain),
                                       T(leave),
                                       T(daemon_restart),
                                       T(loss_while_away),
                                       T(stopped_agent),
                                       T(loss_in_switch),
                                       T(loss_while_sealing),
                                       T(two_jobs),
                                       T(stopped_coordinator),
                                       T(full_disk_at_the_end),
                                       T(full_disk_is_given_up),
                                       T(full_disk_is_drained),
                                       T(full_disk_of_the_only_node),
                                       T(full_disk_and_fewer_than_min),
                                       T(broken_both_ways),
                                       T(broken_one_way),
                                       T(broken_pair_that_nobody_names),
                                       T(slow_pair),
                                       T(joiner_not_reached),
                                       T(a_node_is_lost_with_a_version_that_differs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
