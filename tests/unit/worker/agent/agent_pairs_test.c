/* Tests every state of an agent's link and of a device with every event, valid or not: the actions
 * of the agent are those in tests/golden/sm/agent.txt (style guide 2.9), each of them obeys the
 * rules below, and the machine goes on from there.
 *
 * Rules: while there is no connection nothing is sent to hspmdd; an order that names another job
 * changes no device that works; of executors that are gone or killed nothing is passed on. */
#include "tests/unit/worker/agent/agent_world.h"

#include <stdio.h>

#include "proto/base/size.h"
#include "tests/lib/pairs.h"

#define JOB 4u

/* ---- stories: device 0 works for job 4, device 1 is idle; epochs 2, then 3 ---- */

static void to_exec(struct aw_world *w, uint16_t type, uint64_t epoch)
{
    struct hsp_msg m = {.type = type, .epoch = epoch};
    m.u.devref.job = JOB; /* SEAL, START and RELEASE begin with it too */
    if (type == HSP_MSG_RELEASE) {
        m.u.release.known = epoch;
    }
    aw_from_daemon(w, m);
}

static void by_exec(struct aw_world *w, uint16_t type, uint64_t epoch)
{
    struct hsp_msg m = {.type = type, .epoch = epoch};
    m.u.devref.job = JOB;
    aw_from_exec(w, 0, m);
}

static void connecting(struct aw_world *w)
{
    aw_begin(w);
}

static void scanning(struct aw_world *w)
{
    aw_begin(w);
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
}

static void said_hello(struct aw_world *w)
{
    scanning(w);
    aw_scanned(w, NULL, 0);
}

static void idle(struct aw_world *w)
{
    aw_begin(w);
    aw_link_up(w, 2, 7);
}

static void measuring(struct aw_world *w)
{
    idle(w);
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_MEASURE, .u.measure.echoes = 16});
}

static void preparing(struct aw_world *w)
{
    idle(w);
    aw_prepare(w, 0, JOB, 2);
}

static void prepared(struct aw_world *w)
{
    preparing(w);
    by_exec(w, HSP_MSG_READY, 2);
}

static void joiner_armed(struct aw_world *w)
{
    prepared(w);
    to_exec(w, HSP_MSG_ARM, 2);
}

static void running(struct aw_world *w)
{
    idle(w);
    aw_run_job(w, 0, JOB, 2);
}

static void running_prepared(struct aw_world *w)
{
    running(w);
    aw_prepare(w, 0, JOB, 3);
    by_exec(w, HSP_MSG_READY, 3);
}

static void running_armed(struct aw_world *w)
{
    running_prepared(w);
    to_exec(w, HSP_MSG_ARM, 3);
}

static void broken(struct aw_world *w)
{
    running(w);
    by_exec(w, HSP_MSG_PEER_LOST, 2);
}

static void sealing(struct aw_world *w)
{
    broken(w);
    to_exec(w, HSP_MSG_SEAL, 3);
}

static void scans_for_seal(struct aw_world *w)
{
    sealing(w);
    by_exec(w, HSP_MSG_SEALED, 3);
}

static void stopping(struct aw_world *w)
{
    running(w);
    to_exec(w, HSP_MSG_STOP, 2);
}

static void source(struct aw_world *w)
{
    idle(w);
    struct hsp_msg m = {
        .type = HSP_MSG_PREPARE,
        .epoch = 2,
        .u.prepare = {.job = JOB, .n_ranks = 2, .rank = 2, .n_peers = 3, .plan = 1}};
    aw_from_daemon(w, m);
    by_exec(w, HSP_MSG_READY, 2);
    by_exec(w, HSP_MSG_STARTED, 2);
}

static void finished(struct aw_world *w)
{
    running(w);
    by_exec(w, HSP_MSG_FINISHED, 2);
}

static void killed(struct aw_world *w)
{
    running(w);
    by_exec(w, HSP_MSG_HELLO, 2); /* no executor says that */
}

static void down(struct aw_world *w)
{
    idle(w);
    for (uint32_t i = 0; i < 3; i++) { /* the third time it waits before the next start */
        aw_exit_of(w, 0);
    }
}

