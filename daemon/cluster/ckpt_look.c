#include "daemon/cluster/ckpt_look.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/ckpt_marks.h"
#include "daemon/cluster/ckpt_which.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/standing.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"

#define MOST_SEEN 65536u /* checkpoints of a job on all its nodes */
#define MOST_TOLD 16u    /* of them in a message */
#define HELLO_MS  30000u /* HELLOs begin looks anew for so long; the next one is finished */

/* ---- the checkpoints on disk ---- */

bool hsp_ci_ckpt_may_have(const struct hsp_job *j)
{
    if (j->has_ckpt || j->checkpoint_path[0] == '\0') {
        return j->has_ckpt;
    }
    return !j->anew && (j->begun != 0 || j->stable != 0 || !hsp_cluster_none(j->born) ||
                        j->ran_unknown || (j->was_stored && hsp_ci_any_ran(j)));
}

/* ---- the answer ---- */

/* Returns the time at which waiting ends for a checkpoint that is on record, or for a node that
 * cannot look. */
static hsp_msec deadline(const struct hsp_cluster *c, struct hsp_job *j)
{
    if (j->ckpt_deadline_ms == 0) {
        j->ckpt_deadline_ms = c->now_ms + c->cfg.state_wait_ms;
        j->ckpt_until_s = c->unix_s != 0 ? c->unix_s + c->cfg.state_wait_ms / 1000 : 0;
    }
    return j->ckpt_deadline_ms;
}

static bool waits(const struct hsp_job *j)
{
    return j->ckpt_deadline_ms != 0 || j->tries.until_ms != 0;
}

/* Sets the time of the next look at the disks; the first look is soon. Until then it is not known
 * which checkpoints the disks have. */
static void look_later(const struct hsp_cluster *c, struct hsp_job *j)
{
    bool late = c->now_ms >= deadline(c, j);
    hsp_msec next = c->now_ms + (late ? HSP_CKPT_SLOW_MS : HSP_CKPT_RETRY_MS);
    j->retry_ms = late || next < j->ckpt_deadline_ms ? next : j->ckpt_deadline_ms;
    hsp_ci_disk_forget(j);
}

/* Handles the case that no checkpoint is seen, and a node that may have one is away or could not
 * look. */
static void nobody_knows(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    struct hsp_ckpt_kept gone;
    const char *what = "the checkpoints on disk are not known";
    if (j->lack == HSP_LACK_AWAY && hsp_ci_ckpt_missing(j, UINT64_MAX, &gone)) {
        what = hsp_ci_printf(c,
                             "checkpoint %llu cannot be used: no connected node has it: waiting "
                             "for a node that has it",
                             (unsigned long long)gone.step);
    }
    look_later(c, j);
    hsp_ci_job_blocked(c, j,
                       "%s: %.200s: looks again; fix checkpoint.path of a node that cannot look; "
                       "remove a lost node with hspmdctl node remove; to start again: hspmdctl "
                       "cancel %s, then resume %s --from 0",
                       what, why, j->name, j->name);
}

/* Handles a job that had not begun by its row although a node shows that it had: an older store was
 * restored. */
static bool had_begun(struct hsp_cluster *c, struct hsp_job *j)
{
    if (hsp_ci_ckpt_may_have(j) || j->begun != 0 || j->anew) {
        return false;
    }
    j->ran_unknown = true; /* nodes that are not here are waited for, too */
    hsp_ci_disk_forget(j);
    hsp_ci_store_job(c, j);
    return true;
}

bool hsp_ci_ckpt_looked(struct hsp_cluster *c, struct hsp_job *j)
{
    bool may = hsp_ci_ckpt_may_have(j) || (j->was_stored && j->checkpoint_path[0] != '\0');
    if (!may || j->looked) {
        return true;
    }
    if (j->look_ticket == 0) {
        j->look_ticket = c->next_ticket++;
        if (c->now_ms > j->look_since_ms + HELLO_MS) { /* or 0 */
            j->look_since_ms = c->now_ms;
        }
        struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_FIND_CKPTS);
        a->job = j->id;
        a->ticket = j->look_ticket;
        if (!waits(j)) { /* else its reason names the nodes that it waits for */
            hsp_str_printf(j->reason, sizeof(j->reason), "looking for checkpoints on disk");
        }
    }
    return false;
}

