/* All ranks go through the table of rows (daemon/migrate/bsr.h), each a box that one rank sends to
 * another, once per kind of state, weights first. So the rows of all ranks have one global order. A
 * row is sent as two messages: its dense data, then the version and the content hash of the old
 * owner. A rank that forwards a row forwards both messages, so the rank that needs the row can
 * check the data. Data are sent from their place in the old segment and received at their place in
 * the new segment, if the box consists of equal runs of bytes at one distance there
 * (worker/comm/runs.h). Otherwise they are copied through a block of memory.
 *
 * The ranks cannot deadlock. Take the first row, in the global order, for which any rank waits. If
 * its receiver waits for the row, the sender waits for no earlier row, so it reaches the row and
 * sends it. If its sender waits for the row, the receiver waits for no earlier row, so it reaches
 * the row and has posted its receive. So that row completes. Receives are posted up to WINDOW rows
 * ahead; a sender waits when WINDOW sends are under way.
 */
#include "worker/executor/epoch_transfer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "worker/comm/mesh/mesh.h"
#include "worker/comm/mesh/mesh_links.h"
#include "worker/comm/mesh/mesh_start.h"
#include "worker/executor/epoch_damage.h"
#include "worker/executor/epoch_sources.h"
#include "worker/executor/epoch_verify.h"
#include "worker/executor/kill_point.h"
#include "worker/state/segment_dir.h"

#define CHANNEL_ROWS 32 /* of the move mesh; epoch_copies.c uses smaller numbers */
#define WINDOW       32 /* rows under way in each direction, to hide message latency */

struct tail {
    uint64_t version, hash;
};

/* Memory for a row that has no place in a segment from which it can be sent, or to which it can be
 * received, as one message. All sends of the row share the block. */
struct block {
    uint32_t uses;
    _Alignas(64) uint8_t data[];
};

/* The place of a row's data in the dense data of a box @held that contains the row. */
struct place {
    const struct hsp_box *held; /* borrowed */
    uint8_t *data;              /* data of all of @held */
    struct hsp_runs runs;
};

struct coming {
    uint32_t row;
    struct place at;
    struct block *block; /* NULL: @at is the row's place in the segment */
    struct tail tail;
    struct hsp_comm_req req[2];
};
struct going {
    struct block *block; /* NULL: the row is sent from its place in the segment */
    struct tail tail;
    struct hsp_comm_req req[2];
};

struct hsp_epoch_fetch {
    struct hsp_ex_epoch *e;
    struct hsp_comm *comm;
    struct hsp_epoch_sources *src;
    struct hsp_state_segment *to; /* new segment; NULL: this rank needs no rows */
    bool keep;                    /* a member whose segment is sealed: skip own rows */
    uint8_t kind;                 /* kind of the running pass */
    uint32_t *origin;             /* [rows] of a row to forward: the row that brought its data */
    uint32_t *left;               /* [rows] how often a received row is still to be forwarded */
    uint64_t *hash;               /* [rows] hashes that arrived */
    uint64_t *sum;                /* [rows of `to`] sum of the hashes of the parts put there */
    int64_t *full;                /* [rows of `to`] number of elements put there */
    struct block **kept;          /* [rows] data to be forwarded that have no place in `to` */
    struct coming in[WINDOW];
    struct going out[WINDOW];
    uint32_t first_in, n_in, first_out, n_out;
    uint32_t posted; /* rows to this rank with posted receives */
    uint64_t bytes, passed_on;
};

static struct block *block_new(size_t bytes)
{
    struct block *b = aligned_alloc(64, (sizeof *b + bytes + 63) / 64 * 64);
    if (b != NULL) {
        b->uses = 1;
    }
    return b;
}

static void block_drop(struct block *b)
{
    if (b != NULL && --b->uses == 0) {
        free(b);
    }
}

static const struct hsp_pkg_row *row_at(const struct hsp_epoch_fetch *f, uint32_t i)
{
    return &f->e->pkg.transfer.row[i];
}

/* Finds the place of row @r in @data, the dense data of box @held. Returns false if the row cannot
 * be sent from there as one message. */
