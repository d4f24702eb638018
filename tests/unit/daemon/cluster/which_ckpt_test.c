/* Tests the checkpoint that a resume means: the one on record, named to the members by term, epoch
 * and content. */
#include <stdio.h>

#include "daemon/cluster/ckpt_marks.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

static void a_resume_names_what_is_on_record(void **state)
{
    (void)state;
    struct cw_world w;
    wc_running(&w);
    wc_saved_in(&w, 1, 20, 55);
    wc_saved_in(&w, 1, 40, 77);
    wc_saved_in(&w, 1, 20, 55); /* said again */
    wc_cancelled(&w);
    cw_restart_nodes(&w, 2);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 77);
    wc_begins(&w, 41);
    cw_hello(&w, 3, "n2", 0, 1); /* no other mode has one */
    cw_plan(&w, 1);
    const struct hsp_m_prepare *p = &cw_find(&w, HSP_ACT_PREPARE)->msg->u.prepare;
    assert_true(p->mode == HSP_MODE_SWITCH && p->ckpt_epoch == 0 && p->ckpt_content == 0);
    cw_end(&w);
}

/* A checkpoint behind the version that the job goes on from, and heard of too late, is of another
 * history. With the version the record goes back to the checkpoint of that time. */
static void what_it_went_on_from_stays_on_record(void **state)
{
    (void)state;
    struct cw_world w;
    wc_running(&w);
    wc_saved_in(&w, 1, 40, 77);
    wc_cancelled(&w);
    wc_resumed(&w);
    wc_saved_in(&w, 1, 60, 99); /* the epoch is being prepared */
    assert_true(cw_job(&w, 1)->ckpt_step == 60 && cw_job(&w, 1)->ckpt.content == 99);
    wc_begins(&w, 41);
    wc_cancelled(&w);
    cw_restart_nodes(&w, 2);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 77);
    cw_end(&w);
}

/* The same version after its steps were made again: its checkpoint has taken the place of the one
 * before. */
static void the_same_version_of_a_later_epoch(void **state)
{
    (void)state;
    struct cw_world w;
    wc_running(&w);
    wc_saved_in(&w, 1, 40, 77);
    wc_cancelled(&w);
    wc_resumed(&w);
    wc_begins(&w, 40);
    wc_saved_in(&w, 2, 40, 78);
    assert_non_null(cw_fact(&w, "ckpt.complete"));
    wc_saved_in(&w, 2, 40, 78); /* said again */
    assert_null(cw_fact(&w, "ckpt.complete"));
    wc_cancelled(&w);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 2, 78);
    cw_end(&w);
}

/* Rows of form 8 do not say it: the latest that there is, until the next checkpoint tells. */
static void a_record_of_before(void **state)
{
    (void)state;
    struct cw_world w;
    const uint8_t ckpts[48] = {[24] = WC_TERM, [32] = 1, [40] = 77};
    wc_running(&w);
    wc_saved_in(&w, 1, 40, 77);
    cw_untrusting_row(&w);
    cw_older_row(&w, ckpts, sizeof ckpts, 8);
    cw_restart_nodes(&w, 2);
    assert_true(cw_job(&w, 1)->state == HSP_JOB_RUNNING && cw_job(&w, 1)->ckpt_step == 40);
    assert_true(cw_job(&w, 1)->ckpt.epoch == 0);
    wc_cancelled(&w);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 0, 0);
    wc_begins(&w, 41);
    wc_saved_in(&w, 2, 60, 99);
    wc_cancelled(&w);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 2, 99);
    cw_end(&w);
}

/* No member has the checkpoint: they say so, the choice stays, and in the end the job fails with
 * that line. */
static void it_waits_for_that_one_and_then_fails(void **state)
{
    (void)state;
    struct cw_world w;
    const char *why = "no member has checkpoint 40 of epoch 1 in term 1";
    uint32_t tries = 0;
    wc_running(&w);
    wc_saved_in(&w, 1, 40, 77);
    wc_cancelled(&w);
    wc_resumed(&w);
    const struct hsp_job *j = cw_job(&w, 1);
    while (j->state != HSP_JOB_FAILED && tries++ < 100) {
        wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 77);
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
            wc_beats(&w, 500);
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

/* Both members of the attempt say that nobody has its checkpoint; then they seal. True: that was
 * news. */
static bool refused(struct cw_world *w, bool damaged)
{
    const struct hsp_job *j = cw_job(w, 1);
    bool told = false;
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
        told = told || cw_fact(w, "ckpt.refused") != NULL;
        if (i == 0 && cw_fact(w, "ckpt.fallback") != NULL) {
            assert_string_equal(cw_fact(w, "ckpt.fallback"),
                                "checkpoint 60 cannot be used: wte.weight is damaged; the job "
                                "resumes from checkpoint 40 and computes 20 steps again");
        }
    }
    for (uint32_t i = 0; i < 2 && j->state == HSP_JOB_SEALING; i++) {
        cw_msg(w, i + 1,
               (struct hsp_msg){
                   .type = HSP_MSG_SEALED, .epoch = j->seal_upto, .u.sealed = {.job = 1}});
    }
    return told;
}

