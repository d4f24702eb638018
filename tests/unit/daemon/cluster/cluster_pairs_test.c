/* Tests every state of a job or node with every event, valid or not: the actions of the coordinator
 * are those in tests/golden/sm/cluster.txt (style guide 2.9), each of them obeys the rules below,
 * and the machine goes on from there.
 *
 * Rules: an id nobody has, epoch 0, and an epoch that was never given are answered by nothing. The
 * state of a job that has ended is changed by `resume` only, by `cancel` of one that failed, and by
 * a member that knows more. A message said twice moves a job at most once. */
#include "tests/unit/daemon/cluster/cluster_stories.h"

#include <math.h>
#include <stdio.h>

#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/size.h"
#include "tests/lib/pairs.h"
#include "tests/lib/testlib.h"

#define ODD_JOB 99u

/* ---- events ---- */

/* The subject of a message. */
enum variant {
    V_CUR,    /* the epoch that runs, or ran last */
    V_NEXT,   /* the attempt */
    V_SEAL,   /* the epoch that SEAL asked for */
    V_OLD,    /* an epoch that is over */
    V_FUTURE, /* one that was never given */
    V_ZERO,   /* none */
    V_NO_JOB, /* a job nobody knows */
    V_OTHER,  /* of the running or next epoch, by n2, which may have no part */
    V_DEVICE, /* of a device that n1 does not have; peer and rank out of range */
    V_TWICE   /* as CUR or NEXT, after it was said once */
};
static const char *const variants[] = {"cur",  "next",   "seal",  "old",    "future",
                                       "zero", "no job", "by n2", "no dev", "twice"};
#define N_VARIANTS HSP_ARRAY_LEN(variants)

static const uint16_t of_job[] = {HSP_MSG_READY,    HSP_MSG_PREPARE_FAILED, HSP_MSG_STARTED,
                                  HSP_MSG_SEALED,   HSP_MSG_STEP,           HSP_MSG_PEER_LOST,
                                  HSP_MSG_STOPPED,  HSP_MSG_RELEASED,       HSP_MSG_CHECKPOINTED,
                                  HSP_MSG_FINISHED, HSP_MSG_JOB_FAILED,     HSP_MSG_CKPT_REFUSED};

/* 0: there is none in this state. */
static uint64_t epoch_of(const struct hsp_job *j, enum variant v)
{
    uint64_t cur = j->cur.epoch, next = j->att.epoch;
    switch (v) {
    case V_CUR: return cur != 0 ? cur : hsp_ci_at_rest(j) ? j->next_epoch - 1 : 0;
    case V_NEXT: return next;
    case V_SEAL: return j->state == HSP_JOB_SEALING && j->seal_upto != cur ? j->seal_upto : 0;
    case V_OLD: return cur > 1 ? cur - 1 : cur == 0 && next > 1 ? next - 1 : 0;
    case V_FUTURE: return j->next_epoch + 5;
    case V_ZERO: return 0;
    case V_NO_JOB:
    case V_OTHER:
    case V_DEVICE:
    case V_TWICE: return next != 0 ? next : cur != 0 ? cur : 1;
    }
    return 0;
}

