#include "daemon/cluster/row_load.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_list.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/row_forms.h"
#include "daemon/cluster/row_read.h"
#include "daemon/cluster/slow.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"

#define MAX_PLANS 65536u /* of a job */

static void get_text(struct hsp_cursor *r, char *out, size_t cap)
{
    size_t n = 0;
    const uint8_t *p = hsp_cur_blob(r, cap - 1, &n);
    if (p != NULL) {
        memcpy(out, p, n);
        out[n] = '\0';
    }
}

/* @n + 1 zeroed elements that outlive the step; NULL sets c->failed. */
static void *lasting(struct hsp_cluster *c, size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    c->failed = c->failed || p == NULL;
    return p;
}

static char *get_string(struct hsp_cluster *c, struct hsp_cursor *r)
{
    size_t n = 0;
    const uint8_t *p = hsp_cur_blob(r, HSP_PATH_MAX, &n);
    char *s = lasting(c, n, 1);
    if (s != NULL && p != NULL) {
        memcpy(s, p, n);
    }
    return s;
}

static bool load_cluster(struct hsp_cluster *c, struct hsp_cursor *r, uint8_t version)
{
    c->id.hi = hsp_cur_u64(r);
    c->id.lo = hsp_cur_u64(r);
    c->generation = hsp_cur_u64(r);
    c->behind = hsp_cur_u8(r) != 0;
    get_text(r, c->behind_why, sizeof(c->behind_why));
    if (version >= ROW_HELLO) {
        get_text(r, c->behind_by, sizeof(c->behind_by));
    }
    c->ahead = version >= ROW_DOUBT ? hsp_cur_u64(r) : 0;
    c->n_adopted = version >= ROW_ADOPTED ? hsp_cur_count(r, HSP_MAX_ADOPTED, 16) : 0;
    for (uint32_t i = 0; i < c->n_adopted; i++) {
        c->adopted[i].hi = hsp_cur_u64(r);
        c->adopted[i].lo = hsp_cur_u64(r);
    }
    c->founded = true;
    return true;
}

/* False: not ascending. */
static bool get_ranges(struct hsp_cursor *r, struct hsp_range *ret, uint32_t n)
{
    bool ok = true;
    for (uint32_t i = 0; i < n; i++) {
        ret[i].from = hsp_cur_u64(r);
        ret[i].to = hsp_cur_u64(r);
        ok = ok && ret[i].from < ret[i].to && (i == 0 || ret[i - 1].to <= ret[i].from);
    }
    return ok;
}

static bool load_ended(struct hsp_cluster *c, struct hsp_cursor *r)
{
    uint32_t n = hsp_cur_count(r, HSP_CLUSTER_ROW_MAX / 16, 16);
    if (!hsp_grow(&c->ended, &c->cap_ended, n, sizeof(*c->ended), n)) {
        c->failed = true;
        return false;
    }
    c->n_ended = n;
    return get_ranges(r, c->ended, n);
}

static bool load_adopted_ended(struct hsp_cluster *c, struct hsp_cursor *r)
{
    c->n_adopted_ended = hsp_cur_count(r, HSP_ADOPTED_OVER, 20);
    for (uint32_t i = 0; i < c->n_adopted_ended; i++) {
        c->adopted_ended[i].cluster.hi = hsp_cur_u64(r);
        c->adopted_ended[i].cluster.lo = hsp_cur_u64(r);
        c->adopted_ended[i].job = hsp_cur_u32(r);
    }
    return true;
}

static struct hsp_node_line get_line(struct hsp_cursor *r)
{
    struct hsp_node_line l;
    l.secret.hi = hsp_cur_u64(r);
    l.secret.lo = hsp_cur_u64(r);
    l.before.hi = hsp_cur_u64(r);
    l.before.lo = hsp_cur_u64(r);
    l.since = hsp_cur_u64(r);
    l.last = hsp_cur_u64(r);
    l.gap = hsp_cur_u64(r);
    l.gap_end = hsp_cur_u64(r);
    return l;
}

static bool load_term(struct hsp_cluster *c, struct hsp_cursor *r)
{
    c->term = hsp_cur_u64(r);
    c->next_incarnation = hsp_cur_u64(r);
    c->next_job = hsp_cur_u32(r);
    return true;
}