/* Raises the number of the next epoch above all epochs that nodes show, including those that are
 * not believed. Epochs rise along a history, and by this one history is told from another
 * (ckpt_which.h). Another store may have given epochs that this one has not, as when a backup was
 * put back twice, or another cluster has adopted @j by mistake.
 *
 * Example: checkpoint 20 is of epoch 1, and 26 of epoch 1282001, which the other cluster gave. @j
 * goes on from 26, or from 20 where the node of 26 has not run it, in epoch 1282002. In epoch 2 it
 * would write 40, and the next time 26, of the newer epoch, would have it left out. */
static void see_epochs(const struct hsp_cluster *c, struct hsp_job *j,
                       const struct hsp_m_seen *seen, uint32_t n)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t epoch = seen[i].epoch;
        newest = epoch > newest && hsp_ci_can_be_written(c, epoch) ? epoch : newest;
    }
    hsp_ci_epoch_seen(j, newest);
}

void hsp_ci_ckpt_hello(const struct hsp_cluster *c, struct hsp_job *j)
{
    const bool looks = j->look_ticket != 0; /* and has not asked it */
    const hsp_msec since = j->look_since_ms;
    if (j->looked || (looks && c->now_ms < since + HELLO_MS)) {
        hsp_ci_disk_forget(j); /* the node may have a newer checkpoint than those that were seen */
        j->look_since_ms = looks ? since : 0;
    }
    if (!looks && c->now_ms >= j->ckpt_deadline_ms) { /* its path may not be mounted yet */
        j->ckpt_deadline_ms = 0;
        j->tries.passed = 0;
        j->tries.waited = false;
    }
}

/* Takes the checkpoints that nodes see, and those on record that may be on a node that cannot be
 * asked. */
static bool take_seen(struct hsp_job *j, const struct hsp_ckpts_event *ev)
{
    const size_t most = (size_t)ev->n + HSP_OLDER_CKPTS + 1;
    const struct hsp_ckpt_kept *k;
    struct hsp_ckpt_kept newest;
    if (!hsp_grow(&j->disk, &j->cap_disk, most, sizeof(*j->disk), MOST_SEEN + HSP_OLDER_CKPTS)) {
        return false;
    }
    for (j->n_disk = 0; j->n_disk < ev->n; j->n_disk++) {
        const struct hsp_m_seen *s = &ev->seen[j->n_disk];
        j->disk[j->n_disk] = (struct hsp_ckpt_kept){s->step, {s->term, s->epoch, s->content}};
    }
    for (uint32_t i = 0; ev->mute && (k = hsp_ci_ckpt_recorded(j, i, &newest)) != NULL; i++) {
        if (!hsp_ci_ckpt_is_on_disk(j, k)) {
            j->disk[j->n_disk++] = *k;
        }
    }
    hsp_ci_ckpt_line(j);
    return true;
}

void hsp_ci_ckpts(struct hsp_cluster *c, const struct hsp_ckpts_event *ev)
{
    struct hsp_job *j = hsp_ci_job(c, ev->job);
    if (j == NULL || j->look_ticket == 0 || j->look_ticket != ev->ticket) {
        return;
    }
    j->look_ticket = 0;
    j->look_since_ms = 0;
    if (c->behind || hsp_ci_at_rest(j) || j->state == HSP_JOB_BEHIND) {
        return; /* later, if at all */
    }
    if (ev->begun && had_begun(c, j)) {
        return; /* the question is asked again at once */
    }
    see_epochs(c, j, ev->seen, ev->n + ev->n_others);
    j->looked = true;
    j->looked_whole = ev->why[0] == '\0' || ev->lack == HSP_LACK_OTHERS;
    j->lack = j->looked_whole ? HSP_LACK_OTHERS : ev->lack;
    hsp_str_printf(j->disk_unseen, sizeof(j->disk_unseen), "%s", ev->why); /* cut */
    hsp_str_printf(j->disk_damage, sizeof(j->disk_damage), "%s",
                   ev->damaged[0] != '\0'     ? ev->damaged
                   : j->lack == HSP_LACK_LOOK ? ev->why
                                              : "");
    if (!waits(j)) {
        j->reason[0] = '\0';
    }
    if (!take_seen(j, ev)) {
        c->failed = true;
        return;
    }
    bool may_see = j->lack == HSP_LACK_LOOK || j->lack == HSP_LACK_AWAY;
    if (may_see && hsp_ci_ckpt_best(j) == NULL &&
        hsp_ci_ckpt_may_have(j)) { /* the nodes that could not look */
        nobody_knows(c, j, ev->why);
    }
}