static bool place_in(const struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r,
                     const struct hsp_box *held, uint8_t *data, struct place *ret)
{
    ret->held = held;
    ret->data = data;
    return hsp_region_runs(hsp_dtype_size(f->e->pkg.dtype), &r->box, held, data, &ret->runs);
}

/* Makes a dense block for @r. Returns NULL if memory is lacking. */
static struct block *place_new(const struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r,
                               struct place *ret)
{
    struct block *b = block_new(hsp_epoch_kind_bytes(f->e, r));
    if (b != NULL) {
        (void)place_in(f, r, &r->box, b->data, ret); /* dense */
    }
    return b;
}

static uint64_t hash_of(const struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r,
                        const struct place *at)
{
    const struct hsp_box_id id = hsp_epoch_box_id(f->e, r->param, f->kind);
    return hsp_box_hash(&id, &r->box, at->held, at->data);
}

/* Finds the row of the new segment that has all of @r, or UINT32_MAX. */
static uint32_t home_row(const struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r)
{
    return f->to != NULL ? hsp_segment_find(f->to, r->param, f->e->pkg.kinds[f->kind], &r->box)
                         : UINT32_MAX;
}

/* Finds the place of row @r in the new segment. Returns false if no row of the segment has all of
 * @r, or if @r cannot be received there as one message. */
static bool place_at_home(const struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r,
                          struct place *ret)
{
    uint32_t i = home_row(f, r);
    if (i == UINT32_MAX) {
        return false;
    }
    const struct hsp_segment_row *s = hsp_segment_row_at(f->to, i);
    return place_in(f, r, &s->box, (uint8_t *)hsp_segment_area(f->to) + s->offset, ret);
}

/* Adds @hash to the sum of the segment's row that has all of @r, whose data are in their place now.
 * Does nothing if there is no such row. */
static void note_hash(struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r, uint64_t hash)
{
    uint32_t i = home_row(f, r);
    if (i != UINT32_MAX) {
        f->sum[i] += hash;
        f->full[i] += hsp_box_count(&r->box);
    }
}

/* Copies box @part from @data, the dense data of box @held, to the rows of the new segment that
 * overlap it. Adds the hash of each copied box to the sum of its row, from which the row's seal is
 * made. @hashed: the caller adds the hash of the complete part itself (note_hash), so this function
 * adds nothing. Returns the sum of the hashes that it added. */
static uint64_t put(struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r,
                    const struct hsp_box *part, const struct hsp_box *held, const uint8_t *data,
                    bool hashed)
{
    uint64_t sum = 0;
    const struct hsp_box_id id = hsp_epoch_box_id(f->e, r->param, f->kind);
    for (uint32_t i = 0; f->to != NULL && i < hsp_segment_n(f->to); i++) {
        const struct hsp_segment_row *s = hsp_segment_row_at(f->to, i);
        struct hsp_box cut;
        if (s->tensor == r->param && s->kind == f->e->pkg.kinds[f->kind] &&
            hsp_box_cut(&s->box, part, &cut)) {
            hsp_region_copy(hsp_dtype_size(s->dtype), &cut, held, data, &s->box,
                            (uint8_t *)hsp_segment_area(f->to) + s->offset);
            uint64_t hash = hashed ? 0 : hsp_box_hash(&id, &cut, held, data);
            sum += hash;
            f->sum[i] += hash;
            f->full[i] += hashed ? 0 : hsp_box_count(&cut);
        }
    }
    return sum;
}

/* ---- the old segments ---- */

static enum hsp_status locate(const struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r,
                              struct hsp_shard_pieces *ret, struct hsp_err *err)
{
    const struct hsp_ex_epoch *e = f->e;
    struct hsp_boxes missing = {0};
    enum hsp_status st = hsp_shards_locate(&f->src->shards, r->param, e->pkg.kinds[f->kind],
                                           &r->box, ret, &missing, err);
    if (st == HSP_OK && missing.n > 0) {
        st = hsp_err_set(err, HSP_ENOENT, 0, "version %" PRIu64 " of %s is not here as promised",
                         f->src->shards.version, e->pkg.params[r->param].name);
    }
    for (size_t i = 0; st == HSP_OK && i < ret->n; i++) {
        const struct hsp_segment_row *s = hsp_segment_row_at(ret->p[i].seg, ret->p[i].row);
        if (s->dtype != e->pkg.dtype) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "%s is %s here, not %s",
                             e->pkg.params[r->param].name, hsp_dtype_name(s->dtype),
                             hsp_dtype_name((enum hsp_dtype)e->pkg.dtype));
        }
    }
    hsp_boxes_fini(&missing);
    return st;
}

