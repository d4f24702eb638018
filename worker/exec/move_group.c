#include "worker/exec/move_group.h"

#include <stdlib.h>
#include <string.h>

#include "proto/layout/box.h"
#include "worker/comm/collective.h"
#include "worker/comm/reduce.h"
#include "worker/exec/move_cells.h"
#include "worker/exec/moves_impl.h"
#include "worker/exec/staging.h"

/* Finds this rank in the group of the move. Returns false if it is not a member. */
static bool find_me(const struct hsp_move_run *r, struct hsp_group *ret)
{
    *ret = (struct hsp_group){.n = r->m->n_ranks, .ranks = r->m->ranks};
    while (ret->me < ret->n && ret->ranks[ret->me] != r->e->b->rank) {
        ret->me++;
    }
    return ret->me < ret->n; /* hsp_program_check made sure of it */
}

static size_t move_bytes(const struct hsp_move_run *r)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        struct hsp_box cell = hsp_move_cell(r, &r->m->cells[k]);
        bytes += hsp_cell_bytes(&cell, r->out.dtype);
    }
    return bytes;
}

/* Returns the bytes of all @n moves of a bucket. */
static size_t all_bytes(const struct hsp_move_run *r, uint32_t n)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < n; k++) {
        bytes += move_bytes(&r[k]);
    }
    return bytes;
}

/* If the result is contiguous in the output, *ret is its address, and this rank's addend is written
 * there. If not, *ret is NULL: the move must be packed. */
static enum hsp_status reduce_in_place(const struct hsp_move_run *r, uint8_t **ret,
                                       struct hsp_err *err)
{
    *ret = NULL;
    if (r->m->n_cells != 1) {
        return HSP_OK;
    }
    struct hsp_box cell = hsp_move_cell(r, &r->m->cells[0]);
    *ret = hsp_cell_run(&r->out, &cell);
    return *ret && r->m->src != HSP_MOVE_FROM_OUT ? hsp_move_fetch(r, &r->out, &cell, err) : HSP_OK;
}

/* Packs the moves of a bucket contiguously at @buf, or unpacks them. */
static enum hsp_status pack_bucket(const struct hsp_move_run *r, uint32_t n, uint8_t *buf,
                                   bool packing, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        st = packing ? hsp_move_pack_all(&r[k], buf, err) : hsp_move_unpack_all(&r[k], buf, err);
        buf += move_bytes(&r[k]);
    }
    return st;
}

enum hsp_status hsp_move_all_reduce(const struct hsp_move_run *r, uint32_t n, struct hsp_err *err)
{
    struct hsp_group g;
    uint8_t *buf = NULL, *wire = NULL;
    size_t bytes = all_bytes(r, n);
    if (!find_me(r, &g) || bytes == 0) {
        return HSP_OK;
    }
    r->e->comm_bytes += bytes;
    enum hsp_status st = n == 1 ? reduce_in_place(r, &buf, err) : HSP_OK;
    bool packed = !buf;
    if (st == HSP_OK && packed) {
        st = hsp_pack_get(r->e, &r->e->send, bytes, (void **)&buf, err);
        st = st == HSP_OK ? pack_bucket(r, n, buf, true, err) : st;
    }
    if (st == HSP_OK) {
        st = hsp_staging_of(r, &r->e->send_staging, buf, bytes, &wire, err);
    }
    if (st == HSP_OK) {
        st = hsp_staging_write(r, wire, buf, bytes, err);
    }
    if (st == HSP_OK) {
        st = hsp_staging_ready(r, err);
    }
    if (st == HSP_OK) {
        st = hsp_comm_all_reduce(r->comm, &g, r->m->channel, r->out.dtype, hsp_move_how(r), wire,
                                 bytes / r->elem, err);
    }
    if (st == HSP_OK) {
        st = hsp_staging_read(r, buf, wire, bytes, err);
    }
    return st == HSP_OK && packed ? pack_bucket(r, n, buf, false, err) : st;
}

