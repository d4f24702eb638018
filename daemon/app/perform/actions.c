#include "daemon/app/perform/actions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/api/admin_requests.h"
#include "daemon/app/api/adoption.h"
#include "daemon/app/api/ckpt_requests.h"
#include "daemon/app/api/pending_requests.h"
#include "daemon/app/feed/event_log.h"
#include "daemon/app/perform/actions_impl.h"
#include "daemon/app/perform/job_papers.h"
#include "daemon/app/perform/plan_queue.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/event_queue.h"
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/sessions.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/check.h"

/* The most that one step may send: a SEAL or DROP to every device, or PREPAREs with blobs
 * elsewhere. */
#define BATCH_ARENA ((size_t)512 << 20)
#define ROW_BYTES   HSP_CLUSTER_ROW_MAX
#define SLICE_NS    5000000u /* performing goes on for so long before others get the loop */

static struct hsp_batch *batch_free(struct hsp_batch *b)
{
    if (b != NULL) {
        for (struct prepare_group *g = b->groups; g != NULL; g = g->next) {
            (void)hsp_plan_rec_unref(g->plan);
            (void)hsp_plan_rec_unref(g->from);
            (void)hsp_arena_free(g->arena);
        }
        for (size_t i = 0; i < b->n_queued_actions; i++) {
            hsp_buf_fini(&b->queued_actions[i].blob);
        }
        for (size_t i = 0; i < b->n_texts; i++) {
            hsp_buf_fini(&b->row_texts[i]);
        }
        (void)hsp_arena_free(b->arena);
        free(b);
    }
    return NULL;
}

void hsp_app_batches_free(struct hsp_app *a)
{
    while (a->head != NULL) {
        struct hsp_batch *b = a->head;
        a->head = b->next;
        (void)batch_free(b);
    }
    a->tail = NULL;
}

/* Makes a batch with room for @n_actions queued actions, each of which makes at most two rows. */
static struct hsp_batch *batch_new(uint32_t n_actions)
{
    struct hsp_batch *b = calloc(1, sizeof *b);
    if (b == NULL || (b->arena = hsp_arena_new(BATCH_ARENA)) == NULL) {
        free(b);
        return NULL;
    }
    b->queued_actions = hsp_arena_array(b->arena, n_actions, sizeof *b->queued_actions);
    b->rows = hsp_arena_array(b->arena, 2 * (size_t)n_actions, sizeof *b->rows);
    b->row_texts = hsp_arena_array(b->arena, n_actions, sizeof *b->row_texts);
    b->gone = hsp_arena_array(b->arena, n_actions, sizeof *b->gone);
    bool ok =
        b->queued_actions != NULL && b->rows != NULL && b->row_texts != NULL && b->gone != NULL;
    return ok ? b : batch_free(b);
}

/* ---- collecting ---- */

static bool add_row(struct hsp_batch *b, const char *key, const void *value, size_t len,
                    bool removed)
{
    struct hsp_store_row *r = &b->rows[b->n_rows++];
    *r = (struct hsp_store_row){.key = hsp_arena_strdup(b->arena, key),
                                .value = removed ? NULL : hsp_arena_memdup(b->arena, value, len),
                                .len = len,
                                .removed = removed};
    return r->key != NULL && (removed || r->value != NULL);
}

/* A row whose text is made here. */
static struct hsp_buf *add_text(struct hsp_batch *b)
{
    struct hsp_buf *t = &b->row_texts[b->n_texts++];
    hsp_buf_init(t, ROW_BYTES);
    return t;
}

static bool end_text(struct hsp_batch *b, const struct hsp_buf *t, const char *key)
{
    struct hsp_store_row *r = &b->rows[b->n_rows++];
    *r = (struct hsp_store_row){hsp_arena_strdup(b->arena, key), t->data, t->len, false};
    return r->key != NULL && !t->failed;
}