static uint8_t *piece_data(const struct hsp_shard_piece *p)
{
    return (uint8_t *)hsp_segment_area(p->seg) + hsp_segment_row_at(p->seg, p->row)->offset;
}

/* Reports damage of the segment of @p, which happened after its seal or verification, and deletes
 * the segment. */
static enum hsp_status drop_row(struct hsp_epoch_fetch *f, const struct hsp_shard_piece *p,
                                struct hsp_err *err)
{
    hsp_epoch_tell_damaged_row(f->e, p->seg, p->row, f->src->shards.version, true);
    enum hsp_status st = hsp_segment_remove(f->e->env->state_dir, hsp_segment_key_of(p->seg), err);
    return st == HSP_OK
               ? hsp_err_set(err, HSP_EDIGEST, 0, "version %" PRIu64 " of %s is damaged",
                             f->src->shards.version,
                             f->e->pkg.params[hsp_segment_row_at(p->seg, p->row)->tensor].name)
               : st;
}

/* Copies a row that this rank needs from its own old segments to the new segment, which has all of
 * the row. A row of an old segment that is copied completely is compared with its seal here; rows
 * of which only parts are copied were verified before (hsp_epoch_verify_cuts). */
static enum hsp_status take_own(struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r,
                                struct hsp_err *err)
{
    struct hsp_shard_pieces have = {0};
    enum hsp_status st = locate(f, r, &have, err);
    for (size_t i = 0; st == HSP_OK && i < have.n; i++) {
        const struct hsp_shard_piece *p = &have.p[i];
        const struct hsp_segment_row *s = hsp_segment_row_at(p->seg, p->row);
        uint64_t hash = put(f, r, &p->box, &s->box, piece_data(p), false);
        if (hsp_box_equal(&p->box, &s->box) && hash != hsp_segment_row_hash(p->seg, p->row)) {
            st = drop_row(f, p, err);
        }
    }
    free(have.p);
    return st;
}

/* Finds the data of a row that this rank sends from its own segments: in a segment, or copied to a
 * block. *ret_hash: true if the row is a complete row of a segment, whose hash in the seal is put
 * in @g; false if the hash has to be computed. */
static enum hsp_status find_own(const struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r,
                                struct going *g, struct place *ret, bool *ret_hash,
                                struct hsp_err *err)
{
    struct hsp_shard_pieces have = {0};
    size_t elem = hsp_dtype_size(f->e->pkg.dtype);
    enum hsp_status st = locate(f, r, &have, err);
    bool placed = false;
    *ret_hash = false;
    if (st == HSP_OK && have.n == 1) {
        const struct hsp_shard_piece *p = &have.p[0];
        const struct hsp_segment_row *s = hsp_segment_row_at(p->seg, p->row);
        placed = place_in(f, r, &s->box, piece_data(p), ret);
        *ret_hash = hsp_box_equal(&r->box, &s->box);
        g->tail.hash = *ret_hash ? hsp_segment_row_hash(p->seg, p->row) : 0;
    }
    if (st == HSP_OK && !placed) {
        g->block = place_new(f, r, ret);
        st = g->block != NULL ? HSP_OK : hsp_err_nomem(err, "a transfer");
        for (size_t i = 0; st == HSP_OK && i < have.n; i++) {
            const struct hsp_shard_piece *p = &have.p[i];
            hsp_region_copy(elem, &p->box, &hsp_segment_row_at(p->seg, p->row)->box, piece_data(p),
                            &r->box, ret->data);
        }
    }
    free(have.p);
    return st;
}

/* ---- sending ---- */

