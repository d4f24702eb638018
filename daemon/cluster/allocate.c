#include "daemon/cluster/allocate.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_requests.h"
#include "proto/base/str.h"

static bool has_state(const struct hsp_job *j)
{
    return j->cur.epoch != 0 || j->n_held != 0 || j->state == HSP_JOB_SEALING ||
           j->state == HSP_JOB_RECOVERING || j->state == HSP_JOB_PAUSED;
}

struct cand {
    hsp_device_id device;
    uint32_t holder; /* job of its lease, 0 none */
    uint32_t target; /* job that gets the device, 0 none yet */
    bool ending;     /* its lease is of a job that is over */
    bool ends;       /* the device ends its work for a job, perhaps for another one */
};

struct alloc {
    const struct hsp_cluster *c;
    uint32_t n;
    struct cand *cand; /* by device, ascending: all devices that any job may use */
};

bool hsp_ci_up_soon(const struct hsp_cluster *c, hsp_device_id d)
{
    return c->now_ms < hsp_ci_device(c, d)->restart_ms + c->cfg.up_ms;
}

/* From the briefs and the holders alone, which lie close together: there may be ten thousand
 * nodes. */
static bool gather(struct hsp_cluster *c, struct alloc *a)
{
    size_t n = 0;
    hsp_ci_refresh(c);
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        n += (size_t)__builtin_popcount(c->briefs[i].offer);
    }
    *a = (struct alloc){.c = c, .cand = hsp_ci_alloc(c, n, sizeof(*a->cand))};
    for (uint32_t i = 0; a->cand != NULL && i < c->n_nodes; i++) {
        for (unsigned left = c->briefs[i].offer; left != 0; left &= left - 1) {
            uint32_t k = (uint32_t)__builtin_ctz(left);
            hsp_device_id d = HSP_DEVICE(i, k);
            if ((c->briefs[i].down >> k & 1) == 0 || hsp_ci_up_soon(c, d)) {
                const struct hsp_job *o = hsp_ci_job(c, c->holders[d]);
                bool ending = c->holders[d] != 0 && (o == NULL || hsp_ci_at_rest(o));
                bool ends = (c->briefs[i].ends >> k & 1) != 0;
                a->cand[a->n++] = (struct cand){d, c->holders[d], 0, ending, ends};
            }
        }
    }
    return a->cand != NULL;
}

static bool usable(const struct alloc *a, const struct hsp_job *j, const struct cand *k)
{
    if (hsp_ci_in_doubt(j) && k->holder != j->id) {
        return false; /* the job may not run at all (doubt.h) */
    }
    if (k->ends && hsp_ci_ends_other(hsp_ci_device(a->c, k->device), j->id)) {
        return false;
    }
    if (j->n_refused > 0 || a->c->n_broken > 0) {
        const struct hsp_job_mark *m = hsp_ci_marked(j, HSP_DEVICE_NODE(k->device));
        if (m != NULL && (m->refused != NULL || m->left_out)) {
            return false;
        }
    }
    return true;
}

/* 0 best: own, then free, then held by another job. */
static int rank_of(const struct hsp_job *j, const struct cand *k)
{
    return k->holder == j->id ? 0 : k->holder == 0 ? 1 : k->ending ? 3 : 2;
}

static bool declined(const struct hsp_job *j, const struct cand *k)
{
    bool settled = j->ticket == 0 && !j->have_result && j->att.epoch == 0;
    return settled && k->holder != j->id && hsp_ci_was_asked(j, k->device);
}

static uint32_t count(const struct alloc *a, const struct hsp_job *j)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct cand *k = &a->cand[i];
        n += k->target == 0 && rank_of(j, k) < 3 && usable(a, j, k);
    }
    return n;
}

static uint32_t take(struct alloc *a, const struct hsp_job *j, uint32_t want, int worst, bool fresh)
{
    uint32_t got = 0;
    for (int r = 0; r <= worst; r++) {
        for (uint32_t i = 0; i < a->n && got < want; i++) {
            struct cand *k = &a->cand[i];
            if (k->target == 0 && rank_of(j, k) == r && usable(a, j, k) &&
                !(fresh && declined(j, k))) {
                k->target = j->id;
                got++;
            }
        }
    }
    return got;
}

static uint32_t ordered(const struct hsp_cluster *c, const struct hsp_job **ret)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        if (hsp_ci_at_rest(j) || j->state == HSP_JOB_BEHIND) {
            continue;
        }
        uint32_t at = n++;
        while (at > 0 && ret[at - 1]->priority < j->priority) {
            ret[at] = ret[at - 1];
            at--;
        }
        ret[at] = j;
    }
    return n;
}

