/* A restore goes in rounds. In each round all members send their offers and choose one offer
 * (ckpt_choice.h); the member of that offer is the server. A member that has the same checkpoint
 * reads its own files; the other members request their parts from the server. A member that finds
 * damage in its files says so in its next offer. So each round that is not the last has at least
 * one usable offer less than the round before, and the rounds come to an end. Rank 0 receives the
 * results of each round and decides whether another round follows.
 *
 * Parts are compared with the hashes of their file when they are read (worker/state/ckpt_read.h),
 * and answers with the hash in the answer when they arrive. At the end the sum of the hashes of all
 * parts is compared with the content hash of the checkpoint. This comparison finds a file whose own
 * hashes are right but whose state differs from the manifest. */
#include "worker/executor/epoch_restore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"
#include "proto/layout/box.h"
#include "worker/executor/ckpt_choice.h"
#include "worker/executor/epoch_checkpoint.h"
#include "worker/executor/epoch_export.h"
#include "worker/executor/folder_mark.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_read.h"
#include "worker/state/region.h"

enum channel {
    CHANNEL_HAVE = HSP_CHANNEL_GATHER + 8, /* epoch_checkpoint.c uses smaller numbers */
    CHANNEL_ASK,
    CHANNEL_ANSWER,
    CHANNEL_FARED
};

struct restore {
    struct hsp_ex_epoch *e;
    uint64_t version;
    struct hsp_ckpt_wish wish;
    struct hsp_ckpt *c;            /* checkpoint of this rank; NULL: none is usable */
    struct hsp_ckpt_offer *offers; /* [n_ranks] */
    uint32_t server;               /* server of this round */
    uint64_t *hash;                /* [rows of the home] hashes of the contents */
    bool verified;                 /* a round has ended with WRONG_SUM */
};

static struct hsp_ckpt_offer *mine(const struct restore *r)
{
    return &r->offers[r->e->p->rank];
}

static struct hsp_comm *comm_of(const struct restore *r)
{
    return r->e->mesh[HSP_MESH_STATE];
}

/* ---- the checkpoint of this rank ---- */

/* Finds kind @kind of parameter @param in @c, with the shape and type of this job. Returns NULL if
 * there is none. */
static const struct hsp_ckpt_tensor *find_part(const struct hsp_ex_epoch *e,
                                               const struct hsp_ckpt *c, uint32_t param,
                                               uint8_t kind)
{
    const struct hsp_pkg_param *p = &e->pkg.params[param];
    const struct hsp_ckpt_tensor *t = hsp_ckpt_find(c, p->name, kind);
    return t != NULL && t->dtype == e->pkg.dtype && t->rank == p->rank &&
                   memcmp(t->full, p->ext, p->rank * sizeof p->ext[0]) == 0
               ? t
               : NULL;
}

static enum hsp_status read_part(const struct restore *r, uint32_t param, uint8_t kind,
                                 const struct hsp_box *box, void *dst, struct hsp_err *err)
{
    const struct hsp_ckpt_tensor *t = find_part(r->e, r->c, param, kind);
    if (t == NULL) {
        return hsp_err_set(err, HSP_ENOENT, 0, "the checkpoint has no fitting %s",
                           r->e->pkg.params[param].name);
    }
    return hsp_ckpt_read(r->c, t, box, box, dst, err);
}

/* Checks that @c has the model of this job. Returns HSP_ESTATE if a parameter is missing, or has
 * another shape, type or optimizer. */
static enum hsp_status check_model(const struct hsp_ex_epoch *e, const struct hsp_ckpt *c,
                                   struct hsp_err *err)
{
    for (uint32_t i = 0; i < e->pkg.n_params; i++) {
        for (uint8_t k = 0; k < e->pkg.n_kinds; k++) {
            if (find_part(e, c, i, e->pkg.kinds[k]) == NULL) {
                return hsp_err_set(err, HSP_ESTATE, 0,
                                   "of another model: it has no %s as this job has it; resume the "
                                   "job it is of, or submit this one again",
                                   e->pkg.params[i].name);
            }
        }
    }
    return HSP_OK;
}

/* Opens the checkpoint of this rank, if its model and its place in the data are those of the job.
 * Fills the offer, also if the checkpoint does not fit. */
