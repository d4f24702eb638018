/* Which checkpoint a resume means: the one on record, named to the members by term, epoch and content. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/cluster/ckpt_marks.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

#define TERM 1 /* of the hspmdd that made the epochs, as their manifests have it */

static void saved_in(struct cw_world *w, uint64_t epoch, uint64_t step, uint64_t content)
{
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED,
                            .epoch = epoch,
                            .u.ckpt = {.job = 1,
                                       .step = step,
                                       .term = TERM,
                                       .complete = true,
                                       .content = content,
                                       .reason = ""}});
}

/* What the last step has told the members of an epoch they are to begin. */
static void prepare_means(const struct cw_world *w, enum hsp_epoch_mode mode, uint64_t step,
                          uint64_t epoch, uint64_t content)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type != HSP_ACT_PREPARE) {
            continue;
        }
        const struct hsp_m_prepare *p = &a->msg->u.prepare;
        assert_true(p->mode == mode && p->step == step);
        assert_true(p->ckpt_term == (epoch != 0 ? TERM : 0) && p->ckpt_epoch == epoch);
        assert_true(p->ckpt_content == content);
        n++;
    }
    assert_int_equal(n, 2);
}

static void begins(struct cw_world *w, uint64_t step)
{
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
    cw_pass(w, 1, step, cw_even, 2);
    cw_let_go(w, 1, 2);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RUNNING);
}

/* A job on two nodes that runs in its first epoch. */
static void running(struct cw_world *w)
{
    struct hsp_admin_event a = {
        .verb = HSP_ADMIN_SUBMIT,
        .spec = {
            .name = "j", .min = 1, .max = 8, .copies = 2, .steps = 100, .checkpoint_path = "/c"}};
    cw_begin(w, 2, 1);
    w->c->cfg.trusted = CW_TRUSTED;
    assert_int_equal(cw_admin(w, a), HSP_OK);
    cw_plan(w, 1);
    prepare_means(w, HSP_MODE_FRESH, 0, 0, 0);
    begins(w, 1);
}

static void cancelled(struct cw_world *w)
{
    assert_int_equal(cw_order(w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(w, i + 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref.job = 1});
    }
}

static void resumed(struct cw_world *w)
{
    assert_int_equal(cw_order(w, HSP_ADMIN_RESUME, 1), HSP_OK);
    cw_plan(w, 1);
}

static void a_resume_names_what_is_on_record(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    saved_in(&w, 1, 20, 55);
    saved_in(&w, 1, 40, 77);
    saved_in(&w, 1, 20, 55); /* said again */
    cancelled(&w);
    cw_restart_nodes(&w, 2);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 77);
    begins(&w, 41);
    cw_hello(&w, 3, "n2", 0, 1); /* no other mode has one */
    cw_plan(&w, 1);
    const struct hsp_m_prepare *p = &cw_find(&w, HSP_ACT_PREPARE)->msg->u.prepare;
    assert_true(p->mode == HSP_MODE_SWITCH && p->ckpt_epoch == 0 && p->ckpt_content == 0);
    cw_end(&w);
}

/* What was written behind the version it goes on from, and heard of too late, is of another history:
 * with the version the record goes back to the checkpoint it was. */
static void what_it_went_on_from_stays_on_record(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    saved_in(&w, 1, 40, 77);
    cancelled(&w);
    resumed(&w);
    saved_in(&w, 1, 60, 99); /* it is being prepared */
    assert_true(cw_job(&w, 1)->ckpt_step == 60 && cw_job(&w, 1)->ckpt.content == 99);
    begins(&w, 41);
    cancelled(&w);
    cw_restart_nodes(&w, 2);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 77);
    cw_end(&w);
}

/* The same version again, after its steps were made again: it has taken the place of the one before. */
static void the_same_version_of_a_later_epoch(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    saved_in(&w, 1, 40, 77);
    cancelled(&w);
    resumed(&w);
    begins(&w, 40);
    saved_in(&w, 2, 40, 78);
    assert_non_null(cw_fact(&w, "ckpt.complete"));
    saved_in(&w, 2, 40, 78); /* said again */
    assert_null(cw_fact(&w, "ckpt.complete"));
    cancelled(&w);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 2, 78);
    cw_end(&w);
}

/* Rows of form 8 do not say it: the latest that there is, until the next checkpoint tells. */
static void a_record_of_before(void **state)
{
    (void)state;
    struct cw_world w;
    const uint8_t ckpts[48] = {[24] = TERM, [32] = 1, [40] = 77};
    running(&w);
    saved_in(&w, 1, 40, 77);
    cw_untrusting_row(&w);
    cw_older_row(&w, ckpts, sizeof ckpts, 8);
    cw_restart_nodes(&w, 2);
    assert_true(cw_job(&w, 1)->state == HSP_JOB_RUNNING && cw_job(&w, 1)->ckpt_step == 40);
    assert_true(cw_job(&w, 1)->ckpt.epoch == 0);
    cancelled(&w);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 0, 0);
    begins(&w, 41);
    saved_in(&w, 2, 60, 99);
    cancelled(&w);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 60, 2, 99);
    cw_end(&w);
}

