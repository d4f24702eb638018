#include "worker/exec/read_hash.h"

#include <stdlib.h>

#include "worker/exec/engine.h"
#include "worker/exec/engine_impl.h"
#include "worker/state/box_hash.h"

/* All programs of a pool have the same state at the same places. */
enum hsp_status hsp_read_hash_open(struct hsp_engine *e, struct hsp_err *err)
{
    const struct hsp_program *p = e->o.program;
    struct hsp_backend *b = e->o.backend;
    uint32_t n = p->bind.n_state;
    e->reads.call = calloc((size_t)n + 1, sizeof *e->reads.call);
    if (e->reads.call == NULL) {
        return hsp_err_nomem(err, "the hashes of the state");
    }
    for (uint32_t k = 0; k < n; k++) {
        const struct hsp_state_bind *s = &p->bind.state[k];
        const struct hsp_ptensor *t = &p->tpl.tensors[s->tensor];
        const struct hsp_tensor_bind *at = &p->bind.tensor[s->tensor];
        const struct hsp_box_id id = {s->tensor_id, t->state_kind, (enum hsp_dtype)t->dtype,
                                      s->full.hi};
        hsp_box_hash_call(&id, &at->box, (const uint8_t *)e->o.state + at->offset,
                          &e->reads.call[k]);
    }
    size_t bytes = (size_t)n * sizeof *e->reads.host;
    enum hsp_status st = b->alloc(b, HSP_MEM_DEVICE, bytes, (void **)&e->reads.device, err);
    st = st == HSP_OK ? b->alloc(b, HSP_MEM_HOST, bytes, (void **)&e->reads.host, err) : st;
    for (int i = 0; st == HSP_OK && e->o.hashes_writes && i < 2; i++) {
        st = b->alloc(b, HSP_MEM_HOST, bytes, (void **)&e->reads.wrote[i], err);
    }
    return st;
}

void hsp_read_hash_close(struct hsp_engine *e)
{
    e->o.backend->release(e->o.backend, HSP_MEM_DEVICE, e->reads.device);
    e->o.backend->release(e->o.backend, HSP_MEM_HOST, e->reads.host);
    for (int i = 0; i < 2; i++) {
        e->o.backend->release(e->o.backend, HSP_MEM_HOST, e->reads.wrote[i]);
        e->reads.wrote[i] = NULL;
    }
    e->reads.device = e->reads.host = NULL;
    free(e->reads.call);
    e->reads.call = NULL;
}

static bool updates(const struct hsp_engine *e, const struct hsp_piece *p)
{
    for (uint32_t k = p->first; k < p->first + p->n; k++) {
        const struct hsp_instr *i = &e->t->instrs[k];
        if (i->kind == HSP_I_OP && (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM)) {
            return true;
        }
    }
    return false;
}

/* Both hashes of a step are made on one queue, so they take turns in the memory of the device. */
static enum hsp_status hash_to(struct hsp_engine *e, uint64_t *host, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    uint32_t n = e->b->n_state;
    int64_t from = hsp_clock_ns();
    enum hsp_status st = b->hash(b, HSP_DEVQ_COMPUTE, e->reads.call, n, e->reads.device, err);
    if (st == HSP_OK) {
        st = b->copy(b, HSP_DEVQ_COMPUTE, host, e->reads.device, (size_t)n * sizeof *host, err);
    }
    e->reads.ns += hsp_clock_ns() - from;
    return st;
}

enum hsp_status hsp_read_hash_after(struct hsp_engine *e, struct hsp_written *w,
                                    struct hsp_err *err)
{
    size_t at = w->version % 2;
    w->read = e->reads.none ? NULL : w->read;
    if (e->reads.wrote[at] == NULL || e->reads.none) {
        return HSP_OK;
    }
    w->wrote = e->reads.wrote[at];
    w->wrote_before = e->reads.wrote_at[1 - at] == w->version ? e->reads.wrote[1 - at] : NULL;
    e->reads.wrote_at[at] = w->version + 1;
    enum hsp_status st = hash_to(e, e->reads.wrote[at], err);
    w->hash_s = (double)e->reads.ns * 1e-9;
    return st;
}

enum hsp_status hsp_read_hash_before(struct hsp_engine *e, const struct hsp_piece *p,
                                     struct hsp_err *err)
{
    if (e->reads.call == NULL || e->reads.done || !updates(e, p)) {
        return HSP_OK;
    }
    e->reads.done = true;
    e->reads.ns = 0;
    e->reads.none = e->o.hooks.unhashed != NULL && e->o.hooks.unhashed(e->o.hooks.ctx);
    return e->reads.none ? HSP_OK : hash_to(e, e->reads.host, err);
}
