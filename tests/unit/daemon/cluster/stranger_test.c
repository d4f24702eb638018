/* Tests every message an agent can send, in every state of a job, by a node that has no right to
 * say it: a node that never was a member, one that was, a source, and a member of another rank than
 * 0. The contents are forged. Nothing may change but the record of the sender itself: no job, no
 * other node, no step, no checkpoint, no metric, no message to anybody else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/size.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"
#include "tests/unit/daemon/cluster/cluster_stories.h"

#define NODES 6
/* Of job 1: n0 has rank 0, n1 rank 1, so that it may repeat steps; n3 has rank 2; n2 had it in
 * epoch 2 and has left; n5 never was anything. While a switch is prepared n4 is to take the place
 * of n3, which is a source then. */
enum speaker { FORMER = 2, OTHER = 3, SOURCE = 4, STRANGER = 5 };

/* ---- scenes ---- */

static void step_of(struct cw_world *w, uint32_t node, uint64_t epoch, uint64_t n, bool final)
{
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_STEP,
                            .epoch = epoch,
                            .u.step = {.job = 1, .step = n, .final = final}});
}

static void drain(struct cw_world *w, const char *node, bool on)
{
    assert_int_equal(
        cw_admin(w, (struct hsp_admin_event){.verb = on ? HSP_ADMIN_DRAIN : HSP_ADMIN_UNDRAIN,
                                             .node = node,
                                             .reason = "test"}),
        HSP_OK);
}

static void submitted(struct cw_world *w)
{
    cw_begin(w, NODES, 1);
    wc_submit(w, (struct hsp_job_terms){.max = 3, .data_path = "/d"});
}

static void preparing(struct cw_world *w)
{
    submitted(w);
    cw_plan(w, 1);
    cw_said(w, 0, HSP_MSG_PREPARE_FAILED, 1);
    cw_plan(w, 1);
}

static void going(struct cw_world *w)
{
    preparing(w);
    for (uint32_t i = 0; i < 3; i++) {
        cw_ready(w, 1, i, 5);
    }
}

/* n2 leaves the job for n3, which has not voted yet. */
static void unsettled(struct cw_world *w)
{
    going(w);
    step_of(w, 0, 2, 3, false);
    cw_let_go(w, 1, 3);
    drain(w, "n2", true);
    cw_plan(w, 1);
    for (uint32_t i = 0; i < 4; i++) {
        cw_ready(w, 1, i, 5);
    }
    for (uint32_t i = 0; i < 4; i++) {
        cw_msg(w, i + 1,
               (struct hsp_msg){
                   .type = HSP_MSG_STARTED, .epoch = 3, .u.started = {.job = 1, .step = 5}});
    }
}

static void running(struct cw_world *w)
{
    unsettled(w);
    step_of(w, 0, 3, 6, false);
    cw_let_go(w, 1, 4);
    cw_msg(w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_CHECKPOINTED,
               .epoch = 3,
               .u.ckpt = {.job = 1, .step = 5, .term = 1, .complete = true, .reason = ""}});
}

static void running_planning(struct cw_world *w)
{
    running(w);
    drain(w, "n3", true);
}

static void switching(struct cw_world *w)
{
    running_planning(w);
    cw_plan(w, 1);
}

static void armed(struct cw_world *w)
{
    switching(w);
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
    cw_ready(w, 1, 3, 5);
    cw_ready(w, 1, 4, 5);
}

static void sealing(struct cw_world *w)
{
    running(w);
    cw_of_node(w, 3, HSP_MSG_EXECUTOR_DEAD);
}

static void sealed(struct cw_world *w, uint32_t node, uint64_t version, bool holds)
{
    const struct hsp_job *j = cw_job(w, 1);
    uint32_t rank = node < 2 ? node : 2;
    struct hsp_m_holding h = {
        .job = 1, .plan = j->cur.plan, .version = version, .rank = rank, .owner = rank};
    cw_msg(w, node + 1,
           (struct hsp_msg){.type = HSP_MSG_SEALED,
                            .epoch = j->seal_upto,
                            .u.sealed = {.job = 1, .n_holdings = holds, .holdings = &h}});
}

static void waits_up(struct cw_world *w)
{
    sealing(w);
    sealed(w, 0, 6, true);
    sealed(w, 1, 6, true);
    sealed(w, 3, 6, true);
}

