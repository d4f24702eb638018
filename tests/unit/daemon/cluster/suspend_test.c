/* Tests suspended jobs: the state that they keep, the devices that they give back, and the
 * answers. */
#include <stdio.h>

#include "daemon/cluster/lookup.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

static enum hsp_status admin(struct cw_world *w, enum hsp_admin_verb verb)
{
    return cw_admin(w, (struct hsp_admin_event){.verb = verb, .job = 1, .actor = "me"});
}

static void submit(struct cw_world *w, uint32_t min, const char *path)
{
    wc_submit(w, (struct hsp_job_terms){.min = min, .checkpoint_path = path});
}

static void run_from(struct cw_world *w, uint32_t n_nodes, uint64_t step)
{
    cw_plan(w, 1);
    for (uint32_t i = 0; i < n_nodes; i++) {
        cw_ready(w, 1, i, 5);
    }
    cw_pass(w, 1, step, cw_even, n_nodes);
    cw_let_go(w, 1, n_nodes);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RUNNING);
}

static void saved_in(struct cw_world *w, uint64_t epoch, uint64_t step, bool complete)
{
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED,
                            .epoch = epoch,
                            .u.ckpt = {.job = 1,
                                       .step = step,
                                       .complete = complete,
                                       .reason = complete ? "" : "no space"}});
}

static void saved(struct cw_world *w, uint64_t step, bool complete)
{
    saved_in(w, cw_job(w, 1)->cur.epoch, step, complete);
}

static void stopped(struct cw_world *w, uint32_t n_nodes)
{
    for (uint32_t i = 0; i < n_nodes; i++) {
        cw_msg(w, i + 1,
               (struct hsp_msg){.type = HSP_MSG_STOPPED,
                                .epoch = cw_job(w, 1)->next_epoch - 1,
                                .u.devref.job = 1});
    }
    assert_int_equal(cw_job(w, 1)->n_leases, 0);
}

static void refused(struct cw_world *w, enum hsp_admin_verb verb, const char *why)
{
    assert_int_equal(admin(w, verb), HSP_ESTATE);
    assert_string_equal(cw_find(w, HSP_ACT_REPLY)->text, why);
}

/* A job that goes on from version @step, to say how many steps it makes again. */
static uint64_t made_again(struct cw_world *w, uint32_t n_nodes, uint64_t step)
{
    cw_plan(w, 1);
    for (uint32_t i = 0; i < n_nodes; i++) {
        cw_ready(w, 1, i, 5);
    }
    cw_pass(w, 1, step, cw_even, n_nodes);
    return wc_steps_lost(w);
}

/* A job on two nodes, which has come to version 7. */
static void running(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    submit(w, 1, "/c");
    run_from(w, 2, 7);
}

/* The same, suspended with version 9. */
static void suspended(struct cw_world *w)
{
    running(w);
    assert_int_equal(admin(w, HSP_ADMIN_SUSPEND), HSP_OK);
    saved(w, 9, true);
    stopped(w, 2);
}

static void a_running_job_is_suspended_by_a_checkpoint(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    assert_int_equal(admin(&w, HSP_ADMIN_SUSPEND), HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.suspend"), "j");
    assert_int_equal(cw_count_sent(&w, HSP_MSG_CHECKPOINT), 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    refused(&w, HSP_ADMIN_SUSPEND, "job j is being suspended already");
    saved(&w, 6, true); /* begun before */
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    saved(&w, 9, true);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_SUSPENDED);
    assert_string_equal(j->reason, "at step 9; resume continues it");
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 2);
    stopped(&w, 2);
    refused(&w, HSP_ADMIN_SUSPEND, "job j is suspended already");
    assert_int_equal(cw_submit(&w, "j", 0, 1, 1), HSP_EINVAL); /* its name is taken */
    assert_int_equal(cw_submit(&w, "k", 0, 1, 8), HSP_OK);     /* its devices are not */
    assert_int_equal(w.n_asked, 2);
    cw_restart_nodes(&w, 2);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SUSPENDED);
    assert_true(cw_job(&w, 1)->has_ckpt && cw_job(&w, 1)->ckpt_step == 9);
    cw_end(&w);
}