static void say(struct cw_world *w, uint16_t type, enum variant v, uint64_t epoch)
{
    static double compute[2] = {1, 1};
    struct hsp_m_holding h = {.job = 1, .plan = 1, .version = 3, .rank = 1, .owner = 1};
    uint32_t job = v == V_NO_JOB ? ODD_JOB : 1, device = v == V_DEVICE ? HSP_NODE_DEVICES - 1 : 0;
    uint32_t peer = v == V_DEVICE ? HSP_MSG_RANKS : 0;
    bool of_first =
        type == HSP_MSG_STEP || type == HSP_MSG_CHECKPOINTED || type == HSP_MSG_FINISHED;
    uint32_t conn = v == V_OTHER ? 3 : w->c->nodes[1].conn == 2 && !of_first ? 2 : 1;
    struct hsp_msg m = {.type = type, .epoch = epoch};
    switch (type) {
    case HSP_MSG_READY:
        m.u.ready = (struct hsp_m_ready){
            .job = job, .device = device, .data_bytes = 7, .data_digest = {5, 1}};
        break;
    case HSP_MSG_PREPARE_FAILED:
        m.u.failed = (struct hsp_m_failed){
            .job = job, .device = device, .fact = HSP_FACT_OTHER, .peer = peer, .reason = "no"};
        break;
    case HSP_MSG_STARTED:
        m.u.started = (struct hsp_m_started){.job = job, .device = device, .step = 4};
        break;
    case HSP_MSG_SEALED:
        h.job = job;
        h.device = device;
        h.rank = h.owner = v == V_DEVICE ? HSP_MSG_RANKS : 1;
        m.u.sealed = (struct hsp_m_sealed){.job = job, .n_holdings = 1, .holdings = &h};
        break;
    case HSP_MSG_STEP:
        m.u.step = (struct hsp_m_step){
            .job = job, .step = 4, .n_compute = v == V_DEVICE ? 1 : 2, .compute_s = compute};
        break;
    case HSP_MSG_PEER_LOST:
        m.u.lost =
            (struct hsp_m_lost){.job = job, .device = device, .peer = peer, .reason = "broke"};
        break;
    case HSP_MSG_CHECKPOINTED:
        m.u.ckpt = (struct hsp_m_ckpt){.job = job, .step = 3, .complete = true, .reason = ""};
        break;
    case HSP_MSG_CKPT_REFUSED:
        m.u.refused =
            (struct hsp_m_refused){.job = job, .device = device, .step = 3, .reason = "damaged"};
        break;
    case HSP_MSG_FINISHED: m.u.finished = (struct hsp_m_finished){.job = job, .step = 100}; break;
    case HSP_MSG_JOB_FAILED:
        m.u.jobfail = (struct hsp_m_jobfail){.job = job, .device = device, .reason = "diverged"};
        break;
    default: m.u.devref = (struct hsp_m_devref){.job = job, .device = device}; break;
    }
    cw_msg(w, conn, m);
}

static void hello_of(struct cw_world *w, uint32_t conn, uint64_t incarnation, uint64_t term,
                     uint64_t runs, bool unproven, uint64_t cluster)
{
    struct hsp_m_kept kept = {.job = 1, .name = "j", .cluster.lo = cluster};
    struct hsp_m_run run = {.job = 1, .running = runs};
    struct hsp_digest was = unproven ? cw_secret(0) : cw_last(w, "n1");
    cw_say_hello(w, conn,
                 (struct hsp_m_hello){.node = "n1",
                                      .address = "a",
                                      .term = term,
                                      .incarnation = cw_secret(incarnation),
                                      .was = was,
                                      .cluster.lo = cluster,
                                      .n_kept = cluster != 0,
                                      .kept = &kept,
                                      .n_runs = runs != 0,
                                      .runs = &run});
}

static uint64_t cur_epoch(const struct cw_world *w)
{
    return cw_job(w, 1) != NULL ? cw_job(w, 1)->cur.epoch : 1;
}

/* The other events: how they are told, with the values for that. */
struct other {
    const char *name;
    void (*tell)(struct cw_world *w, const struct other *o);
    union {
        struct {
            uint32_t conn;
            enum { ANEW, SAME, ODD } incarnation;
            uint64_t term;
            enum { NONE, CURRENT, FURTHER } runs; /* epoch */
            bool unproven;                        /* without the incarnation before */
            uint64_t cluster;                     /* another's */
        } hello;                                  /* of n1 */
        struct {
            uint32_t node;
            uint16_t type;
            uint64_t epoch;
        } said;
        struct hsp_event event;
        struct hsp_admin_event admin; /* of job 1, or n1, unless it says another */
        struct hsp_m_uplink uplink;   /* of n1 */
        struct hsp_msg msg;           /* of n1 */
        struct {
            bool keep, old_ticket;
            enum hsp_status status;
        } plan; /* without one */
    } u;
};