static void recovering(struct cw_world *w)
{
    waits_up(w);
    cw_of_node(w, 3, HSP_MSG_EXECUTOR_UP);
}

static void recovering_going(struct cw_world *w)
{
    recovering(w);
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
    cw_ready(w, 1, 3, 5);
}

static void paused(struct cw_world *w)
{
    sealing(w);
    sealed(w, 0, 6, false);
    sealed(w, 1, 6, false);
    sealed(w, 3, 6, false);
}

static void finishing(struct cw_world *w)
{
    running(w);
    step_of(w, 0, 3, 100, true);
}

static void unwritten(struct cw_world *w)
{
    finishing(w);
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED,
                            .epoch = 3,
                            .u.ckpt = {.job = 1, .step = 100, .term = 1, .reason = "no space"}});
}

static void done(struct cw_world *w)
{
    finishing(w);
    cw_msg(w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_FINISHED, .epoch = 3, .u.finished = {.job = 1, .step = 100}});
}

static void stopped(struct cw_world *w)
{
    cw_said(w, 0, HSP_MSG_STOPPED, 3);
    cw_said(w, 1, HSP_MSG_STOPPED, 3);
    cw_said(w, 3, HSP_MSG_STOPPED, 3);
}

static void done_stopped(struct cw_world *w)
{
    done(w);
    stopped(w);
}

static void failed(struct cw_world *w)
{
    running(w);
    cw_msg(w, 4,
           (struct hsp_msg){.type = HSP_MSG_JOB_FAILED,
                            .epoch = 3,
                            .u.jobfail = {.job = 1, .reason = "diverged"}});
}

static void suspending(struct cw_world *w)
{
    running(w);
    assert_int_equal(cw_order(w, HSP_ADMIN_SUSPEND, 1), HSP_OK);
}

static void suspended(struct cw_world *w)
{
    suspending(w);
    cw_msg(w, 1,
           (struct hsp_msg){
               .type = HSP_MSG_CHECKPOINTED,
               .epoch = 3,
               .u.ckpt = {.job = 1, .step = 6, .term = 1, .complete = true, .reason = ""}});
}

static void cancelled(struct cw_world *w)
{
    running(w);
    assert_int_equal(cw_order(w, HSP_ADMIN_CANCEL, 1), HSP_OK);
}

static void resumed(struct cw_world *w)
{
    cancelled(w);
    stopped(w);
    assert_int_equal(cw_order(w, HSP_ADMIN_RESUME, 1), HSP_OK);
}

static void restarted(struct cw_world *w)
{
    running(w);
    cw_restart(w, NULL);
    for (uint32_t i = 0; i < NODES; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%u", i);
        cw_hello_running(w, i + 1, name, w->c->nodes[i].incarnation, 1, i < 2 || i == 3 ? 3 : 0);
        cw_uplink(w, i + 1, 1e-4, 1e8); /* so that no turn waits for its end */
    }
}

static const struct scene {
    const char *name;
    void (*tell)(struct cw_world *w);
    enum hsp_job_state state;
    bool source; /* n3 is one of the next epoch */
} scenes[] = {
    {"pending", submitted, HSP_JOB_PENDING, false},
    {"starting: prepares", preparing, HSP_JOB_STARTING, false},
    {"starting: goes", going, HSP_JOB_STARTING, false},
    {"running: no vote yet", unsettled, HSP_JOB_RUNNING, false},
    {"running", running, HSP_JOB_RUNNING, false},
    {"running: planning", running_planning, HSP_JOB_RUNNING, false},
    {"switching: prepares", switching, HSP_JOB_SWITCHING, true},
    {"switching: armed", armed, HSP_JOB_SWITCHING, true},
    {"sealing", sealing, HSP_JOB_SEALING, false},
    {"recovering: waits for n3/0", waits_up, HSP_JOB_RECOVERING, false},
    {"recovering: prepares", recovering, HSP_JOB_RECOVERING, false},
    {"recovering: goes", recovering_going, HSP_JOB_RECOVERING, false},
    {"paused", paused, HSP_JOB_PAUSED, false},
    {"finishing", finishing, HSP_JOB_FINISHING, false},
    {"finishing: unwritten", unwritten, HSP_JOB_FINISHING, false},
    {"done: stopping", done, HSP_JOB_DONE, false},
    {"done", done_stopped, HSP_JOB_DONE, false},
    {"failed: stopping", failed, HSP_JOB_FAILED, false},
    {"running: to be suspended", suspending, HSP_JOB_RUNNING, false},
    {"suspended: stopping", suspended, HSP_JOB_SUSPENDED, false},
    {"cancelled: stopping", cancelled, HSP_JOB_CANCELLED, false},
    {"pending: resumed", resumed, HSP_JOB_PENDING, false},
    {"running, hspmdd restarted", restarted, HSP_JOB_RUNNING, false},
};

