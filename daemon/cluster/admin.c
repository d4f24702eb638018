#include "daemon/cluster/admin.h"

#include <stdio.h>
#include <string.h>

#include "daemon/cluster/admin_answers.h"
#include "daemon/cluster/adopt.h"
#include "daemon/cluster/behind.h"
#include "daemon/cluster/ckpt_look.h"
#include "daemon/cluster/ckpt_marks.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/doubt.h"
#include "daemon/cluster/forget.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/job_list.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/kept_state.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/node_check.h"
#include "daemon/cluster/node_loss.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/suspend.h"
#include "daemon/cluster/try_anew.h"
#include "proto/base/str.h"
#include "proto/wire/papers.h"

static void reply(struct hsp_cluster *c, const struct hsp_admin_event *a, enum hsp_status st,
                  uint32_t job, const char *text)
{
    struct hsp_action *r = hsp_ci_emit(c, HSP_ACT_REPLY);
    r->request = a->request;
    r->status = st;
    r->job = job;
    r->text = hsp_ci_printf(c, "%s", text);
}

static void told(struct hsp_cluster *c, const struct hsp_admin_event *a, const char *verb,
                 const struct hsp_job *j, const struct hsp_cluster_node *n, const char *what)
{
    struct hsp_fact *f = hsp_ci_fact(c, verb, HSP_SEV_NOTICE, j, n, "%s", what);
    if (f != NULL && a->actor != NULL) {
        f->actor = hsp_ci_printf(c, "%s", a->actor);
    }
}

static const char *spec_fault(struct hsp_cluster *c, const struct hsp_job_terms *s)
{
    const struct hsp_job *j = s->name != NULL ? hsp_cluster_job_by_name(c, s->name) : NULL;
    if (s->name == NULL || !hsp_name_valid(s->name)) {
        return "not a job name";
    }
    if (j != NULL && !hsp_job_terminal(j->state) && !hsp_ci_not_adopted(j)) {
        return hsp_ci_printf(c, "job %s is %s", s->name, hsp_job_state_name(j->state));
    }
    if (s->min == 0 || s->max < s->min || s->max > HSP_MSG_RANKS) {
        return hsp_ci_printf(c, "devices from %u to %u", s->min, s->max);
    }
    return s->steps == 0 ? "no steps" : NULL;
}

static void submit(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    const struct hsp_job_terms *s = &a->spec;
    const char *fault = spec_fault(c, s);
    if (fault != NULL) {
        reply(c, a, HSP_EINVAL, 0, fault);
        return;
    }
    uint32_t id = hsp_ci_job_number(c);
    if (id >= HSP_MAX_FOREIGN) { /* nobody could adopt the job */
        reply(c, a, HSP_ELIMIT, 0,
              "no number is left for a new job: they end at 2147483646; begin a new cluster with "
              "an empty state_dir");
        return;
    }
    struct hsp_job *j = hsp_ci_job_add(c, id);
    if (j == NULL) {
        reply(c, a, HSP_ELIMIT, 0,
              "too many jobs are stored: hspmdctl forget JOB removes an ended job");
        return;
    }
    *j = (struct hsp_job){.id = id,
                          .priority = s->priority,
                          .min = s->min,
                          .max = s->max,
                          .copies = s->copies != 0 ? s->copies : 1,
                          .steps = s->steps,
                          .checkpoint_every = s->checkpoint_every,
                          .checkpoint_shared = s->checkpoint_shared,
                          .checkpoint_keep = s->checkpoint_keep,
                          .next_epoch = 1,
                          .next_plan = 1};
    j->data_path = strdup(s->data_path != NULL ? s->data_path : "");
    j->checkpoint_path = strdup(s->checkpoint_path != NULL ? s->checkpoint_path : "");
    if (j->data_path == NULL || j->checkpoint_path == NULL) {
        c->failed = true;
        return;
    }
    (void)snprintf(j->name, sizeof(j->name), "%s", s->name);
    (void)snprintf(j->cause, sizeof(j->cause), "submit");
    j->detect_ms = c->now_ms;
    hsp_ci_store_term(c);
    hsp_ci_store_job(c, j);
    told(c, a, "admin.submit", j, NULL, j->name);
    reply(c, a, HSP_OK, j->id, "");
}