static void beats(struct cw_world *w, hsp_msec for_ms)
{
    for (hsp_msec until = w->now + for_ms; w->now < until; w->now += 500) {
        cw_msg(w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

/* No member has it: they say so, what is meant stays, and in the end the job fails with that line. */
static void it_waits_for_that_one_and_then_fails(void **state)
{
    (void)state;
    struct cw_world w;
    const char *why = "no member has checkpoint 40 of epoch 1 in term 1";
    uint32_t tries = 0;
    running(&w);
    saved_in(&w, 1, 40, 77);
    cancelled(&w);
    resumed(&w);
    const struct hsp_job *j = cw_job(&w, 1);
    while (j->state != HSP_JOB_FAILED && tries++ < 100) {
        prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 77);
        cw_ready(&w, 1, 0, 5);
        cw_ready(&w, 1, 1, 5);
        cw_msg(&w, 1,
               (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                                .epoch = j->att.epoch,
                                .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = why}});
        for (uint32_t i = 0; i < 2 && j->state == HSP_JOB_SEALING; i++) {
            cw_msg(&w, i + 1,
                   (struct hsp_msg){
                       .type = HSP_MSG_SEALED, .epoch = j->seal_upto, .u.sealed = {.job = 1}});
        }
        if (tries == 5) {
            assert_string_equal(j->reason,
                                "n0/0: no member has checkpoint 40 of epoch 1 in term 1");
        }
        while (j->state != HSP_JOB_FAILED && j->ticket == 0 && j->att.epoch == 0) {
            beats(&w, 500);
        }
        if (j->ticket != 0) {
            cw_plan(&w, 1);
        }
    }
    assert_int_equal(tries, w.c->cfg.max_failures + 1);
    assert_string_equal(j->reason, "30 attempts without progress, the last: n0/0: no member has "
                                   "checkpoint 40 of epoch 1 in term 1");
    cw_end(&w);
}

/* ---- older ones ---- */

/* A job that keeps @keep checkpoints has written those of steps 20, 40 and 60, and is cancelled. */
static void with_three(struct cw_world *w, uint32_t keep, bool shared)
{
    struct hsp_admin_event a = {.verb = HSP_ADMIN_SUBMIT,
                                .spec = {.name = "j",
                                         .min = 1,
                                         .max = 8,
                                         .copies = 2,
                                         .steps = 100,
                                         .checkpoint_path = "/c",
                                         .checkpoint_shared = shared,
                                         .checkpoint_keep = keep}};
    cw_begin(w, 2, 1);
    assert_int_equal(cw_admin(w, a), HSP_OK);
    cw_plan(w, 1);
    begins(w, 1);
    for (uint64_t step = 20; step <= 60; step += 20) {
        saved_in(w, 1, step, 1000 + step);
    }
    cancelled(w);
}

/* Both members of the attempt say that nobody has its checkpoint; then they seal. */
static void refused(struct cw_world *w, bool damaged)
{
    const struct hsp_job *j = cw_job(w, 1);
    uint64_t epoch = j->att.epoch, step = j->att.step;
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(w, i + 1,
               (struct hsp_msg){.type = HSP_MSG_CKPT_REFUSED,
                                .epoch = epoch,
                                .u.refused = {.job = 1,
                                              .step = step,
                                              .damaged = damaged,
                                              .reason = "wte.weight is damaged"}});
        if (i == 0 && cw_fact(w, "ckpt.fallback") != NULL) {
            assert_string_equal(
                cw_fact(w, "ckpt.fallback"),
                "checkpoint 60 cannot be used: wte.weight is damaged; the job goes on "
                "from checkpoint 40 and makes 20 steps again");
        }
    }
    for (uint32_t i = 0; i < 2 && j->state == HSP_JOB_SEALING; i++) {
        cw_msg(w, i + 1,
               (struct hsp_msg){
                   .type = HSP_MSG_SEALED, .epoch = j->seal_upto, .u.sealed = {.job = 1}});
    }
}

/* The time until its next attempt is planned. */
static hsp_msec next_attempt(struct cw_world *w)
{
    hsp_msec from = w->now;
    while (cw_job(w, 1)->ticket == 0 && cw_job(w, 1)->att.epoch == 0) {
        assert_true(w->now < from + 60000);
        beats(w, 500);
    }
    if (cw_job(w, 1)->ticket != 0) {
        cw_plan(w, 1);
    }
    return w->now - from;
}

/* As the end of its switch tells. */
static uint64_t steps_lost(const struct cw_world *w)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type == HSP_ACT_FACT && strcmp(a->u.fact->type, "switch.end") == 0) {
            return a->u.fact->lost_steps;
        }
    }
    return UINT64_MAX;
}

/* A node that has it may come back, so it is waited for as long as for other state; the job neither fails
 * meanwhile nor believes another history. */
