#include "worker/agent/obey.h"

#include "worker/agent/agent.h"
#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_link.h"
#include "worker/agent/keeping.h"
#include "worker/agent/told_steps.h"

#define SEAL_MS 1000u
#define OBEY_MS 10000u

uint64_t hsp_ai_seal_ms(const struct hsp_agent *a)
{
    uint64_t third = a->dead_ms / 3;
    return third < SEAL_MS ? third : SEAL_MS;
}

uint64_t hsp_ai_obey_ms(const struct hsp_agent *a)
{
    uint64_t slow = 2 * (uint64_t)a->dead_ms;
    return slow > OBEY_MS ? slow : OBEY_MS;
}

static void tell_done(struct hsp_agent *a, uint32_t device, uint32_t job, uint16_t type,
                      uint64_t epoch)
{
    struct hsp_msg m = {.type = type == HSP_MSG_STOP ? HSP_MSG_STOPPED : HSP_MSG_RELEASED,
                        .epoch = epoch,
                        .u.devref = {.job = job, .device = device}};
    if (a->stop[device].job == job && a->stop[device].type == type) {
        a->stop[device].job = 0;
    }
    hsp_ai_tell(a, &m);
    if (type == HSP_MSG_STOP) {
        hsp_ai_steps_over(a, job);
    }
}

static void discard(struct hsp_agent *a, uint32_t device, uint32_t job, uint64_t keep_plan)
{
    struct hsp_agent_action *x = hsp_ai_emit(a, HSP_AACT_DISCARD, device);
    x->job = job;
    x->keep_plan = keep_plan;
}

/* Has the papers of @job deleted where no device works for it and no epoch above @known came.
 * Called when the device has obeyed: papers that came before the order may still be in the queue of
 * the disk. */
static void drop_papers(struct hsp_agent *a, uint32_t job, uint64_t known)
{
    if (hsp_ai_may_tidy(a, job, known)) {
        hsp_ai_emit(a, HSP_AACT_DROP_PAPERS, 0)->job = job;
    }
}

/* Has executor @device delete its state of @job below layout @keep, as @m says, or deletes it.
 * @known: the newest epoch of the job that the sender of @m knows. */
static void stop(struct hsp_agent *a, uint32_t device, uint32_t job, uint64_t keep, uint64_t known,
                 const struct hsp_msg *m)
{
    struct hsp_agent_device *d = &a->dev[device];
    bool owes = a->stop[device].job != 0 && a->stop[device].job != job && d->run.job != job;
    bool tells =
        d->state == HSP_EXEC_UP && !d->killed && !owes && (d->run.job == job || d->run.job == 0);
    if (!tells && !(d->killed && d->run.job == job)) {
        discard(a, device, job, keep);
        drop_papers(a, job, known);
        tell_done(a, device, job, m->type, m->epoch);
        return;
    }
    /* One that is killed may still write: answered when it is gone. A STOP deletes the state that a
     * RELEASE behind it would delete, too. */
    bool less = m->type == HSP_MSG_RELEASE && a->stop[device].job == job &&
                a->stop[device].type == HSP_MSG_STOP;
    if (!less) {
        a->stop[device].job = job;
        a->stop[device].type = m->type;
        a->stop[device].epoch = m->epoch;
        a->stop[device].keep_plan = keep;
        a->stop[device].known = known;
        a->stop[device].deadline_ms = a->now_ms + hsp_ai_obey_ms(a);
    }
    if (tells) {
        hsp_ai_order(a, device, m);
    }
}

void hsp_ai_stop_or_release(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    bool all = m->type == HSP_MSG_STOP;
    uint32_t job = all ? m->u.devref.job : m->u.release.job;
    uint64_t keep = all ? UINT64_MAX : m->u.release.keep_plan;
    uint64_t known = all ? m->epoch : m->u.release.known;
    const char *no = hsp_ai_may_not_delete(a, job, known);
    if (no != NULL) { /* the next HELLO says it to the coordinator */
        hsp_ai_log(a, 3, "%s of job %u is not obeyed: %s", hsp_msg_name(m->type), job, no);
        hsp_ai_hang_up(a, "it knows less than this node", false);
        return;
    }
    stop(a, device, job, keep, known, m);
}

void hsp_ai_give_up(struct hsp_agent *a, uint32_t device, uint32_t job)
{
    const struct hsp_m_run *r = &a->dev[device].run;
    uint64_t newest = r->prepared > r->running ? r->prepared : r->running;
    newest = a->dev[device].preparing > newest ? a->dev[device].preparing : newest;
    struct hsp_msg m = {
        .type = HSP_MSG_STOP, .epoch = newest, .u.devref = {.job = job, .device = device}};
    stop(a, device, job, UINT64_MAX, UINT64_MAX, &m);
}