static bool load_node(struct hsp_cluster *c, struct hsp_cursor *r, const char *key, uint8_t version)
{
    uint64_t index;
    if (!hsp_parse_u64(key + strlen("node/"), &index) || index >= HSP_MAX_NODES) {
        return false;
    }
    /* rows may come in any order; a gap is a node without a name, dead for ever */
    struct hsp_cluster_node *n = hsp_ci_node_add(c, (uint32_t)index);
    if (n == NULL) {
        c->failed = true; /* there are not too many */
        return false;
    }
    n->last_ms = c->now_ms;
    n->unheard = true;
    get_text(r, n->name, sizeof(n->name));
    n->incarnation = hsp_cur_u64(r);
    uint8_t state = hsp_cur_u8(r);
    hsp_ci_node_state(c, n,
                      state == 1   ? HSP_NODE_DEAD
                      : state == 2 ? HSP_NODE_LEFT
                                   : HSP_NODE_AWAY);
    n->draining = hsp_cur_u8(r) != 0;
    get_text(r, n->reason, sizeof(n->reason));
    if (n->state == HSP_NODE_AWAY) {
        hsp_ci_node_reason(n, "");
    }
    if (version >= ROW_KNOWN) {
        n->secret.hi = hsp_cur_u64(r);
        n->secret.lo = hsp_cur_u64(r);
        n->before.hi = hsp_cur_u64(r);
        n->before.lo = hsp_cur_u64(r);
        n->same_since = hsp_cur_u64(r);
        n->holder = hsp_cur_u8(r) != 0;
        n->gone_s = hsp_cur_u64(r);
    }
    n->generation = version >= ROW_HELLO ? hsp_cur_u64(r) : 0;
    if (version >= ROW_LINES) {
        n->gap = hsp_cur_u64(r);
        n->gap_end = hsp_cur_u64(r);
        for (uint32_t i = 0; i < HSP_NODE_LINES; i++) {
            n->left[i] = get_line(r);
        }
    }
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        n->dev[d].speed = 1;
    }
    bool named = hsp_ci_node_named(c, n);
    c->failed = c->failed || !named;
    return named;
}

static struct hsp_ckpt_mark get_ckpt(struct hsp_cursor *r, uint8_t version)
{
    struct hsp_ckpt_mark k = {0};
    if (version >= ROW_CKPTS) { /* else the next checkpoint tells */
        k.term = hsp_cur_u64(r);
        k.epoch = hsp_cur_u64(r);
        k.content = hsp_cur_u64(r);
    }
    return k;
}

/* Rows before form 11 name none: there is none to fall back to until new ones are complete. */
static void get_older(struct hsp_job *j, struct hsp_cursor *r, uint8_t version)
{
    if (version >= ROW_KNOWN) {
        j->checkpoint_keep = hsp_cur_u32(r);
        j->n_older = hsp_cur_count(r, HSP_OLDER_CKPTS, 32);
    }
    for (uint32_t i = 0; i < j->n_older; i++) {
        j->older[i].step = hsp_cur_u64(r);
        j->older[i].mark = get_ckpt(r, version);
    }
}

static bool get_cuts(struct hsp_cursor *r, struct hsp_ckpt_cuts *ret)
{
    bool ok = true;
    ret->n = hsp_cur_count(r, HSP_MSG_CUTS, 24);
    for (uint32_t i = 0; i < ret->n; i++) {
        struct hsp_m_cut *k = &ret->cut[i];
        k->from = hsp_cur_u64(r);
        k->epoch = hsp_cur_u64(r);
        k->step = hsp_cur_u64(r);
        ok = ok && (i == 0 || k[-1].step <= k->step);
    }
    return ok;
}

/* Rows before form 15 name the last cut alone, at the origin. */
static bool get_given_up(struct hsp_cursor *r, uint8_t version, struct hsp_job *j)
{
    if (version < ROW_CUTS) {
        j->cuts.n = j->begun != 0;
        j->cuts.cut[0] = (struct hsp_m_cut){0, j->begun, j->origin_step};
        return true;
    }
    return get_cuts(r, &j->cuts) && get_cuts(r, &j->line);
}

static struct hsp_links get_links(struct hsp_cursor *r)
{
    struct hsp_links n = {.shm = hsp_cur_u32(r)};
    n.local = hsp_cur_u32(r);
    n.tls = hsp_cur_u32(r);
    n.tcp = hsp_cur_u32(r);
    return n;
}

