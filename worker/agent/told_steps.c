#include "worker/agent/told_steps.h"

#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"

void hsp_ai_keep_step(struct hsp_agent *a, const struct hsp_msg *m)
{
    struct hsp_agent_step_report *s = &a->steps[a->next_step];
    s->epoch = m->epoch;
    s->step = m->u.step;
    s->step.n_compute = 0;
    s->step.compute_s = NULL;
    a->next_step = (a->next_step + 1) % HSP_AGENT_STEPS;
    a->n_steps += a->n_steps < HSP_AGENT_STEPS;
}

void hsp_ai_steps_again(struct hsp_agent *a)
{
    uint32_t first = a->next_step + HSP_AGENT_STEPS - a->n_steps;
    for (uint32_t i = 0; i < a->n_steps; i++) {
        const struct hsp_agent_step_report *s = &a->steps[(first + i) % HSP_AGENT_STEPS];
        struct hsp_msg m = {.type = HSP_MSG_STEP, .epoch = s->epoch, .u.step = s->step};
        hsp_ai_tell(a, &m);
    }
}

void hsp_ai_forget_told(struct hsp_agent *a, uint32_t job)
{
    uint32_t first = a->next_step + HSP_AGENT_STEPS - a->n_steps, kept = 0;
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->dev[i].run.job == job) {
            return;
        }
    }
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        a->ckpt[i].job = a->ckpt[i].job == job ? 0 : a->ckpt[i].job;
    }
    for (uint32_t i = 0; i < a->n_steps; i++) {
        const struct hsp_agent_step_report *s = &a->steps[(first + i) % HSP_AGENT_STEPS];
        if (s->step.job != job) {
            a->steps[(first + kept++) % HSP_AGENT_STEPS] = *s;
        }
    }
    a->n_steps = kept;
    a->next_step = (first + kept) % HSP_AGENT_STEPS;
}
