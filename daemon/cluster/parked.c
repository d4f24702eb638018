#include "daemon/cluster/parked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/crowd.h"
#include "daemon/cluster/standing.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "proto/wire/protocol.h"

static struct hsp_cluster_node *named_node(const struct hsp_cluster *c, const char *name)
{
    uint32_t at;
    return hsp_map_get(&c->by_name, name, &at) ? &c->nodes[at] : NULL;
}

static const char *name_of(struct hsp_cluster *c, const struct hsp_m_kept *k)
{
    return hsp_name_valid(k->name) ? k->name : hsp_ci_printf(c, "number %u", k->job);
}

/* Names the commands with which an administrator can deal with state @k of another cluster. */
static const char *ways_out(struct hsp_cluster *c, const struct hsp_m_kept *k)
{
    bool taken = hsp_ci_job_is_over(c, k->job) ||
                 (hsp_ci_job(c, k->job) != NULL && !hsp_ci_not_adopted(hsp_ci_job(c, k->job)));
    return hsp_cluster_none(k->cluster) ? "node discard deletes it"
           : taken ? "start hspmdd with the state_dir of that cluster again, which continues it "
                     "(hspmdd(8), RECOVERY); node discard deletes it"
           : k->papers_damaged
               ? hsp_ci_printf(c,
                               "its file job-%u.papers is damaged, so job adopt needs another node "
                               "that stores the job; node discard deletes it",
                               k->job)
               : "if state_dir here and `coordinator` on its host are right, job adopt takes it "
                 "over, node discard deletes it";
}

/* Why state @k keeps the agent from joining; NULL: it may join. */
static const char *fault_of(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                            const struct hsp_m_hello *m, const struct hsp_m_kept *k)
{
    const struct hsp_job *j = hsp_ci_job(c, k->job);
    const enum hsp_standing standing = hsp_ci_standing(c, k);
    switch (standing) {
    case HSP_STANDS_NOT_ADOPTED:
    case HSP_STANDS_FOREIGN:
        if (standing == HSP_STANDS_NOT_ADOPTED && n != NULL) {
            /* of a cluster that an administrator has let in, on a node that belongs here */
            return NULL;
        }
        return hsp_ci_printf(c, "it stores state of job %s of %s: %s", name_of(c, k),
                             hsp_ci_cluster_text(c, k->cluster), ways_out(c, k));
    case HSP_STANDS_OTHER:
        return hsp_ci_printf(c, "it stores state of job %s, number %u, and here that is job %s",
                             k->name, k->job, j->name);
    case HSP_STANDS_NEWER:
    case HSP_STANDS_UNKNOWN:
        return n != NULL && (!n->unheard || hsp_ci_testifies(c, n, m, k))
                   ? NULL
                   : hsp_ci_printf(c,
                                   "it stores epoch %llu of job %s, which is not known here, and "
                                   "is no member%s",
                                   (unsigned long long)k->epoch, name_of(c, k),
                                   j != NULL ? " of it" : "");
    case HSP_STANDS_KNOWN:
    case HSP_STANDS_OVER: break;
    }
    return NULL;
}

/* Why a newer coordinator that the agent names keeps it from joining; NULL: it names none. */
static const char *newer_than_us(struct hsp_cluster *c, const struct hsp_m_hello *m)
{
    bool later = hsp_generation_ahead(m->generation, c->generation);
    if (!hsp_digest_equal(m->cluster, c->id) ||
        !(later || (m->generation == c->generation && m->term > c->term))) {
        return NULL;
    }
    if (hsp_ci_is_twin(c, m->generation)) {
        return hsp_ci_printf(c,
                             "it has worked for another hspmdd of this cluster, started from the "
                             "same backup as this one: generation %u, as here; hspmdd --restore "
                             "with a copy of the present state.db numbers above both",
                             hsp_generation_number(c->generation));
    }
    return hsp_ci_printf(
        c, "it %s a newer hspmdd of this cluster: %s %llu, here %llu",
        hsp_ci_can_be(c, m->generation, m->term) ? "has obeyed" : "names, and there cannot be,",
        later ? "generation" : "term",
        (unsigned long long)(later ? hsp_generation_number(m->generation) : m->term),
        (unsigned long long)(later ? hsp_generation_number(c->generation) : c->term));
}

