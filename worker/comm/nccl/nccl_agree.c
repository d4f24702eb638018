#include "worker/comm/nccl/nccl_agree.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "worker/backend/backend.h" /* HSP_N_LANES */
#include "worker/comm/nccl/nccl_need.h"

#define PAIR_BYTES 13
#define HELD_BYTES 25

void hsp_nccl_offer_encode(const struct hsp_nccl_offer *o, struct hsp_buf *to)
{
    hsp_buf_u32(to, o->version);
    hsp_buf_u64(to, o->place.host);
    hsp_buf_u8(to, o->place.trusted);
    hsp_buf_u8(to, o->place.tls);
    hsp_buf_u64(to, o->gpu);
    hsp_buf_u64(to, o->process);
    hsp_buf_u32(to, o->n_pairs);
    for (uint32_t k = 0; k < o->n_pairs; k++) {
        hsp_buf_u32(to, o->pair[k].peer);
        hsp_buf_u8(to, o->pair[k].out);
        hsp_buf_u64(to, o->pair[k].order);
    }
    hsp_buf_u32(to, o->n_held);
    for (uint32_t k = 0; k < o->n_held; k++) {
        hsp_buf_u64(to, o->held[k].key);
        hsp_buf_u64(to, o->held[k].nonce);
        hsp_buf_u64(to, o->held[k].ops);
        hsp_buf_u8(to, o->held[k].in_use);
    }
}

static bool read_pairs(struct hsp_cursor *c, struct hsp_nccl_offer *o)
{
    o->n_pairs = hsp_cur_count(c, HSP_NCCL_MAX_PAIRS, PAIR_BYTES);
    o->pair = calloc((size_t)o->n_pairs + 1, sizeof *o->pair);
    for (uint32_t k = 0; k < o->n_pairs && o->pair != NULL; k++) {
        o->pair[k].peer = hsp_cur_u32(c);
        o->pair[k].out = hsp_cur_u8(c) != 0;
        o->pair[k].order = hsp_cur_u64(c);
    }
    return o->pair != NULL;
}

static bool read_held(struct hsp_cursor *c, struct hsp_nccl_offer *o)
{
    o->n_held = hsp_cur_count(c, HSP_NCCL_MAX_HELD, HELD_BYTES);
    o->held = calloc((size_t)o->n_held + 1, sizeof *o->held);
    for (uint32_t k = 0; k < o->n_held && o->held != NULL; k++) {
        o->held[k].key = hsp_cur_u64(c);
        o->held[k].nonce = hsp_cur_u64(c);
        o->held[k].ops = hsp_cur_u64(c);
        o->held[k].in_use = hsp_cur_u8(c) != 0;
    }
    return o->held != NULL;
}

enum hsp_status hsp_nccl_offer_decode(const void *data, size_t bytes, struct hsp_nccl_offer *ret,
                                      struct hsp_err *err)
{
    struct hsp_cursor c;
    struct hsp_nccl_offer o = {0};
    hsp_cur_init(&c, data, bytes);
    o.version = hsp_cur_u32(&c);
    o.place.host = hsp_cur_u64(&c);
    o.place.trusted = hsp_cur_u8(&c);
    uint8_t tls = hsp_cur_u8(&c);
    o.place.tls = tls != 0;
    o.gpu = hsp_cur_u64(&c);
    o.process = hsp_cur_u64(&c);
    bool memory = read_pairs(&c, &o) && read_held(&c, &o);
    if (!memory || !hsp_cur_done(&c) || tls > 1) {
        hsp_nccl_offer_fini(&o);
        return memory ? hsp_err_set(err, HSP_EPROTO, 0, "%zu bytes that are no offer", bytes)
                      : hsp_err_nomem(err, "an offer");
    }
    *ret = o;
    return HSP_OK;
}

void hsp_nccl_offer_fini(struct hsp_nccl_offer *o)
{
    free(o->pair);
    free(o->held);
    *o = (struct hsp_nccl_offer){0};
}

/* ---- lists and pairs ---- */

static const struct hsp_nccl_pair *pair_of(const struct hsp_nccl_offer *o, uint32_t peer, bool out)
{
    for (uint32_t k = 0; k < o->n_pairs; k++) {
        if (o->pair[k].peer == peer && o->pair[k].out == out) {
            return &o->pair[k];
        }
    }
    return NULL;
}

static bool may_talk(const struct hsp_nccl_place *a, const struct hsp_nccl_place *b)
{
    return !(a->tls || b->tls) || (a->host != 0 && a->host == b->host) ||
           (a->trusted & b->trusted) != 0;
}

bool hsp_nccl_may_talk(const struct hsp_nccl_offer *offer, const uint32_t *ranks, uint32_t n)
{
    bool may = true;
    for (uint32_t i = 0; i < n && may; i++) {
        for (uint32_t j = i + 1; j < n && may; j++) {
            may = may_talk(&offer[ranks[i]].place, &offer[ranks[j]].place);
        }
    }
    return may;
}

/* Returns true if L1 holds for two ranks. */
static bool meet(const struct hsp_nccl_offer *a, const struct hsp_nccl_offer *b)
{
    return a->version != 0 && a->version == b->version && a->gpu != b->gpu &&
           may_talk(&a->place, &b->place);
}