static void scale(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j)
{
    if (a->min == 0 || a->max < a->min || a->max > HSP_MSG_RANKS) {
        reply(c, a, HSP_EINVAL, j->id,
              hsp_ci_printf(c,
                            "devices from %u to %u: min is above max; --min and --max together "
                            "change both",
                            a->min, a->max));
        return;
    }
    if (j->state == HSP_JOB_BEHIND) {
        reply(c, a, HSP_ESTATE, j->id,
              hsp_ci_printf(c, "job %s is behind: %s", j->name, j->reason));
        return;
    }
    if (j->state == HSP_JOB_DONE) {
        reply(c, a, HSP_ESTATE, j->id,
              hsp_ci_printf(c, "job %s is done: it uses no devices any more", j->name));
        return;
    }
    j->min = a->min;
    j->max = a->max;
    j->asked_valid = false;
    hsp_ci_store_job(c, j);
    told(c, a, "admin.scale", j, NULL,
         hsp_ci_printf(c, "%u to %u device%s", j->min, j->max, hsp_s(j->max)));
    reply(c, a, HSP_OK, j->id, hsp_ci_say_scaled(c, j));
}

static void no_node(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    const char *name = a->node != NULL ? a->node : "";
    if (hsp_cluster_parked_by_name(c, name) != NULL) {
        reply(c, a, HSP_ESTATE, 0,
              hsp_ci_printf(c,
                            "%s is an agent that is not a member: hspmdctl node show %s shows the "
                            "reason and the remedy",
                            name, name));
        return;
    }
    reply(c, a, HSP_ENOENT, 0, hsp_ci_printf(c, "no node %s; hspmdctl node list shows all", name));
}

static void drain(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    bool on = a->verb == HSP_ADMIN_DRAIN;
    uint32_t at;
    if (a->node == NULL || !hsp_map_get(&c->by_name, a->node, &at)) {
        no_node(c, a);
        return;
    }
    struct hsp_cluster_node *n = &c->nodes[at];
    const char *reason = a->reason != NULL ? a->reason : "";
    n->draining = on;
    if (!on) {
        hsp_ci_try_anew(c, n);
    }
    n->drained_told = n->stays_told = false;
    hsp_ci_forget_later(c);
    hsp_str_tell(n->reason, sizeof(n->reason), "%s", on ? reason : "");
    hsp_ci_store_node(c, n);
    hsp_ci_node_dirty(c, n);
    if (on) {
        struct hsp_msg m = {.type = HSP_MSG_DRAIN_NOTICE, .u.text.reason = n->reason};
        hsp_ci_send(c, n->conn, &m);
    }
    told(c, a, on ? "admin.drain" : "admin.undrain", NULL, n, reason);
    reply(c, a, HSP_OK, 0, hsp_ci_say_drained(c, n));
}

/* Also for a node that has not joined yet: an administrator may name a node before it joins. */
static void allow(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    bool on = a->verb == HSP_ADMIN_ALLOW;
    uint32_t at;
    struct hsp_cluster_node *n = NULL;
    if (a->node == NULL || !hsp_name_valid(a->node)) {
        reply(c, a, HSP_EINVAL, 0, "not a node name");
        return;
    }
    bool known = hsp_map_get(&c->by_name, a->node, &at);
    if (!known && !on) {
        no_node(c, a);
        return;
    }
    n = known ? &c->nodes[at] : hsp_ci_node_new(c, a->node);
    if (n == NULL) {
        reply(c, a, HSP_ELIMIT, 0, "too many nodes");
        return;
    }
    if (!known) {
        hsp_str_printf(n->reason, sizeof(n->reason), "has not joined yet");
    }
    const char *remark = on ? hsp_ci_say_allowed(c, n) : hsp_ci_say_denied(c, n);
    n->holder = on;
    hsp_ci_store_node(c, n);
    hsp_ci_forget_later(c);
    hsp_ci_node_dirty(c, n);
    told(c, a, on ? "admin.allow" : "admin.deny", NULL, n, "to store copies of state");
    reply(c, a, HSP_OK, 0, remark);
}