static void an_older_one_is_taken_in_the_end(void **state)
{
    (void)state;
    struct cw_world w;
    uint32_t tries = 0;
    with_three(&w, 3, false);
    resumed(&w);
    hsp_msec from = w.now;
    for (; w.now < from + w.c->cfg.state_wait_ms; tries++) {
        prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
        refused(&w, tries % 2 != 0);
        assert_string_equal(cw_job(&w, 1)->reason, "n0/0: wte.weight is damaged");
        (void)next_attempt(&w);
    }
    assert_true(tries > 2);
    prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    refused(&w, false);
    assert_true(cw_job(&w, 1)->origin_step == 40 && cw_job(&w, 1)->stable == 40);
    (void)next_attempt(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 1040);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    cw_pass(&w, 1, 41, cw_even, 2);
    assert_int_equal(steps_lost(&w), 20);
    cw_let_go(&w, 1, 2);
    cw_restart_nodes(&w, 2); /* all of it is stored */
    assert_true(cw_job(&w, 1)->ckpt_step == 40 && cw_job(&w, 1)->n_older == 1);
    cancelled(&w);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 1040); /* that of 60 is of another history now */
    cw_end(&w);
}

/* On a path that all share there is nobody to wait for; and behind the last one there is nothing. */
static void a_damaged_one_that_all_share(void **state)
{
    (void)state;
    struct cw_world w;
    with_three(&w, 2, true);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    refused(&w, true);
    assert_int_equal(cw_job(&w, 1)->failures, 1);
    assert_int_equal(next_attempt(&w), 0);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 1040);
    refused(&w, true); /* checkpoint.keep is 2: that of 20 is gone */
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
    assert_string_equal(
        cw_job(&w, 1)->reason,
        "checkpoint 40 cannot be used, and there is no older one: n0/0: wte.weight is "
        "damaged; put it back and resume the job, or submit it again");
    assert_true(cw_job(&w, 1)->ckpt_step == 60); /* put back, it is the one */
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(&w, i + 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref.job = 1});
    }
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    cw_end(&w);
}

static enum hsp_status resume_from(struct cw_world *w, uint64_t step)
{
    return cw_admin(w, (struct hsp_admin_event){
                           .verb = HSP_ADMIN_RESUME, .job = 1, .has_step = true, .step = step});
}

static void an_older_one_can_be_asked_for(void **state)
{
    (void)state;
    struct cw_world w;
    with_three(&w, 8, false);
    assert_int_equal(resume_from(&w, 30), HSP_ENOENT);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "job j has no checkpoint of step 30; it has 20, 40, 60");
    assert_int_equal(resume_from(&w, 20), HSP_OK);
    saved_in(&w, 1, 80, 1080); /* of the epoch before, said late */
    cw_plan(&w, 1);
    prepare_means(&w, HSP_MODE_RESTORE, 20, 1, 1020);
    begins(&w, 21);
    assert_true(cw_job(&w, 1)->ckpt_step == 20 && cw_job(&w, 1)->n_older == 0);
    saved_in(&w, 2, 40, 77);
    cancelled(&w);
    assert_int_equal(resume_from(&w, 60), HSP_ENOENT);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "job j has no checkpoint of step 60; it has 20, 40");
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 2, 77);
    cw_end(&w);
}

/* What the workers keep is known, up to a bound. */
static void as_many_are_known_as_are_kept(void **state)
{
    (void)state;
    for (uint32_t keep = 1; keep <= 100; keep += 33) {
        struct cw_world w;
        with_three(&w, keep, false);
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        cw_plan(&w, 1);
        begins(&w, 61);
        for (uint64_t step = 61; step < 99; step++) {
            saved_in(&w, 2, step, step);
        }
        const struct hsp_job *j = cw_job(&w, 1);
        uint32_t known = keep < HSP_OLDER_CKPTS + 1 ? keep : HSP_OLDER_CKPTS + 1;
        assert_int_equal(j->n_older, known - 1);
        for (uint32_t i = 0; i < j->n_older; i++) {
            assert_int_equal(j->older[i].step, 98 - j->n_older + i);
            assert_int_equal(j->older[i].mark.content, j->older[i].step);
        }
        cw_end(&w);
    }
}

/* ---- what is on disk ---- */

static void sees(struct cw_world *w, uint64_t step, uint64_t epoch, uint64_t content)
{
    w->has_disk = true;
    w->disk[w->n_disk++] = (struct hsp_m_seen){step, TERM, epoch, content};
}

/* Time goes on until a fact of @type is told, and before it nothing is planned. */
static void await_fact(struct cw_world *w, const char *type, char ret[300])
{
    const uint64_t ticket = w->ticket;
    const hsp_msec from = w->now;
    for (uint32_t i = 0;; i++) {
        struct hsp_msg beat = {.type = HSP_MSG_HEARTBEAT};
        const char *fact = cw_fact(w, type);
        if (fact != NULL) {
            (void)snprintf(ret, 300, "%s", fact);
            return;
        }
        assert_true(w->ticket == ticket && w->now < from + 120000);
        w->now += i % 3 == 0 ? 500 : 0;
        cw_step(w, i % 3 == 2
                       ? (struct hsp_event){.type = HSP_EV_TICK}
                       : (struct hsp_event){.type = HSP_EV_MSG, .conn = i % 3 + 1, .u.msg = &beat});
    }
}

