#include "proto/program/binding_codec.h"

#include "proto/program/program_check.h"
#include "proto/program/program_io.h"

#define BINDING_MAGIC   0x42505348u /* "HSPB" */
#define BINDING_VERSION 6u          /* of a binding without buckets */
#define BINDING_BUCKETS 7u          /* which adds them; since protocol 17 */

/* Least encoded bytes of one element. */
enum { MIN_BIND_TENSOR = 22, MIN_MOVE = 15, MIN_CELL = 9, MIN_ENTRY = 12, MIN_STATE = 18 };

static void io_tensor(struct hsp_pio *io, struct hsp_tensor_bind *t)
{
    hsp_pio_i64(io, &t->offset);
    hsp_pio_u32(io, &t->n_slots);
    hsp_pio_i64(io, &t->slot_bytes);
    hsp_pio_box(io, &t->box);
    hsp_pio_bool(io, &t->batch_dim0);
}

static void io_move(struct hsp_pio *io, struct hsp_move *m)
{
    hsp_pio_u8(io, &m->kind);
    hsp_pio_u8(io, &m->reduce);
    hsp_pio_u8(io, &m->src);
    m->ranks = hsp_pio_array(io, &m->n_ranks, m->ranks, sizeof(*m->ranks), HSP_MAX_PROGRAM_RANKS, 4,
                             "ranks of a move");
    hsp_pio_u32s(io, m->ranks, m->n_ranks);
    hsp_pio_u32(io, &m->channel);
    m->cells = hsp_pio_array(io, &m->n_cells, m->cells, sizeof(*m->cells), HSP_MAX_CELLS, MIN_CELL,
                             "cells of a move");
    for (uint32_t k = 0; k < m->n_cells && hsp_pio_ok(io); k++) {
        hsp_pio_box(io, &m->cells[k].box);
        hsp_pio_u32(io, &m->cells[k].root);
        hsp_pio_u32(io, &m->cells[k].peer);
    }
}

static void io_reshards(struct hsp_pio *io, struct hsp_binding *b)
{
    b->reshard = hsp_pio_array(io, &b->n_reshards, b->reshard, sizeof(*b->reshard), HSP_MAX_INSTRS,
                               5, "reshards");
    for (uint32_t k = 0; k < b->n_reshards && hsp_pio_ok(io); k++) {
        struct hsp_reshard_bind *r = &b->reshard[k];
        hsp_pio_bool(io, &r->zero_first);
        if (b->buckets) {
            hsp_pio_u32(io, &r->bucket);
        }
        r->moves = hsp_pio_array(io, &r->n_moves, r->moves, sizeof(*r->moves), HSP_MAX_CELLS,
                                 MIN_MOVE, "moves");
        for (uint32_t j = 0; j < r->n_moves && hsp_pio_ok(io); j++) {
            io_move(io, &r->moves[j]);
        }
    }
}

/* @parts: entries may be parts of pieces. */
static void io_sched(struct hsp_pio *io, struct hsp_sched *s, bool parts)
{
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        s->e[q] = hsp_pio_array(io, &s->n[q], s->e[q], sizeof(*s->e[q]), HSP_MAX_SCHED, MIN_ENTRY,
                                "schedule");
        for (uint32_t k = 0; k < s->n[q] && hsp_pio_ok(io); k++) {
            hsp_pio_u32(io, &s->e[q][k].piece);
            hsp_pio_u32(io, &s->e[q][k].micro);
            hsp_pio_u32(io, &s->e[q][k].wait);
            if (parts) {
                hsp_pio_u32(io, &s->e[q][k].first);
                hsp_pio_u32(io, &s->e[q][k].n);
            }
        }
    }
}

static void io_hyper(struct hsp_pio *io, struct hsp_binding *b)
{
    struct hsp_pipeline_bind *s = &b->pipeline;
    uint32_t *const counts[] = {&s->first_seq,  &s->n_seq,        &s->n_micro, &s->eval_first,
                                &s->eval_n_seq, &s->eval_n_micro, &s->n_stages};
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
        hsp_pio_u32(io, counts[k]);
    }
    struct hsp_data_bind *d = &b->data;
    hsp_pio_u64(io, &d->seed);
    hsp_pio_u32(io, &d->global_batch);
    hsp_pio_u32(io, &d->sequence);
    hsp_pio_u32(io, &d->longest);
    hsp_pio_u8(io, &d->samples);
    hsp_pio_u32(io, &d->eval_seqs);
    hsp_pio_u32(io, &d->validation_every);
    hsp_pio_f64(io, &d->validation_fraction);
    hsp_pio_bool(io, &d->next_token_only);
    hsp_pio_u32(io, &d->vocab);
    hsp_pio_u8(io, &d->format);
    hsp_pio_u8(io, &d->packing);
    hsp_pio_u32(io, &d->separator);
    struct hsp_train_bind *h = &b->hyper;
    hsp_pio_u32(io, &h->steps);
    hsp_pio_f64(io, &h->lr);
    hsp_pio_f64(io, &h->min_lr);
    hsp_pio_f64(io, &h->clip_norm);
    hsp_pio_u32(io, &h->warmup_steps);
    hsp_pio_u8(io, &h->schedule);
    hsp_pio_u8(io, &h->optimizer);
    hsp_pio_f64(io, &h->beta1);
    hsp_pio_f64(io, &h->beta2);
    hsp_pio_bool(io, &h->tf32);
}