/* Where not every version is due, a checkpoint of the stable one may complete behind later
 * votes. */
static void votes_behind_the_stable_version_count(void **state)
{
    (void)state;
    struct cw_world w;
    double compute[2] = {1, 1};
    running(&w);
    cw_msg(&w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_STEP,
               .epoch = cw_job(&w, 1)->cur.epoch,
               .u.step = {.job = 1, .step = 27, .ahead = 7, .n_compute = 2, .compute_s = compute}});
    assert_int_equal(admin(&w, HSP_ADMIN_SUSPEND), HSP_OK);
    saved(&w, 20, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    saved(&w, 28, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SUSPENDED);
    cw_end(&w);
}

/* A person, or a timer, asks for checkpoints more often than one is written. */
static void checkpoints_asked_for_meanwhile_delay_nothing(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    assert_int_equal(admin(&w, HSP_ADMIN_SUSPEND), HSP_OK);
    cw_pass(&w, 1, 20, cw_even, 2);
    assert_int_equal(admin(&w, HSP_ADMIN_CHECKPOINT), HSP_OK);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_CHECKPOINT), 1);
    saved(&w, 9, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SUSPENDED);
    assert_false(cw_job(&w, 1)->ckpt_asked);
    cw_end(&w);
}

/* Steps behind the checkpoint, also one whose vote is told behind the decision, are made again and
 * count, also over a restart of hspmdd. Those that resume --from gives up do not count. */
static void steps_behind_its_checkpoint_are_lost(void **state)
{
    enum { SUSPENDED, TOLD_LATE, RESTARTED, CANCELLED, FROM, N };
    static const uint64_t lost[N] = {4, 5, 5, 4, 0}; /* 9 to 12, or to 13 */
    (void)state;
    for (int how = 0; how < N; how++) {
        struct cw_world w;
        running(&w);
        const uint64_t epoch = cw_job(&w, 1)->cur.epoch;
        (void)(how == CANCELLED ? HSP_OK : admin(&w, HSP_ADMIN_SUSPEND));
        cw_pass(&w, 1, 12, cw_even, 2);
        saved(&w, 9, true);
        (void)(how == CANCELLED ? admin(&w, HSP_ADMIN_CANCEL) : HSP_OK);
        assert_true(hsp_ci_at_rest(cw_job(&w, 1)));
        if (how == TOLD_LATE || how == RESTARTED) {
            cw_msg(&w, 1,
                   (struct hsp_msg){
                       .type = HSP_MSG_STEP, .epoch = epoch, .u.step = {.job = 1, .step = 13}});
        }
        stopped(&w, 2);
        if (how == RESTARTED) {
            cw_restart_nodes(&w, 2);
        }
        assert_int_equal(how == FROM ? wc_resume_from(&w, 9) : admin(&w, HSP_ADMIN_RESUME), HSP_OK);
        assert_int_equal(made_again(&w, 2, 9), lost[how]);
        cw_end(&w);
    }
}

static void it_resumes_with_the_nodes_there_are(void **state)
{
    (void)state;
    struct cw_world w;
    suspended(&w);
    cw_hello(&w, 3, "n2", 0, 1);
    assert_int_equal(cw_job(&w, 1)->ticket, 0); /* the job wants nothing */
    assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.resume"), "from version 9");
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "it begins with its checkpoint of step 9, or with one of a newer step or "
                        "epoch that is found on disk, as soon as it has its devices");
    assert_int_equal(w.n_asked, 3);
    run_from(&w, 3, 9);
    assert_int_equal(cw_job(&w, 1)->cur.mode, HSP_MODE_RESTORE);
    refused(
        &w, HSP_ADMIN_RESUME,
        "job j is running and needs no resume; to go back to a checkpoint: hspmdctl cancel j, then "
        "hspmdctl resume j --from STEP");
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "its executors stop, then its devices are free; its checkpoint of step 9 "
                        "stays, and resume can begin with it if it is on disk");
    cw_end(&w);
}

/* Also over a restart of hspmdd. Its devices are not asked of others meanwhile, nor free for others
 * before it. */
