#include "daemon/cluster/forget.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/node_check.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"

/* A gone node is looked at so many times before it is forgotten, but at most once a second. */
#define LOOKS    8u
#define LEAST_MS 1000u
#define MOST_MS  3600000u

/* ---- uses of a node ---- */

static bool names(const hsp_device_id *list, uint32_t n, uint32_t node)
{
    for (uint32_t i = 0; i < n; i++) {
        if (HSP_DEVICE_NODE(list[i]) == node) {
            return true;
        }
    }
    return false;
}

/* One of peers @from.. of @e is there. */
static bool takes_part(const struct hsp_cl_epoch *e, uint32_t from, uint32_t to, uint32_t node)
{
    for (uint32_t i = from; i < to; i++) {
        if (HSP_DEVICE_NODE(e->peers[i].device) == node) {
            return true;
        }
    }
    return false;
}

/* Sources of an epoch that has settled are not needed, once all of them have let go. */
static bool lets_go(const struct hsp_cluster *c, const struct hsp_job *j)
{
    const struct hsp_cl_epoch *e = &j->cur;
    bool free = e->settled;
    for (uint32_t i = hsp_ci_participants(e); free && i < e->n_peers; i++) {
        free = hsp_ci_device(c, e->peers[i].device)->job != j->id;
    }
    return free;
}

static bool in_layouts(const struct hsp_job *j, uint32_t node)
{
    bool is = false;
    for (uint32_t i = 0; i < j->n_plans && !is; i++) {
        const struct hsp_plan_info *p = &j->plans[i].info;
        is = names(p->device, p->n_ranks, node) ||
             names(p->replica_holder, p->n_replica_holders, node);
    }
    return is;
}

/* The time for the state of @j is over, and it waits for nodes that may have a checkpoint: its
 * REASON says that one that is gone for good is to be removed. State that others bring later counts
 * all the same. */
static bool looks_on(const struct hsp_cluster *c, const struct hsp_job *j)
{
    bool idle = j->state == HSP_JOB_RECOVERING || j->state == HSP_JOB_PAUSED;
    bool over = j->state_deadline_ms != 0 && c->now_ms >= j->state_deadline_ms;
    return idle && over && j->ckpt_deadline_ms != 0 && j->att.epoch == 0;
}

static const char *needs(struct hsp_cluster *c, const struct hsp_job *j, uint32_t node)
{
    if (looks_on(c, j)) {
        const char *who = in_layouts(j, node) ? hsp_ci_awaited_without(c, j, node) : NULL;
        return who != NULL ? hsp_ci_printf(c,
                                           "job %s may resume from state that %s brings, which "
                                           "the removal would discard; to give that state up: "
                                           "hspmdctl cancel %s, then remove the node, and "
                                           "resume",
                                           j->name, who, j->name)
                           : NULL;
    }
    if (in_layouts(j, node)) {
        return hsp_ci_printf(c, "job %s may need the state that it holds", j->name);
    }
    uint32_t end = lets_go(c, j) ? hsp_ci_participants(&j->cur) : j->cur.n_peers;
    if (takes_part(&j->cur, 0, end, node) || takes_part(&j->att, 0, j->att.n_peers, node)) {
        return hsp_ci_printf(c, "it is part of an epoch of job %s", j->name);
    }
    return NULL;
}

static bool is_checked(const struct hsp_cluster *c, uint32_t node)
{
    for (uint32_t i = 0; i < c->check.n_nodes; i++) {
        if (c->check.nodes[i].node == node) {
            return true;
        }
    }
    return false;
}

const char *hsp_ci_forget_fault(struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    uint32_t at = hsp_ci_index_of(c, n);
    const char *why = NULL;
    if (n->conn != 0) {
        return "it is connected: stop its agent first";
    }
    if (!hsp_ci_node_gone(n)) {
        return hsp_ci_printf(
            c, "it is %s and may come back: it is dead when it has been silent for %u ms",
            hsp_node_state_name(n->state), c->cfg.dead_ms);
    }
    for (uint32_t i = 0; why == NULL && i < c->n_jobs; i++) {
        why = needs(c, c->jobs[i], at);
    }
    return why != NULL                            ? why
           : c->check.active && is_checked(c, at) ? "a check of nodes names it"
                                                  : NULL;
}

/* ---- forgetting ---- */

