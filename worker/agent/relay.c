/* What passes between hspmdd and the executors, and what the agent learns from it. */
#include "worker/agent/relay.h"

#include <math.h> /* INFINITY */
#include <stdio.h>
#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/check.h"
#include "proto/base/str.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_impl.h"
#include "worker/agent/uplink.h"

static bool idle(const struct hsp_agent_device *d)
{
    return d->run.running == 0 && d->run.prepared == 0 && d->preparing == 0;
}

static void forget_if_idle(struct hsp_agent_device *d)
{
    if (idle(d)) {
        d->run = (struct hsp_m_run){0};
        d->source = d->next_source = false;
    }
}

/* ---- SEAL ---- */

static bool sealing(const struct hsp_agent *a, uint32_t job)
{
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->dev[i].sealing && a->dev[i].run.job == job) {
            return true;
        }
    }
    return false;
}

void hsp_ai_seal_advance(struct hsp_agent *a)
{
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        struct hsp_agent_seal *s = &a->seal[k];
        if (s->job != 0 && s->scan == 0 && !sealing(a, s->job)) {
            s->scan = ++a->scan;
            hsp_ai_emit(a, HSP_AACT_SCAN, 0)->scan = s->scan;
        }
    }
}

void hsp_ai_seal_abandon(struct hsp_agent *a)
{
    memset(a->seal, 0, sizeof(a->seal));
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        a->dev[i].sealing = false;
    }
}

/* Its executor was killed and does not end: the driver holds it. Its threads never run again, nor does the
 * GPU, so nobody writes what it has; the rest of the node need not wait for it. */
static bool stuck(const struct hsp_agent_device *d)
{
    return d->killed && d->health.verdict == HSP_GPU_LOST;
}

static void give_up(struct hsp_agent *a, uint32_t device)
{
    struct hsp_agent_device *d = &a->dev[device];
    hsp_ai_log(a, 4, "executor %u does not end, its GPU is lost: it counts as gone", device);
    d->run = (struct hsp_m_run){0};
    d->preparing = 0;
    d->sealing = d->source = d->next_source = false;
    hsp_ai_seal_advance(a);
}

void hsp_ai_seal_tick(struct hsp_agent *a)
{
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        for (uint32_t i = 0; a->seal[k].job != 0 && i < a->cfg.n_devices; i++) {
            bool late = a->dev[i].sealing && a->dev[i].run.job == a->seal[k].job &&
                        a->now_ms >= a->seal[k].deadline_ms;
            if (late && stuck(&a->dev[i])) {
                give_up(a, i);
            } else if (late) {
                hsp_ai_kill(a, i, "did not answer SEAL");
            }
        }
    }
}

uint64_t hsp_ai_seal_deadline(const struct hsp_agent *a)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        for (uint32_t i = 0; a->seal[k].job != 0 && i < a->cfg.n_devices; i++) {
            const struct hsp_agent_device *d = &a->dev[i];
            if (d->sealing && (!d->killed || stuck(d)) && d->run.job == a->seal[k].job &&
                a->seal[k].deadline_ms < best) {
                best = a->seal[k].deadline_ms;
            }
        }
    }
    return best;
}

void hsp_ai_seal_answer(struct hsp_agent *a, const struct hsp_agent_event *ev)
{
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        struct hsp_agent_seal *s = &a->seal[k];
        if (s->job == 0 || s->scan != ev->scan) {
            continue;
        }
        struct hsp_m_holding *h = hsp_arena_array(a->arena, ev->n, sizeof(*h));
        if (h == NULL) {
            a->failed = true;
            return;
        }
        uint32_t n = 0;
        for (uint32_t i = 0; i < ev->n; i++) {
            if (ev->holdings[i].job == s->job) {
                h[n++] = ev->holdings[i];
            }
        }
        struct hsp_msg m = {.type = HSP_MSG_SEALED,
                            .epoch = s->epoch,
                            .u.sealed = {.job = s->job, .n_holdings = n, .holdings = h}};
        s->job = 0;
        s->scan = 0;
        hsp_ai_tell(a, &m);
    }
}