struct hsp_park_cause hsp_ci_must_park(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                                       const struct hsp_m_hello *m)
{
    struct hsp_park_cause x = {.why = newer_than_us(c, m), .as = HSP_PARKED_UNPROVEN};
    x.claims = n != NULL && n->unheard && m->n_devices > 0; /* else nothing has run there */
    x.ahead = x.claims && x.why != NULL && hsp_ci_can_be(c, m->generation, m->term);
    for (uint32_t i = 0; i < m->n_kept && x.why == NULL; i++) {
        enum hsp_standing how = hsp_ci_standing(c, &m->kept[i]);
        bool foreign = how == HSP_STANDS_FOREIGN || how == HSP_STANDS_NOT_ADOPTED;
        x.why = fault_of(c, n, m, &m->kept[i]);
        x.as = x.why != NULL && foreign ? HSP_PARKED_FOREIGN : x.as;
    }
    if (x.why == NULL && c->behind) {
        x.why = c->behind_why;
        x.as = HSP_PARKED_WAITS;
    }
    return x;
}

static bool keep_jobs(struct hsp_cluster *c, struct hsp_parked *p, const struct hsp_m_hello *m)
{
    c->n_parked_jobs += m->n_kept;
    p->jobs = calloc((size_t)m->n_kept + 1, sizeof(*p->jobs));
    for (uint32_t i = 0; p->jobs != NULL && i < m->n_kept; i++) {
        const struct hsp_m_kept *k = &m->kept[i];
        struct hsp_parked_job *j = &p->jobs[p->n_jobs++];
        *j = (struct hsp_parked_job){.cluster = k->cluster,
                                     .job = k->job,
                                     .generation = k->generation,
                                     .epoch = k->epoch,
                                     .plan = k->plan,
                                     .papers_damaged = k->papers_damaged};
        hsp_str_printf(j->name, sizeof(j->name), "%s", hsp_name_valid(k->name) ? k->name : "");
    }
    return p->jobs != NULL;
}

/* ---- too many agents ---- */

/* The agent of @conn has no place: it is told when to come back. An agent too old for PARKED comes
 * when it likes. */
static void turn_away(struct hsp_cluster *c, uint32_t conn, const char *name, uint32_t protocol,
                      const char *why)
{
    if (protocol >= HSP_PROTO_AGAIN) {
        struct hsp_msg m = {.type = HSP_MSG_PARKED,
                            .u.parked = {.cluster = c->id,
                                         .generation = c->generation,
                                         .heartbeat_ms = c->cfg.heartbeat_ms,
                                         .dead_ms = c->cfg.dead_ms,
                                         .reason = why,
                                         .again_ms = hsp_ci_crowd_again(c)}};
        hsp_ci_send(c, conn, &m);
    }
    hsp_ci_close(c, conn, why);
    hsp_ci_crowd_tell(c, name);
}

/* False: there is no room for the agent that says @m. */
static bool make_room(struct hsp_cluster *c, const struct hsp_m_hello *m,
                      const struct hsp_park_cause *cause)
{
    const struct hsp_crowd_caller who = {m->node, cause->as, cause->source, m->n_kept};
    const struct hsp_parked *p;
    while (hsp_ci_crowd_place(c, &who, &p)) {
        if (p == NULL) {
            return true;
        }
        uint32_t conn = p->conn;
        turn_away(c, conn, p->name, p->protocol, "another agent that is no member has its place");
        (void)hsp_ci_unpark(c, conn);
    }
    return false;
}