static void tell_hello(struct cw_world *w, const struct other *o)
{
    static const uint64_t odd = 77;
    uint64_t same = w->c->nodes[1].incarnation;
    uint64_t incarnation = o->u.hello.incarnation == SAME  ? same
                           : o->u.hello.incarnation == ODD ? odd
                                                           : 0;
    uint64_t runs = o->u.hello.runs == CURRENT   ? cur_epoch(w)
                    : o->u.hello.runs == FURTHER ? cur_epoch(w) + 9
                                                 : 0;
    hello_of(w, o->u.hello.conn, incarnation, o->u.hello.term, runs, o->u.hello.unproven,
             o->u.hello.cluster);
}

static void tell_of_node(struct cw_world *w, const struct other *o)
{
    cw_of_node(w, o->u.said.node, o->u.said.type);
}

static void tell_said(struct cw_world *w, const struct other *o)
{
    cw_said(w, o->u.said.node, o->u.said.type, o->u.said.epoch);
}

static void tell_event(struct cw_world *w, const struct other *o)
{
    cw_step(w, o->u.event);
}

static void tell_admin(struct cw_world *w, const struct other *o)
{
    struct hsp_admin_event a = o->u.admin;
    a.job = a.job != 0 ? a.job : 1;
    a.node = a.node != NULL ? a.node : "n1";
    a.reason = "test";
    (void)cw_admin(w, a);
}

static void tell_uplink(struct cw_world *w, const struct other *o)
{
    cw_uplink(w, 2, o->u.uplink.latency_s, o->u.uplink.bytes_per_s);
}

static void tell_msg(struct cw_world *w, const struct other *o)
{
    cw_msg(w, 2, o->u.msg);
}

/* n1 has fallen silent to n0, or cannot be reached, in the epoch that is made or runs. */
static void tell_silence(struct cw_world *w, const struct other *o)
{
    struct hsp_msg m = o->u.msg;
    const struct hsp_job *j = cw_job(w, 1);
    m.epoch = j == NULL ? 1 : j->att.epoch != 0 ? j->att.epoch : j->cur.epoch;
    cw_msg(w, 1, m);
}

static void tell_plan(struct cw_world *w, const struct other *o)
{
    (void)o;
    cw_plan(w, 1);
}

static void tell_no_plan(struct cw_world *w, const struct other *o)
{
    struct hsp_event ev = {.type = HSP_EV_PLAN_DONE,
                           .u.plan = {.job = 1,
                                      .ticket = w->ticket + o->u.plan.old_ticket,
                                      .keep = o->u.plan.keep,
                                      .status = o->u.plan.status,
                                      .reason = "test"}};
    cw_step(w, ev);
}

