#include "daemon/cluster/state_damage.h"

#include "daemon/cluster/attempt_end.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "proto/base/str.h"

/* Of the held pieces: those of one layout, device and version; all devices where @from is set, all
 * owners where @owner is HSP_MSG_RANKS. */
struct choice {
    uint64_t plan, version;
    bool from; /* later versions, too */
    hsp_device_id device;
    uint32_t owner;
};

static bool matches(const struct choice *w, const struct hsp_state_piece *h)
{
    if (h->plan != w->plan) {
        return false;
    }
    if (w->from) {
        return h->version >= w->version;
    }
    return h->device == w->device && h->version == w->version &&
           (w->owner == HSP_MSG_RANKS || h->owner == w->owner);
}

/* Forgets held pieces. Returns how many. */
static uint32_t forget(struct hsp_job *j, const struct choice *w)
{
    uint32_t n = 0, before = j->n_held;
    for (uint32_t i = 0; i < j->n_held; i++) {
        if (!matches(w, &j->held[i])) {
            j->held[n++] = j->held[i];
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

/* Whether @m is of a rank of the epoch that was begun last with layout @p, so that none of its
 * pieces was made since, and about a version that may be given up: no vote of it has passed as far
 * as is known, or the epoch began with it. */
static bool may_give_up(const struct hsp_job *j, const struct hsp_job_plan *p,
                        const struct hsp_m_damaged *m)
{
    const struct hsp_cl_epoch *e = m->given_up_in == j->att.epoch ? &j->att : &j->cur;
    bool first = m->given_up_in == e->epoch && m->version == e->step;
    return m->given_up_in == p->epoch && m->rank < p->info.n_ranks &&
           (m->version > j->stable || first);
}

/* Was layout @p made of a version that was given up? */
static bool made_of_void(const struct hsp_job *j, const struct hsp_job_plan *p)
{
    const struct hsp_job_plan *from = p->from_plan != 0 ? hsp_ci_plan(j, p->from_plan) : NULL;
    return p->started && from != NULL && from->void_from <= p->from_step;
}

static void make_void(struct hsp_cluster *c, struct hsp_job *j, struct hsp_job_plan *p,
                      uint64_t version)
{
    p->void_from = version;
    (void)forget(j, &(struct choice){.plan = p->plan, .version = version, .from = true});
    hsp_ci_store_plan(c, j, p);
}

void hsp_ci_void_heirs(struct hsp_cluster *c, struct hsp_job *j)
{
    /* layouts made of such a layout come later in the list */
    for (uint32_t i = 0; i < j->n_plans; i++) {
        struct hsp_job_plan *p = &j->plans[i];
        if (p->void_from <= p->from_step || !made_of_void(j, p) || p->from_step == 0 ||
            p->from_step <= j->stable || !hsp_ci_went_no_further(c, j, p, p->from_step - 1)) {
            continue;
        }
        make_void(c, j, p, p->from_step);
        hsp_ci_fact(c, "state.given_up", HSP_SEV_WARN, j, NULL,
                    "version %llu in layout %llu: it was made of layout %llu, where it was given "
                    "up; it is computed again from an earlier one",
                    (unsigned long long)p->from_step, (unsigned long long)p->plan,
                    (unsigned long long)p->from_plan);
    }
}

/* Was version @step of layout @p given up, or a version of which it was made? */
static bool comes_from_void(const struct hsp_job *j, const struct hsp_job_plan *p, uint64_t step)
{
    while (p != NULL && p->void_from > step) {
        step = p->from_step;
        p = p->from_plan < p->plan ? hsp_ci_plan(j, p->from_plan) : NULL;
    }
    return p != NULL;
}

/* Takes in a report that comes late, as its node was not heard: an attempt that begins with the
 * version given up ends. One that all may begin already is sealed first, which shows whether a vote
 * can have passed. */
static void too_late_for(struct hsp_cluster *c, struct hsp_job *j)
{
    const struct hsp_cl_epoch *e = &j->att;
    const struct hsp_job_plan *from = hsp_ci_plan(j, e->from_plan);
    if (e->epoch == 0 || e->mode != HSP_MODE_RECOVER || from == NULL) {
        return;
    }
    const char *why = hsp_ci_printf(c, "version %llu was given up", (unsigned long long)e->step);
    if (!hsp_ci_attempt_gone(j) && from->void_from <= e->step) {
        hsp_ci_attempt_refused(c, j, why);
    } else if (hsp_ci_attempt_gone(j) && comes_from_void(j, from, e->step)) {
        hsp_ci_job_loss(c, j, why);
    }
}

/* Nothing of @m's version counts any more, nor of later ones, also where a rank that died has left
 * it sealed. In the store before anything is chosen. */
static void give_up(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                    const struct hsp_m_damaged *m)
{
    struct hsp_job_plan *p = hsp_ci_plan(j, m->plan);
    if (!may_give_up(j, p, m) || m->version >= p->void_from) {
        return; /* another rank has said it */
    }
    make_void(c, j, p, m->version);
    j->stable = j->stable < m->version || m->version == 0 ? j->stable : m->version - 1;
    hsp_ci_fact(c, "state.given_up", HSP_SEV_WARN, j, n,
                "version %llu in layout %llu: %s; it is computed again from an earlier one",
                (unsigned long long)m->version, (unsigned long long)m->plan, m->part);
    if (j->state == HSP_JOB_RECOVERING && !hsp_ci_attempt_gone(j)) {
        hsp_ci_void_heirs(c, j); /* the version that the attempt begins with may be void, too */
    }
    too_late_for(c, j);
    hsp_ci_job_dirty(c, j);
}

/* Another holder may still have @version: hspmdd waits for that holder (recover.h). A version
 * that went bad while the job ran (@live) need not be sealed anywhere, unless it was stable. */
static void was_there(const struct hsp_job *j, struct hsp_job_plan *p, uint64_t version, bool live)
{
    p->damaged = version > p->damaged ? version : p->damaged;
    if (version > p->awaited && (!live || version <= j->stable)) {
        p->awaited = version;
    }
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
    if (m->given_up_in != 0) {
        give_up(c, j, n, m);
        return;
    }
    struct hsp_job_plan *p = hsp_ci_plan(j, m->plan);
    (void)forget(j, &(struct choice){
                        .plan = m->plan, .version = m->version, .device = d, .owner = m->owner});
    if (known) {
        was_there(j, p, m->version, m->live);
    }
    struct hsp_epoch_peer *peer = hsp_ci_peer(&j->att, d);
    if (peer != NULL && m->plan == j->att.from_plan && (m->version == j->att.step || !known)) {
        peer->damaged = true;
    }
    hsp_str_printf(j->damage, sizeof(j->damage), "damaged on %s: %s", hsp_ci_device_name(c, d),
                   m->part);
    hsp_ci_fact(c, "state.damaged", HSP_SEV_WARN, j, n, "%s: %s of %s in layout %llu%s: %s",
                hsp_ci_device_name(c, d), version_text(c, m->version),
                m->owner == m->rank ? "its state"
                                    : hsp_ci_printf(c, "the copy of rank %u", m->owner),
                (unsigned long long)m->plan, m->live ? " went bad while the job ran" : "", m->part);
    hsp_ci_job_dirty(c, j);
}

bool hsp_ci_state_missing(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d)
{
    const struct hsp_epoch_peer *p = hsp_ci_peer(&j->att, d);
    struct hsp_job_plan *from = hsp_ci_plan(j, j->att.from_plan);
    if (from == NULL) {
        return false;
    }
    if (p != NULL && p->damaged) {
        return true;
    }
    hsp_str_printf(j->damage, sizeof(j->damage), "gone from %s", hsp_ci_device_name(c, d));
    was_there(j, from, j->att.step, false);
    const struct choice all = {
        .plan = j->att.from_plan, .version = j->att.step, .device = d, .owner = HSP_MSG_RANKS};
    return forget(j, &all) > 0;
}