static void starting(struct aw_world *w)
{
    running(w);
    aw_exit_of(w, 0);
}

static void alone(struct aw_world *w)
{
    running(w);
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
}

static void fenced(struct aw_world *w)
{
    running(w);
    struct hsp_msg m = {.type = HSP_MSG_FENCED, .u.fenced.reason = "silent"};
    aw_from_daemon(w, m);
}

static void leaving(struct aw_world *w)
{
    running(w);
    aw_step(w, (struct hsp_agent_event){
                   .type = HSP_AEV_LEAVE, .text = "SIGTERM", .deadline_ms = 60000});
}

/* Another hspmdd at the same address: it does not know the jobs that run here. */
static void parked(struct aw_world *w)
{
    running(w);
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w->now += 100;
    aw_beats(w);
    aw_tick(w);
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(w, NULL, 0);
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_PARKED,
                                       .u.parked = {.cluster = {.lo = 5},
                                                    .heartbeat_ms = 500,
                                                    .dead_ms = 3000,
                                                    .reason = "foreign"}});
}

static void ending(struct aw_world *w)
{
    leaving(w);
    by_exec(w, HSP_MSG_STOPPED, 2);
    struct hsp_msg m = {.type = HSP_MSG_BYE, .u.text.reason = ""};
    aw_from_daemon(w, m);
}

static const struct story {
    const char *name;
    void (*tell)(struct aw_world *w);
    enum hsp_agent_link link;
    enum hsp_exec_state exec;
    uint64_t runs, prepared; /* epochs of device 0 */
} stories[] = {
    {"connecting", connecting, HSP_LINK_CONNECTING, HSP_EXEC_UP, 0, 0},
    {"scanning for hello", scanning, HSP_LINK_SCANNING, HSP_EXEC_UP, 0, 0},
    {"hello said", said_hello, HSP_LINK_HELLO, HSP_EXEC_UP, 0, 0},
    {"idle", idle, HSP_LINK_UP, HSP_EXEC_UP, 0, 0},
    {"measuring its link", measuring, HSP_LINK_UP, HSP_EXEC_UP, 0, 0},
    {"preparing", preparing, HSP_LINK_UP, HSP_EXEC_UP, 0, 0},
    {"prepared", prepared, HSP_LINK_UP, HSP_EXEC_UP, 0, 2},
    {"joiner, armed", joiner_armed, HSP_LINK_UP, HSP_EXEC_UP, 0, 2},
    {"running", running, HSP_LINK_UP, HSP_EXEC_UP, 2, 0},
    {"running, next prepared", running_prepared, HSP_LINK_UP, HSP_EXEC_UP, 2, 3},
    {"running, next armed", running_armed, HSP_LINK_UP, HSP_EXEC_UP, 2, 3},
    {"broken", broken, HSP_LINK_UP, HSP_EXEC_UP, 2, 0},
    {"sealing", sealing, HSP_LINK_UP, HSP_EXEC_UP, 2, 0},
    {"sealed, scans", scans_for_seal, HSP_LINK_UP, HSP_EXEC_UP, 0, 0},
    {"stopping", stopping, HSP_LINK_UP, HSP_EXEC_UP, 2, 0},
    {"source", source, HSP_LINK_UP, HSP_EXEC_UP, 2, 0},
    {"finished", finished, HSP_LINK_UP, HSP_EXEC_UP, 2, 0},
    {"executor killed", killed, HSP_LINK_UP, HSP_EXEC_UP, 2, 0},
    {"executor down", down, HSP_LINK_UP, HSP_EXEC_DOWN, 0, 0},
    {"executor starting again", starting, HSP_LINK_UP, HSP_EXEC_STARTING, 0, 0},
    {"running, hspmdd away", alone, HSP_LINK_DOWN, HSP_EXEC_UP, 2, 0},
    {"fenced", fenced, HSP_LINK_DOWN, HSP_EXEC_UP, 2, 0},
    {"running, parked", parked, HSP_LINK_PARKED, HSP_EXEC_UP, 2, 0},
    {"running, leaving", leaving, HSP_LINK_UP, HSP_EXEC_UP, 2, 0},
    {"told bye", ending, HSP_LINK_UP, HSP_EXEC_UP, 0, 0},
};

