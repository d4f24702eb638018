#include "worker/agent/damage.h"

#include "proto/base/arena.h"
#include "proto/base/str.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"
#include "worker/agent/devices.h"

static void tell(struct hsp_agent *a, const struct hsp_m_damaged *d)
{
    struct hsp_msg m = {.type = HSP_MSG_STATE_DAMAGED, .u.damaged = *d};
    hsp_ai_tell(a, &m);
}

static void log_damage(struct hsp_agent *a, const struct hsp_m_damaged *d)
{
    if (d->given_up_in != 0) {
        hsp_ai_log(a, 4, "device %u: epoch %llu of job %u gives up version %llu of layout %llu: %s",
                   d->device, (unsigned long long)d->given_up_in, d->job,
                   (unsigned long long)d->version, (unsigned long long)d->plan, d->part);
    } else {
        hsp_ai_log(
            a, 4,
            "device %u: state of job %u is damaged (layout %llu, rank %u, part of rank %u): %s",
            d->device, d->job, (unsigned long long)d->plan, d->rank, d->owner, d->part);
    }
}

static void keep(struct hsp_agent_damaged *u, const struct hsp_m_damaged *d)
{
    u->m = *d;
    hsp_str_printf(u->part, sizeof(u->part), "%s", d->part); /* cut on purpose */
}

/* @n_unlisted: further reports, for which there was no room. */
static void tell_kept(struct hsp_agent *a, struct hsp_agent_damaged *u, uint32_t n_unlisted)
{
    u->m.part = n_unlisted == 0
                    ? u->part
                    : hsp_arena_printf(a->arena,
                                       "%s (%u more damaged pieces of this node are in its log "
                                       "alone)",
                                       u->part, n_unlisted);
    a->failed = a->failed || u->m.part == NULL;
    if (!a->failed) {
        tell(a, &u->m);
    }
}

void hsp_ai_damaged(struct hsp_agent *a, uint32_t device, const struct hsp_m_damaged *m)
{
    struct hsp_m_damaged d = *m;
    d.device = device;
    log_damage(a, &d);
    if (a->link == HSP_LINK_UP) {
        tell(a, &d);
    }
    if (d.given_up_in != 0) { /* by itself it says nothing of this device's memory */
        keep(&a->given_up[device], &d);
        return;
    }
    if (a->link != HSP_LINK_UP && a->n_untold < HSP_AGENT_UNTOLD) {
        keep(&a->untold[a->n_untold++], &d);
    } else if (a->link != HSP_LINK_UP) {
        a->n_unlisted++;
    }
    if (d.live && device < a->cfg.n_devices) {
        const struct hsp_gpu_sign sign = {.kind = HSP_SIGN_DAMAGE, .value = 1};
        hsp_ai_sign(a, device, &sign);
    }
}

void hsp_ai_damaged_again(struct hsp_agent *a)
{
    for (uint32_t i = 0; i < a->n_untold; i++) {
        bool last = i + 1 == a->n_untold;
        tell_kept(a, &a->untold[i], last ? a->n_unlisted : 0);
    }
    a->n_untold = a->n_unlisted = 0;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        if (a->given_up[d].m.given_up_in != 0) {
            tell_kept(a, &a->given_up[d], 0);
        }
    }
}
