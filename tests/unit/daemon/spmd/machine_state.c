/* Stores the machine's tensors: making it, state tensors in and out, cells. */
#include <math.h>

#include "proto/layout/box.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/spmd/machine_impl.h"

/* ---- cells ---- */

uint8_t machine_dtype(uint8_t dtype)
{
    return hsp_dtype_real((enum hsp_dtype)dtype) ? HSP_F64 : dtype;
}

size_t machine_cell_bytes(const struct hsp_box *c, uint8_t dtype)
{
    return (size_t)hsp_box_count(c) * hsp_dtype_size((enum hsp_dtype)dtype);
}

/* Calls itself over dims; @packed walks on. */
static void walk(const struct machine_view *v, const struct hsp_box *c, uint8_t d, int64_t at,
                 uint8_t **packed, bool pack)
{
    size_t e = hsp_dtype_size((enum hsp_dtype)v->dtype);
    if (d == c->rank) {
        uint8_t *x = v->data + (size_t)at * e;
        memcpy(pack ? *packed : x, pack ? x : *packed, e);
        *packed += e;
        return;
    }
    for (int64_t i = c->lo[d]; i < c->hi[d]; i++) {
        assert_true(i >= v->box.lo[d]);
        assert_true(i < v->box.hi[d]);
        walk(v, c, (uint8_t)(d + 1), at * (v->box.hi[d] - v->box.lo[d]) + i - v->box.lo[d], packed,
             pack);
    }
}

void machine_pack(const struct machine_view *v, const struct hsp_box *c, uint8_t *to)
{
    walk(v, c, 0, 0, &to, true);
}

void machine_unpack(const struct machine_view *v, const struct hsp_box *c, uint8_t *from)
{
    walk(v, c, 0, 0, &from, false);
}

struct hsp_array machine_array(const struct machine_view *v)
{
    struct hsp_array a = {.data = v->data, .dtype = (enum hsp_dtype)v->dtype, .rank = v->box.rank};
    for (uint8_t d = 0; d < a.rank; d++) {
        a.ext[d] = v->box.hi[d] - v->box.lo[d];
    }
    return a;
}

/* ---- state ---- */

static uint8_t *zalloc(int64_t bytes)
{
    void *p = NULL;
    size_t n = (size_t)bytes + 64;
    assert_int_equal(posix_memalign(&p, 64, n), 0);
    memset(p, 0, n);
    return p;
}

struct hsp_machine *hsp_machine_new(const struct hsp_program *p, uint32_t n, uint64_t seed,
                                    hsp_machine_input input)
{
    struct hsp_machine *m = calloc(1, sizeof *m);
    assert_non_null(m);
    *m = (struct hsp_machine){.n = n, .seed = seed, .input = input};
    m->r = calloc(n, sizeof *m->r);
    assert_non_null(m->r);
    for (uint32_t i = 0; i < n; i++) {
        struct machine_rank *r = &m->r[i];
        r->p = &p[i];
        r->mem = zalloc(WIDE * p[i].bind.memory_bytes);
        r->host = zalloc(WIDE * p[i].bind.host_bytes);
        r->state = zalloc(WIDE * p[i].bind.state_bytes);
        r->tag = calloc((size_t)(p[i].bind.memory_bytes + p[i].bind.host_bytes) / BLOCK + 1,
                        sizeof *r->tag);
        r->grad = calloc(p[i].bind.n_state + 1, sizeof *r->grad);
        r->grad_box = calloc(p[i].bind.n_state + 1, sizeof *r->grad_box);
        assert_non_null(r->tag);
        assert_non_null(r->grad);
        assert_non_null(r->grad_box);
        for (uint32_t k = 0; k < p[i].bind.n_reshards; k++) {
            const struct hsp_reshard_bind *b = &p[i].bind.reshard[k];
            for (uint32_t j = 0; j < b->n_moves; j++) {
                uint32_t c = b->moves[j].channel + 1;
                m->n_channels = c > m->n_channels ? c : m->n_channels;
            }
        }
    }
    m->count = calloc((size_t)m->n_channels * n + 1, sizeof *m->count);
    assert_non_null(m->count);
    return m;
}

void hsp_machine_free(struct hsp_machine *m)
{
    machine_reset(m);
    for (uint32_t i = 0; i < m->n; i++) {
        struct machine_rank *r = &m->r[i];
        for (uint32_t k = 0; k < r->p->bind.n_state; k++) {
            free(r->grad[k]);
        }
        free(r->grad);
        free(r->grad_box);
        free(r->mem);
        free(r->host);
        free(r->state);
        free(r->tag);
    }
    free(m->r);
    free(m->lane);
    free(m->count);
    free(m);
}

/* Row-major number in the whole tensor of element @i of @box. */
static int64_t whole_index(const struct hsp_array *whole, const struct hsp_box *box, int64_t i)
{
    int64_t at = 0, scale = 1;
    for (uint8_t d = box->rank; d-- > 0;) {
        int64_t ext = box->hi[d] - box->lo[d];
        at += (box->lo[d] + i % ext) * scale;
        i /= ext;
        scale *= whole->ext[d];
    }
    return at;
}