static void resumed_before_its_devices_have_stopped(void **state)
{
    (void)state;
    for (uint32_t cancels = 0; cancels < 2; cancels++) {
        struct cw_world w;
        running(&w);
        cw_hello(&w, 3, "n2", 0, 1);
        cw_plan(&w, 1); /* a switch begins */
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SWITCHING);
        (void)(cancels ? HSP_OK : admin(&w, HSP_ADMIN_SUSPEND));
        saved(&w, 9, true);
        (void)(cancels ? admin(&w, HSP_ADMIN_CANCEL) : HSP_OK);
        assert_int_equal(cw_job(&w, 1)->n_leases, 3);
        assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_OK);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 0); /* the devices were told before */
        w.ticket = 0;
        for (uint32_t term = 0; term < 2; term++) {
            const struct hsp_job *j = cw_job(&w, 1);
            assert_int_equal(j->state, HSP_JOB_PENDING);
            assert_string_equal(j->reason,
                                "waits until its devices have stopped their previous work");
            assert_int_equal(j->n_leases, 3);
            if (term == 0) {
                cw_restart(&w, NULL);
                for (uint32_t i = 0; i < 3; i++) {
                    char name[8];
                    (void)snprintf(name, sizeof name, "n%u", i);
                    cw_hello_running(&w, i + 1, name, w.c->nodes[i].incarnation, 1, i < 2);
                    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 1);
                    assert_int_equal(cw_count_sent(&w, HSP_MSG_SEAL), 0);
                }
            }
        }
        assert_int_equal(w.ticket, 0);
        stopped(&w, 3);
        assert_int_equal(w.n_asked, 3);
        run_from(&w, 3, 9);
        assert_int_equal(cw_job(&w, 1)->cur.mode, HSP_MODE_RESTORE);
        cw_end(&w);
    }
}

/* Another job keeps its devices: the devices that stop will do. */
static void resumed_beside_another_job(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    wc_submit(&w, (struct hsp_job_terms){.min = 1, .max = 1, .checkpoint_path = "/c"});
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    cw_pass(&w, 1, 7, cw_even, 1);
    assert_int_equal(cw_submit(&w, "k", 0, 1, 8), HSP_OK);
    cw_plan(&w, 2);
    cw_ready(&w, 2, 1, 5);
    cw_ready(&w, 2, 2, 5);
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_STEP,
                            .epoch = cw_job(&w, 2)->att.epoch,
                            .u.step = {.job = 2, .step = 7}});
    cw_let_go(&w, 2, 3);
    assert_int_equal(cw_job(&w, 2)->state, HSP_JOB_RUNNING);
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    w.ticket = 0;
    assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_OK);
    assert_int_equal(w.ticket, 0); /* k is not planned anew */
    assert_int_equal(cw_job(&w, 2)->state, HSP_JOB_RUNNING);
    stopped(&w, 1);
    assert_true(w.ticket != 0 && w.asked_job == 1 && w.n_asked == 1 && w.asked[0] == 0);
    cw_end(&w);
}

static void a_lower_maximum_is_the_cause_that_is_told(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    assert_int_equal(
        cw_admin(&w,
                 (struct hsp_admin_event){.verb = HSP_ADMIN_SCALE, .job = 1, .min = 1, .max = 1}),
        HSP_OK);
    assert_string_equal(cw_job(&w, 1)->cause, "the maximum of the job leaves out n1/0");
    cw_end(&w);
}

static void more_devices_than_there_are_are_told(void **state)
{
    (void)state;
    const struct hsp_admin_event many = {
        .verb = HSP_ADMIN_SCALE, .job = 1, .min = 4096, .max = 4096};
    const struct hsp_admin_event few = {.verb = HSP_ADMIN_SCALE, .job = 1, .min = 1, .max = 4096};
    struct cw_world w;
    running(&w);
    assert_int_equal(cw_admin(&w, many), HSP_OK);
    assert_string_equal(
        cw_find(&w, HSP_ACT_REPLY)->text,
        "it continues unchanged; after a loss it waits for 4096 devices; 2 of 2 can be used");
    assert_int_equal(cw_admin(&w, few), HSP_OK);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text, "");
    cw_end(&w);
    cw_begin(&w, 2, 1);
    submit(&w, 5, "");
    assert_int_equal(cw_admin(&w, many), HSP_OK);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "it waits for 4096 devices; 2 of 2 can be used");
    assert_int_equal(admin(&w, HSP_ADMIN_SUSPEND), HSP_OK);
    assert_int_equal(cw_admin(&w, few), HSP_OK);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "it is suspended: the bounds apply when it is resumed");
    cw_end(&w);
    cw_begin(&w, 2, 1);
    submit(&w, 1, "");
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_STARTING);
    assert_int_equal(cw_admin(&w, many), HSP_OK);
    assert_non_null(
        strstr(cw_find(&w, HSP_ACT_REPLY)->text, "it continues unchanged; after a loss"));
    cw_end(&w);
}