/* Keeps the plan that the ticket's answer holds; its row goes with the batch. */
static bool keep_plan(struct hsp_app *a, struct hsp_batch *b, const struct hsp_action *act)
{
    struct hsp_app_job *j = hsp_app_job_find(a, act->job);
    char key[64];
    if (j == NULL || j->result == NULL || j->result_ticket != act->ticket) {
        return false;
    }
    struct hsp_plan_rec *rec = j->result;
    j->result = NULL;
    (void)snprintf(key, sizeof key, "app/plan/%" PRIu32 "/%" PRIu64, act->job, act->plan_no);
    struct hsp_buf *t = add_text(b);
    hsp_plan_rec_encode(rec, t);
    return end_text(b, t, key) && hsp_app_plan_add(j, act->plan_no, rec);
}

/* Keeps the same plan, its devices included, under another number. */
static bool copy_plan(struct hsp_app *a, struct hsp_batch *b, const struct hsp_action *act)
{
    struct hsp_app_job *j = hsp_app_job_find(a, act->job);
    struct hsp_plan_rec *from = j != NULL ? hsp_app_plan_find(j, act->from_plan) : NULL;
    char key[64];
    if (from == NULL) {
        return false;
    }
    (void)snprintf(key, sizeof key, "app/plan/%" PRIu32 "/%" PRIu64, act->job, act->plan_no);
    struct hsp_buf *t = add_text(b);
    hsp_plan_rec_encode(from, t);
    return end_text(b, t, key) && hsp_app_plan_add(j, act->plan_no, hsp_plan_rec_ref(from));
}

static bool drop_plan(struct hsp_app *a, struct hsp_batch *b, const struct hsp_action *act)
{
    struct hsp_app_job *j = hsp_app_job_find(a, act->job);
    char key[64];
    (void)snprintf(key, sizeof key, "app/plan/%" PRIu32 "/%" PRIu64, act->job, act->plan_no);
    if (j != NULL) {
        hsp_app_plan_drop(j, act->plan_no);
    }
    return add_row(b, key, NULL, 0, true);
}

/* The core forgets a job: so do we. */
static bool erase(struct hsp_app *a, struct hsp_batch *b, const struct hsp_action *act)
{
    unsigned id = 0;
    char key[64];
    bool ok = add_row(b, act->key, NULL, 0, true);
    if (ok && sscanf(act->key, "job/%u", &id) == 1) {
        b->gone[b->n_gone++] = id;
        (void)snprintf(key, sizeof key, "app/job/%u", id);
        hsp_app_job_remove(a, id);
        ok = ok && add_row(b, key, NULL, 0, true);
    }
    return ok;
}

static bool add_adopted(void *ctx, const char *key, const struct hsp_buf *value)
{
    return add_row(ctx, key, value->data, value->len, false);
}

/* Adds an accepted job to the table, which must be done before the first action that names the job.
 */
static bool adopt_job(struct hsp_app *a, struct hsp_batch *b, const struct hsp_action *act)
{
    const struct hsp_pending *p = hsp_app_pending_find(a, act->request);
    char key[64];
    if (p != NULL && p->adopt != NULL && act->status == HSP_OK) { /* a row for each of the core's */
        return hsp_adoption_take(a, p->adopt, add_adopted, b);
    }
    if (p == NULL || p->rec == NULL || act->status != HSP_OK) {
        return true;
    }
    (void)snprintf(key, sizeof key, "app/job/%" PRIu32, act->job);
    struct hsp_buf *t = add_text(b);
    hsp_job_rec_encode(p->rec, t);
    return end_text(b, t, key) && hsp_app_job_add(a, act->job, hsp_job_rec_ref(p->rec)) != NULL;
}

static bool copy_peers(struct hsp_app *a, struct hsp_batch *b, struct prepare_group *g)
{
    const struct hsp_prepare_action *s = g->source;
    struct hsp_prepare_peer *peers =
        hsp_arena_memdup(b->arena, s->peers, s->n_peers * sizeof *peers);
    struct hsp_prepare_source *src =
        hsp_arena_memdup(b->arena, s->sources, s->n_sources * sizeof *src);
    struct hsp_prepare_apart *apart =
        hsp_arena_memdup(b->arena, s->apart, s->n_apart * sizeof *apart);
    g->names = hsp_arena_array(b->arena, s->n_peers, sizeof *g->names);
    bool ok = peers != NULL && src != NULL && apart != NULL && g->names != NULL;
    for (uint32_t i = 0; ok && i < s->n_peers; i++) {
        hsp_device_id d = peers[i].device;
        peers[i].address = hsp_arena_strdup(b->arena, peers[i].address);
        g->names[i] = hsp_arena_printf(
            b->arena, "%s/%u", a->cluster->nodes[HSP_DEVICE_NODE(d)].name, HSP_DEVICE_INDEX(d));
        ok = peers[i].address != NULL && g->names[i] != NULL;
    }
    g->action = (struct hsp_prepare_action){
        s->n_peers, peers, s->n_sources, src, s->n_replica_holders, s->n_apart, apart, s->buckets};
    return ok;
}