/* The time until its next attempt is planned. */
static hsp_msec next_attempt(struct cw_world *w)
{
    hsp_msec from = w->now;
    while (cw_job(w, 1)->ticket == 0 && cw_job(w, 1)->att.epoch == 0) {
        assert_true(w->now < from + 60000);
        wc_beats(w, 500);
    }
    if (cw_job(w, 1)->ticket != 0) {
        cw_plan(w, 1);
    }
    return w->now - from;
}

/* A node that has it may come back, so it is waited for as long as for other state; the job neither
 * fails meanwhile nor believes another history. Each attempt reads it again: there are few. */
static void an_older_one_is_taken_in_the_end(void **state)
{
    (void)state;
    struct cw_world w;
    uint32_t tries = 0;
    wc_with_three(&w, 3, false);
    wc_resumed(&w);
    hsp_msec from = w.now;
    for (; w.now < from + w.c->cfg.state_wait_ms; tries++) {
        wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
        assert_int_equal(refused(&w, tries % 2 != 0), tries == 0);
        assert_string_equal(cw_job(&w, 1)->reason, "n0/0: wte.weight is damaged");
        (void)next_attempt(&w);
    }
    assert_true(tries > 2 && tries <= 7);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    assert_false(refused(&w, false));
    assert_true(cw_job(&w, 1)->origin_step == 40 && cw_job(&w, 1)->stable == 40);
    (void)next_attempt(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 1040);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    cw_pass(&w, 1, 41, cw_even, 2);
    assert_int_equal(wc_steps_lost(&w), 20);
    cw_let_go(&w, 1, 2);
    cw_restart_nodes(&w, 2); /* all of it is stored */
    assert_true(cw_job(&w, 1)->ckpt_step == 40 && cw_job(&w, 1)->n_older == 1);
    wc_cancelled(&w);
    wc_resumed(&w);
    /* the mark of 60 is of another history now */
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 1040);
    cw_end(&w);
}

/* The node may have the checkpoint, so the job does not wait for the end of a long pause. */
static void a_node_that_comes_is_tried_soon(void **state)
{
    (void)state;
    struct cw_world w;
    hsp_msec pause = 0;
    wc_with_three(&w, 3, false);
    wc_resumed(&w);
    for (uint32_t i = 0; i < 4; i++) {
        (void)refused(&w, false);
        pause = next_attempt(&w);
    }
    assert_true(pause > 3u * HSP_CKPT_RETRY_MS);
    (void)refused(&w, false);
    cw_hello(&w, 3, "n2", 0, 1);
    assert_true(next_attempt(&w) <= HSP_CKPT_RETRY_MS + 500u);
    cw_end(&w);
}

/* An agent that restarts again and again has the checkpoint read once more, not each time. */
static void a_node_that_comes_often_is_tried_once(void **state)
{
    (void)state;
    struct cw_world w;
    uint32_t tries = 0, conn = 3;
    wc_with_three(&w, 3, false);
    assert_int_equal(
        cw_admin(&w,
                 (struct hsp_admin_event){.verb = HSP_ADMIN_SCALE, .job = 1, .min = 1, .max = 2}),
        HSP_OK);
    wc_resumed(&w);
    for (hsp_msec from = w.now, hello = w.now; w.now < from + w.c->cfg.state_wait_ms - 5000u;) {
        if (cw_job(&w, 1)->att.epoch != 0) {
            (void)refused(&w, false);
            tries += cw_job(&w, 1)->att.epoch == 0;
        }
        if (w.now >= hello && cw_job(&w, 1)->ticket == 0) {
            cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = conn++});
            cw_hello(&w, conn, "n2", 0, 1);
            hello = w.now + 3000;
        }
        if (cw_job(&w, 1)->ticket != 0) {
            cw_plan(&w, 1);
        } else {
            wc_beats(&w, 500);
        }
    }
    assert_true(tries > 3 && tries <= 7);
    cw_end(&w);
}