static void seal(struct hsp_agent *a, const struct hsp_msg *m)
{
    struct hsp_agent_seal *s = NULL;
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        if (a->seal[k].job == m->u.jobref.job) {
            s = &a->seal[k]; /* a newer question replaces the older */
            break;
        }
        if (a->seal[k].job == 0 && s == NULL) {
            s = &a->seal[k];
        }
    }
    if (s == NULL) {
        hsp_ai_log(a, 3, "more SEALs than jobs can be here: ignored");
        return;
    }
    *s = (struct hsp_agent_seal){
        .job = m->u.jobref.job, .epoch = m->epoch, .deadline_ms = a->now_ms + a->cfg.seal_ms};
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        struct hsp_agent_device *d = &a->dev[i];
        if (d->state == HSP_EXEC_UP && d->run.job == s->job) {
            d->sealing = true;
            hsp_ai_order(a, i, m);
        }
    }
    hsp_ai_seal_advance(a);
}

/* ---- STOP and RELEASE ---- */

static void stop_done(struct hsp_agent *a, uint32_t device, uint32_t job, uint16_t type,
                      uint64_t epoch)
{
    struct hsp_msg m = {.type = type == HSP_MSG_STOP ? HSP_MSG_STOPPED : HSP_MSG_RELEASED,
                        .epoch = epoch,
                        .u.devref = {.job = job, .device = device}};
    a->stop[device].job = 0;
    hsp_ai_tell(a, &m);
}

static void discard(struct hsp_agent *a, uint32_t device, uint32_t job, uint64_t keep_plan)
{
    struct hsp_agent_action *x = hsp_ai_emit(a, HSP_AACT_DISCARD, device);
    x->job = job;
    x->keep_plan = keep_plan;
}

static void stop_or_release(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    bool stop = m->type == HSP_MSG_STOP;
    uint32_t job = stop ? m->u.devref.job : m->u.release.job;
    uint64_t keep = stop ? UINT64_MAX : m->u.release.keep_plan;
    struct hsp_agent_device *d = &a->dev[device];
    if (d->state == HSP_EXEC_UP && !d->killed && d->run.job == job) {
        a->stop[device].job = job;
        a->stop[device].type = m->type;
        a->stop[device].epoch = m->epoch;
        a->stop[device].keep_plan = keep;
        hsp_ai_order(a, device, m);
        return;
    }
    if (d->killed && d->run.job == job) { /* it may still write: answer when it is gone */
        a->stop[device].job = job;
        a->stop[device].type = m->type;
        a->stop[device].epoch = m->epoch;
        a->stop[device].keep_plan = keep;
        return;
    }
    discard(a, device, job, keep);
    stop_done(a, device, job, m->type, m->epoch);
}

void hsp_ai_stop_answer(struct hsp_agent *a, uint32_t device)
{
    if (a->stop[device].job != 0) {
        discard(a, device, a->stop[device].job, a->stop[device].keep_plan);
        stop_done(a, device, a->stop[device].job, a->stop[device].type, a->stop[device].epoch);
    }
}

/* ---- from hspmdd ---- */

static void refuse(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m, const char *why)
{
    struct hsp_msg f = {.type = HSP_MSG_PREPARE_FAILED,
                        .epoch = m->epoch,
                        .u.failed = {.job = m->u.prepare.job,
                                     .device = device,
                                     .fact = HSP_FACT_OTHER,
                                     .peer = HSP_MSG_RANKS,
                                     .reason = why}};
    hsp_ai_tell(a, &f);
}

