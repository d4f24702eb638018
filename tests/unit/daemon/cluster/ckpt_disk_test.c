/* Tests that checkpoints on disk count beside the record: newer ones, lost ones, those of another
 * history, those asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/daemon/cluster/ckpt_world.h"

/* The record is older than the disk: a store that was put back, or papers. */
static void a_newer_one_on_disk_is_taken(void **state)
{
    (void)state;
    struct cw_world w;
    wc_with_three(&w, 3, false);
    wc_sees(&w, 40, 1, 1040);
    wc_sees(&w, 80, 1, 1080);
    wc_sees(&w, 60, 1, 1060);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_string_equal(
        cw_fact(&w, "ckpt.found"),
        "checkpoint 80 of epoch 1 is on disk and was not known: the job resumes from it");
    assert_int_equal(cw_fact_step(&w, "ckpt.found"), 80);
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 80, 1, 1080);
    wc_begins(&w, 81);
    assert_true(cw_job(&w, 1)->ckpt_step == 80 && cw_job(&w, 1)->n_older == 2);
    assert_true(cw_job(&w, 1)->older[0].step == 40 && cw_job(&w, 1)->older[1].step == 60);
    cw_end(&w);
}

/* The store that was put back is from before the job's first epoch. */
static void one_of_a_job_that_had_not_begun_is_taken(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    wc_submit(&w, (struct hsp_job_terms){0});
    assert_null(cw_fact(&w, "ckpt.found"));
    wc_sees(&w, 40, 1, 1040);
    wc_sees(&w, 60, 2, 1060);
    cw_restart_nodes(&w, 2);
    assert_int_equal(cw_job(&w, 1)->begun, 0);
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 2, 1060);
    cw_end(&w);
}

/* A node may have another content of one step: the one on record is meant, if any node has it. */
static void of_two_contents_that_on_record_is_taken(void **state)
{
    (void)state;
    struct cw_world w;
    wc_with_three(&w, 3, false);
    wc_sees(&w, 60, 1, 7);
    wc_sees(&w, 60, 1, 1060);
    wc_sees(&w, 60, 1, 9);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    cw_end(&w);
}

/* The disk is older than the record. A node with the checkpoint may come: the job waits for it, and
 * makes no attempt for a checkpoint that is nowhere. */
static void one_that_is_gone_is_passed_over(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct cw_world w;
        wc_with_three(&w, 3, shared != 0);
        wc_sees(&w, 20, 1, 1020);
        wc_sees(&w, 40, 1, 1040);
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        hsp_msec from = w.now;
        char told[300];
        if (!shared) {
            assert_string_equal(
                cw_job(&w, 1)->reason,
                "checkpoint 60 cannot be used: no connected node has it: waiting for a node that "
                "has it, for up to 60 s, then it resumes from checkpoint 40 of epoch 1");
        }
        wc_await_fact(&w, "ckpt.fallback", told);
        assert_true(shared ? w.now == from : w.now >= from + w.c->cfg.state_wait_ms);
        assert_non_null(strstr(told, shared
                                         ? "it is not in checkpoint.path any more; the job resumes "
                                           "from checkpoint 40 and computes 20 steps again"
                                         : "no connected node has it; the job resumes from "
                                           "checkpoint 40 and computes 20 steps again"));
        cw_plan(&w, 1);
        wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 1040);
        wc_begins(&w, 41);
        cw_end(&w);
    }
}

/* The node is back before the time is over. */
static void one_that_comes_back_is_taken(void **state)
{
    (void)state;
    struct cw_world w;
    wc_with_three(&w, 3, false);
    wc_sees(&w, 40, 1, 1040);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    wc_beats(&w, 5000);
    assert_int_equal(cw_job(&w, 1)->ticket, 0);
    wc_sees(&w, 60, 1, 1060);
    wc_beats(&w, 3000);
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    cw_end(&w);
}

/* The node is back when the time is over, and before the job could begin with another checkpoint,
 * for want of a plan. @mounts: its path is mounted some time after its agent said hello. */