/* ---- to begin with it ---- */

static void told_found(struct hsp_cluster *c, const struct hsp_job *j,
                       const struct hsp_ckpt_kept *k)
{
    if (hsp_ci_ckpt_is_found(j, k)) {
        struct hsp_fact *f = hsp_ci_fact(
            c, "ckpt.found", HSP_SEV_NOTICE, j, NULL,
            "checkpoint %llu of epoch %llu is on disk and was not known: the job resumes from it",
            (unsigned long long)k->step, (unsigned long long)k->mark.epoch);
        hsp_ci_fact_of_step(f, k->step);
    }
}

/* Returns the advice how to go on from @other nevertheless, which is left out in favour of @k. */
static const char *how_to_take(struct hsp_cluster *c, const struct hsp_job *j,
                               const struct hsp_ckpt_kept *k, const struct hsp_ckpt_kept *other)
{
    if (!hsp_ci_ckpt_is_on_disk(j, other)) {
        return "no connected node has that one";
    }
    if (other->step == k->step) {
        return "--from uses the newer of two checkpoints of a step";
    }
    return hsp_ci_printf(c,
                         "to resume from that one, before the job reaches its step: hspmdctl "
                         "cancel %s, then hspmdctl resume %s --from %llu",
                         j->name, j->name, (unsigned long long)other->step);
}

/* Reports a checkpoint at the step of @k or later, seen on a node or on record, that the job leaves
 * out since it belongs to a part of the history that the job gave up. */
static void told_left_out(struct hsp_cluster *c, const struct hsp_job *j,
                          const struct hsp_ckpt_kept *k)
{
    struct hsp_ckpt_kept other;
    if (!hsp_ci_ckpt_left_out(j, k->step, &other)) {
        return;
    }
    hsp_ci_fact(c, "ckpt.left_out", HSP_SEV_WARN, j, NULL,
                "the job resumes from checkpoint %llu of epoch %llu; checkpoint %llu of epoch %llu "
                "is left out, as a newer epoch began below it; %s",
                (unsigned long long)k->step, (unsigned long long)k->mark.epoch,
                (unsigned long long)other.step, (unsigned long long)other.mark.epoch,
                how_to_take(c, j, k, &other));
}

/* Returns ", as n1 may, which is not here", with the nodes that ran @j and are not connected. */
static const char *who_may_have(struct hsp_cluster *c, const struct hsp_job *j)
{
    const char *list = "";
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_marks; i++) {
        const struct hsp_cluster_node *node = &c->nodes[j->marks[i].node];
        if (j->marks[i].ran && node->conn == 0) {
            list = hsp_ci_and_name(c, list, n++, node->name);
        }
    }
    return n == 0 ? ""
                  : hsp_ci_printf(c, ", as %s may, which %s not connected", list,
                                  n > 1 ? "are" : "is");
}

/* Handles checkpoint @gone, which is on record but on no connected node. Returns true if the job
 * goes on without it from now on. */