/* A node that says there is a newer coordinator is believed no more: it cannot prove its identity,
 * and is dead. All other nodes say hello again, and have their time for it. */
static void disbelieve(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    n->secret = n->before = (struct hsp_digest){0, 0};
    memset(n->left, 0, sizeof(n->left));
    c->behind = false;
    c->behind_why[0] = c->behind_by[0] = '\0';
    c->ahead = 0;
    hsp_ci_store_cluster(c);
    c->grace_ms = c->now_ms + c->cfg.dead_ms;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        c->nodes[i].last_ms = c->now_ms;
    }
    if (!hsp_ci_node_gone(n)) {
        hsp_ci_node_dead(c, n, "removed: it has named a newer coordinator");
    }
    hsp_ci_store_node(c, n);
    hsp_ci_judge_again(c);
}

static void forget(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    uint32_t at;
    bool accuses = c->behind && a->node != NULL && strcmp(a->node, c->behind_by) == 0;
    if (c->behind && !accuses) {
        reply(c, a, HSP_ESTATE, 0, c->behind_why);
        return;
    }
    if (a->node == NULL || !hsp_map_get(&c->by_name, a->node, &at)) {
        no_node(c, a);
        return;
    }
    struct hsp_cluster_node *n = &c->nodes[at];
    if (accuses) {
        disbelieve(c, n);
    }
    bool claimed = hsp_ci_end_claim(c, n);
    const char *fault = hsp_ci_forget_fault(c, n);
    if (fault != NULL && !accuses && !claimed) {
        reply(c, a, HSP_ESTATE, 0, hsp_ci_printf(c, "node %s stays: %s", n->name, fault));
        return;
    }
    told(c, a, "admin.remove", NULL, n,
         accuses   ? "its report of a newer coordinator is ignored"
         : claimed ? "no job waits for it any more"
                   : "");
    hsp_ci_doubt_disbelieve(c, n->name);
    if (fault == NULL) {
        hsp_ci_forget(c, n, "it was removed");
        hsp_ci_behind_tidy(c);
    }
    reply(c, a, HSP_OK, 0, "");
}

static void checkpoint(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j)
{
    const struct hsp_cluster_node *n =
        j->cur.n_ranks != 0 ? hsp_ci_node(c, j->cur.peers[0].device) : NULL;
    bool runs = j->state == HSP_JOB_RUNNING || j->state == HSP_JOB_SWITCHING;
    if (!runs || n == NULL) {
        reply(c, a, HSP_ESTATE, j->id,
              hsp_ci_printf(c, "job %s is %s: only a running job can save a checkpoint", j->name,
                            hsp_job_state_name(j->state)));
        return;
    }
    if (n->conn == 0) {
        reply(c, a, HSP_ESTATE, j->id,
              hsp_ci_printf(c, "node %s, which begins its checkpoints, is not connected", n->name));
        return;
    }
    hsp_ci_checkpoint(c, j);
    told(c, a, "admin.checkpoint", j, NULL, "");
    reply(c, a, HSP_OK, j->id, "");
}