static enum hsp_status open_mine(struct restore *r, struct hsp_err *err)
{
    char dir[PATH_MAX];
    struct hsp_data_cursor here;
    struct hsp_ckpt *c = NULL;
    hsp_epoch_ckpt_dir(r->e, dir);
    enum hsp_status st = r->wish.epoch != 0 ? hsp_ckpt_open_meant(dir, r->version, r->e->p->job,
                                                                  r->wish.content, &c, err)
                                            : hsp_ckpt_open(dir, r->version, r->e->p->job, &c, err);
    if (st == HSP_OK) {
        mine(r)->term = hsp_ckpt_about(c)->term;
        mine(r)->epoch = hsp_ckpt_about(c)->epoch;
        mine(r)->content = hsp_ckpt_content(c);
    }
    if (st == HSP_OK && (st = hsp_epoch_cursor(r->e, r->version, &here, err)) == HSP_OK) {
        st = hsp_data_cursor_match(hsp_ckpt_data(c), &here, err);
        st = st == HSP_OK ? check_model(r->e, c, err) : st;
        if (st != HSP_OK) {
            (void)hsp_err_wrap(err, "checkpoint %" PRIu64, r->version);
        }
    }
    if (st != HSP_OK) {
        (void)hsp_ckpt_close(c);
        return st == HSP_EVERSION ? HSP_ESTATE : st; /* no restart changes that */
    }
    r->c = c;
    return HSP_OK;
}

/* Closes the checkpoint of this rank as unusable. The next offer gives the reason @why. */
static void give_up_mine(struct restore *r, enum hsp_status st, const struct hsp_err *why)
{
    r->c = hsp_ckpt_close(r->c);
    mine(r)->status = st;
    hsp_str_printf(mine(r)->why, sizeof mine(r)->why, "%s", why->msg);
}

/* ---- questions and answers ---- */

/* The message that requests a part. */
struct ask {
    uint32_t param, kind, rank, more;
    int64_t lo[HSP_MAX_RANK], hi[HSP_MAX_RANK];
};

/* The message that answers; the data follow if `status` is HSP_OK. */
struct answer {
    int64_t status;
    uint64_t hash; /* hash of the data */
};

/* Checks the box that request @a of rank @peer names, and returns it in *ret. */
static enum hsp_status asked_box(const struct hsp_ex_epoch *e, const struct ask *a, uint32_t peer,
                                 struct hsp_box *ret, struct hsp_err *err)
{
    bool ok = a->param < e->pkg.n_params && a->rank == e->pkg.params[a->param].rank;
    if (ok) {
        struct hsp_box whole = hsp_box_whole((uint8_t)a->rank, e->pkg.params[a->param].ext);
        *ret = (struct hsp_box){.rank = (uint8_t)a->rank};
        memcpy(ret->lo, a->lo, sizeof ret->lo);
        memcpy(ret->hi, a->hi, sizeof ret->hi);
        ok = !hsp_box_empty(ret) && hsp_box_inside(ret, &whole) &&
             (hsp_epoch_box_bytes(e, ret) <= HSP_GATHER_BYTES || ret->rank == 0 ||
              ret->hi[0] - ret->lo[0] == 1);
    }
    return ok ? HSP_OK
              : hsp_err_set(err, HSP_EPROTO, 0, "%s asks for a missing piece",
                            e->pkg.peers[peer].name);
}

static struct hsp_box_id part_id(const struct hsp_ex_epoch *e, uint32_t param, uint8_t kind)
{
    return (struct hsp_box_id){param, kind, (enum hsp_dtype)e->pkg.dtype, e->pkg.params[param].ext};
}

/* Answers the requests of rank @peer until its last request, or until the checkpoint of this rank
 * is found unusable. */
