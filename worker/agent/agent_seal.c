#include "worker/agent/agent_seal.h"

#include <string.h>

#include "proto/base/arena.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"
#include "worker/agent/keeping.h"
#include "worker/agent/obey.h"

static bool sealing(const struct hsp_agent *a, uint32_t job)
{
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->dev[i].sealing && a->dev[i].run.job == job) {
            return true;
        }
    }
    return false;
}

void hsp_ai_seal_advance(struct hsp_agent *a)
{
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        struct hsp_agent_seal *s = &a->seal[k];
        if (s->job != 0 && s->scan == 0 && !sealing(a, s->job)) {
            s->scan = ++a->scan;
            hsp_ai_emit(a, HSP_AACT_SCAN, 0)->scan = s->scan;
        }
    }
}

void hsp_ai_seal_abandon(struct hsp_agent *a)
{
    memset(a->seal, 0, sizeof(a->seal));
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        a->dev[i].sealing = false;
    }
}

/* Its executor was killed and does not end: the driver holds it. Its threads never run again, nor
 * does the GPU, so nobody writes its segments; the rest of the node need not wait for it. */
static bool stuck(const struct hsp_agent_device *d)
{
    return d->killed && d->health.verdict == HSP_GPU_LOST;
}

static void give_up(struct hsp_agent *a, uint32_t device)
{
    struct hsp_agent_device *d = &a->dev[device];
    hsp_ai_log(a, 4, "executor %u does not end, its GPU is lost: it counts as gone", device);
    d->run = (struct hsp_m_run){0};
    d->preparing = 0;
    d->sealing = d->source = d->next_source = false;
    hsp_ai_seal_advance(a);
}

void hsp_ai_seal_tick(struct hsp_agent *a)
{
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        for (uint32_t i = 0; a->seal[k].job != 0 && i < a->cfg.n_devices; i++) {
            bool late = a->dev[i].sealing && a->dev[i].run.job == a->seal[k].job &&
                        a->now_ms >= a->seal[k].deadline_ms;
            if (late && stuck(&a->dev[i])) {
                give_up(a, i);
            } else if (late) {
                hsp_ai_kill(a, i, "ended, because it did not stop its job in time");
            }
        }
    }
}

uint64_t hsp_ai_seal_deadline(const struct hsp_agent *a)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        for (uint32_t i = 0; a->seal[k].job != 0 && i < a->cfg.n_devices; i++) {
            const struct hsp_agent_device *d = &a->dev[i];
            if (d->sealing && (!d->killed || stuck(d)) && d->run.job == a->seal[k].job &&
                a->seal[k].deadline_ms < best) {
                best = a->seal[k].deadline_ms;
            }
        }
    }
    return best;
}

void hsp_ai_seal_answer(struct hsp_agent *a, const struct hsp_agent_event *ev)
{
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        struct hsp_agent_seal *s = &a->seal[k];
        if (s->job == 0 || s->scan != ev->scan) {
            continue;
        }
        struct hsp_m_holding *h = hsp_arena_array(a->arena, ev->n, sizeof(*h));
        if (h == NULL) {
            a->failed = true;
            return;
        }
        uint32_t n = 0;
        for (uint32_t i = 0; i < ev->n; i++) {
            if (ev->holdings[i].job == s->job) {
                h[n++] = ev->holdings[i];
            }
        }
        struct hsp_msg m = {
            .type = HSP_MSG_SEALED,
            .epoch = s->epoch,
            .u.sealed = {.job = s->job, .n_holdings = hsp_ai_offered(a, n), .holdings = h}};
        s->job = 0;
        s->scan = 0;
        hsp_ai_tell(a, &m);
    }
}

void hsp_ai_seal(struct hsp_agent *a, const struct hsp_msg *m)
{
    struct hsp_agent_seal *s = NULL;
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        if (a->seal[k].job == m->u.jobref.job) {
            s = &a->seal[k]; /* a newer question replaces the older */
            break;
        }
        if (a->seal[k].job == 0 && s == NULL) {
            s = &a->seal[k];
        }
    }
    if (s == NULL) {
        hsp_ai_log(a, 3, "more SEALs than jobs can be here: ignored");
        return;
    }
    *s =
        (struct hsp_agent_seal){.job = m->u.jobref.job,
                                .epoch = m->epoch,
                                .deadline_ms = a->now_ms + hsp_ai_seal_ms(a) + m->u.jobref.more_ms};
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        struct hsp_agent_device *d = &a->dev[i];
        if (d->state == HSP_EXEC_UP && d->run.job == s->job) {
            d->sealing = true;
            hsp_ai_order(a, i, m);
        }
    }
    hsp_ai_seal_advance(a);
}
