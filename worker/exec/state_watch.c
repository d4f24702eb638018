#include "worker/exec/state_watch.h"

#include <stdlib.h>

#include "worker/exec/engine.h"
#include "worker/exec/engine_impl.h"
#include "worker/exec/operand.h"
#include "worker/state/box_hash.h"

/* Size of the sums of one state tensor in elements of fp64, the unit in which `fill` counts. */
#define SUMS_WORDS (sizeof(struct hsp_state_sums) / sizeof(double))

static int by_place(const void *a, const void *b)
{
    const struct hsp_state_place *x = a, *y = b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* an empty tensor comes first */
}

/* Stores the hash calls and the places of the state tensors. All programs of a pool have the same
 * state at the same places. */
static void note_state(struct hsp_engine *e)
{
    const struct hsp_program *p = e->o.program;
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        const struct hsp_state_bind *s = &p->bind.state[k];
        const struct hsp_ptensor *t = &p->tpl.tensors[s->tensor];
        const struct hsp_tensor_bind *at = &p->bind.tensor[s->tensor];
        const struct hsp_box_id id = {s->tensor_id, t->state_kind, (enum hsp_dtype)t->dtype,
                                      s->full.hi};
        hsp_box_hash_call(&id, &at->box, (const uint8_t *)e->o.state + at->offset,
                          &e->watch.call[k]);
        e->watch.place[k] = (struct hsp_state_place){at->offset, at->slot_bytes, k};
    }
    if (p->bind.n_state > 0) {
        qsort(e->watch.place, p->bind.n_state, sizeof *e->watch.place, by_place);
    }
}

enum hsp_status hsp_state_watch_open(struct hsp_engine *e, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    size_t n = e->o.program->bind.n_state;
    e->watch.how = HSP_WATCH_SUMS; /* the rehearsed updates make sums */
    e->watch.loaded = true;
    e->watch.call = calloc(n + 1, sizeof *e->watch.call);
    e->watch.place = calloc(n + 1, sizeof *e->watch.place);
    if (e->watch.call == NULL || e->watch.place == NULL) {
        return hsp_err_nomem(err, "the sums of the state");
    }
    note_state(e);
    size_t sums = n * sizeof *e->watch.sums, hashes = n * sizeof *e->watch.hash;
    enum hsp_status st = b->alloc(b, HSP_MEM_DEVICE, sums, (void **)&e->watch.sums, err);
    st = st == HSP_OK ? b->alloc(b, HSP_MEM_DEVICE, hashes, (void **)&e->watch.hash, err) : st;
    for (int i = 0; st == HSP_OK && i < 2; i++) {
        st = b->alloc(b, HSP_MEM_HOST, sums, (void **)&e->watch.seen[i].sums, err);
        st = st == HSP_OK ? b->alloc(b, HSP_MEM_HOST, hashes, (void **)&e->watch.seen[i].hash, err)
                          : st;
    }
    return st == HSP_OK ? b->alloc(b, HSP_MEM_HOST, hashes, (void **)&e->watch.first, err) : st;
}

void hsp_state_watch_close(struct hsp_engine *e)
{
    struct hsp_backend *b = e->o.backend;
    b->release(b, HSP_MEM_DEVICE, e->watch.sums);
    b->release(b, HSP_MEM_DEVICE, e->watch.hash);
    b->release(b, HSP_MEM_HOST, e->watch.first);
    for (int i = 0; i < 2; i++) {
        b->release(b, HSP_MEM_HOST, e->watch.seen[i].sums);
        b->release(b, HSP_MEM_HOST, e->watch.seen[i].hash);
        e->watch.seen[i].sums = NULL;
        e->watch.seen[i].hash = NULL;
    }
    e->watch.sums = NULL;
    e->watch.hash = e->watch.first = NULL;
    free(e->watch.call);
    free(e->watch.place);
    e->watch.call = NULL;
    e->watch.place = NULL;
}