static void before_the_start_it_is_at_once(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    submit(&w, 5, ""); /* waits for devices */
    assert_int_equal(admin(&w, HSP_ADMIN_SUSPEND), HSP_OK);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SUSPENDED);
    assert_string_equal(cw_job(&w, 1)->reason, "before its first step; resume starts it");
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_CANCELLED);
    refused(&w, HSP_ADMIN_SUSPEND, "job j is cancelled: there is nothing to suspend");
    cw_end(&w);
    cw_begin(&w, 2, 1);
    submit(&w, 1, "");
    cw_plan(&w, 1); /* is being prepared */
    assert_int_equal(admin(&w, HSP_ADMIN_SUSPEND), HSP_OK);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SUSPENDED);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_STOP), 2);
    stopped(&w, 2);
    assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_OK);
    run_from(&w, 2, 3);
    refused(&w, HSP_ADMIN_SUSPEND, "job j has no checkpoint.path to store its state in");
    cw_end(&w);
}

/* The wish outlives a restart of the coordinator; a checkpoint that fails ends it, and so does
 * resume. */
static void the_wish(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    (void)admin(&w, HSP_ADMIN_SUSPEND);
    cw_hello_running(&w, 1, "n0", w.c->nodes[0].incarnation, 1, cw_job(&w, 1)->cur.epoch);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_CHECKPOINT), 1); /* the first may be lost */
    cw_restart_nodes(&w, 2);
    assert_true(cw_job(&w, 1)->suspending && cw_job(&w, 1)->suspend_from == 7);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    assert_true(cw_job(&w, 1)->suspend_epoch == cw_job(&w, 1)->cur.epoch); /* asked again */
    saved(&w, 8, false);
    assert_false(cw_job(&w, 1)->suspending);
    assert_string_equal(cw_fact(&w, "job.unsuspended"),
                        "it continues: not suspended, its checkpoint failed: no space");
    (void)admin(&w, HSP_ADMIN_SUSPEND);
    assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.resume"),
                        "its suspension is withdrawn and it continues");
    saved(&w, 9, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_end(&w);
}

/* A checkpoint that fails in the epoch before a switch: the one that runs has been asked again. */
static void a_failure_behind_a_switch(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 3, 1);
    submit(&w, 1, "/c");
    run_from(&w, 3, 7);
    cw_msg(&w, 3, (struct hsp_msg){.type = HSP_MSG_LEAVE, .u.leave.reason = "SIGTERM"});
    cw_plan(&w, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(&w, 1, i, 5);
    }
    (void)admin(&w, HSP_ADMIN_SUSPEND); /* the switch is armed */
    cw_pass(&w, 1, 8, cw_even, 3);
    cw_let_go(&w, 1, 3);
    assert_int_equal(cw_job(&w, 1)->cur.epoch, 2);
    saved_in(&w, 1, 7, false);
    assert_true(cw_job(&w, 1)->suspending);
    saved(&w, 8, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SUSPENDED);
    cw_end(&w);
}

/* A job on three nodes, of which n2 leaves: the switch is armed, and passes its first vote. */
static void switches(struct cw_world *w, uint64_t step)
{
    uint64_t epoch = cw_job(w, 1)->cur.epoch;
    cw_plan(w, 1);
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(w, 1, i, 5);
    }
    assert_int_equal(cw_job(w, 1)->att.phase, HSP_ATT_GO);
    assert_int_equal(admin(w, HSP_ADMIN_CHECKPOINT), HSP_OK);
    assert_int_equal(cw_count_sent(w, HSP_MSG_CHECKPOINT), 1);
    cw_pass(w, 1, step, cw_even, 3);
    assert_int_equal(cw_job(w, 1)->cur.epoch, epoch + 1);
}

