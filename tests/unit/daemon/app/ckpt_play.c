/* Plays the events of the model on the real core and shell. */
#include <stdio.h>

#include "daemon/app/api/ckpt_answers.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/row_read.h"
#include "tests/unit/daemon/app/ckpt_model.h"

#define TERM 1
#define LIE  1000  /* content of a checkpoint that there is not */
#define LONG 16000 /* ms: at most five waits of dead_ms or state_wait, one after the other */

/* ---- disks ---- */

static struct hsp_m_seen seen_of(const struct cm_world *x, int k)
{
    return (struct hsp_m_seen){x->all[k].step, TERM, x->all[k].epoch, (uint64_t)k + 1};
}

static void says(struct cm_world *x, struct hsp_ckpt_answers *a, uint32_t conn)
{
    struct hsp_m_seen seen[CM_MOST + 1];
    const int node = (int)conn - 1, folder = cm_folder(x, node);
    struct hsp_m_ckpts m = {
        .job = 1, .name = "", .path = "", .seen = seen, .damaged = "", .reason = ""};
    for (int k = 0; k < x->n && !x->off[node]; k++) {
        if (cm_has(x->disk[folder], k)) {
            seen[m.n_seen++] = seen_of(x, k);
        }
    }
    if (x->lie.step != 0 && node == CM_B && !x->off[node]) {
        seen[m.n_seen++] = x->lie;
    }
    m.absent = m.n_seen == 0 && (x->off[node] || !x->mark[folder]);
    assert_true(hsp_ckpt_answers_take(a, conn, &m));
}

/* As ckpt_requests.c does. */
static void ask(struct cm_world *x, struct hsp_ckpt_answers *a, char why[200])
{
    assert_true(hsp_ckpt_answers_begin(a, x->w.c));
    for (uint32_t at = 0; hsp_ckpt_answers_choose(a, x->w.c, cw_job(&x->w, 1)) > 0;) {
        for (; at < a->n_asked; at++) {
            if (hsp_ckpt_answers_conn(a, at) != 0) {
                says(x, a, hsp_ckpt_answers_conn(a, at));
            }
        }
    }
    hsp_ckpt_answers_fault(a, why, 200);
}

static void answer(struct cm_world *x)
{
    struct hsp_ckpt_answers a;
    char why[200];
    ask(x, &a, why);
    hsp_ckpt_answers_believe(&a, cw_job(&x->w, 1));
    hsp_ckpt_answers_fault(&a, why, sizeof why);
    x->w.lack = hsp_ckpt_answers_lack(&a);
    x->w.begun = a.begun;
    x->w.mute = a.mute;
    x->w.damaged = a.damaged;
    x->w.n_others = a.n_others;
    cw_ckpts(&x->w, a.seen, a.n_seen, why);
    x->w.n_others = 0;
    x->w.damaged = "";
    hsp_ckpt_answers_free(&a);
}

/* Checkpoint @k is complete in a folder, and older ones go: as hsp_ckpt_prune. */
static void put(struct cm_world *x, int folder, int k)
{
    uint32_t *disk = &x->disk[folder], kept = 0;
    for (int i = 0; i < k; i++) {
        *disk &= x->all[i].step == x->all[k].step ? ~(1u << i) : ~0u;
    }
    *disk |= 1u << k;
    const uint32_t was = *disk;
    uint32_t left = was;
    for (int i = cm_newest(x, left); i >= 0; i = cm_newest(x, left)) {
        left &= ~(1u << i);
        if (x->all[i].step > x->all[k].step) {
            continue;
        }
        if (kept >= CM_KEEP) {
            *disk &= ~(1u << i);
        }
        kept += hsp_cuts_allow(x->cut, x->n_cuts, x->all[i].epoch, x->all[i].step);
    }
    if (cm_keeps_too_few(x, was, *disk)) {
        (void)snprintf(x->wrong, sizeof x->wrong,
                       "when %d is written, one of its history is deleted that counts",
                       (int)x->all[k].step);
    }
}

/* ---- the job ---- */

static const char *name_of(int node)
{
    return node == CM_A ? "n0" : "n1";
}

/* Keeps the PREPAREs of the last step. */
static void note(struct cm_world *x)
{
    const struct hsp_action *a = cw_find(&x->w, HSP_ACT_PREPARE);
    if (a != NULL) {
        const struct hsp_m_prepare *p = &a->msg->u.prepare;
        x->epoch = a->msg->epoch;
        x->mode = (uint32_t)p->mode;
        x->step = p->step;
        x->content = p->ckpt_content;
        x->n_cuts = p->n_cuts;
        for (uint32_t i = 0; i < p->n_cuts; i++) {
            x->cut[i] = p->cuts[i];
        }
    }
}

