/* Repeats runs of instructions that the device can do alone: the engine gives a run once, and later
 * starts it by its key.
 *
 * The key is a digest of everything that the backend's calls depend on: kinds, ops, attributes,
 * origins, types, boxes and addresses of all operands, and the moves inside of a device. Numbers
 * that change from step to step lie in the device's memory and are not part of the key. So equal
 * keys mean equal calls, in all programs and steps. */
#include "worker/exec/replay.h"

#include <string.h>

#include "worker/exec/engine.h"
#include "worker/exec/engine_impl.h"
#include "worker/exec/interp.h"
#include "worker/exec/move_cells.h"
#include "worker/exec/operand.h"

#define REPLAY_MIN 4 /* instructions; giving fewer takes no longer than starting a replay */

static bool is_update(const struct hsp_instr *i)
{
    return i->kind == HSP_I_OP && (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM);
}

/* Returns true if all moves of a Reshard are copies inside of the device. */
static bool stays_inside(const struct hsp_reshard_bind *b)
{
    for (uint32_t k = 0; k < b->n_moves; k++) {
        if (b->moves[k].kind != HSP_MOVE_COPY) {
            return false;
        }
    }
    return true;
}

/* Returns true if instruction @k needs neither the data set, nor a transport, nor the vote. */
static bool is_alone(const struct hsp_engine *e, uint32_t k)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    switch ((enum hsp_instr_kind)i->kind) {
    /* Before the vote an update is an error, which run_op reports. In a no-op step an update gives
     * the device nothing. */
    case HSP_I_OP: return !is_update(i) || (e->voted && !e->vote.noop);
    case HSP_I_ZERO:
    case HSP_I_ONE:
    case HSP_I_ACC:
    case HSP_I_COPY: return true;
    case HSP_I_RESHARD: return stays_inside(&e->b->reshard[i->arg]);
    case HSP_I_STAT: /* a statistic that is copied goes to another place each time */
        return e->way->routes != NULL && e->way->routes[k].done;
    case HSP_I_LOAD:
    case HSP_I_VOTE:
    case HSP_I_SEAL: return false;
    }
    return false;
}

uint32_t hsp_replay_length(const struct hsp_engine *e, uint32_t k, uint32_t end)
{
    uint32_t n = 0;
    if (e->o.backend->begin == NULL || e->o.hooks.traced != NULL) {
        return 0;
    }
    while (k + n < end && is_alone(e, k + n)) {
        n++;
    }
    return n >= REPLAY_MIN ? n : 0;
}

/* ---- the key ---- */

/* Makes a digest of many words, block by block: each block begins with the digest of the words
 * before. */
struct key {
    uint64_t w[128];
    uint32_t n;
};

static struct hsp_digest key_now(const struct key *k)
{
    return hsp_hash128(k->w, k->n * sizeof(k->w[0]));
}

static void put(struct key *k, uint64_t x)
{
    if (k->n == sizeof k->w / sizeof k->w[0]) {
        struct hsp_digest d = key_now(k);
        k->w[0] = d.hi;
        k->w[1] = d.lo;
        k->n = 2;
    }
    k->w[k->n++] = x;
}

static void put_box(struct key *k, const struct hsp_box *b)
{
    put(k, b->rank);
    for (uint8_t d = 0; d < b->rank; d++) {
        put(k, (uint64_t)b->lo[d]);
        put(k, (uint64_t)b->hi[d]);
    }
}

static void put_view(struct key *k, const struct hsp_cell_view *v)
{
    put(k, (uint64_t)(uintptr_t)v->data);
    put(k, (uint64_t)v->dtype);
    put_box(k, &v->box);
}