/* The record is older than the disk: a store that was put back, or papers. */
static void a_newer_one_on_disk_is_taken(void **state)
{
    (void)state;
    struct cw_world w;
    with_three(&w, 3, false);
    sees(&w, 40, 1, 1040);
    sees(&w, 80, 1, 1080);
    sees(&w, 60, 1, 1060);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_string_equal(
        cw_fact(&w, "ckpt.found"),
        "checkpoint 80 of epoch 1 is on disk and was not on record: the job goes on "
        "from it");
    cw_plan(&w, 1);
    prepare_means(&w, HSP_MODE_RESTORE, 80, 1, 1080);
    begins(&w, 81);
    assert_true(cw_job(&w, 1)->ckpt_step == 80 && cw_job(&w, 1)->n_older == 2);
    assert_true(cw_job(&w, 1)->older[0].step == 40 && cw_job(&w, 1)->older[1].step == 60);
    cw_end(&w);
}

/* Of one step a node may have another content: that on record is meant, if any node has it. */
/* The store that was put back is from before the job's first epoch. */
static void one_of_a_job_that_had_not_begun_is_taken(void **state)
{
    (void)state;
    struct hsp_admin_event a = {
        .verb = HSP_ADMIN_SUBMIT,
        .spec = {
            .name = "j", .min = 1, .max = 8, .copies = 2, .steps = 100, .checkpoint_path = "/c"}};
    struct cw_world w;
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_admin(&w, a), HSP_OK);
    assert_null(cw_fact(&w, "ckpt.found"));
    sees(&w, 40, 1, 1040);
    sees(&w, 60, 2, 1060);
    cw_restart_nodes(&w, 2);
    assert_int_equal(cw_job(&w, 1)->begun, 0);
    cw_plan(&w, 1);
    prepare_means(&w, HSP_MODE_RESTORE, 60, 2, 1060);
    cw_end(&w);
}

static void of_two_contents_that_on_record_is_taken(void **state)
{
    (void)state;
    struct cw_world w;
    with_three(&w, 3, false);
    sees(&w, 60, 1, 7);
    sees(&w, 60, 1, 1060);
    sees(&w, 60, 1, 9);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    cw_end(&w);
}

/* The disk is older than the record. A node that has it may come: it is waited for, and no attempt is
 * made for what is nowhere. */
static void one_that_is_gone_is_passed_over(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct cw_world w;
        with_three(&w, 3, shared != 0);
        sees(&w, 20, 1, 1020);
        sees(&w, 40, 1, 1040);
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        hsp_msec from = w.now;
        char told[300];
        if (!shared) {
            assert_string_equal(
                cw_job(&w, 1)->reason,
                "checkpoint 60 cannot be used: no node that is here has it: waiting "
                "for a node that has it");
        }
        await_fact(&w, "ckpt.fallback", told);
        assert_true(shared ? w.now == from : w.now >= from + w.c->cfg.state_wait_ms);
        assert_non_null(strstr(told, shared
                                         ? "it is not in checkpoint.path any more; the job goes on "
                                           "from checkpoint 40 and makes 20 steps again"
                                         : "no node that is here has it; the job goes on from "
                                           "checkpoint 40 and makes 20 steps again"));
        cw_plan(&w, 1);
        prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 1040);
        begins(&w, 41);
        cw_end(&w);
    }
}

/* It is back before the time is over. */
static void one_that_comes_back_is_taken(void **state)
{
    (void)state;
    struct cw_world w;
    with_three(&w, 3, false);
    sees(&w, 40, 1, 1040);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    beats(&w, 5000);
    assert_int_equal(cw_job(&w, 1)->ticket, 0);
    sees(&w, 60, 1, 1060);
    beats(&w, 3000);
    cw_plan(&w, 1);
    prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    cw_end(&w);
}

/* All are damaged or gone: nothing of what was trained is left. */
static void without_any_the_job_fails(void **state)
{
    (void)state;
    struct cw_world w;
    with_three(&w, 3, true);
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

/* Behind the step that an administrator chose, what is on disk is of another history. */
static void another_history_is_not_taken(void **state)
{
    (void)state;
    struct cw_world w;
    with_three(&w, 8, false);
    assert_int_equal(resume_from(&w, 20), HSP_OK);
    sees(&w, 20, 1, 1020);
    sees(&w, 40, 1, 1040);
    sees(&w, 60, 1, 1060);
    cw_plan(&w, 1);
    begins(&w, 21);
    cancelled(&w);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 20, 1, 1020);
    begins(&w, 21);
    sees(&w, 40, 3, 77); /* written anew */
    cancelled(&w);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 3, 77);
    cw_end(&w);
}

/* Any complete one can be asked for, of another history too; else all that there are are named. */
static void any_on_disk_can_be_asked_for(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_m_seen seen[] = {{80, TERM, 1, 1080}, {40, TERM, 1, 1040}, {80, TERM, 1, 8}};
    struct hsp_admin_event a = {.verb = HSP_ADMIN_RESUME,
                                .job = 1,
                                .has_step = true,
                                .step = 60,
                                .looked = true,
                                .n_seen = 3,
                                .seen = seen,
                                .reason = ""};
    with_three(&w, 8, false);
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
    prepare_means(&w, HSP_MODE_RESTORE, 80, 1, 1080);
    begins(&w, 81);
    cw_end(&w);
}