static bool pass_over(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_ckpt_kept *gone,
                      const struct hsp_ckpt_kept *best)
{
    const char *why = j->disk_damage[0] != '\0' ? hsp_ci_printf(c, "%s", j->disk_damage)
                      : j->checkpoint_shared    ? "it is not in checkpoint.path any more"
                                                : "no connected node has it";
    /* a folder without anything may be one that is not mounted yet */
    bool sees = j->n_disk > 0 || j->disk_damage[0] != '\0';
    bool nowhere = j->checkpoint_shared && j->looked_whole && sees;
    if (c->now_ms < deadline(c, j) && !nowhere) {
        look_later(c, j);
        hsp_ci_job_blocked(c, j,
                           "checkpoint %llu cannot be used: %s: waiting for a node that has it%s, "
                           "%s, then %s",
                           (unsigned long long)gone->step, why, who_may_have(c, j),
                           hsp_ci_until(c, j->ckpt_until_s),
                           best == NULL
                               ? "it fails"
                               : hsp_ci_printf(c, "it resumes from checkpoint %llu of epoch %llu",
                                               (unsigned long long)best->step,
                                               (unsigned long long)best->mark.epoch));
        return false;
    }
    if (best == NULL) {
        hsp_ci_ckpt_give_up(c, j, gone->step, why);
        return false;
    }
    hsp_ci_ckpt_fallback(c, j, gone->step, best->step, why);
    j->tries.passed = best->step + (hsp_ci_ckpt_is_found(j, best) ? 1 : 2);
    return true;
}

/* Returns true while it is worth asking again a node that could not look, or, if the stored row may
 * be out of date, a node that is away: such a node may see a newer checkpoint than @best, or the
 * only one. */
static bool waits_to_look(struct hsp_cluster *c, struct hsp_job *j,
                          const struct hsp_ckpt_kept *best)
{
    bool one_at_all = j->lack == HSP_LACK_PATH && best == NULL;
    /* A node that is away is waited for only if the job has not waited for it already, while it
     * looked for the job's state (tries.waited). */
    bool away = j->lack == HSP_LACK_AWAY && j->ran_unknown && !j->tries.waited;
    bool worth = j->lack == HSP_LACK_LOOK || one_at_all || away;
    if (!hsp_ci_ckpt_may_have(j) || j->looked_whole || !worth || c->now_ms >= deadline(c, j)) {
        return false;
    }
    const char *next = best == NULL ? "begins at step 0"
                                    : hsp_ci_printf(c, "resumes from checkpoint %llu",
                                                    (unsigned long long)best->step);
    look_later(c, j);
    hsp_ci_job_blocked(c, j,
                       "not all could look for a newer checkpoint: %.200s: asks again for "
                       "state_wait, then %s",
                       hsp_ci_printf(c, "%s", j->disk_unseen), next);
    return true;
}

/* Tells which nodes could not look, as the job begins with @best; NULL: at step 0. The nodes are
 * asked anew with each HELLO: the same answer is not told again. */
static void tell_unseen(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_ckpt_kept *best)
{
    enum hsp_severity severity = j->looked_whole ? HSP_SEV_NOTICE : HSP_SEV_WARN;
    bool path = j->lack == HSP_LACK_PATH && (best != NULL || !hsp_ci_ckpt_may_have(j));
    bool tells = j->disk_unseen[0] != '\0' && !path;
    char text[sizeof(j->unseen_told)] = "";
    if (tells && best != NULL) {
        hsp_str_printf(text, sizeof(text),
                       "the job resumes from checkpoint %llu; there may be a newer one, as not all "
                       "could look: %s",
                       (unsigned long long)best->step, j->disk_unseen);
    } else if (tells) {
        hsp_str_printf(
            text, sizeof(text),
            "the job begins at step 0; there may be a checkpoint, as not all could look: %s",
            j->disk_unseen);
    }
    if (tells && strcmp(text, j->unseen_told) != 0) {
        hsp_ci_fact(c, "ckpt.not_seen", severity, j, NULL, "%s", text);
    }
    memcpy(j->unseen_told, text, sizeof(text));
}

/* Returns true if a checkpoint on record, newer than @best or of its step, is missing and was not
 * waited for yet; *gone is that checkpoint. If another checkpoint is found missing later, it is
 * waited for as well. */
static bool one_is_gone(struct hsp_job *j, const struct hsp_ckpt_kept *best,
                        struct hsp_ckpt_kept *gone)
{
    const uint64_t passed = j->tries.passed;
    uint64_t below = best != NULL && passed != 0 ? passed - 1 : UINT64_MAX;
    bool is = hsp_ci_ckpt_missing(j, below, gone) && (best == NULL || gone->step >= best->step);
    if ((is && passed != 0) || (!is && passed == 0 && j->looked_whole)) {
        j->ckpt_deadline_ms = 0;
        j->tries.passed = 0;
    }
    return is;
}