static enum hsp_status serve(struct restore *r, uint32_t peer, struct hsp_err *err)
{
    struct hsp_comm *comm = comm_of(r);
    enum hsp_status st = HSP_OK;
    for (struct answer head = {0}; st == HSP_OK && head.status == HSP_OK;) {
        struct ask a;
        struct hsp_box box;
        struct hsp_err why = {0};
        st = comm->ops->recv(comm, peer, CHANNEL_ASK, &a, sizeof a, err);
        if (st != HSP_OK || a.more == 0) {
            return st;
        }
        if ((st = asked_box(r->e, &a, peer, &box, err)) != HSP_OK) {
            return st;
        }
        size_t bytes = hsp_epoch_box_bytes(r->e, &box);
        void *buf = malloc(bytes + 1);
        head.status = buf == NULL    ? hsp_err_nomem(&why, "a piece of the checkpoint")
                      : r->c == NULL ? mine(r)->status
                                     : read_part(r, a.param, (uint8_t)a.kind, &box, buf, &why);
        if (head.status != HSP_OK && r->c != NULL) {
            give_up_mine(r, (enum hsp_status)head.status, &why);
        }
        if (head.status == HSP_OK) {
            struct hsp_box_id id = part_id(r->e, a.param, (uint8_t)a.kind);
            head.hash = hsp_box_hash(&id, &box, &box, buf);
        }
        st = comm->ops->send(comm, peer, CHANNEL_ANSWER, &head, sizeof head, err);
        if (st == HSP_OK && head.status == HSP_OK) {
            st = comm->ops->send(comm, peer, CHANNEL_ANSWER, buf, bytes, err);
        }
        free(buf);
    }
    return st;
}

/* Requests row @row of the home from the server, slab by slab. Returns HSP_AGAIN if the server
 * cannot give it. */
static enum hsp_status ask_row(const struct restore *r, const struct hsp_segment_row *row,
                               uint8_t *dst, struct hsp_err *err)
{
    struct hsp_comm *comm = comm_of(r);
    struct hsp_box_id id = part_id(r->e, row->tensor, row->kind);
    struct hsp_slabs s;
    struct hsp_box slab;
    enum hsp_status st = HSP_OK;
    hsp_slabs_init(&s, &row->box, hsp_dtype_size(row->dtype), HSP_GATHER_BYTES);
    while (st == HSP_OK && hsp_slabs_next(&s, &slab)) {
        struct ask a = {.param = row->tensor, .kind = row->kind, .rank = slab.rank, .more = 1};
        struct answer head = {0};
        size_t bytes = hsp_epoch_box_bytes(r->e, &slab);
        memcpy(a.lo, slab.lo, sizeof a.lo);
        memcpy(a.hi, slab.hi, sizeof a.hi);
        st = comm->ops->send(comm, r->server, CHANNEL_ASK, &a, sizeof a, err);
        if (st == HSP_OK) {
            st = comm->ops->recv(comm, r->server, CHANNEL_ANSWER, &head, sizeof head, err);
        }
        if (st == HSP_OK && head.status != HSP_OK) {
            return HSP_AGAIN;
        }
        if (st == HSP_OK) {
            st = comm->ops->recv(comm, r->server, CHANNEL_ANSWER, dst, bytes, err);
        }
        if (st == HSP_OK && hsp_box_hash(&id, &slab, &slab, dst) != head.hash) {
            st = hsp_err_set(err, HSP_EDIGEST, 0, "%s of a checkpoint from %s is damaged",
                             r->e->pkg.params[row->tensor].name, r->e->pkg.peers[r->server].name);
        }
        dst += bytes; /* slabs are adjacent in memory, too */
    }
    return st;
}

/* ---- a round ---- */

/* Fills the home from the checkpoint of this rank (@own) or of the server. Returns HSP_AGAIN if
 * that checkpoint is damaged, so that another round is needed. */