/* The executors of a job whose state is in memory alone have died, and their segments with them. */
static void steps_that_are_lost_are_counted(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    saved_in(&w, 1, 40, 77);
    cw_pass(&w, 1, 47, cw_even, 2);
    sees(&w, 40, 1, 77);
    sees(&w, 45, 1, 78); /* written, and nobody could tell of it */
    for (uint32_t i = 0; i < 2; i++) {
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = i + 1});
        cw_hello(&w, i + 1, i == 0 ? "n0" : "n1", 0, 1);
    }
    char told[300];
    await_fact(&w, "state.lost", told);
    assert_string_equal(told,
                        "version 47 is lost, going back to version 45: 2 steps are made again");
    cw_plan(&w, 1);
    const struct hsp_m_prepare *p = &cw_find(&w, HSP_ACT_PREPARE)->msg->u.prepare;
    assert_true(p->mode == HSP_MODE_RESTORE && p->step == 45 && p->ckpt_content == 78);
    for (uint32_t i = 0; i < w.n_asked; i++) {
        cw_ready(&w, 1, i, 5);
    }
    cw_pass(&w, 1, 46, cw_even, w.n_asked);
    assert_int_equal(steps_lost(&w), 2);
    cw_end(&w);
}

/* All nodes lose their power, and come back when all times are over: with no state, but with their
 * disks. */
static void nodes_that_are_all_away_are_waited_for(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    saved_in(&w, 1, 40, 77);
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
    sees(&w, 40, 1, 77);
    cw_hello(&w, 3, "n0", 0, 1);
    assert_non_null(cw_fact(&w, "state.lost"));
    cw_plan(&w, 1);
    const struct hsp_m_prepare *p = &cw_find(&w, HSP_ACT_PREPARE)->msg->u.prepare;
    assert_true(p->mode == HSP_MODE_RESTORE && p->step == 40 && p->ckpt_content == 77);
    cw_end(&w);
}

/* A refused word changes nothing. */
static void a_step_that_there_is_not_changes_nothing(void **state)
{
    (void)state;
    struct cw_world w;
    with_three(&w, 3, false);
    const struct hsp_job *j = cw_job(&w, 1);
    const uint64_t stable = j->stable, step = j->origin_step;
    assert_int_equal(resume_from(&w, 33), HSP_ENOENT);
    assert_true(j->stable == stable && j->origin_step == step);
    cw_end(&w);
}

/* A question that is overtaken, by a loss or a start of hspmdd, counts no more. */
static void an_old_answer_counts_no_more(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_m_seen seen = {40, TERM, 1, 1040};
    with_three(&w, 3, true);
    w.asks = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_string_equal(cw_job(&w, 1)->reason, "looking which checkpoints are on disk");
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
    assert_string_equal(cw_job(&w, 1)->reason, "checkpoint 60 cannot be used: n1: input or output "
                                               "error: waiting for a node that has it");
    cw_end(&w);
}

/* ---- an answer that is not whole ---- */

#define EIO_ON_N1 "n1: input or output error"
#define UNKNOWN                                                                                 \
    "it is not known which checkpoints are on disk: " EIO_ON_N1                                 \
    ": looks again; mend checkpoint.path of a node that cannot look; for one that is gone for " \
    "good, cancel and resume look without it; submitted again the job begins at step 0"

/* Answers each question with the @n of @seen for three times as long as state is waited for, and nothing
 * is planned. Returns how often the job has told that it waits. */
static uint32_t nobody_can_look(struct cw_world *w, const struct hsp_m_seen *seen, uint32_t n)
{
    const hsp_msec until = w->now + 3u * w->c->cfg.state_wait_ms;
    uint32_t asked = 0, told = 0;
    for (uint32_t i = 0; w->now < until; i++) {
        struct hsp_msg beat = {.type = HSP_MSG_HEARTBEAT};
        cw_step(w, i % 3 == 2
                       ? (struct hsp_event){.type = HSP_EV_TICK}
                       : (struct hsp_event){.type = HSP_EV_MSG, .conn = i % 3 + 1, .u.msg = &beat});
        w->now += i % 3 == 2 ? 500 : 0;
        if (w->find_job != 0) {
            cw_ckpts(w, seen, n, EIO_ON_N1);
            told += cw_fact(w, "job.blocked") != NULL;
            asked++;
        }
        assert_true(w->find_job == 0 && cw_job(w, 1)->ticket == 0);
        assert_int_equal(cw_job(w, 1)->state, HSP_JOB_PENDING);
        assert_string_equal(asked > 0 ? cw_job(w, 1)->reason : UNKNOWN, UNKNOWN);
    }
    assert_true(asked > 2 && asked < 200);
    return told;
}

