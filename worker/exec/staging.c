#include "worker/exec/staging.h"

#include <stdlib.h>
#include <string.h>

#include "proto/op/bf16.h"
#include "worker/exec/device_queue.h"
#include "worker/exec/engine_impl.h"
#include "worker/exec/queues.h"

#define STAT_BYTES ((size_t)8) /* bytes of one value, enough for any type */

enum hsp_status hsp_pack_get(struct hsp_engine *e, struct hsp_staging_buffer *p, size_t bytes,
                             void **ret, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    if (p->bytes < bytes || p->data == NULL) {
        size_t round = (bytes + 4095) / 4096 * 4096 + 4096;
        enum hsp_status st = p->data != NULL ? hsp_queue_finish(e, p->q, err) : HSP_OK;
        if (st != HSP_OK) {
            return st;
        }
        b->release(b, p->mem, p->data);
        *p = (struct hsp_staging_buffer){.mem = p->mem, .q = p->q};
        if (b->alloc(b, p->mem, round, &p->data, err) != HSP_OK) {
            return hsp_err_wrap(err, "pack buffer");
        }
        p->bytes = round;
    }
    *ret = p->data;
    return HSP_OK;
}

/* ---- loads ---- */

static size_t largest_load(const struct hsp_program *p, uint8_t queue)
{
    size_t most = 0;
    for (uint32_t k = 0; k < p->tpl.n_instrs; k++) {
        const struct hsp_instr *i = &p->tpl.instrs[k];
        if (i->kind == HSP_I_LOAD && i->queue == queue) {
            size_t bytes = (size_t)p->bind.tensor[i->out[0]].slot_bytes;
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

enum hsp_status hsp_load_begin(struct hsp_engine *e, enum hsp_queue q, void *to, void **ret,
                               struct hsp_err *err)
{
    struct hsp_load_ring *r = &e->load[q];
    struct hsp_backend *b = e->o.backend;
    if (!b->device) {
        *ret = to;
        return HSP_OK;
    }
    *ret = r->data + (size_t)r->next * r->each;
    return b->finish(b, hsp_devq_of(q), r->ticket[r->next], err);
}

enum hsp_status hsp_load_end(struct hsp_engine *e, enum hsp_queue q, void *to, const void *from,
                             size_t bytes, struct hsp_err *err)
{
    struct hsp_load_ring *r = &e->load[q];
    struct hsp_backend *b = e->o.backend;
    if (!b->device) {
        return HSP_OK;
    }
    enum hsp_status st = b->copy(b, hsp_devq_of(q), to, from, bytes, err);
    if (st == HSP_OK) {
        st = b->mark(b, hsp_devq_of(q), &r->ticket[r->next], err);
        r->next = (r->next + 1) % HSP_LOAD_SLOTS;
    }
    return st;
}

/* ---- statistics ---- */

static uint32_t count_stats(const struct hsp_program *p, const struct hsp_sched *s, int q)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->n[q]; k++) {
        uint32_t first, end = hsp_entry_end(&p->tpl, &s->e[q][k], &first);
        for (uint32_t i = first; i < end; i++) {
            n += p->tpl.instrs[i].kind == HSP_I_STAT;
        }
    }
    return n;
}

enum hsp_status hsp_stat_note(struct hsp_engine *e, enum hsp_queue q, uint8_t arg, enum hsp_dtype t,
                              const void *data, struct hsp_err *err)
{
    struct hsp_stat_log *l = &e->stat[q];
    struct hsp_backend *b = e->o.backend;
    if (l->n == l->cap) { /* init_queue has counted them in the schedules */
        return hsp_err_set(err, HSP_ELIMIT, 0, "more than %u statistics", l->cap);
    }
    void *to = l->value + STAT_BYTES * l->n;
    l->arg[l->n] = arg;
    l->dtype[l->n++] = (uint8_t)t;
    return data != NULL ? b->copy(b, hsp_devq_of(q), to, data, hsp_dtype_size(t), err) : HSP_OK;
}

double *hsp_stat_place(const struct hsp_engine *e, enum hsp_queue q, uint32_t n)
{
    return (double *)(void *)(e->stat[q].value + STAT_BYTES * n);
}

static double stat_value(const struct hsp_stat_log *l, uint32_t k)
{
    const void *at = l->value + STAT_BYTES * k;
    switch ((enum hsp_dtype)l->dtype[k]) {
    case HSP_F32: return (double)*(const float *)at;
    case HSP_F64: return *(const double *)at;
    case HSP_I32: return (double)*(const int32_t *)at;
    case HSP_BF16: return (double)hsp_bf16_float(*(const uint16_t *)at);
    }
    return 0.0;
}

void hsp_stat_sum(const struct hsp_engine *e, double ret[HSP_N_STATS])
{
    double sum[HSP_N_QUEUES][HSP_N_STATS] = {{0}};
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        for (uint32_t k = 0; k < e->stat[q].n; k++) {
            sum[q][e->stat[q].arg[k]] += stat_value(&e->stat[q], k);
        }
    }
    for (int k = 0; k < HSP_N_STATS; k++) {
        ret[k] = sum[HSP_QUEUE_COMPUTE][k] + sum[HSP_QUEUE_COMM][k];
    }
}

