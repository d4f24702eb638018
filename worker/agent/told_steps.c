#include "worker/agent/told_steps.h"

#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"

static struct hsp_agent_step_report *at(struct hsp_agent *a, uint32_t i)
{
    return &a->steps[(a->next_step + HSP_AGENT_STEPS - a->n_steps + i) % HSP_AGENT_STEPS];
}

void hsp_ai_keep_step(struct hsp_agent *a, const struct hsp_msg *m)
{
    struct hsp_agent_step_report *s = &a->steps[a->next_step];
    s->epoch = m->epoch;
    s->step = m->u.step;
    s->step.n_compute = 0;
    s->step.compute_s = NULL;
    s->over = false;
    a->next_step = (a->next_step + 1) % HSP_AGENT_STEPS;
    a->n_steps += a->n_steps < HSP_AGENT_STEPS;
}

void hsp_ai_steps_again(struct hsp_agent *a)
{
    a->told_ms = a->now_ms;
    for (uint32_t i = 0; i < a->n_steps; i++) {
        const struct hsp_agent_step_report *s = at(a, i);
        struct hsp_msg m = {.type = HSP_MSG_STEP, .epoch = s->epoch, .u.step = s->step};
        hsp_ai_tell(a, &m);
    }
}

void hsp_ai_steps_over(struct hsp_agent *a, uint32_t job)
{
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->dev[i].run.job == job) {
            return;
        }
    }
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        a->ckpt[i].job = a->ckpt[i].job == job ? 0 : a->ckpt[i].job;
    }
    for (uint32_t i = 0; i < a->n_steps; i++) {
        struct hsp_agent_step_report *s = at(a, i);
        s->over = s->over || s->step.job == job;
    }
    a->told_ms = a->now_ms;
    a->any_over = true;
}

void hsp_ai_forget_over(struct hsp_agent *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->n_steps; i++) {
        const struct hsp_agent_step_report *s = at(a, i);
        if (!s->over) {
            *at(a, kept++) = *s;
        }
    }
    a->next_step = (a->next_step + HSP_AGENT_STEPS - a->n_steps + kept) % HSP_AGENT_STEPS;
    a->n_steps = kept;
    a->any_over = false;
}

void hsp_ai_steps_heard(struct hsp_agent *a)
{
    if (a->any_over && a->now_ms >= a->told_ms + a->dead_ms) {
        hsp_ai_forget_over(a);
    }
}
