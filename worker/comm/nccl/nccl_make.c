/* Prepares the NCCL of an epoch: all ranks exchange offers, and make the communicators that follow
 * from them.
 *
 * Three rounds over the mesh: the length of each offer; the offers; the origin of each communicator
 * that is not kept, told by its first member. The origin is a name (NCCL's unique id) for a new
 * one, or a communicator that all members hold and nobody uses, from which it is split off
 * (nccl_split.c). Then all communicators are made at once, each by its own thread, those of one
 * parent one after the other. At the end the new ones are connected one after the other. */
#include "worker/comm/nccl/nccl_make.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"
#include "worker/comm/nccl/nccl_agree.h"
#include "worker/comm/nccl/nccl_comm.h"
#include "worker/comm/nccl/nccl_end.h"
#include "worker/comm/nccl/nccl_split.h"
#include "worker/comm/nccl/nccl_start.h"

#define MESSAGE_CTAS 4   /* blocks of a kernel that may wait beside others that compute */
#define GREETING_MS  500 /* for one communicator to connect its members: 0.1 to 0.5 s are usual */

/* ---- which communicators ---- */

static enum hsp_status want(struct hsp_nccl_making *m, struct hsp_nccl_wanted w,
                            struct hsp_err *err)
{
    w.process = calloc(w.n, sizeof *w.process);
    if (w.process == NULL) {
        return hsp_nccl_no_memory(err);
    }
    for (uint32_t k = 0; k < w.n; k++) {
        w.process[k] = m->offer[hsp_nccl_ranks_of(&w)[k]].process;
    }
    w.key = hsp_nccl_key(w.use, w.process, w.n);
    m->wanted[m->n_wanted++] = w;
    return HSP_OK;
}

static uint32_t place_of(uint32_t rank, const uint32_t *ranks, uint32_t n)
{
    uint32_t k = 0;
    while (k < n && ranks[k] != rank) {
        k++;
    }
    return k;
}

static bool list_goes(const struct hsp_nccl_making *m, const struct hsp_nccl_list *l)
{
    return hsp_nccl_list_ok(m->offer, l->ranks, l->n);
}

/* Returns true if the collectives of a list go by NCCL: because the list itself may use NCCL, or as
 * a part of a list that uses NCCL. */
static bool collects(const struct hsp_nccl_making *m, uint32_t k)
{
    const struct hsp_nccl_needs *d = m->p->needs;
    bool yes = d->list[k].collective && list_goes(m, &d->list[k]);
    for (uint32_t i = 0; i < d->n_parts && !yes; i++) {
        yes = d->part[i].part == k && list_goes(m, &d->list[d->part[i].whole]);
    }
    return yes && d->list[k].n > 1;
}

/* Returns true if a pair has messages of a list that goes by NCCL. Both ranks decide alike, since
 * both know all lists that contain the two. */
static bool talks(const struct hsp_nccl_making *m, uint32_t peer)
{
    const struct hsp_nccl_needs *d = m->p->needs;
    bool yes = false;
    for (uint32_t k = 0; k < d->n_lists && !yes; k++) {
        const struct hsp_nccl_list *l = &d->list[k];
        yes = l->messages && place_of(peer, l->ranks, l->n) < l->n && list_goes(m, l);
    }
    return yes;
}

static enum hsp_status find_wanted(struct hsp_nccl_making *m, struct hsp_err *err)
{
    const struct hsp_nccl_needs *d = m->p->needs;
    uint32_t lane;
    enum hsp_status st = HSP_OK;
    m->wanted = calloc((size_t)d->n_lists + d->n_pairs + 1, sizeof *m->wanted);
    if (m->wanted == NULL) {
        return hsp_nccl_no_memory(err);
    }
    for (uint32_t k = 0; k < d->n_lists && st == HSP_OK; k++) {
        const struct hsp_nccl_list *l = &d->list[k];
        if (collects(m, k)) {
            st = want(m,
                      (struct hsp_nccl_wanted){.use = HSP_NCCL_COLLECTIVE,
                                               .n = l->n,
                                               .ranks = l->ranks,
                                               .me = place_of(d->rank, l->ranks, l->n)},
                      err);
        }
    }
    for (uint32_t k = 0; k < d->n_pairs && st == HSP_OK; k++) {
        const struct hsp_nccl_pair *x = &d->pair[k];
        uint32_t from = x->out ? d->rank : x->peer, to = x->out ? x->peer : d->rank;
        if (hsp_nccl_pair_ok(m->offer, from, to, &lane) && talks(m, x->peer)) {
            st = want(
                m,
                (struct hsp_nccl_wanted){
                    .use = HSP_NCCL_MESSAGES, .n = 2, .pair = {from, to}, .me = x->out ? 0 : 1},
                err);
        }
    }
    return st;
}