static void comes_back_before_the_begin(bool mounts)
{
    struct cw_world w;
    char told[300];
    wc_with_three(&w, 3, false);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    wc_sees(&w, 40, 1, 1040);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_non_null(
        strstr(cw_job(&w, 1)->reason, "that has it, as n0 may, which is not connected, for"));
    wc_await_fact(&w, "ckpt.fallback", told);
    assert_int_not_equal(cw_job(&w, 1)->ticket, 0);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                   .u.plan = {.job = 1,
                                              .ticket = w.ticket,
                                              .status = HSP_EINFEASIBLE,
                                              .reason = "it does not fit"}});
    assert_true(cw_job(&w, 1)->ticket == 0 && cw_job(&w, 1)->origin_step == 40);
    if (mounts) {
        cw_hello(&w, 1, "n0", 0, 1);
        wc_beats(&w, 5000);
        assert_int_equal(cw_job(&w, 1)->ticket, 0);
        wc_sees(&w, 60, 1, 1060);
    } else {
        wc_sees(&w, 60, 1, 1060);
        cw_hello(&w, 1, "n0", 0, 1);
    }
    for (uint32_t i = 0; i < 40 && cw_job(&w, 1)->ticket == 0; i++) {
        wc_beats(&w, 500);
    }
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    cw_end(&w);
}

static void one_that_comes_back_before_the_begin_is_taken(void **state)
{
    (void)state;
    comes_back_before_the_begin(false);
    comes_back_before_the_begin(true);
}

/* All checkpoints are damaged or gone: nothing of the training is left. */
static void without_any_the_job_fails(void **state)
{
    (void)state;
    struct cw_world w;
    wc_with_three(&w, 3, true);
    w.has_disk = true;
    w.damaged = "/c/j/step-0000000060/manifest.json is damaged";
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
    assert_string_equal(cw_job(&w, 1)->reason,
                        "checkpoint 60 cannot be used, and there is no older one: "
                        "/c/j/step-0000000060/manifest.json is damaged; put it back and resume the "
                        "job, or submit it "
                        "again");
    cw_end(&w);
}

/* Checkpoints behind the step that an administrator chose are of another history. */
static void another_history_is_not_taken(void **state)
{
    (void)state;
    struct cw_world w;
    wc_with_three(&w, 8, false);
    assert_int_equal(wc_resume_from(&w, 20), HSP_OK);
    wc_sees(&w, 20, 1, 1020);
    wc_sees(&w, 40, 1, 1040);
    wc_sees(&w, 60, 1, 1060);
    cw_plan(&w, 1);
    wc_begins(&w, 21);
    wc_cancelled(&w);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 20, 1, 1020);
    wc_begins(&w, 21);
    wc_sees(&w, 40, 3, 77); /* written anew */
    wc_cancelled(&w);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 3, 77);
    cw_end(&w);
}

/* Any complete checkpoint can be asked for, of another history too; else all steps are named. */
static void any_on_disk_can_be_asked_for(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_m_seen seen[] = {
        {80, WC_TERM, 1, 1080}, {40, WC_TERM, 1, 1040}, {80, WC_TERM, 1, 8}};
    struct hsp_admin_event a = {.verb = HSP_ADMIN_RESUME,
                                .job = 1,
                                .has_step = true,
                                .step = 60,
                                .looked = true,
                                .n_seen = 3,
                                .seen = seen,
                                .reason = ""};
    wc_with_three(&w, 8, false);
    assert_int_equal(cw_admin(&w, a), HSP_ENOENT); /* on record, and gone */
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "job j has no complete checkpoint of step 60 on disk; there are 40, 80");
    a.reason = "n1: input or output error";
    assert_int_equal(cw_admin(&w, a), HSP_ENOENT);
    assert_string_equal(
        cw_find(&w, HSP_ACT_REPLY)->text,
        "job j has no complete checkpoint of step 60 on disk; there are 40, 80; not "
        "all could be asked: n1: input or output error");
    a.n_seen = 0;
    assert_int_equal(cw_admin(&w, a), HSP_ENOENT);
    assert_non_null(strstr(cw_find(&w, HSP_ACT_REPLY)->text, "there are none"));
    a.n_seen = 3;
    a.step = 80;
    w.has_disk = true;
    memcpy(w.disk, seen, sizeof seen);
    w.n_disk = 3;
    assert_int_equal(cw_admin(&w, a), HSP_OK);
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 80, 1, 1080);
    wc_begins(&w, 81);
    cw_end(&w);
}

/* The executors of a job whose state is in memory alone have died, and their segments with them. A
 * checkpoint that was written, and that nobody could tell of, is older or newer than the step
 * known. */