/* Waits for both messages of a row, also if the first message has failed. */
static enum hsp_status await(const struct hsp_epoch_fetch *f, struct hsp_comm_req *req,
                             struct hsp_err *err)
{
    struct hsp_err later = {0};
    enum hsp_status a = f->comm->ops->wait(f->comm, &req[0], err);
    enum hsp_status b = f->comm->ops->wait(f->comm, &req[1], a == HSP_OK ? err : &later);
    return a != HSP_OK ? a : b;
}

static enum hsp_status finish_oldest(struct hsp_epoch_fetch *f, struct hsp_err *err)
{
    struct going *g = &f->out[f->first_out];
    enum hsp_status st = await(f, g->req, err);
    block_drop(g->block);
    f->first_out = (f->first_out + 1) % WINDOW;
    f->n_out--;
    return st;
}

/* Finds the data of row @row, which this rank has received by an earlier row and forwards. */
static void find_passed(struct hsp_epoch_fetch *f, uint32_t row, struct going *g, struct place *ret)
{
    uint32_t from = f->origin[row];
    const struct hsp_pkg_row *r = row_at(f, row);
    g->tail.hash = f->hash[from];
    if (f->kept[from] == NULL) {
        (void)place_at_home(f, r, ret); /* the row arrived in its place */
        return;
    }
    g->block = f->kept[from];
    g->block->uses++;
    (void)place_in(f, r, &r->box, g->block->data, ret); /* dense */
    if (--f->left[from] == 0) {
        block_drop(f->kept[from]);
        f->kept[from] = NULL;
    }
}

static enum hsp_status send_row(struct hsp_epoch_fetch *f, uint32_t row, struct hsp_err *err)
{
    const struct hsp_pkg_row *r = row_at(f, row);
    struct place at = {0};
    bool known = r->passed_on;
    enum hsp_status st = f->n_out == WINDOW ? finish_oldest(f, err) : HSP_OK;
    if (st != HSP_OK) {
        return st;
    }
    struct going *g = &f->out[(f->first_out + f->n_out) % WINDOW];
    *g = (struct going){.tail = {.version = f->src->shards.version}};
    f->n_out++; /* from now on hsp_epoch_fetch_end waits for the send */
    if (r->passed_on) {
        f->passed_on += hsp_epoch_kind_bytes(f->e, r);
        find_passed(f, row, g, &at);
    } else {
        st = find_own(f, r, g, &at, &known, err);
    }
    if (st == HSP_OK) {
        st = f->comm->ops->isend(f->comm, r->to, CHANNEL_ROWS, at.runs, &g->req[0], err);
    }
    if (st == HSP_OK && !known) { /* meanwhile the data are sent, and they are in the cache */
        g->tail.hash = hash_of(f, r, &at);
    }
    const struct hsp_runs tail = hsp_run(&g->tail, sizeof g->tail);
    return st == HSP_OK ? f->comm->ops->isend(f->comm, r->to, CHANNEL_ROWS, tail, &g->req[1], err)
                        : st;
}

/* ---- receiving ---- */

static enum hsp_status post(struct hsp_epoch_fetch *f, uint32_t row, struct hsp_err *err)
{
    const struct hsp_pkg_row *r = row_at(f, row);
    struct coming *c = &f->in[(f->first_in + f->n_in) % WINDOW];
    *c = (struct coming){.row = row};
    if (!place_at_home(f, r, &c->at)) {
        c->block = place_new(f, r, &c->at);
        if (c->block == NULL) {
            return hsp_err_nomem(err, "a transfer");
        }
    }
    f->n_in++;
    const struct hsp_runs tail = hsp_run(&c->tail, sizeof c->tail);
    enum hsp_status st =
        f->comm->ops->irecv(f->comm, r->from, CHANNEL_ROWS, c->at.runs, &c->req[0], err);
    return st == HSP_OK ? f->comm->ops->irecv(f->comm, r->from, CHANNEL_ROWS, tail, &c->req[1], err)
                        : st;
}