/* Computes for each root the elements of its part, and the byte offset of this part in the packed
 * memory of a bucket. Within the part of a root its cells follow each other move by move. */
static void root_counts(const struct hsp_move_run *r, uint32_t n, size_t *count, size_t *begin)
{
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t k = 0; k < r[j].m->n_cells; k++) {
            struct hsp_box cell = hsp_move_cell(&r[j], &r[j].m->cells[k]);
            count[r[j].m->cells[k].root] += (size_t)hsp_box_count(&cell);
        }
    }
    for (uint32_t i = 1; i < r->m->n_ranks; i++) {
        begin[i] = begin[i - 1] + count[i - 1] * r->elem;
    }
}

/* Packs the cells of @root (UINT32_MAX: of all roots) from the tensors to the packed memory at
 * @buf, or unpacks them. @at[i]: byte offset of the next cell of root i; advanced by the bytes of
 * each cell. */
static enum hsp_status root_cells(const struct hsp_move_run *r, uint32_t n, uint8_t *buf,
                                  size_t *at, uint32_t root, bool packing, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (const struct hsp_move_run *end = r + n; r < end; r++) {
        for (uint32_t k = 0; k < r->m->n_cells && st == HSP_OK; k++) {
            uint32_t owner = r->m->cells[k].root;
            if (root != UINT32_MAX && owner != root) {
                continue;
            }
            struct hsp_box cell = hsp_move_cell(r, &r->m->cells[k]);
            st = packing ? hsp_move_pack(r, &cell, buf, &at[owner], err)
                         : hsp_move_unpack(r, &cell, buf, &at[owner], err);
        }
    }
    return st;
}

/* Runs a reduce-scatter of the packed data at @in, and puts this rank's part of the sum at @out. */
static enum hsp_status scatter_sum(const struct hsp_move_run *r, const struct hsp_group *g,
                                   uint8_t *in, size_t in_bytes, const size_t *count, uint8_t *out,
                                   size_t out_bytes, struct hsp_err *err)
{
    uint8_t *from = NULL, *to = NULL;
    enum hsp_status st = hsp_staging_of(r, &r->e->send_staging, in, in_bytes, &from, err);
    if (st == HSP_OK) {
        st = hsp_staging_of(r, &r->e->recv_staging, out, out_bytes, &to, err);
    }
    if (st == HSP_OK) {
        st = hsp_staging_write(r, from, in, in_bytes, err);
    }
    if (st == HSP_OK) {
        st = hsp_staging_ready(r, err);
    }
    if (st == HSP_OK) {
        st = hsp_comm_reduce_scatter(r->comm, g, r->m->channel, r->out.dtype, hsp_move_how(r), from,
                                     count, to, err);
    }
    return st == HSP_OK ? hsp_staging_read(r, out, to, out_bytes, err) : st;
}

static enum hsp_status reduce_scatter(const struct hsp_move_run *r, uint32_t n,
                                      const struct hsp_group *g, size_t *count, size_t *at,
                                      struct hsp_err *err)
{
    size_t bytes = all_bytes(r, n), mine = count[g->me] * r->elem;
    uint8_t *in, *out;
    enum hsp_status st = hsp_pack_get(r->e, &r->e->send, bytes, (void **)&in, err);
    if (st == HSP_OK) {
        st = hsp_pack_get(r->e, &r->e->recv, mine, (void **)&out, err);
    }
    if (st == HSP_OK) {
        st = root_cells(r, n, in, at, UINT32_MAX, true, err);
    }
    if (st == HSP_OK) {
        st = scatter_sum(r, g, in, bytes, count, out, mine, err);
    }
    at[g->me] = 0;
    return st == HSP_OK ? root_cells(r, n, out, at, g->me, false, err) : st;
}

