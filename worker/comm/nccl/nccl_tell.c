#include "worker/comm/nccl/nccl_tell.h"

#include <stdlib.h>
#include <string.h>

#include "worker/comm/collective.h"
#include "worker/comm/nccl/nccl_agree.h"

void hsp_nccl_told_fini(struct hsp_nccl_told *t)
{
    free(t->ranks);
    free(t->bytes);
    free(t->count);
    free(t->all);
}

static enum hsp_status told_init(struct hsp_nccl_told *t, uint32_t n, struct hsp_err *err)
{
    *t = (struct hsp_nccl_told){.ranks = calloc(n, sizeof *t->ranks),
                                .bytes = calloc(n, sizeof *t->bytes),
                                .count = calloc(n, sizeof *t->count)};
    if (t->ranks == NULL || t->bytes == NULL || t->count == NULL) {
        hsp_nccl_told_fini(t);
        return hsp_err_nomem(err, "the preparation of NCCL");
    }
    for (uint32_t k = 0; k < n; k++) {
        t->ranks[k] = k;
        t->count[k] = 1;
    }
    return HSP_OK;
}

/* Makes room for the messages of all ranks, by their lengths, and copies the own one in. */
static enum hsp_status told_room(struct hsp_nccl_told *t, uint32_t n, uint32_t me,
                                 const struct hsp_buf *own, uint8_t **ret_mine, struct hsp_err *err)
{
    size_t total = 0, before = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (t->bytes[k] > HSP_NCCL_TOLD_BYTES) {
            return hsp_err_set(err, HSP_EPROTO, 0, "rank %u sends %u bytes of NCCL", k,
                               t->bytes[k]);
        }
        t->count[k] = (t->bytes[k] + 3) / 4;
        before = k == me ? total : before;
        total += t->count[k];
    }
    t->n_all = total;
    t->all = calloc(total + 1, 4);
    if (t->all == NULL) {
        return hsp_err_nomem(err, "the preparation of NCCL");
    }
    *ret_mine = t->all + 4 * before;
    if (own->len > 0) {
        memcpy(*ret_mine, own->data, own->len);
    }
    return HSP_OK;
}

enum hsp_status hsp_nccl_tell_all(struct hsp_comm *mesh, const struct hsp_buf *own,
                                  struct hsp_nccl_told *t, struct hsp_err *err)
{
    uint32_t bytes = (uint32_t)own->len;
    uint8_t *mine = NULL;
    enum hsp_status st = hsp_buf_status(own);
    if (st != HSP_OK) {
        return hsp_err_set(err, st, 0, "the offer of NCCL is too large");
    }
    st = told_init(t, mesh->n_ranks, err);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_group g = {.n = mesh->n_ranks, .ranks = t->ranks, .me = mesh->rank};
    st = hsp_comm_all_gather(mesh, &g, HSP_NCCL_CHANNEL, HSP_I32, &bytes, t->count, t->bytes, err);
    if (st == HSP_OK) {
        st = told_room(t, g.n, g.me, own, &mine, err);
    }
    if (st == HSP_OK && t->n_all > 0) {
        st = hsp_comm_all_gather(mesh, &g, HSP_NCCL_CHANNEL, HSP_I32, mine, t->count, t->all, err);
    }
    if (st != HSP_OK) {
        hsp_nccl_told_fini(t);
    }
    return st;
}

void hsp_nccl_offers_free(struct hsp_nccl_offer *o, uint32_t n)
{
    for (uint32_t k = 0; k < n && o != NULL; k++) {
        hsp_nccl_offer_fini(&o[k]);
    }
    free(o);
}

enum hsp_status hsp_nccl_exchange(struct hsp_nccl *n, const struct hsp_nccl_params *p, bool running,
                                  struct hsp_nccl_offer **ret, struct hsp_err *err)
{
    struct hsp_comm *mesh = p->mesh;
    struct hsp_nccl_offer mine = {0};
    struct hsp_buf buf;
    struct hsp_nccl_told t;
    enum hsp_status st = n != NULL ? hsp_nccl_tell_held(n, running, &mine, err) : HSP_OK;
    if (st != HSP_OK) {
        return st;
    }
    if (n != NULL) {
        mine.version = (uint32_t)n->lib.version;
        mine.gpu = n->o.gpu;
        mine.process = n->o.process;
        mine.place = p->place;
        mine.pair = p->needs != NULL ? p->needs->pair : NULL;
        mine.n_pairs = p->needs != NULL ? p->needs->n_pairs : 0;
    }
    hsp_buf_init(&buf, HSP_NCCL_TOLD_BYTES);
    if (n != NULL) {
        hsp_nccl_offer_encode(&mine, &buf);
    }
    free(mine.held);
    st = hsp_nccl_tell_all(mesh, &buf, &t, err);
    hsp_buf_fini(&buf);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_nccl_offer *o = calloc(mesh->n_ranks, sizeof *o);
    st = o != NULL ? HSP_OK : hsp_err_nomem(err, "the preparation of NCCL");
    const uint8_t *at = t.all;
    for (uint32_t k = 0; k < mesh->n_ranks && st == HSP_OK; k++) {
        st = t.bytes[k] > 0 ? hsp_nccl_offer_decode(at, t.bytes[k], &o[k], err) : HSP_OK;
        at += 4 * t.count[k];
    }
    hsp_nccl_told_fini(&t);
    if (st != HSP_OK) {
        hsp_nccl_offers_free(o, mesh->n_ranks);
        return st;
    }
    *ret = o;
    return HSP_OK;
}