/* The four passes, as @self sees them. */
static void share_out(struct alloc *a, const struct hsp_job *self, const struct hsp_job **order,
                      uint32_t n, uint32_t *got)
{
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->state == HSP_JOB_FINISHING) {
            got[i] = take(a, order[i], UINT32_MAX, 0, false);
            if (got[i] < order[i]->min && hsp_ci_moves(a->c, order[i])) {
                got[i] += take(a, order[i], order[i]->min - got[i], 1, false);
            }
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (has_state(order[i]) && order[i]->state != HSP_JOB_FINISHING) {
            got[i] = take(a, order[i], order[i]->min, 1, false);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!has_state(order[i]) && count(a, order[i]) >= order[i]->min) {
            got[i] = take(a, order[i], order[i]->min, 2, false);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_job *o = order[i];
        if (got[i] != 0 && o->state != HSP_JOB_FINISHING && got[i] < o->max) {
            got[i] += take(a, o, o->max - got[i], 2, true);
        }
        if (got[i] != 0 && o == self && o->state != HSP_JOB_FINISHING && got[i] < o->max) {
            /* the job asks again for declined devices */
            got[i] += take(a, o, o->max - got[i], 1, false);
        }
    }
}

/* False: without memory, and c->failed is set. */
static bool share_now(struct hsp_cluster *c, const struct hsp_job *j, struct alloc *ret)
{
    const struct hsp_job **order = hsp_ci_alloc(c, c->n_jobs, sizeof(*order));
    uint32_t *got = hsp_ci_alloc(c, c->n_jobs, sizeof(*got));
    if (c->failed || !gather(c, ret)) {
        return false;
    }
    share_out(ret, j, order, ordered(c, order), got);
    return true;
}

uint32_t hsp_ci_available(struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id **ret)
{
    struct alloc a;
    uint32_t n = 0;
    if (!share_now(c, j, &a)) {
        return 0;
    }
    *ret = hsp_ci_alloc(c, a.n, sizeof(**ret));
    if (c->failed) {
        return 0;
    }
    for (uint32_t i = 0; i < a.n; i++) {
        const struct cand *k = &a.cand[i];
        bool own = k->holder == j->id && hsp_ci_device(c, k->device)->ask != HSP_ASK_STOP;
        if (k->target == j->id && (k->holder == 0 || own)) {
            (*ret)[n++] = k->device;
        }
    }
    return n;
}

/* ---- why there are not enough ---- */

/* Of its devices, those that compute. */
static uint32_t n_computing(const struct hsp_cluster *c, const struct hsp_job *j)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_leases; i++) {
        n += !hsp_ci_device(c, j->leases[i])->replica_holder;
    }
    return n;
}

/* Returns " (job long has 2, job mist has 1, 3 more jobs)", or "" if no other job has any devices.
 */
static const char *who_has_them(struct hsp_cluster *c, const struct hsp_job *j)
{
    const char *who = "";
    uint32_t named = 0, more = 0;
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job *o = c->jobs[i];
        uint32_t n = o != j ? n_computing(c, o) : 0;
        bool has = n > 0;
        if (has && named < 2) {
            who = hsp_ci_printf(c, "%s%sjob %s has %u", who, named > 0 ? ", " : "", o->name, n);
            named++;
        } else {
            more += has;
        }
    }
    who = more > 0 ? hsp_ci_printf(c, "%s, %u more job%s", who, more, hsp_s(more)) : who;
    return named > 0 ? hsp_ci_printf(c, " (%s)", who) : "";
}

/* Counts the devices that @j could use. If they are too few, the passes give @j none. *ret_due
 * counts those of them that another job still has and that go to @j or become free. */
static uint32_t within_reach(struct hsp_cluster *c, const struct hsp_job *j, uint32_t *ret_due)
{
    struct alloc a;
    uint32_t n = 0;
    *ret_due = 0;
    if (!share_now(c, j, &a)) {
        return 0;
    }
    for (uint32_t i = 0; i < a.n; i++) {
        const struct cand *k = &a.cand[i];
        bool held = k->holder != 0 && k->holder != j->id;
        n += rank_of(j, k) < 2 && usable(&a, j, k);
        *ret_due += held && usable(&a, j, k) && (k->ending || k->target == j->id);
    }
    return n;
}

/* Says when the devices of other jobs become free. */
static const char *what_next(struct hsp_cluster *c, const char *who, uint32_t due)
{
    return who[0] == '\0' ? ""
           : due > 0
               ? hsp_ci_printf(c, "; %u of them %s being given up", due, due == 1 ? "is" : "are")
               : "; devices become free when a job ends or is scaled down";
}

const char *hsp_ci_too_few(struct hsp_cluster *c, const struct hsp_job *j, uint32_t need,
                           uint32_t n)
{
    uint32_t all = 0, due, reach = within_reach(c, j, &due);
    n = n > 0 ? n : reach;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        all += (uint32_t)__builtin_popcount(c->briefs[i].offer);
    }
    const char *s = hsp_s(need), *who = who_has_them(c, j);
    return all == 0 ? hsp_ci_printf(c, "%u device%s; no node offers any", need, s)
                    : hsp_ci_printf(c, "%u device%s; %u of %u can be used%s%s", need, s, n, all,
                                    who, what_next(c, who, due));
}