static const struct other others[] = {
    {"hello of n1, as it was", tell_hello, {.hello = {8, SAME, 1, CURRENT, false, 0}}},
    {"hello of n1, runs nothing", tell_hello, {.hello = {8, SAME, 1, NONE, false, 0}}},
    {"hello of n1, anew", tell_hello, {.hello = {8, ANEW, 1, NONE, false, 0}}},
    {"hello of n1, anew, without proof", tell_hello, {.hello = {8, ANEW, 1, NONE, true, 0}}},
    {"hello of n1, other incarnation", tell_hello, {.hello = {8, ODD, 1, NONE, false, 0}}},
    {"hello of n1, newer term", tell_hello, {.hello = {2, SAME, 9, NONE, false, 0}}},
    {"hello of n1, newer epoch", tell_hello, {.hello = {2, SAME, 1, FURTHER, false, 0}}},
    {"hello of n1, newer epoch, other incarnation",
     tell_hello,
     {.hello = {2, ODD, 1, FURTHER, false, 0}}},
    {"hello of n1 of another cluster", tell_hello, {.hello = {2, SAME, 1, CURRENT, false, 7}}},
    {"hello of an n1 of another cluster", tell_hello, {.hello = {8, SAME, 1, CURRENT, false, 7}}},
    {"hello of n1, twice on one connection",
     tell_hello,
     {.hello = {2, SAME, 1, CURRENT, false, 0}}},
    {"heartbeat", tell_of_node, {.said = {1, HSP_MSG_HEARTBEAT, 0}}},
    {"executor-dead", tell_of_node, {.said = {1, HSP_MSG_EXECUTOR_DEAD, 0}}},
    {"executor-up", tell_of_node, {.said = {1, HSP_MSG_EXECUTOR_UP, 0}}},
    {"leave", tell_of_node, {.said = {1, HSP_MSG_LEAVE, 0}}},
    {"seal, which no agent says", tell_said, {.said = {1, HSP_MSG_SEAL, 1}}},
    {"cancel, which no agent says", tell_said, {.said = {1, HSP_MSG_CANCEL, 0}}},
    {"before hello", tell_said, {.said = {30, HSP_MSG_STOPPED, 1}}},
    {"conn opened", tell_event, {.event = {.type = HSP_EV_CONN_OPENED, .conn = 9}}},
    {"conn of n1 closed", tell_event, {.event = {.type = HSP_EV_CONN_CLOSED, .conn = 2}}},
    {"conn of nobody closed", tell_event, {.event = {.type = HSP_EV_CONN_CLOSED, .conn = 31}}},
    {"tick", tell_event, {.event = {.type = HSP_EV_TICK}}},
    {"admin submit, the same name",
     tell_admin,
     {.admin = {.verb = HSP_ADMIN_SUBMIT, .spec = {.name = "j", .min = 1, .max = 1, .steps = 9}}}},
    {"admin cancel", tell_admin, {.admin = {.verb = HSP_ADMIN_CANCEL}}},
    {"admin scale", tell_admin, {.admin = {.verb = HSP_ADMIN_SCALE, .min = 1, .max = 3}}},
    {"admin scale, wrong", tell_admin, {.admin = {.verb = HSP_ADMIN_SCALE, .min = 2, .max = 1}}},
    {"admin drain n1", tell_admin, {.admin = {.verb = HSP_ADMIN_DRAIN}}},
    {"admin undrain n1", tell_admin, {.admin = {.verb = HSP_ADMIN_UNDRAIN}}},
    {"admin allow n1", tell_admin, {.admin = {.verb = HSP_ADMIN_ALLOW}}},
    {"admin allow, not yet known", tell_admin, {.admin = {.verb = HSP_ADMIN_ALLOW, .node = "n9"}}},
    {"admin deny n1", tell_admin, {.admin = {.verb = HSP_ADMIN_DENY}}},
    {"admin deny, no node", tell_admin, {.admin = {.verb = HSP_ADMIN_DENY, .node = "n9"}}},
    {"admin remove n1", tell_admin, {.admin = {.verb = HSP_ADMIN_REMOVE}}},
    {"admin remove n2", tell_admin, {.admin = {.verb = HSP_ADMIN_REMOVE, .node = "n2"}}},
    {"admin remove, no node", tell_admin, {.admin = {.verb = HSP_ADMIN_REMOVE, .node = "n9"}}},
    {"admin checkpoint", tell_admin, {.admin = {.verb = HSP_ADMIN_CHECKPOINT}}},
    {"admin forget", tell_admin, {.admin = {.verb = HSP_ADMIN_FORGET}}},
    {"admin resume", tell_admin, {.admin = {.verb = HSP_ADMIN_RESUME}}},
    {"admin cancel, no job", tell_admin, {.admin = {.verb = HSP_ADMIN_CANCEL, .job = ODD_JOB}}},
    {"admin drain, no node", tell_admin, {.admin = {.verb = HSP_ADMIN_DRAIN, .node = "n9"}}},
    {"uplink", tell_uplink, {.uplink = {1e-3, 1e7}}},
    {"uplink, no number", tell_uplink, {.uplink = {(double)NAN, 1e7}}},
    {"echo", tell_msg, {.msg = {.type = HSP_MSG_ECHO}}},
    {"measure, which no agent says", tell_msg, {.msg = {.type = HSP_MSG_MEASURE}}},
    {"plan done", tell_plan, {.plan = {false, false, HSP_OK}}},
    {"plan done: keep", tell_no_plan, {.plan = {.keep = true}}},
    {"plan done: infeasible", tell_no_plan, {.plan = {.status = HSP_EINFEASIBLE}}},
    {"plan done: empty", tell_no_plan, {.plan = {.status = HSP_OK}}},
    {"plan done: old ticket", tell_no_plan, {.plan = {.old_ticket = true}}},
    {"admin suspend", tell_admin, {.admin = {.verb = HSP_ADMIN_SUSPEND}}},
    {"admin check", tell_event, {.event = {.type = HSP_EV_ADMIN, .u.admin.verb = HSP_ADMIN_CHECK}}},
    {"admin check, stop: none is under way",
     tell_event,
     {.event = {.type = HSP_EV_ADMIN, .u.admin.verb = HSP_ADMIN_CHECK_STOP}}},
    {"checked: nobody asked",
     tell_msg,
     {.msg = {.type = HSP_MSG_CHECKED,
              .u.checked = {.check = 1, .seq = 2, .fault = "", .address = ""}}}},
    {"device-health: warn",
     tell_msg,
     {.msg = {.type = HSP_MSG_DEVICE_HEALTH, .u.health = {0, HSP_HEALTH_WARN, "hot"}}}},
    {"device-health: cordon",
     tell_msg,
     {.msg = {.type = HSP_MSG_DEVICE_HEALTH, .u.health = {0, HSP_HEALTH_CORDON, "NVLink"}}}},
    {"device-health: lost",
     tell_msg,
     {.msg = {.type = HSP_MSG_DEVICE_HEALTH, .u.health = {0, HSP_HEALTH_LOST, "gone"}}}},
    {"device-health: of a device there is not",
     tell_msg,
     {.msg = {.type = HSP_MSG_DEVICE_HEALTH, .u.health = {9, HSP_HEALTH_LOST, "gone"}}}},
    {"state-damaged",
     tell_msg,
     {.msg =
          {.type = HSP_MSG_STATE_DAMAGED,
           .u.damaged = {.job = 1, .plan = 2, .rank = 1, .owner = 1, .version = 3, .part = "x"}}}},
    {"state-damaged: another's",
     tell_msg,
     {.msg = {.type = HSP_MSG_STATE_DAMAGED,
              .u.damaged = {.job = 1, .plan = 1, .version = 3, .part = "x"}}}},
    {"peer-lost: silent",
     tell_silence,
     {.msg = {.type = HSP_MSG_PEER_LOST,
              .u.lost = {.job = 1, .peer = 1, .by = 0, .silent = true, .reason = "silent"}}}},
    {"prepare-failed: silent",
     tell_silence,
     {.msg = {.type = HSP_MSG_PREPARE_FAILED,
              .u.failed = {.job = 1,
                           .fact = HSP_FACT_CANNOT_CONNECT,
                           .peer = 1,
                           .by = 0,
                           .silent = true,
                           .reason = "silent"}}}},
    {"reached: nobody asked",
     tell_msg,
     {.msg = {.type = HSP_MSG_REACHED, .u.reached.round = 4097}}},
    {"job unreadable",
     tell_event,
     {.event = {.type = HSP_EV_UNREADABLE, .u.unreadable = {1, "test"}}}},
};

