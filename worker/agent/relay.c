#include "worker/agent/relay.h"

#include <math.h> /* INFINITY */
#include <stdio.h>
#include <string.h>

#include "proto/base/str.h"
#include "proto/wire/protocol.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"
#include "worker/agent/agent_link.h"
#include "worker/agent/agent_seal.h"
#include "worker/agent/damage.h"
#include "worker/agent/keeping.h"
#include "worker/agent/obey.h"
#include "worker/agent/told_steps.h"
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

/* The prepared epoch is the running one from now on. */
static void takes_over(struct hsp_agent_device *d)
{
    d->source = d->next_source;
    d->plan = d->next_plan;
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
    if (m->epoch == d->run.running) {
        return; /* begun: STARTED or HELLO says so */
    }
    if (d->health.verdict == HSP_GPU_LOST && m->u.prepare.rank < m->u.prepare.n_ranks) {
        char why[HSP_TEXT_MAX + 1];
        hsp_str_printf(why, sizeof(why), "the device is lost: %s", d->health.why);
        refuse(a, device, m, why);
        return;
    }
    const char *no = hsp_ai_keep(a, m);
    if (no != NULL) {
        refuse(a, device, m, no);
        return;
    }
    d->run.job = m->u.prepare.job;
    d->run.device = device;
    if (d->run.prepared != m->epoch) {
        d->preparing = m->epoch;
        d->run.prepared = d->run.armed = 0;
    }
    d->next_source = m->u.prepare.rank >= m->u.prepare.n_ranks + m->u.prepare.n_keepers;
    d->next_plan = m->u.prepare.plan;
    hsp_ai_order(a, device, m);
}

static uint32_t device_of(const struct hsp_msg *m)
{
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_PREPARE: return m->u.prepare.device;
    case HSP_MSG_START: return m->u.start.device;
    case HSP_MSG_RELEASE: return m->u.release.device;
    case HSP_MSG_WHERE: return m->u.where.device;
    default: return m->u.devref.device;
    }
}

/* Handles a message about this node. Returns false if the message is about one of its devices. */
static bool of_node(struct hsp_agent *a, const struct hsp_msg *m)
{
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_HEARTBEAT:
        if (m->u.beat.seq == a->beat && a->beat_us != 0) {
            hsp_peerclock_add(&a->clock, a->beat_us, a->now_us, m->u.beat.clock_us);
            a->beat_us = 0;
            hsp_ai_steps_heard(a);
        }
        return true;
    case HSP_MSG_MEASURE: hsp_ai_uplink_begin(a, &m->u.measure); return true;
    case HSP_MSG_ECHO: hsp_ai_uplink_answer(a, &m->u.echo); return true;
    case HSP_MSG_CHECK:
    case HSP_MSG_REACH: hsp_ai_ask_shell(a, m); return true;
    case HSP_MSG_SEAL: hsp_ai_seal(a, m); return true;
    case HSP_MSG_DRAIN_NOTICE: hsp_ai_log(a, 5, "draining: %s", m->u.text.reason); return true;
    case HSP_MSG_BYE: a->bye = a->leaving; return true;
    default: return false;
    }
}

/* To an executor that is up: notes the new work of @device, and passes the order on. */
static void order(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_agent_device *d = &a->dev[device];
    uint32_t job = m->type == HSP_MSG_START ? m->u.start.job : m->u.devref.job;
    if (m->type == HSP_MSG_DROP) {
        if (d->run.job == job && (d->preparing == m->epoch || d->run.prepared == m->epoch)) {
            d->preparing = d->run.prepared = d->run.armed = 0;
            forget_if_idle(d);
        }
        hsp_ai_drop(a, device, m);
        return;
    }
    if (d->run.job != job) { /* as it has told: its executor died, or let go */
        hsp_ai_log(a, 5, "%s for epoch %llu of job %u is dropped: device %u does not work for it",
                   hsp_msg_name(m->type), (unsigned long long)m->epoch, job, device);
        return;
    }
    if (m->type == HSP_MSG_ARM && d->run.prepared == m->epoch) {
        d->run.armed = m->epoch;
    } else if (m->type == HSP_MSG_START && d->run.prepared == m->epoch) {
        d->run.running = m->epoch;
        d->run.prepared = d->run.armed = 0;
        takes_over(d);
        d->run.broken = false;
    }
    hsp_ai_order(a, device, m);
}

void hsp_ai_daemon_msg(struct hsp_agent *a, const struct hsp_msg *m)
{
    if (of_node(a, m)) {
        return;
    }
    uint32_t device = device_of(m);
    bool known = m->type == HSP_MSG_PREPARE || m->type == HSP_MSG_ARM || m->type == HSP_MSG_START ||
                 m->type == HSP_MSG_DROP || m->type == HSP_MSG_STOP || m->type == HSP_MSG_RELEASE ||
                 m->type == HSP_MSG_CHECKPOINT || m->type == HSP_MSG_TRACE ||
                 m->type == HSP_MSG_WHERE;
    if (!known || device >= a->cfg.n_devices) {
        hsp_ai_log(a, 3, "message type %u for device %u is ignored", m->type, device);
    } else if (m->type == HSP_MSG_PREPARE) {
        prepare(a, device, m);
    } else if (m->type == HSP_MSG_STOP || m->type == HSP_MSG_RELEASE) {
        hsp_ai_stop_or_release(a, device, m);
    } else if (a->dev[device].state == HSP_EXEC_UP) {
        order(a, device, m);
    } else if (m->type == HSP_MSG_DROP) {
        hsp_ai_drop(a, device, m);
    }
}

/* Beats that come more rarely than hspmdd wants are silence, those that come more often do no harm.
 * An executor gives up calls of NCCL by the other time. */