static void steps_that_are_lost_are_counted(void **state)
{
    static const char *const says[] = {
        "version 47 is lost, going back to version 45: 3 steps are made again",
        "its state is lost, and its newest step is not known here: it resumes from version 50"};
    (void)state;
    for (uint32_t newer = 0; newer < 2; newer++) {
        const uint64_t step = newer ? 50 : 45;
        struct cw_world w;
        char told[300];
        wc_running(&w);
        wc_saved_in(&w, 1, 40, 77);
        cw_pass(&w, 1, 47, cw_even, 2);
        wc_sees(&w, 40, 1, 77);
        wc_sees(&w, step, 1, 78);
        for (uint32_t i = 0; i < 2; i++) {
            cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = i + 1});
            cw_hello(&w, i + 1, i == 0 ? "n0" : "n1", 0, 1);
        }
        wc_await_fact(&w, "state.lost", told);
        assert_string_equal(told, says[newer]);
        cw_plan(&w, 1);
        const struct hsp_m_prepare *p = &cw_find(&w, HSP_ACT_PREPARE)->msg->u.prepare;
        assert_true(p->mode == HSP_MODE_RESTORE && p->step == step && p->ckpt_content == 78);
        for (uint32_t i = 0; i < w.n_asked; i++) {
            cw_ready(&w, 1, i, 5);
        }
        cw_pass(&w, 1, step + 1, cw_even, w.n_asked);
        assert_int_equal(wc_steps_lost(&w), newer ? 0 : 3); /* 45 to 47 */
        cw_end(&w);
    }
}

/* All nodes lose their power, and come back when all times are over: with no state, but with their
 * disks. */
static void nodes_that_are_all_away_are_waited_for(void **state)
{
    (void)state;
    struct cw_world w;
    wc_running(&w);
    wc_saved_in(&w, 1, 40, 77);
    cw_pass(&w, 1, 47, cw_even, 2);
    for (uint32_t i = 0; i < 2; i++) {
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = i + 1});
    }
    for (uint32_t i = 0; i < 600; i++) {
        w.now += 500;
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        if (w.find != 0) {
            cw_ckpts(&w, NULL, 0, "no node is connected");
        }
    }
    assert_int_not_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
    assert_string_equal(cw_job(&w, 1)->reason, "waits for 1 device; no node offers any");
    wc_sees(&w, 40, 1, 77);
    cw_hello(&w, 3, "n0", 0, 1);
    assert_non_null(cw_fact(&w, "state.lost"));
    cw_plan(&w, 1);
    const struct hsp_m_prepare *p = &cw_find(&w, HSP_ACT_PREPARE)->msg->u.prepare;
    assert_true(p->mode == HSP_MODE_RESTORE && p->step == 40 && p->ckpt_content == 77);
    cw_end(&w);
}

/* A node comes with its half of version 47, as one that was dead here. */
static void comes_back(struct cw_world *w, uint32_t node)
{
    const char name[3] = {'n', (char)('0' + node), '\0'};
    struct hsp_m_holding h = {.job = 1, .plan = 1, .version = 47, .rank = node, .owner = node};
    cw_say_hello(w, node + 1,
                 (struct hsp_m_hello){
                     .node = name, .was = cw_last(w, name), .n_holdings = 1, .holdings = &h});
}

/* All nodes are cut off for longer than state is waited for, and come back one behind the other:
 * the first does not begin with a checkpoint before the second can be there. */
static void what_comes_back_piece_by_piece_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t both = 0; both < 2; both++) {
        struct cw_world w;
        char told[300];
        cw_begin(&w, 2, 1);
        wc_submit(&w, (struct hsp_job_terms){.copies = 1});
        cw_plan_in_halves(&w);
        wc_begins(&w, 1);
        wc_saved_in(&w, 1, 40, 77);
        cw_pass(&w, 1, 47, cw_even, 2);
        wc_sees(&w, 40, 1, 77);
        for (uint32_t i = 0; i < 2; i++) {
            cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = i + 1});
        }
        for (uint32_t i = 0; i < 600; i++) {
            w.now += 500;
            cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
        }
        const struct hsp_job *j = cw_job(&w, 1);
        assert_string_equal(j->reason, "waits for 1 device; no node offers any");
        comes_back(&w, 0);
        assert_true(j->ticket == 0 && j->att.epoch == 0);
        assert_non_null(strstr(j->reason, "version 47 of the state is not complete on the "
                                          "connected nodes: waiting for more, on n1,"));
        if (both) {
            comes_back(&w, 1);
            assert_true(j->att.mode == HSP_MODE_RECOVER && j->att.step == 47);
        } else {
            hsp_msec from = w.now;
            wc_await_fact(&w, "state.lost", told);
            assert_true(w.now >= from + w.c->cfg.state_wait_ms);
            cw_plan(&w, 1);
            assert_true(j->att.mode == HSP_MODE_RESTORE && j->att.step == 40);
        }
        cw_end(&w);
    }
}