/* On a path that all share there is nobody to wait for; and behind the last one there is
 * nothing. */
static void a_damaged_one_that_all_share(void **state)
{
    (void)state;
    struct cw_world w;
    wc_with_three(&w, 2, true);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    (void)refused(&w, true);
    assert_int_equal(cw_job(&w, 1)->failures, 1);
    assert_int_equal(next_attempt(&w), 0);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 1040);
    (void)refused(&w, true); /* checkpoint.keep is 2: that of 20 is gone */
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
    assert_string_equal(
        cw_job(&w, 1)->reason,
        "checkpoint 40 cannot be used, and there is no older one: n0/0: wte.weight is "
        "damaged; put it back and resume the job, or submit it again");
    assert_true(cw_job(&w, 1)->ckpt_step == 60); /* put back, it is the one */
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(&w, i + 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref.job = 1});
    }
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
    cw_end(&w);
}

/* ---- one that is found on disk, and was not on record ---- */

/* Time goes on until the next attempt is begun; it may be planned before. */
static void prepared(struct cw_world *w)
{
    const struct hsp_job *j = cw_job(w, 1);
    const hsp_msec from = w->now;
    for (uint32_t i = 0; j->att.epoch == 0;) {
        struct hsp_msg beat = {.type = HSP_MSG_HEARTBEAT};
        assert_true(w->now < from + 120000);
        if (j->ticket != 0) {
            cw_plan(w, 1);
            continue;
        }
        i++;
        w->now += i % 3 == 0 ? 500 : 0;
        cw_step(w, i % 3 == 2
                       ? (struct hsp_event){.type = HSP_EV_TICK}
                       : (struct hsp_event){.type = HSP_EV_MSG, .conn = i % 3 + 1, .u.msg = &beat});
    }
}

/* Members refuse the checkpoint until another choice is told. Returns how often they did. */
static uint32_t refused_until(struct cw_world *w, const char *type, uint64_t step, uint64_t content)
{
    for (uint32_t n = 1;; n++) {
        const struct hsp_m_prepare *p = &cw_find(w, HSP_ACT_PREPARE)->msg->u.prepare;
        assert_true(p->mode == HSP_MODE_RESTORE && p->step == step && p->ckpt_content == content);
        const uint64_t on_record = cw_job(w, 1)->ckpt_step;
        assert_true(n < 100 && (on_record != step || cw_job(w, 1)->ckpt.content != content));
        for (uint32_t i = 0; i < w->n_asked; i++) {
            cw_ready(w, 1, i, 5);
        }
        const struct hsp_job *j = cw_job(w, 1);
        struct hsp_msg m = {.type = HSP_MSG_CKPT_REFUSED,
                            .epoch = j->att.epoch,
                            .u.refused = {.job = 1, .step = step, .reason = "there is none"}};
        cw_msg(w, 1, m);
        const bool told = cw_fact(w, type) != NULL;
        for (uint32_t i = 0; i < 2 && j->state == HSP_JOB_SEALING; i++) {
            struct hsp_msg seal = {
                .type = HSP_MSG_SEALED, .epoch = j->seal_upto, .u.sealed = {.job = 1}};
            cw_msg(w, i + 1, seal);
        }
        assert_true(told || j->state != HSP_JOB_FAILED);
        if (told) {
            return n;
        }
        prepared(w);
    }
}

/* Nothing is begun for @ms, and that is told once. */
static void waits_for_word(struct cw_world *w, hsp_msec ms)
{
    const char *reason =
        "checkpoint 10 of epoch 1, on disk but not recorded, cannot be used, and there is no "
        "other: it is retried, less and less often; hspmdctl events shows the reason; to retry at "
        "once: hspmdctl cancel j, then resume j; to start again: resume it with --from 0";
    const struct hsp_job *j = cw_job(w, 1);
    const hsp_msec until = w->now + ms;
    if (j->ticket != 0) { /* asked for while the nodes sealed */
        cw_plan(w, 1);
    }
    for (uint32_t i = 0; w->now < until; i++) {
        struct hsp_msg beat = {.type = HSP_MSG_HEARTBEAT};
        w->now += i % 3 == 0 ? 500 : 0;
        cw_step(w, i % 3 == 2
                       ? (struct hsp_event){.type = HSP_EV_TICK}
                       : (struct hsp_event){.type = HSP_EV_MSG, .conn = i % 3 + 1, .u.msg = &beat});
        assert_true(j->ticket == 0 && j->att.epoch == 0 && j->state == HSP_JOB_PAUSED);
        assert_string_equal(j->reason, reason);
        assert_null(cw_fact(w, "job.blocked"));
        assert_null(cw_fact(w, "ckpt.not_seen"));
    }
}