/* State tensor @i of a rank, if it is of this kind of the parameter; else data is NULL. */
static struct machine_view state_view(const struct machine_rank *r, uint32_t i, uint32_t param,
                                      uint8_t kind)
{
    const struct hsp_state_bind *s = &r->p->bind.state[i];
    const struct hsp_tensor_bind *t = &r->p->bind.tensor[s->tensor];
    if (s->tensor_id != param || r->p->tpl.tensors[s->tensor].state_kind != kind) {
        return (struct machine_view){0};
    }
    return (struct machine_view){.data = r->state + WIDE * t->offset,
                                 .box = t->box,
                                 .dtype = machine_dtype(r->p->tpl.tensors[s->tensor].dtype)};
}

void hsp_machine_set_state(struct hsp_machine *m, uint32_t param, uint8_t kind,
                           const struct hsp_array *whole)
{
    for (uint32_t i = 0; i < m->n; i++) {
        for (uint32_t s = 0; s < m->r[i].p->bind.n_state; s++) {
            struct machine_view v = state_view(&m->r[i], s, param, kind);
            struct hsp_array a = machine_array(&v);
            for (int64_t k = 0; v.data != NULL && k < hsp_naive_count(&a); k++) {
                hsp_naive_put(&a, k, hsp_naive_get(whole, whole_index(whole, &v.box, k)));
            }
        }
    }
}

/* Folds |a - whole| into *worst and marks the elements as seen. */
static void fold(const struct hsp_array *a, const struct hsp_box *box,
                 const struct hsp_array *whole, bool *seen, double *worst)
{
    for (int64_t k = 0; k < hsp_naive_count(a); k++) {
        int64_t at = whole_index(whole, box, k);
        double e = fabs(hsp_naive_get(a, k) - hsp_naive_get(whole, at));
        *worst = e > *worst || isnan(e) ? e : *worst;
        seen[at] = true;
    }
}

static double all_seen(const struct hsp_array *whole, bool *seen, double worst)
{
    for (int64_t k = 0; k < hsp_naive_count(whole); k++) {
        worst = seen[k] ? worst : -1;
    }
    free(seen);
    return worst;
}

double hsp_machine_state_error(const struct hsp_machine *m, uint32_t param, uint8_t kind,
                               const struct hsp_array *whole)
{
    bool *seen = calloc((size_t)hsp_naive_count(whole) + 1, sizeof *seen);
    double worst = 0;
    assert_non_null(seen);
    for (uint32_t i = 0; i < m->n; i++) {
        for (uint32_t s = 0; s < m->r[i].p->bind.n_state; s++) {
            struct machine_view v = state_view(&m->r[i], s, param, kind);
            if (v.data != NULL) {
                struct hsp_array a = machine_array(&v);
                fold(&a, &v.box, whole, seen, &worst);
            }
        }
    }
    return all_seen(whole, seen, worst);
}

double hsp_machine_grad_error(const struct hsp_machine *m, uint32_t param,
                              const struct hsp_array *whole)
{
    bool *seen = calloc((size_t)hsp_naive_count(whole) + 1, sizeof *seen);
    double worst = 0;
    assert_non_null(seen);
    for (uint32_t i = 0; i < m->n; i++) {
        const struct machine_rank *r = &m->r[i];
        for (uint32_t s = 0; s < r->p->bind.n_state; s++) {
            if (r->grad[s] != NULL && r->p->bind.state[s].tensor_id == param) {
                struct machine_view v = {
                    .data = (uint8_t *)r->grad[s], .box = r->grad_box[s], .dtype = HSP_F64};
                struct hsp_array a = machine_array(&v);
                fold(&a, &v.box, whole, seen, &worst);
            }
        }
    }
    return all_seen(whole, seen, worst);
}

/* Whether two state tensors have the same bits where both have something. */
static bool equal_bits(const struct machine_view *a, const struct machine_view *b)
{
    struct hsp_box both;
    if (a->data == NULL || b->data == NULL || !hsp_box_cut(&a->box, &b->box, &both)) {
        return true;
    }
    size_t bytes = machine_cell_bytes(&both, a->dtype);
    uint8_t *x = malloc(2 * bytes + 1);
    assert_non_null(x);
    machine_pack(a, &both, x);
    machine_pack(b, &both, x + bytes);
    bool same = memcmp(x, x + bytes, bytes) == 0;
    free(x);
    return same;
}

bool hsp_machine_replicas_equal(const struct hsp_machine *m, uint32_t param, uint8_t kind)
{
    bool same = true;
    for (uint32_t i = 0; i < m->n; i++) {
        for (uint32_t s = 0; s < m->r[i].p->bind.n_state; s++) {
            struct machine_view a = state_view(&m->r[i], s, param, kind);
            for (uint32_t j = 0; a.data != NULL && j < i; j++) {
                for (uint32_t t = 0; t < m->r[j].p->bind.n_state; t++) {
                    struct machine_view b = state_view(&m->r[j], t, param, kind);
                    same = same && equal_bits(&a, &b);
                }
            }
        }
    }
    return same;
}

bool hsp_machine_same_state(const struct hsp_machine *a, const struct hsp_machine *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; i < a->n && same; i++) {
        int64_t bytes = a->r[i].p->bind.state_bytes;
        same = bytes == b->r[i].p->bind.state_bytes &&
               memcmp(a->r[i].state, b->r[i].state, (size_t)bytes * WIDE) == 0;
    }
    return same;
}