void hsp_ai_pace(struct hsp_agent *a)
{
    uint32_t own = a->cfg.heartbeat_ms, ms = a->heartbeat_ms < own ? a->heartbeat_ms : own;
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        struct hsp_agent_device *d = &a->dev[i];
        if (d->state == HSP_EXEC_UP && !d->killed &&
            (d->beat_ms != ms || d->dead_ms != a->dead_ms)) {
            struct hsp_msg m = {
                .type = HSP_MSG_WELCOME,
                .u.welcome = {.heartbeat_ms = ms, .dead_ms = a->dead_ms, .address = ""}};
            hsp_ai_order(a, i, &m);
            d->beat_ms = ms;
            d->dead_ms = a->dead_ms;
            d->heard_ms = a->now_ms; /* the executor did not know */
        }
    }
}

/* ---- from an executor ---- */

static void come_up(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_agent_device *d = &a->dev[device];
    if (d->state != HSP_EXEC_STARTING || d->killed) {
        return;
    }
    d->state = HSP_EXEC_UP;
    hsp_ai_obeyed_by_start(a, device);
    (void)snprintf(d->address, sizeof(d->address), "%s", m->u.up.address);
    struct hsp_msg up = {.type = HSP_MSG_EXECUTOR_UP,
                         .u.up = {.device = device, .address = d->address}};
    hsp_ai_tell(a, &up);
    hsp_ai_pace(a);
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

/* The fact as an hspmdd that does not have STATE_SHAPE knows it. */
static void as_known(const struct hsp_agent *a, struct hsp_m_failed *f)
{
    if (f->fact == HSP_FACT_STATE_SHAPE && a->protocol < HSP_PROTO_SHAPE) {
        f->fact = HSP_FACT_OTHER;
        f->amount = 0;
    }
}

/* Passes the message on under the number of the device that sent it, not under the number in it. */
static void pass(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_msg c = *m;
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_READY: c.u.ready.device = device; break;
    case HSP_MSG_PREPARE_FAILED:
        c.u.failed.device = device;
        as_known(a, &c.u.failed);
        break;
    case HSP_MSG_STARTED: c.u.started.device = device; break;
    case HSP_MSG_PEER_LOST: c.u.lost.device = device; break;
    case HSP_MSG_JOB_FAILED: c.u.jobfail.device = device; break;
    case HSP_MSG_CKPT_REFUSED: c.u.refused.device = device; break;
    case HSP_MSG_STANDS: c.u.stands.device = device; break;
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
            takes_over(d);
        }
        d->run.running = m->epoch;
        d->run.broken = false;
    } else if (m->type == HSP_MSG_STEP) {
        d->run.version = m->u.step.step;
    } else if (m->type == HSP_MSG_FINISHED) {
        d->run.finished = true;
    } else if ((m->type == HSP_MSG_PEER_LOST || m->type == HSP_MSG_CKPT_REFUSED) &&
               m->epoch == d->run.running) {
        d->run.broken = true;
    } else if (m->type == HSP_MSG_PEER_LOST &&
               (m->epoch == d->run.prepared || m->epoch == d->preparing)) {
        /* armed and moving already: the running epoch is neither whole nor the old one */
        d->run.broken = d->run.broken || d->run.armed == m->epoch;
        d->preparing = 0;
        d->run.prepared = d->run.armed = 0;
        if (d->run.running == 0 && d->run.broken) {
            d->run.running = m->epoch;
            d->plan = d->next_plan;
        }
        forget_if_idle(d);
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

/* The RELEASE that @device has answered ended its work: the epoch of a source, or of a
 * layout that goes. */
static bool released(const struct hsp_agent *a, uint32_t device)
{
    const struct hsp_agent_device *d = &a->dev[device];
    bool owed = a->stop[device].job == d->run.job && a->stop[device].type == HSP_MSG_RELEASE;
    return d->source || (owed && d->plan < a->stop[device].keep_plan);
}

static void exec_stopped(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m)
{
    struct hsp_agent_device *d = &a->dev[device];
    uint32_t job = m->u.devref.job;
    /* A message sent while the STOP was on its way may have ended the work already: the answer is
     * owed. */
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
    } else if (d->run.running != 0 && released(a, device)) {
        d->run.running = 0;
        d->run.broken = d->source = false;
        forget_if_idle(d);
    }
    hsp_ai_stop_done(a, device, m);
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
    case HSP_MSG_STATE_DAMAGED: hsp_ai_damaged(a, device, &m->u.damaged); break;
    case HSP_MSG_SEALED: exec_sealed(a, device, m); break;
    case HSP_MSG_STOPPED:
    case HSP_MSG_RELEASED: exec_stopped(a, device, m); break;
    case HSP_MSG_DROPPED: hsp_ai_dropped(a, device, m); break;
    case HSP_MSG_READY:
    case HSP_MSG_PREPARE_FAILED:
    case HSP_MSG_STARTED:
    case HSP_MSG_STEP:
    case HSP_MSG_PEER_LOST:
    case HSP_MSG_CHECKPOINTED:
    case HSP_MSG_CKPT_REFUSED:
    case HSP_MSG_FINISHED:
    case HSP_MSG_JOB_FAILED:
    case HSP_MSG_TRACED:
    case HSP_MSG_STANDS:
        if (d->run.job == 0 || job_of(m) != d->run.job) {
            break; /* said before a STOP, SEAL or DROP took effect */
        }
        note(d, m);
        if (m->type == HSP_MSG_STEP) {
            hsp_ai_keep_step(a, m);
            if (a->link == HSP_LINK_HELLO) {
                break; /* told behind the steps before it when WELCOME comes: hsp_ai_steps_again */
            }
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
    default: hsp_ai_kill(a, device, "it sent an invalid message"); break;
    }
}
