/* Splits communicators off others, by ncclCommSplit.
 *
 * All members of the parent take part in each split, with no color where the new communicator does
 * not concern them. So its first member tells all ranks, and every member of the parent finds the
 * same turns (hsp_nccl_turns). All members hold the parent with the same past, none of them is
 * gone, and no running epoch uses it, since the library wants nothing under way. The parent's own
 * thread takes the turns. Only communicators of collectives are split off: those of pairs are made
 * by two ranks alone, all at once, and turns of the parent would be slower. */
#include "worker/comm/nccl/nccl_split.h"

#include <stdlib.h>
#include <string.h>

#include "worker/comm/nccl/nccl_agree.h"
#include "worker/comm/nccl/nccl_end.h"
#include "worker/comm/nccl/nccl_make.h"

enum hsp_status hsp_nccl_no_memory(struct hsp_err *err)
{
    return hsp_err_nomem(err, "the preparation of NCCL");
}

static uint32_t index_of(uint64_t process, const uint64_t *of, uint32_t n)
{
    uint32_t k = 0;
    while (k < n && of[k] != process) {
        k++;
    }
    return k;
}

/* ---- finding a parent ---- */

static bool in_use(const struct hsp_nccl_offer *o, const struct hsp_link *l)
{
    bool yes = false;
    for (uint32_t k = 0; k < o->n_held; k++) {
        yes = yes || (o->held[k].key == l->key && o->held[k].in_use);
    }
    return yes;
}

static bool can_part(const struct hsp_nccl_making *m, const struct hsp_nccl_wanted *w,
                     const struct hsp_link *l, uint32_t *ranks)
{
    bool inside = l->n > w->n;
    for (uint32_t k = 0; k < w->n && inside; k++) {
        inside = index_of(w->process[k], l->process, l->n) < l->n;
    }
    return inside && hsp_nccl_ranks_here(m->offer, m->n_ranks, l->process, l->n, ranks) &&
           hsp_nccl_may_talk(m->offer, ranks, l->n) &&
           hsp_nccl_kept(m->offer, ranks, l->n, l->key) == l->nonce &&
           !in_use(&m->offer[ranks[l->me]], l);
}

enum hsp_status hsp_nccl_split_find(struct hsp_nccl_making *m, struct hsp_nccl_wanted *w,
                                    struct hsp_err *err)
{
    struct hsp_nccl *n = m->n;
    struct hsp_link *best = NULL;
    if (n->lib.CommSplit == NULL || w->use != HSP_NCCL_COLLECTIVE) {
        return HSP_OK;
    }
    (void)pthread_mutex_lock(&n->lock);
    for (struct hsp_link *l = n->links; l != NULL; l = l->next) {
        uint32_t *ranks = calloc(l->n, sizeof *ranks);
        if (ranks == NULL) {
            (void)pthread_mutex_unlock(&n->lock);
            return hsp_nccl_no_memory(err);
        }
        best = can_part(m, w, l, ranks) && (best == NULL || l->n < best->n) ? l : best;
        free(ranks);
    }
    if (best != NULL) {
        best->users++;
    }
    w->split_from = best;
    (void)pthread_mutex_unlock(&n->lock);
    return HSP_OK;
}

/* ---- telling ---- */

void hsp_nccl_split_tell(const struct hsp_nccl_wanted *w, struct hsp_buf *to)
{
    const struct hsp_link *l = w->split_from;
    hsp_buf_u64(to, w->key);
    hsp_buf_u8(to, HSP_NCCL_SPLIT);
    hsp_buf_u64(to, l->key);
    hsp_buf_u64(to, l->nonce);
    hsp_buf_u32(to, w->n);
    for (uint32_t k = 0; k < w->n; k++) {
        hsp_buf_u32(to, index_of(w->process[k], l->process, l->n));
    }
}

/* Finds or adds the splits of @parent; NULL without memory. Takes the user of @parent over. */
static struct hsp_nccl_parting *parting_of(struct hsp_nccl_making *m, struct hsp_link *parent)
{
    for (uint32_t k = 0; k < m->n_partings; k++) {
        if (m->parting[k].parent == parent) {
            hsp_nccl_give_back(m->n, parent);
            return &m->parting[k];
        }
    }
    struct hsp_nccl_parting *more = realloc(m->parting, (m->n_partings + 1) * sizeof *more);
    if (more == NULL) {
        hsp_nccl_give_back(m->n, parent);
        return NULL;
    }
    m->parting = more;
    more[m->n_partings] = (struct hsp_nccl_parting){.parent = parent};
    return &more[m->n_partings++];
}

