/* Tests scenarios of unhealthy devices: XIDs and memory errors in the middle of training. */
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "tests/sim/simstory.h"

static const struct hsp_job *job(void)
{
    return hsp_cluster_job(ss->d, 1);
}

static bool settled(struct sim *w)
{
    const struct hsp_job *j = w->d_alive ? hsp_cluster_job(w->d, 1) : NULL;
    bool calm = j != NULL && j->state == HSP_JOB_RUNNING && j->cur.settled && j->ticket == 0;
    for (uint32_t i = 0; calm && i < j->n_leases; i++) {
        const struct hsp_cluster_node *n = &w->d->nodes[HSP_DEVICE_NODE(j->leases[i])];
        calm = n->dev[HSP_DEVICE_INDEX(j->leases[i])].ask == HSP_ASK_NONE;
    }
    return calm;
}

static bool ended(struct sim *w)
{
    return w->d_alive && hsp_job_terminal(hsp_cluster_job(w->d, 1)->state);
}

/* Starts a job that runs on all devices and needs at least @min. */
static void running(uint32_t nodes, uint32_t devices, uint32_t min)
{
    ss_begin(nodes, devices);
    ss->n_devs = devices;
    ss_start_nodes();
    sim_submit(ss, "story", 0, min, 8, 1000, 0);
    ss_until(settled, 5000);
    ss_go_on(300);
    assert_int_equal(job()->cur.n_ranks, nodes * devices);
    hsp_buf_reset(&ss->trace);
    ss->tracing = true;
}

static void told(const char *expected)
{
    ss->tracing = false;
    assert_string_equal(hsp_buf_cstr(&ss->trace), expected);
}

static const struct hsp_node_device *device(uint32_t node, uint32_t index)
{
    char name[8];
    (void)snprintf(name, sizeof(name), "n%u", node);
    return &hsp_cluster_node_by_name(ss->d, name)->dev[index];
}

/* Checks that every version was committed once. */
static void to_the_end(void)
{
    ss_until(ended, 200000);
    assert_int_equal(job()->state, HSP_JOB_DONE);
    assert_int_equal(ss->job[1].committed, 1000);
    assert_int_equal(ss->job[1].commits, 1001);
    assert_false(ss->failed);
}

static void a_lost_gpu(void **state)
{
    (void)state;
    running(3, 1, 1);
    sim_sign(ss, 1 * SIM_DEVS, HSP_SIGN_XID, 79);
    ss_go_on(20);
    ss_until(settled, 5000);
    told("device.lost job 1 n1: n1/0: XID 79: fallen off the bus\n"
         "job.sealing job 1 <- device n1/0: XID 79: fallen off the bus\n"
         "node.executor_dead job 1 n1: n1/0: signal 9: killed by its agent: its GPU is lost\n"
         "job.recovering job 1 <- device n1/0: XID 79: fallen off the bus\n"
         "switch.begin job 1: epoch 2: 2 ranks, 1 source <- device n1/0: XID 79: fallen off the "
         "bus\n"
         "switch.phase job 1: epoch 2 starts\n"
         "job.running job 1 <- device n1/0: XID 79: fallen off the bus\n"
         "switch.end job 1: epoch 2 runs from step 11 <- device n1/0: XID 79: fallen off the bus\n"
         "device.drained n1: n1/0: XID 79: fallen off the bus\n");
    assert_true(ss->exec[1 * SIM_DEVS].bare);
    assert_int_equal(device(1, 0)->health, HSP_HEALTH_LOST);
    to_the_end();
}

/* The only node loses a GPU. There is no copy of the state on another node, and no checkpoint: the
 * job recovers from the versions that the executor of the lost GPU had sealed in the host's
 * memory. */
static void a_lost_gpu_of_the_only_node(void **state)
{
    (void)state;
    running(1, 2, 1);
    sim_sign(ss, 1, HSP_SIGN_XID, 79);
    ss_go_on(20);
    ss_until(settled, 5000);
    assert_int_equal(job()->cur.n_ranks, 1);
    to_the_end();
}

static void memory_errors(void **state)
{
    (void)state;
    running(2, 2, 1);
    sim_sign(ss, 1, HSP_SIGN_ECC_UNCORRECTED, 7); /* of before */
    sim_sign(ss, 1, HSP_SIGN_XID, 31);
    ss_go_on(50);
    sim_sign(ss, 1, HSP_SIGN_ECC_UNCORRECTED, 9);
    ss_go_on(50);
    ss_until(settled, 5000);
    ss_go_on(50);
    told("device.warn job 1 n0: n0/1: XID 31: page fault of a kernel\n"
         "device.cordon job 1 n0: n0/1: 2 uncorrectable memory errors\n"
         "job.switching job 1 <- cordon of n0/1: 2 uncorrectable memory errors\n"
         "switch.begin job 1: epoch 2: 3 ranks, 1 source <- cordon of n0/1: 2 uncorrectable memory "
         "errors\n"
         "switch.phase job 1: epoch 2 armed\n"
         "job.running job 1 <- cordon of n0/1: 2 uncorrectable memory errors\n"
         "switch.end job 1: epoch 2 runs from step 14 <- cordon of n0/1: 2 uncorrectable memory "
         "errors\n"
         "device.drained n0: n0/1: 2 uncorrectable memory errors\n");
    assert_int_equal(job()->cur.n_ranks, 3);
    assert_int_equal(device(0, 1)->job, 0);
    ss_go_on(2000);
    assert_int_equal(job()->cur.n_ranks, 3); /* the device gets no work again */
    to_the_end();
}