/* A person asks for a checkpoint behind the last vote of an epoch: the next one writes it. */
static void a_checkpoint_asked_for_before_a_switch(void **state)
{
    (void)state;
    for (int complete = 0; complete < 2; complete++) {
        struct cw_world w;
        cw_begin(&w, 3, 1);
        submit(&w, 1, "/c");
        run_from(&w, 3, 7);
        cw_msg(&w, 3, (struct hsp_msg){.type = HSP_MSG_LEAVE, .u.leave.reason = "SIGTERM"});
        switches(&w, 8);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_CHECKPOINT), 1);
        cw_let_go(&w, 1, 3);
        saved_in(&w, 1, 6, true); /* begun before */
        assert_true(cw_job(&w, 1)->ckpt_asked);
        saved(&w, 9, complete != 0);
        assert_false(cw_job(&w, 1)->ckpt_asked);
        assert_non_null(cw_fact(&w, complete ? "ckpt.complete" : "ckpt.failed"));
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
        cw_end(&w);
    }
}

/* hspmdd begins again before rank 0 has written it: rank 0 is asked again, and a third start asks
 * nobody. */
static void a_checkpoint_asked_for_before_a_restart(void **state)
{
    (void)state;
    for (int complete = 0; complete < 2; complete++) {
        struct cw_world w;
        running(&w);
        assert_int_equal(admin(&w, HSP_ADMIN_CHECKPOINT), HSP_OK);
        cw_restart(&w, NULL);
        cw_hello_running(&w, 1, "n0", w.c->nodes[0].incarnation, 1, cw_job(&w, 1)->cur.epoch);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_CHECKPOINT), 1);
        saved(&w, 9, true); /* said again with the hello: it may be older than the wish */
        assert_true(cw_job(&w, 1)->ckpt_asked);
        cw_pass(&w, 1, 20, cw_even, 2);
        saved(&w, 21, complete != 0);
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
        cw_restart(&w, NULL);
        cw_hello_running(&w, 1, "n0", w.c->nodes[0].incarnation, 1, cw_job(&w, 1)->cur.epoch);
        assert_int_equal(cw_count_sent(&w, HSP_MSG_CHECKPOINT), 0);
        cw_end(&w);
    }
}

/* The version it went on from is written again: its checkpoint is as good as a new one. */
static void again_before_its_next_step(void **state)
{
    (void)state;
    struct cw_world w;
    suspended(&w);
    (void)admin(&w, HSP_ADMIN_RESUME);
    run_from(&w, 2, 9);
    assert_int_equal(admin(&w, HSP_ADMIN_SUSPEND), HSP_OK);
    saved(&w, 9, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SUSPENDED);
    assert_string_equal(cw_job(&w, 1)->reason, "at step 9; resume continues it");
    cw_end(&w);
}

/* All that was behind the last checkpoint is lost while it is being suspended. */
static void its_state_is_lost_meanwhile(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 1, 1);
    submit(&w, 1, "/c");
    run_from(&w, 1, 7);
    saved(&w, 7, true);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_STEP,
                            .epoch = cw_job(&w, 1)->cur.epoch,
                            .u.step = {.job = 1, .step = 20}});
    (void)admin(&w, HSP_ADMIN_SUSPEND);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    cw_hello(&w, 1, "n0", 0, 1); /* a new agent: the executors are gone */
    for (hsp_msec until = w.now + w.c->cfg.state_wait_ms + 1000; w.now < until; w.now += 500) {
        cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(cw_job(&w, 1)->origin_step, 7);
    run_from(&w, 1, 7);
    assert_int_equal(cw_job(&w, 1)->cur.mode, HSP_MODE_RESTORE);
    assert_true(cw_job(&w, 1)->suspending);
    saved(&w, 7, true);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SUSPENDED);
    cw_end(&w);
}

/* A checkpoint that was being written when the job was suspended: with it, the workers delete those
 * on record. */