/* A job that has begun, and of which no checkpoint is on record: one may be there all the same. */
static void it_does_not_begin_anew_as_nobody_can_look(void **state)
{
    (void)state;
    const struct hsp_m_seen late = {40, TERM, 1, 77};
    for (uint32_t is_there = 0; is_there < 2; is_there++) {
        struct cw_world w;
        running(&w);
        cancelled(&w);
        w.asks = true;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        assert_string_equal(cw_job(&w, 1)->reason, "looking which checkpoints are on disk");
        uint32_t told = nobody_can_look(&w, NULL, 0);
        assert_int_equal(told, 1);
        while (w.find_job == 0) {
            beats(&w, 500);
        }
        cw_ckpts(&w, &late, is_there, "");
        cw_plan(&w, 1);
        prepare_means(&w, is_there ? HSP_MODE_RESTORE : HSP_MODE_FRESH, is_there ? 40 : 0, is_there,
                      is_there ? 77 : 0);
        cw_end(&w);
    }
}

/* Neither does it fail, and what there is of another history does not count. */
static void it_does_not_fail_as_nobody_can_look(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_m_seen other = {80, TERM, 1, 1080}, seen = {20, TERM, 1, 1020};
    with_three(&w, 3, true);
    assert_int_equal(resume_from(&w, 20), HSP_OK);
    cancelled(&w);
    w.asks = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_equal(nobody_can_look(&w, &other, 1), 1);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    cw_ckpts(&w, &seen, 1, ""); /* too late */
    assert_string_equal(cw_job(&w, 1)->reason, "cancelled");
    cw_end(&w);
}

/* Time goes on, and each question is answered so, until the job is planned or @for_ms are over. @ret: the fact
 * of who could not look, "" none was told. Returns the time that went by. */
static hsp_msec answered(struct cw_world *w, const struct hsp_m_seen *seen, uint32_t n,
                         const char *why, hsp_msec for_ms, char ret[400])
{
    const hsp_msec from = w->now;
    ret[0] = '\0';
    for (uint32_t i = 0; cw_job(w, 1)->ticket == 0 && w->now - from < for_ms; i++) {
        struct hsp_msg beat = {.type = HSP_MSG_HEARTBEAT};
        if (w->find_job != 0) {
            cw_ckpts(w, seen, n, why);
            const char *fact = cw_fact(w, "ckpt.not_seen");
            (void)snprintf(ret, 400, "%s", fact != NULL ? fact : "");
            continue;
        }
        w->now += i % 3 == 2 ? 500 : 0;
        cw_step(w, i % 3 == 2
                       ? (struct hsp_event){.type = HSP_EV_TICK}
                       : (struct hsp_event){.type = HSP_EV_MSG, .conn = i % 3 + 1, .u.msg = &beat});
    }
    return w->now - from;
}

/* What a node has that could not look is replaced by the steps that are made again: it is waited for, though
 * an older one is seen. */
static void one_that_could_not_look_is_waited_for(void **state)
{
    (void)state;
    const struct hsp_m_seen seen[] = {{60, TERM, 1, 1060}, {80, TERM, 1, 1080}};
    for (uint32_t comes = 0; comes < 2; comes++) {
        struct cw_world w;
        char told[400];
        with_three(&w, 3, false);
        w.asks = true;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        hsp_msec ms = answered(&w, seen, 1, EIO_ON_N1, comes ? 5000 : 120000, told);
        if (comes) {
            assert_string_equal(cw_job(&w, 1)->reason,
                                "not all could look for a newer checkpoint: " EIO_ON_N1
                                ": asks again for state_wait, then goes on from checkpoint 60");
            (void)answered(&w, seen, 2, "", 5000, told);
            assert_string_equal(told, "");
        } else {
            assert_true(ms >= w.c->cfg.state_wait_ms && ms < w.c->cfg.state_wait_ms + 3000u);
            assert_string_equal(told, "the job goes on from checkpoint 60; there may be a newer "
                                      "one, as not all could look: " EIO_ON_N1);
        }
        cw_plan(&w, 1);
        prepare_means(&w, HSP_MODE_RESTORE, comes ? 80 : 60, 1, comes ? 1080 : 1060);
        cw_end(&w);
    }
}

/* A node that the job never ran on, or a stranger with the worker key, can answer each question so. */
static void what_others_cannot_do_is_told_alone(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, TERM, 1, 1020};
    for (uint32_t n = 0; n < 2; n++) {
        struct cw_world w;
        char told[400];
        running(&w);
        cancelled(&w);
        w.asks = true;
        w.lack = HSP_LACK_OTHERS;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        assert_int_equal(answered(&w, &seen, n, EIO_ON_N1, 5000, told), 0);
        assert_non_null(strstr(told, n ? "goes on from checkpoint 20; there may be a newer one"
                                       : "begins at step 0; there may be a checkpoint"));
        cw_plan(&w, 1);
        prepare_means(&w, n ? HSP_MODE_RESTORE : HSP_MODE_FRESH, n ? 20 : 0, n, n ? 1020 : 0);
        cw_end(&w);
    }
}