/* ---- the reaction, in words ---- */

struct before {
    int job;
    enum hsp_node_state node[CW_NODES];
    uint32_t n_nodes;
};

static struct before look_at(const struct cw_world *w)
{
    struct before b = {.job = cw_job(w, 1) != NULL ? (int)cw_job(w, 1)->state : CW_NO_JOB};
    for (b.n_nodes = 0; b.n_nodes < CW_NODES; b.n_nodes++) {
        b.node[b.n_nodes] = w->c->nodes[b.n_nodes].state;
    }
    return b;
}

static void put_action(const struct cw_world *w, const struct hsp_action *a, struct hsp_buf *out)
{
    const struct hsp_cluster_node *n = hsp_ci_node_of_conn(w->c, a->conn);
    switch (a->type) {
    case HSP_ACT_SEND:
    case HSP_ACT_PREPARE:
    case HSP_ACT_PAPERS:
    case HSP_ACT_CHECK:
        hsp_buf_printf(out, " %s>%s", hsp_msg_name(a->msg->type), n != NULL ? n->name : "-");
        break;
    case HSP_ACT_CLOSE: hsp_buf_puts(out, " close"); break;
    case HSP_ACT_STORE:
    case HSP_ACT_ERASE: break;
    case HSP_ACT_START_PLAN: hsp_buf_puts(out, " ask-plan"); break;
    case HSP_ACT_FIND_CKPTS: hsp_buf_puts(out, " find-ckpts"); break;
    case HSP_ACT_CANCEL_PLAN: hsp_buf_puts(out, " cancel-plan"); break;
    case HSP_ACT_KEEP_PLAN: hsp_buf_puts(out, " keep-plan"); break;
    case HSP_ACT_COPY_PLAN: hsp_buf_puts(out, " copy-plan"); break;
    case HSP_ACT_DROP_PLAN: hsp_buf_puts(out, " drop-plan"); break;
    case HSP_ACT_REPLY: hsp_buf_printf(out, " reply=%s", hsp_test_status_name(a->status)); break;
    case HSP_ACT_FACT:
        if (strncmp(a->u.fact->type, "job.", 4) != 0 ||
            strcmp(a->u.fact->type, "job.blocked") == 0) {
            hsp_buf_printf(out, " (%s)", a->u.fact->type);
        }
        break;
    case HSP_ACT_METRIC: hsp_buf_puts(out, " metric"); break;
    }
}