/* ---- events ---- */

enum variant { V_RUNS, V_NEXT, V_FUTURE, V_OTHER_JOB, V_NO_DEVICE, V_TWICE };
static const char *const variants[] = {"2", "3", "9", "other job", "no dev", "twice"};
static const uint64_t epochs[] = {2, 3, 9, 3, 3, 3};

static const uint16_t orders[] = {HSP_MSG_PREPARE, HSP_MSG_ARM,        HSP_MSG_START,
                                  HSP_MSG_DROP,    HSP_MSG_SEAL,       HSP_MSG_STOP,
                                  HSP_MSG_RELEASE, HSP_MSG_CHECKPOINT, HSP_MSG_WHERE};
static const uint16_t words[] = {HSP_MSG_SEALED,   HSP_MSG_STOPPED,        HSP_MSG_RELEASED,
                                 HSP_MSG_READY,    HSP_MSG_PREPARE_FAILED, HSP_MSG_STARTED,
                                 HSP_MSG_STEP,     HSP_MSG_PEER_LOST,      HSP_MSG_CHECKPOINTED,
                                 HSP_MSG_FINISHED, HSP_MSG_JOB_FAILED,     HSP_MSG_CKPT_REFUSED,
                                 HSP_MSG_DROPPED,  HSP_MSG_STANDS};

static void give_order(struct aw_world *w, uint16_t type, enum variant v)
{
    uint32_t job = v == V_OTHER_JOB ? 5 : JOB, device = v == V_NO_DEVICE ? HSP_NODE_DEVICES - 1 : 0;
    struct hsp_msg m = {.type = type, .epoch = epochs[v]};
    if (type == HSP_MSG_PREPARE) {
        m.u.prepare = (struct hsp_m_prepare){
            .job = job, .device = device, .n_ranks = 2, .n_peers = 2, .plan = 2};
    } else if (type == HSP_MSG_START) {
        m.u.start = (struct hsp_m_start){.job = job, .device = device};
    } else if (type == HSP_MSG_RELEASE) {
        m.u.release = (struct hsp_m_release){
            .job = job, .device = device, .keep_plan = 2, .known = epochs[v]};
    } else if (type == HSP_MSG_SEAL) {
        m.u.jobref.job = job;
    } else {
        m.u.devref = (struct hsp_m_devref){job, device};
    }
    aw_from_daemon(w, m);
}

static void speak(struct aw_world *w, uint16_t type, enum variant v)
{
    uint32_t job = v == V_OTHER_JOB ? 5 : JOB;
    struct hsp_msg m = {.type = type, .epoch = epochs[v]};
    switch (type) {
    case HSP_MSG_SEALED: m.u.sealed.job = job; break;
    case HSP_MSG_READY: m.u.ready.job = job; break;
    case HSP_MSG_PREPARE_FAILED:
        m.u.failed = (struct hsp_m_failed){.job = job, .peer = HSP_MSG_RANKS, .reason = "no"};
        break;
    case HSP_MSG_STARTED: m.u.started = (struct hsp_m_started){.job = job, .step = 5}; break;
    case HSP_MSG_STEP: m.u.step = (struct hsp_m_step){.job = job, .step = 5}; break;
    case HSP_MSG_PEER_LOST: m.u.lost = (struct hsp_m_lost){.job = job, .reason = "broke"}; break;
    case HSP_MSG_CHECKPOINTED:
        m.u.ckpt = (struct hsp_m_ckpt){.job = job, .step = 5, .complete = true, .reason = ""};
        break;
    case HSP_MSG_CKPT_REFUSED:
        m.u.refused = (struct hsp_m_refused){.job = job, .step = 5, .reason = "damaged"};
        break;
    case HSP_MSG_FINISHED: m.u.finished.job = job; break;
    case HSP_MSG_JOB_FAILED:
        m.u.jobfail = (struct hsp_m_jobfail){.job = job, .reason = "diverged"};
        break;
    default: m.u.devref.job = job; break;
    }
    aw_from_exec(w, 0, m);
}