/* The owed work of @device is done. */
static void done(struct hsp_agent *a, uint32_t device)
{
    drop_papers(a, a->stop[device].job, a->stop[device].known);
    tell_done(a, device, a->stop[device].job, a->stop[device].type, a->stop[device].epoch);
}

void hsp_ai_stop_done(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    uint16_t type = m->type == HSP_MSG_STOPPED ? HSP_MSG_STOP : HSP_MSG_RELEASE;
    if (a->stop[device].job == 0 || a->stop[device].job != m->u.devref.job) {
        return;
    }
    if (a->stop[device].type == type) {
        done(a, device);
    } else { /* RELEASED, and a STOP came behind the RELEASE: that is still owed */
        tell_done(a, device, m->u.devref.job, type, m->epoch);
    }
}

/* The place for a DROP of @job: its own, else a free one, else the first. */
static struct hsp_agent_drop *place_of(struct hsp_agent *a, uint32_t device, uint32_t job)
{
    struct hsp_agent_drop *d = a->drop[device], *at = NULL;
    for (uint32_t i = 0; i < HSP_AGENT_DROPS; i++) {
        if (d[i].job == job) {
            return &d[i];
        }
        at = at == NULL && d[i].job == 0 ? &d[i] : at;
    }
    return at != NULL ? at : d;
}

void hsp_ai_drop(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    const struct hsp_agent_device *d = &a->dev[device];
    const uint32_t job = m->u.devref.job;
    bool up = d->state == HSP_EXEC_UP && !d->killed;
    if (up && d->run.job != job && d->run.job != 0) {
        return;
    }
    struct hsp_agent_drop *x = place_of(a, device, job);
    bool owes = x->job == job; /* since the DROP before */
    *x = (struct hsp_agent_drop){.job = job,
                                 .epoch = owes && x->epoch > m->epoch ? x->epoch : m->epoch,
                                 .deadline_ms = owes ? x->deadline_ms
                                                : up ? a->now_ms + hsp_ai_obey_ms(a)
                                                     : UINT64_MAX};
    if (up) {
        hsp_ai_order(a, device, m);
    }
}

void hsp_ai_dropped(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    for (uint32_t i = 0; i < HSP_AGENT_DROPS; i++) {
        struct hsp_agent_drop *x = &a->drop[device][i];
        if (x->job != 0 && x->job == m->u.devref.job && x->epoch <= m->epoch) {
            x->job = 0;
            drop_papers(a, m->u.devref.job, m->epoch); /* papers that came with that epoch alone */
        } else if (x->job != 0 && x->job == m->u.devref.job) { /* the device owes a later one */
            x->deadline_ms = a->now_ms + hsp_ai_obey_ms(a);
        }
    }
}

void hsp_ai_obeyed_by_start(struct hsp_agent *a, uint32_t device)
{
    for (uint32_t i = 0; i < HSP_AGENT_DROPS; i++) {
        const struct hsp_agent_drop x = a->drop[device][i];
        a->drop[device][i].job = 0;
        if (x.job != 0) {
            drop_papers(a, x.job, x.epoch);
        }
    }
}

void hsp_ai_orders_over(struct hsp_agent *a, uint32_t device)
{
    for (uint32_t i = 0; i < HSP_AGENT_DROPS; i++) {
        a->drop[device][i].deadline_ms = UINT64_MAX; /* the next process obeys it */
    }
    if (a->stop[device].job != 0) {
        discard(a, device, a->stop[device].job, a->stop[device].keep_plan);
        done(a, device);
    }
}

/* When executor @device should have obeyed the first DROP that it owes. */
static uint64_t drop_deadline(const struct hsp_agent *a, uint32_t device)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < HSP_AGENT_DROPS; i++) {
        const struct hsp_agent_drop *x = &a->drop[device][i];
        best = x->job != 0 && x->deadline_ms < best ? x->deadline_ms : best;
    }
    return best;
}

void hsp_ai_obey_tick(struct hsp_agent *a)
{
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->stop[i].job != 0 && a->now_ms >= a->stop[i].deadline_ms) {
            hsp_ai_kill(a, i,
                        a->stop[i].type == HSP_MSG_STOP ? "did not obey STOP"
                                                        : "did not obey RELEASE");
        } else if (a->now_ms >= drop_deadline(a, i)) {
            hsp_ai_kill(a, i, "did not obey DROP");
        }
    }
}

uint64_t hsp_ai_obey_deadline(const struct hsp_agent *a)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->dev[i].killed) {
            continue; /* hspmdd waits for its end alone */
        }
        if (a->stop[i].job != 0 && a->stop[i].deadline_ms < best) {
            best = a->stop[i].deadline_ms;
        }
        const uint64_t drop = drop_deadline(a, i);
        best = drop < best ? drop : best;
    }
    return best;
}