void hsp_ci_park(struct hsp_cluster *c, uint32_t conn, const struct hsp_m_hello *m,
                 const struct hsp_park_cause *cause)
{
    struct hsp_cluster_node *n = named_node(c, m->node);
    if (!make_room(c, m, cause)) {
        turn_away(c, conn, m->node, cause->protocol, "too many agents that are no members");
        return;
    }
    if (!hsp_grow(&c->parked, &c->cap_parked, (size_t)c->n_parked + 1, sizeof(*c->parked),
                  HSP_MAX_PARKED) ||
        hsp_map_put_u64(&c->parked_conn, conn, c->n_parked) != HSP_OK) {
        c->failed = true;
        return;
    }
    struct hsp_parked *p = &c->parked[c->n_parked++];
    *p = (struct hsp_parked){.conn = conn,
                             .cluster = m->cluster,
                             .was = m->was,
                             .source = cause->source,
                             .since = c->n_ever_parked++,
                             .since_ms = c->now_ms,
                             .protocol = cause->protocol,
                             .generation = m->generation,
                             .term = m->term,
                             .ahead = cause->ahead,
                             .claims = cause->claims,
                             .as = cause->as};
    hsp_str_printf(p->name, sizeof(p->name), "%s", m->node);
    hsp_str_printf(p->address, sizeof(p->address), "%s", m->address);
    hsp_str_printf(p->why, sizeof(p->why), "%s", cause->why);
    c->failed = !keep_jobs(c, p, m) || c->failed;
    if (p->claims && n->claim_ms == 0) {
        n->claim_ms = c->now_ms + c->cfg.state_wait_ms;
    }
    struct hsp_msg say = {.type = HSP_MSG_PARKED,
                          .u.parked = {.cluster = c->id,
                                       .generation = c->generation,
                                       .heartbeat_ms = c->cfg.heartbeat_ms,
                                       .dead_ms = c->cfg.dead_ms,
                                       .reason = p->why}};
    hsp_ci_send(c, conn, &say);
    bool proven = p->as == HSP_PARKED_AHEAD; /* any other may say hello as often as it likes */
    struct hsp_fact *f = proven || hsp_ci_may_complain(c, c->parked_told, p->source)
                             ? hsp_ci_fact(c, "node.parked", HSP_SEV_WARN, NULL, NULL, "%s", p->why)
                             : NULL;
    if (f != NULL) {
        f->node = hsp_ci_printf(c, "%s", p->name);
    }
}

static struct hsp_m_kept kept_by(const struct hsp_parked_job *p)
{
    return (struct hsp_m_kept){.job = p->job,
                               .name = p->name,
                               .cluster = p->cluster,
                               .generation = p->generation,
                               .epoch = p->epoch,
                               .plan = p->plan};
}

enum hsp_standing hsp_ci_parked_standing(const struct hsp_cluster *c,
                                         const struct hsp_parked_job *p)
{
    struct hsp_m_kept k = kept_by(p);
    return hsp_ci_standing(c, &k);
}

/* Finds the state of @j that @p, which has proven its node, keeps beyond the record; false:
 * none. */
static bool ahead_of(const struct hsp_cluster *c, const struct hsp_parked *p,
                     const struct hsp_job *j, struct hsp_m_kept *ret)
{
    for (uint32_t i = 0; i < p->n_jobs && p->as == HSP_PARKED_AHEAD; i++) {
        struct hsp_m_kept k = kept_by(&p->jobs[i]);
        bool can = hsp_ci_epoch_can_be(c, k.epoch) && hsp_ci_can_be(c, k.generation, k.plan);
        if (k.job == j->id && can && hsp_ci_standing(c, &k) == HSP_STANDS_NEWER) {
            *ret = k;
            return true;
        }
    }
    return false;
}

bool hsp_ci_is_ahead(const struct hsp_cluster *c, const struct hsp_parked *p,
                     const struct hsp_job *j)
{
    struct hsp_m_kept k;
    return ahead_of(c, p, j, &k);
}

const struct hsp_parked *hsp_ci_ahead_of(const struct hsp_cluster *c, const struct hsp_job *j)
{
    for (uint32_t i = 0; i < c->n_parked; i++) {
        if (hsp_ci_is_ahead(c, &c->parked[i], j)) {
            return &c->parked[i];
        }
    }
    return NULL;
}

uint64_t hsp_ci_ahead_given_in(const struct hsp_cluster *c, const struct hsp_job *j)
{
    struct hsp_m_kept k;
    uint64_t last = 0;
    bool any = false;
    for (uint32_t i = 0; i < c->n_parked; i++) {
        if (ahead_of(c, &c->parked[i], j, &k)) {
            uint64_t in = hsp_ci_given_in(c, &k);
            last = in > last ? in : last;
            any = true;
        }
    }
    return any ? last : UINT64_MAX;
}

