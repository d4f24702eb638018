#include "worker/exec/engine.h"

#include <inttypes.h> /* PRId64 */
#include <stdlib.h>

#include "proto/program/micro_size.h"
#include "proto/program/pool.h"
#include "worker/data/documents.h"
#include "worker/exec/device_queue.h"
#include "worker/exec/dry_transport.h"
#include "worker/exec/engine_impl.h"
#include "worker/exec/interp.h"
#include "worker/exec/lone_update.h"
#include "worker/exec/operand.h"
#include "worker/exec/queues.h"
#include "worker/exec/record.h"
#include "worker/exec/staging.h"
#include "worker/exec/state_watch.h"

#define SHEET_ARENA ((size_t)256 << 20) /* enough for 2^20 sequences of 16 bytes */
#define WARM_ALIGN  256 /* alignment to which a product looks at the addresses of its operands */
/* products are run for the tensors' slots of at most so many micro-batches */
#define WARM_PLACES 64
/* The most products of a program that are looked at: 80 layers in 39 micro-batches of different
 * sizes. Layers are alike, so the backend runs few of these. */
#define WARM_MOST 65536
/* Instructions of a program that are looked at for replayed runs of documents, about: a second. */
#define REHEARSE_MOST (UINT64_C(1) << 20)

/* ---- steps ---- */

/* Returns program @k of the pool; 0 is the program for the longest sequences. */
static const struct hsp_program *program_of(const struct hsp_engine_opts *o, uint32_t k)
{
    return k == 0 ? o->program : o->shorter[k - 1];
}

/* Makes @p the running program. The programs of a pool take turns in the epoch's memory, since only
 * the state outlives a step, or its validation. */
static void use(struct hsp_engine *e, const struct hsp_program *p)
{
    e->program = p;
    e->t = &p->tpl;
    e->b = &p->bind;
    static const struct hsp_way plain;
    e->way = &plain;
    for (uint32_t k = 0; e->ways != NULL && k <= e->o.n_shorter; k++) {
        if (p == program_of(&e->o, k)) {
            e->way = &e->ways[k];
        }
    }
}

const struct hsp_program *hsp_engine_program(const struct hsp_engine *e)
{
    return e->program;
}

static enum hsp_status run_eval(struct hsp_engine *e, struct hsp_err *err)
{
    const struct hsp_program *one = e->o.program;
    if (!hsp_step_has_eval(&one->bind, e->step)) {
        return HSP_OK;
    }
    use(e, hsp_pool_pick(one, e->o.shorter, e->o.n_shorter,
                         hsp_longest_eval(&one->bind.data, &e->corpus)));
    if (hsp_sheet_eval(e->b, &e->corpus, e->arena, &e->sheet) != HSP_OK) {
        return hsp_err_nomem(err, "the step sheet");
    }
    hsp_run_schedule(e, &e->b->eval, true);
    return HSP_OK;
}

static enum hsp_status run_train(struct hsp_engine *e, struct hsp_err *err)
{
    if (hsp_engine_stops(e)) {
        return HSP_OK; /* step_end reports the failure */
    }
    const struct hsp_program *one = e->o.program;
    use(e, hsp_pool_pick(one, e->o.shorter, e->o.n_shorter,
                         hsp_longest_train(&one->bind.data, &e->corpus, e->step)));
    if (hsp_sheet_train(e->b, &e->corpus, e->step, e->arena, &e->sheet) != HSP_OK) {
        return hsp_err_nomem(err, "the step sheet");
    }
    hsp_run_schedule(e, hsp_binding_train(e->b), false);
    return HSP_OK;
}

/* Waits until the device has done all work of the engine (I2). Another engine uses the queues of a
 * retired engine: there it waits only for the tickets of its own work. */
