#include "daemon/cluster/adopt.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_papers.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_list.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/membership.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/row_load.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/standing.h"
#include "proto/base/str.h"
#include "proto/wire/papers.h"

#define ARENA ((size_t)1 << 20) /* loading rows needs next to none */
/* No cluster has had so many stores put back. Papers that an administrator names may be further: so
 * papers made after those of a liar can still be adopted. */
#define MOST_GENERATIONS (1u << 20)
#define MOST_NAMED       (1u << 31)
#define MISSING          5u /* names in a message */

/* ---- the lost store, as far as the papers tell it ---- */

static struct hsp_cluster *lost_free(struct hsp_cluster *l)
{
    if (l != NULL) {
        for (uint32_t i = 0; i < l->n_jobs; i++) {
            hsp_ci_job_free(l->jobs[i]);
        }
        hsp_ci_index_fini(l);
        free(l->nodes);
        (void)hsp_arena_free(l->arena);
        free(l);
    }
    return NULL;
}

static struct hsp_cluster *lost_new(const struct hsp_cluster *c)
{
    struct hsp_cluster *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return NULL;
    }
    l->cfg = c->cfg;
    hsp_ci_index_init(l);
    l->arena = hsp_arena_new(ARENA);
    return l->arena != NULL ? l : lost_free(l);
}

static enum hsp_status load(struct hsp_cluster *l, const struct hsp_papers *p, struct hsp_err *err)
{
    static const char *const kinds[] = {"node/", "job/", "plan/"};
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (uint32_t i = 0; st == HSP_OK && i < p->n; i++) {
            struct hsp_cluster_row r = {p->row[i].key, p->row[i].value, p->row[i].len};
            if (strncmp(r.key, kinds[k], strlen(kinds[k])) == 0) {
                st = hsp_ci_load_row(l, &r, err);
            }
        }
    }
    return st;
}

/* Its node has a name, and no other one has that name. */
static bool names_node(const struct hsp_cluster *l, hsp_device_id d)
{
    uint32_t at = HSP_DEVICE_NODE(d), named;
    return at < l->n_nodes && hsp_name_valid(l->nodes[at].name) &&
           hsp_map_get(&l->by_name, l->nodes[at].name, &named) && named == at;
}

/* Numbers from here on no coordinator has given, up to some generations after the papers. */
static uint64_t end_of_numbers(const struct hsp_papers *p)
{
    uint64_t last = (uint64_t)hsp_generation_number(p->whose.generation) + HSP_NEXT_GENERATIONS;
    return (last + 1) * HSP_GENERATION_NUMBERS;
}

/* Numbers of @j, the job of @p, beyond those that a coordinator gives; NULL: none is. Taken over,
 * such numbers would leave none for later epochs and layouts. */
static const char *beyond(const struct hsp_job *j, const struct hsp_papers *p)
{
    uint64_t end = end_of_numbers(p);
    bool generation = hsp_generation_number(p->whose.generation) >= MOST_NAMED;
    bool epoch = p->epoch >= end || j->next_epoch > end || j->next_plan > end;
    return p->job >= HSP_MAX_FOREIGN
               ? "the number of the job is too great: numbers end at 2147483646"
           : generation ? "its generation is too great: generations end at 2147483647"
           : epoch      ? "its epochs or layouts have numbers of generations that are far ahead"
                        : NULL;
}

/* The loaded rows are one job with a layout, as a coordinator makes them. */
static bool makes_sense(const struct hsp_cluster *l, const struct hsp_papers *p)
{
    const struct hsp_job *j = l->n_jobs == 1 ? l->jobs[0] : NULL;
    bool ok = j != NULL && j->id == p->job && p->job != 0 && hsp_name_valid(j->name) &&
              j->min > 0 && j->max >= j->min && j->max <= HSP_MSG_RANKS && j->copies > 0 &&
              j->steps > 0 && j->n_plans > 0 && j->cur.epoch == 0 && j->att.epoch == 0 &&
              j->n_leases == 0 && j->n_past == 0 && j->n_marks == 0 &&
              (j->origin == HSP_MODE_FRESH || j->origin == HSP_MODE_RESTORE);
    for (uint32_t i = 0; ok && i < j->n_plans; i++) {
        const struct hsp_plan_info *f = &j->plans[i].info;
        ok = (i == 0 || j->plans[i - 1].plan < j->plans[i].plan) &&
             j->plans[i].plan < end_of_numbers(p);
        for (uint32_t k = 0; ok && k < f->n_ranks + f->n_replica_holders; k++) {
            ok = names_node(l, hsp_ci_holder(f, k));
        }
    }
    return ok;
}