/* ---- where they come from ---- */

static enum hsp_status find_origin(struct hsp_nccl_making *m, struct hsp_nccl_wanted *w,
                                   struct hsp_err *err)
{
    w->nonce = hsp_nccl_kept(m->offer, hsp_nccl_ranks_of(w), w->n, w->key);
    if (w->nonce != 0) {
        w->link = hsp_nccl_find(m->n, w->key, w->nonce);
        w->kept = true;
        const struct hsp_nccl_offer *own = &m->offer[m->p->needs->rank];
        for (uint32_t k = 0; k < own->n_held; k++) {
            w->taken_over = w->taken_over || (own->held[k].key == w->key && own->held[k].in_use);
        }
        if (w->link == NULL) { /* broke meanwhile; the others wait in vain */
            return hsp_err_set(err, HSP_EPEER, 0, "a communicator of %u ranks broke", w->n);
        }
        return HSP_OK;
    }
    enum hsp_status st = w->me == 0 ? hsp_nccl_split_find(m, w, err) : HSP_OK;
    if (st == HSP_OK && w->split_from == NULL && w->me == 0) {
        enum nccl_result r = m->n->lib.GetUniqueId(&w->id);
        w->has_id = r == NCCL_SUCCESS;
        st = w->has_id ? HSP_OK : hsp_nccl_failed(&m->n->lib, NULL, r, "a name", err);
    }
    return st;
}

/* Reads the message in which rank @r describes the communicators whose first member is @r. */
static enum hsp_status hear_rank(struct hsp_nccl_making *m, uint32_t r, const uint8_t *data,
                                 size_t bytes, struct hsp_err *err)
{
    struct hsp_cursor c;
    enum hsp_status st = HSP_OK;
    hsp_cur_init(&c, data, bytes);
    while (m->n != NULL && hsp_cur_left(&c) > 0 && !c.failed && st == HSP_OK) {
        uint64_t key = hsp_cur_u64(&c);
        uint8_t how = hsp_cur_u8(&c);
        struct hsp_nccl_wanted *w = NULL;
        for (uint32_t k = 0; k < m->n_wanted && w == NULL; k++) {
            w = m->wanted[k].key == key && hsp_nccl_ranks_of(&m->wanted[k])[0] == r ? &m->wanted[k]
                                                                                    : NULL;
        }
        if (how == HSP_NCCL_SPLIT) {
            st = hsp_nccl_split_hear(m, w, key, &c, err);
            continue;
        }
        const uint8_t *id = hsp_cur_bytes(&c, NCCL_ID_BYTES);
        if (id != NULL && w != NULL) {
            memcpy(w->id.internal, id, NCCL_ID_BYTES);
            w->has_id = true;
        }
    }
    return st == HSP_OK && c.failed
               ? hsp_err_set(err, HSP_EPROTO, 0, "the communicator list of rank %u is truncated", r)
               : st;
}

static enum hsp_status tell_origins(struct hsp_nccl_making *m, struct hsp_err *err)
{
    struct hsp_buf buf;
    struct hsp_nccl_told t;
    hsp_buf_init(&buf, HSP_NCCL_TOLD_BYTES);
    for (uint32_t k = 0; k < m->n_wanted; k++) {
        if (m->wanted[k].has_id) {
            hsp_buf_u64(&buf, m->wanted[k].key);
            hsp_buf_u8(&buf, HSP_NCCL_NAMED);
            hsp_buf_append(&buf, m->wanted[k].id.internal, NCCL_ID_BYTES);
        } else if (m->wanted[k].split_from != NULL) {
            hsp_nccl_split_tell(&m->wanted[k], &buf);
        }
    }
    enum hsp_status st = hsp_nccl_tell_all(m->p->mesh, &buf, &t, err);
    hsp_buf_fini(&buf);
    if (st != HSP_OK) {
        return st;
    }
    const uint8_t *at = t.all;
    for (uint32_t r = 0; r < m->n_ranks && st == HSP_OK; r++) {
        st = hear_rank(m, r, at, t.bytes[r], err);
        at += 4 * t.count[r];
    }
    hsp_nccl_told_fini(&t);
    for (uint32_t k = 0; k < m->n_wanted && st == HSP_OK; k++) {
        const struct hsp_nccl_wanted *w = &m->wanted[k];
        if (!w->kept && !w->has_id && !w->is_split) {
            st = hsp_err_set(err, HSP_EPROTO, 0, "rank %u names no communicator",
                             hsp_nccl_ranks_of(w)[0]);
        }
    }
    return st;
}