/* The other events: how they are told, with the values for that. */
struct other {
    const char *name;
    void (*tell)(struct aw_world *w, const struct other *o);
    union {
        struct hsp_msg msg;
        struct hsp_agent_event event;
        uint64_t old_scan; /* of one that is not asked for any more; 0: of the last */
    } u;
};

static void tell_daemon(struct aw_world *w, const struct other *o)
{
    aw_from_daemon(w, o->u.msg);
}

static void tell_exec(struct aw_world *w, const struct other *o)
{
    aw_from_exec(w, 0, o->u.msg);
}

static void tell_event(struct aw_world *w, const struct other *o)
{
    aw_step(w, o->u.event);
}

static void tell_exit(struct aw_world *w, const struct other *o)
{
    (void)o;
    aw_exit_of(w, 0);
}

static void tell_scanned(struct aw_world *w, const struct other *o)
{
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_SCANNED,
                                        .text = "",
                                        .scan = o->u.old_scan != 0 ? o->u.old_scan : w->scan});
}

static void tell_checked(struct aw_world *w, const struct other *o)
{
    struct hsp_msg m = o->u.msg;
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CHECKED, .text = "", .msg = &m});
}

static void tell_reached(struct aw_world *w, const struct other *o)
{
    struct hsp_msg m = o->u.msg;
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_REACHED, .text = "", .msg = &m});
}

static void tell_ckpts(struct aw_world *w, const struct other *o)
{
    struct hsp_msg m = o->u.msg;
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CKPTS, .text = "", .msg = &m});
}

#define WELCOME(t, id)                                   \
    {                                                    \
        .msg = {                                         \
            .type = HSP_MSG_WELCOME,                     \
            .u.welcome = {.protocol = HSP_PROTO_VERSION, \
                          .cluster = {.lo = (id)},       \
                          .term = (t),                   \
                          .incarnation = {1, 8},         \
                          .heartbeat_ms = 500,           \
                          .dead_ms = 3000}               \
        }                                                \
    }
static const struct hsp_gpu_sign xids[] = {
    {HSP_SIGN_XID, 31}, {HSP_SIGN_XID, 48}, {HSP_SIGN_XID, 79}};
