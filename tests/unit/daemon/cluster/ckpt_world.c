#include "tests/unit/daemon/cluster/ckpt_world.h"

#include <stdio.h>

void wc_saved_in(struct cw_world *w, uint64_t epoch, uint64_t step, uint64_t content)
{
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED,
                            .epoch = epoch,
                            .u.ckpt = {.job = 1,
                                       .step = step,
                                       .term = WC_TERM,
                                       .complete = true,
                                       .content = content,
                                       .reason = ""}});
}

void wc_prepare_means(const struct cw_world *w, enum hsp_epoch_mode mode, uint64_t step,
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
        assert_true(p->ckpt_term == (epoch != 0 ? WC_TERM : 0) && p->ckpt_epoch == epoch);
        assert_true(p->ckpt_content == content);
        n++;
    }
    assert_int_equal(n, 2);
}

void wc_begins(struct cw_world *w, uint64_t step)
{
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
    cw_pass(w, 1, step, cw_even, 2);
    cw_let_go(w, 1, 2);
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_RUNNING);
}

void wc_submit(struct cw_world *w, struct hsp_job_terms t)
{
    t.name = "j";
    t.min = t.min != 0 ? t.min : 1;
    t.max = t.max != 0 ? t.max : 8;
    t.copies = t.copies != 0 ? t.copies : 2;
    t.steps = t.steps != 0 ? t.steps : 100;
    t.checkpoint_path = t.checkpoint_path != NULL ? t.checkpoint_path : "/c";
    assert_int_equal(cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_SUBMIT, .spec = t}),
                     HSP_OK);
}

void wc_running(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    w->c->cfg.trusted = CW_TRUSTED;
    wc_submit(w, (struct hsp_job_terms){0});
    cw_plan(w, 1);
    wc_prepare_means(w, HSP_MODE_FRESH, 0, 0, 0);
    wc_begins(w, 1);
}

void wc_cancelled(struct cw_world *w)
{
    assert_int_equal(cw_order(w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(w, i + 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref.job = 1});
    }
}

void wc_resumed(struct cw_world *w)
{
    assert_int_equal(cw_order(w, HSP_ADMIN_RESUME, 1), HSP_OK);
    cw_plan(w, 1);
}

void wc_beats(struct cw_world *w, hsp_msec for_ms)
{
    for (hsp_msec until = w->now + for_ms; w->now < until; w->now += 500) {
        cw_msg(w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

void wc_with_three(struct cw_world *w, uint32_t keep, bool shared)
{
    cw_begin(w, 2, 1);
    wc_submit(w, (struct hsp_job_terms){.checkpoint_shared = shared, .checkpoint_keep = keep});
    cw_plan(w, 1);
    wc_begins(w, 1);
    for (uint64_t step = 20; step <= 60; step += 20) {
        wc_saved_in(w, 1, step, 1000 + step);
    }
    wc_cancelled(w);
}

uint64_t wc_steps_lost(const struct cw_world *w)
{
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        if (a->type == HSP_ACT_FACT && strcmp(a->u.fact->type, "switch.end") == 0) {
            return a->u.fact->lost_steps;
        }
    }
    return UINT64_MAX;
}

enum hsp_status wc_resume_from(struct cw_world *w, uint64_t step)
{
    return cw_admin(w, (struct hsp_admin_event){
                           .verb = HSP_ADMIN_RESUME, .job = 1, .has_step = true, .step = step});
}

void wc_sees(struct cw_world *w, uint64_t step, uint64_t epoch, uint64_t content)
{
    w->has_disk = true;
    w->disk[w->n_disk++] = (struct hsp_m_seen){step, WC_TERM, epoch, content};
}

void wc_await_fact(struct cw_world *w, const char *type, char ret[300])
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

hsp_msec wc_answered(struct cw_world *w, const struct hsp_m_seen *seen, uint32_t n, const char *why,
                     hsp_msec for_ms, char ret[400])
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