/* Its state was waited for before. */
static void one_that_is_away_may_have_one(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, TERM, 1, 1020};
    struct cw_world w;
    char told[400];
    running(&w);
    cancelled(&w);
    w.asks = true;
    w.lack = HSP_LACK_AWAY;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_true(answered(&w, NULL, 0, "n1: it is not connected", 120000, told) >= 120000);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "on disk: n1: it is not connected: looks again"));
    hsp_msec ms = answered(&w, &seen, 1, "n1: it is not connected", 120000, told);
    assert_true(ms <= HSP_CKPT_SLOW_MS + 1000 && strstr(told, "n1: it is not connected") != NULL);
    cw_plan(&w, 1);
    prepare_means(&w, HSP_MODE_RESTORE, 20, 1, 1020);
    cw_end(&w);
}

/* A job that has not written yet has no folder either: so it begins in the end, and says why. */
static void a_path_that_is_not_mounted_is_waited_for(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, TERM, 1, 1020};
    for (uint32_t n = 0; n < 2; n++) {
        struct cw_world w;
        char told[400];
        running(&w);
        cancelled(&w);
        w.asks = true;
        w.lack = HSP_LACK_PATH;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        hsp_msec ms = answered(&w, &seen, n, "n1: no path", 120000, told);
        if (n == 0) {
            assert_true(ms >= w.c->cfg.state_wait_ms && ms < w.c->cfg.state_wait_ms + 3000u);
            assert_string_equal(told, "the job begins at step 0; there may be a checkpoint, as not "
                                      "all could look: n1: no path");
        } else {
            assert_true(ms == 0 && told[0] == '\0');
        }
        cw_plan(&w, 1);
        prepare_means(&w, n ? HSP_MODE_RESTORE : HSP_MODE_FRESH, n ? 20 : 0, n, n ? 1020 : 0);
        cw_end(&w);
    }
}

/* ---- agents of protocol 14, which cannot be asked ---- */

#define TOO_OLD "old: its hspmd-worker is too old to list checkpoints: upgrade it"

/* Any agent may say that it is of protocol 14: the record may be older than the disk, and the others are
 * asked. */
static void an_older_agent_hides_nothing(void **state)
{
    (void)state;
    struct cw_world w;
    running(&w);
    saved_in(&w, 1, 20, 55);
    cancelled(&w);
    cw_msg(&w, 3,
           (struct hsp_msg){.type = HSP_MSG_HELLO,
                            .u.hello = {.protocol = 14, .node = "old", .address = ""}});
    assert_int_equal(cw_find(&w, HSP_ACT_SEND)->msg->u.welcome.protocol, 14);
    sees(&w, 20, 1, 55);
    sees(&w, 60, 1, 77);
    resumed(&w);
    prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 77);
    cw_end(&w);
}

/* One of the job's own may have what is on record: a member that then finds nothing refuses it. */
static void an_older_agent_may_have_what_is_on_record(void **state)
{
    (void)state;
    struct cw_world w;
    char told[400];
    running(&w);
    saved_in(&w, 1, 20, 55);
    saved_in(&w, 1, 40, 77);
    cancelled(&w);
    w.asks = w.mute = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_true(answered(&w, NULL, 0, TOO_OLD, 120000, told) >= w.c->cfg.state_wait_ms);
    assert_non_null(strstr(told, "goes on from checkpoint 40; there may be a newer one, as not all "
                                 "could look: " TOO_OLD));
    cw_plan(&w, 1);
    prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 77);
    cancelled(&w);
    assert_int_equal(resume_from(&w, 20), HSP_OK); /* by the record */
    assert_int_equal(cw_job(&w, 1)->origin_step, 20);
    cw_end(&w);
}

/* Nor does it begin anew where nothing is on record: one may be there. */
static void an_older_agent_is_upgraded_first(void **state)
{
    (void)state;
    struct cw_world w;
    char told[400];
    running(&w);
    cancelled(&w);
    w.asks = w.mute = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_true(answered(&w, NULL, 0, TOO_OLD, 120000, told) >= 120000);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "on disk: " TOO_OLD ": looks again"));
    (void)answered(&w, NULL, 0, "", 120000, told);
    cw_plan(&w, 1);
    prepare_means(&w, HSP_MODE_FRESH, 0, 0, 0);
    cw_end(&w);
}

/* A folder in which there is nothing may be one that is not mounted yet, also where all have looked. */
static void a_shared_folder_that_is_not_mounted_yet(void **state)
{
    (void)state;
    for (uint32_t wait_ms = 7000; wait_ms < 90000; wait_ms *= 10) {
        struct cw_world w;
        with_three(&w, 3, true);
        w.c->cfg.state_wait_ms = wait_ms;
        w.has_disk = true;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        const struct hsp_job *j = cw_job(&w, 1);
        assert_string_equal(j->reason, "checkpoint 60 cannot be used: it is not in checkpoint.path "
                                       "any more: waiting for a node that has it");
        beats(&w, wait_ms - 1000);
        assert_true(j->state == HSP_JOB_PENDING && j->ticket == 0);
        if (wait_ms == 7000) {
            sees(&w, 60, 1, 1060);
            beats(&w, 2500);
            cw_plan(&w, 1);
            prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
        } else {
            beats(&w, 2500); /* state_wait is over */
            assert_int_equal(j->state, HSP_JOB_FAILED);
        }
        cw_end(&w);
    }
}