/* Returns the address of the output if the gathered cells lie there contiguously in the order of
 * their roots, so that the transport can write the output itself. Returns NULL if the cells must be
 * packed and unpacked. */
static uint8_t *gather_in_place(const struct hsp_move_run *r)
{
    uint8_t *base = NULL, *next = NULL;
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        struct hsp_box cell = hsp_move_cell(r, &r->m->cells[k]);
        if (hsp_box_empty(&cell)) {
            continue;
        }
        uint8_t *run = hsp_cell_run(&r->out, &cell);
        if (!run || (next && run != next) ||
            (k > 0 && r->m->cells[k].root < r->m->cells[k - 1].root)) {
            return NULL;
        }
        base = base ? base : run;
        next = run + hsp_cell_bytes(&cell, r->out.dtype);
    }
    return base;
}

/* Gathers the parts of all roots at @buf, @bytes in all. This rank's part is there already. */
static enum hsp_status gather_parts(const struct hsp_move_run *r, const struct hsp_group *g,
                                    const size_t *count, const size_t *begin, uint8_t *buf,
                                    size_t bytes, struct hsp_err *err)
{
    uint8_t *wire = NULL;
    size_t mine = begin[g->me];
    enum hsp_status st = hsp_staging_of(r, &r->e->recv_staging, buf, bytes, &wire, err);
    if (st == HSP_OK) {
        st = hsp_staging_write(r, wire + mine, buf + mine, count[g->me] * r->elem, err);
    }
    if (st == HSP_OK) {
        st = hsp_staging_ready(r, err);
    }
    if (st == HSP_OK) {
        st = hsp_comm_all_gather(r->comm, g, r->m->channel, r->out.dtype, wire + mine, count, wire,
                                 err);
    }
    return st == HSP_OK ? hsp_staging_read(r, buf, wire, bytes, err) : st;
}

static enum hsp_status all_gather(const struct hsp_move_run *r, uint32_t n,
                                  const struct hsp_group *g, size_t *count, size_t *begin,
                                  size_t *at, struct hsp_err *err)
{
    size_t bytes = all_bytes(r, n);
    uint8_t *buf = n == 1 ? gather_in_place(r) : NULL;
    bool in_place = buf != NULL;
    enum hsp_status st = HSP_OK;
    if (!in_place) {
        st = hsp_pack_get(r->e, &r->e->recv, bytes, (void **)&buf, err);
    }
    if (st == HSP_OK && (!in_place || r->m->src != HSP_MOVE_FROM_OUT)) {
        st = root_cells(r, n, buf, at, g->me, true, err);
    }
    if (st == HSP_OK) {
        st = gather_parts(r, g, count, begin, buf, bytes, err);
    }
    if (st == HSP_OK && !in_place) {
        memcpy(at, begin, r->m->n_ranks * sizeof(*at));
        st = root_cells(r, n, buf, at, UINT32_MAX, false, err);
    }
    return st;
}

enum hsp_status hsp_move_rooted(const struct hsp_move_run *r, uint32_t n, struct hsp_err *err)
{
    struct hsp_group g;
    size_t bytes = all_bytes(r, n), ranks = r->m->n_ranks;
    if (!find_me(r, &g) || bytes == 0) {
        return HSP_OK;
    }
    size_t *count = calloc(3 * ranks, sizeof(*count));
    if (!count) {
        return hsp_move_no_memory(err, 3 * ranks * sizeof(*count));
    }
    size_t *begin = count + ranks, *at = begin + ranks;
    root_counts(r, n, count, begin);
    memcpy(at, begin, ranks * sizeof(*at));
    r->e->comm_bytes += bytes;
    enum hsp_status st = r->m->kind == HSP_MOVE_REDUCE_SCATTER
                             ? reduce_scatter(r, n, &g, count, at, err)
                             : all_gather(r, n, &g, count, begin, at, err);
    free(count);
    return st;
}

/* ---- sums that are handed on ---- */