static void prepare(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_agent_device *d = &a->dev[device];
    if (d->state != HSP_EXEC_UP || d->killed) {
        return; /* EXECUTOR_DEAD says so */
    }
    if (d->run.job != 0 && d->run.job != m->u.prepare.job) {
        refuse(a, device, m, "the device works for another job");
        return;
    }
    if (m->epoch <= d->run.running || m->epoch < d->run.prepared) {
        return; /* of the past: the executor would not answer */
    }
    if (d->health.verdict == HSP_GPU_LOST && m->u.prepare.rank < m->u.prepare.n_ranks) {
        char why[HSP_TEXT_MAX + 1];
        hsp_str_printf(why, sizeof(why), "the device is lost: %s", d->health.why);
        refuse(a, device, m, why);
        return;
    }
    d->run.job = m->u.prepare.job;
    d->run.device = device;
    if (d->run.prepared != m->epoch) {
        d->preparing = m->epoch;
        d->run.prepared = d->run.armed = 0;
    }
    d->next_source = m->u.prepare.rank >= m->u.prepare.n_ranks + m->u.prepare.n_keepers;
    hsp_ai_order(a, device, m);
}

static uint32_t device_of(const struct hsp_msg *m)
{
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_PREPARE: return m->u.prepare.device;
    case HSP_MSG_START: return m->u.start.device;
    case HSP_MSG_RELEASE: return m->u.release.device;
    default: return m->u.devref.device;
    }
}

void hsp_ai_daemon_msg(struct hsp_agent *a, const struct hsp_msg *m)
{
    if (m->type == HSP_MSG_HEARTBEAT) {
        if (m->u.beat.seq == a->beat && a->beat_us != 0) {
            hsp_peerclock_add(&a->clock, a->beat_us, a->now_us, m->u.beat.clock_us);
            a->beat_us = 0;
        }
        return;
    }
    if (m->type == HSP_MSG_MEASURE) {
        hsp_ai_uplink_begin(a, &m->u.measure);
        return;
    }
    if (m->type == HSP_MSG_ECHO) {
        hsp_ai_uplink_answer(a, &m->u.echo);
        return;
    }
    if (m->type == HSP_MSG_CHECK) {
        hsp_ai_check(a, m);
        return;
    }
    if (m->type == HSP_MSG_SEAL) {
        seal(a, m);
        return;
    }
    if (m->type == HSP_MSG_DRAIN_NOTICE) {
        hsp_ai_log(a, 5, "draining: %s", m->u.text.reason);
        return;
    }
    if (m->type == HSP_MSG_BYE) {
        a->bye = a->leaving;
        return;
    }
    uint32_t device = device_of(m);
    bool known = m->type == HSP_MSG_PREPARE || m->type == HSP_MSG_ARM || m->type == HSP_MSG_START ||
                 m->type == HSP_MSG_DROP || m->type == HSP_MSG_STOP || m->type == HSP_MSG_RELEASE ||
                 m->type == HSP_MSG_CHECKPOINT || m->type == HSP_MSG_TRACE;
    if (!known || device >= a->cfg.n_devices) {
        hsp_ai_log(a, 3, "message type %u for device %u is ignored", m->type, device);
        return;
    }
    struct hsp_agent_device *d = &a->dev[device];
    if (m->type == HSP_MSG_PREPARE) {
        prepare(a, device, m);
        return;
    }
    if (m->type == HSP_MSG_STOP || m->type == HSP_MSG_RELEASE) {
        stop_or_release(a, device, m);
        return;
    }
    uint32_t job = m->type == HSP_MSG_START ? m->u.start.job : m->u.devref.job;
    if (d->state != HSP_EXEC_UP || d->run.job != job) {
        return;
    }
    if (m->type == HSP_MSG_DROP) {
        if (d->preparing == m->epoch || d->run.prepared == m->epoch) {
            d->preparing = d->run.prepared = d->run.armed = 0;
        }
        forget_if_idle(d);
    } else if (m->type == HSP_MSG_ARM && d->run.prepared == m->epoch) {
        d->run.armed = m->epoch;
    } else if (m->type == HSP_MSG_START && d->run.prepared == m->epoch) {
        d->run.running = m->epoch;
        d->run.prepared = d->run.armed = 0;
        d->source = d->next_source;
        d->run.broken = false;
    }
    hsp_ai_order(a, device, m);
}