/* ---- making ---- */

static void name_of(const struct hsp_nccl_wanted *w, char *to, size_t size)
{
    size_t at = 0;
    hsp_str_printf(to, size, w->use == HSP_NCCL_COLLECTIVE ? "ranks " : "messages of ranks ");
    for (uint32_t k = 0; k < w->n && at + 16 < size; k++) {
        at = strlen(to);
        hsp_str_printf(to + at, size - at, "%s%u", k > 0 ? "," : "", hsp_nccl_ranks_of(w)[k]);
    }
}

static enum hsp_status start(struct hsp_nccl_making *m, struct hsp_nccl_wanted *w,
                             struct hsp_err *err)
{
    char name[80];
    name_of(w, name, sizeof name);
    if (!w->is_split) {
        w->nonce = hsp_hash64(w->id.internal, NCCL_ID_BYTES, w->key) | 1;
    }
    const struct hsp_link_spec s = {.name = name,
                                    .key = w->key,
                                    .nonce = w->nonce,
                                    .process = w->process,
                                    .n = w->n,
                                    .me = w->me,
                                    .messages = w->use == HSP_NCCL_MESSAGES,
                                    .id = w->id,
                                    .is_split = w->is_split,
                                    .max_ctas = w->use == HSP_NCCL_MESSAGES ? MESSAGE_CTAS : 0};
    enum hsp_status st = hsp_link_new(&m->n->env, &s, &w->link, err);
    if (st == HSP_OK) {
        hsp_nccl_adopt(m->n, w->link);
    }
    return st;
}

typedef enum hsp_status (*link_question)(struct hsp_link *l, struct hsp_err *err);

/* Waits until links @first to @end - 1 answer the question @q with yes and no split is under way,
 * or until one link answers with an error. */
static enum hsp_status await(const struct hsp_nccl_making *m, uint32_t first, uint32_t end,
                             link_question q, struct hsp_err *err)
{
    enum hsp_status st = HSP_AGAIN;
    struct hsp_link *late = NULL;
    while (st == HSP_AGAIN) {
        late = NULL;
        for (uint32_t k = first; k < end; k++) {
            struct hsp_link *l = m->wanted[k].link;
            st = q(l, err);
            if (st != HSP_OK && st != HSP_AGAIN) {
                return st;
            }
            late = st == HSP_AGAIN ? l : late;
        }
        if (late == NULL && !hsp_nccl_splits_left(m)) {
            return HSP_OK;
        }
        st = hsp_nccl_may_wait(m->p, m->until_ms, err);
    }
    return st == HSP_ETIMEDOUT
               ? hsp_err_set(err, st, 0, "no communicator of %s within %llu ms",
                             late != NULL ? late->name : "others that are split off",
                             (unsigned long long)m->allowed_ms)
               : st;
}

/* Returns the new communicator with the smallest key that has not greeted; NULL if all have. */
static struct hsp_nccl_wanted *next_to_greet(struct hsp_nccl_making *m)
{
    struct hsp_nccl_wanted *best = NULL;
    for (uint32_t k = 0; k < m->n_wanted; k++) {
        struct hsp_nccl_wanted *w = &m->wanted[k];
        if (!w->kept && !w->greeted && (best == NULL || w->key < best->key)) {
            best = w;
        }
    }
    return best;
}

/* Returns the milliseconds allowed for all greetings of the epoch. A rank with one communicator may
 * have to wait for the greetings of all other ranks, so all greetings are counted: a pair at both
 * of its ends, and a communicator for collectives at each rank. */
static uint64_t greeting_ms(const struct hsp_nccl_making *m)
{
    uint64_t links = m->n_ranks;
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        links += m->offer[r].n_pairs;
    }
    return GREETING_MS * links;
}

