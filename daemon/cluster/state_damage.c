#include "daemon/cluster/state_damage.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/str.h"

/* Forgets the held pieces of device @d of one layout and version: that of @owner, or all
 * (HSP_MSG_RANKS). Returns how many. */
static uint32_t forget(struct hsp_job *j, hsp_device_id d, uint64_t plan, uint64_t version,
                       uint32_t owner)
{
    uint32_t n = 0, before = j->n_held;
    for (uint32_t i = 0; i < j->n_held; i++) {
        const struct hsp_state_piece *h = &j->held[i];
        bool it = h->device == d && h->plan == plan && h->version == version &&
                  (owner == HSP_MSG_RANKS || h->owner == owner);
        if (!it) {
            j->held[n++] = *h;
        }
    }
    j->n_held = n;
    return before - n;
}

static const char *version_text(struct hsp_cluster *c, uint64_t version)
{
    return version == UINT64_MAX ? "a version"
                                 : hsp_ci_printf(c, "version %llu", (unsigned long long)version);
}

void hsp_ci_state_damaged(struct hsp_cluster *c, struct hsp_cluster_node *n,
                          const struct hsp_m_damaged *m)
{
    struct hsp_job *j = hsp_ci_job(c, m->job);
    hsp_device_id d = HSP_DEVICE(hsp_ci_index_of(c, n), m->device);
    bool known = m->version != UINT64_MAX;
    const struct hsp_m_holding h = {m->job,  m->device, m->plan,
                                    m->rank, m->owner,  known ? m->version : 0};
    if (j == NULL || !hsp_ci_may_hold(c, j, n, &h)) {
        return;
    }
    struct hsp_job_plan *p = hsp_ci_plan(j, m->plan);
    (void)forget(j, d, m->plan, m->version, m->owner);
    if (known && m->version > p->damaged) {
        p->damaged = m->version;
    }
    struct hsp_epoch_peer *peer = hsp_ci_peer(&j->att, d);
    if (peer != NULL && m->plan == j->att.from_plan && (m->version == j->att.step || !known)) {
        peer->damaged = true;
    }
    hsp_str_printf(j->damage, sizeof(j->damage), "damaged on %s: %s", hsp_ci_device_name(c, d),
                   m->part);
    hsp_ci_fact(c, "state.damaged", HSP_SEV_WARN, j, n,
                "%s: %s of %s in layout %llu%s: %s; it is deleted and not used",
                hsp_ci_device_name(c, d), version_text(c, m->version),
                m->owner == m->rank ? "its state"
                                    : hsp_ci_printf(c, "the copy of rank %u", m->owner),
                (unsigned long long)m->plan, m->live ? " went bad while the job ran" : "", m->part);
    hsp_ci_look_job(c, j);
}

bool hsp_ci_state_missing(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d)
{
    const struct hsp_epoch_peer *p = hsp_ci_peer(&j->att, d);
    if (p != NULL && p->damaged) {
        return true;
    }
    hsp_str_printf(j->damage, sizeof(j->damage), "gone from %s", hsp_ci_device_name(c, d));
    return forget(j, d, j->att.from_plan, j->att.step, HSP_MSG_RANKS) > 0;
}