/* A job that resume --from 0 begins anew takes no checkpoint of step 0: it may be the damaged one
 * for which that was asked. Without --from the checkpoint is taken. */
static void from_0_takes_none_of_step_0(void **state)
{
    (void)state;
    for (uint32_t from = 0; from < 2; from++) {
        struct cw_world w;
        wc_running(&w);
        wc_cancelled(&w);
        cw_restart_nodes(&w, 2);
        wc_sees(&w, 0, 1, 13);
        assert_int_equal(from != 0 ? wc_resume_from(&w, 0) : cw_order(&w, HSP_ADMIN_RESUME, 1),
                         HSP_OK);
        prepared(&w);
        assert_int_equal(cw_job(&w, 1)->att.mode, from != 0 ? HSP_MODE_FRESH : HSP_MODE_RESTORE);
        cw_end(&w);
    }
}

/* An agent lies, or is confused, or has an unreadable checkpoint: nobody can open the checkpoint
 * that it names, and the next one that it names is not tried as long. The job does not fail, nor
 * does it give up by itself a checkpoint that may be there. */
static void a_false_claim_fails_no_job(void **state)
{
    (void)state;
    for (uint32_t ends = 0; ends < 3; ends++) {
        struct cw_world w;
        wc_running(&w);
        wc_cancelled(&w);
        wc_sees(&w, 10, 1, 13);
        wc_sees(&w, 12, 1, 14);
        hsp_msec from = w.now;
        wc_resumed(&w);
        if (ends < 2) {
            assert_true(refused_until(&w, "ckpt.not_used", 12, 14) > 2);
            assert_true(w.now >= from + w.c->cfg.state_wait_ms);
            prepared(&w);
            assert_int_equal(refused_until(&w, "ckpt.not_used", 10, 13), 1);
            waits_for_word(&w, w.c->cfg.state_wait_ms - 1000u);
            wc_cancelled(&w);
            assert_int_equal(ends == 0 ? wc_resume_from(&w, 0) : cw_order(&w, HSP_ADMIN_RESUME, 1),
                             HSP_OK);
        } else {
            w.n_disk = 0; /* the agent is gone */
            wc_cancelled(&w);
            assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        }
        prepared(&w);
        if (ends == 1) { /* the claim is tried again */
            wc_prepare_means(&w, HSP_MODE_RESTORE, 12, 1, 14);
            cw_end(&w);
            continue;
        }
        wc_prepare_means(&w, HSP_MODE_FRESH, 0, 0, 0);
        wc_begins(&w, 1);
        assert_false(cw_job(&w, 1)->has_ckpt);
        cw_end(&w);
    }
}

/* Nobody can use 12 and 10, which are found, and there is no other. */
static void none_can_be_used(struct cw_world *w)
{
    wc_running(w);
    wc_cancelled(w);
    wc_sees(w, 10, 1, 13);
    wc_sees(w, 12, 1, 14);
    wc_resumed(w);
    (void)refused_until(w, "ckpt.not_used", 12, 14);
    prepared(w);
    assert_int_equal(refused_until(w, "ckpt.not_used", 10, 13), 1);
}

/* Their disk may be mended, so both are tried again, once each: after state_wait, and each time
 * that the job has waited for twice as long. */
static void what_was_refused_is_tried_ever_more_rarely(void **state)
{
    (void)state;
    struct cw_world w;
    none_can_be_used(&w);
    const hsp_msec from = w.now;
    hsp_msec pause = w.c->cfg.state_wait_ms;
    for (uint32_t k = 0; k < 4; k++) {
        const hsp_msec since = w.now;
        waits_for_word(&w, pause - HSP_CKPT_SLOW_MS);
        prepared(&w);
        assert_true(w.now < since + pause + 2 * HSP_CKPT_SLOW_MS);
        if (k < 3) {
            assert_int_equal(refused_until(&w, "ckpt.not_used", 12, 14), 1);
            prepared(&w);
            assert_int_equal(refused_until(&w, "ckpt.not_used", 10, 13), 1);
        }
        pause = w.now - from;
    }
    wc_prepare_means(&w, HSP_MODE_RESTORE, 12, 1, 14);
    wc_begins(&w, 13);
    assert_true(cw_job(&w, 1)->has_ckpt && cw_job(&w, 1)->ckpt_step == 12);
    assert_int_equal(cw_job(&w, 1)->tries.n, 0);
    cw_end(&w);
}