/* ---- life ---- */

static const struct hsp_program *program_at(const struct hsp_engine *e, uint32_t k)
{
    return k == 0 ? e->o.program : e->o.shorter[k - 1];
}

/* Allocates the tickets, statistics and load slots of a queue for the longest schedules. Validation
 * and training of a step may run two programs of the pool. */
static enum hsp_status init_queue(struct hsp_engine *e, int q, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    uint32_t train = 0, eval = 0, entries = 0;
    size_t load = 0;
    for (uint32_t k = 0; k <= e->o.n_shorter; k++) {
        const struct hsp_program *p = program_at(e, k);
        const struct hsp_sched *s[2] = {hsp_binding_train(&p->bind), &p->bind.eval};
        uint32_t n[2] = {count_stats(p, s[0], q), count_stats(p, s[1], q)};
        size_t bytes = largest_load(p, (uint8_t)q);
        train = n[0] > train ? n[0] : train;
        eval = n[1] > eval ? n[1] : eval;
        load = bytes > load ? bytes : load;
        entries = s[0]->n[q] > entries ? s[0]->n[q] : entries;
        entries = s[1]->n[q] > entries ? s[1]->n[q] : entries;
    }
    struct hsp_stat_log *l = &e->stat[q];
    l->cap = train + eval;
    l->arg = calloc((size_t)l->cap + 1, 2);
    e->ticket[q] = calloc((size_t)entries + 1, sizeof(*e->ticket[q]));
    if (l->arg == NULL || e->ticket[q] == NULL) {
        return hsp_err_nomem(err, "the queues");
    }
    l->dtype = l->arg + l->cap;
    enum hsp_status st = b->alloc(b, HSP_MEM_HOST, STAT_BYTES * l->cap, (void **)&l->value, err);
    e->load[q].each = load;
    return st == HSP_OK && b->device
               ? b->alloc(b, HSP_MEM_HOST, HSP_LOAD_SLOTS * load, (void **)&e->load[q].data, err)
               : st;
}

enum hsp_status hsp_staging_init(struct hsp_engine *e, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    e->send = e->recv = (struct hsp_staging_buffer){.mem = HSP_MEM_DEVICE, .q = HSP_DEVQ_COMM};
    e->send_staging = e->recv_staging =
        (struct hsp_staging_buffer){.mem = HSP_MEM_HOST, .q = HSP_DEVQ_COMM};
    enum hsp_status st = HSP_OK;
    for (int q = 0; q < HSP_N_QUEUES && st == HSP_OK; q++) {
        e->fetched[q] =
            (struct hsp_staging_buffer){.mem = HSP_MEM_HOST, .q = hsp_devq_of((enum hsp_queue)q)};
        st = init_queue(e, q, err);
    }
    if (st == HSP_OK) {
        st = b->alloc(b, HSP_MEM_DEVICE, sizeof(*e->scalars.device), (void **)&e->scalars.device,
                      err);
    }
    if (st == HSP_OK) {
        st = b->alloc(b, HSP_MEM_HOST, sizeof(*e->scalars.host), (void **)&e->scalars.host, err);
    }
    return st;
}

void hsp_staging_retire(struct hsp_engine *e)
{
    struct hsp_backend *b = e->o.backend;
    struct hsp_staging_buffer *pack[] = {&e->send,         &e->recv,       &e->send_staging,
                                         &e->recv_staging, &e->fetched[0], &e->fetched[1]};
    for (size_t k = 0; k < sizeof pack / sizeof pack[0]; k++) {
        b->release(b, pack[k]->mem, pack[k]->data);
        pack[k]->data = NULL;
        pack[k]->bytes = 0;
    }
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        b->release(b, HSP_MEM_HOST, e->stat[q].value);
        b->release(b, HSP_MEM_HOST, e->load[q].data);
        e->stat[q].value = NULL;
        e->load[q].data = NULL;
    }
    b->release(b, HSP_MEM_DEVICE, e->scalars.device);
    b->release(b, HSP_MEM_HOST, e->scalars.host);
    e->scalars.device = e->scalars.host = NULL;
}

void hsp_staging_fini(struct hsp_engine *e)
{
    hsp_staging_retire(e);
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        free(e->stat[q].arg);
        free(e->ticket[q]);
    }
}