static bool get_epoch(struct hsp_cluster *c, struct hsp_cursor *r, uint8_t version,
                      struct hsp_cl_epoch *ret)
{
    struct hsp_cl_epoch e = {.epoch = hsp_cur_u64(r)};
    if (e.epoch == 0) {
        return true;
    }
    e.plan = hsp_cur_u64(r);
    e.from_plan = hsp_cur_u64(r);
    e.base_epoch = hsp_cur_u64(r);
    uint8_t mode = hsp_cur_u8(r);
    e.mode = (enum hsp_epoch_mode)(mode & 3);
    e.share_notes = (mode & SHARE_NOTES) != 0;
    e.live = (mode & SEALS_LIVE) != 0;
    uint8_t phase = hsp_cur_u8(r);
    e.phase = phase <= HSP_ATT_GO ? (enum hsp_attempt_phase)phase : HSP_ATT_NONE;
    e.step = hsp_cur_u64(r);
    e.n_ranks = hsp_cur_u32(r);
    e.n_replica_holders = hsp_cur_u32(r);
    e.data_tls = hsp_cur_u8(r) != 0;
    if (version >= ROW_TRUSTED) {
        get_text(r, e.trusted, sizeof(e.trusted));
    }
    e.settled = hsp_cur_u8(r) != 0;
    e.deadline_ms = HSP_NEVER;
    get_text(r, e.cause, sizeof(e.cause));
    e.links = version >= ROW_LINKS ? get_links(r) : (struct hsp_links){0};
    e.n_peers = hsp_cur_count(r, HSP_MSG_RANKS, 12);
    e.peers = lasting(c, e.n_peers, sizeof(*e.peers));
    if (e.peers == NULL) {
        return false;
    }
    bool ok = e.n_replica_holders <= HSP_MAX_REPLICA_HOLDERS && e.n_ranks <= e.n_peers &&
              hsp_ci_participants(&e) <= e.n_peers;
    for (uint32_t i = 0; i < e.n_peers; i++) {
        e.peers[i].device = hsp_cur_u32(r);
        e.peers[i].incarnation = hsp_cur_u64(r);
        e.peers[i].prepare_sent = true;
        e.peers[i].ready = e.phase == HSP_ATT_GO;
        ok = ok && e.peers[i].device < c->n_nodes * HSP_NODE_DEVICES;
    }
    *ret = e;
    bool indexed = hsp_ci_epoch_index(ret);
    c->failed = c->failed || !indexed;
    return ok && indexed;
}

/* Rows before form 11 have none: late messages about their epochs are not believed. */
static bool get_past(struct hsp_cursor *r, uint8_t version, struct hsp_job *j)
{
    bool ok = true;
    j->n_past = version >= ROW_KNOWN ? hsp_cur_count(r, HSP_JOB_PAST, 12) : 0;
    for (uint32_t i = 0; ok && i < j->n_past; i++) {
        struct hsp_past_epoch *p = &j->past[i];
        p->epoch = hsp_cur_u64(r);
        p->n = hsp_cur_u32(r);
        ok = p->n <= HSP_ARRAY_LEN(p->node);
        for (uint32_t k = 0; ok && k < p->n; k++) {
            p->node[k] = hsp_cur_u32(r);
            p->incarnation[k] = hsp_cur_u64(r);
        }
    }
    return ok;
}

static void get_terms(struct hsp_cluster *c, struct hsp_cursor *r, struct hsp_job *j)
{
    get_text(r, j->name, sizeof(j->name));
    j->priority = (int32_t)hsp_cur_u32(r);
    j->min = hsp_cur_u32(r);
    j->max = hsp_cur_u32(r);
    j->copies = hsp_cur_u32(r);
    j->steps = hsp_cur_u64(r);
    j->checkpoint_every = hsp_cur_u64(r);
    j->checkpoint_shared = hsp_cur_u8(r) != 0;
    j->data_path = get_string(c, r);
    j->checkpoint_path = get_string(c, r);
}

