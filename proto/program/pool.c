#include "proto/program/pool.h"

#include <string.h> /* memcmp */

#include "proto/layout/box.h"
#include "proto/program/program_check.h"

static enum hsp_status differs(const struct hsp_program *p, const char *what, struct hsp_err *err)
{
    return hsp_err_set(err, HSP_EPARSE, 0, "pool: the plan for %u tokens has another %s",
                       p->bind.data.sequence, what);
}

static bool same_data(const struct hsp_data_bind *a, const struct hsp_data_bind *b)
{
    return a->samples == HSP_SAMPLES_DOCUMENTS && b->samples == HSP_SAMPLES_DOCUMENTS &&
           a->seed == b->seed && a->global_batch == b->global_batch &&
           a->eval_seqs == b->eval_seqs && a->longest == b->longest && a->vocab == b->vocab &&
           a->validation_every == b->validation_every &&
           !(a->validation_fraction < b->validation_fraction) &&
           !(b->validation_fraction < a->validation_fraction) && a->format == b->format &&
           a->packing == b->packing && a->separator == b->separator;
}

static bool same_steps(const struct hsp_train_bind *a, const struct hsp_train_bind *b)
{
    const double x[] = {a->lr, a->min_lr, a->clip_norm, a->beta1, a->beta2};
    const double y[] = {b->lr, b->min_lr, b->clip_norm, b->beta1, b->beta2};
    return memcmp(x, y, sizeof x) == 0 && a->steps == b->steps &&
           a->warmup_steps == b->warmup_steps && a->schedule == b->schedule &&
           a->optimizer == b->optimizer && a->tf32 == b->tf32;
}

static bool same_state(const struct hsp_program *a, const struct hsp_program *b)
{
    bool same = a->bind.state_bytes == b->bind.state_bytes && a->bind.n_state == b->bind.n_state;
    for (uint32_t i = 0; i < a->bind.n_state && same; i++) {
        const struct hsp_state_bind *x = &a->bind.state[i], *y = &b->bind.state[i];
        const struct hsp_ptensor *t = &a->tpl.tensors[x->tensor], *u = &b->tpl.tensors[y->tensor];
        const struct hsp_tensor_bind *s = &a->bind.tensor[x->tensor],
                                     *v = &b->bind.tensor[y->tensor];
        same = x->tensor_id == y->tensor_id && t->state_kind == u->state_kind &&
               t->dtype == u->dtype && s->offset == v->offset && hsp_box_equal(&s->box, &v->box) &&
               hsp_box_equal(&x->full, &y->full);
    }
    return same;
}

enum hsp_status hsp_pool_check(const struct hsp_program *one,
                               const struct hsp_program *const *shorter, uint32_t n_shorter,
                               struct hsp_err *err)
{
    if (n_shorter > HSP_MAX_POOL) {
        return hsp_err_set(err, HSP_EPARSE, 0, "pool of more than %d plans", HSP_MAX_POOL);
    }
    for (uint32_t k = 0; k < n_shorter; k++) {
        const struct hsp_program *p = shorter[k];
        uint32_t next =
            k + 1 < n_shorter ? shorter[k + 1]->bind.data.sequence : one->bind.data.sequence;
        if (p->bind.rank != one->bind.rank || p->bind.n_ranks != one->bind.n_ranks) {
            return differs(p, "rank", err);
        }
        if (p->bind.data.sequence >= next) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "pool: the plan for %u tokens is before that "
                               "for %u",
                               p->bind.data.sequence, next);
        }
        if (!same_data(&p->bind.data, &one->bind.data)) {
            return differs(p, "choice of data", err);
        }
        if (!same_steps(&p->bind.hyper, &one->bind.hyper)) {
            return differs(p, "course of training", err);
        }
        if (!same_state(one, p)) {
            return differs(p, "home of the state", err);
        }
    }
    return HSP_OK;
}

const struct hsp_program *hsp_pool_pick(const struct hsp_program *one,
                                        const struct hsp_program *const *shorter,
                                        uint32_t n_shorter, uint32_t longest)
{
    for (uint32_t k = 0; k < n_shorter; k++) {
        if (longest <= shorter[k]->bind.data.sequence) {
            return shorter[k];
        }
    }
    return one;
}

static int64_t memory_bytes(const struct hsp_program *p)
{
    return p->bind.memory_bytes;
}

static int64_t host_bytes(const struct hsp_program *p)
{
    return p->bind.host_bytes;
}

static int64_t comm_bytes(const struct hsp_program *p)
{
    return p->bind.comm_bytes;
}

/* The most that one of them needs: they take turns. */
static int64_t most(int64_t (*bytes)(const struct hsp_program *), const struct hsp_program *one,
                    const struct hsp_program *const *shorter, uint32_t n_shorter)
{
    int64_t ret = bytes(one);
    for (uint32_t k = 0; k < n_shorter; k++) {
        int64_t b = bytes(shorter[k]);
        ret = b > ret ? b : ret;
    }
    return ret;
}

int64_t hsp_pool_memory(const struct hsp_program *one, const struct hsp_program *const *shorter,
                        uint32_t n_shorter)
{
    return most(memory_bytes, one, shorter, n_shorter);
}

int64_t hsp_pool_host(const struct hsp_program *one, const struct hsp_program *const *shorter,
                      uint32_t n_shorter)
{
    return most(host_bytes, one, shorter, n_shorter);
}

int64_t hsp_pool_comm(const struct hsp_program *one, const struct hsp_program *const *shorter,
                      uint32_t n_shorter)
{
    return most(comm_bytes, one, shorter, n_shorter);
}

int64_t hsp_pool_wide(const struct hsp_program *one, const struct hsp_program *const *shorter,
                      uint32_t n_shorter)
{
    return most(hsp_program_wide, one, shorter, n_shorter);
}
