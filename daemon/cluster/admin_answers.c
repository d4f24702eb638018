#include "daemon/cluster/admin_answers.h"

#include "daemon/cluster/allocate.h"
#include "daemon/cluster/ckpt_look.h"
#include "daemon/cluster/ckpt_marks.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/spread.h"

/* ---- jobs ---- */

static const char *checkpoints_stay(struct hsp_cluster *c, const struct hsp_job *j)
{
    bool many = j->n_older > 0;
    return !j->has_ckpt && hsp_ci_ckpt_may_have(j)
               ? "no checkpoint of it is known: resume looks for one on disk, and waits for a node "
                 "that may have one"
           : !j->has_ckpt
               ? "no checkpoint of it is known: resume would begin at step 0"
               : hsp_ci_printf(
                     c, "its checkpoint%s of step%s %s stay%s, and resume can begin with %s",
                     many ? "s" : "", many ? "s" : "", hsp_ci_ckpt_steps(c, j), many ? "" : "s",
                     many ? "those that are on disk" : "it if it is on disk");
}

const char *hsp_ci_say_cancelled(struct hsp_cluster *c, const struct hsp_job *j, bool known)
{
    const char *stops = j->n_leases > 0 ? "its executors stop, then its devices are free; " : "";
    return hsp_ci_printf(c, "%s%s", stops,
                         known ? checkpoints_stay(c, j) : "its state on the nodes is given up");
}

const char *hsp_ci_say_resumed(struct hsp_cluster *c, const struct hsp_job *j, bool kept,
                               const struct hsp_ckpt_cuts *named)
{
    const struct hsp_ckpt_kept at = {j->origin_step, j->origin_ckpt}; /* FRESH: 0, which counts */
    struct hsp_spread spread;
    if (kept) {
        bool part = hsp_cluster_spread(c, j, &spread) && spread.min_nodes == 0;
        return hsp_ci_printf(c,
                             part ? "a part of its state of step %llu is on no connected node: the "
                                    "job waits for a node that has it"
                                  : "it begins with the state that its workers store, of step %llu",
                             (unsigned long long)j->stable);
    }
    if (named != NULL && !hsp_cuts_allow(named->cut, named->n, at.mark.epoch, at.step)) {
        return hsp_ci_printf(
            c,
            "checkpoint %llu of epoch %llu was given-up and counts again, the checkpoints made "
            "instead of it do not; the job begins as soon as it has its devices",
            (unsigned long long)at.step, (unsigned long long)at.mark.epoch);
    }
    if (named != NULL) {
        return "it begins as soon as it has its devices";
    }
    const char *with = j->has_ckpt ? hsp_ci_printf(c, "with its checkpoint of step %llu",
                                                   (unsigned long long)j->origin_step)
                                   : "at step 0, as no checkpoint of it is known";
    const char *found = j->checkpoint_path[0] == '\0' ? ""
                        : j->has_ckpt
                            ? ", or with one of a newer step or epoch that is found on disk"
                            : ", or with a checkpoint that is found on disk";
    return hsp_ci_printf(c, "it begins %s%s, as soon as it has its devices", with, found);
}

const char *hsp_ci_say_scaled(struct hsp_cluster *c, const struct hsp_job *j)
{
    hsp_device_id *dev;
    bool runs = j->state == HSP_JOB_STARTING || j->state == HSP_JOB_RUNNING ||
                j->state == HSP_JOB_SWITCHING;
    if (hsp_ci_at_rest(j)) {
        return hsp_ci_printf(c, "it is %s: the bounds apply when it is resumed",
                             hsp_job_state_name(j->state));
    }
    uint32_t n = hsp_ci_available(c, j, &dev);
    if (n >= j->min || j->state == HSP_JOB_FINISHING) {
        return "";
    }
    return hsp_ci_printf(
        c, "%s %s", runs ? "it continues unchanged; after a loss it waits for" : "it waits for",
        hsp_ci_too_few(c, j, j->min, n));
}

const char *hsp_ci_say_forgotten(struct hsp_cluster *c, const struct hsp_job *j)
{
    const char *state = hsp_ci_keeps_state(j) ? "; the state on its nodes is deleted" : "";
    const char *what =
        hsp_ci_printf(c, "it was job number %u, %s%s", j->id, hsp_job_state_name(j->state), state);
    return !j->has_ckpt || j->state == HSP_JOB_DONE
               ? what
               : hsp_ci_printf(
                     c, "%s; its checkpoints %s stay on disk, but resume cannot use them any more",
                     what, hsp_ci_ckpt_steps(c, j));
}

/* ---- nodes ---- */

/* @n has a device that keeps copies, as far as is known. */
static bool has_replica_holders(const struct hsp_cluster_node *n)
{
    bool any = false;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        any = any || (n->dev[d].present && n->dev[d].replica_holder);
    }
    return any;
}

const char *hsp_ci_say_allowed(struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    return n->incarnation == 0 ? hsp_ci_printf(c,
                                               "no node of that name has joined yet: the setting "
                                               "is stored until hspmdctl node remove %s",
                                               n->name)
           : n->conn == 0      ? "it is not connected, and gets none before it joins again"
           : n->draining       ? "it gets none before hspmdctl undrain"
           : !has_replica_holders(n)
               ? "its agent offers no place for one: replica_holders in its hspmd-worker.yaml"
               : "jobs that lack a copy get one there, without losing a step";
}

const char *hsp_ci_say_denied(struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    bool keeps = false, room = false;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        keeps = keeps || (n->dev[d].replica_holder && n->dev[d].job != 0);
    }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct hsp_cluster_node *o = &c->nodes[i];
        for (uint32_t d = 0; o != n && o->holder && d < HSP_NODE_DEVICES; d++) {
            room = room ||
                   (o->dev[d].replica_holder && o->dev[d].job == 0 && hsp_cluster_offers(o, d));
        }
    }
    return !keeps ? "it stores none now"
           : room ? "its copies move to another allowed node that has room"
                  : "its copies are deleted, for no other node that may store copies is free: "
                    "hspmdctl node allow NODE --holder allows one";
}

/* A job whose checkpoints may be on the disk of @n alone; NULL: there is none. */
static const struct hsp_job *writes_on(const struct hsp_cluster *c,
                                       const struct hsp_cluster_node *n)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        const struct hsp_job_mark *m = hsp_ci_marked(j, hsp_ci_index_of(c, n));
        bool there = m != NULL && m->ran && j->checkpoint_path[0] != '\0' && !j->checkpoint_shared;
        if (there && j->state != HSP_JOB_DONE) {
            return j;
        }
    }
    return NULL;
}

const char *hsp_ci_say_drained(struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    char text[HSP_TEXT_MAX + 1];
    if (n->conn == 0) {
        return "it is not connected: the setting applies when it joins again";
    }
    if (!n->draining) {
        return "";
    }
    hsp_cluster_drain_text(c, n, text, sizeof text);
    const struct hsp_job *j = writes_on(c, n);
    return text[0] != '\0' ? hsp_ci_printf(c, "%s", text)
           : j != NULL
               ? hsp_ci_printf(c,
                               "it has no state and is drained: its agent may be stopped; "
                               "checkpoints of job %s may be on its disk alone: keep that disk",
                               j->name)
               : "it has no state and is drained: its agent may be stopped";
}