static enum hsp_status receive_sum(const struct hsp_move_run *r, uint32_t root, size_t bytes,
                                   struct hsp_err *err)
{
    struct hsp_comm *c = r->comm;
    struct hsp_comm_req req;
    uint8_t *buf, *wire = NULL;
    enum hsp_status st = hsp_pack_get(r->e, &r->e->recv, bytes, (void **)&buf, err);
    if (st == HSP_OK) {
        st = hsp_staging_of(r, &r->e->recv_staging, buf, bytes, &wire, err);
    }
    if (st == HSP_OK) {
        st = c->ops->irecv(c, root, r->m->channel, hsp_run(wire, bytes), &req, err);
    }
    if (st == HSP_OK) {
        st = c->ops->wait(c, &req, err);
    }
    if (st == HSP_OK) {
        st = hsp_staging_read(r, buf, wire, bytes, err);
    }
    return st == HSP_OK ? hsp_move_unpack_all(r, buf, err) : st;
}

/* Sends the sum at @buf to the peer. */
static enum hsp_status send_sum(const struct hsp_move_run *r, uint32_t peer, uint8_t *buf,
                                size_t bytes, struct hsp_err *err)
{
    /* the reduce-scatter has just left the sum in this staging copy */
    void *wire = r->staged ? r->e->recv_staging.data : buf;
    r->e->comm_bytes += bytes;
    return r->comm->ops->send(r->comm, peer, r->m->channel, wire, bytes, err);
}

/* Runs a reduce-scatter among all ranks but the peer, in which the root gets all of the sum. The
 * root then sends the sum to the peer. */
static enum hsp_status add_and_send(const struct hsp_move_run *r, const struct hsp_group *g,
                                    size_t *count, uint32_t root, uint32_t peer, size_t bytes,
                                    struct hsp_err *err)
{
    bool mine = g->ranks[g->me] == root;
    uint8_t *in, *out;
    enum hsp_status st = hsp_pack_get(r->e, &r->e->send, bytes, (void **)&in, err);
    if (st == HSP_OK) {
        st = hsp_pack_get(r->e, &r->e->recv, mine ? bytes : 0, (void **)&out, err);
    }
    if (st == HSP_OK) {
        st = hsp_move_pack_all(r, in, err);
    }
    for (uint32_t k = 0; k < g->n; k++) {
        count[k] = g->ranks[k] == root ? bytes / r->elem : 0;
    }
    if (st == HSP_OK) {
        st = scatter_sum(r, g, in, bytes, count, out, mine ? bytes : 0, err);
    }
    r->e->comm_bytes += bytes;
    return st == HSP_OK && mine ? send_sum(r, peer, out, bytes, err) : st;
}

enum hsp_status hsp_move_reduce_send(const struct hsp_move_run *r, struct hsp_err *err)
{
    struct hsp_group g;
    size_t bytes = move_bytes(r);
    if (!find_me(r, &g) || bytes == 0) {
        return HSP_OK;
    }
    uint32_t root = g.ranks[r->m->cells[0].root], peer = r->m->cells[0].peer;
    if (g.me == peer) {
        return receive_sum(r, root, bytes, err);
    }
    uint32_t *adders = calloc(g.n, sizeof(*adders));
    size_t *count = calloc(g.n, sizeof(*count));
    enum hsp_status st = HSP_OK;
    if (!adders || !count) {
        st = hsp_move_no_memory(err, g.n * (sizeof(*adders) + sizeof(*count)));
    } else {
        struct hsp_group a = {.me = g.me - (g.me > peer ? 1 : 0), .ranks = adders};
        for (uint32_t k = 0; k < g.n; k++) {
            if (k != peer) {
                adders[a.n++] = g.ranks[k];
            }
        }
        st = add_and_send(r, &a, count, root, g.ranks[peer], bytes, err);
    }
    free(adders);
    free(count);
    return st;
}