static struct hsp_nccl_offshoot *add_offshoot(struct hsp_nccl_parting *x, uint64_t key, uint32_t n)
{
    struct hsp_nccl_offshoot *more = realloc(x->offshoot, (x->n + 1) * sizeof *more);
    uint32_t *place = calloc((size_t)n + 1, sizeof *place);
    x->offshoot = more != NULL ? more : x->offshoot;
    if (more == NULL || place == NULL) {
        free(place);
        return NULL;
    }
    more[x->n] = (struct hsp_nccl_offshoot){.key = key, .n = n, .place = place};
    return &more[x->n++];
}

enum hsp_status hsp_nccl_split_hear(struct hsp_nccl_making *m, struct hsp_nccl_wanted *w,
                                    uint64_t key, struct hsp_cursor *c, struct hsp_err *err)
{
    uint64_t parent = hsp_cur_u64(c), nonce = hsp_cur_u64(c);
    uint32_t n = hsp_cur_count(c, m->n_ranks, 4);
    struct hsp_link *l = c->failed ? NULL : hsp_nccl_find(m->n, parent, nonce);
    if (l == NULL) { /* this rank holds no such link, or it broke */
        (void)hsp_cur_bytes(c, 4 * (size_t)n);
        return w == NULL || c->failed
                   ? HSP_OK
                   : hsp_err_set(err, HSP_EPEER, 0, "a communicator to be split broke");
    }
    uint32_t n_had = l->n;
    struct hsp_nccl_parting *x = parting_of(m, l);
    struct hsp_nccl_offshoot *o = x != NULL ? add_offshoot(x, key, n) : NULL;
    if (o == NULL) {
        return hsp_nccl_no_memory(err);
    }
    for (uint32_t k = 0; k < n; k++) {
        o->place[k] = hsp_cur_u32(c);
        if (o->place[k] >= n_had) {
            return hsp_err_set(err, HSP_EPROTO, 0, "member %u of a communicator of %u", o->place[k],
                               n_had);
        }
    }
    if (w != NULL) {
        w->is_split = true;
        w->nonce = hsp_nccl_key(HSP_NCCL_COLLECTIVE, (const uint64_t[2]){nonce, key}, 2);
    }
    return HSP_OK;
}

/* ---- turns ---- */

static struct hsp_nccl_wanted *wanted_of(const struct hsp_nccl_making *m, uint64_t key)
{
    for (uint32_t k = 0; k < m->n_wanted; k++) {
        if (m->wanted[k].key == key && m->wanted[k].is_split) {
            return &m->wanted[k];
        }
    }
    return NULL;
}

/* Fills in the color and place of this member in each turn. */
static void fill_turns(const struct hsp_nccl_making *m, struct hsp_nccl_parting *x)
{
    for (uint32_t t = 0; t < x->n_turns; t++) {
        x->turn[t] = (struct hsp_link_turn){.color = NCCL_NO_COLOR};
    }
    for (uint32_t k = 0; k < x->n; k++) {
        const struct hsp_nccl_offshoot *o = &x->offshoot[k];
        for (uint32_t i = 0; i < o->n; i++) {
            const struct hsp_nccl_wanted *w = wanted_of(m, o->key);
            if (o->place[i] == x->parent->me && w != NULL) {
                x->turn[o->turn] =
                    (struct hsp_link_turn){.color = (int)k, .place = (int)i, .child = w->link};
            }
        }
    }
}

enum hsp_status hsp_nccl_splits_start(struct hsp_nccl_making *m, struct hsp_err *err)
{
    for (uint32_t k = 0; k < m->n_partings; k++) {
        struct hsp_nccl_parting *x = &m->parting[k];
        x->n_turns = hsp_nccl_turns(x->offshoot, x->n);
        x->turn = calloc((size_t)x->n_turns + 1, sizeof *x->turn);
        if (x->turn == NULL) {
            return hsp_nccl_no_memory(err);
        }
        fill_turns(m, x);
        hsp_link_split(x->parent, x->turn, x->n_turns);
    }
    return HSP_OK;
}

bool hsp_nccl_splits_left(const struct hsp_nccl_making *m)
{
    bool left = false;
    for (uint32_t k = 0; k < m->n_partings; k++) {
        left = left || hsp_link_turns(m->parting[k].parent) > 0;
    }
    return left;
}

void hsp_nccl_splits_end(struct hsp_nccl_making *m, enum hsp_status st)
{
    for (uint32_t k = 0; k < m->n_partings; k++) {
        struct hsp_nccl_parting *x = &m->parting[k];
        if (st != HSP_OK) { /* the parent was aborted, since other members may be in a split */
            (void)hsp_link_await(x->parent);
        }
        hsp_nccl_give_back(m->n, x->parent);
        for (uint32_t i = 0; i < x->n; i++) {
            free(x->offshoot[i].place);
        }
        free(x->offshoot);
        free(x->turn);
    }
    free(m->parting);
    m->parting = NULL;
    m->n_partings = 0;
}