/* A refused command changes nothing. */
static void a_step_that_there_is_not_changes_nothing(void **state)
{
    (void)state;
    struct cw_world w;
    wc_with_three(&w, 3, false);
    const struct hsp_job *j = cw_job(&w, 1);
    const uint64_t stable = j->stable, step = j->origin_step;
    assert_int_equal(wc_resume_from(&w, 33), HSP_ENOENT);
    assert_true(j->stable == stable && j->origin_step == step);
    cw_end(&w);
}

/* An answer counts no more once a loss or a start of hspmdd has overtaken its question. */
static void an_old_answer_counts_no_more(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_m_seen seen = {40, WC_TERM, 1, 1040};
    wc_with_three(&w, 3, true);
    w.asks = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_string_equal(cw_job(&w, 1)->reason, "looking for checkpoints on disk");
    uint64_t old = w.find;
    cw_restart_nodes(&w, 2);
    assert_true(w.find_job == 1 && w.find != 0);
    w.find = w.find == old ? old + 1000 : old;
    uint64_t mine = cw_job(&w, 1)->look_ticket;
    cw_ckpts(&w, &seen, 1, "");
    assert_true(cw_job(&w, 1)->look_ticket == mine && !cw_job(&w, 1)->looked);
    w.find_job = 1;
    w.find = mine;
    cw_ckpts(&w, &seen, 1, "n1: input or output error"); /* 60 may be there */
    assert_int_equal(cw_job(&w, 1)->ticket, 0);
    assert_true(cw_job(&w, 1)->ckpt_step == 60);
    assert_string_equal(
        cw_job(&w, 1)->reason,
        "checkpoint 60 cannot be used: n1: input or output error: waiting for a node that has it, "
        "for up to 60 s, then it resumes from checkpoint 40 of epoch 1");
    cw_end(&w);
}

/* An empty folder may be one that is not mounted yet, also where all have looked. */
static void a_shared_folder_that_is_not_mounted_yet(void **state)
{
    (void)state;
    for (uint32_t wait_ms = 7000; wait_ms < 90000; wait_ms *= 10) {
        struct cw_world w;
        wc_with_three(&w, 3, true);
        w.c->cfg.state_wait_ms = wait_ms;
        w.has_disk = true;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        const struct hsp_job *j = cw_job(&w, 1);
        assert_non_null(strstr(j->reason,
                               "it is not in checkpoint.path any more: waiting for a node "
                               "that has it, for up to "));
        assert_non_null(strstr(j->reason, " s, then it fails"));
        wc_beats(&w, wait_ms - 1000);
        assert_true(j->state == HSP_JOB_PENDING && j->ticket == 0);
        if (wait_ms == 7000) {
            wc_sees(&w, 60, 1, 1060);
            wc_beats(&w, 2500);
            cw_plan(&w, 1);
            wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
        } else {
            wc_beats(&w, 2500); /* state_wait is over */
            assert_int_equal(j->state, HSP_JOB_FAILED);
        }
        cw_end(&w);
    }
}

/* The checkpoint that an administrator chooses is on record at once. If it has gone meanwhile, the
 * job waits for it, and tells when it goes on without it. */