static void a_checkpoint_completes_behind_the_decision(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    submit(&w, 1, "/c");
    run_from(&w, 2, 7);
    (void)admin(&w, HSP_ADMIN_SUSPEND);
    saved(&w, 9, true);
    const struct hsp_job *j = cw_job(&w, 1);
    saved_in(&w, 1, 9, true);   /* said again */
    saved_in(&w, 1, 8, true);   /* older */
    saved_in(&w, 1, 12, false); /* failed */
    assert_null(cw_find(&w, HSP_ACT_FACT));
    saved_in(&w, 0, 12, true); /* of no epoch */
    saved_in(&w, 2, 12, true); /* of one that was never given */
    assert_true(j->ckpt_step == 9 && j->origin_step == 9);
    saved_in(&w, 1, 12, true);
    assert_string_equal(cw_fact(&w, "ckpt.complete"), "version 12, 0 bytes");
    cw_restart_nodes(&w, 2);
    j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_SUSPENDED);
    assert_true(j->ckpt_step == 12 && j->origin_step == 12 && j->stable == 12);
    assert_string_equal(j->reason, "at step 12; resume continues it");
    stopped(&w, 2);
    assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_OK);
    assert_string_equal(cw_fact(&w, "admin.resume"), "from version 12");
    saved_in(&w, 1, 13, true); /* by a node that was away; nothing has begun */
    cw_plan(&w, 1);
    assert_int_equal(j->att.step, 13);
    cw_end(&w);
}

static void also_of_a_cancelled_one(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    submit(&w, 1, "/c");
    run_from(&w, 2, 7);
    saved(&w, 7, true);
    assert_int_equal(admin(&w, HSP_ADMIN_CANCEL), HSP_OK);
    assert_int_equal(cw_submit(&w, "j", 0, 9, 9), HSP_OK); /* another of its name */
    saved_in(&w, 1, 8, true);
    assert_int_equal(cw_job(&w, 1)->ckpt_step, 8);
    assert_string_equal(cw_job(&w, 1)->reason, "cancelled");
    assert_false(cw_job(&w, 2)->has_ckpt);
    cw_restart_nodes(&w, 2);
    stopped(&w, 2);
    assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_ESTATE); /* the name is the other's */
    (void)cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_CANCEL, .job = 2});
    assert_int_equal(admin(&w, HSP_ADMIN_RESUME), HSP_OK);
    assert_int_equal(cw_job(&w, 1)->ckpt_step, 8);
    cw_end(&w);
}

/* hspmdd begins, and is told to suspend the job before it hears of the steps and the checkpoint
 * that were made while it was away. The agent says its newest checkpoint again with its hello, and
 * the steps behind the WELCOME. */
static void said_again(bool twice)
{
    struct cw_world w;
    running(&w);
    const uint64_t epoch = cw_job(&w, 1)->cur.epoch;
    cw_restart(&w, NULL);
    assert_int_equal(admin(&w, HSP_ADMIN_SUSPEND), HSP_OK);
    if (twice) {
        cw_restart(&w, NULL);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cw_hello_running(&w, i + 1, i == 0 ? "n0" : "n1", w.c->nodes[i].incarnation, 1, epoch);
    }
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    saved(&w, 50, true);
    assert_true(cw_job(&w, 1)->suspending && cw_job(&w, 1)->ckpt_step == 50);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    cw_pass(&w, 1, 95, cw_even, 2);
    saved(&w, 96, true);
    assert_string_equal(cw_job(&w, 1)->reason, "at step 96; resume continues it");
    cw_end(&w);
}

static void a_checkpoint_that_is_said_again_does_not_suspend(void **state)
{
    (void)state;
    said_again(false);
}

/* hspmdd ends before the agent is back, and begins once more. */
static void nor_behind_another_start(void **state)
{
    (void)state;
    said_again(true);
}