static void msg(struct cm_world *x, int node, struct hsp_msg m)
{
    cw_msg(&x->w, (uint32_t)node + 1, m);
    note(x);
}

static void time_goes_on(struct cm_world *x)
{
    x->w.now += 500;
    for (int i = 0; i < CM_NODES; i++) {
        if (!x->away[i]) {
            msg(x, i, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
    }
    cw_step(&x->w, (struct hsp_event){.type = HSP_EV_TICK});
    note(x);
}

static int member(const struct cm_world *x, uint32_t rank)
{
    return (int)HSP_DEVICE_NODE(x->w.asked[rank]);
}

/* A member has the checkpoint with which the attempt begins. */
static bool can_begin(const struct cm_world *x)
{
    bool can = x->mode == HSP_MODE_FRESH;
    for (uint32_t i = 0; i < x->w.n_asked; i++) {
        const int m = member(x, i);
        bool there = x->content != 0 && x->content <= (uint64_t)x->n && cm_looks(x, m);
        can = can || (there && cm_has(x->disk[cm_folder(x, m)], (int)x->content - 1));
    }
    return can;
}

static void all_ready(struct cm_world *x)
{
    for (uint32_t i = 0; i < x->w.n_asked; i++) {
        cw_ready(&x->w, 1, (uint32_t)member(x, i), 5);
    }
}

static void refuse(struct cm_world *x)
{
    const struct hsp_job *j = cw_job(&x->w, 1);
    const struct hsp_m_refused no = {.job = 1, .step = x->step, .reason = "there is none"};
    all_ready(x);
    msg(x, member(x, 0),
        (struct hsp_msg){.type = HSP_MSG_CKPT_REFUSED, .epoch = x->epoch, .u.refused = no});
    for (uint32_t i = 0; i < x->w.n_asked && j->state == HSP_JOB_SEALING; i++) {
        msg(x, member(x, i),
            (struct hsp_msg){
                .type = HSP_MSG_SEALED, .epoch = j->seal_upto, .u.sealed = {.job = 1}});
    }
}

/* The job goes on from @k, or will, by the choice of an administrator. */
static void took(struct cm_world *x, int k)
{
    const uint32_t history = cm_history(x, k);
    for (int i = 0; i < x->n; i++) {
        bool behind = x->known.all || k < 0 || x->all[i].step > x->all[k].step;
        x->known.given_up |= behind ? 1u << i : 0;
    }
    x->known.given_up &= ~history;
    x->known.told |= k >= 0 ? 1u << k : 0;
    x->known.begun = true;
    x->head = k;
}

/* hspmdd starts with the rows of @x. The connected nodes come back as the same nodes, and run epoch
 * @runs. */
static void start_again(struct cm_world *x, const uint64_t was[CM_NODES], uint64_t runs)
{
    cw_restart(&x->w, NULL);
    for (int i = 0; i < CM_NODES; i++) {
        if (!x->away[i]) {
            cw_hello_running(&x->w, (uint32_t)i + 1, name_of(i), was[i], 1, runs);
            note(x);
        }
    }
}

static void restart(struct cm_world *x, uint64_t runs)
{
    const uint64_t was[CM_NODES] = {x->w.c->nodes[CM_A].incarnation,
                                    x->w.c->nodes[CM_B].incarnation};
    start_again(x, was, runs);
}

static void begin(struct cm_world *x)
{
    double compute[CM_NODES] = {1, 1};
    all_ready(x);
    if (x->dies) {
        restart(x, x->epoch);
    }
    msg(x, member(x, 0),
        (struct hsp_msg){
            .type = HSP_MSG_STEP,
            .epoch = x->epoch,
            .u.step = {
                .job = 1, .step = x->step + 1, .n_compute = x->w.n_asked, .compute_s = compute}});
    for (int i = 0; i < CM_NODES; i++) {
        if (!x->away[i]) {
            msg(x, i, (struct hsp_msg){.type = HSP_MSG_RELEASED, .u.devref.job = 1});
        }
    }
    for (uint32_t i = 0; i < x->w.n_asked; i++) { /* as worker/executor/epoch_checkpoint.c */
        bool marks = !x->shared || (i == 0 && x->mode == HSP_MODE_FRESH);
        x->mark[cm_folder(x, member(x, i))] |= marks && !x->off[member(x, i)];
    }
    if (cw_job(&x->w, 1)->state != HSP_JOB_RUNNING || cw_job(&x->w, 1)->cur.epoch != x->epoch) {
        (void)snprintf(x->wrong, sizeof x->wrong, "it does not begin: %.300s",
                       cw_job(&x->w, 1)->reason);
    }
}

/* The next checkpoint is complete where each member that is to write can. */
static void write_one(struct cm_world *x)
{
    const int k = x->n;
    bool any = false, all = true;
    for (uint32_t i = 0; i < x->w.n_asked; i++) {
        any = any || !x->off[member(x, i)];
        all = all && !x->off[member(x, i)];
    }
    if (!(x->shared ? all : any)) {
        return;
    }
    assert_true(k < CM_MOST);
    x->n++;
    /* steps of another way lie between those of this one */
    x->all[k] = (struct cm_saved){x->step + 40 - 3 * (uint64_t)k, x->epoch, x->head};
    x->head = k;
    x->known.told |= 1u << k;
    for (uint32_t i = 0; i < x->w.n_asked; i++) {
        const int folder = cm_folder(x, member(x, i));
        if (!x->off[member(x, i)] && !cm_has(x->disk[folder], k)) {
            put(x, folder, k);
        }
    }
    const struct hsp_m_ckpt told = {.job = 1,
                                    .step = x->all[k].step,
                                    .term = TERM,
                                    .complete = true,
                                    .content = (uint64_t)k + 1,
                                    .reason = ""};
    msg(x, member(x, 0),
        (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED, .epoch = x->epoch, .u.ckpt = told});
    assert_int_equal(cw_job(&x->w, 1)->ckpt_step, told.step);
}

static void stop(struct cm_world *x)
{
    (void)cw_order(&x->w, HSP_ADMIN_CANCEL, 1);
    for (int i = 0; i < CM_NODES; i++) {
        if (!x->away[i]) {
            msg(x, i, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref.job = 1});
        }
    }
    x->lie.step = 0;
}

enum outcome { BEGINS, STAYS, ENDS };

/* Plays a resumed job until its members are ready to begin. */
static enum outcome outcome_of(struct cm_world *x)
{
    const hsp_msec until = x->w.now + LONG;
    for (uint32_t turn = 0; x->w.now < until; turn++) {
        const struct hsp_job *j = cw_job(&x->w, 1);
        assert_true(turn < 10000);
        if (j->state == HSP_JOB_FAILED) {
            return ENDS;
        }
        if (x->w.find_job != 0) {
            answer(x);
        } else if (j->att.epoch != 0 && j->att.epoch == x->epoch) {
            if (can_begin(x)) {
                return BEGINS;
            }
            refuse(x);
        } else if (j->ticket != 0) {
            cw_plan(&x->w, 1);
        } else {
            time_goes_on(x);
        }
        note(x);
    }
    return STAYS;
}

/* The job, which is resumed, goes on if it does, @writes one, and is cancelled. */
static void run(struct cm_world *x, bool writes)
{
    const hsp_msec from = x->w.now;
    const enum outcome is = outcome_of(x);
    const int k = x->mode == HSP_MODE_FRESH ? -1 : (int)x->content - 1;
    const char *wrong =
        is == BEGINS ? cm_wrong_choice(x, k, x->w.now - from) : cm_wrong_stay(x, is == ENDS);
    if (wrong != NULL && is == BEGINS && k < 0) {
        (void)snprintf(x->wrong, sizeof x->wrong, "it begins at step 0: %s", wrong);
    } else if (wrong != NULL && is == BEGINS) {
        (void)snprintf(x->wrong, sizeof x->wrong, "it goes on from %d, after %d ms: %s",
                       (int)x->all[k].step, (int)(x->w.now - from), wrong);
    } else if (wrong != NULL) {
        (void)snprintf(x->wrong, sizeof x->wrong, "it %s: %s: %.200s",
                       is == ENDS ? "fails" : "waits", wrong, cw_job(&x->w, 1)->reason);
    } else if (is == BEGINS) {
        took(x, k);
        begin(x);
    }
    if (writes && is == BEGINS && x->wrong[0] == '\0') {
        write_one(x);
    }
    stop(x);
}

void cm_go_on(struct cm_world *x)
{
    if (cw_order(&x->w, HSP_ADMIN_RESUME, 1) != HSP_OK) {
        (void)snprintf(x->wrong, sizeof x->wrong, "resume is refused: %.300s",
                       cw_find(&x->w, HSP_ACT_REPLY)->text);
        return;
    }
    note(x);
    run(x, true);
}

/* ---- events ---- */

static uint32_t copy_rows(const struct cw_row *from, uint32_t n, struct cw_row *to)
{
    assert_true(n <= CM_ROWS);
    for (uint32_t i = 0; i < n; i++) {
        to[i] = from[i];
        to[i].value = malloc(from[i].len);
        assert_non_null(to[i].value);
        memcpy(to[i].value, from[i].value, from[i].len);
    }
    return n;
}

static void free_rows(struct cw_row *row, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free(row[i].value);
    }
}