static void settle(struct hsp_engine *e)
{
    struct hsp_backend *b = e->o.backend;
    /* errors are ignored: the first failure counts */
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        enum hsp_devq d = hsp_devq_of((enum hsp_queue)q);
        if (!e->retired) {
            (void)b->mark(b, d, &e->last[q], NULL);
        }
        (void)b->finish(b, d, e->last[q], NULL);
    }
}

static enum hsp_status step_end(struct hsp_engine *e, struct hsp_err *err)
{
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_err why = e->failure;
    (void)pthread_mutex_unlock(&e->lock);
    if (atomic_load(&e->stop) != 0) {
        settle(e);
    }
    if (why.code != HSP_OK) {
        if (err) {
            *err = why;
        }
        return why.code;
    }
    if (atomic_load(&e->stop) != 0) {
        return hsp_err_set(err, HSP_ECANCELED, 0, "step %" PRIu64 " was aborted", e->step);
    }
    return HSP_OK;
}

enum hsp_status hsp_engine_step(struct hsp_engine *e, uint64_t step, struct hsp_step_result *ret,
                                struct hsp_err *err)
{
    if (atomic_load(&e->stop) != 0) {
        return hsp_err_set(err, HSP_ECANCELED, 0, "the engine was stopped before step %" PRIu64,
                           step);
    }
    int64_t from = hsp_clock_ns();
    e->step = step;
    e->voted = e->watch.begun = false;
    atomic_store(&e->finishes, 0);
    e->late_ns = e->compute_ns - e->voted_ns;
    e->voted_ns = 0;
    e->compute_ns = e->wait_ns = e->comm_ns = 0;
    e->comm_bytes = 0;
    e->stat[HSP_QUEUE_COMPUTE].n = e->stat[HSP_QUEUE_COMM].n = 0;
    e->last_vote_ns = e->last_vote_ns > 0 ? e->last_vote_ns : from;
    hsp_arena_reset(e->arena);
    hsp_record_step_begins(e);
    enum hsp_status st = run_eval(e, err);
    if (st == HSP_OK) {
        st = run_train(e, err);
    }
    if (st == HSP_OK) {
        st = step_end(e, err);
    } else {
        struct hsp_err why = {.code = st};
        hsp_engine_fail(e, err ? err : &why);
        settle(e);
    }
    if (st != HSP_OK) {
        return st;
    }
    hsp_record_step_ends(e);
    bool measured = hsp_measures(e);
    *ret = (struct hsp_step_result){.vote = e->vote,
                                    .n_noop = e->n_noop,
                                    .sequence = e->b->data.sequence,
                                    .seconds = (double)(hsp_clock_ns() - from) * 1e-9,
                                    .compute_s =
                                        measured ? e->compute_s : (double)e->compute_ns * 1e-9,
                                    .wait_s = measured ? e->wait_s : (double)e->wait_ns * 1e-9,
                                    .comm_s = (double)e->comm_ns * 1e-9,
                                    .comm_bytes = e->comm_bytes};
    return HSP_OK;
}

void hsp_engine_abort(struct hsp_engine *e)
{
    (void)pthread_mutex_lock(&e->lock);
    atomic_store(&e->stop, 1);
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    e->o.comm->ops->abort(e->o.comm);
    if (e->o.direct) {
        e->o.direct->ops->abort(e->o.direct);
    }
}

void hsp_engine_where(struct hsp_engine *e, struct hsp_engine_place *ret)
{
    (void)pthread_mutex_lock(&e->lock);
    enum hsp_queue q = e->at.runs[HSP_QUEUE_COMM] ? HSP_QUEUE_COMM : HSP_QUEUE_COMPUTE;
    bool runs = e->sched != NULL && e->at.runs[q];
    *ret = (struct hsp_engine_place){.step = e->at.step,
                                     .validation = e->sched != NULL && e->eval,
                                     .micro = UINT32_MAX,
                                     .instruction = UINT32_MAX,
                                     .given = e->at.given};
    if (runs) {
        ret->micro = e->sched->e[q][e->done[q]].micro;
        ret->instruction = atomic_load_explicit(&e->instr[q], memory_order_relaxed);
        ret->since_ns = e->at.since_ns[q];
    }
    (void)pthread_mutex_unlock(&e->lock);
}

