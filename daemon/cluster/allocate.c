/* Which devices each job may use: a function of the jobs by priority and submit order, their min
 * and max, and the devices with who holds them. In passes: 0  a finishing job keeps what it has; 1
 * each job that has state gets its min, devices it holds first (a started job is never starved); 2
 * each job that has none gets its min if so many are left, free ones first, else nothing; 3  what
 * is left goes to jobs up to their max, in order; a device its planner declined is left out. A
 * device held by another job is only handed on when that job has given it back: callers take those
 * of the target that are free or their own (hsp_ci_available). */
#include "daemon/cluster/clusterint.h"

bool hsp_ci_contains(const hsp_device_id *list, uint32_t n, hsp_device_id d)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == d) {
            return true;
        }
    }
    return false;
}

bool hsp_ci_usable(const struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id d)
{
    const struct hsp_cluster_node *n = hsp_ci_node(c, d);
    const struct hsp_node_device *v = hsp_ci_device(c, d);
    if (n->conn == 0 || n->draining || n->leaving || !v->present || v->keeper ||
        j->refused[HSP_DEVICE_NODE(d)] != NULL) {
        return false;
    }
    if (!v->up && c->now_ms >= v->restart_ms + c->cfg.up_ms) {
        return false;
    }
    return v->job != j->id || v->ask != HSP_ASK_STOP;
}

static bool has_state(const struct hsp_job *j)
{
    return j->cur.epoch != 0 || j->n_held != 0 || j->state == HSP_JOB_SEALING ||
           j->state == HSP_JOB_RECOVERING || j->state == HSP_JOB_PAUSED;
}

/* 0 best: own, then free, then held by another job. */
static int rank_of(const struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id d)
{
    const struct hsp_node_device *v = hsp_ci_device(c, d);
    if (v->job == j->id) {
        return 0;
    }
    if (v->job == 0) {
        return 1;
    }
    const struct hsp_job *o = hsp_ci_job(c, v->job);
    return o == NULL || hsp_job_terminal(o->state) ? 3 : 2;
}

struct alloc {
    const struct hsp_cluster *c;
    uint32_t *target; /* [n] job id, 0 free */
    uint32_t n;
};

static bool declined(const struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id d)
{
    bool settled = j->asked_valid && j->ticket == 0 && !j->have_result && j->att.epoch == 0;
    return settled && hsp_ci_contains(j->asked, j->n_asked, d) && hsp_ci_device(c, d)->job != j->id;
}

static uint32_t count(const struct alloc *a, const struct hsp_job *j)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < a->n; d++) {
        n += a->target[d] == 0 && hsp_ci_usable(a->c, j, d) && rank_of(a->c, j, d) < 3;
    }
    return n;
}

static uint32_t take(struct alloc *a, const struct hsp_job *j, uint32_t want, int worst, bool fresh)
{
    uint32_t got = 0;
    for (int r = 0; r <= worst; r++) {
        for (uint32_t d = 0; d < a->n && got < want; d++) {
            if (a->target[d] == 0 && hsp_ci_usable(a->c, j, d) && rank_of(a->c, j, d) == r &&
                !(fresh && declined(a->c, j, d))) {
                a->target[d] = j->id;
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
        if (hsp_job_terminal(j->state)) {
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

uint32_t hsp_ci_available(struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id **ret)
{
    uint32_t n_dev = c->n_nodes * HSP_NODE_DEVICES;
    struct alloc a = {c, hsp_ci_alloc(c, n_dev, sizeof(uint32_t)), n_dev};
    const struct hsp_job **order = hsp_ci_alloc(c, c->n_jobs, sizeof(*order));
    uint32_t *got = hsp_ci_alloc(c, c->n_jobs, sizeof(*got));
    *ret = hsp_ci_alloc(c, n_dev, sizeof(**ret));
    if (c->failed) {
        return 0;
    }
    uint32_t n_jobs = ordered(c, order);
    for (uint32_t i = 0; i < n_jobs; i++) {
        if (order[i]->state == HSP_JOB_FINISHING) {
            got[i] = take(&a, order[i], UINT32_MAX, 0, false);
        }
    }
    for (uint32_t i = 0; i < n_jobs; i++) {
        if (has_state(order[i]) && order[i]->state != HSP_JOB_FINISHING) {
            got[i] = take(&a, order[i], order[i]->min, 1, false);
        }
    }
    for (uint32_t i = 0; i < n_jobs; i++) {
        if (!has_state(order[i]) && count(&a, order[i]) >= order[i]->min) {
            got[i] = take(&a, order[i], order[i]->min, 2, false);
        }
    }
    for (uint32_t i = 0; i < n_jobs; i++) {
        const struct hsp_job *o = order[i];
        if (got[i] != 0 && o->state != HSP_JOB_FINISHING && got[i] < o->max) {
            got[i] += take(&a, o, o->max - got[i], 2, true);
        }
    }
    uint32_t n = 0;
    for (uint32_t d = 0; d < n_dev; d++) {
        uint32_t holder = hsp_ci_device(c, d)->job;
        if (a.target[d] == j->id && (holder == 0 || holder == j->id)) {
            (*ret)[n++] = d;
        }
    }
    return n;
}