static void put_op(struct key *k, const struct hsp_engine *e, const struct hsp_instr *i)
{
    struct hsp_attrs at = hsp_instr_attrs(i, e->b->symbol);
    put(k, i->op);
    put(k, e->b->hyper.tf32);
    for (int j = 0; j < HSP_N_ATTR_I; j++) {
        put(k, (uint64_t)at.i[j]);
    }
    for (size_t j = 0; j < sizeof at.f / sizeof at.f[0]; j++) {
        uint64_t bits;
        memcpy(&bits, &at.f[j], sizeof(bits));
        put(k, bits);
    }
    for (int j = 0; j < 2; j++) {
        put(k, i->origin_sym[j] == UINT32_MAX ? 0 : (uint64_t)e->b->symbol[i->origin_sym[j]]);
    }
    if (is_update(i)) {
        put(k, (uint64_t)(uintptr_t)e->scalars.device);
        put(k, e->watch.how == HSP_WATCH_NONE ? 0 : (uint64_t)(uintptr_t)e->watch.sums);
    }
}

static void put_moves(struct key *k, const struct hsp_reshard_bind *b, int64_t n_seq)
{
    put(k, b->zero_first);
    put(k, b->n_moves);
    for (uint32_t m = 0; m < b->n_moves; m++) {
        put(k, b->moves[m].src);
        put(k, b->moves[m].reduce);
        put(k, b->moves[m].n_cells);
        for (uint32_t c = 0; c < b->moves[m].n_cells; c++) {
            struct hsp_box cell = hsp_cell_running(&b->moves[m].cells[c], n_seq);
            put_box(k, &cell);
        }
    }
}

static void put_instr(struct key *k, const struct hsp_engine *e, uint32_t n, uint32_t micro,
                      enum hsp_queue q)
{
    const struct hsp_instr *i = &e->t->instrs[n];
    put(k, i->kind);
    put(k, hsp_given_how(e, n, q));
    put(k, (uint64_t)i->n_in << 8 | i->n_out);
    if (i->kind == HSP_I_OP) {
        put_op(k, e, i);
    } else if (i->kind == HSP_I_RESHARD) {
        put_moves(k, &e->b->reshard[i->arg],
                  micro < e->sheet.n_micro ? e->sheet.micro[micro].n_seq : 0);
    }
    for (uint8_t j = 0; j < i->n_in; j++) {
        struct hsp_cell_view v = hsp_engine_view(e, i->in[j], micro);
        put_view(k, &v);
    }
    for (uint8_t j = 0; j < i->n_out; j++) {
        bool adds = false;
        struct hsp_cell_view v = hsp_output(e, n, j, micro, q, &adds);
        put_view(k, &v);
        put(k, adds);
    }
}

/* Gives the @n instructions from @k on, one by one or fused. */
static enum hsp_status give(struct hsp_engine *e, uint32_t k, uint32_t n, uint32_t micro,
                            enum hsp_queue q, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t j = k, done = 0; j < k + n && st == HSP_OK; j += done) {
        st = hsp_run_next(e, j, k + n, micro, q, &done, err);
    }
    return st;
}

enum hsp_status hsp_replay_run(struct hsp_engine *e, uint32_t k, uint32_t n, uint32_t micro,
                               enum hsp_queue q, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    struct key key = {.n = 0};
    bool replayed = false;
    put(&key, (uint64_t)q);
    for (uint32_t j = k; j < k + n; j++) {
        put_instr(&key, e, j, micro, q);
        put(&key, e->way->epilogues != NULL ? e->way->epilogues[j].n : 0); /* additions fused */
        put(&key, e->way->launches != NULL ? e->way->launches[j].n : 0);
    }
    struct hsp_digest d = key_now(&key);
    enum hsp_status st = b->begin(b, hsp_devq_of(q), &d, &replayed, err);
    for (uint32_t j = k; st == HSP_OK && replayed && j < k + n; j++) {
        st = hsp_note_done(e, j, q, err);
    }
    if (st != HSP_OK || replayed) {
        return st;
    }
    uint32_t noted = e->stat[q].n;
    st = give(e, k, n, micro, q, err);
    enum hsp_status ended = b->end(b, hsp_devq_of(q), st == HSP_OK ? err : NULL);
    if (st == HSP_OK && ended == HSP_AGAIN) {
        e->stat[q].n = noted;
        return give(e, k, n, micro, q, err);
    }
    return st == HSP_OK ? ended : st;
}