static void begin_new(struct hsp_job *j)
{
    j->origin = HSP_MODE_FRESH;
    j->origin_step = 0;
    j->origin_ckpt = (struct hsp_ckpt_mark){0};
}

/* Nodes see a checkpoint that is not on record, and members have refused it: all the same it may be
 * the only one of @j. The checkpoint is tried again when there is no other for state_wait, and then
 * after twice, four times that, and so on. */
static void waits_for_word(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_ckpt_tries *t = &j->tries;
    const struct hsp_ckpt_kept *last = &t->refused[t->n - 1];
    look_later(c, j); /* another one may come */
    j->retry_ms = c->now_ms + HSP_CKPT_SLOW_MS;
    if (t->none_ms == 0) {
        t->none_ms = c->now_ms;
        t->anew_ms = c->now_ms + c->cfg.state_wait_ms;
    } else if (c->now_ms >= t->anew_ms) {
        t->anew_ms = c->now_ms + (c->now_ms - t->none_ms);
        j->retry_ms = c->now_ms + HSP_CKPT_RETRY_MS;
        hsp_ci_ckpt_forgive(j);
    }
    hsp_ci_job_blocked(
        c, j,
        "checkpoint %llu of epoch %llu, on disk but not recorded, cannot be used, and there is no "
        "other: it is retried, less and less often; hspmdctl events shows the reason; to retry at "
        "once: hspmdctl cancel %s, then resume %s; to start again: resume it with --from 0",
        (unsigned long long)last->step, (unsigned long long)last->mark.epoch, j->name, j->name);
}

/* Handles the case that no checkpoint is left to try. Returns true if @j begins at step 0. */
static bool with_none(struct hsp_cluster *c, struct hsp_job *j)
{
    const bool refused = j->tries.n > 0;
    uint64_t newest;
    if (refused && hsp_ci_ckpt_newest(j, &newest)) {
        hsp_ci_ckpt_give_up(c, j, newest, "no member could use it");
    } else if (refused && j->lost_from > 0) {
        hsp_ci_job_end(c, j, HSP_JOB_FAILED,
                       hsp_ci_printf(c,
                                     "the state of version %llu is lost and there is no checkpoint",
                                     (unsigned long long)j->lost_from));
    } else if (refused && hsp_ci_ckpt_may_have(j)) {
        waits_for_word(c, j);
    } else {
        begin_new(j);
        return true;
    }
    return false;
}

bool hsp_ci_ckpt_ready(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_ckpt_kept gone = {0};
    if (!hsp_ci_ckpt_looked(c, j)) {
        return false;
    }
    if (!j->looked) {
        return true; /* the job has no checkpoint */
    }
    const struct hsp_ckpt_kept *best = hsp_ci_ckpt_best(j);
    bool one_gone = one_is_gone(j, best, &gone);
    if (one_gone ? !pass_over(c, j, &gone, best) : waits_to_look(c, j, best)) {
        return false;
    }
    if (best == NULL && !with_none(c, j)) {
        return false;
    }
    tell_unseen(c, j, best);
    if (best == NULL) {
        return true;
    }
    bool found = hsp_ci_ckpt_is_found(j, best);
    const struct hsp_ckpt_mark *mark = found ? &best->mark : hsp_ci_ckpt_mark_of(j, best->step);
    bool same = j->origin == HSP_MODE_RESTORE && j->origin_step == best->step &&
                hsp_ci_ckpt_meant(&j->origin_ckpt, best);
    if (!same) {
        told_found(c, j, best);
        told_left_out(c, j, best);
        j->tries.until_ms = found ? j->tries.until_ms : 0; /* new claims prolong nothing */
        hsp_ci_ckpt_begin_at(j, best->step, mark); /* on record when an epoch has begun with it */
        hsp_ci_store_job(c, j);
    }
    return true;
}

/* ---- members cannot begin with it ---- */

static void go_back(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_ckpt_kept *to,
                    const char *why)
{
    hsp_ci_ckpt_fallback(c, j, j->origin_step, to->step, why);
    told_found(c, j, to);
    hsp_ci_ckpt_begin_at(j, to->step, &to->mark);
}