static const struct other others[] = {
    {"welcome", tell_daemon, WELCOME(3, 0)},
    {"welcome of an older term", tell_daemon, WELCOME(1, 0)},
    {"welcome of another cluster", tell_daemon, WELCOME(1, 5)},
    {"parked",
     tell_daemon,
     {.msg = {.type = HSP_MSG_PARKED,
              .u.parked = {.heartbeat_ms = 500, .dead_ms = 3000, .reason = "foreign"}}}},
    {"fenced by another cluster",
     tell_daemon,
     {.msg = {.type = HSP_MSG_FENCED, .u.fenced = {{.lo = 5}, "test"}}}},
    {"fenced", tell_daemon, {.msg = {.type = HSP_MSG_FENCED, .u.fenced.reason = "test"}}},
    {"heartbeat of hspmdd", tell_daemon, {.msg = {.type = HSP_MSG_HEARTBEAT}}},
    {"drain-notice", tell_daemon, {.msg = {.type = HSP_MSG_DRAIN_NOTICE, .u.text.reason = "test"}}},
    {"bye", tell_daemon, {.msg = {.type = HSP_MSG_BYE, .u.text.reason = "test"}}},
    {"submit, which hspmdd does not send", tell_daemon, {.msg = {.type = HSP_MSG_SUBMIT}}},
    {"measure", tell_daemon, {.msg = {.type = HSP_MSG_MEASURE, .u.measure.echoes = 16}}},
    {"echo", tell_daemon, {.msg = {.type = HSP_MSG_ECHO, .u.echo.seq = 1}}},
    {"echo, not the last piece",
     tell_daemon,
     {.msg = {.type = HSP_MSG_ECHO, .u.echo = {.seq = 1, .more = true}}}},
    {"executor-up", tell_exec, {.msg = {.type = HSP_MSG_EXECUTOR_UP, .u.up.address = "b:2"}}},
    {"heartbeat of an executor", tell_exec, {.msg = {.type = HSP_MSG_HEARTBEAT}}},
    {"hello, which no executor says", tell_exec, {.msg = {.type = HSP_MSG_HELLO}}},
    {"state-damaged",
     tell_exec,
     {.msg = {.type = HSP_MSG_STATE_DAMAGED, .u.damaged = {.job = JOB, .part = "x"}}}},
    {"executor exits", tell_exit, {.old_scan = 0}},
    {"conn up", tell_event, {.event = {.type = HSP_AEV_CONN_UP, .text = "reset"}}},
    {"conn down", tell_event, {.event = {.type = HSP_AEV_CONN_DOWN, .text = "reset"}}},
    {"scanned", tell_scanned, {.old_scan = 0}},
    {"scanned, old", tell_scanned, {.old_scan = 999}},
    {"leave",
     tell_event,
     {.event = {.type = HSP_AEV_LEAVE, .text = "SIGTERM", .deadline_ms = 1000}}},
    {"check: an order",
     tell_daemon,
     {.msg = {.type = HSP_MSG_CHECK,
              .u.check = {.what = HSP_CHECK_COMPUTE, .peer = "", .peer_address = ""}}}},
    {"check: the end",
     tell_daemon,
     {.msg = {.type = HSP_MSG_CHECK,
              .u.check = {.what = HSP_CHECK_END, .peer = "", .peer_address = ""}}}},
    {"checked",
     tell_checked,
     {.msg = {.type = HSP_MSG_CHECKED,
              .u.checked = {.fault = "", .address = "", .transport = ""}}}},
    {"reach", tell_daemon, {.msg = {.type = HSP_MSG_REACH}}},
    {"reached", tell_reached, {.msg = {.type = HSP_MSG_REACHED}}},
    {"ckpts: which are there",
     tell_daemon,
     {.msg = {.type = HSP_MSG_CKPTS,
              .u.ckpts = {.name = "", .path = "", .damaged = "", .reason = ""}}}},
    {"ckpts: these",
     tell_ckpts,
     {.msg = {.type = HSP_MSG_CKPTS,
              .u.ckpts = {.name = "", .path = "", .damaged = "", .reason = ""}}}},
    {"XID 31", tell_event, {.event = {.type = HSP_AEV_SIGN, .sign = &xids[0]}}},
    {"XID 48", tell_event, {.event = {.type = HSP_AEV_SIGN, .sign = &xids[1]}}},
    {"XID 79", tell_event, {.event = {.type = HSP_AEV_SIGN, .sign = &xids[2]}}},
    {"tick", tell_event, {.event = {.type = HSP_AEV_TICK}}},
};
#undef WELCOME

/* ---- the reaction, in words ---- */

struct before {
    enum hsp_agent_link link;
    struct hsp_agent_device dev;
};

static struct before look_at(const struct aw_world *w)
{
    return (struct before){hsp_agent_link_state(w->a), *hsp_agent_device_at(w->a, 0)};
}

static void moved(struct hsp_buf *out, const char *what, uint64_t from, uint64_t to)
{
    if (from != to) {
        hsp_buf_printf(out, " %s:%llu", what, (unsigned long long)to);
    }
}