/* The progress of the job. */
static void get_progress(struct hsp_cursor *r, uint8_t version, struct hsp_job *j)
{
    get_text(r, j->reason, sizeof(j->reason));
    j->next_epoch = hsp_cur_u64(r);
    j->next_plan = hsp_cur_u64(r);
    j->origin = (enum hsp_epoch_mode)(hsp_cur_u8(r) & 3);
    j->origin_step = hsp_cur_u64(r);
    j->has_ckpt = hsp_cur_u8(r) != 0;
    j->ckpt_step = hsp_cur_u64(r);
    j->stable = hsp_cur_u64(r);
    j->data_known = hsp_cur_u8(r) != 0;
    j->data_bytes = hsp_cur_u64(r);
    j->data_tokens = version >= ROW_TOKENS ? hsp_cur_u64(r) : 0; /* the next READY tells them */
    j->data_digest.hi = hsp_cur_u64(r);
    j->data_digest.lo = hsp_cur_u64(r);
    if (version >= ROW_SUSPENDING) {
        j->suspending = j->suspend_unheard = hsp_cur_u8(r) != 0;
        j->suspend_from = hsp_cur_u64(r);
        j->lost_from = hsp_ci_at_rest(j) ? j->suspend_from : 0;
    }
    j->begun = version >= ROW_BEGUN ? hsp_cur_u64(r) : 0;
    j->origin_ckpt = get_ckpt(r, version);
    j->ckpt = get_ckpt(r, version);
}

static bool get_leases(struct hsp_cluster *c, struct hsp_cursor *r, const struct hsp_job *j)
{
    uint32_t n = hsp_cur_count(r, HSP_MAX_NODES * HSP_NODE_DEVICES, 5);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = hsp_cur_u32(r);
        uint8_t ask = hsp_cur_u8(r);
        if (d >= c->n_nodes * HSP_NODE_DEVICES || ask > HSP_ASK_STOP) {
            return false;
        }
        if (!hsp_ci_node_gone(hsp_ci_node(c, d))) {
            hsp_ci_lease(c, d, j->id);
            hsp_ci_ask(c, d, (enum hsp_device_ask)ask);
        }
    }
    return true;
}

/* The cluster of the job, and the evidence that holds it back. */
static void get_standing(struct hsp_cursor *r, uint8_t version, struct hsp_job *j)
{
    if (version >= ROW_DOUBT) {
        j->doubted = hsp_cur_u8(r) != 0;
        get_text(r, j->ahead, sizeof(j->ahead));
    }
    if (version >= ROW_ADOPTED) {
        j->from.hi = hsp_cur_u64(r);
        j->from.lo = hsp_cur_u64(r);
    }
    if (version >= ROW_BORN || (version == ROW_ADOPTED && hsp_cur_left(r) > 0)) {
        j->born.hi = hsp_cur_u64(r);
        j->born.lo = hsp_cur_u64(r);
    }
}

/* Rows before form 15 name those of the last epoch alone, and of one that begins. */
static bool get_ran(struct hsp_cluster *c, struct hsp_cursor *r, uint8_t version, struct hsp_job *j)
{
    if (version < ROW_RAN) {
        hsp_ci_mark_ran(c, j, &j->cur);
        if (j->att.phase == HSP_ATT_GO) { /* these ranks may be running already */
            hsp_ci_mark_ran(c, j, &j->att);
        }
        j->ran_unknown = j->begun != 0;
        j->anew = j->begun >= j->next_epoch && !j->has_ckpt;
        return true;
    }
    uint8_t flags = hsp_cur_u8(r);
    j->ran_unknown = (flags & RAN_UNKNOWN) != 0;
    j->anew = (flags & RAN_ANEW) != 0;
    j->ckpt_asked = (flags & CKPT_ASKED) != 0;
    j->suspend_unheard = j->suspend_unheard || j->ckpt_asked;
    uint32_t n = hsp_cur_count(r, HSP_MAX_NODES, 4);
    bool ok = true;
    for (uint32_t i = 0; ok && i < n; i++) {
        uint32_t node = hsp_cur_u32(r);
        ok = node < c->n_nodes;
        if (ok) {
            hsp_ci_mark(c, j, node)->ran = true;
        }
    }
    return ok;
}