static void what_was_asked_for_is_waited_for(void **state)
{
    (void)state;
    const struct hsp_m_seen seen[] = {{80, WC_TERM, 1, 1080}, {50, WC_TERM, 1, 1050}};
    for (uint32_t k = 0; k < 4; k++) {
        const struct hsp_m_seen *it = &seen[k % 2];
        struct cw_world w;
        char told[300];
        wc_with_three(&w, 3, false);
        wc_sees(&w, 20, 1, 1020);
        wc_sees(&w, 40, 1, 1040);
        wc_sees(&w, 60, 1, 1060);
        struct hsp_admin_event a = {.verb = HSP_ADMIN_RESUME,
                                    .job = 1,
                                    .has_step = true,
                                    .step = it->step,
                                    .looked = true,
                                    .n_seen = 1,
                                    .seen = it,
                                    .reason = ""};
        assert_int_equal(cw_admin(&w, a), HSP_OK);
        cw_restart_nodes(&w, 2);
        const struct hsp_job *j = cw_job(&w, 1);
        assert_true(j->ckpt_step == it->step && j->ckpt.content == it->content);
        assert_int_equal(j->older[j->n_older - 1].step, k % 2 ? 40 : 60);
        wc_beats(&w, 3000);
        assert_int_equal(j->ticket, 0);
        assert_non_null(strstr(j->reason, " cannot be used: no connected node has it: waiting"));
        if (k < 2) {
            wc_sees(&w, it->step, 1, it->content);
            wc_beats(&w, 3000);
        } else {
            wc_await_fact(&w, "ckpt.fallback", told);
            assert_non_null(strstr(told, k % 2
                                             ? "resumes from checkpoint 40 and computes 10 steps"
                                             : "resumes from checkpoint 60 and computes 20 steps"));
        }
        cw_plan(&w, 1);
        uint64_t from = k < 2 ? it->step : k % 2 ? 40 : 60;
        wc_prepare_means(&w, HSP_MODE_RESTORE, from, 1, 1000 + from);
        cw_end(&w);
    }
}

/* The processor's time for a look at @n checkpoints, of @n / 2 steps. */
static double looked_through(uint32_t n)
{
    struct cw_world w;
    struct hsp_m_seen *seen = calloc(n, sizeof *seen);
    const uint32_t top = n / 2 - 1;
    char older[80];
    assert_non_null(seen);
    for (uint32_t i = 0; i < n; i++) {
        seen[i] = (struct hsp_m_seen){i % (n / 2), WC_TERM, 1 + i % (n / 2) / (n / 32), i};
    }
    cw_begin(&w, 2, 1);
    wc_submit(&w, (struct hsp_job_terms){.steps = 100000, .checkpoint_keep = 16});
    cw_plan(&w, 1);
    wc_begins(&w, 1);
    wc_saved_in(&w, 1, top - 6, 5);
    wc_cancelled(&w);
    w.asks = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    clock_t from = clock();
    cw_ckpts(&w, seen, n, "");
    const struct hsp_job *j = cw_job(&w, 1);
    assert_true(j->origin_step == top && j->ckpt_step == top - 6); /* none has begun with it */
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    struct hsp_admin_event a = {.verb = HSP_ADMIN_RESUME,
                                .job = 1,
                                .has_step = true,
                                .step = 99999,
                                .looked = true,
                                .n_seen = n,
                                .seen = seen,
                                .reason = ""};
    assert_int_equal(cw_admin(&w, a), HSP_ENOENT);
    (void)snprintf(older, sizeof older, "there are %u older ones, %u, %u, ", top - 15, top - 15,
                   top - 14);
    assert_non_null(strstr(cw_find(&w, HSP_ACT_REPLY)->text, older));
    double s = (double)(clock() - from) / CLOCKS_PER_SEC;
    free(seen);
    cw_end(&w);
    return s;
}

/* Many nodes may see many checkpoints: 8 times as many take some 9 times as long; a quadratic
 * search would take 64 times as long. */
static void thousands_are_looked_through_in_time(void **state)
{
    (void)state;
    double some = looked_through(65535 / 8), all = looked_through(65535);
    assert_true(all < 0.1 + 30 * some);
}

/* A job on halves of n0 and n1, of a store of before, has done step 40. */
static void in_halves_of_before(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    wc_submit(w, (struct hsp_job_terms){0});
    cw_plan_in_halves(w);
    wc_begins(w, 1);
    cw_pass(w, 1, 40, cw_even, 2);
    w->c->jobs[0]->ran_unknown = true;
    w->asks = true;
    w->lack = HSP_LACK_AWAY;
}