/* ---- the facts that must not change ---- */

struct memory {
    struct hsp_job job;
    struct hsp_cluster_node node[NODES];
};

static void remember(const struct cw_world *w, struct memory *m)
{
    m->job = *w->c->jobs[0];
    m->job.look = false;
    for (uint32_t i = 0; i < NODES; i++) {
        m->node[i] = w->c->nodes[i];
        m->node[i].older = m->node[i].newer = HSP_NO_NODE; /* the order of hearing */
        m->node[i].looked = false;
    }
}

/* NULL: nothing that is not the sender's own. */
static const char *told_others(const struct cw_world *w, uint32_t sender)
{
    static char text[200];
    for (uint32_t i = 0; i < w->a.n; i++) {
        const struct hsp_action *a = &w->a.item[i];
        const struct hsp_cluster_node *own = &w->c->nodes[sender];
        bool mine = false;
        switch (a->type) {
        case HSP_ACT_SEND:
        case HSP_ACT_CLOSE: mine = a->conn == sender + 1 || a->conn >= 90; break;
        case HSP_ACT_STORE:
            mine = strtoul(a->key + strcspn(a->key, "0123456789"), NULL, 10) == sender &&
                   strncmp(a->key, "node/", 5) == 0;
            break;
        case HSP_ACT_FACT:
            mine = a->u.fact->job == 0 && strcmp(a->u.fact->node, own->name) == 0;
            break;
        case HSP_ACT_PREPARE:
        case HSP_ACT_PAPERS:
        case HSP_ACT_CHECK:
        case HSP_ACT_ERASE:
        case HSP_ACT_START_PLAN:
        case HSP_ACT_FIND_CKPTS:
        case HSP_ACT_CANCEL_PLAN:
        case HSP_ACT_KEEP_PLAN:
        case HSP_ACT_COPY_PLAN:
        case HSP_ACT_DROP_PLAN:
        case HSP_ACT_REPLY:
        case HSP_ACT_METRIC: break;
        }
        if (!mine) {
            (void)snprintf(text, sizeof(text), "action %d %s%s%s", a->type,
                           a->key != NULL ? a->key : "",
                           a->type == HSP_ACT_FACT ? a->u.fact->type : "",
                           a->msg != NULL ? hsp_msg_name(a->msg->type) : "");
            return text;
        }
    }
    return NULL;
}

static const char *changed(const struct cw_world *w, const struct memory *m, uint32_t sender)
{
    static char text[200];
    struct memory now;
    remember(w, &now);
    const char *told = told_others(w, sender);
    if (told != NULL) {
        return told;
    }
    if (w->c->n_jobs != 1 || memcmp(&now.job, &m->job, sizeof(now.job)) != 0) {
        const uint8_t *a = (const uint8_t *)&now.job, *b = (const uint8_t *)&m->job;
        size_t at = 0;
        while (at < sizeof(now.job) && a[at] == b[at]) {
            at++;
        }
        (void)snprintf(text, sizeof(text), "the job is another, from byte %zu on (%s, stable %llu)",
                       at, hsp_job_state_name(now.job.state), (unsigned long long)now.job.stable);
        return text;
    }
    for (uint32_t i = 0; i < NODES; i++) {
        if (i != sender && memcmp(&now.node[i], &m->node[i], sizeof(now.node[i])) != 0) {
            (void)snprintf(text, sizeof(text), "n%u is another", i);
            return text;
        }
    }
    const struct hsp_node_device *d = &w->c->nodes[sender].dev[0];
    if (d->job != m->node[sender].dev[0].job || d->ask != m->node[sender].dev[0].ask) {
        return "the lease of its device";
    }
    return NULL;
}

/* ---- forged contents ---- */

struct forged {
    uint64_t epoch, step;
    uint32_t device, rank;
    bool final, complete;
};

static struct hsp_m_holding piece; /* of the message last made */
static double compute[2] = {1, 1};
static const uint8_t rows[] = "{\"step\":1,\"epoch\":3}\n";