static bool load_job(struct hsp_cluster *c, struct hsp_cursor *r, uint8_t version)
{
    struct hsp_job *j = hsp_ci_job_insert(c, hsp_cur_u32(r));
    if (j == NULL) {
        return false;
    }
    j->was_stored = true;
    get_terms(c, r, j);
    uint8_t state = hsp_cur_u8(r);
    j->state = (enum hsp_job_state)(state <= HSP_JOB_BEHIND ? state : HSP_JOB_FAILED);
    get_progress(r, version, j);
    bool ok = j->data_path != NULL && j->checkpoint_path != NULL && state <= HSP_JOB_BEHIND &&
              get_epoch(c, r, version, &j->cur) && get_epoch(c, r, version, &j->att) &&
              get_leases(c, r, j) && get_past(r, version, j);
    get_older(j, r, version);
    if (ok) {
        hsp_ci_watch_begin(c, j);
    }
    j->n_gaps = ok && version >= ROW_KNOWN ? hsp_cur_count(r, HSP_JOB_GAPS, 16) : 0;
    ok = ok && get_ranges(r, j->gap, j->n_gaps);
    if (ok) {
        get_standing(r, version, j);
        ok = get_given_up(r, version, j);
    }
    return ok && get_ran(c, r, version, j);
}

static bool get_replica_holders(const struct hsp_cluster *c, struct hsp_cursor *r,
                                struct hsp_plan_info *i)
{
    i->n_spare = hsp_cur_u32(r);
    i->keep_bytes = hsp_cur_u64(r);
    i->n_replica_holders = hsp_cur_count(r, HSP_MAX_REPLICA_HOLDERS, 4);
    bool ok = true;
    for (uint32_t k = 0; k < i->n_replica_holders; k++) {
        i->replica_holder[k] = hsp_cur_u32(r);
        ok = ok && i->replica_holder[k] < c->n_nodes * HSP_NODE_DEVICES;
    }
    return ok;
}

static bool get_holders(struct hsp_cluster *c, struct hsp_cursor *r, struct hsp_job_plan *p)
{
    uint32_t all = p->info.n_ranks + p->info.n_replica_holders;
    uint32_t n = hsp_cur_count(r, all, 8);
    p->holder = n != 0 ? lasting(c, n, sizeof(*p->holder)) : NULL;
    for (uint32_t i = 0; p->holder != NULL && i < n; i++) {
        p->holder[i] = hsp_cur_u64(r);
    }
    return n == 0 || (n == all && p->holder != NULL);
}

static bool get_ranks(struct hsp_cluster *c, struct hsp_cursor *r, struct hsp_plan_info *i)
{
    i->n_ranks = hsp_cur_count(r, HSP_MSG_RANKS, 28);
    i->device = lasting(c, i->n_ranks, sizeof(*i->device));
    i->mem_bytes = lasting(c, i->n_ranks, sizeof(*i->mem_bytes));
    i->compute_s = lasting(c, i->n_ranks, sizeof(*i->compute_s));
    i->speed = lasting(c, i->n_ranks, sizeof(*i->speed));
    bool ok = i->device != NULL && i->mem_bytes != NULL && i->compute_s != NULL && i->speed != NULL;
    for (uint32_t k = 0; ok && k < i->n_ranks; k++) {
        i->device[k] = hsp_cur_u32(r);
        i->mem_bytes[k] = hsp_cur_u64(r);
        i->compute_s[k] = hsp_cur_f64(r);
        i->speed[k] = hsp_cur_f64(r);
        ok = i->device[k] < c->n_nodes * HSP_NODE_DEVICES;
    }
    return ok;
}

static bool get_pieces(struct hsp_cluster *c, struct hsp_cursor *r, struct hsp_plan_info *i)
{
    i->n_shards = hsp_cur_count(r, 65536, 4);
    i->shard_first = lasting(c, i->n_shards, sizeof(*i->shard_first));
    bool ok = i->shard_first != NULL;
    uint64_t n = 0;
    for (uint32_t s = 0; ok && s < i->n_shards; s++) {
        n += hsp_cur_u32(r);
        ok = n <= hsp_cur_left(r);
        i->shard_first[s + 1] = (uint32_t)n;
    }
    i->pieces = ok ? lasting(c, n, sizeof(*i->pieces)) : NULL;
    ok = ok && i->pieces != NULL;
    for (uint64_t k = 0; ok && k < n; k++) {
        i->pieces[k].holder = hsp_cur_u32(r);
        i->pieces[k].owner = hsp_cur_u32(r);
    }
    return ok;
}