enum hsp_status hsp_engine_finish(struct hsp_engine *e, struct hsp_err *err)
{
    enum hsp_status st = hsp_queue_finish(e, HSP_DEVQ_COMPUTE, err);
    return st == HSP_OK ? hsp_queue_finish(e, HSP_DEVQ_COMM, err) : st;
}

void hsp_engine_retire(struct hsp_engine *e)
{
    if (e == NULL) {
        return;
    }
    atomic_store(&e->stop, 1);
    settle(e);
    e->retired = true;
    e->o.backend->release(e->o.backend, HSP_MEM_DEVICE, e->memory);
    e->o.backend->release(e->o.backend, HSP_MEM_HOST, e->host);
    e->memory = NULL;
    e->host = NULL;
    hsp_state_watch_close(e);
    hsp_staging_retire(e);
}

bool hsp_engine_is_lone(const struct hsp_engine *e)
{
    return e->lone;
}

/* ---- life ---- */

static bool all_lone(const struct hsp_engine_opts *o)
{
    bool all = true;
    for (uint32_t k = 0; k <= o->n_shorter; k++) {
        all = all && hsp_update_is_lone(program_of(o, k));
    }
    return all;
}

/* Runs the fusion passes for which @b has a call. Returns false without memory. */
static bool open_way(const struct hsp_backend *b, const struct hsp_program *p, struct hsp_way *ret)
{
    bool routed = b->adds != 0 || b->run_many != NULL || b->run_chain != NULL;
    if (b->run_sum != NULL) {
        ret->epilogues = hsp_epilogues_new(&p->tpl);
    }
    if (routed) {
        ret->routes = hsp_routes_new(&p->tpl, b->adds);
    }
    if (routed && ret->routes != NULL) {
        ret->launches = hsp_fused_launches_new(p, ret->routes, b->run_many != NULL ? b->many : 0,
                                               b->run_chain != NULL);
    }
    return (b->run_sum == NULL || ret->epilogues != NULL) && (!routed || ret->launches != NULL);
}

/* Runs the fusion passes of all programs, unless a hook looks at each tensor. */
static enum hsp_status open_ways(struct hsp_engine *e, struct hsp_err *err)
{
    uint32_t pieces = 0;
    bool ok = true;
    for (uint32_t k = 0; k <= e->o.n_shorter; k++) {
        uint32_t n = program_of(&e->o, k)->tpl.n_pieces;
        pieces = n > pieces ? n : pieces;
    }
    e->piece = calloc((size_t)pieces + 1, 1);
    e->calls = calloc(HSP_MANY_CALLS, sizeof(*e->calls));
    if (e->o.hooks.traced == NULL) {
        e->ways = calloc((size_t)e->o.n_shorter + 1, sizeof(*e->ways));
        ok = e->ways != NULL;
    }
    for (uint32_t k = 0; ok && e->ways != NULL && k <= e->o.n_shorter; k++) {
        ok = open_way(e->o.backend, program_of(&e->o, k), &e->ways[k]);
    }
    return ok && e->piece != NULL && e->calls != NULL ? HSP_OK : hsp_err_nomem(err, "an engine");
}

static void close_ways(struct hsp_engine *e)
{
    for (uint32_t k = 0; e->ways != NULL && k <= e->o.n_shorter; k++) {
        free(e->ways[k].epilogues);
        free(e->ways[k].routes);
        free(e->ways[k].launches);
    }
    free(e->ways);
    free(e->piece);
    free(e->calls);
}