/* "" when nothing happened. */
static void reaction(const struct cw_world *w, const struct before *b, struct hsp_buf *out)
{
    int now = cw_job(w, 1) != NULL ? (int)cw_job(w, 1)->state : CW_NO_JOB;
    if (now != b->job) {
        hsp_buf_printf(out, " job:%s",
                       now == CW_NO_JOB ? "forgotten"
                                        : hsp_job_state_name((enum hsp_job_state)now));
    }
    for (uint32_t i = 0; i < CW_NODES; i++) {
        if (w->c->nodes[i].state != b->node[i]) {
            hsp_buf_printf(out, " n%u:%s", i, hsp_node_state_name(w->c->nodes[i].state));
        }
    }
    for (uint32_t i = 0; i < w->a.n; i++) {
        put_action(w, &w->a.item[i], out);
    }
}

/* ---- the walk ---- */

struct walk {
    const struct cw_scenario *story;
    struct cw_world w;
    struct before before;
    struct hsp_pairs pairs;
};

static void arrive(struct walk *k)
{
    k->story->tell(&k->w);
    const struct hsp_job *j = cw_job(&k->w, 1);
    int at = j != NULL ? (int)j->state : CW_NO_JOB;
    enum hsp_attempt_phase phase = j != NULL ? j->att.phase : HSP_ATT_NONE;
    bool asks = j != NULL && j->ticket != 0;
    if (at != k->story->state || phase != k->story->phase || asks != k->story->asks) {
        fail_msg("%s: state %d, phase %d, planning %d", k->story->name, at, (int)phase, asks);
    }
    k->before = look_at(&k->w);
}