static enum hsp_status fill_home(struct restore *r, bool own, struct hsp_err *err)
{
    struct hsp_state_segment *s = hsp_epoch_home(r->e, r->version);
    enum hsp_status st = HSP_OK;
    hsp_segment_unseal(s);
    for (uint32_t i = 0; st == HSP_OK && i < hsp_segment_n(s); i++) {
        const struct hsp_segment_row *row = hsp_segment_row_at(s, i);
        uint8_t *dst = (uint8_t *)hsp_segment_area(s) + row->offset;
        r->hash[i] = 0;
        if (hsp_box_empty(&row->box)) {
            continue;
        }
        if (own) {
            struct hsp_err why = {0};
            st = read_part(r, row->tensor, row->kind, &row->box, dst, &why);
            if (st != HSP_OK) {
                give_up_mine(r, st, &why);
                return HSP_AGAIN;
            }
        } else {
            st = ask_row(r, row, dst, err);
        }
        struct hsp_box_id id = part_id(r->e, row->tensor, row->kind);
        r->hash[i] = st == HSP_OK ? hsp_box_hash(&id, &row->box, &row->box, dst) : 0;
    }
    if (st == HSP_OK && !own) {
        struct ask end = {0};
        st = comm_of(r)->ops->send(comm_of(r), r->server, CHANNEL_ASK, &end, sizeof end, err);
    }
    return st;
}

/* Sends the offer of this rank to all other members, and receives their offers. */
static enum hsp_status exchange_offers(struct restore *r, struct hsp_err *err)
{
    struct hsp_comm *comm = comm_of(r);
    uint32_t me = r->e->p->rank;
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && k < r->e->p->n_ranks; k++) {
        if (k != me) {
            st = comm->ops->send(comm, k, CHANNEL_HAVE, mine(r), sizeof *mine(r), err);
        }
    }
    for (uint32_t k = 0; st == HSP_OK && k < r->e->p->n_ranks; k++) {
        if (k != me) {
            struct hsp_ckpt_offer *o = &r->offers[k];
            st = comm->ops->recv(comm, k, CHANNEL_HAVE, o, sizeof *o, err);
            o->why[sizeof o->why - 1] = '\0';
        }
    }
    return st;
}