static void io_state(struct hsp_pio *io, struct hsp_binding *b)
{
    b->state = hsp_pio_array(io, &b->n_state, b->state, sizeof(*b->state), HSP_MAX_TENSORS,
                             MIN_STATE, "state tensors");
    for (uint32_t k = 0; k < b->n_state && hsp_pio_ok(io); k++) {
        struct hsp_state_bind *s = &b->state[k];
        hsp_pio_u32(io, &s->tensor);
        hsp_pio_u32(io, &s->tensor_id);
        hsp_pio_u8(io, &s->init);
        hsp_pio_f64(io, &s->init_std);
        hsp_pio_box(io, &s->full);
    }
}

static void io_binding(struct hsp_pio *io, const struct hsp_template *t, struct hsp_binding *b)
{
    uint32_t n_symbols = t->n_symbols, n_tensors = t->n_tensors;
    uint32_t version = b->buckets ? BINDING_BUCKETS : BINDING_VERSION;
    hsp_pio_magic(io, BINDING_MAGIC, &version, "header or version");
    b->buckets = version == BINDING_BUCKETS;
    if (version != BINDING_VERSION && version != BINDING_BUCKETS) {
        hsp_pio_fail(io, "header or version");
    }
    hsp_pio_u32(io, &b->rank);
    hsp_pio_u32(io, &b->n_ranks);
    hsp_pio_digest(io, &b->template_digest);
    hsp_pio_digest(io, &b->plan_digest);
    b->symbol =
        hsp_pio_array(io, &n_symbols, b->symbol, sizeof(*b->symbol), HSP_MAX_SYMBOLS, 8, "symbols");
    for (uint32_t k = 0; k < n_symbols && hsp_pio_ok(io); k++) {
        hsp_pio_i64(io, &b->symbol[k]);
    }
    b->tensor = hsp_pio_array(io, &n_tensors, b->tensor, sizeof(*b->tensor), HSP_MAX_TENSORS,
                              MIN_BIND_TENSOR, "tensors");
    for (uint32_t k = 0; k < n_tensors && hsp_pio_ok(io); k++) {
        io_tensor(io, &b->tensor[k]);
    }
    if (n_symbols != t->n_symbols || n_tensors != t->n_tensors) {
        hsp_pio_fail(io, "number of symbols or tensors (template disagrees)");
    }
    io_reshards(io, b);
    io_sched(io, &b->train, false);
    io_sched(io, &b->eval, false);
    if (b->buckets) {
        io_sched(io, &b->early, true);
    }
    io_hyper(io, b);
    io_state(io, b);
    hsp_pio_i64(io, &b->memory_bytes);
    hsp_pio_i64(io, &b->state_bytes);
    hsp_pio_i64(io, &b->comm_bytes);
    hsp_pio_i64(io, &b->host_bytes);
}

enum hsp_status hsp_binding_encode(const struct hsp_template *t, const struct hsp_binding *b,
                                   struct hsp_buf *out)
{
    struct hsp_binding view = *b; /* the walk writes pointers back; contents stay untouched */
    struct hsp_pio io = {.out = out};
    io_binding(&io, t, &view);
    return hsp_pio_end(&io, "binding", NULL);
}

enum hsp_status hsp_binding_decode(const uint8_t *data, size_t len, const struct hsp_template *t,
                                   struct hsp_arena *arena, struct hsp_binding *ret,
                                   struct hsp_err *err)
{
    struct hsp_cursor cur;
    hsp_cur_init(&cur, data, len);
    struct hsp_pio io = {.in = &cur, .arena = arena};
    struct hsp_binding b = {0};
    io_binding(&io, t, &b);
    enum hsp_status st = hsp_pio_end(&io, "binding", err);
    if (st != HSP_OK) {
        return st;
    }
    if (!hsp_digest_equal(b.template_digest, t->digest)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "binding of rank %u is for another template",
                           b.rank);
    }
    st = hsp_binding_check(t, &b, err);
    if (st == HSP_OK) {
        *ret = b;
    }
    return st;
}