/* Where the peers stand, for the transfer of state. */
static void describe_peers(struct hsp_app *a, struct hsp_batch *b, struct prepare_group *g)
{
    uint32_t n = g->action.n_peers;
    hsp_device_id *list = hsp_arena_array(b->arena, n, sizeof *list), *named = NULL;
    if (list == NULL) {
        g->status = hsp_err_nomem(&g->err, "%u peers", n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        list[i] = g->action.peers[i].device;
    }
    g->status =
        hsp_cluster_describe(a->cluster, list, NULL, n, b->arena, &g->net.cluster, &named, &g->err);
    g->net.device = named;
}

static struct prepare_group *group_of(struct hsp_app *a, struct hsp_batch *b,
                                      const struct hsp_action *act)
{
    struct hsp_app_job *j = hsp_app_job_find(a, act->job);
    for (struct prepare_group *g = b->groups; g != NULL; g = g->next) {
        if (g->source == act->u.prepare) {
            return g;
        }
    }
    struct prepare_group *g = j != NULL ? hsp_arena_alloc(b->arena, sizeof *g) : NULL;
    if (g == NULL) {
        return NULL;
    }
    struct hsp_plan_rec *plan = hsp_app_plan_find(j, act->plan_no);
    struct hsp_plan_rec *from = hsp_app_plan_find(j, act->msg->u.prepare.from_plan);
    *g = (struct prepare_group){.next = b->groups,
                                .source = act->u.prepare,
                                .plan = plan != NULL ? hsp_plan_rec_ref(plan) : NULL,
                                .from = from != NULL ? hsp_plan_rec_ref(from) : NULL,
                                .mem_cap = a->cfg->planner_memory,
                                .term = a->cluster->term};
    if (plan == NULL || (from == NULL && act->msg->u.prepare.from_plan != 0)) {
        g->status = hsp_err_set(&g->err, HSP_ENOENT, 0, "the plan is not kept");
    }
    b->groups = g;
    if (!copy_peers(a, b, g)) {
        return NULL;
    }
    if (g->status == HSP_OK && g->from != NULL) {
        describe_peers(a, b, g);
    }
    return g;
}

/* Makes one random key for each epoch; PREPAREs of that epoch that are sent later get the same key.
 */
static bool epoch_key(struct hsp_app *a, struct hsp_app_job *j, uint64_t epoch)
{
    bool ok = j->key_epoch == epoch || hsp_app_random(a, j->key, sizeof j->key);
    j->key_epoch = ok ? epoch : j->key_epoch;
    return ok;
}

/* Makes one random key for each check of nodes. */
static bool check_key(struct hsp_app *a, uint32_t number)
{
    bool ok = a->check_number == number || hsp_app_random(a, a->check_key, sizeof a->check_key);
    a->check_number = ok ? number : a->check_number;
    return ok;
}

static bool add_queued_action(struct hsp_app *a, struct hsp_batch *b, const struct hsp_action *act)
{
    struct queued_action *d = &b->queued_actions[b->n_queued_actions++];
    *d = (struct queued_action){.act = *act};
    bool ok = true;
    d->act.text = act->text != NULL ? hsp_arena_strdup(b->arena, act->text) : "";
    if (act->msg != NULL) {
        ok = hsp_msg_clone(act->msg, b->arena, &d->msg, NULL) == HSP_OK;
    }
    if (ok && act->type == HSP_ACT_PREPARE) {
        struct hsp_app_job *j = hsp_app_job_find(a, act->job);
        hsp_buf_init(&d->blob, HSP_MSG_BLOB_MAX);
        d->group = group_of(a, b, act);
        ok = d->group != NULL && j != NULL && epoch_key(a, j, act->msg->epoch);
        if (ok) {
            memcpy(d->msg.u.prepare.key, j->key, HSP_KEY_BYTES);
        }
    }
    if (ok && act->type == HSP_ACT_PAPERS) {
        const struct papers_made *p = hsp_app_papers(a, b, act);
        ok = p != NULL;
        d->msg.blob = ok ? p->data : NULL;
        d->msg.blob_len = ok ? p->len : 0;
    }
    if (ok && act->type == HSP_ACT_CHECK) {
        ok = check_key(a, act->msg->u.check.check);
        memcpy(d->msg.u.check.key, a->check_key, HSP_KEY_BYTES);
    }
    return ok && d->act.text != NULL;
}

static bool collect(struct hsp_app *a, struct hsp_batch *b, const struct hsp_action *act)
{
    switch (act->type) {
    case HSP_ACT_SEND:
    case HSP_ACT_PREPARE:
    case HSP_ACT_PAPERS:
    case HSP_ACT_CHECK:
    case HSP_ACT_CLOSE:
    case HSP_ACT_REPLY: return add_queued_action(a, b, act);
    case HSP_ACT_STORE: return add_row(b, act->key, act->value, act->len, false);
    case HSP_ACT_ERASE: return erase(a, b, act);
    case HSP_ACT_START_PLAN: hsp_app_plan_start(a, act->u.plan); return true;
    case HSP_ACT_CANCEL_PLAN: hsp_app_plan_cancel(a, act->job, act->ticket); return true;
    case HSP_ACT_FIND_CKPTS: hsp_app_find_ckpts(a, act); return true;
    case HSP_ACT_KEEP_PLAN: return keep_plan(a, b, act);
    case HSP_ACT_COPY_PLAN: return copy_plan(a, b, act);
    case HSP_ACT_DROP_PLAN: return drop_plan(a, b, act);
    case HSP_ACT_FACT: hsp_app_fact(a, act->u.fact); return true;
    case HSP_ACT_METRIC: hsp_app_metric(a, act->job, act->msg); return true;
    }
    return false;
}

/* ---- performing ---- */

/* Called when the package of a device could not be made: posts the failure to the core as the
 * device's refusal, so that the core learns of it at once instead of after the time limit. */
static void refuse_prepare(struct hsp_app *a, const struct queued_action *d)
{
    const struct hsp_m_prepare *p = &d->msg.u.prepare;
    struct hsp_msg m = {
        .type = HSP_MSG_PREPARE_FAILED,
        .epoch = d->msg.epoch,
        .u.failed = {.job = p->job,
                     .device = p->device,
                     .fact = d->status == HSP_ENOENT ? HSP_FACT_NO_STATE : HSP_FACT_BAD_PROGRAM,
                     .peer = p->rank,
                     .reason = d->err.msg}};
    struct hsp_event ev = {.type = HSP_EV_MSG, .conn = d->act.conn, .u.msg = &m};
    hsp_log(a->log, HSP_LOG_ERROR, "app", "job %s epoch %" PRIu64 ": package of rank %u: %s",
            p->job_name, d->msg.epoch, p->rank, d->err.msg);
    if (hsp_app_client(a, d->act.conn) != NULL) {
        hsp_app_post(a, &ev, NULL);
    }
}

static void perform(struct hsp_app *a, struct queued_action *d)
{
    switch (d->act.type) {
    case HSP_ACT_SEND:
    case HSP_ACT_CHECK: hsp_app_send(a, d->act.conn, &d->msg); break;
    case HSP_ACT_PAPERS:
        if (d->msg.blob != NULL) {
            hsp_app_send(a, d->act.conn, &d->msg);
        }
        break;
    case HSP_ACT_PREPARE:
        if (d->status == HSP_OK) {
            hsp_app_send(a, d->act.conn, &d->msg);
        } else {
            refuse_prepare(a, d);
        }
        hsp_buf_fini(&d->blob); /* a thousand of them are much */
        break;
    case HSP_ACT_CLOSE:
        if (a->net != NULL) { /* else all are closed: the end */
            hsp_net_drop(a->net, d->act.conn, true, d->act.text);
        }
        break;
    case HSP_ACT_REPLY:
        hsp_app_pending_reply(a, d->act.request, d->act.status, d->act.job, d->act.text);
        break;
    default: break; /* collect made no other queued actions */
    }
}

static void on_rest(uv_timer_t *t)
{
    struct hsp_app *a = t->data;
    hsp_app_perform_rest(a);
    hsp_app_settle(a);
}

/* Performs the rest of the batches. Sending the packages of a large job takes longer than SLICE_NS;
 * the loop then serves its connections before it goes on. */
void hsp_app_perform_rest(struct hsp_app *a)
{
    if (a->performing) {
        return;
    }
    uint64_t begin = uv_hrtime();
    bool late = false;
    a->performing = true;
    while (a->head != NULL && a->head->on_disk && !late) {
        struct hsp_batch *b = a->head;
        while (b->next_queued_action < b->n_ready && !a->failed && !late) {
            perform(a, &b->queued_actions[b->next_queued_action++]);
            late = !a->closing && uv_hrtime() - begin > SLICE_NS;
        }
        if (b->next_queued_action < b->n_queued_actions && (!a->failed || a->writing)) {
            break; /* while its packages are being made it stays, after any failure */
        }
        a->head = b->next;
        a->tail = a->head != NULL ? a->tail : NULL;
        a->n_batches--;
        (void)batch_free(b);
    }
    a->performing = false;
    if (late) {
        (void)uv_timer_start(&a->rest, on_rest, 0, 0); /* has a callback */
    }
}

static bool only_messages(const struct hsp_actions *acts)
{
    bool only = true;
    for (uint32_t i = 0; only && i < acts->n; i++) {
        only = acts->item[i].type == HSP_ACT_SEND;
    }
    return only;
}

/* Sends the actions of a step at once if all of them are answers to heartbeats. Such answers do not
 * depend on stored state, so they may overtake messages that wait for the disk. Returns false, and
 * sends nothing, if the step has any other action. */
static bool send_beats(struct hsp_app *a, const struct hsp_actions *acts)
{
    for (uint32_t i = 0; i < acts->n; i++) {
        if (acts->item[i].type != HSP_ACT_SEND || acts->item[i].msg->type != HSP_MSG_HEARTBEAT) {
            return false;
        }
    }
    for (uint32_t i = 0; i < acts->n; i++) {
        hsp_app_send(a, acts->item[i].conn, acts->item[i].msg);
    }
    return true;
}

void hsp_app_perform(struct hsp_app *a, const struct hsp_actions *acts)
{
    struct hsp_err err = {0};
    if (acts->n == 0 || send_beats(a, acts)) {
        return;
    }
    if (a->head == NULL && only_messages(acts)) { /* nothing to wait for, nothing to keep */
        for (uint32_t i = 0; i < acts->n; i++) {
            hsp_app_send(a, acts->item[i].conn, acts->item[i].msg);
        }
        return;
    }
    struct hsp_batch *b = batch_new(acts->n);
    bool ok = b != NULL;
    for (uint32_t i = 0; ok && i < acts->n; i++) {
        if (acts->item[i].type == HSP_ACT_REPLY) {
            ok = adopt_job(a, b, &acts->item[i]);
        }
    }
    for (uint32_t i = 0; ok && i < acts->n; i++) {
        ok = collect(a, b, &acts->item[i]);
    }
    if (!ok) {
        (void)batch_free(b);
        (void)hsp_err_nomem(&err, "the next batch of rows");
        hsp_app_fail(a, "the actions of a step cannot be kept", &err);
        return;
    }
    if (b->n_rows == 0 && b->n_queued_actions == 0) {
        (void)batch_free(b); /* all was done at once */
        return;
    }
    b->on_disk = b->n_rows == 0 && b->groups == NULL;
    b->n_ready = b->on_disk ? b->n_queued_actions : 0;
    a->n_batches++;
    if (a->tail != NULL) {
        a->tail->next = b;
    } else {
        a->head = b;
    }
    a->tail = b;
    hsp_app_perform_rest(a);
}