void hsp_ci_give_up_ahead(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_m_kept k;
    for (uint32_t i = 0; i < c->n_parked; i++) {
        if (ahead_of(c, &c->parked[i], j, &k)) {
            hsp_ci_epoch_seen(j, k.epoch);
            hsp_ci_plan_seen(j, k.plan);
        }
    }
}

/* The node under whose name @p claims a newer epoch of @j; NULL: no claim of @p counts now. */
static struct hsp_cluster_node *claims(struct hsp_cluster *c, const struct hsp_parked *p,
                                       const struct hsp_job *j)
{
    struct hsp_cluster_node *n = p->claims ? named_node(c, p->name) : NULL;
    bool may = n != NULL && n->conn == 0 && c->now_ms < n->claim_ms && hsp_ci_is_member(c, j, n);
    bool does = false;
    for (uint32_t i = 0; may && i < p->n_jobs; i++) {
        struct hsp_m_kept k = kept_by(&p->jobs[i]);
        does = does || (k.job == j->id && hsp_ci_standing(c, &k) == HSP_STANDS_NEWER);
    }
    return does ? n : NULL;
}

const struct hsp_cluster_node *hsp_ci_claimed(struct hsp_cluster *c, const struct hsp_job *j)
{
    struct hsp_cluster_node *by = NULL;
    for (uint32_t i = 0; i < c->n_parked && by == NULL; i++) {
        by = claims(c, &c->parked[i], j);
    }
    return by;
}

bool hsp_ci_end_claim(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    bool held = c->now_ms < n->claim_ms;
    n->claim_ms = held ? c->now_ms : n->claim_ms;
    return held;
}

struct hsp_parked *hsp_ci_parked_of(const struct hsp_cluster *c, uint32_t conn)
{
    uint32_t at;
    return conn != 0 && hsp_map_get_u64(&c->parked_conn, conn, &at) ? &c->parked[at] : NULL;
}

const struct hsp_parked *hsp_cluster_parked_by_name(const struct hsp_cluster *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_parked; i++) {
        if (strcmp(c->parked[i].name, name) == 0) {
            return &c->parked[i];
        }
    }
    return NULL;
}

bool hsp_ci_unpark(struct hsp_cluster *c, uint32_t conn)
{
    struct hsp_parked *p = hsp_ci_parked_of(c, conn);
    if (p == NULL) {
        return false;
    }
    if (p->claims || p->as == HSP_PARKED_AHEAD) {
        hsp_ci_jobs_dirty(c);
    }
    c->n_parked_jobs -= p->n_jobs;
    free(p->jobs);
    (void)hsp_map_remove_u64(&c->parked_conn, conn); /* it is there */
    uint32_t last = --c->n_parked;
    if (p != &c->parked[last]) {
        *p = c->parked[last];
        c->failed = c->failed ||
                    hsp_map_put_u64(&c->parked_conn, p->conn, (uint32_t)(p - c->parked)) != HSP_OK;
    }
    return true;
}

void hsp_ci_judge_again(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_parked; i++) {
        hsp_ci_close(c, c->parked[i].conn, "say hello again");
    }
}

void hsp_ci_judge_job(struct hsp_cluster *c, uint32_t job)
{
    for (uint32_t i = 0; i < c->n_parked; i++) {
        const struct hsp_parked *p = &c->parked[i];
        bool keeps = false;
        for (uint32_t k = 0; k < p->n_jobs && !keeps; k++) {
            struct hsp_digest whose = p->jobs[k].cluster;
            keeps = p->jobs[k].job == job &&
                    (hsp_digest_equal(whose, c->id) || hsp_ci_has_adopted(c, whose));
        }
        if (keeps) {
            hsp_ci_close(c, p->conn, "say hello again");
        }
    }
}

void hsp_ci_judge_node(struct hsp_cluster *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_parked; i++) {
        if (strcmp(c->parked[i].name, name) == 0) {
            hsp_ci_close(c, c->parked[i].conn, "say hello again");
        }
    }
}

const char *hsp_parked_name(enum hsp_parked_as as)
{
    static const char *const names[] = {"foreign", "ahead", "unproven", "waiting"};
    return names[as];
}

void hsp_ci_parked_free(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_parked; i++) {
        free(c->parked[i].jobs);
    }
    free(c->parked);
    hsp_map_fini(&c->parked_conn);
}