/* Posts receives of the next rows, up to WINDOW. */
static enum hsp_status post_more(struct hsp_epoch_fetch *f, struct hsp_err *err)
{
    const struct hsp_pkg_table *t = &f->e->pkg.transfer;
    enum hsp_status st = HSP_OK;
    while (st == HSP_OK && f->posted < t->n && f->n_in < WINDOW) {
        const struct hsp_pkg_row *r = &t->row[f->posted];
        if (r->to == f->e->p->rank && r->from != r->to) {
            st = post(f, f->posted, err);
        }
        f->posted++;
    }
    return st;
}

/* Checks that the data that have arrived are row @r of the wanted version, undamaged. */
static enum hsp_status check(const struct hsp_epoch_fetch *f, const struct hsp_pkg_row *r,
                             const struct coming *c, struct hsp_err *err)
{
    const struct hsp_ex_epoch *e = f->e;
    const char *name = e->pkg.params[r->param].name, *peer = e->pkg.peers[r->from].name;
    if (c->tail.version != f->src->shards.version) {
        return hsp_err_set(err, HSP_ESTALE, 0, "%s from %s is of version %" PRIu64 ", not %" PRIu64,
                           name, peer, c->tail.version, f->src->shards.version);
    }
    if (c->tail.hash != hash_of(f, r, &c->at)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "%s from %s is damaged", name, peer);
    }
    return HSP_OK;
}

/* Completes the oldest receive, which is that of @row. */
static enum hsp_status receive_row(struct hsp_epoch_fetch *f, uint32_t row, struct hsp_err *err)
{
    struct coming *c = &f->in[f->first_in];
    const struct hsp_pkg_row *r = row_at(f, row);
    enum hsp_status st = await(f, c->req, err);
    if (st == HSP_OK) {
        st = check(f, r, c, err);
    }
    if (st == HSP_OK) {
        f->bytes += hsp_epoch_kind_bytes(f->e, r) + sizeof c->tail;
        f->hash[row] = c->tail.hash;
        bool whole = home_row(f, r) != UINT32_MAX;
        if (c->block != NULL) {
            put(f, r, &r->box, &r->box, c->block->data, whole);
        }
        note_hash(f, r, c->tail.hash);
        if (c->block != NULL && f->left[row] > 0) {
            f->kept[row] = c->block;
            c->block = NULL;
        }
    }
    block_drop(c->block);
    f->first_in = (f->first_in + 1) % WINDOW;
    f->n_in--;
    return st;
}

/* ---- the complete transfer ---- */

struct arrival {
    const struct hsp_pkg_row *r;
    uint32_t row;
};

static int compare(const struct hsp_pkg_row *a, const struct hsp_pkg_row *b)
{
    if (a->param != b->param) {
        return a->param < b->param ? -1 : 1;
    }
    for (uint8_t d = 0; d < a->box.rank; d++) {
        if (a->box.lo[d] != b->box.lo[d]) {
            return a->box.lo[d] < b->box.lo[d] ? -1 : 1;
        }
        if (a->box.hi[d] != b->box.hi[d]) {
            return a->box.hi[d] < b->box.hi[d] ? -1 : 1;
        }
    }
    return 0;
}

static int by_box(const void *a, const void *b)
{
    return compare(((const struct arrival *)a)->r, ((const struct arrival *)b)->r);
}

/* Finds for each row that this rank forwards the earlier row that brings the same box to this
 * rank. */
static enum hsp_status find_origins(struct hsp_epoch_fetch *f, struct hsp_err *err)
{
    const struct hsp_pkg_table *t = &f->e->pkg.transfer;
    uint32_t me = f->e->p->rank, n = 0;
    struct arrival *all = calloc((size_t)t->n + 1, sizeof *all);
    enum hsp_status st = all != NULL ? HSP_OK : hsp_err_nomem(err, "a transfer");
    for (uint32_t i = 0; st == HSP_OK && i < t->n; i++) {
        if (t->row[i].to == me && t->row[i].from != me) {
            all[n++] = (struct arrival){&t->row[i], i};
        }
    }
    if (n > 1) {
        qsort(all, n, sizeof *all, by_box);
    }
    for (uint32_t i = 0; st == HSP_OK && i < t->n; i++) {
        if (t->row[i].from != me || !t->row[i].passed_on) {
            continue;
        }
        const struct arrival key = {&t->row[i], 0};
        const struct arrival *a = n > 0 ? bsearch(&key, all, n, sizeof *all, by_box) : NULL;
        if (a == NULL || a->row > i) {
            st = hsp_err_set(err, HSP_EPROTO, 0, "%s is to be passed on and does not come",
                             f->e->pkg.params[t->row[i].param].name);
        } else {
            f->origin[i] = a->row;
        }
    }
    free(all);
    return st;
}