/* What an administrator asks for is on record at once: gone meanwhile, it is waited for, and what is
 * done without it is told. */
static void what_was_asked_for_is_waited_for(void **state)
{
    (void)state;
    const struct hsp_m_seen seen[] = {{80, TERM, 1, 1080}, {50, TERM, 1, 1050}};
    for (uint32_t k = 0; k < 4; k++) {
        const struct hsp_m_seen *it = &seen[k % 2];
        struct cw_world w;
        char told[300];
        with_three(&w, 3, false);
        sees(&w, 20, 1, 1020);
        sees(&w, 40, 1, 1040);
        sees(&w, 60, 1, 1060);
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
        beats(&w, 3000);
        assert_int_equal(j->ticket, 0);
        assert_non_null(strstr(j->reason, " cannot be used: no node that is here has it: waiting"));
        if (k < 2) {
            sees(&w, it->step, 1, it->content);
            beats(&w, 3000);
        } else {
            await_fact(&w, "ckpt.fallback", told);
            assert_non_null(strstr(told, k % 2 ? "goes on from checkpoint 40 and makes 10 steps"
                                               : "goes on from checkpoint 60 and makes 20 steps"));
        }
        cw_plan(&w, 1);
        uint64_t from = k < 2 ? it->step : k % 2 ? 40 : 60;
        prepare_means(&w, HSP_MODE_RESTORE, from, 1, 1000 + from);
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
        seen[i] = (struct hsp_m_seen){i % (n / 2), TERM, 1 + i % 3 / 2, i};
    }
    struct hsp_admin_event a = {.verb = HSP_ADMIN_SUBMIT,
                                .spec = {.name = "j",
                                         .min = 1,
                                         .max = 8,
                                         .copies = 2,
                                         .steps = 100000,
                                         .checkpoint_path = "/c",
                                         .checkpoint_keep = 16}};
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_admin(&w, a), HSP_OK);
    cw_plan(&w, 1);
    begins(&w, 1);
    saved_in(&w, 1, top - 6, 5);
    cancelled(&w);
    w.asks = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    clock_t from = clock();
    cw_ckpts(&w, seen, n, "");
    const struct hsp_job *j = cw_job(&w, 1);
    assert_true(j->ckpt_step == top && j->n_older == 15 && j->older[14].step == top - 1);
    assert_true(j->older[0].step == top - 15);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    a = (struct hsp_admin_event){.verb = HSP_ADMIN_RESUME,
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

/* As many nodes may see as many: 8 times as many take some 9 times as long, in squares 64 times. */
static void thousands_are_looked_through_in_time(void **state)
{
    (void)state;
    double some = looked_through(65535 / 8), all = looked_through(65535);
    assert_true(all < 0.1 + 30 * some);
}

HSP_TEST_FILE(which_ckpt_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resume_names_what_is_on_record),
        cmocka_unit_test(what_it_went_on_from_stays_on_record),
        cmocka_unit_test(the_same_version_of_a_later_epoch),
        cmocka_unit_test(a_record_of_before),
        cmocka_unit_test(it_waits_for_that_one_and_then_fails),
        cmocka_unit_test(an_older_one_is_taken_in_the_end),
        cmocka_unit_test(a_damaged_one_that_all_share),
        cmocka_unit_test(an_older_one_can_be_asked_for),
        cmocka_unit_test(as_many_are_known_as_are_kept),
        cmocka_unit_test(a_newer_one_on_disk_is_taken),
        cmocka_unit_test(one_of_a_job_that_had_not_begun_is_taken),
        cmocka_unit_test(of_two_contents_that_on_record_is_taken),
        cmocka_unit_test(one_that_is_gone_is_passed_over),
        cmocka_unit_test(one_that_comes_back_is_taken),
        cmocka_unit_test(without_any_the_job_fails),
        cmocka_unit_test(another_history_is_not_taken),
        cmocka_unit_test(any_on_disk_can_be_asked_for),
        cmocka_unit_test(steps_that_are_lost_are_counted),
        cmocka_unit_test(nodes_that_are_all_away_are_waited_for),
        cmocka_unit_test(a_step_that_there_is_not_changes_nothing),
        cmocka_unit_test(an_old_answer_counts_no_more),
        cmocka_unit_test(it_does_not_begin_anew_as_nobody_can_look),
        cmocka_unit_test(it_does_not_fail_as_nobody_can_look),
        cmocka_unit_test(one_that_could_not_look_is_waited_for),
        cmocka_unit_test(what_others_cannot_do_is_told_alone),
        cmocka_unit_test(one_that_is_away_may_have_one),
        cmocka_unit_test(a_path_that_is_not_mounted_is_waited_for),
        cmocka_unit_test(an_older_agent_hides_nothing),
        cmocka_unit_test(an_older_agent_may_have_what_is_on_record),
        cmocka_unit_test(an_older_agent_is_upgraded_first),
        cmocka_unit_test(a_shared_folder_that_is_not_mounted_yet),
        cmocka_unit_test(what_was_asked_for_is_waited_for),
        cmocka_unit_test(thousands_are_looked_through_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
