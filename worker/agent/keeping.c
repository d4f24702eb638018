#include "worker/agent/keeping.h"

#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/str.h"
#include "proto/wire/identity.h"
#include "worker/agent/agent_actions.h"

static struct hsp_agent_kept *kept_of(struct hsp_agent *a, uint32_t job)
{
    for (uint32_t i = 0; i < a->n_kept; i++) {
        if (a->kept[i].job == job) {
            return &a->kept[i];
        }
    }
    return NULL;
}

/* NULL: there are too many. */
static struct hsp_agent_kept *kept_add(struct hsp_agent *a, uint32_t job)
{
    struct hsp_agent_kept *k = kept_of(a, job);
    if (k == NULL && a->n_kept < HSP_MSG_KEPT) {
        k = &a->kept[a->n_kept++];
        *k = (struct hsp_agent_kept){.job = job};
    }
    return k;
}

static uint64_t greater(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

static const char *or_failed(struct hsp_agent *a, const char *text)
{
    a->failed = a->failed || text == NULL;
    return text != NULL ? text : "out of memory";
}

const char *hsp_ai_keep(struct hsp_agent *a, const struct hsp_msg *m)
{
    const struct hsp_m_prepare *p = &m->u.prepare;
    const struct hsp_agent_kept *old = kept_of(a, p->job);
    if (old != NULL && !hsp_cluster_none(old->cluster) &&
        !hsp_digest_equal(old->cluster, p->cluster)) {
        return "this node stores state of a job of this number of another cluster; node discard "
               "deletes it";
    }
    if (old != NULL && old->epoch > m->epoch) {
        return or_failed(
            a, hsp_arena_printf(
                   a->arena, "this node has seen epoch %llu of the job, which is newer than %llu",
                   (unsigned long long)old->epoch, (unsigned long long)m->epoch));
    }
    struct hsp_agent_kept *k = kept_add(a, p->job);
    if (k == NULL) {
        return or_failed(
            a, hsp_arena_printf(a->arena, "this node stores state of %u other jobs", a->n_kept));
    }
    k->cluster = p->cluster;
    k->generation = p->generation;
    k->epoch = m->epoch;
    k->plan = greater(k->plan, p->plan);
    hsp_str_printf(k->name, sizeof(k->name), "%s", p->job_name != NULL ? p->job_name : "");
    return NULL;
}

const char *hsp_ai_keep_papers(struct hsp_agent *a, const struct hsp_msg *m)
{
    const struct hsp_m_papers *p = &m->u.papers;
    const struct hsp_agent_kept *old = kept_of(a, p->job);
    bool other = old != NULL && !hsp_cluster_none(old->cluster) &&
                 !hsp_digest_equal(old->cluster, p->cluster);
    if (!hsp_digest_equal(p->cluster, a->cluster)) {
        return "it is of a cluster that has not accepted this node";
    }
    if (other && !hsp_digest_equal(old->cluster, p->from)) {
        return "this node stores state of a job of this number of another cluster; node discard "
               "deletes it";
    }
    struct hsp_agent_kept *k = kept_add(a, p->job);
    if (k == NULL) {
        return or_failed(
            a, hsp_arena_printf(a->arena, "this node stores state of %u other jobs", a->n_kept));
    }
    k->cluster = p->cluster;
    k->generation = p->generation;
    k->epoch = greater(k->epoch, m->epoch);
    k->papers_damaged = false;
    return NULL;
}

const char *hsp_ai_may_not_delete(struct hsp_agent *a, uint32_t job, uint64_t known)
{
    const struct hsp_agent_kept *k = kept_of(a, job);
    if (k == NULL) {
        return a->kept_more ? "this node stores state of more jobs than it can list, and knows "
                              "nothing of this one"
                            : NULL;
    }
    if (!hsp_cluster_none(k->cluster) && !hsp_digest_equal(k->cluster, a->cluster)) {
        return "it is another cluster's";
    }
    if (!hsp_cluster_none(k->cluster) && hsp_generation_ahead(k->generation, a->generation)) {
        return "it is of a newer generation of the cluster";
    }
    return k->epoch <= known
               ? NULL
               : or_failed(a, hsp_arena_printf(a->arena,
                                               "this node has seen epoch %llu of it, the "
                                               "coordinator knows none above %llu",
                                               (unsigned long long)k->epoch,
                                               (unsigned long long)known));
}

static bool in_use(const struct hsp_agent *a, uint32_t job)
{
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->dev[i].run.job == job) {
            return true;
        }
    }
    return false;
}