/* @it was found on disk, and members refused it: the checkpoints on record count, as before. */
static void forget_found(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_ckpt_kept *it,
                         const char *why)
{
    hsp_ci_fact(c, "ckpt.not_used", HSP_SEV_WARN, j, NULL,
                "checkpoint %llu of epoch %llu, which is on disk but not recorded, cannot be used: "
                "%s; the job ignores it",
                (unsigned long long)it->step, (unsigned long long)it->mark.epoch, why);
    j->ckpt_deadline_ms = 0;
    j->tries.passed = 0;
    if (j->has_ckpt) {
        const struct hsp_ckpt_mark mark = j->ckpt;
        hsp_ci_ckpt_begin_at(j, j->ckpt_step, &mark);
    } else {
        begin_new(j);
        j->stable = 0;
    }
}

/* Returns true if the origin was tried for long enough; until then a node that has it may come. A
 * checkpoint that is damaged on a shared path is on no other node, so it is not tried again. Of
 * checkpoints that were found on disk only the first is tried for a while. */
static bool tried_enough(const struct hsp_cluster *c, struct hsp_job *j, bool found, bool damaged)
{
    if (j->tries.until_ms == 0) {
        j->tries.until_ms = c->now_ms + c->cfg.state_wait_ms;
    }
    return (damaged && j->checkpoint_shared) || (found && j->tries.found) ||
           c->now_ms >= j->tries.until_ms;
}

/* Returns the time at which the refused origin is tried again. Each attempt reads all of it, so the
 * pauses grow: each is as long as the whole time since the first refusal. */
static hsp_msec next_try(const struct hsp_cluster *c, const struct hsp_job *j)
{
    hsp_msec left = j->tries.until_ms - c->now_ms;
    hsp_msec tried = left < c->cfg.state_wait_ms ? c->cfg.state_wait_ms - left : 0;
    hsp_msec pause = tried < HSP_CKPT_RETRY_MS ? HSP_CKPT_RETRY_MS : tried;
    return c->now_ms + (pause < left ? pause : left);
}

void hsp_ci_ckpt_hurry(const struct hsp_cluster *c, struct hsp_job *j, struct hsp_job_mark *k)
{
    const hsp_msec soon = c->now_ms + HSP_CKPT_RETRY_MS;
    if (!k->hurried && soon < j->retry_ms) {
        k->hurried = true;
        j->retry_ms = soon;
    }
}

void hsp_ci_ckpt_refused(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                         const struct hsp_m_refused *m)
{
    const struct hsp_ckpt_kept it = {j->origin_step, j->origin_ckpt};
    const char *why = hsp_ci_printf(c, "%s/%u: %s", n->name, m->device, m->reason);
    bool first = j->tries.until_ms == 0, found = hsp_ci_ckpt_is_found(j, &it);
    bool over = tried_enough(c, j, found, m->damaged);
    uint64_t lost_from = found || j->lost_from > j->stable ? j->lost_from : j->stable;
    struct hsp_ckpt_kept to = {0};
    for (uint32_t i = 0; first && i < j->n_marks; i++) {
        j->marks[i].hurried = false;
    }
    if (over) {
        hsp_ci_ckpt_note_refused(j, &it);
        j->tries.until_ms = 0;
    }
    bool any = hsp_ci_ckpt_next(j, &to);
    if (over && !found && !any) {
        hsp_ci_ckpt_give_up(c, j, it.step, why);
        return;
    }
    j->failures = 0; /* time bounds these attempts, no count */
    hsp_ci_job_loss(c, j, why);
    j->lost_from = lost_from;
    if (over && found) {
        forget_found(c, j, &it, m->reason);
    } else if (over) {
        go_back(c, j, &to, m->reason);
    } else {
        j->retry_ms = next_try(c, j);
        hsp_str_tell(j->reason, sizeof(j->reason), "%s", why);
        if (first) {
            hsp_ci_fact(c, "ckpt.refused", HSP_SEV_WARN, j, NULL,
                        "checkpoint %llu cannot be used: %s; it is tried again for state_wait",
                        (unsigned long long)it.step, why);
        }
    }
    hsp_ci_store_job(c, j);
}