/* Returns true if one of the instructions [first, end) is an update. */
static bool updates(const struct hsp_engine *e, uint32_t first, uint32_t end)
{
    for (uint32_t k = first; k < end; k++) {
        const struct hsp_instr *i = &e->t->instrs[k];
        if (i->kind == HSP_I_OP && (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM)) {
            return true;
        }
    }
    return false;
}

/* Hashes all state tensors and copies the hashes to @host. The compute queue makes all hashes, so
 * they take turns in e->watch.hash. */
static enum hsp_status hash_to(struct hsp_engine *e, uint64_t *host, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    uint32_t n = e->b->n_state;
    enum hsp_status st = b->hash(b, HSP_DEVQ_COMPUTE, e->watch.call, n, e->watch.hash, err);
    return st == HSP_OK
               ? b->copy(b, HSP_DEVQ_COMPUTE, host, e->watch.hash, (size_t)n * sizeof *host, err)
               : st;
}

enum hsp_status hsp_state_watch_before(struct hsp_engine *e, uint32_t first, uint32_t end,
                                       struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    /* only a piece with an update comes after the vote; another piece may run beside the vote and
     * must not read `voted`, so `updates` is asked first */
    if (e->watch.call == NULL || e->watch.begun || !updates(e, first, end) || !e->voted) {
        return HSP_OK;
    }
    e->watch.begun = true;
    e->watch.how = e->o.hooks.watch != NULL ? e->o.hooks.watch(e->o.hooks.ctx) : HSP_WATCH_SUMS;
    if (e->vote.noop || e->watch.how == HSP_WATCH_NONE) {
        return HSP_OK;
    }
    enum hsp_status st = e->watch.loaded ? hash_to(e, e->watch.first, err) : HSP_OK;
    return st == HSP_OK ? b->fill(b, HSP_DEVQ_COMPUTE, HSP_F64, e->watch.sums, 0.0,
                                  (int64_t)e->b->n_state * (int64_t)SUMS_WORDS, err)
                        : st;
}

/* Returns the row of the last place that begins at @offset or before. */
static uint32_t row_at(const struct hsp_engine *e, int64_t offset)
{
    uint32_t lo = 0, hi = e->b->n_state;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (e->watch.place[mid].offset <= offset) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return e->watch.place[lo].row;
}

void hsp_state_watch_call(const struct hsp_engine *e, uint32_t k, struct hsp_call *c)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    for (uint8_t j = 0; e->watch.sums != NULL && e->watch.how != HSP_WATCH_NONE && j < i->n_out;
         j++) {
        c->sums[j] = e->watch.sums + row_at(e, e->b->tensor[i->out[j]].offset);
    }
}

/* Fills @w. A no-op step has written nothing, so the device still has the sums of the last update.
 * The version of a no-op step has known sums only if the version before has. */
enum hsp_status hsp_state_watch_after(struct hsp_engine *e, struct hsp_written *w,
                                      struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    const size_t at = w->version % 2;
    const bool noop = e->vote.noop, before = e->watch.seen[1 - at].of == w->version;
    if (e->watch.call == NULL) {
        return HSP_OK;
    }
    w->noop = noop;
    w->loaded = noop && e->watch.loaded;
    bool known = e->watch.how != HSP_WATCH_NONE && (!noop || before);
    enum hsp_status st = HSP_OK;
    e->watch.seen[at].of = known ? w->version + 1 : 0;
    if (known) {
        w->sums = e->watch.seen[at].sums;
        w->before = before && !noop ? e->watch.seen[1 - at].sums : NULL;
        st = b->copy(b, HSP_DEVQ_COMPUTE, e->watch.seen[at].sums, e->watch.sums,
                     (size_t)e->b->n_state * sizeof *w->sums, err);
    }
    if (st == HSP_OK && e->watch.how == HSP_WATCH_HASHES) {
        w->hash = e->watch.seen[at].hash;
        st = hash_to(e, e->watch.seen[at].hash, err);
    }
    if (!noop) {
        w->first = known && e->watch.loaded ? e->watch.first : NULL;
        e->watch.loaded = false;
    }
    return st;
}