/* "" when nothing happened. True: something was sent to hspmdd. */
static bool reaction(const struct aw_world *w, const struct before *b, struct hsp_buf *out)
{
    static const char *const links[] = {"down", "connecting", "scanning", "hello", "up", "parked"};
    static const char *const execs[] = {"down", "starting", "up"};
    const struct hsp_agent_device *d = hsp_agent_device_at(w->a, 0);
    bool told = false;
    if (hsp_agent_link_state(w->a) != b->link) {
        hsp_buf_printf(out, " link:%s", links[hsp_agent_link_state(w->a)]);
    }
    if (d->state != b->dev.state) {
        hsp_buf_printf(out, " exec:%s", execs[d->state]);
    }
    moved(out, "job", b->dev.run.job, d->run.job);
    moved(out, "preparing", b->dev.preparing, d->preparing);
    moved(out, "prepared", b->dev.run.prepared, d->run.prepared);
    moved(out, "armed", b->dev.run.armed, d->run.armed);
    moved(out, "runs", b->dev.run.running, d->run.running);
    moved(out, "version", b->dev.run.version, d->run.version);
    moved(out, "broken", b->dev.run.broken, d->run.broken);
    moved(out, "sealing", b->dev.sealing, d->sealing);
    moved(out, "killed", b->dev.killed, d->killed);
    for (uint32_t i = 0; i < w->acts.n; i++) {
        const struct hsp_agent_action *x = &w->acts.item[i];
        switch (x->type) {
        case HSP_AACT_CONNECT: hsp_buf_puts(out, " connect"); break;
        case HSP_AACT_DISCONNECT: hsp_buf_puts(out, " disconnect"); break;
        case HSP_AACT_SEND:
            hsp_buf_printf(out, " %s>hspmdd", hsp_msg_name(x->msg->type));
            told = true;
            break;
        case HSP_AACT_SEND_EXEC:
            hsp_buf_printf(out, " %s>%u", hsp_msg_name(x->msg->type), x->device);
            break;
        case HSP_AACT_SPAWN: hsp_buf_printf(out, " spawn %u", x->device); break;
        case HSP_AACT_KILL: hsp_buf_printf(out, " kill %u", x->device); break;
        case HSP_AACT_SCAN: hsp_buf_puts(out, " scan"); break;
        case HSP_AACT_DISCARD: hsp_buf_printf(out, " discard %u", x->device); break;
        case HSP_AACT_REMEMBER: hsp_buf_puts(out, " remember"); break;
        case HSP_AACT_CHECK: hsp_buf_puts(out, " check"); break;
        case HSP_AACT_CHECK_STOP: hsp_buf_puts(out, " check-stop"); break;
        case HSP_AACT_REACH: hsp_buf_puts(out, " reach"); break;
        case HSP_AACT_KEEP_PAPERS: hsp_buf_puts(out, " keep-papers"); break;
        case HSP_AACT_DROP_PAPERS: hsp_buf_puts(out, " drop-papers"); break;
        case HSP_AACT_FIND_CKPTS: hsp_buf_puts(out, " find-ckpts"); break;
        case HSP_AACT_READ_PAPERS: hsp_buf_puts(out, " read-papers"); break;
        case HSP_AACT_LOG:
            if (x->severity <= 4) {
                hsp_buf_puts(out, " (warns)");
            }
            break;
        case HSP_AACT_EXIT: hsp_buf_puts(out, " exit"); break;
        }
    }
    return told;
}

/* ---- the walk ---- */

struct walk {
    const struct story *story;
    struct aw_world w;
    struct before before;
    struct hsp_pairs pairs;
};

static void arrive(struct walk *k)
{
    k->story->tell(&k->w);
    const struct hsp_agent_device *d = hsp_agent_device_at(k->w.a, 0);
    if (hsp_agent_link_state(k->w.a) != k->story->link || d->state != k->story->exec ||
        d->run.running != k->story->runs || d->run.prepared != k->story->prepared) {
        fail_msg("%s: link %d, executor %d, runs %llu, prepared %llu", k->story->name,
                 (int)hsp_agent_link_state(k->w.a), (int)d->state,
                 (unsigned long long)d->run.running, (unsigned long long)d->run.prepared);
    }
    k->before = look_at(&k->w);
}

/* Time passes, executors are silent and hspmdd too; then it is told to leave, and it can. */
static void go_on(struct aw_world *w)
{
    bool gone = aw_find(w, HSP_AACT_EXIT) != NULL;
    aw_step(w, (struct hsp_agent_event){
                   .type = HSP_AEV_LEAVE, .text = "SIGTERM", .deadline_ms = 10000});
    for (uint32_t i = 0; i < 200 && !gone; i++) {
        gone = aw_find(w, HSP_AACT_EXIT) != NULL;
        for (uint32_t d = 0; d < 2; d++) {
            const struct hsp_agent_device *v = hsp_agent_device_at(w->a, d);
            if (v->killed && !gone) {
                aw_exit_of(w, d);
                gone = aw_find(w, HSP_AACT_EXIT) != NULL;
            }
        }
        uint64_t at = hsp_agent_deadline(w->a);
        w->now = at == UINT64_MAX || at <= w->now ? w->now + 50 : at;
        if (!gone) {
            aw_tick(w);
            gone = aw_find(w, HSP_AACT_EXIT) != NULL;
        }
    }
    assert_true(gone);
}