/* The false ones are there as well. If all go, something was there all the same: the job does not
 * begin at step 0. */
static void another_one_comes_before_what_was_refused(void **state)
{
    (void)state;
    for (uint32_t go = 0; go < 2; go++) {
        struct cw_world w;
        none_can_be_used(&w);
        waits_for_word(&w, 20000);
        if (go) {
            w.n_disk = 0;
            waits_for_word(&w, 3u * w.c->cfg.state_wait_ms);
        }
        wc_sees(&w, 8, 1, 12);
        prepared(&w);
        wc_prepare_means(&w, HSP_MODE_RESTORE, 8, 1, 12);
        cw_end(&w);
    }
}

/* Another content of the newest step is there; the one on record is on a node that is away. The job
 * waits for that node first, and again when members have refused the other, and takes its
 * checkpoint when it comes back. */
static void another_content_does_not_take_its_place(void **state)
{
    (void)state;
    for (uint32_t back = 0; back < 3; back++) {
        struct cw_world w;
        char told[300];
        wc_with_three(&w, 3, false);
        wc_sees(&w, 40, 1, 1040);
        wc_sees(&w, 60, 1, 7);
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        assert_string_equal(
            cw_job(&w, 1)->reason,
            "checkpoint 60 cannot be used: no connected node has it: waiting for a node that has "
            "it, for up to 60 s, then it resumes from checkpoint 60 of epoch 1");
        wc_await_fact(&w, "ckpt.fallback", told);
        assert_non_null(strstr(told, "has it; the job resumes from another one of that step"));
        cw_plan(&w, 1);
        if (back == 2) {
            wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 7);
            wc_begins(&w, 61); /* the choice is made: the other is of another history now */
            assert_true(cw_job(&w, 1)->ckpt.content == 7 && cw_job(&w, 1)->n_older == 2);
            cw_end(&w);
            continue;
        }
        (void)refused_until(&w, "ckpt.not_used", 60, 7);
        if (back) {
            wc_sees(&w, 60, 1, 1060);
        } else {
            wc_await_fact(&w, "ckpt.fallback", told);
            assert_non_null(strstr(told, "resumes from checkpoint 40 and computes 20 steps again"));
        }
        prepared(&w);
        wc_prepare_means(&w, HSP_MODE_RESTORE, back ? 60 : 40, 1, back ? 1060 : 1040);
        wc_begins(&w, back ? 61 : 41);
        assert_int_equal(cw_job(&w, 1)->ckpt_step, back ? 60 : 40);
        cw_end(&w);
    }
}

/* Nor does a claim below the checkpoint that is taken anyway. */
static void a_false_line_below_takes_no_older_ones(void **state)
{
    (void)state;
    struct cw_world w;
    wc_with_three(&w, 3, false);
    wc_resumed(&w);
    wc_begins(&w, 61);
    wc_saved_in(&w, 2, 80, 2080);
    wc_cancelled(&w);
    wc_sees(&w, 30, 2, 7);
    wc_sees(&w, 40, 1, 1040);
    wc_sees(&w, 60, 1, 1060);
    wc_sees(&w, 80, 2, 2080);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_null(cw_fact(&w, "ckpt.left_out"));
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 80, 2, 2080);
    wc_begins(&w, 81);
    assert_true(cw_job(&w, 1)->n_older == 2 && cw_job(&w, 1)->older[0].step == 40);
    cw_end(&w);
}

/* An agent claims a checkpoint at a low step of an epoch of a huge number: it would leave out all
 * others. Nobody can open that checkpoint, so all others count again. */