/* Nobody answers any more, then all is told to stop: the machine comes to an end it knows. */
static void go_on(struct cw_world *w)
{
    for (uint32_t i = 0; i < 12; i++) {
        hsp_msec at = hsp_cluster_deadline(w->c);
        assert_true(at >= 1000);
        w->now = at == HSP_NEVER || at < w->now ? w->now + 100 : at;
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    if (w->c->behind) { /* only an administrator's word ends that */
        assert_int_equal(cw_order(w, HSP_ADMIN_CANCEL, 1), HSP_ESTATE);
        return;
    }
    if (cw_job(w, 1) != NULL && !hsp_job_terminal(cw_job(w, 1)->state)) {
        assert_int_equal(cw_order(w, HSP_ADMIN_CANCEL, 1), HSP_OK);
        assert_int_equal(cw_job(w, 1)->state, HSP_JOB_CANCELLED);
    }
}

/* @must_ignore: by the rules. */
static void leave(struct walk *k, const char *event, const char *variant, bool must_ignore)
{
    struct hsp_buf r;
    hsp_buf_init(&r, 1u << 16);
    reaction(&k->w, &k->before, &r);
    const char *text = hsp_buf_cstr(&r);
    bool unheard = strcmp(text, " close") == 0; /* its connection is not that of a node any more */
    if (must_ignore && text[0] != '\0' && !unheard) {
        fail_msg("%s, %s %s:%s", k->story->name, event, variant, text);
    }
    bool gives_up = strcmp(event, "admin cancel") == 0 && k->story->state == (int)HSP_JOB_FAILED;
    bool resumed = strcmp(event, "admin resume") == 0 || gives_up ||
                   strncmp(event, "hello of n1, newer epoch", 24) == 0;
    if (k->story->state != CW_NO_JOB && hsp_job_terminal((enum hsp_job_state)k->story->state) &&
        cw_job(&k->w, 1) != NULL && !resumed) {
        assert_int_equal(cw_job(&k->w, 1)->state, k->story->state);
    }
    hsp_pairs_add(&k->pairs, event, variant, text);
    hsp_buf_fini(&r);
    go_on(&k->w);
    cw_end(&k->w);
}

static void walk_message(struct walk *k, uint16_t type, enum variant v)
{
    arrive(k);
    const struct hsp_job *j = cw_job(&k->w, 1);
    uint64_t epoch = j != NULL ? epoch_of(j, v) : v == V_ZERO ? 0 : 1;
    if ((epoch == 0 && v != V_ZERO) || (j == NULL && v != V_CUR && v != V_ZERO)) {
        cw_end(&k->w); /* no such case here */
        return;
    }
    if (v == V_TWICE) {
        say(&k->w, type, v, epoch);
        k->before = look_at(&k->w);
    }
    say(&k->w, type, v, epoch);
    bool by_ask =
        type == HSP_MSG_STOPPED || type == HSP_MSG_RELEASED; /* the lease counts, not the epoch */
    leave(k, hsp_msg_name(type), variants[v],
          v == V_NO_JOB || ((v == V_FUTURE || v == V_ZERO) && !by_ask));
}

static void every_pair(void **state)
{
    (void)state;
    struct walk k = {.story = NULL};
    hsp_pairs_begin(
        &k.pairs, "# What the coordinator does, by state and event; made by cluster_pairs_test.c.\n"
                  "# Job 1 has n0/0 and n1/0; messages come from n1, from n0 where n1 is away,\n"
                  "# and what only rank 0 says: step, checkpointed, finished.\n"
                  "# job:STATE nK:STATE = moves; NAME>NODE = sent; (type) = told as an event.\n");
    for (k.story = cw_scenarios; k.story < cw_scenarios + cw_n_scenarios; k.story++) {
        hsp_pairs_state(&k.pairs, k.story->name);
        for (size_t t = 0; t < HSP_ARRAY_LEN(of_job); t++) {
            for (size_t v = 0; v < N_VARIANTS; v++) {
                walk_message(&k, of_job[t], (enum variant)v);
            }
        }
        for (const struct other *o = others; o < others + HSP_ARRAY_LEN(others); o++) {
            bool no_question = k.story->state == CW_NO_JOB && o->tell == tell_plan;
            if (!no_question) {
                arrive(&k);
                o->tell(&k.w, o);
                leave(&k, o->name, "", false);
            }
        }
    }
    hsp_pairs_end(&k.pairs, "sm/cluster.txt");
}

HSP_TEST_FILE(cluster_pairs_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