static struct hsp_msg forge(uint16_t type, const struct forged *f, const struct hsp_job *j)
{
    struct hsp_msg m = {.type = type, .epoch = f->epoch};
    switch (type) {
    case HSP_MSG_READY:
        m.u.ready = (struct hsp_m_ready){.job = 1, .device = f->device, .data_bytes = 7};
        break;
    case HSP_MSG_PREPARE_FAILED:
        m.u.failed =
            (struct hsp_m_failed){.job = 1,
                                  .device = f->device,
                                  .fact = f->final ? HSP_FACT_NO_DATA : HSP_FACT_CANNOT_CONNECT,
                                  .peer = f->rank,
                                  .reason = "forged"};
        break;
    case HSP_MSG_STARTED:
        m.u.started = (struct hsp_m_started){.job = 1, .device = f->device, .step = f->step};
        break;
    case HSP_MSG_SEALED:
        piece = (struct hsp_m_holding){.job = 1,
                                       .device = f->device,
                                       .plan = j->cur.plan,
                                       .rank = f->rank,
                                       .owner = f->rank,
                                       .version = f->step};
        m.u.sealed = (struct hsp_m_sealed){.job = 1, .n_holdings = 1, .holdings = &piece};
        break;
    case HSP_MSG_STEP:
        m.u.step = (struct hsp_m_step){
            .job = 1, .step = f->step, .final = f->final, .n_compute = 2, .compute_s = compute};
        break;
    case HSP_MSG_PEER_LOST:
        m.u.lost = (struct hsp_m_lost){.job = 1,
                                       .device = f->device,
                                       .peer = f->rank,
                                       .before_start = f->final,
                                       .reason = "forged"};
        break;
    case HSP_MSG_CHECKPOINTED:
        m.u.ckpt = (struct hsp_m_ckpt){.job = 1,
                                       .step = f->step,
                                       .term = 1,
                                       .complete = f->complete,
                                       .content = 7,
                                       .reason = "forged"};
        break;
    case HSP_MSG_CKPT_REFUSED:
        m.u.refused = (struct hsp_m_refused){.job = 1,
                                             .device = f->device,
                                             .step = f->step,
                                             .damaged = f->final,
                                             .reason = "forged"};
        break;
    case HSP_MSG_FINISHED:
        m.u.finished = (struct hsp_m_finished){.job = 1, .step = f->step};
        m.blob = rows;
        m.blob_len = sizeof(rows) - 1;
        break;
    case HSP_MSG_JOB_FAILED:
        m.u.jobfail = (struct hsp_m_jobfail){.job = 1, .device = f->device, .reason = "forged"};
        break;
    default: m.u.devref = (struct hsp_m_devref){.job = 1, .device = f->device}; break;
    }
    return m;
}

/* The senders that must not say each message. Other messages a source and a member may say of their
 * own devices. */
#define ALL (1u << STRANGER | 1u << FORMER | 1u << OTHER | 1u << SOURCE)
#define OUT (1u << STRANGER | 1u << FORMER)
static const struct {
    uint16_t type;
    uint32_t who;
} of_job[] = {
    {HSP_MSG_READY, OUT},    {HSP_MSG_PREPARE_FAILED, OUT}, {HSP_MSG_STARTED, OUT},
    {HSP_MSG_SEALED, OUT},   {HSP_MSG_PEER_LOST, OUT},      {HSP_MSG_STOPPED, OUT},
    {HSP_MSG_RELEASED, OUT}, {HSP_MSG_STEP, ALL},           {HSP_MSG_CHECKPOINTED, ALL},
    {HSP_MSG_FINISHED, ALL}, {HSP_MSG_JOB_FAILED, OUT},     {HSP_MSG_CKPT_REFUSED, OUT},
};

struct walk {
    const struct scene *scene;
    struct cw_world w;
    struct memory before;
    enum speaker speaker;
    uint32_t sender; /* number of its node */
    uint32_t n_told, n_wrong;
};

static void arrive(struct walk *k)
{
    k->scene->tell(&k->w);
    if (cw_job(&k->w, 1)->state != k->scene->state) {
        fail_msg("%s: %s", k->scene->name, hsp_job_state_name(cw_job(&k->w, 1)->state));
    }
    remember(&k->w, &k->before);
}