static void keep_store(struct cm_world *x, int which)
{
    struct cm_store *s = &x->store[which];
    s->n = copy_rows(x->w.rows, x->w.n_rows, s->row);
    s->known = x->known;
}

static bool put_back(struct cm_world *x, int which)
{
    const struct cm_store *s = &x->store[which];
    struct hsp_buf row;
    if (s->n == 0) {
        return false;
    }
    hsp_buf_init(&row, 100);
    hsp_cluster_restored_row(x->w.c->generation, &row);
    free_rows(x->w.rows, x->w.n_rows);
    x->w.n_rows = copy_rows(s->row, s->n, x->w.rows);
    struct cw_row *r = &x->w.rows[x->w.n_rows++];
    *r = (struct cw_row){.value = row.data, .len = (uint32_t)row.len};
    (void)snprintf(r->key, sizeof r->key, HSP_RESTORED_ROW);
    x->known = s->known;
    x->known.all = false;
    start_again(x, (const uint64_t[CM_NODES]){0, 0}, 0);
    return true;
}

static void come_or_go(struct cm_world *x, int node)
{
    x->away[node] = !x->away[node];
    if (!x->away[node]) {
        cw_hello(&x->w, (uint32_t)node + 1, name_of(node), 0, 1);
        note(x);
        return;
    }
    cw_step(&x->w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = (uint32_t)node + 1});
    for (uint32_t ms = 0; ms <= x->w.c->cfg.dead_ms; ms += 500) {
        time_goes_on(x);
    }
}