static void allow(struct hsp_nccl_making *m, uint64_t ms)
{
    m->allowed_ms = ms;
    m->until_ms = hsp_nccl_now_ms() + ms;
}

/* Waits until all communicators are made. Then the members of each communicator greet each other,
 * one communicator after the other, in the order of the keys, which is the same on all ranks. A
 * greeting may wait for the device, and the device waits for the other members of communicators
 * that have begun to greet. With one order for all ranks some greeting can always go on. */
static enum hsp_status await_all(struct hsp_nccl_making *m, struct hsp_err *err)
{
    struct hsp_nccl_wanted *w = NULL;
    allow(m, m->p->timeout_ms);
    enum hsp_status st = await(m, 0, m->n_wanted, hsp_link_made, err);
    allow(m, m->p->timeout_ms + greeting_ms(m));
    while (st == HSP_OK && (w = next_to_greet(m)) != NULL) {
        uint32_t k = (uint32_t)(w - m->wanted);
        w->greeted = true;
        hsp_link_connect(w->link);
        st = await(m, k, k + 1, hsp_link_state, err);
    }
    return st == HSP_OK ? await(m, 0, m->n_wanted, hsp_link_state, err) : st;
}

static void parents_back(struct hsp_nccl_making *m)
{
    for (uint32_t k = 0; k < m->n_wanted; k++) {
        hsp_nccl_give_back(m->n, m->wanted[k].split_from);
        m->wanted[k].split_from = NULL;
    }
}

/* Aborts the links that are not made, and their parents, in one group, since the greeting of one
 * link may hold up the abort of another. A link that may still get its communicator from its parent
 * is closed when the parent has ended. */
static void abandon(const struct hsp_nccl_making *m)
{
    struct hsp_err why = {0};
    struct hsp_link_crew *half = m->n != NULL ? hsp_crew_open(&m->n->lib) : NULL;
    (void)hsp_err_set(&why, HSP_ECANCELED, 0, "the communicator is not wanted any more");
    for (uint32_t k = 0; k < m->n_wanted; k++) {
        struct hsp_link *l = m->wanted[k].link;
        bool gets_gift = l != NULL && m->wanted[k].is_split && hsp_link_made(l, NULL) == HSP_AGAIN;
        if (l != NULL && hsp_link_state(l, NULL) != HSP_OK && !gets_gift) {
            hsp_crew_add(half, l, &why);
        }
    }
    for (uint32_t k = 0; k < m->n_partings; k++) {
        hsp_crew_add(half, m->parting[k].parent, &why);
    }
    hsp_crew_abort(half);
}

static enum hsp_status make_all(struct hsp_nccl_making *m, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < m->n_wanted && st == HSP_OK; k++) {
        st = find_origin(m, &m->wanted[k], err);
    }
    if (st == HSP_OK) {
        st = tell_origins(m, err);
    }
    if (st == HSP_OK && m->n != NULL) {
        hsp_nccl_drop(m->n, m->offer, m->n_ranks); /* before others take its memory */
    }
    for (uint32_t k = 0; k < m->n_wanted && st == HSP_OK; k++) {
        if (!m->wanted[k].kept) {
            st = start(m, &m->wanted[k], err);
        }
    }
    st = st == HSP_OK ? hsp_nccl_splits_start(m, err) : st;
    st = st == HSP_OK ? await_all(m, err) : st;
    if (st != HSP_OK) {
        abandon(m);
    }
    hsp_nccl_splits_end(m, st);
    if (st == HSP_OK && m->n != NULL) {
        parents_back(m);
        hsp_nccl_drop(m->n, m->offer, m->n_ranks);
    }
    return st;
}

/* ---- the comm ---- */

static struct hsp_nccl_wanted *wanted_of(struct hsp_nccl_making *m, const uint32_t *ranks)
{
    for (uint32_t k = 0; k < m->n_wanted; k++) {
        if (m->wanted[k].ranks == ranks) {
            return &m->wanted[k];
        }
    }
    return NULL;
}