static enum hsp_status open_memory(struct hsp_engine *e, struct hsp_err *err)
{
    const struct hsp_engine_opts *o = &e->o;
    struct hsp_backend *b = o->backend;
    size_t device = (size_t)hsp_pool_memory(o->program, o->shorter, o->n_shorter);
    size_t host = (size_t)hsp_pool_host(o->program, o->shorter, o->n_shorter);
    enum hsp_status st = b->alloc(b, HSP_MEM_DEVICE, device, (void **)&e->memory, err);
    if (st == HSP_OK) {
        st = b->alloc(b, HSP_MEM_HOST, host, (void **)&e->host, err);
    }
    st = st == HSP_OK ? hsp_staging_init(e, err) : st;
    return st == HSP_OK && o->watches ? hsp_state_watch_open(e, err) : st;
}

static void close_memory(struct hsp_engine *e)
{
    hsp_state_watch_close(e);
    hsp_staging_fini(e);
    e->o.backend->release(e->o.backend, HSP_MEM_DEVICE, e->memory);
    e->o.backend->release(e->o.backend, HSP_MEM_HOST, e->host);
}

/* Returns true if a micro-batch of the program may have @n sequences. */
static bool may_have(const struct hsp_engine *e, uint32_t n)
{
    const struct hsp_pipeline_bind *s = &e->b->pipeline;
    bool found = e->corpus.start != NULL;  /* documents: any number may come */
    for (int last = 0; last < 2; last++) { /* the first micro-batches are the larger ones */
        found = found || (s->n_micro > 0 && hsp_micro_size(s->n_seq, s->n_micro,
                                                           last != 0 ? s->n_micro - 1 : 0) == n);
        found = found ||
                (s->eval_n_micro > 0 && hsp_micro_size(s->eval_n_seq, s->eval_n_micro,
                                                       last != 0 ? s->eval_n_micro - 1 : 0) == n);
    }
    return found;
}

/* Returns the number of micro-batches after which the slots of all tensors have the same alignment
 * again, at most WARM_PLACES. */
static uint32_t places_of(const struct hsp_engine *e)
{
    uint32_t all = 1;
    for (uint32_t k = 0; k < e->t->n_tensors && all < WARM_PLACES; k++) {
        const struct hsp_tensor_bind *t = &e->b->tensor[k];
        uint32_t n = t->slot_bytes % WARM_ALIGN != 0 ? t->n_slots : 1, more = all;
        while (n > 1 && more % n != 0) { /* the least common multiple */
            more += all;
        }
        all = more;
    }
    return all < WARM_PLACES ? all : WARM_PLACES;
}

/* Makes the backend prepare all products for the slots of micro-batch @micro, until *left are
 * done. */
static enum hsp_status warm_at(struct hsp_engine *e, uint32_t micro, uint32_t *left,
                               struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && *left > 0 && k < e->t->n_instrs; k++) {
        if (!hsp_is_product(&e->t->instrs[k])) {
            continue;
        }
        if (e->o.hooks.ended != NULL && e->o.hooks.ended(e->o.hooks.ctx)) {
            return hsp_err_set(err, HSP_ECANCELED, 0, "ended before the first step");
        }
        st = hsp_warm_product(e, k, micro, err);
        --*left;
    }
    return st;
}

/* Makes the backend prepare the products of one program, for each number of sequences that a
 * micro-batch may have, the largest number first. All numbers are done for one position of the
 * tensors' slots before the next position. With documents any number may come; as many are done as
 * WARM_MOST allows. */
static enum hsp_status warm_program(struct hsp_engine *e, struct hsp_err *err)
{
    uint32_t places = places_of(e), left = WARM_MOST;
    enum hsp_status st = HSP_OK;
    for (uint32_t micro = 0; st == HSP_OK && micro < places; micro++) {
        for (uint32_t n = (uint32_t)e->b->symbol[HSP_SYM_BATCH]; st == HSP_OK && n > 0; n--) {
            e->warm_seqs = n;
            st = left > 0 && may_have(e, n) ? warm_at(e, micro, &left, err) : HSP_OK;
        }
    }
    e->warm_seqs = 0;
    return st;
}