/* Refuses command @verb: executors of @j have not stopped. */
static const char *still_stopping(struct hsp_cluster *c, const struct hsp_job *j, const char *verb)
{
    const char *list = "";
    for (uint32_t i = 0; i < j->n_leases; i++) {
        bool away = hsp_ci_node(c, j->leases[i])->conn == 0;
        list = hsp_ci_and_name(c, list, i,
                               hsp_ci_printf(c, "%s%s", hsp_ci_device_name(c, j->leases[i]),
                                             away ? " (not connected)" : ""));
    }
    return hsp_ci_printf(c,
                         "job %s is still stopping%s%s: %s it again in a minute; an executor that "
                         "does not stop is killed, see the log of its hspmd-worker",
                         j->name, list[0] != '\0' ? " on " : "", list, verb);
}

/* An administrator says that a job, held since an older store was put back, has not ended. */
static void believe(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j)
{
    if (a->has_step) {
        reply(c, a, HSP_ESTATE, j->id,
              hsp_ci_printf(c,
                            "job %s is held and may have state; cancel it to begin with a "
                            "checkpoint of your choice",
                            j->name));
        return;
    }
    if (!hsp_ci_doubt_end(c, j)) {
        reply(c, a, HSP_ESTATE, j->id, hsp_ci_printf(c, "job %s is held: %s", j->name, j->reason));
        return;
    }
    told(c, a, "admin.resume", j, NULL, "it was held since an older store was put back");
    reply(c, a, HSP_OK, j->id,
          "it begins with the state that its agents store, else with its newest checkpoint");
}

/* Why @j is not to go on from @version, which it would take without --from; NULL: it may. */
static const char *diverged(struct hsp_cluster *c, const struct hsp_admin_event *a,
                            const struct hsp_job *j, uint64_t version)
{
    unsigned long long from = a->diverged_from;
    uint64_t good;
    if (!a->diverged || a->has_step || version < a->diverged_from) {
        return NULL;
    }
    const char *what = hsp_ci_printf(
        c, "job %s has diverged: its loss is not finite from step %llu on", j->name, from);
    if (hsp_ci_ckpt_before(j, a->diverged_from, &good)) {
        return hsp_ci_printf(
            c, "%s; hspmdctl resume %s --from %llu uses its newest checkpoint with a finite loss",
            what, j->name, (unsigned long long)good);
    }
    return j->has_ckpt
               ? hsp_ci_printf(
                     c, "%s, nor is that of its checkpoints; resume --from still accepts one: %s",
                     what, hsp_ci_ckpt_steps(c, j))
               : hsp_ci_printf(c,
                               "%s, and it has no checkpoint: cancel it, and submit it again with "
                               "other settings, such as a smaller lr",
                               what);
}

/* The lessons of @j from failures do not count any more. With @counts the steps that are made again
 * count as lost. */
static void begin_again(struct hsp_cluster *c, struct hsp_job *j, bool kept, bool counts)
{
    hsp_ci_ckpt_try_anew(j);
    if (!counts) {
        j->lost_from = j->passed = 0;
    }
    j->failures = 0;
    j->retry_ms = 0;
    hsp_ci_unlearn_all(j);
    j->asked_valid = false;
    j->reason[0] = '\0';
    for (uint32_t i = 0; i < j->n_marks; i++) {
        hsp_ci_data_forget(j, j->marks[i].node);
    }
    j->data_known = j->data_known && (kept || j->has_ckpt); /* begun anew, it may be another text */
    j->data_retry_ms = 0;
    j->data_tries = 0;
    (void)snprintf(j->cause, sizeof(j->cause), "resume");
    j->detect_ms = c->now_ms;
}