static enum hsp_status do_round(struct restore *r, struct hsp_err *err)
{
    uint32_t me = r->e->p->rank;
    enum hsp_status st = exchange_offers(r, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_offer_choose(r->offers, r->e->p->n_ranks, &r->wish, &r->server, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    const struct hsp_ckpt_offer chosen = r->offers[r->server];
    if (!hsp_ckpt_offer_done(mine(r), &chosen)) {
        st = fill_home(r, hsp_ckpt_offer_same(mine(r), &chosen), err);
        mine(r)->filled = st == HSP_OK;
        mine(r)->taken = chosen.content;
    }
    st = st == HSP_AGAIN ? HSP_OK : st;
    for (uint32_t k = 0; st == HSP_OK && me == r->server && k < r->e->p->n_ranks; k++) {
        if (k != me && hsp_ckpt_offer_asks(&r->offers[k], &chosen)) {
            st = serve(r, k, err);
        }
    }
    return st;
}

/* ---- the results ---- */

enum verdict { ALL_DONE, SOME_DAMAGED, WRONG_SUM };

/* Returns in *ret the sum of the hashes of the parts that this rank owns in the gather table. */
static enum hsp_status owned_sum(const struct restore *r, uint64_t *ret, struct hsp_err *err)
{
    const struct hsp_ex_epoch *e = r->e;
    const struct hsp_state_segment *s = hsp_epoch_home(e, r->version);
    *ret = 0;
    for (uint32_t i = 0; i < e->pkg.gather.n; i++) {
        const struct hsp_pkg_row *g = &e->pkg.gather.row[i];
        for (uint8_t k = 0; g->from == e->p->rank && k < e->pkg.n_kinds; k++) {
            uint32_t at = hsp_segment_find(s, g->param, e->pkg.kinds[k], &g->box);
            if (at == UINT32_MAX) {
                return hsp_err_set(err, HSP_EPROTO, 0, "a part of %s is not owned here",
                                   e->pkg.params[g->param].name);
            }
            const struct hsp_segment_row *row = hsp_segment_row_at(s, at);
            struct hsp_box_id id = part_id(e, g->param, e->pkg.kinds[k]);
            *ret += hsp_box_equal(&row->box, &g->box)
                        ? r->hash[at]
                        : hsp_box_hash(&id, &g->box, &row->box,
                                       (const uint8_t *)hsp_segment_area(s) + row->offset);
        }
    }
    return HSP_OK;
}

/* The message with the result of a rank, for rank 0. */
struct fared {
    uint64_t done, sum;
};

/* Sends the results of all ranks to rank 0, and the verdict of rank 0 to all ranks. */
static enum hsp_status agree(const struct restore *r, enum verdict *ret, struct hsp_err *err)
{
    struct hsp_comm *comm = comm_of(r);
    struct fared f = {.done = mine(r)->filled};
    enum hsp_status st = f.done != 0 ? owned_sum(r, &f.sum, err) : HSP_OK;
    uint8_t word = SOME_DAMAGED;
    if (st == HSP_OK && r->e->p->rank != 0) {
        st = comm->ops->send(comm, 0, CHANNEL_FARED, &f, sizeof f, err);
        st = st == HSP_OK ? comm->ops->recv(comm, 0, CHANNEL_FARED, &word, 1, err) : st;
        *ret = word <= WRONG_SUM ? (enum verdict)word : SOME_DAMAGED;
        return st;
    }
    for (uint32_t k = 1; st == HSP_OK && k < r->e->p->n_ranks; k++) {
        struct fared other;
        st = comm->ops->recv(comm, k, CHANNEL_FARED, &other, sizeof other, err);
        f.done = f.done != 0 && other.done != 0;
        f.sum += other.sum;
    }
    *ret = f.done == 0                             ? SOME_DAMAGED
           : f.sum != r->offers[r->server].content ? WRONG_SUM
                                                   : ALL_DONE;
    word = (uint8_t)*ret;
    for (uint32_t k = 1; st == HSP_OK && k < r->e->p->n_ranks; k++) {
        st = comm->ops->send(comm, k, CHANNEL_FARED, &word, 1, err);
    }
    return st;
}

/* Called on all members after WRONG_SUM (all parts had the right hashes, but the state differs from
 * the manifest): reads the complete checkpoint of this rank and compares the hashes of all
 * tensors. */
static enum hsp_status verify_mine(struct restore *r, struct hsp_err *err)
{
    struct hsp_err why = {0};
    if (r->verified) {
        return hsp_err_set(err, HSP_EDIGEST, 0,
                           "checkpoint %" PRIu64
                           " does not match its manifest, although all of its tensors do",
                           r->version);
    }
    r->verified = true;
    mine(r)->filled = 0;
    enum hsp_status st = r->c != NULL ? hsp_ckpt_verify(r->c, &why) : HSP_OK;
    if (st != HSP_OK) {
        give_up_mine(r, st, &why);
    }
    return HSP_OK;
}

static enum hsp_status restore_all(struct restore *r, struct hsp_err *err)
{
    enum verdict v = SOME_DAMAGED;
    enum hsp_status st = HSP_OK;
    while (st == HSP_OK && v != ALL_DONE) {
        st = do_round(r, err);
        if (st == HSP_OK) {
            st = agree(r, &v, err);
        }
        if (st == HSP_OK && v == WRONG_SUM) {
            st = verify_mine(r, err);
        }
    }
    return st;
}

enum hsp_status hsp_epoch_restore(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    struct hsp_state_segment *s = hsp_epoch_home_take(e, version);
    struct hsp_err why = {0};
    struct restore r = {.e = e,
                        .version = version,
                        .wish = {version, e->p->ckpt_term, e->p->ckpt_epoch, e->p->ckpt_content},
                        .offers = calloc(e->p->n_ranks, sizeof *r.offers),
                        .hash = calloc((size_t)hsp_segment_n(s) + 1, sizeof *r.hash)};
    enum hsp_status st = r.offers != NULL && r.hash != NULL
                             ? HSP_OK
                             : hsp_err_nomem(err, "the offers of a checkpoint");
    if (st == HSP_OK) {
        enum hsp_status opened = open_mine(&r, &why);
        if (opened != HSP_OK) {
            give_up_mine(&r, opened, &why);
        }
        st = restore_all(&r, err);
    }
    if (st == HSP_OK) {
        hsp_segment_seal_known(s, version, r.hash);
    }
    if (st == HSP_ENOENT) {
        e->refused = hsp_ckpt_offers_damaged(r.offers, e->p->n_ranks, &r.wish) ? HSP_CKPT_DAMAGED
                                                                               : HSP_CKPT_GONE;
    }
    (void)hsp_ckpt_close(r.c);
    free(r.offers);
    free(r.hash);
    return st;
}