/* A job that has no other device goes on with the unhealthy one, and says why. When that device is
 * lost, the job stops until another device comes. */
static void nowhere_to_go(void **state)
{
    (void)state;
    running(2, 1, 2);
    sim_sign(ss, 1 * SIM_DEVS, HSP_SIGN_XID, 48);
    ss_go_on(500);
    assert_int_equal(job()->state, HSP_JOB_RUNNING);
    assert_string_equal(job()->reason, "cordon of n1/0: XID 48: uncorrectable memory error: cannot "
                                       "be done: needs 2 devices; 1 of 1 can be used");
    sim_sign(ss, 1 * SIM_DEVS, HSP_SIGN_XID, 79);
    ss_go_on(2000);
    assert_int_equal(job()->state, HSP_JOB_PAUSED);
    assert_string_equal(
        job()->reason,
        "waits for 2 devices; 1 of 1 can be used; n1/0 is lost: XID 79: fallen off the bus");
    ss->n_nodes = 3;
    sim_start_node(ss, 2);
    ss_until(settled, 5000);
    to_the_end();
}

/* The GPU is lost while the coordinator is away: HELLO says so. */
static void lost_meanwhile(void **state)
{
    (void)state;
    running(3, 1, 1);
    sim_kill_daemon(ss, 2000);
    ss_go_on(200);
    sim_sign(ss, 1 * SIM_DEVS, HSP_SIGN_XID, 79);
    ss_go_on(3000);
    ss_until(settled, 5000);
    assert_int_equal(device(1, 0)->health, HSP_HEALTH_LOST);
    assert_int_equal(job()->cur.n_ranks, 2);
    to_the_end();
}

/* An agent that starts again judges the health of its devices again. */
static void reset(void **state)
{
    (void)state;
    running(2, 1, 1);
    sim_sign(ss, 1 * SIM_DEVS, HSP_SIGN_XID, 79);
    ss_go_on(20);
    ss_until(settled, 5000);
    assert_int_equal(job()->cur.n_ranks, 1);
    sim_kill_agent(ss, 1, 100);
    ss_go_on(1000);
    ss_until(settled, 10000);
    assert_int_equal(device(1, 0)->health, HSP_HEALTH_FINE);
    assert_int_equal(job()->cur.n_ranks, 2);
    to_the_end();
}

/* The state folder of the node is read-only: the job goes on elsewhere from the state that can be
 * read there, until an administrator says that the node is well. */
static void a_read_only_folder(void **state)
{
    (void)state;
    running(3, 1, 2);
    ss->folder_broken[1] = true;
    sim_kill_exec(ss, 2 * SIM_DEVS);
    ss_go_on(20);
    ss_until(settled, 5000);
    told("node.executor_dead job 1 n2: n2/0: signal 9\n"
         "job.sealing job 1 <- executor n2/0: signal 9\n"
         "job.recovering job 1 <- executor n2/0: signal 9\n"
         "switch.begin job 1: epoch 2: 3 ranks, 0 sources <- executor n2/0: signal 9\n"
         "node.unusable n1: n1/0: Read-only file system [EROFS]; mount it writable; jobs do not "
         "use it, it is tried again in 60 s\n"
         "switch.aborted job 1: epoch 2: n1/0: Read-only file system [EROFS]; mount it writable\n"
         "job.paused job 1: n1/0: Read-only file system [EROFS]; mount it writable <- executor "
         "n2/0: signal 9\n"
         "job.recovering job 1: n1/0: Read-only file system [EROFS]; mount it writable <- executor "
         "n2/0: signal 9\n"
         "switch.begin job 1: epoch 3: 2 ranks, 1 source <- executor n2/0: signal 9\n"
         "switch.phase job 1: epoch 3 starts\n"
         "job.running job 1 <- executor n2/0: signal 9\n"
         "switch.end job 1: epoch 3 runs from step 11 <- executor n2/0: signal 9\n");
    assert_int_equal(job()->cur.n_ranks, 2);
    ss->folder_broken[1] = false;
    assert_true(device(1, 0)->present);
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_UNDRAIN, .node = "n1"});
    ss_go_on(20);
    ss_until(settled, 5000);
    assert_int_equal(job()->cur.n_ranks, 3);
    to_the_end();
}

static bool paused(struct sim *w)
{
    return w->d_alive && hsp_cluster_job(w->d, 1)->state == HSP_JOB_PAUSED;
}