/* ---- from an executor ---- */

static void come_up(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_agent_device *d = &a->dev[device];
    if (d->state != HSP_EXEC_STARTING || d->killed) {
        return;
    }
    d->state = HSP_EXEC_UP;
    (void)snprintf(d->address, sizeof(d->address), "%s", m->u.up.address);
    struct hsp_msg up = {.type = HSP_MSG_EXECUTOR_UP,
                         .u.up = {.device = device, .address = d->address}};
    hsp_ai_tell(a, &up);
}

/* Executors measure by the clock of this host. */
static void add_clock(const struct hsp_agent *a, uint32_t device, struct hsp_m_traced *t)
{
    t->device = device;
    if (!hsp_peerclock_now(&a->clock, a->now_us, &t->offset_us, &t->error_us)) {
        t->offset_us = 0;
        t->error_us = (double)INFINITY;
    }
}

/* Passes it on under the number of the device it came from, whatever it says. */
static void pass(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_msg c = *m;
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_READY: c.u.ready.device = device; break;
    case HSP_MSG_PREPARE_FAILED: c.u.failed.device = device; break;
    case HSP_MSG_STARTED: c.u.started.device = device; break;
    case HSP_MSG_PEER_LOST: c.u.lost.device = device; break;
    case HSP_MSG_JOB_FAILED: c.u.jobfail.device = device; break;
    case HSP_MSG_TRACED: add_clock(a, device, &c.u.traced); break;
    default: break; /* STEP, CHECKPOINTED, FINISHED name no device */
    }
    hsp_ai_tell(a, &c);
}

static void note(struct hsp_agent_device *d, const struct hsp_msg *m)
{
    if (m->type == HSP_MSG_READY && d->preparing == m->epoch) {
        d->run.prepared = m->epoch;
        d->preparing = 0;
    } else if (m->type == HSP_MSG_PREPARE_FAILED && d->preparing == m->epoch) {
        d->preparing = 0;
        forget_if_idle(d);
    } else if (m->type == HSP_MSG_STARTED) {
        if (d->run.prepared == m->epoch) { /* a switch */
            d->run.prepared = d->run.armed = 0;
            d->source = d->next_source;
        }
        d->run.running = m->epoch;
        d->run.broken = false;
    } else if (m->type == HSP_MSG_STEP) {
        d->run.version = m->u.step.step;
    } else if (m->type == HSP_MSG_FINISHED) {
        d->run.finished = true;
    } else if (m->type == HSP_MSG_PEER_LOST && m->epoch == d->run.running) {
        d->run.broken = true;
    } else if (m->type == HSP_MSG_PEER_LOST &&
               (m->epoch == d->run.prepared || m->epoch == d->preparing)) {
        /* armed and moving already: what runs is neither whole nor the old one */
        d->run.broken = d->run.broken || d->run.armed == m->epoch;
        d->preparing = 0;
        d->run.prepared = d->run.armed = 0;
        d->run.running = d->run.running == 0 && d->run.broken ? m->epoch : d->run.running;
        forget_if_idle(d);
    }
}

static void keep_step(struct hsp_agent *a, const struct hsp_msg *m)
{
    struct hsp_agent_step_report *s = &a->steps[a->next_step];
    s->epoch = m->epoch;
    s->step = m->u.step;
    s->step.n_compute = 0;
    s->step.compute_s = NULL;
    a->next_step = (a->next_step + 1) % HSP_AGENT_STEPS;
    a->n_steps += a->n_steps < HSP_AGENT_STEPS;
}

void hsp_ai_steps_again(struct hsp_agent *a)
{
    uint32_t first = a->next_step + HSP_AGENT_STEPS - a->n_steps;
    for (uint32_t i = 0; i < a->n_steps; i++) {
        const struct hsp_agent_step_report *s = &a->steps[(first + i) % HSP_AGENT_STEPS];
        struct hsp_msg m = {.type = HSP_MSG_STEP, .epoch = s->epoch, .u.step = s->step};
        hsp_ai_tell(a, &m);
    }
}