/* ---- an administrator's choice ---- */

static int upwards(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Returns the newest steps that nodes have seen, each once, such as "20, 40, 60". */
static const char *steps_of(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    uint64_t *step = hsp_ci_alloc(c, (size_t)a->n_seen + 1, sizeof(*step));
    const char *text = "none";
    uint32_t n = 0;
    for (uint32_t i = 0; step != NULL && i < a->n_seen; i++) {
        step[i] = a->seen[i].step;
    }
    if (step != NULL) {
        qsort(step, a->n_seen, sizeof(*step), upwards);
    }
    for (uint32_t i = 0; step != NULL && i < a->n_seen; i++) {
        if (i == 0 || step[i] != step[i - 1]) {
            step[n++] = step[i];
        }
    }
    uint32_t first = n > MOST_TOLD ? n - MOST_TOLD : 0;
    for (uint32_t i = first; i < n; i++) {
        text = i > first ? hsp_ci_printf(c, "%s, %llu", text, (unsigned long long)step[i])
               : first > 0
                   ? hsp_ci_printf(c, "%u older ones, %llu", first, (unsigned long long)step[i])
                   : hsp_ci_printf(c, "%llu", (unsigned long long)step[i]);
    }
    return text;
}

static const char *refuse(struct hsp_cluster *c, const struct hsp_job *j,
                          const struct hsp_admin_event *a)
{
    if (!a->looked) {
        return hsp_ci_printf(c, "job %s has no checkpoint of step %llu; it has %s", j->name,
                             (unsigned long long)a->step,
                             j->has_ckpt ? hsp_ci_ckpt_steps(c, j) : "none");
    }
    return hsp_ci_printf(
        c, "job %s has no complete checkpoint of step %llu on disk; there are %s%s%s", j->name,
        (unsigned long long)a->step, steps_of(c, a),
        a->reason != NULL && a->reason[0] != '\0' ? "; not all could be asked: " : "",
        a->reason != NULL ? a->reason : "");
}

/* Makes the job begin anew: from now on no checkpoint or state of earlier training counts, on any
 * node. */
static void begin_anew(const struct hsp_cluster *c, struct hsp_job *j)
{
    begin_new(j);
    j->stable = 0;
    j->has_ckpt = false;
    j->n_older = 0;
    hsp_ci_ckpt_cut(j, hsp_ci_next_epoch(c, j), 0, &j->origin_ckpt);
    j->ran_unknown = false;
    j->anew = true;
    hsp_ci_mark_none_ran(j);
}

const char *hsp_ci_ckpt_resume(struct hsp_cluster *c, struct hsp_job *j,
                               const struct hsp_admin_event *a)
{
    if (a->step == 0) {
        see_epochs(c, j, a->seen, a->n_seen);
        begin_anew(c, j);
        return NULL;
    }
    const struct hsp_ckpt_mark *mark = hsp_ci_ckpt_mark_of(j, a->step);
    struct hsp_ckpt_kept best = {0};
    bool any = false;
    for (uint32_t i = 0; i < a->n_seen; i++) {
        const struct hsp_m_seen *s = &a->seen[i];
        struct hsp_ckpt_kept k = {s->step, {s->term, s->epoch, s->content}};
        if (s->step == a->step && s->step <= j->steps &&
            hsp_ci_ckpt_better(j, &k, any ? &best : NULL)) {
            best = k;
            any = true;
        }
    }
    if (!any && (a->looked || mark == NULL)) {
        return refuse(c, j, a);
    }
    const struct hsp_ckpt_mark chosen = any && !hsp_ci_ckpt_meant(mark, &best) ? best.mark : *mark;
    j->anew = false;
    hsp_ci_ckpt_begin_at(j, a->step, &chosen);
    hsp_ci_ckpt_only(j, a->step, &chosen); /* on record, it is waited for */
    see_epochs(c, j, a->seen, a->n_seen);
    hsp_ci_ckpt_cut(j, hsp_ci_next_epoch(c, j), a->step, &chosen);
    return NULL;
}