/* Why a job that is at rest, or not, cannot go on; NULL: it can. */
static const char *resume_fault(struct hsp_cluster *c, const struct hsp_job *j)
{
    const struct hsp_job *other = hsp_cluster_job_by_name(c, j->name);
    if (j->state == HSP_JOB_BEHIND) {
        return hsp_ci_printf(c, "job %s is behind: %s", j->name, j->reason);
    }
    if (j->state == HSP_JOB_DONE) {
        return hsp_ci_printf(c, "job %s is done", j->name);
    }
    if (!hsp_ci_at_rest(j)) {
        return hsp_ci_printf(c,
                             "job %s is %s and needs no resume; to go back to a checkpoint: "
                             "hspmdctl cancel %s, then hspmdctl resume %s --from STEP",
                             j->name, hsp_job_state_name(j->state), j->name, j->name);
    }
    if (other != j && !hsp_job_terminal(other->state)) {
        return hsp_ci_printf(c, "another job %s, number %u, is %s: cancel it first, or let it end",
                             other->name, other->id, hsp_job_state_name(other->state));
    }
    return NULL;
}

static void resume(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j)
{
    if (hsp_ci_in_doubt(j)) {
        believe(c, a, j);
        return;
    }
    if (j->suspending) {
        j->suspending = false;
        hsp_ci_store_job(c, j);
        told(c, a, "admin.resume", j, NULL, "its suspension is withdrawn and it continues");
        reply(c, a, HSP_OK, j->id, "it was being suspended");
        return;
    }
    const char *fault = resume_fault(c, j);
    fault = fault == NULL && a->stopping ? still_stopping(c, j, "resume") : fault;
    bool kept = hsp_ci_keeps_state(j) && !a->has_step;
    if (fault == NULL && (kept || (j->has_ckpt && j->state != HSP_JOB_SUSPENDED))) {
        fault = diverged(c, a, j, kept ? j->stable : j->ckpt_step);
    }
    if (fault != NULL) {
        reply(c, a, HSP_ESTATE, j->id, fault);
        return;
    }
    const uint64_t stable = j->stable, step = j->origin_step;
    const struct hsp_ckpt_mark mark = j->origin_ckpt;
    const enum hsp_epoch_mode origin = j->origin;
    const struct hsp_ckpt_cuts cuts = j->cuts;
    if (!kept) {
        hsp_ci_suspend_origin(j);
    }
    const char *no = a->has_step ? hsp_ci_ckpt_resume(c, j, a) : NULL;
    if (no != NULL) { /* nothing has changed */
        j->stable = stable;
        j->origin = origin;
        j->origin_step = step;
        j->origin_ckpt = mark;
        reply(c, a, HSP_ENOENT, j->id, no);
        return;
    }
    hsp_ci_disk_forget(j);
    begin_again(c, j, kept, !a->has_step && (kept || j->has_ckpt));
    if (kept) {
        hsp_ci_resume_kept(c, j);
    } else {
        hsp_ci_job_move(c, j, HSP_JOB_PENDING);
        hsp_ci_give_up_state(c, j);
    }
    hsp_ci_store_job(c, j);
    told(c, a, "admin.resume", j, NULL,
         kept ? hsp_ci_printf(c, "from the state of its nodes, version %llu",
                              (unsigned long long)j->stable)
              : hsp_ci_printf(c, "from version %llu", (unsigned long long)j->origin_step));
    reply(c, a, HSP_OK, j->id, hsp_ci_say_resumed(c, j, kept, a->has_step ? &cuts : NULL));
}

static void cancel(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j)
{
    if (hsp_job_terminal(j->state) && !hsp_ci_keeps_state(j)) {
        reply(c, a, HSP_ESTATE, j->id,
              hsp_ci_printf(c, "job %s was already %s%s", j->name, hsp_job_state_name(j->state),
                            j->state == HSP_JOB_FAILED ? ", and stores no state" : ""));
        return;
    }
    if (j->state == HSP_JOB_BEHIND && !hsp_cluster_none(j->from)) { /* agents would not obey */
        reply(c, a, HSP_ESTATE, j->id,
              hsp_ci_printf(c,
                            "job %s belongs to another cluster: adopt it first, or delete its "
                            "state on a node by node discard",
                            j->name));
        return;
    }
    const bool known = !j->unrecorded;
    told(c, a, "admin.cancel", j, NULL, j->name);
    if (hsp_ci_keeps_state(j)) {
        hsp_str_printf(j->reason, sizeof(j->reason), "its stored state is given up");
        hsp_ci_job_move(c, j, HSP_JOB_CANCELLED);
        hsp_ci_give_up_state(c, j);
    } else {
        hsp_ci_job_end(c, j, HSP_JOB_CANCELLED, a->reason != NULL ? a->reason : "cancelled");
    }
    reply(c, a, HSP_OK, j->id, hsp_ci_say_cancelled(c, j, known));
}