static void exec_sealed(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_agent_device *d = &a->dev[device];
    if (m->u.sealed.job != d->run.job) {
        return;
    }
    for (uint32_t k = 0; k < HSP_AGENT_SEALS; k++) {
        bool answered = a->seal[k].job == d->run.job && a->seal[k].epoch == m->epoch;
        d->sealing = d->sealing && !answered;
    }
    d->run.running = d->run.running <= m->epoch ? 0 : d->run.running;
    d->run.prepared = d->run.prepared <= m->epoch ? 0 : d->run.prepared;
    d->preparing = d->preparing <= m->epoch ? 0 : d->preparing;
    d->run.armed = d->run.prepared == 0 ? 0 : d->run.armed;
    d->run.broken = false;
    forget_if_idle(d);
    hsp_ai_seal_advance(a);
}

static void exec_stopped(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_agent_device *d = &a->dev[device];
    uint32_t job = m->u.devref.job;
    /* What it said while the STOP was on its way may have ended the work already: the answer is owed. */
    bool owed = a->stop[device].job != 0 && a->stop[device].job == job;
    if (job != d->run.job && !owed) {
        return;
    }
    if (job != d->run.job) {
        /* nothing more to forget */
    } else if (m->type == HSP_MSG_STOPPED) {
        d->run = (struct hsp_m_run){0};
        d->preparing = 0;
        d->source = d->next_source = false;
    } else if (d->source) {
        d->run.running = 0;
        d->source = false;
        forget_if_idle(d);
    }
    if (a->stop[device].job != 0) {
        stop_done(a, device, a->stop[device].job, a->stop[device].type, a->stop[device].epoch);
    }
    if (d->sealing && d->run.job == 0) {
        d->sealing = false;
        hsp_ai_seal_advance(a);
    }
}

static uint32_t job_of(const struct hsp_msg *m)
{
    uint32_t id; /* all that executors say of epochs begins with it */
    memcpy(&id, &m->u, sizeof id);
    return id;
}

void hsp_ai_exec_msg(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_agent_device *d = &a->dev[device];
    if (d->state == HSP_EXEC_DOWN) {
        return;
    }
    d->heard_ms = a->now_ms;
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_EXECUTOR_UP: come_up(a, device, m); break;
    case HSP_MSG_HEARTBEAT: break;
    case HSP_MSG_SEALED: exec_sealed(a, device, m); break;
    case HSP_MSG_STOPPED:
    case HSP_MSG_RELEASED: exec_stopped(a, device, m); break;
    case HSP_MSG_READY:
    case HSP_MSG_PREPARE_FAILED:
    case HSP_MSG_STARTED:
    case HSP_MSG_STEP:
    case HSP_MSG_PEER_LOST:
    case HSP_MSG_CHECKPOINTED:
    case HSP_MSG_FINISHED:
    case HSP_MSG_JOB_FAILED:
    case HSP_MSG_TRACED:
        if (d->run.job == 0 || job_of(m) != d->run.job) {
            break; /* said before a STOP, SEAL or DROP took effect */
        }
        note(d, m);
        if (m->type == HSP_MSG_STEP) {
            keep_step(a, m);
        }
        if (m->type == HSP_MSG_CHECKPOINTED && m->u.ckpt.complete) {
            a->ckpt[device].job = m->u.ckpt.job;
            a->ckpt[device].epoch = m->epoch;
            a->ckpt[device].step = m->u.ckpt.step;
            a->ckpt[device].term = m->u.ckpt.term;
            a->ckpt[device].content = m->u.ckpt.content;
        }
        pass(a, device, m);
        break;
    default: hsp_ai_kill(a, device, "it sent what no executor sends"); break;
    }
}