/* Why papers that were loaded are not taken; NULL: they are. */
static const char *unusable(const struct hsp_cluster *l, const struct hsp_papers *p)
{
    return makes_sense(l, p) ? beyond(l->jobs[0], p) : "it is not the record of one job";
}

/* @p, loaded: hsp_ci_papers_fit has the errors. */
static enum hsp_status read_lost(const struct hsp_cluster *c, const struct hsp_papers *p,
                                 struct hsp_cluster **ret, struct hsp_err *err)
{
    struct hsp_cluster *l = lost_new(c);
    enum hsp_status st = l != NULL ? load(l, p, err) : HSP_ENOMEM;
    const char *no = st == HSP_OK ? unusable(l, p) : err->msg;
    if (st == HSP_ENOMEM || (l != NULL && l->failed)) {
        st = hsp_err_nomem(err, "the record of job %u", p->job);
    } else if (no != NULL) {
        char why[sizeof(err->msg)];
        hsp_str_printf(why, sizeof(why), "%s", no);
        st = hsp_err_set(err, st == HSP_EVERSION ? st : HSP_EDIGEST, 0,
                         "the record of job %u cannot be used: %s", p->job, why);
    }
    *ret = st == HSP_OK ? l : lost_free(l);
    return st;
}

static bool same_plan(const struct hsp_job_plan *a, const struct hsp_adopted_plan *b)
{
    bool same = a->plan == b->plan && a->info.n_ranks == b->n_ranks;
    for (uint32_t i = 0; same && i < b->n_ranks; i++) {
        same = a->info.device[i] == b->device[i];
    }
    return same;
}

/* Names the fact that @t and @plan tell otherwise than @j; NULL: none. */
static const char *other_than(const struct hsp_job *j, const struct hsp_job_terms *t, uint32_t n,
                              const struct hsp_adopted_plan *plan)
{
    const char *data = t->data_path != NULL ? t->data_path : "";
    const char *ckpt = t->checkpoint_path != NULL ? t->checkpoint_path : "";
    bool all = n == j->n_plans;
    for (uint32_t i = 0; all && i < j->n_plans; i++) {
        bool has = false;
        for (uint32_t k = 0; k < n && !has; k++) {
            has = same_plan(&j->plans[i], &plan[k]);
        }
        all = has;
    }
    return strcmp(j->name, t->name) != 0           ? "its name"
           : strcmp(j->data_path, data) != 0       ? "the path of its data"
           : strcmp(j->checkpoint_path, ckpt) != 0 ? "the path of its checkpoints"
           : !all                                  ? "its layouts"
                                                   : NULL;
}

enum hsp_status hsp_ci_papers_fit(const struct hsp_cluster *c, const struct hsp_papers *p,
                                  const struct hsp_job_terms *t, uint32_t n,
                                  const struct hsp_adopted_plan *plan, struct hsp_err *err)
{
    struct hsp_cluster *l = NULL;
    enum hsp_status st = read_lost(c, p, &l, err);
    const char *what = st == HSP_OK ? other_than(l->jobs[0], t, n, plan) : NULL;
    if (what != NULL) {
        st = hsp_err_set(err, HSP_EPARSE, 0, "the record of job %u contradicts itself on %s",
                         p->job, what);
    }
    (void)lost_free(l);
    return st;
}

/* ---- reasons against an adoption ---- */

static const char *too_far(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    uint32_t g = hsp_generation_number(a->papers->whose.generation);
    bool named = a->node != NULL && a->node[0] != '\0';
    if (!named && a->papers->job >= HSP_JOBS_FOLLOWED) {
        return hsp_ci_printf(c,
                             "the job number %u is too large to be true: --from NODE accepts the "
                             "record of that node anyway",
                             a->papers->job);
    }
    return named || g < MOST_GENERATIONS
               ? NULL
               : hsp_ci_printf(c,
                               "the record of job %u has generation %u, too large to be true: "
                               "--from NODE accepts the record of that node anyway",
                               a->papers->job, g);
}

/* The hint for a job that is on record here: an hspmdd with another folder may have taken over its
 * agents by mistake, and the job has gone on there. */
static const char *where_else(struct hsp_cluster *c, const struct hsp_papers *p, bool ours)
{
    return ours ? ""
                : hsp_ci_printf(c,
                                "; start hspmdd with the state_dir of %s again, which continues it "
                                "(hspmdd(8), RECOVERY)",
                                hsp_ci_cluster_text(c, p->whose.cluster));
}