/* Its checkpoints stay where they are. */
static void forget_job(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j)
{
    if (!hsp_job_terminal(j->state)) {
        reply(c, a, HSP_ESTATE, j->id,
              hsp_ci_printf(c,
                            "job %s is %s: only a job that has ended can be forgotten; cancel it "
                            "first",
                            j->name, hsp_job_state_name(j->state)));
        return;
    }
    if (j->n_leases != 0) {
        reply(c, a, HSP_ESTATE, j->id, still_stopping(c, j, "forget"));
        return;
    }
    const char *was = hsp_ci_say_forgotten(c, j);
    told(c, a, "admin.forget", j, NULL, hsp_ci_printf(c, "%s: %s", j->name, was));
    uint32_t id = j->id;
    hsp_ci_give_up_state(c, j);
    hsp_ci_job_forget(c, j);
    reply(c, a, HSP_OK, id, was);
}

static void adopt(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    enum hsp_status st = HSP_OK;
    const char *fault = hsp_ci_adopt(c, a, &st);
    struct hsp_job *j = hsp_ci_job(c, a->papers->job);
    if (fault == NULL && j != NULL) {
        told(c, a, "admin.adopt", j, NULL, j->name);
    }
    reply(c, a, fault == NULL ? HSP_OK : st, a->papers->job, fault != NULL ? fault : a->reason);
}

void hsp_ci_admin(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    struct hsp_job *j = hsp_ci_job(c, a->job);
    if (c->behind && a->verb != HSP_ADMIN_CHECK_STOP && a->verb != HSP_ADMIN_REMOVE) {
        reply(c, a, HSP_ESTATE, a->job, c->behind_why);
        return;
    }
    bool of_job = a->verb == HSP_ADMIN_CANCEL || a->verb == HSP_ADMIN_SCALE ||
                  a->verb == HSP_ADMIN_CHECKPOINT || a->verb == HSP_ADMIN_RESUME ||
                  a->verb == HSP_ADMIN_SUSPEND || a->verb == HSP_ADMIN_FORGET;
    if (of_job && j == NULL) {
        reply(c, a, HSP_ENOENT, 0, "no such job");
        return;
    }
    hsp_ci_all_switches_anew(c);
    switch (a->verb) {
    case HSP_ADMIN_SUBMIT: submit(c, a); break;
    case HSP_ADMIN_CANCEL: cancel(c, a, j); break;
    case HSP_ADMIN_SCALE: scale(c, a, j); break;
    case HSP_ADMIN_DRAIN:
    case HSP_ADMIN_UNDRAIN: drain(c, a); break;
    case HSP_ADMIN_ALLOW:
    case HSP_ADMIN_DENY: allow(c, a); break;
    case HSP_ADMIN_REMOVE: forget(c, a); break;
    case HSP_ADMIN_CHECKPOINT: checkpoint(c, a, j); break;
    case HSP_ADMIN_RESUME: resume(c, a, j); break;
    case HSP_ADMIN_FORGET: forget_job(c, a, j); break;
    case HSP_ADMIN_SUSPEND: hsp_ci_suspend(c, a, j); break;
    case HSP_ADMIN_ADOPT: adopt(c, a); break;
    case HSP_ADMIN_CHECK: hsp_ci_check_begin(c, a); break;
    case HSP_ADMIN_CHECK_STOP: hsp_ci_check_stop(c, a->request); break;
    }
}