static void leave(struct walk *k, const char *event, const char *variant, bool other_job)
{
    struct hsp_buf r;
    hsp_buf_init(&r, 1u << 16);
    const struct hsp_agent_device *d = hsp_agent_device_at(k->w.a, 0), *was = &k->before.dev;
    bool told = reaction(&k->w, &k->before, &r);
    const char *text = hsp_buf_cstr(&r);
    if (told && (k->story->link == HSP_LINK_DOWN || k->story->link == HSP_LINK_CONNECTING)) {
        fail_msg("%s, %s %s: sent without a connection:%s", k->story->name, event, variant, text);
    }
    if (other_job && was->run.job == JOB && memcmp(&d->run, &was->run, sizeof d->run) != 0) {
        fail_msg("%s, %s %s: changes what the device does:%s", k->story->name, event, variant,
                 text);
    }
    hsp_pairs_add(&k->pairs, event, variant, text);
    hsp_buf_fini(&r);
    go_on(&k->w);
    hsp_agent_free(k->w.a);
}

static void walk_message(struct walk *k, uint16_t type, bool order, enum variant v)
{
    void (*give)(struct aw_world *, uint16_t, enum variant) = order ? give_order : speak;
    if (!order && (v == V_NO_DEVICE || k->story->exec == HSP_EXEC_DOWN)) {
        return; /* the agent names the device; an absent one says nothing */
    }
    bool linked = k->story->link == HSP_LINK_HELLO || k->story->link == HSP_LINK_UP;
    if (order && !linked) {
        return; /* W1: nothing arrives on no connection */
    }
    arrive(k);
    give(&k->w, type, v);
    if (v == V_TWICE) {
        k->before = look_at(&k->w);
        give(&k->w, type, v);
    }
    char name[64];
    (void)snprintf(name, sizeof name, "%s%s", hsp_msg_name(type), order ? "" : " of 0");
    leave(k, name, variants[v], v == V_OTHER_JOB);
}

static void every_pair(void **state)
{
    (void)state;
    struct walk k = {.story = NULL};
    hsp_pairs_begin(
        &k.pairs, "# What an agent does, by state and event; made by agent_pairs_test.c.\n"
                  "# Device 0 works for job 4, epoch 2 and then 3. NAME EPOCH: an order of hspmdd; "
                  "NAME of 0\n"
                  "# EPOCH: a word of the executor; FIELD:VALUE = changes; NAME>WHO = sent.\n");
    for (size_t s = 0; s < HSP_ARRAY_LEN(stories); s++) {
        k.story = &stories[s];
        hsp_pairs_state(&k.pairs, k.story->name);
        for (size_t v = 0; v < HSP_ARRAY_LEN(orders) * HSP_ARRAY_LEN(variants); v++) {
            walk_message(&k, orders[v / HSP_ARRAY_LEN(variants)], true,
                         (enum variant)(v % HSP_ARRAY_LEN(variants)));
        }
        for (size_t v = 0; v < HSP_ARRAY_LEN(words) * HSP_ARRAY_LEN(variants); v++) {
            walk_message(&k, words[v / HSP_ARRAY_LEN(variants)], false,
                         (enum variant)(v % HSP_ARRAY_LEN(variants)));
        }
        for (size_t e = 0; e < HSP_ARRAY_LEN(others); e++) {
            arrive(&k);
            others[e].tell(&k.w, &others[e]);
            leave(&k, others[e].name, "", false);
        }
    }
    hsp_pairs_end(&k.pairs, "sm/agent.txt");
}

HSP_TEST_FILE(agent_pairs_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