static const char *taken(struct hsp_cluster *c, const struct hsp_papers *p, const char *name)
{
    const struct hsp_job *j = hsp_ci_job(c, p->job);
    const struct hsp_job *other = hsp_cluster_job_by_name(c, name);
    other = other != NULL && hsp_ci_not_adopted(other) ? NULL : other;
    bool ours = hsp_digest_equal(p->whose.cluster, c->id);
    bool same_from = j != NULL && (ours || hsp_digest_equal(p->whose.cluster, j->from));
    if (j != NULL && (j->state != HSP_JOB_BEHIND || !same_from)) {
        return hsp_ci_printf(c, "job %u is job %s here, which is %s: there is nothing to adopt%s",
                             j->id, j->name, hsp_job_state_name(j->state),
                             where_else(c, p, same_from));
    }
    if (j == NULL && hsp_ci_job_is_over(c, p->job)) {
        return hsp_ci_printf(
            c, "job %u has ended here%s; hspmdctl node discard deletes its remaining state", p->job,
            where_else(c, p, ours));
    }
    if (other != NULL && other->id != p->job && !hsp_job_terminal(other->state)) {
        return hsp_ci_printf(c, "another job %s is %s here: cancel it first, or let it end", name,
                             hsp_job_state_name(other->state));
    }
    return NULL;
}

/* A parked agent has a name like any other: it counts when it says that it keeps the job. */
static bool is_here(const struct hsp_cluster *c, const char *name, const struct hsp_papers *p)
{
    const struct hsp_cluster_node *n = hsp_cluster_node_by_name(c, name);
    bool is = n != NULL && n->conn != 0;
    for (uint32_t i = 0; i < c->n_parked && !is; i++) {
        const struct hsp_parked *x = &c->parked[i];
        for (uint32_t k = 0; k < x->n_jobs && !is && strcmp(x->name, name) == 0; k++) {
            is = x->jobs[k].job == p->job && hsp_digest_equal(x->jobs[k].cluster, p->whose.cluster);
        }
    }
    return is;
}

/* Nodes of the newest layout that are not here: they may have gone on without the others. */
static const char *missing(struct hsp_cluster *c, const struct hsp_cluster *l,
                           const struct hsp_papers *p)
{
    const struct hsp_job *j = l->jobs[0];
    const struct hsp_plan_info *f = &j->plans[j->n_plans - 1].info;
    const char *list = NULL;
    bool *seen = hsp_ci_alloc(c, l->n_nodes, sizeof(*seen));
    uint32_t n = 0;
    for (uint32_t k = 0; seen != NULL && k < f->n_ranks + f->n_replica_holders; k++) {
        uint32_t at = HSP_DEVICE_NODE(hsp_ci_holder(f, k));
        const char *name = l->nodes[at].name;
        if (!seen[at] && !is_here(c, name, p)) {
            list = n == 0         ? name
                   : n < MISSING  ? hsp_ci_printf(c, "%s, %s", list, name)
                   : n == MISSING ? hsp_ci_printf(c, "%s and others", list)
                                  : list;
            n++;
        }
        seen[at] = true;
    }
    return list == NULL
               ? NULL
               : hsp_ci_printf(
                     c,
                     "job %s: nodes of its newest layout are not connected and may have newer "
                     "state: %s; start their agents, or use --force if they are lost for good",
                     j->name, list);
}

static const char *no_room(struct hsp_cluster *c, const struct hsp_cluster *l,
                           const struct hsp_papers *p)
{
    uint32_t more = 0;
    bool fresh =
        !hsp_digest_equal(p->whose.cluster, c->id) && !hsp_ci_has_adopted(c, p->whose.cluster);
    for (uint32_t i = 0; i < l->n_nodes; i++) {
        const char *name = l->nodes[i].name;
        more += name[0] != '\0' && hsp_cluster_node_by_name(c, name) == NULL;
    }
    if (c->n_nodes - c->n_vacant + more > HSP_MAX_NODES) {
        return "too many nodes: remove lost nodes with hspmdctl node remove";
    }
    return fresh && c->n_adopted == HSP_MAX_ADOPTED
               ? hsp_ci_printf(c, "jobs of %u other clusters have been adopted here already",
                               c->n_adopted)
               : NULL;
}

/* ---- taking over ---- */

static bool keeps(const struct hsp_parked *x, const struct hsp_papers *p)
{
    bool does = false;
    for (uint32_t k = 0; k < x->n_jobs && !does; k++) {
        does = x->jobs[k].job == p->job && hsp_digest_equal(x->jobs[k].cluster, p->whose.cluster);
    }
    return does;
}

