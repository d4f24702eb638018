#include "worker/agent/damage.h"

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

void hsp_ai_damaged(struct hsp_agent *a, uint32_t device, const struct hsp_m_damaged *m)
{
    struct hsp_m_damaged d = *m;
    d.device = device;
    hsp_ai_log(a, 4,
               "device %u: state of job %u is damaged (layout %llu, rank %u, part of rank %u): %s: "
               "deleted",
               device, d.job, (unsigned long long)d.plan, d.rank, d.owner, d.part);
    if (a->link == HSP_LINK_UP) {
        tell(a, &d);
    } else if (a->n_untold < HSP_AGENT_UNTOLD) {
        struct hsp_agent_damaged *u = &a->untold[a->n_untold++];
        u->m = d;
        hsp_str_printf(u->part, sizeof(u->part), "%s", d.part); /* cut on purpose */
    }
    if (d.live && device < a->cfg.n_devices) {
        const struct hsp_gpu_sign sign = {.kind = HSP_SIGN_DAMAGE, .value = 1};
        hsp_ai_sign(a, device, &sign);
    }
}

void hsp_ai_damaged_again(struct hsp_agent *a)
{
    for (uint32_t i = 0; i < a->n_untold; i++) {
        a->untold[i].m.part = a->untold[i].part;
        tell(a, &a->untold[i].m);
    }
    a->n_untold = 0;
}