/* Takes the scratch of all other ops, for the most sequences that a micro-batch may have. */
static enum hsp_status rehearse_ops(struct hsp_engine *e, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && k < e->t->n_instrs; k++) {
        st = hsp_rehearse_op(e, k, err);
    }
    return st;
}

/* Begins or ends the rehearsal of the device's own transport, which takes the memory that it needs
 * in a step. The binding counts this memory together with that of packed messages, which is taken
 * already. */
static enum hsp_status rehearse_transport(struct hsp_engine *e, bool on, struct hsp_err *err)
{
    struct hsp_comm *c = e->o.direct;
    size_t room = (size_t)hsp_pool_comm(e->o.program, e->o.shorter, e->o.n_shorter);
    size_t packs = e->send.bytes + e->recv.bytes;
    return c != NULL && c->ops->rehearse != NULL
               ? c->ops->rehearse(c, on, room > packs ? room - packs : 0, err)
               : HSP_OK;
}

/* A rehearsal of a step. */
struct rehearsal {
    enum hsp_rehearsal how;
    uint32_t n_seq, n_micro; /* documents: micro-batches with sequences, and how many each has */
    bool validates;          /* before the step */
};

/* Makes the sheet of step 0; of documents, which give each step other numbers of sequences, that of
 * the rehearsal. HSP_ENOMEM. */
static enum hsp_status rehearsal_sheet(struct hsp_engine *e, const struct rehearsal *r)
{
    uint32_t n = e->b->pipeline.n_micro;
    if (e->corpus.start == NULL) {
        return hsp_sheet_train(e->b, &e->corpus, 0, e->arena, &e->sheet);
    }
    struct hsp_micro *m = hsp_arena_array(e->arena, n, sizeof(*m));
    for (uint32_t k = 0; m != NULL && k < n; k++) {
        m[k].n_seq = k < r->n_micro ? r->n_seq : 0;
    }
    e->sheet = (struct hsp_sheet){.n_micro = n, .micro = m};
    return m != NULL ? HSP_OK : HSP_ENOMEM;
}

static enum hsp_status rehearse_schedules(struct hsp_engine *e, const struct rehearsal *r,
                                          struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    hsp_arena_reset(e->arena);
    e->stat[HSP_QUEUE_COMPUTE].n = e->stat[HSP_QUEUE_COMM].n = 0;
    if (r->validates) { /* the same list each time, of documents, too */
        st = hsp_sheet_eval(e->b, &e->corpus, e->arena, &e->sheet);
        st = st == HSP_OK ? hsp_rehearse_schedule(e, &e->b->eval, err)
                          : hsp_err_nomem(err, "the step sheet");
    }
    if (st == HSP_OK) {
        st = rehearsal_sheet(e, r);
        st = st == HSP_OK ? hsp_rehearse_schedule(e, hsp_binding_train(e->b), err)
                          : hsp_err_nomem(err, "the step sheet");
    }
    return st;
}

/* Rehearses one step, or the replayed runs of one. */
static enum hsp_status rehearse_step(struct hsp_engine *e, const struct rehearsal *r,
                                     struct hsp_err *err)
{
    bool all = r->how == HSP_REHEARSE_ALL;
    enum hsp_status st = all ? rehearse_transport(e, true, err) : HSP_OK;
    if (st != HSP_OK) {
        return st;
    }
    e->voted = true; /* the updates run, too */
    e->rehearses = r->how;
    st = rehearse_schedules(e, r, err);
    e->voted = false;
    e->rehearses = HSP_REHEARSE_NONE;
    enum hsp_status end = all ? rehearse_transport(e, false, st == HSP_OK ? err : NULL) : HSP_OK;
    return st == HSP_OK ? end : st;
}

/* Rehearses a step with and a step without validation. Where samples are documents, the first step
 * has the most sequences and takes all memory. The next rehearsals walk replayed runs alone: with
 * fewer sequences in each micro-batch, and with fewer micro-batches, which move the places of
 * statistics. */