bool hsp_nccl_pair_ok(const struct hsp_nccl_offer *offer, uint32_t from, uint32_t to,
                      uint32_t *ret_lane)
{
    const struct hsp_nccl_offer *a = &offer[from];
    const struct hsp_nccl_pair *sends = pair_of(a, to, true);
    const struct hsp_nccl_pair *takes = pair_of(&offer[to], from, false);
    uint32_t lane = 0;
    for (uint32_t k = 0; k < a->n_pairs; k++) {
        lane += a->pair[k].out && a->pair[k].peer < to;
    }
    *ret_lane = lane;
    return sends != NULL && takes != NULL && sends->order == takes->order && lane < HSP_N_LANES &&
           meet(a, &offer[to]);
}

bool hsp_nccl_list_ok(const struct hsp_nccl_offer *offer, const uint32_t *ranks, uint32_t n)
{
    uint32_t lane;
    bool ok = n > 0 && offer[ranks[0]].version != 0;
    for (uint32_t i = 0; i < n && ok; i++) {
        for (uint32_t j = 0; j < n && ok; j++) {
            uint32_t a = ranks[i], b = ranks[j];
            bool talks = i != j && (pair_of(&offer[a], b, true) != NULL ||
                                    pair_of(&offer[b], a, false) != NULL);
            ok = (i == j || meet(&offer[a], &offer[b])) &&
                 (!talks || hsp_nccl_pair_ok(offer, a, b, &lane));
        }
    }
    return ok;
}

/* ---- communicators ---- */

uint64_t hsp_nccl_key(enum hsp_nccl_use use, const uint64_t *process, uint32_t n)
{
    uint64_t h = hsp_mix64(use + UINT64_C(0x6e63636c));
    for (uint32_t k = 0; k < n; k++) {
        h = hsp_mix64(h ^ process[k]);
    }
    return h;
}

uint64_t hsp_nccl_kept(const struct hsp_nccl_offer *offer, const uint32_t *ranks, uint32_t n,
                       uint64_t key)
{
    const struct hsp_nccl_held *first = NULL;
    for (uint32_t k = 0; k < n; k++) {
        const struct hsp_nccl_offer *o = &offer[ranks[k]];
        const struct hsp_nccl_held *h = NULL;
        for (uint32_t i = 0; i < o->n_held && h == NULL; i++) {
            h = o->held[i].key == key ? &o->held[i] : NULL;
        }
        first = k == 0 ? h : first;
        if (h == NULL || h->nonce != first->nonce || h->in_use != first->in_use ||
            (!h->in_use && h->ops != first->ops)) {
            return 0;
        }
    }
    return first != NULL ? first->nonce : 0;
}

bool hsp_nccl_ranks_here(const struct hsp_nccl_offer *offer, uint32_t n_ranks,
                         const uint64_t *process, uint32_t n, uint32_t *ret)
{
    bool all = true;
    for (uint32_t k = 0; k < n && all; k++) {
        uint32_t r = 0;
        while (r < n_ranks && (offer[r].version == 0 || offer[r].process != process[k])) {
            r++;
        }
        all = r < n_ranks;
        ret[k] = r;
    }
    return all;
}

static int by_key(const void *a, const void *b)
{
    const struct hsp_nccl_offshoot *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static bool share_a_member(const struct hsp_nccl_offshoot *a, const struct hsp_nccl_offshoot *b)
{
    bool yes = false;
    for (uint32_t i = 0; i < a->n; i++) {
        for (uint32_t j = 0; j < b->n; j++) {
            yes = yes || a->place[i] == b->place[j];
        }
    }
    return yes;
}

uint32_t hsp_nccl_turns(struct hsp_nccl_offshoot *o, uint32_t n)
{
    uint32_t turns = 0;
    if (n > 1) {
        qsort(o, n, sizeof *o, by_key);
    }
    for (uint32_t k = 0; k < n; k++) {
        bool free_turn = false;
        for (uint32_t t = 0; t <= turns && !free_turn; t++) {
            o[k].turn = t;
            free_turn = true;
            for (uint32_t j = 0; j < k; j++) {
                free_turn = free_turn && (o[j].turn != t || !share_a_member(&o[j], &o[k]));
            }
        }
        turns = o[k].turn + 1 > turns ? o[k].turn + 1 : turns;
    }
    return turns;
}

/* ---- uneven pieces ---- */

/* In microseconds: a further broadcast or reduction in a group, and a copy within the device. In
 * bytes per microsecond: between GPUs and in a GPU's memory. All are of the order that NVIDIA's
 * data sheets and nccl-tests show; the figures need only tell "a few" bytes from "many". */
#define CALL_US             8.0
#define COPY_US             2.0
#define LINK_BYTES_PER_US   100e3
#define MEMORY_BYTES_PER_US 1e6

static bool padding_pays(const size_t *count, uint32_t n, size_t elem)
{
    double longest = 0, total = 0, calls = 0;
    for (uint32_t k = 0; k < n; k++) {
        double bytes = (double)count[k] * (double)elem;
        longest = bytes > longest ? bytes : longest;
        total += bytes;
        calls += count[k] > 0;
    }
    double filled = (n - 1) * (longest - total / n) / LINK_BYTES_PER_US;
    double copied = n * COPY_US + 2 * total / MEMORY_BYTES_PER_US; /* read and written */
    return filled + copied < (calls - 1) * CALL_US;
}

enum hsp_nccl_shape hsp_nccl_shape_of(const size_t *count, uint32_t n, size_t elem)
{
    bool even = true, none = true;
    for (uint32_t k = 0; k < n; k++) {
        even = even && count[k] == count[0];
        none = none && count[k] == 0;
    }
    return none                           ? HSP_NCCL_NOTHING
           : even                         ? HSP_NCCL_EVEN
           : padding_pays(count, n, elem) ? HSP_NCCL_PADDED
                                          : HSP_NCCL_GROUPED;
}