static void drop_from_job(struct hsp_cluster *c, struct hsp_job *j, uint32_t node)
{
    bool asked = names(j->asked, j->n_asked + j->n_declined, node);
    const struct hsp_job_mark *mark = hsp_ci_marked(j, node);
    bool ran = mark != NULL && mark->ran;
    hsp_ci_held_drop_node(c, j, node);
    hsp_ci_mark_drop(j, node);
    hsp_ci_unlearn_node(j, node, false);
    hsp_ci_epoch_fini(&j->over);
    if (in_layouts(j, node) || takes_part(&j->cur, 0, hsp_ci_participants(&j->cur), node)) {
        hsp_ci_layouts_over(c, j);
        hsp_ci_job_dirty(c, j);
    }
    if (asked) { /* the node could be part of the answer */
        hsp_ci_cancel_plan(c, j);
        j->n_asked = j->n_declined = 0;
        j->asked_valid = false;
        hsp_ci_job_dirty(c, j);
    }
    if (takes_part(&j->cur, hsp_ci_participants(&j->cur), j->cur.n_peers, node)) {
        j->cur.n_peers = hsp_ci_participants(&j->cur);
        c->failed = c->failed || !hsp_ci_epoch_index(&j->cur);
        ran = true;
    }
    if (ran) { /* its row names it */
        hsp_ci_store_job(c, j);
        hsp_ci_job_dirty(c, j);
    }
}

void hsp_ci_forget(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *why)
{
    uint32_t at = hsp_ci_index_of(c, n);
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        drop_from_job(c, c->jobs[i], at);
    }
    if (is_checked(c, at)) { /* one that is over */
        hsp_ci_check_fini(c);
        c->check.n_nodes = c->check.n_pairs = 0;
    }
    hsp_ci_fact(c, "node.forgotten", HSP_SEV_NOTICE, NULL, n, "%s", why);
    hsp_ci_emit(c, HSP_ACT_ERASE)->key = hsp_ci_printf(c, "node/%u", at);
    hsp_ci_judge_node(c, n->name);
    hsp_ci_node_vacate(c, n);
}

/* ---- in time ---- */

void hsp_ci_forget_later(struct hsp_cluster *c)
{
    uint64_t pause = c->cfg.forget_s * 1000 / LOOKS;
    pause = pause < LEAST_MS ? LEAST_MS : pause > MOST_MS ? MOST_MS : pause;
    hsp_msec at = c->now_ms + pause;
    c->forget_ms = c->cfg.forget_s == 0 ? HSP_NEVER : at < c->forget_ms ? at : c->forget_ms;
}

/* @n has gone, and nobody has said that it is to be kept in mind. */
static bool may_go(const struct hsp_cluster_node *n)
{
    return n->name[0] != '\0' && hsp_ci_node_gone(n) && !n->draining && !n->holder;
}

/* A node that is here has run @j, too, and sees the folder of all. */
static bool others_see(const struct hsp_cluster *c, const struct hsp_job *j)
{
    bool any = false;
    for (uint32_t i = 0; j->checkpoint_shared && !any && i < j->n_marks; i++) {
        any = j->marks[i].ran && c->nodes[j->marks[i].node].conn != 0;
    }
    return any;
}

/* A job that has not ended waits for @node, which may have its checkpoints (ckpt_look.h): without
 * it, it would begin at step 0, and no administrator has said so. */
static bool is_waited_for(const struct hsp_cluster *c, uint32_t node)
{
    bool any = false;
    for (uint32_t i = 0; i < c->n_jobs && !any; i++) {
        const struct hsp_job *j = c->jobs[i];
        const struct hsp_job_mark *m = hsp_ci_marked(j, node);
        any = m != NULL && m->ran && j->checkpoint_path[0] != '\0' && !hsp_job_terminal(j->state) &&
              !others_see(c, j);
        any = any || (looks_on(c, j) && in_layouts(j, node));
    }
    return any;
}

bool hsp_ci_forget_tick(struct hsp_cluster *c)
{
    bool any = false, gone = false;
    if (c->behind || c->now_ms < c->forget_ms || c->unix_s == 0) {
        return false;
    }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct hsp_cluster_node *n = &c->nodes[i];
        if (!may_go(n)) {
            continue;
        }
        if (n->gone_s == 0 || n->gone_s > c->unix_s) { /* a clock that was not set yet */
            n->gone_s = c->unix_s;
            hsp_ci_store_node(c, n);
        }
        bool over = c->unix_s - n->gone_s >= c->cfg.forget_s;
        if (over && !is_waited_for(c, i) && hsp_ci_forget_fault(c, n) == NULL) {
            hsp_ci_forget(c, n, "it has been gone for long");
            gone = true;
        } else {
            any = true;
        }
    }
    c->forget_ms = HSP_NEVER;
    if (any) {
        hsp_ci_forget_later(c);
    }
    return gone;
}
