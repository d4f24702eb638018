#include "worker/exec/engine.h"

#include <inttypes.h> /* PRId64 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/program/pool.h"
#include "worker/exec/runner.h"

#define SHEET_ARENA ((size_t)256 << 20) /* 2^20 sequences of 16 bytes, with room */

/* ---- the two queues ---- */

/* Records the first failure and wakes everybody; hangs up so that a blocked operation returns. */
static void fail(struct hsp_engine *e, const struct hsp_err *why)
{
    (void)pthread_mutex_lock(&e->lock);
    if (e->failure.code == HSP_OK) {
        e->failure = *why;
    }
    atomic_store(&e->stop, 1);
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    e->o.comm->ops->abort(e->o.comm);
}

/* Waits until the other queue has @count entries done. False: stopped. */
static bool wait_for(struct hsp_engine *e, enum hsp_queue other, uint32_t count,
                     _Atomic int64_t *waited)
{
    (void)pthread_mutex_lock(&e->lock);
    if (e->done[other] < count && atomic_load(&e->stop) == 0) {
        int64_t from = hsp_clock_ns();
        while (e->done[other] < count && atomic_load(&e->stop) == 0) {
            (void)pthread_cond_wait(&e->cond, &e->lock);
        }
        *waited += hsp_clock_ns() - from;
    }
    bool go = atomic_load(&e->stop) == 0;
    (void)pthread_mutex_unlock(&e->lock);
    return go;
}

static void run_queue(struct hsp_engine *e, enum hsp_queue q)
{
    enum hsp_queue other = q == HSP_QUEUE_COMPUTE ? HSP_QUEUE_COMM : HSP_QUEUE_COMPUTE;
    const struct hsp_sched *s = e->sched;
    struct hsp_err err = {0};
    _Atomic int64_t idle = 0, *busy = q == HSP_QUEUE_COMPUTE ? &e->compute_ns : &e->comm_ns;
    for (uint32_t k = 0; k < s->n[q]; k++) {
        if (!wait_for(e, other, s->e[q][k].wait, q == HSP_QUEUE_COMPUTE ? &e->wait_ns : &idle)) {
            return;
        }
        int64_t from = hsp_clock_ns();
        enum hsp_status st = hsp_run_piece(e, &s->e[q][k], q, &err);
        *busy += hsp_clock_ns() - from;
        if (st != HSP_OK) {
            err.code = st; /* a hook may leave the record empty */
            fail(e, &err);
            return;
        }
        (void)pthread_mutex_lock(&e->lock);
        e->done[q]++;
        (void)pthread_cond_broadcast(&e->cond);
        (void)pthread_mutex_unlock(&e->lock);
    }
}

static void *comm_main(void *arg)
{
    struct hsp_engine *e = arg;
    (void)pthread_mutex_lock(&e->lock);
    while (e->state != HSP_RUN_QUIT) {
        if (e->state == HSP_RUN_IDLE) {
            (void)pthread_cond_wait(&e->cond, &e->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&e->lock);
        run_queue(e, HSP_QUEUE_COMM);
        (void)pthread_mutex_lock(&e->lock);
        e->state = HSP_RUN_IDLE;
        (void)pthread_cond_broadcast(&e->cond);
    }
    (void)pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* Runs both queues of a schedule to their end, or to a failure; both threads are out on return. */
static void run_schedule(struct hsp_engine *e, const struct hsp_sched *s, bool eval)
{
    (void)pthread_mutex_lock(&e->lock);
    e->sched = s;
    e->eval = eval;
    e->done[0] = e->done[1] = 0;
    e->state = HSP_RUN_GO;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    run_queue(e, HSP_QUEUE_COMPUTE);
    (void)pthread_mutex_lock(&e->lock);
    int64_t from = hsp_clock_ns();
    while (e->state == HSP_RUN_GO) {
        (void)pthread_cond_wait(&e->cond, &e->lock);
    }
    e->wait_ns += hsp_clock_ns() - from;
    e->sched = NULL;
    (void)pthread_mutex_unlock(&e->lock);
}

/* ---- steps ---- */

/* The programs of a pool take turns: nothing but the state outlives a step, or its validation. */
static void use(struct hsp_engine *e, const struct hsp_program *p)
{
    e->program = p;
    e->t = &p->tpl;
    e->b = &p->bind;
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
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the step sheet");
    }
    run_schedule(e, &e->b->eval, true);
    return HSP_OK;
}

static enum hsp_status run_train(struct hsp_engine *e, struct hsp_err *err)
{
    if (atomic_load(&e->stop) != 0) {
        return HSP_OK; /* the failure is reported by the step */
    }
    const struct hsp_program *one = e->o.program;
    use(e, hsp_pool_pick(one, e->o.shorter, e->o.n_shorter,
                         hsp_longest_train(&one->bind.data, &e->corpus, e->step)));
    if (hsp_sheet_train(e->b, &e->corpus, e->step, e->arena, &e->sheet) != HSP_OK) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the step sheet");
    }
    run_schedule(e, &e->b->train, false);
    return HSP_OK;
}