/* Goes once through the table, for the present kind. */
static enum hsp_status run_kind(struct hsp_epoch_fetch *f, struct hsp_err *err)
{
    const struct hsp_pkg_table *t = &f->e->pkg.transfer;
    uint32_t me = f->e->p->rank;
    enum hsp_status st = HSP_OK;
    f->posted = 0;
    memset(f->left, 0, t->n * sizeof *f->left);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct hsp_pkg_row *r = &t->row[i];
        if (r->from == me && r->passed_on) {
            f->left[f->origin[i]]++;
        }
    }
    for (uint32_t i = 0; st == HSP_OK && i < t->n; i++) {
        const struct hsp_pkg_row *r = &t->row[i];
        st = post_more(f, err);
        if (st == HSP_OK && r->from == me) {
            st = r->to != me ? send_row(f, i, err) : f->keep ? HSP_OK : take_own(f, r, err);
        } else if (st == HSP_OK && r->to == me) {
            st = receive_row(f, i, err);
        }
    }
    return st;
}

static enum hsp_status fetch_new(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    struct hsp_epoch_fetch *f = e->fetch = calloc(1, sizeof *e->fetch);
    size_t n = (size_t)e->pkg.transfer.n + 1;
    if (f == NULL) {
        return hsp_err_nomem(err, "a transfer");
    }
    *f = (struct hsp_epoch_fetch){.e = e,
                                  .comm = e->mesh[HSP_MESH_MOVE],
                                  .origin = calloc(n, sizeof *f->origin),
                                  .left = calloc(n, sizeof *f->left),
                                  .hash = calloc(n, sizeof *f->hash),
                                  .kept = calloc(n, sizeof(struct block *)),
                                  .src = e->from != NULL ? e->from : calloc(1, sizeof *f->src)};
    bool open = e->from != NULL; /* open means that its state is verified, too */
    e->from = NULL;
    if (f->src == NULL || f->origin == NULL || f->left == NULL || f->hash == NULL ||
        f->kept == NULL) {
        return hsp_err_nomem(err, "a transfer");
    }
    enum hsp_status st =
        open ? HSP_OK : hsp_epoch_sources_open(e, e->p->from_plan, version, f->src, err);
    return st == HSP_OK ? find_origins(f, err) : st;
}

static enum hsp_status make_sums(struct hsp_epoch_fetch *f, struct hsp_err *err)
{
    size_t n = (size_t)hsp_segment_n(f->to) + 1;
    f->sum = calloc(n, sizeof *f->sum);
    f->full = calloc(n, sizeof *f->full);
    return f->sum != NULL && f->full != NULL ? HSP_OK : hsp_err_nomem(err, "a transfer");
}

bool hsp_epoch_fetch_beside(const struct hsp_ex_epoch *e)
{
    struct hsp_mesh_links n = hsp_mesh_count_links(e->mesh[HSP_MESH_MOVE]);
    return sysconf(_SC_NPROCESSORS_ONLN) >= 2 * (1 + (long)n.shm + (long)n.local);
}

void hsp_epoch_fetch_end(struct hsp_ex_epoch *e)
{
    struct hsp_epoch_fetch *f = e->fetch;
    struct hsp_err ignored;
    e->fetch = NULL;
    if (f == NULL) {
        return;
    }
    while (f->n_out >
           0) { /* after a failed transfer the mesh is aborted, so these calls return at once */
        (void)finish_oldest(f, &ignored);
    }
    for (; f->n_in > 0; f->n_in--, f->first_in = (f->first_in + 1) % WINDOW) {
        (void)await(f, f->in[f->first_in].req, &ignored);
        block_drop(f->in[f->first_in].block);
    }
    for (uint32_t i = 0; f->kept != NULL && i < e->pkg.transfer.n; i++) {
        block_drop(f->kept[i]);
    }
    if (f->src != NULL) {
        hsp_reaper_give(e->env->reaper, &f->src->served, hsp_epoch_sources_free, f->src);
    }
    free(f->sum);
    free(f->full);
    free(f->origin);
    free(f->left);
    free(f->hash);
    free(f->kept);
    free(f);
}