static enum hsp_status rehearse_steps(struct hsp_engine *e, struct hsp_err *err)
{
    uint32_t bound = (uint32_t)e->b->symbol[HSP_SYM_BATCH], n = e->b->pipeline.n_micro;
    const uint64_t one = (uint64_t)(e->t->n_instrs + 1) * (n + 1);
    uint64_t steps = e->corpus.start != NULL ? (uint64_t)bound + n : 1;
    bool validates = hsp_step_has_eval(e->b, 0);
    enum hsp_status st = HSP_OK;
    if (e->o.backend->begin == NULL) {
        return HSP_OK;
    }
    e->dry = (struct hsp_comm){
        .ops = &hsp_dry_ops, .rank = e->o.comm->rank, .n_ranks = e->o.comm->n_ranks};
    steps = steps <= REHEARSE_MOST / one ? steps : REHEARSE_MOST / one;
    for (uint32_t k = 0; st == HSP_OK && (k == 0 || k < steps); k++) {
        struct rehearsal r = {.how = k == 0 ? HSP_REHEARSE_ALL : HSP_REHEARSE_RUNS,
                              .n_seq = k < bound ? bound - k : bound,
                              .n_micro = k < bound ? n : n - 1 - (k - bound)};
        st = rehearse_step(e, &r, err);
        r.validates = true;
        st = st == HSP_OK && validates ? rehearse_step(e, &r, err) : st;
    }
    return st;
}

static enum hsp_status rehearse(struct hsp_engine *e, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    enum hsp_status st = HSP_OK, end = HSP_OK;
    for (int q = 0; st == HSP_OK && q < HSP_N_QUEUES; q++) {
        st = b->rehearse(b, hsp_devq_of((enum hsp_queue)q), true, err);
    }
    st = st == HSP_OK ? rehearse_ops(e, err) : st;
    st = st == HSP_OK ? rehearse_steps(e, err) : st;
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        enum hsp_status off = b->rehearse(b, hsp_devq_of((enum hsp_queue)q), false,
                                          st == HSP_OK && end == HSP_OK ? err : NULL);
        end = end == HSP_OK ? off : end;
    }
    return st == HSP_OK ? end : st;
}

/* Prepares products and rehearses, before the first step, when no work of this device waits for a
 * peer. */
static enum hsp_status warm_up(struct hsp_engine *e, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    if (e->o.backend->warm == NULL) {
        return HSP_OK;
    }
    for (uint32_t k = e->o.n_shorter + 1; st == HSP_OK && k > 0; k--) {
        use(e, program_of(&e->o, k - 1));
        st = warm_program(e, err);
        st = st == HSP_OK && e->o.backend->rehearse != NULL ? rehearse(e, err) : st;
    }
    enum hsp_status done = hsp_queue_finish(e, HSP_DEVQ_COMPUTE, st == HSP_OK ? err : NULL);
    return st == HSP_OK ? done : st;
}

static enum hsp_status start_thread(struct hsp_engine *e, struct hsp_err *err)
{
    if (pthread_mutex_init(&e->lock, NULL) != 0) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no mutex");
    }
    if (pthread_cond_init(&e->cond, NULL) != 0) {
        (void)pthread_mutex_destroy(&e->lock);
        return hsp_err_set(err, HSP_ENOMEM, 0, "no condition variable");
    }
    int rc = pthread_create(&e->comm_thread, NULL, hsp_comm_main, e);
    if (rc != 0) {
        (void)pthread_cond_destroy(&e->cond);
        (void)pthread_mutex_destroy(&e->lock);
        return hsp_err_set(err, HSP_ENOMEM, rc, "no communication thread");
    }
    return HSP_OK;
}