static void a_false_line_leaves_out_nothing(void **state)
{
    (void)state;
    const uint64_t epochs[] = {2, UINT64_MAX - 1};
    for (uint32_t i = 0; i < 2; i++) {
        struct cw_world w;
        wc_with_three(&w, 3, false);
        wc_sees(&w, 1, epochs[i], 7);
        wc_sees(&w, 40, 1, 1040);
        wc_sees(&w, 60, 1, 1060);
        hsp_msec from = w.now;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        assert_non_null(cw_fact(&w, "ckpt.left_out"));
        cw_plan(&w, 1);
        (void)refused_until(&w, "ckpt.not_used", 1, 7);
        assert_true(w.now < from + w.c->cfg.state_wait_ms + 5000);
        prepared(&w);
        wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 1060);
        wc_begins(&w, 61);
        assert_true(cw_job(&w, 1)->ckpt_step == 60 && cw_job(&w, 1)->n_older == 2);
        assert_int_equal(cw_job(&w, 1)->cuts.n, 2);
        cw_end(&w);
    }
}

/* A lost checkpoint stays lost: the job fails for that without the claim, and with it. */
static void a_false_claim_replaces_no_state(void **state)
{
    (void)state;
    struct cw_world w;
    char told[300];
    wc_running(&w);
    cw_pass(&w, 1, 47, cw_even, 2);
    wc_sees(&w, 10, 1, 13);
    for (uint32_t i = 0; i < 2; i++) {
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = i + 1});
        cw_hello(&w, i + 1, i == 0 ? "n0" : "n1", 0, 1);
    }
    wc_await_fact(&w, "state.lost", told);
    cw_plan(&w, 1);
    (void)refused_until(&w, "ckpt.not_used", 10, 13);
    for (hsp_msec until = w.now + 10000; w.now < until;) {
        wc_beats(&w, 500);
    }
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
    assert_string_equal(cw_job(&w, 1)->reason,
                        "the state of version 48 is lost and there is no checkpoint");
    cw_end(&w);
}

static void an_older_one_can_be_asked_for(void **state)
{
    (void)state;
    struct cw_world w;
    wc_with_three(&w, 8, false);
    assert_int_equal(wc_resume_from(&w, 30), HSP_ENOENT);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "job j has no checkpoint of step 30; it has 20, 40, 60");
    assert_int_equal(wc_resume_from(&w, 20), HSP_OK);
    wc_saved_in(&w, 1, 80, 1080); /* of the epoch before, said late */
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 20, 1, 1020);
    wc_begins(&w, 21);
    assert_true(cw_job(&w, 1)->ckpt_step == 20 && cw_job(&w, 1)->n_older == 0);
    wc_saved_in(&w, 2, 40, 77);
    wc_cancelled(&w);
    assert_int_equal(wc_resume_from(&w, 60), HSP_ENOENT);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "job j has no checkpoint of step 60; it has 20, 40");
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 2, 77);
    cw_end(&w);
}

/* The checkpoints that the workers keep are known, up to a bound. */
static void as_many_are_known_as_are_kept(void **state)
{
    (void)state;
    for (uint32_t keep = 1; keep <= 100; keep += 33) {
        struct cw_world w;
        wc_with_three(&w, keep, false);
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        cw_plan(&w, 1);
        wc_begins(&w, 61);
        for (uint64_t step = 61; step < 99; step++) {
            wc_saved_in(&w, 2, step, step);
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

HSP_TEST_FILE(which_ckpt_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resume_names_what_is_on_record),
        cmocka_unit_test(what_it_went_on_from_stays_on_record),
        cmocka_unit_test(the_same_version_of_a_later_epoch),
        cmocka_unit_test(a_record_of_before),
        cmocka_unit_test(it_waits_for_that_one_and_then_fails),
        cmocka_unit_test(an_older_one_is_taken_in_the_end),
        cmocka_unit_test(a_node_that_comes_is_tried_soon),
        cmocka_unit_test(a_node_that_comes_often_is_tried_once),
        cmocka_unit_test(a_damaged_one_that_all_share),
        cmocka_unit_test(from_0_takes_none_of_step_0),
        cmocka_unit_test(a_false_claim_fails_no_job),
        cmocka_unit_test(what_was_refused_is_tried_ever_more_rarely),
        cmocka_unit_test(another_one_comes_before_what_was_refused),
        cmocka_unit_test(another_content_does_not_take_its_place),
        cmocka_unit_test(a_false_claim_replaces_no_state),
        cmocka_unit_test(a_false_line_leaves_out_nothing),
        cmocka_unit_test(a_false_line_below_takes_no_older_ones),
        cmocka_unit_test(an_older_one_can_be_asked_for),
        cmocka_unit_test(as_many_are_known_as_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