/* Seals the segment. If the parts put there fill every row, the sums of their checked hashes are
 * the hashes of the rows; else all rows are hashed again. */
static void seal(struct hsp_epoch_fetch *f, uint64_t version)
{
    bool all = true;
    for (uint32_t i = 0; all && i < hsp_segment_n(f->to); i++) {
        all = f->full[i] == hsp_box_count(&hsp_segment_row_at(f->to, i)->box);
    }
    if (all) {
        hsp_segment_seal_known(f->to, version, f->sum);
    } else {
        hsp_segment_seal(f->to, version);
    }
}

/* Transfers kinds @k to @end - 1, one after the other. */
static enum hsp_status run_kinds(struct hsp_epoch_fetch *f, uint8_t k, uint8_t end,
                                 struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (; st == HSP_OK && k < end; k++) {
        f->kind = k;
        st =
            f->e->p->mode == HSP_MODE_SWITCH ? hsp_epoch_verify_cuts(f->e, f->src, k, err) : HSP_OK;
        st = st == HSP_OK ? run_kind(f, err) : st;
    }
    return st;
}

/* Tells the mesh (@on) that the thread that fetches waits again soon after each operation. */
static void attend(const struct hsp_epoch_fetch *f, bool on)
{
    if (f->comm->ops->attend != NULL) {
        f->comm->ops->attend(f->comm, on);
    }
}

/* Transfers the other kinds, and waits until all rows are sent, also those of the weights. */
static enum hsp_status run_rest(struct hsp_epoch_fetch *f, struct hsp_err *err)
{
    enum hsp_status st = run_kinds(f, 1, f->e->pkg.n_kinds, err);
    while (st == HSP_OK && f->n_out > 0) {
        st = finish_oldest(f, err);
    }
    if (st == HSP_OK) {
        attend(f, false);
    }
    return st;
}

enum hsp_status hsp_epoch_fetch_weights(struct hsp_ex_epoch *e, uint64_t version,
                                        struct hsp_err *err)
{
    struct hsp_state_segment *to = hsp_epoch_home_take(e, version); /* NULL: no member */
    bool there = to != NULL && hsp_segment_version(to) == version;
    hsp_kill_point(e, HSP_KILL_FETCH_BEFORE, version);
    enum hsp_status st = fetch_new(e, version, err);
    struct hsp_epoch_fetch *f = e->fetch;
    if (st == HSP_OK) {
        f->to = there ? NULL : to;
        f->keep = there;
        st = f->to != NULL ? make_sums(f, err) : HSP_OK;
    }
    if (st == HSP_OK && f->to != NULL) {
        hsp_segment_unseal(to);
    }
    if (st == HSP_OK) {
        attend(f, true);
        st = run_kinds(f, 0, 1, err);
    }
    return st;
}

enum hsp_status hsp_epoch_fetch_rest(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_fetched *ret, struct hsp_err *err)
{
    struct hsp_epoch_fetch *f = e->fetch;
    int64_t begin = hsp_clock_ns();
    hsp_kill_point(e, HSP_KILL_FETCH_IN, version);
    enum hsp_status st = run_rest(f, err);
    int64_t end = hsp_clock_ns();
    if (st == HSP_OK && f->to != NULL) {
        seal(f, version);
    }
    hsp_kill_point(e, HSP_KILL_FETCH_AFTER, version);
    ret->optimizer_ms = (double)(end - begin) * 1e-6;
    ret->seal_ms = (double)(hsp_clock_ns() - end) * 1e-6;
    if (st == HSP_OK) {
        ret->bytes = f->bytes;
        ret->passed_on = f->passed_on;
        hsp_epoch_fetch_end(e);
    }
    return st;
}