static bool load_plan(struct hsp_cluster *c, struct hsp_cursor *r, uint8_t version)
{
    struct hsp_job *j = hsp_ci_job(c, hsp_cur_u32(r));
    if (j == NULL) {
        return false;
    }
    if (!hsp_grow(&j->plans, &j->cap_plans, (size_t)j->n_plans + 1, sizeof(*j->plans), MAX_PLANS)) {
        c->failed = c->failed || j->n_plans < MAX_PLANS;
        return false;
    }
    struct hsp_job_plan p = {.plan = hsp_cur_u64(r), .started = hsp_cur_u8(r) != 0};
    p.since = hsp_cur_u64(r);
    struct hsp_plan_info *i = &p.info;
    i->step_s = hsp_cur_f64(r);
    i->why = get_string(c, r);
    bool ok = get_ranks(c, r, i) && i->why != NULL && get_pieces(c, r, i);
    ok = ok && get_replica_holders(c, r, i) && (version < ROW_KNOWN || get_holders(c, r, &p));
    p.void_from = ok && version >= ROW_GIVEN_UP ? hsp_cur_u64(r) : UINT64_MAX;
    p.epoch = ok && version >= ROW_GIVEN_UP ? hsp_cur_u64(r) : 0;
    if (ok && (version > ROW_MADE_OF || (version == ROW_MADE_OF && hsp_cur_left(r) > 0))) {
        p.from_plan = hsp_cur_u64(r);
        p.from_step = hsp_cur_u64(r);
    }
    if (!ok || hsp_ci_info_fault(i) != NULL) {
        hsp_ci_plan_fini(&p);
        return false;
    }
    uint32_t at = j->n_plans++; /* ascending, in any order of the rows */
    for (; at > 0 && j->plans[at - 1].plan > p.plan; at--) {
        j->plans[at] = j->plans[at - 1];
    }
    j->plans[at] = p;
    j->unheard = j->unheard || p.started;
    return true;
}

static bool is_of_core(const char *key)
{
    return strcmp(key, HSP_CLUSTER_ROW) == 0 || strcmp(key, HSP_RESTORED_ROW) == 0 ||
           strcmp(key, "ended") == 0 || strcmp(key, "adopted") == 0 || strcmp(key, "term") == 0 ||
           strncmp(key, "node/", 5) == 0 || strncmp(key, "job/", 4) == 0 ||
           strncmp(key, "plan/", 5) == 0;
}

static enum hsp_status wrong_form(const char *key, uint8_t form, struct hsp_err *err)
{
    return hsp_err_set(err, HSP_EVERSION, 0,
                       "stored row %.100s has form %u, this hspmdd reads %d to %d: finish its jobs "
                       "with the hspmdd that wrote it",
                       key, form, ROW_OLDEST, ROW_VERSION);
}

enum hsp_status hsp_cluster_row_old(const struct hsp_cluster_row *row, struct hsp_err *err)
{
    const uint8_t *form = row->value;
    return row->len > 0 && form[0] > 0 && form[0] < ROW_OLDEST && is_of_core(row->key)
               ? wrong_form(row->key, form[0], err)
               : HSP_OK;
}

enum hsp_status hsp_ci_load_row(struct hsp_cluster *c, const struct hsp_cluster_row *row,
                                struct hsp_err *err)
{
    struct hsp_cursor r;
    hsp_cur_init(&r, row->value, row->len);
    uint8_t version = hsp_cur_u8(&r);
    bool ok = row->len > 0;
    if (ok && (version < ROW_OLDEST || version > ROW_VERSION)) {
        return wrong_form(row->key, version, err);
    }
    if (ok && strcmp(row->key, "cluster") == 0) {
        ok = load_cluster(c, &r, version);
    } else if (ok && strcmp(row->key, HSP_RESTORED_ROW) == 0) {
        c->restored = true;
        c->restored_over = hsp_cur_u64(&r);
    } else if (ok && strcmp(row->key, "ended") == 0) {
        ok = load_ended(c, &r);
    } else if (ok && strcmp(row->key, "adopted") == 0) {
        ok = load_adopted_ended(c, &r);
    } else if (ok && strcmp(row->key, "term") == 0) {
        ok = load_term(c, &r);
    } else if (ok && strncmp(row->key, "node/", 5) == 0) {
        ok = load_node(c, &r, row->key, version);
    } else if (ok && strncmp(row->key, "job/", 4) == 0) {
        ok = load_job(c, &r, version);
    } else if (ok) {
        ok = load_plan(c, &r, version);
    }
    if (c->failed) {
        return hsp_err_nomem(err, "the stored row %.100s", row->key);
    }
    if (!ok || !hsp_cur_done(&r)) {
        return hsp_err_set(err, HSP_EPARSE, 0, "stored row %.100s does not decode", row->key);
    }
    return HSP_OK;
}