static enum hsp_status add_group(struct hsp_nccl_making *m, struct hsp_nccl_comm *parts,
                                 const struct hsp_nccl_list *l, struct hsp_err *err)
{
    struct hsp_nccl_wanted *w = wanted_of(m, l->ranks);
    struct hsp_nccl_group *g = &parts->group[parts->n_groups];
    *g = (struct hsp_nccl_group){.n = l->n, .ranks = malloc(l->n * sizeof *l->ranks)};
    if (g->ranks == NULL) {
        return hsp_nccl_no_memory(err);
    }
    memcpy(g->ranks, l->ranks, l->n * sizeof *l->ranks);
    g->me = place_of(m->p->needs->rank, l->ranks, l->n);
    g->asked = l->asked && list_goes(m, l);
    if (w != NULL) {
        g->link = w->link;
        g->taken_over = w->taken_over;
        w->link = NULL;
    }
    parts->n_groups++;
    return HSP_OK;
}

static void add_way(struct hsp_nccl_making *m, struct hsp_nccl_comm *parts,
                    struct hsp_nccl_wanted *w)
{
    struct hsp_nccl_way *x = &parts->way[parts->n_ways++];
    uint32_t lane = 0;
    (void)hsp_nccl_pair_ok(m->offer, w->pair[0], w->pair[1], &lane);
    *x = (struct hsp_nccl_way){.peer = w->pair[1 - w->me],
                               .out = w->me == 0,
                               .lane = (enum hsp_devq)(HSP_DEVQ_LANE + lane),
                               .taken_over = w->taken_over,
                               .link = w->link};
    w->link = NULL;
}

/* Makes the hsp_comm of the lists that go by NCCL, with their links and pairs. */
static enum hsp_status assemble(struct hsp_nccl_making *m, struct hsp_comm **ret,
                                struct hsp_err *err)
{
    const struct hsp_nccl_needs *d = m->p->needs;
    struct hsp_nccl_comm parts = {.group = calloc((size_t)d->n_lists + 1, sizeof *parts.group),
                                  .way = calloc((size_t)m->n_wanted + 1, sizeof *parts.way)};
    enum hsp_status st =
        parts.group != NULL && parts.way != NULL ? HSP_OK : hsp_nccl_no_memory(err);
    for (uint32_t k = 0; k < d->n_lists && st == HSP_OK; k++) {
        if (collects(m, k) || list_goes(m, &d->list[k])) {
            st = add_group(m, &parts, &d->list[k], err);
        }
    }
    for (uint32_t k = 0; k < m->n_wanted && st == HSP_OK; k++) {
        if (m->wanted[k].use == HSP_NCCL_MESSAGES) {
            add_way(m, &parts, &m->wanted[k]);
        }
    }
    if (st != HSP_OK || parts.n_groups == 0) {
        hsp_nccl_parts_fini(m->n, &parts);
        return st;
    }
    return hsp_nccl_comm_new(m->n, m->p, &parts, ret, err);
}

static void making_fini(struct hsp_nccl_making *m)
{
    for (uint32_t k = 0; k < m->n_wanted; k++) {
        hsp_nccl_give_back(m->n, m->wanted[k].link);
        free(m->wanted[k].process);
    }
    parents_back(m); /* after the links that were being made from them */
    free(m->wanted);
    hsp_nccl_offers_free(m->offer, m->n_ranks);
}

static bool anybody(const struct hsp_nccl_making *m)
{
    bool any = false;
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        any = any || m->offer[k].version != 0;
    }
    return any;
}

/* Returns true if some rank may take over a communicator that a running epoch uses. */
static bool anybody_runs(const struct hsp_nccl_making *m)
{
    bool any = false;
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        for (uint32_t i = 0; i < m->offer[k].n_held; i++) {
            any = any || m->offer[k].held[i].in_use;
        }
    }
    return any;
}

enum hsp_status hsp_nccl_prepare(struct hsp_nccl *n, const struct hsp_nccl_params *p,
                                 struct hsp_comm **ret, bool *ret_start, struct hsp_err *err)
{
    struct hsp_nccl_making m = {.n = n, .p = p, .n_ranks = p->mesh->n_ranks};
    struct hsp_comm *made = NULL;
    bool start = false;
    enum hsp_status st = hsp_nccl_exchange(n, p, true, &m.offer, err);
    if (st == HSP_OK && anybody(&m)) {
        start = anybody_runs(&m);
        st = n != NULL ? find_wanted(&m, err) : HSP_OK;
        st = st == HSP_OK ? make_all(&m, err) : st;
        st = st == HSP_OK && n != NULL ? assemble(&m, &made, err) : st;
    }
    making_fini(&m);
    if (st == HSP_OK) {
        *ret = made;
        *ret_start = start;
    }
    return st;
}