/* The papers are those of the agent of @conn. */
static bool told_them(const struct hsp_admin_event *a, uint32_t conn)
{
    bool did = false;
    for (uint32_t i = 0; i < a->n_agents && !did; i++) {
        did = a->agent[i] == conn;
    }
    return did;
}

/* The first parked agent of node @name whose papers of @a were taken, else the first that keeps the
 * job; NULL: there is none. */
static const struct hsp_parked *replica_holder_of(const struct hsp_cluster *c, const char *name,
                                                  const struct hsp_admin_event *a)
{
    const struct hsp_parked *first = NULL;
    for (uint32_t i = 0; i < c->n_parked; i++) {
        const struct hsp_parked *x = &c->parked[i];
        bool may = strcmp(x->name, name) == 0 && keeps(x, a->papers);
        if (may && told_them(a, x->conn)) {
            return x;
        }
        first = may && first == NULL ? x : first;
    }
    return first;
}

/* The node of this name here; one that is parked is waited for like one that the store knows. The
 * administrator means the agent that is here and keeps the job: no other takes the name of a new
 * node before it. */
static uint32_t take_node(struct hsp_cluster *c, const char *name, const struct hsp_admin_event *a)
{
    uint32_t at;
    const struct hsp_parked *replica_holder = replica_holder_of(c, name, a);
    struct hsp_cluster_node *n =
        hsp_map_get(&c->by_name, name, &at) ? &c->nodes[at] : hsp_ci_node_new(c, name);
    if (n == NULL) {
        return 0; /* no memory */
    }
    if (n->conn == 0 && replica_holder != NULL) {
        hsp_ci_node_state(c, n, HSP_NODE_AWAY);
        n->unheard = true;
        n->gone_s = 0;
        hsp_ci_node_reason(n, "");
        n->secret = n->incarnation == 0 && replica_holder != NULL ? replica_holder->was : n->secret;
        c->grace_ms = c->now_ms + c->cfg.dead_ms;
    } else if (n->incarnation == 0) {
        hsp_ci_node_reason(n, "has not joined yet");
    }
    hsp_ci_store_node(c, n);
    return hsp_ci_index_of(c, n);
}

static void move_devices(struct hsp_job *j, const uint32_t *to)
{
    for (uint32_t i = 0; i < j->n_plans; i++) {
        struct hsp_job_plan *p = &j->plans[i];
        for (uint32_t k = 0; k < p->info.n_ranks; k++) {
            hsp_device_id d = p->info.device[k];
            p->info.device[k] = HSP_DEVICE(to[HSP_DEVICE_NODE(d)], HSP_DEVICE_INDEX(d));
        }
        for (uint32_t k = 0; k < p->info.n_replica_holders; k++) {
            hsp_device_id d = p->info.replica_holder[k];
            p->info.replica_holder[k] = HSP_DEVICE(to[HSP_DEVICE_NODE(d)], HSP_DEVICE_INDEX(d));
        }
        /* An epoch with this layout may have begun after the papers were made. Its members are not
         * known. */
        p->started = true;
        p->since = 0;
        free(p->holder);
        p->holder = NULL;
    }
}

/* Numbers that were given elsewhere, as far as anybody here has seen them. */
static void see(const struct hsp_cluster *c, struct hsp_job *j, const struct hsp_papers *p,
                const struct hsp_job *old)
{
    uint64_t epoch = p->epoch + 1, plan = j->plans[j->n_plans - 1].plan + 1;
    uint64_t end = end_of_numbers(p);
    for (uint32_t i = 0; i < c->n_parked; i++) {
        for (uint32_t k = 0; k < c->parked[i].n_jobs; k++) {
            const struct hsp_parked_job *q = &c->parked[i].jobs[k];
            if (q->job == p->job && hsp_digest_equal(q->cluster, p->whose.cluster)) {
                epoch = q->epoch >= epoch && q->epoch < end ? q->epoch + 1 : epoch;
                plan = q->plan >= plan && q->plan < end ? q->plan + 1 : plan;
            }
        }
    }
    epoch = old->next_epoch > epoch ? old->next_epoch : epoch;
    plan = old->next_plan > plan ? old->next_plan : plan;
    j->next_epoch = j->next_epoch > epoch ? j->next_epoch : epoch;
    j->next_plan = j->next_plan > plan ? j->next_plan : plan;
    j->n_gaps = 0;
}