enum hsp_status hsp_engine_open(const struct hsp_engine_opts *o, struct hsp_engine **ret,
                                struct hsp_err *err)
{
    const struct hsp_binding *b = &o->program->bind;
    struct hsp_corpus corpus;
    if (o->comm->rank != b->rank || o->comm->n_ranks < b->n_ranks) {
        return hsp_err_set(err, HSP_EINVAL, 0, "program of rank %u of %u, connections of %u of %u",
                           b->rank, b->n_ranks, o->comm->rank, o->comm->n_ranks);
    }
    if (o->direct != NULL && (!o->direct->device || o->direct->rank != b->rank)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "connections of rank %u that are not the device's",
                           o->direct->rank);
    }
    enum hsp_status st = hsp_dataset_corpus(o->dataset, &b->data, &corpus, err);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_engine *e = calloc(1, sizeof(*e));
    if (!e) {
        return hsp_err_nomem(err, "an engine");
    }
    e->o = *o;
    use(e, o->program);
    e->corpus = corpus;
    e->n_noop = o->n_noop;
    e->lone = all_lone(o);
    hsp_pace_init(&e->pace, o->speed, &e->stop);
    e->arena = hsp_arena_new(SHEET_ARENA);
    st = e->arena ? open_memory(e, err) : hsp_err_nomem(err, "sheets");
    if (st == HSP_OK) {
        st = open_ways(e, err);
    }
    if (st == HSP_OK) {
        st = warm_up(e, err);
    }
    if (st == HSP_OK) {
        st = start_thread(e, err);
    }
    if (st != HSP_OK) {
        close_ways(e);
        close_memory(e);
        hsp_arena_free(e->arena);
        free(e);
        return st;
    }
    *ret = e;
    return HSP_OK;
}

void hsp_engine_halt(struct hsp_engine *e)
{
    if (!e || e->halted) {
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    e->state = HSP_RUN_QUIT;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    (void)pthread_join(e->comm_thread, NULL);
    settle(e);
    e->retired = true;
    e->halted = true;
}

struct hsp_engine *hsp_engine_close(struct hsp_engine *e)
{
    if (!e) {
        return NULL;
    }
    hsp_engine_halt(e);
    settle(e); /* so that this thread, too, has finished the tickets */
    (void)pthread_cond_destroy(&e->cond);
    (void)pthread_mutex_destroy(&e->lock);
    (void)hsp_recorder_free(e->rec);
    (void)hsp_recorder_free(e->next_rec);
    (void)hsp_recorder_free(e->last_rec);
    close_ways(e);
    close_memory(e);
    hsp_arena_free(e->arena);
    free(e);
    return NULL;
}

/* ---- tensors ---- */

enum hsp_status hsp_engine_fetch(struct hsp_engine *e, enum hsp_queue q, uint32_t tensor,
                                 uint32_t micro, struct hsp_cell_view *ret, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    struct hsp_cell_view v = hsp_engine_view(e, tensor, micro);
    if (b->device) {
        size_t bytes = hsp_cell_bytes(&v.box, v.dtype);
        void *to = NULL;
        enum hsp_status st = hsp_pack_get(e, &e->fetched[q], bytes, &to, err);
        if (st == HSP_OK) {
            st = b->copy(b, hsp_devq_of(q), to, v.data, bytes, err);
        }
        if (st == HSP_OK) {
            st = hsp_queue_finish(e, hsp_devq_of(q), err);
        }
        if (st != HSP_OK) {
            return st;
        }
        v.data = to;
    }
    *ret = v;
    return HSP_OK;
}

uint32_t hsp_engine_micro(const struct hsp_engine *e, uint32_t micro, uint32_t *ret_first)
{
    uint32_t first = e->eval ? e->b->pipeline.eval_first : e->b->pipeline.first_seq;
    for (uint32_t k = 0; k < micro && k < e->sheet.n_micro; k++) {
        first += e->sheet.micro[k].n_seq;
    }
    *ret_first = first;
    return micro < e->sheet.n_micro ? e->sheet.micro[micro].n_seq : 0;
}