/* Reports of steps that were made again since are of another history. */
static void checkpoints_of_before_it_was_resumed(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    submit(&w, 1, "/c");
    run_from(&w, 2, 7);
    (void)admin(&w, HSP_ADMIN_SUSPEND);
    saved(&w, 9, true);
    stopped(&w, 2);
    (void)admin(&w, HSP_ADMIN_RESUME);
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    saved_in(&w, 1, 20, true); /* too late: it begins at 9 */
    cw_pass(&w, 1, 9, cw_even, 2);
    cw_let_go(&w, 1, 2);
    assert_int_equal(cw_job(&w, 1)->ckpt_step, 9);
    saved_in(&w, 1, 20, true);
    assert_int_equal(cw_job(&w, 1)->ckpt_step, 9);
    cw_restart_nodes(&w, 2);
    saved_in(&w, 1, 20, true);
    assert_int_equal(cw_job(&w, 1)->ckpt_step, 9);
    (void)admin(&w, HSP_ADMIN_SUSPEND);
    saved_in(&w, 1, 20, false); /* nor has the one failed that is waited for */
    saved_in(&w, 1, 20, true);
    assert_true(cw_job(&w, 1)->suspending);
    saved(&w, 11, true);
    saved_in(&w, 1, 20, true);
    assert_string_equal(cw_job(&w, 1)->reason, "at step 11; resume continues it");
    cw_end(&w);
}

/* Form 6 says neither which epoch began nor which checkpoints are meant. */
static void rows_of_older_forms_are_read(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    submit(&w, 1, "/c");
    run_from(&w, 2, 7);
    (void)admin(&w, HSP_ADMIN_SUSPEND);
    saved(&w, 9, true);
    stopped(&w, 2);
    (void)cw_admin(&w, (struct hsp_admin_event){
                           .verb = HSP_ADMIN_SCALE, .job = 1, .min = 1, .max = 4}); /* stores it */
    cw_trusting_row(&w);
    for (uint32_t i = 0; i < w.n_rows; i++) {
        uint8_t *row = w.rows[i].value;
        if (strcmp(w.rows[i].key, "job/1") == 0) { /* behind it: no epoch, no attempt, no lease */
            uint32_t behind = w.rows[i].len - (8 + 8 + 4), more = 8 + 2 * 24;
            assert_int_equal(row[behind - more], 1);
            memmove(row + behind - more, row + behind, 8 + 8 + 4);
            w.rows[i].len -= more;
            row[0] = 6;
        }
    }
    cw_restart_nodes(&w, 2);
    const struct hsp_job *j = cw_job(&w, 1);
    assert_int_equal(j->state, HSP_JOB_SUSPENDED);
    assert_true(j->begun == 0 && j->ckpt_step == 9 && j->max == 4);
    assert_true(j->ckpt.epoch == 0 && j->origin_ckpt.epoch == 0);
    cw_end(&w);
}

HSP_TEST_FILE(suspend_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_job_is_suspended_by_a_checkpoint),
        cmocka_unit_test(votes_behind_the_stable_version_count),
        cmocka_unit_test(checkpoints_asked_for_meanwhile_delay_nothing),
        cmocka_unit_test(steps_behind_its_checkpoint_are_lost),
        cmocka_unit_test(it_resumes_with_the_nodes_there_are),
        cmocka_unit_test(resumed_before_its_devices_have_stopped),
        cmocka_unit_test(resumed_beside_another_job),
        cmocka_unit_test(a_lower_maximum_is_the_cause_that_is_told),
        cmocka_unit_test(more_devices_than_there_are_are_told),
        cmocka_unit_test(before_the_start_it_is_at_once),
        cmocka_unit_test(the_wish),
        cmocka_unit_test(a_failure_behind_a_switch),
        cmocka_unit_test(a_checkpoint_asked_for_before_a_switch),
        cmocka_unit_test(a_checkpoint_asked_for_before_a_restart),
        cmocka_unit_test(again_before_its_next_step),
        cmocka_unit_test(its_state_is_lost_meanwhile),
        cmocka_unit_test(a_checkpoint_completes_behind_the_decision),
        cmocka_unit_test(also_of_a_cancelled_one),
        cmocka_unit_test(a_checkpoint_that_is_said_again_does_not_suspend),
        cmocka_unit_test(nor_behind_another_start),
        cmocka_unit_test(checkpoints_of_before_it_was_resumed),
        cmocka_unit_test(rows_of_older_forms_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