/* An administrator names the step of @k, -1: step 0. */
static bool choose(struct cm_world *x, int k, bool writes)
{
    struct hsp_ckpt_answers a;
    char why[200];
    if ((x->away[CM_A] && x->away[CM_B]) || k < -1) {
        return false;
    }
    if (!hsp_job_terminal(cw_job(&x->w, 1)->state)) {
        stop(x); /* the job is held */
    }
    x->lie.step = 0; /* he does not choose it */
    ask(x, &a, why);
    const struct hsp_admin_event order = {.verb = HSP_ADMIN_RESUME,
                                          .job = 1,
                                          .has_step = true,
                                          .step = k < 0 ? 0 : x->all[k].step,
                                          .looked = !a.mute,
                                          .n_seen = a.n_seen,
                                          .seen = a.seen,
                                          .reason = why};
    const enum hsp_status st = cw_admin(&x->w, order);
    note(x);
    hsp_ckpt_answers_free(&a);
    if (st != HSP_OK) {
        (void)snprintf(x->wrong, sizeof x->wrong, "resume --from is refused: %.300s",
                       cw_find(&x->w, HSP_ACT_REPLY)->text);
        return true;
    }
    took(x, k < 0 ? -1 : (int)cw_job(&x->w, 1)->origin_ckpt.content - 1);
    run(x, writes);
    return true;
}

/* The newest but one that is seen of the history, or the newest one given up; -2: there is none. */
static int older(const struct cm_world *x, bool given_up)
{
    const uint32_t seen = cm_on_disk(x, true), history = cm_history(x, x->head);
    const int best = cm_newest(x, history & seen);
    const int k =
        cm_newest(x, seen & (given_up ? ~history : history & ~(1u << (best < 0 ? 0 : best))));
    return k < 0 ? -2 : k;
}

/* Of the last epoch, or @later. */
static bool lie(struct cm_world *x, uint64_t step, uint64_t later)
{
    uint64_t epoch = 0;
    for (int k = 0; k < x->n; k++) {
        epoch = x->all[k].epoch > epoch ? x->all[k].epoch : epoch;
    }
    x->lie = (struct hsp_m_seen){step, TERM, epoch + later, LIE};
    return cm_looks(x, CM_B);
}

static uint64_t newest_step(const struct cm_world *x)
{
    const int k = cm_newest(x, cm_history(x, x->head) & cm_on_disk(x, true));
    return k < 0 ? 500 : x->all[k].step;
}

static bool lose_newest(struct cm_world *x)
{
    const int k = cm_newest(x, cm_history(x, x->head) & cm_on_disk(x, true));
    for (int i = 0; i < CM_NODES && k >= 0; i++) {
        x->disk[cm_folder(x, i)] &= cm_looks(x, i) ? ~(1u << k) : ~0u;
    }
    return k >= 0;
}