const char *hsp_ai_is_kept(struct hsp_agent *a, uint32_t job, struct hsp_digest id)
{
    const struct hsp_agent_kept *k = kept_of(a, job);
    return k == NULL ? "nothing of it is here"
           : !hsp_digest_equal(k->cluster, id)
               ? "the state here is of a job of this number of another cluster"
               : NULL;
}

bool hsp_ai_may_tidy(struct hsp_agent *a, uint32_t job, uint64_t epoch)
{
    const struct hsp_agent_kept *k = kept_of(a, job);
    return !in_use(a, job) && (k == NULL || k->epoch <= epoch);
}

void hsp_ai_kept_scanned(struct hsp_agent *a, const struct hsp_agent_event *ev)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_kept; i++) {
        bool found = in_use(a, a->kept[i].job);
        for (uint32_t k = 0; k < ev->n_kept && !found; k++) {
            found = ev->kept[k].job == a->kept[i].job;
        }
        if (found) {
            a->kept[n++] = a->kept[i];
        }
    }
    a->n_kept = n;
    a->kept_more = ev->kept_more;
    for (uint32_t i = 0; i < ev->n_kept; i++) {
        const struct hsp_m_kept *f = &ev->kept[i];
        struct hsp_agent_kept *k = kept_add(a, f->job);
        if (k == NULL) { /* listed jobs may yet be found again */
            a->kept_more = true;
            continue;
        }
        if (!hsp_cluster_none(f->cluster)) {
            k->cluster = f->cluster;
            k->generation = greater(k->generation, f->generation);
        }
        k->epoch = greater(k->epoch, f->epoch);
        k->plan = greater(k->plan, f->plan);
        k->papers_damaged = f->papers_damaged;
        if (f->name != NULL && f->name[0] != '\0') {
            hsp_str_printf(k->name, sizeof(k->name), "%s", f->name);
        }
    }
}

struct hsp_m_holding *hsp_ai_kept_holdings(struct hsp_agent *a, const struct hsp_agent_event *ev,
                                           uint32_t *ret_n)
{
    struct hsp_m_holding *list = hsp_arena_array(a->arena, (size_t)ev->n + 1, sizeof(*list));
    uint32_t n = 0;
    for (uint32_t i = 0; list != NULL && i < ev->n; i++) {
        if (kept_of(a, ev->holdings[i].job) != NULL) {
            list[n++] = ev->holdings[i];
        }
    }
    *ret_n = hsp_ai_offered(a, n);
    return list;
}

uint32_t hsp_ai_offered(struct hsp_agent *a, uint32_t n)
{
    if (n <= HSP_MSG_HOLDINGS) {
        return n;
    }
    hsp_ai_log(a, 4,
               "%u pieces of state are here, and only the newest %u are reported to hspmdd: older "
               "jobs may not find theirs",
               n, HSP_MSG_HOLDINGS);
    return HSP_MSG_HOLDINGS;
}

struct hsp_m_kept *hsp_ai_kept_list(struct hsp_agent *a)
{
    struct hsp_m_kept *list = hsp_arena_array(a->arena, (size_t)a->n_kept + 1, sizeof(*list));
    for (uint32_t i = 0; list != NULL && i < a->n_kept; i++) {
        const struct hsp_agent_kept *k = &a->kept[i];
        list[i] = (struct hsp_m_kept){.job = k->job,
                                      .name = k->name,
                                      .cluster = k->cluster,
                                      .generation = k->generation,
                                      .epoch = k->epoch,
                                      .plan = k->plan,
                                      .papers_damaged = k->papers_damaged};
    }
    return list;
}