static enum hsp_status step_end(struct hsp_engine *e, struct hsp_err *err)
{
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_err why = e->failure;
    (void)pthread_mutex_unlock(&e->lock);
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
    e->voted = false;
    e->late_ns = e->compute_ns - e->voted_ns;
    e->voted_ns = 0;
    e->compute_ns = e->wait_ns = e->comm_ns = 0;
    e->comm_bytes = 0;
    memset(e->stat, 0, sizeof(e->stat));
    hsp_arena_reset(e->arena);
    enum hsp_status st = run_eval(e, err);
    if (st == HSP_OK) {
        st = run_train(e, err);
    }
    if (st == HSP_OK) {
        st = step_end(e, err);
    } else {
        struct hsp_err why = {.code = st};
        fail(e, err ? err : &why);
    }
    if (st != HSP_OK) {
        return st;
    }
    *ret = (struct hsp_step_result){.vote = e->vote,
                                    .n_noop = e->n_noop,
                                    .sequence = e->b->data.sequence,
                                    .seconds = (double)(hsp_clock_ns() - from) * 1e-9,
                                    .compute_s = (double)e->compute_ns * 1e-9,
                                    .wait_s = (double)e->wait_ns * 1e-9,
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
}

/* ---- life ---- */

static enum hsp_status map_area(int64_t bytes, const char *what, uint8_t **ret, struct hsp_err *err)
{
    if (bytes == 0) {
        return HSP_OK;
    }
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no %s for %" PRId64 " bytes", what, bytes);
    }
    *ret = p;
    return HSP_OK;
}

static enum hsp_status map_memory(struct hsp_engine *e, struct hsp_err *err)
{
    enum hsp_status st = map_area(e->memory_bytes, "memory", &e->memory, err);
    return st == HSP_OK ? map_area(e->host_bytes, "host memory", &e->host, err) : st;
}

static void unmap_memory(struct hsp_engine *e)
{
    if (e->memory) {
        (void)munmap(e->memory, (size_t)e->memory_bytes);
    }
    if (e->host) {
        (void)munmap(e->host, (size_t)e->host_bytes);
    }
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
    int rc = pthread_create(&e->comm_thread, NULL, comm_main, e);
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
    enum hsp_status st = hsp_dataset_corpus(o->dataset, &b->data, &corpus, err);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_engine *e = calloc(1, sizeof(*e));
    if (!e) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for an engine");
    }
    e->o = *o;
    use(e, o->program);
    e->memory_bytes = hsp_pool_memory(o->program, o->shorter, o->n_shorter);
    e->host_bytes = hsp_pool_host(o->program, o->shorter, o->n_shorter);
    e->corpus = corpus;
    e->n_noop = o->n_noop;
    hsp_pace_init(&e->pace, o->speed, &e->stop);
    e->arena = hsp_arena_new(SHEET_ARENA);
    st = e->arena ? map_memory(e, err) : hsp_err_set(err, HSP_ENOMEM, 0, "no memory for sheets");
    if (st == HSP_OK) {
        st = start_thread(e, err);
    }
    if (st != HSP_OK) {
        unmap_memory(e);
        hsp_arena_free(e->arena);
        free(e);
        return st;
    }
    *ret = e;
    return HSP_OK;
}

struct hsp_engine *hsp_engine_close(struct hsp_engine *e)
{
    if (!e) {
        return NULL;
    }
    (void)pthread_mutex_lock(&e->lock);
    e->state = HSP_RUN_QUIT;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    (void)pthread_join(e->comm_thread, NULL);
    (void)pthread_cond_destroy(&e->cond);
    (void)pthread_mutex_destroy(&e->lock);
    unmap_memory(e);
    free(e->send.data);
    free(e->recv.data);
    free(e->local.data);
    hsp_arena_free(e->arena);
    free(e);
    return NULL;
}

/* ---- tensors ---- */

struct hsp_view hsp_engine_view(const struct hsp_engine *e, uint32_t tensor, uint32_t micro,
                                unsigned slot)
{
    const struct hsp_ptensor *p = &e->t->tensors[tensor];
    const struct hsp_tensor_bind *b = &e->b->tensor[tensor];
    struct hsp_view v = {.box = b->box, .dtype = (enum hsp_dtype)p->dtype};
    if (p->cls == HSP_CLASS_STATE) {
        v.data = (uint8_t *)e->o.slot[slot] + b->offset;
    } else {
        uint8_t *area = p->cls == HSP_CLASS_HOST ? e->host : e->memory;
        v.data = area + b->offset + (int64_t)(micro % b->n_slots) * b->slot_bytes;
    }
    if (b->batch_dim0 && e->sched && micro < e->sheet.n_micro) {
        v.box.hi[0] = e->sheet.micro[micro].n_seq;
    }
    return v;
}

struct hsp_view hsp_operand(const struct hsp_engine *e, uint32_t tensor, uint32_t micro,
                            bool output)
{
    return hsp_engine_view(e, tensor, micro, (unsigned)((e->step + (output ? 1 : 0)) & 1));
}

uint32_t hsp_engine_micro(const struct hsp_engine *e, uint32_t micro, uint32_t *ret_first)
{
    uint32_t first = e->eval ? e->b->stream.eval_first : e->b->stream.first_seq;
    for (uint32_t k = 0; k < micro && k < e->sheet.n_micro; k++) {
        first += e->sheet.micro[k].n_seq;
    }
    *ret_first = first;
    return micro < e->sheet.n_micro ? e->sheet.micro[micro].n_seq : 0;
}

void *hsp_pack_get(struct hsp_pack *p, size_t bytes)
{
    if (p->bytes < bytes || !p->data) {
        free(p->data);
        p->data = NULL;
        p->bytes = 0;
        size_t round = (bytes + 4095) / 4096 * 4096 + 4096;
        if (posix_memalign(&p->data, 64, round) != 0) {
            p->data = NULL;
            return NULL;
        }
        p->bytes = round;
    }
    return p->data;
}