static void judge(struct walk *k, const char *what, const struct forged *f)
{
    const char *wrong = changed(&k->w, &k->before, k->sender);
    k->n_told++;
    if (wrong != NULL) {
        static const char *const who[] = {[STRANGER] = "a stranger",
                                          [FORMER] = "a former member",
                                          [OTHER] = "rank 1",
                                          [SOURCE] = "a source"};
        print_message("%s: %s by %s, epoch %llu step %llu rank %u device %u: %s\n", k->scene->name,
                      what, who[k->speaker], (unsigned long long)f->epoch,
                      (unsigned long long)f->step, f->rank, f->device, wrong);
        k->n_wrong++;
        cw_end(&k->w); /* the next one finds the scene as it was */
        arrive(k);
    }
}

static void tell_of_job(struct walk *k, uint16_t type, const struct forged *f)
{
    struct hsp_msg m = forge(type, f, cw_job(&k->w, 1));
    cw_msg(&k->w, k->sender + 1, m);
    judge(k, hsp_msg_name(type), f);
}

static void hello_again(struct walk *k, const struct forged *f)
{
    const struct hsp_cluster_node *n = &k->w.c->nodes[k->sender];
    const struct hsp_job *j = cw_job(&k->w, 1);
    struct hsp_m_run run = {.job = 1,
                            .running = f->final ? f->epoch : 0,
                            .prepared = f->final ? 0 : f->epoch,
                            .armed = f->complete ? f->epoch : 0,
                            .broken = f->complete,
                            .finished = true,
                            .version = f->step};
    struct hsp_m_holding h = {.job = 1,
                              .plan = j->cur.plan != 0 ? j->cur.plan : 1,
                              .rank = f->rank,
                              .owner = f->rank,
                              .version = f->step};
    cw_say_hello(&k->w, k->sender + 1,
                 (struct hsp_m_hello){.node = n->name,
                                      .term = k->w.c->term,
                                      .incarnation = n->secret,
                                      .n_holdings = 1,
                                      .holdings = &h,
                                      .n_runs = 1,
                                      .runs = &run});
    judge(k, "hello", f);
}

static void tell_all(struct walk *k)
{
    const struct hsp_job *j = cw_job(&k->w, 1);
    const uint64_t epochs[] = {j->cur.epoch,      j->att.epoch, j->seal_upto, 1, 2, 3,
                               j->next_epoch - 1, j->next_epoch};
    const uint64_t steps[] = {1, 6, 7, 99, 100, 1000000000000u};
    for (size_t e = 0; e < HSP_ARRAY_LEN(epochs); e++) {
        for (size_t i = 0; i < HSP_ARRAY_LEN(steps) * 4; i++) {
            struct forged f = {.epoch = epochs[e],
                               .step = steps[i / 4],
                               .rank = (uint32_t)i % 3 == 2 ? HSP_MSG_RANKS : (uint32_t)i % 3,
                               .device = i % 5 == 4 ? 3 : 0,
                               .final = i % 2 != 0,
                               .complete = i / 2 % 2 != 0};
            for (size_t t = 0; t < HSP_ARRAY_LEN(of_job); t++) {
                if ((of_job[t].who >> k->speaker & 1) != 0) {
                    tell_of_job(k, of_job[t].type, &f);
                }
            }
            if ((OUT >> k->speaker & 1) != 0) {
                hello_again(k, &f);
            }
        }
    }
}

/* n2 is not to be one of the first members any more. */
static bool has_left(const struct hsp_job *j)
{
    return j->state != HSP_JOB_STARTING && (j->cur.settled || j->cur.epoch == 0);
}

static void nothing_changes(void **state)
{
    (void)state;
    static const enum speaker speakers[] = {STRANGER, FORMER, OTHER, SOURCE};
    struct walk k = {.n_told = 0};
    for (k.scene = scenes; k.scene < scenes + HSP_ARRAY_LEN(scenes); k.scene++) {
        for (size_t i = 0; i < HSP_ARRAY_LEN(speakers); i++) {
            k.speaker = speakers[i];
            k.sender = k.speaker == SOURCE ? OTHER : (uint32_t)k.speaker;
            if (k.speaker == SOURCE && !k.scene->source) {
                continue;
            }
            arrive(&k);
            if (k.speaker != FORMER || has_left(cw_job(&k.w, 1))) {
                tell_all(&k);
            }
            cw_end(&k.w);
        }
    }
    print_message("%u forged messages\n", k.n_told);
    assert_int_equal(k.n_wrong, 0);
}

HSP_TEST_FILE(stranger_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_changes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