/* An agent restarts with its state folder, without the state. */
static void is_back_without_it(struct cw_world *w, uint32_t node)
{
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = node + 1});
    cw_hello(w, node + 1, node == 0 ? "n0" : "n1", 0, 1);
}

/* Nodes see the checkpoint of @step, and node @away ("": none) is not here, until the job has
 * planned or 200 s are over. Returns the time. */
static hsp_msec until_planned(struct cw_world *w, uint64_t step, const char *away)
{
    const struct hsp_m_seen seen = {step, WC_TERM, 1, 1000 + step};
    const hsp_msec from = w->now;
    while (cw_job(w, 1)->ticket == 0 && cw_job(w, 1)->att.epoch == 0 && w->now < from + 200000) {
        if (w->find_job != 0) {
            cw_ckpts(w, &seen, 1, away);
        } else {
            wc_beats(w, 500);
        }
    }
    return w->now - from;
}

static void no_plan(struct cw_world *w)
{
    cw_step(w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                  .u.plan = {.job = 1,
                                             .ticket = w->ticket,
                                             .status = HSP_EINFEASIBLE,
                                             .reason = "it does not fit"}});
}

/* All that had the state are back without it: nobody was waited for with it, and n2 is with the
 * checkpoints. */
static void one_that_had_no_state_is_waited_for(void **state)
{
    (void)state;
    struct cw_world w;
    in_halves_of_before(&w);
    is_back_without_it(&w, 0);
    is_back_without_it(&w, 1);
    cw_plan(&w, 1); /* asked for as they sealed */
    hsp_msec ms = until_planned(&w, 20, "n2: it is not connected");
    assert_true(ms >= w.c->cfg.state_wait_ms && ms < w.c->cfg.state_wait_ms + 10000u);
    assert_true(cw_job(&w, 1)->att.mode == HSP_MODE_RESTORE && cw_job(&w, 1)->att.step == 20);
    cw_end(&w);
}

/* n1 was waited for with the state. There is no plan yet, and n2, which has checkpoint 60, goes: n2
 * was not. */
static void one_that_goes_before_the_begin_is_waited_for(void **state)
{
    (void)state;
    struct cw_world w;
    in_halves_of_before(&w);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    while (cw_job(&w, 1)->ticket == 0) {
        w.now += 500;
        cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    no_plan(&w);
    cw_sealed(&w, 0, 1, 40);
    wc_beats(&w, 5000);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "waiting for more, on n1"));
    hsp_msec ms = until_planned(&w, 60, "n1: it is not connected");
    assert_true(ms < w.c->cfg.state_wait_ms + 10000u && cw_job(&w, 1)->origin_step == 60);
    no_plan(&w);
    is_back_without_it(&w, 0);
    ms = until_planned(&w, 20, "n2: it is not connected");
    assert_true(ms >= w.c->cfg.state_wait_ms && ms < w.c->cfg.state_wait_ms + 10000u);
    assert_int_equal(cw_job(&w, 1)->origin_step, 20);
    cw_end(&w);
}

HSP_TEST_FILE(ckpt_disk_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newer_one_on_disk_is_taken),
        cmocka_unit_test(one_of_a_job_that_had_not_begun_is_taken),
        cmocka_unit_test(of_two_contents_that_on_record_is_taken),
        cmocka_unit_test(one_that_is_gone_is_passed_over),
        cmocka_unit_test(one_that_comes_back_is_taken),
        cmocka_unit_test(one_that_comes_back_before_the_begin_is_taken),
        cmocka_unit_test(without_any_the_job_fails),
        cmocka_unit_test(another_history_is_not_taken),
        cmocka_unit_test(any_on_disk_can_be_asked_for),
        cmocka_unit_test(steps_that_are_lost_are_counted),
        cmocka_unit_test(nodes_that_are_all_away_are_waited_for),
        cmocka_unit_test(what_comes_back_piece_by_piece_is_waited_for),
        cmocka_unit_test(a_step_that_there_is_not_changes_nothing),
        cmocka_unit_test(an_old_answer_counts_no_more),
        cmocka_unit_test(a_shared_folder_that_is_not_mounted_yet),
        cmocka_unit_test(what_was_asked_for_is_waited_for),
        cmocka_unit_test(thousands_are_looked_through_in_time),
        cmocka_unit_test(one_that_had_no_state_is_waited_for),
        cmocka_unit_test(one_that_goes_before_the_begin_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
