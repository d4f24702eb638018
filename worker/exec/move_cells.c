/* Moves cells between the tensors, the pack buffers and the memory for a transport.
 *
 * The backend packs cells in the memory of the tensors. On a CPU, or if the transport is the
 * device's own, the transport gets the packed memory itself. Otherwise the transport gets a staging
 * copy of the packed memory in the host's memory; the host waits for this copy once, after packing.
 * The host writes a staging copy only when the device has read the messages received before
 * (staging_ticket). The device writes a staging copy in the order of its queue. */
#include "worker/exec/move_cells.h"

#include "proto/layout/box.h"
#include "worker/exec/device_queue.h"
#include "worker/exec/engine.h"
#include "worker/exec/moves_impl.h"
#include "worker/exec/operand.h"
#include "worker/exec/queues.h"
#include "worker/exec/staging.h"

struct hsp_box hsp_cell_running(const struct hsp_cell *c, int64_t n_seq)
{
    struct hsp_box b = c->box;
    if (b.rank > 0 && b.hi[0] == HSP_TO_END) {
        b.hi[0] = n_seq;
    }
    return b;
}

struct hsp_box hsp_move_cell(const struct hsp_move_run *r, const struct hsp_cell *c)
{
    return hsp_cell_running(c, r->n_seq);
}

struct hsp_cell_view hsp_move_source(const struct hsp_move_run *r, uint8_t k)
{
    return hsp_engine_view(r->e, r->i->in[k], r->micro);
}

enum hsp_reduce hsp_move_how(const struct hsp_move_run *r)
{
    return (enum hsp_reduce)r->m->reduce;
}

static enum hsp_status cells(const struct hsp_move_run *r, const struct hsp_cell_view *dst,
                             const struct hsp_cell_view *src, const struct hsp_box *cell,
                             enum hsp_cells what, struct hsp_err *err)
{
    struct hsp_backend *b = r->e->o.backend;
    return b->cells(b, r->q, dst, src, cell, what, err);
}

enum hsp_status hsp_move_fetch(const struct hsp_move_run *r, const struct hsp_cell_view *dst,
                               const struct hsp_box *cell, struct hsp_err *err)
{
    if (r->m->src != HSP_MOVE_SUM) {
        struct hsp_cell_view v =
            r->m->src == HSP_MOVE_FROM_OUT ? r->out : hsp_move_source(r, r->m->src);
        return cells(r, dst, &v, cell, HSP_CELLS_COPY, err);
    }
    enum hsp_cells add = hsp_move_how(r) == HSP_REDUCE_MAX ? HSP_CELLS_MAX : HSP_CELLS_ADD;
    enum hsp_status st = HSP_OK;
    bool first = true;
    for (uint8_t k = 0; k < r->i->n_in && st == HSP_OK; k++) {
        struct hsp_cell_view v = hsp_move_source(r, k);
        if (!hsp_box_inside(cell, &v.box)) {
            continue;
        }
        st = cells(r, dst, &v, cell, first ? HSP_CELLS_COPY : add, err);
        first = false;
    }
    return st;
}

enum hsp_status hsp_move_pack(const struct hsp_move_run *r, const struct hsp_box *cell,
                              uint8_t *buf, size_t *at, struct hsp_err *err)
{
    struct hsp_cell_view v = {.data = buf + *at, .box = *cell, .dtype = r->out.dtype};
    *at += hsp_cell_bytes(cell, v.dtype);
    return hsp_move_fetch(r, &v, cell, err);
}

enum hsp_status hsp_move_unpack(const struct hsp_move_run *r, const struct hsp_box *cell,
                                uint8_t *buf, size_t *at, struct hsp_err *err)
{
    struct hsp_cell_view v = {.data = buf + *at, .box = *cell, .dtype = r->out.dtype};
    *at += hsp_cell_bytes(cell, v.dtype);
    return cells(r, &r->out, &v, cell, HSP_CELLS_COPY, err);
}

enum hsp_status hsp_move_pack_all(const struct hsp_move_run *r, uint8_t *buf, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    size_t at = 0;
    for (uint32_t k = 0; k < r->m->n_cells && st == HSP_OK; k++) {
        struct hsp_box cell = hsp_move_cell(r, &r->m->cells[k]);
        st = hsp_move_pack(r, &cell, buf, &at, err);
    }
    return st;
}

enum hsp_status hsp_move_unpack_all(const struct hsp_move_run *r, uint8_t *buf, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    size_t at = 0;
    for (uint32_t k = 0; k < r->m->n_cells && st == HSP_OK; k++) {
        struct hsp_box cell = hsp_move_cell(r, &r->m->cells[k]);
        st = hsp_move_unpack(r, &cell, buf, &at, err);
    }
    return st;
}

enum hsp_status hsp_move_no_memory(struct hsp_err *err, size_t bytes)
{
    return hsp_err_nomem(err, "%zu bytes of a move", bytes);
}

/* ---- staging copies ---- */

enum hsp_status hsp_staging_of(const struct hsp_move_run *r, struct hsp_staging_buffer *p,
                               void *buf, size_t bytes, uint8_t **ret, struct hsp_err *err)
{
    struct hsp_engine *e = r->e;
    *ret = buf;
    if (!r->staged) {
        return HSP_OK;
    }
    enum hsp_status st = e->o.backend->finish(e->o.backend, r->q, e->staging_ticket, err);
    return st == HSP_OK ? hsp_pack_get(e, p, bytes, (void **)ret, err) : st;
}

enum hsp_status hsp_staging_write(const struct hsp_move_run *r, void *staging, const void *buf,
                                  size_t bytes, struct hsp_err *err)
{
    struct hsp_backend *b = r->e->o.backend;
    return r->staged ? b->copy(b, r->q, staging, buf, bytes, err) : HSP_OK;
}

enum hsp_status hsp_staging_ready(const struct hsp_move_run *r, struct hsp_err *err)
{
    return r->staged ? hsp_queue_finish(r->e, r->q, err) : HSP_OK;
}

enum hsp_status hsp_staging_read(const struct hsp_move_run *r, void *buf, const void *staging,
                                 size_t bytes, struct hsp_err *err)
{
    struct hsp_backend *b = r->e->o.backend;
    if (!r->staged || bytes == 0) {
        return HSP_OK;
    }
    enum hsp_status st = b->copy(b, r->q, buf, staging, bytes, err);
    return st == HSP_OK ? b->mark(b, r->q, &r->e->staging_ticket, err) : st;
}