const char *const cm_words[] = {
    "it goes on and writes one",
    "--from an older one, and it writes one",
    "--from an older one, and it writes none",
    "--from one that was given up, and it writes one",
    "--from 0, and it writes one",
    "node a goes or comes",
    "node b goes or comes",
    "the path of a goes or comes",
    "the paths of both go or come",
    "hspmdd starts again",
    "the store of before its begin is put back",
    "the store of before its first checkpoint is put back",
    "the store of before its second checkpoint is put back",
    "the store of before the last event is put back",
    "b says that it has a newer one",
    "b says that a later epoch wrote one at step 1",
    "b says that it has the newest one with another content",
    "the newest one is lost",
    "hspmdd starts again as it begins, and it writes one",
    NULL,
};

void cm_mend(struct cm_world *x)
{
    for (int i = 0; i < CM_NODES; i++) {
        x->off[i] = false;
        if (x->away[i]) {
            come_or_go(x, i);
        }
    }
}

bool cm_happens(struct cm_world *x, uint32_t event)
{
    const bool off = x->off[CM_A] && x->off[CM_B];
    free_rows(x->store[CM_LAST].row, x->store[CM_LAST].n);
    x->store[CM_LAST] = x->store[CM_NOW];
    keep_store(x, CM_NOW);
    switch (event) {
    case 0: cm_go_on(x); return true;
    case 1: return choose(x, older(x, false), true);
    case 2: return choose(x, older(x, false), false);
    case 3: return choose(x, older(x, true), true);
    case 4: return choose(x, -1, true);
    case 5: come_or_go(x, CM_A); return true;
    case 6: come_or_go(x, CM_B); return true;
    case 7: x->off[CM_A] = !x->off[CM_A]; return true;
    case 8: x->off[CM_A] = x->off[CM_B] = !off; return true;
    case 9: restart(x, 0); return true;
    case 10: return put_back(x, CM_NOT_BEGUN);
    case 11: return put_back(x, CM_NONE_WRITTEN);
    case 12: return put_back(x, CM_ONE_WRITTEN);
    case 13: return put_back(x, CM_LAST);
    case 14: return lie(x, 900, 0);
    case 15: return lie(x, 1, 1);
    case 16: return lie(x, newest_step(x), 0);
    case 17: return lose_newest(x);
    default:
        x->dies = true;
        cm_go_on(x);
        x->dies = false;
        return true;
    }
}

void cm_base(struct cm_world *x, bool shared)
{
    const struct hsp_admin_event submit = {.verb = HSP_ADMIN_SUBMIT,
                                           .spec = {.name = "j",
                                                    .min = 1,
                                                    .max = 8,
                                                    .copies = 2,
                                                    .steps = 1000,
                                                    .checkpoint_path = "/c",
                                                    .checkpoint_shared = shared,
                                                    .checkpoint_keep = CM_KEEP}};
    *x = (struct cm_world){.shared = shared, .head = -1, .known.all = true};
    cw_begin(&x->w, CM_NODES, 1);
    x->w.asks = true;
    x->w.c->cfg.state_wait_ms = CM_STATE_WAIT;
    assert_int_equal(cw_admin(&x->w, submit), HSP_OK);
    keep_store(x, CM_NOT_BEGUN);
    run(x, false);
    keep_store(x, CM_NONE_WRITTEN);
    cm_go_on(x);
    keep_store(x, CM_ONE_WRITTEN);
    cm_go_on(x);
    assert_string_equal(x->wrong, "");
    assert_int_equal(x->n, 2);
}

void cm_begin_at(struct cm_world *x, const struct cm_world *base)
{
    const struct hsp_cluster *c = base->w.c;
    const uint64_t was[CM_NODES] = {c->nodes[CM_A].incarnation, c->nodes[CM_B].incarnation};
    *x = *base;
    x->w.n_rows = copy_rows(base->w.rows, base->w.n_rows, x->w.rows);
    x->w.c = hsp_cluster_new(&c->cfg);
    assert_non_null(x->w.c);
    start_again(x, was, 0);
}

void cm_end(struct cm_world *x)
{
    cw_end(&x->w);
    free_rows(x->store[CM_NOW].row, x->store[CM_NOW].n);
    free_rows(x->store[CM_LAST].row, x->store[CM_LAST].n);
}

void cm_base_end(struct cm_world *x)
{
    cw_end(&x->w);
    for (int i = 0; i < CM_NOW; i++) {
        free_rows(x->store[i].row, x->store[i].n);
    }
}