/* Puts the job of the papers in the place of @j, which keeps its devices. */
static void replace(struct hsp_cluster *c, struct hsp_job *j, struct hsp_job *by)
{
    struct hsp_job was = *j;
    for (uint32_t i = was.n_plans; i-- > 0;) {
        if (hsp_ci_plan(by, was.plans[i].plan) == NULL) {
            hsp_ci_drop_plan(c, j, was.plans[i].plan);
        }
    }
    was = *j;
    *j = *by;
    *by = was; /* freed with the lost store */
    j->n_leases = was.n_leases;
    j->cap_leases = was.cap_leases;
    j->leases = was.leases;
    j->n_marks = was.n_marks;
    j->cap_marks = was.cap_marks;
    j->marks = was.marks;
    by->leases = NULL;
    by->n_leases = 0;
    by->marks = NULL;
    by->n_marks = 0;
}

/* The terms as they were, nothing under way. */
static void put_at_rest(struct hsp_job *j)
{
    j->state = HSP_JOB_PAUSED;
    j->reason[0] = '\0';
    j->unrecorded = false;
    j->suspending = j->ckpt_asked = j->doubted = false;
    j->ran_unknown = true; /* papers do not say it */
    j->ahead[0] = '\0';
    j->suspend_epoch = 0;
    j->lost_from = j->stable;
}

static void take_job(struct hsp_cluster *c, struct hsp_cluster *l, const struct hsp_admin_event *a)
{
    const struct hsp_papers *p = a->papers;
    struct hsp_job *by = l->jobs[0], *j = hsp_ci_job(c, p->job);
    uint32_t *to = hsp_ci_alloc(c, l->n_nodes, sizeof(*to));
    for (uint32_t i = 0; to != NULL && i < l->n_nodes; i++) {
        to[i] = l->nodes[i].name[0] != '\0' ? take_node(c, l->nodes[i].name, a) : 0;
    }
    j = j != NULL ? j : hsp_ci_job_add(c, p->job);
    if (j == NULL || to == NULL || c->failed) {
        c->failed = true;
        return;
    }
    move_devices(by, to);
    see(c, by, p, j);
    if (!hsp_digest_equal(p->whose.cluster, c->id)) {
        by->from = p->whose.cluster;
    }
    by->born = hsp_cluster_none(by->born) ? p->whose.cluster : by->born;
    by->born = hsp_digest_equal(by->born, c->id) ? (struct hsp_digest){0, 0} : by->born;
    hsp_ci_job_number_seen(c, p->job, HSP_LOST_JOBS);
    replace(c, j, by);
    put_at_rest(j);
    for (uint32_t i = 0; i < j->n_plans; i++) {
        hsp_ci_store_plan(c, j, &j->plans[i]);
    }
    hsp_ci_store_job(c, j);
}

/* Members that keep @j have said hello before it was adopted: each is told the cluster of @j, and
 * is asked for the pieces that it holds. */
static void ask_members(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_papers_round r = {.from = j->from};
    for (uint32_t i = 0; i < j->n_marks; i++) {
        struct hsp_job_mark *k = &j->marks[i];
        if (k->keeps && c->nodes[k->node].conn != 0) {
            hsp_ci_papers_send(c, j, k->node, &r);
            k->seal = 1;
        }
    }
}

const char *hsp_ci_adopt(struct hsp_cluster *c, const struct hsp_admin_event *a,
                         enum hsp_status *ret_status)
{
    const struct hsp_papers *p = a->papers;
    struct hsp_cluster *l = NULL;
    struct hsp_err err = {0};
    enum hsp_status st = read_lost(c, p, &l, &err);
    if (st != HSP_OK) {
        c->failed = c->failed || st == HSP_ENOMEM;
        *ret_status = st;
        return hsp_ci_printf(c, "%s", err.msg);
    }
    *ret_status = HSP_ESTATE;
    const char *why = too_far(c, a);
    why = why != NULL ? why : taken(c, p, l->jobs[0]->name);
    if (why == NULL && !a->force && (why = missing(c, l, p)) != NULL) {
        *ret_status = HSP_ENODEV; /* the nodes may come */
    }
    why = why != NULL ? why : no_room(c, l, p);
    if (why == NULL) {
        hsp_ci_take_over(c, p->whose);
        take_job(c, l, a);
        hsp_ci_welcome_all(c);
    }
    (void)lost_free(l);
    struct hsp_job *j = why == NULL && !c->failed ? hsp_ci_job(c, p->job) : NULL;
    if (j != NULL) {
        hsp_ci_fact(c, "job.adopted", HSP_SEV_NOTICE, j, NULL,
                    "from the job record of %s; its next epochs are of generation %u", a->reason,
                    hsp_generation_number(c->generation));
        hsp_ci_job_loss(c, j, "adopted from its agents");
        ask_members(c, j);
        j->failures = 0;
        j->retry_ms = 0;
        hsp_ci_judge_again(c);
    }
    return why;
}