/* There is no other node: the job waits and says why, however often it is tried, and loses
 * nothing. */
static void a_folder_that_is_needed(void **state)
{
    (void)state;
    running(2, 1, 2);
    ss->folder_broken[1] = true;
    sim_kill_exec(ss, 0);
    ss_until(paused, 5000);
    ss_go_on(1000);
    assert_string_equal(
        job()->reason,
        "waits for 2 devices; 1 of 1 can be used; n1 is left out: n1/0: Read-only file system "
        "[EROFS]; mount it writable");
    uint64_t committed = ss->job[1].committed;
    uint32_t failures = job()->failures;
    ss_go_on(4 * 3600 * 1000);
    assert_int_equal(job()->state, HSP_JOB_PAUSED);
    assert_int_equal(job()->failures, failures);
    assert_true(hsp_cluster_node_by_name(ss->d, "n1")->fault.times > 10);
    ss->folder_broken[1] = false;
    ss_until(settled, 960 * 1000 + 5000); /* of sixteen minutes at most */
    assert_true(ss->job[1].committed >= committed);
    to_the_end();
}

/* The job runs where the folder broke, and another node joins: the work moves there in order. */
static void a_folder_that_breaks_under_a_job(void **state)
{
    (void)state;
    running(2, 1, 2);
    ss->folder_broken[1] = true;
    ss->n_nodes = 3;
    sim_start_node(ss, 2);
    ss_go_on(2000);
    ss_until(settled, 5000);
    assert_int_equal(job()->cur.n_ranks, 2);
    assert_true(job()->cur.peers[0].device == HSP_DEVICE(0, 0));
    assert_true(job()->cur.peers[1].device == HSP_DEVICE(2, 0));
    assert_int_equal(job()->failures, 0);
    ss_go_on(3600 * 1000 / 4); /* tried again and again beside the steps */
    assert_true(job()->state == HSP_JOB_RUNNING || job()->state == HSP_JOB_DONE);
    to_the_end();
}

static bool failed(struct sim *w)
{
    return w->d_alive && hsp_cluster_job(w->d, 1)->state == HSP_JOB_FAILED;
}

static bool let_go(struct sim *w)
{
    return failed(w) && hsp_cluster_job(w->d, 1)->n_leases == 0;
}

/* The job is lost more often than it may be, and fails. Another job has its devices, hspmdd starts
 * again; then the job goes on from the version it had, and no step is made again. */
static void a_failed_job_goes_on(void **state)
{
    (void)state;
    running(2, 1, 2);
    ss->tracing = false;
    ss->d->cfg.max_failures = ss->cfg.max_failures = 2;
    for (uint32_t i = 0; i < 60 && !failed(ss); i++) {
        sim_kill_exec(ss, i % 2 * SIM_DEVS);
        ss_go_on(30);
    }
    assert_true(failed(ss));
    ss_until(let_go, 5000);
    uint64_t committed = ss->job[1].committed;
    assert_true(committed > 0);
    ss->d->cfg.max_failures = ss->cfg.max_failures = 30;
    sim_submit(ss, "other", 0, 2, 2, 20, 0);
    ss_go_on(3000);
    assert_int_equal(hsp_cluster_job(ss->d, 2)->state, HSP_JOB_DONE);
    sim_kill_daemon(ss, 200);
    ss_go_on(3000);
    assert_true(hsp_ci_keeps_state(job()));
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_RESUME, .job = 1});
    ss_until(settled, 10000);
    assert_true(job()->cur.step >= committed);
    to_the_end();
}

/* State of a job that was given up is deleted, also on a node that was away. */
static void a_failed_job_is_forgotten(void **state)
{
    (void)state;
    running(2, 1, 2);
    ss->tracing = false;
    ss->d->cfg.max_failures = ss->cfg.max_failures = 2;
    for (uint32_t i = 0; i < 60 && !failed(ss); i++) {
        sim_kill_exec(ss, i % 2 * SIM_DEVS);
        ss_go_on(30);
    }
    ss_until(let_go, 5000);
    sim_kill_agent(ss, 1, 2000);
    ss_go_on(100);
    assert_true(ss->exec[0].n_seg > 0 && ss->exec[SIM_DEVS].n_seg > 0);
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_FORGET, .job = 1});
    ss_go_on(5000);
    assert_null(hsp_cluster_job(ss->d, 1));
    assert_int_equal(ss->exec[0].n_seg, 0);
    assert_int_equal(ss->exec[SIM_DEVS].n_seg, 0);
    assert_false(ss->failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lost_gpu, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(a_lost_gpu_of_the_only_node, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(memory_errors, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(nowhere_to_go, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(lost_meanwhile, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(reset, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(a_read_only_folder, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_is_needed, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_breaks_under_a_job, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(a_failed_job_goes_on, ss_setup, ss_teardown),
        cmocka_unit_test_setup_teardown(a_failed_job_is_forgotten, ss_setup, ss_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
