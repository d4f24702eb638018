/* Runs collectives by NCCL: one call where the pieces are equal. Uneven pieces are padded for one
 * call, or get one call each, all in one group (hsp_nccl_shape). */
#include "worker/comm/nccl/nccl_sum.h"

#include <inttypes.h> /* PRIu32 */

#include "worker/comm/nccl/nccl_abort.h"
#include "worker/comm/nccl/nccl_agree.h"
#include "worker/comm/nccl/nccl_comm.h"
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/comm/nccl/nccl_send.h"
#include "worker/comm/nccl/nccl_stage.h"

/* One collective under way to the library. */
struct call {
    struct hsp_nccl_comm *c;
    const struct hsp_nccl_lib *lib;
    const struct hsp_nccl_group *g;
    struct nccl_comm *handle;
    void *stream;
    const char *what;
    enum hsp_dtype type;
    size_t elem; /* bytes of an element */
};

static enum hsp_status find_group(struct hsp_nccl_comm *c, const struct hsp_group *g,
                                  const struct hsp_nccl_group **ret, struct hsp_err *err)
{
    for (uint32_t k = 0; k < c->n_groups; k++) {
        const struct hsp_nccl_group *x = &c->group[k];
        bool same = x->n == g->n && (x->link != NULL || x->n == 1);
        for (uint32_t i = 0; i < g->n && same; i++) {
            same = x->ranks[i] == g->ranks[i];
        }
        if (same) {
            *ret = x;
            return HSP_OK;
        }
    }
    return hsp_err_set(err, HSP_EINVAL, 0,
                       "no communicator for %" PRIu32 " ranks from rank %" PRIu32, g->n,
                       g->ranks[0]);
}

static enum hsp_status end(const struct call *k, enum nccl_result r, struct hsp_err *err)
{
    const struct hsp_link_given g = {.q = HSP_DEVQ_COMM, .n_ops = 1, .what = k->what};
    struct hsp_err why = {0};
    if (hsp_link_end(k->g->link, &g, r, &why) != HSP_OK) {
        hsp_nccl_kill(k->c, &why);
        return hsp_nccl_alive(k->c, err);
    }
    return HSP_OK;
}

/* Begins every collective: messages posted before come first. *ret_alone: there is nothing to
 * call. */
static enum hsp_status begin(struct hsp_nccl_comm *c, const struct hsp_group *g, const char *what,
                             enum hsp_dtype t, struct call *ret, struct hsp_err *err)
{
    const struct hsp_nccl_group *x = NULL;
    enum hsp_status st = hsp_nccl_flush(c, err);
    st = st == HSP_OK ? hsp_nccl_alive(c, err) : st;
    st = st == HSP_OK ? find_group(c, g, &x, err) : st;
    if (st != HSP_OK) {
        return st;
    }
    *ret = (struct call){
        .c = c, .lib = &c->of->lib, .g = x, .what = what, .type = t, .elem = hsp_dtype_size(t)};
    if (x->link == NULL) {
        return HSP_OK;
    }
    ret->stream = c->of->o.backend->native(c->of->o.backend, HSP_DEVQ_COMM);
    struct hsp_err why = {0};
    st = hsp_link_begin(x->link, c, &ret->handle, &why);
    if (st != HSP_OK) {
        hsp_nccl_kill(c, &why);
        return hsp_nccl_alive(c, err);
    }
    st = hsp_nccl_alive(c, err); /* again: kill marks @c dead first, then looks at links */
    if (st != HSP_OK) {
        (void)end(ret, NCCL_SUCCESS, NULL);
    }
    return st;
}

static bool goes_on(enum nccl_result r)
{
    return r == NCCL_SUCCESS || r == NCCL_IN_PROGRESS;
}

static enum hsp_status copy_own(const struct call *k, void *to, const void *from, size_t bytes,
                                struct hsp_err *err)
{
    struct hsp_backend *b = k->c->of->o.backend;
    return to != from ? b->copy(b, HSP_DEVQ_COMM, to, from, bytes, err) : HSP_OK;
}

static size_t sum_of(const size_t *count, uint32_t n)
{
    size_t s = 0;
    for (uint32_t k = 0; k < n; k++) {
        s += count[k];
    }
    return s;
}

/* Elements of the longest piece, rounded up to a multiple of 16 bytes, at which the library's loads
 * are widest. */
static size_t longest_of(const size_t *count, uint32_t n, size_t elem)
{
    size_t s = 0;
    for (uint32_t k = 0; k < n; k++) {
        s = count[k] > s ? count[k] : s;
    }
    return (s * elem + 15) / 16 * 16 / elem;
}

/* ---- pieces filled up to the longest ---- */

/* Takes memory for a piece of each member, as long as the longest. Without memory nothing is
 * called: the others wait until this rank's epoch ends. */
static enum hsp_status pad_take(const struct call *k, size_t piece, struct hsp_nccl_stage **ret,
                                struct hsp_err *err)
{
    if (hsp_nccl_stage_take(k->c, k->g->n * piece, HSP_NCCL_QUEUED, ret, err) != HSP_OK) {
        (void)end(k, NCCL_SUCCESS, NULL); /* the missing memory is the error to report */
        return HSP_ENOMEM;
    }
    return HSP_OK;
}

static enum hsp_status pad_back(const struct call *k, struct hsp_nccl_stage *s, enum hsp_status st,
                                struct hsp_err *err)
{
    struct hsp_backend *b = k->c->of->o.backend;
    s->q = HSP_DEVQ_COMM;
    st = st == HSP_OK ? b->mark(b, s->q, &s->ticket, err) : st;
    s->taken = st != HSP_OK;
    return st;
}

/* Copies one piece at @from into its place of @piece bytes; the rest gets zeros. */
static enum hsp_status pad_put(const struct call *k, uint8_t *to, const void *from, size_t bytes,
                               size_t piece, struct hsp_err *err)
{
    struct hsp_backend *b = k->c->of->o.backend;
    enum hsp_status st = bytes > 0 ? b->copy(b, HSP_DEVQ_COMM, to, from, bytes, err) : HSP_OK;
    return st == HSP_OK && bytes < piece ? b->fill(b, HSP_DEVQ_COMM, k->type, to + bytes, 0.0,
                                                   (int64_t)((piece - bytes) / k->elem), err)
                                         : st;
}

/* Ends a call that failed before the library was called. */
static enum hsp_status not_called(const struct call *k, enum hsp_status st)
{
    (void)end(k, NCCL_SUCCESS, NULL);
    return st;
}

static enum hsp_status gather_padded(const struct call *k, const size_t *count, const void *in,
                                     uint8_t *out, struct hsp_err *err)
{
    struct hsp_nccl_stage *s = NULL;
    struct hsp_backend *b = k->c->of->o.backend;
    size_t piece = longest_of(count, k->g->n, k->elem) * k->elem, own = count[k->g->me] * k->elem;
    enum hsp_status st = pad_take(k, piece, &s, err);
    if (st != HSP_OK) {
        return st;
    }
    uint8_t *all = s->data, *mine = all + k->g->me * piece;
    st = pad_put(k, mine, in, own, piece, err);
    st = st == HSP_OK
             ? end(k, k->lib->AllGather(mine, all, piece, NCCL_INT8, k->handle, k->stream), err)
             : not_called(k, st);
    for (uint32_t i = 0; i < k->g->n && st == HSP_OK; i++) {
        size_t bytes = count[i] * k->elem;
        if (bytes > 0 && (i != k->g->me || out != in)) {
            st = b->copy(b, HSP_DEVQ_COMM, out, all + i * piece, bytes, err);
        }
        out += bytes;
    }
    return pad_back(k, s, st, err);
}

static enum hsp_status scatter_padded(const struct call *k, const size_t *count,
                                      enum nccl_type type, const uint8_t *in, void *out,
                                      struct hsp_err *err)
{
    struct hsp_nccl_stage *s = NULL;
    struct hsp_backend *b = k->c->of->o.backend;
    size_t longest = longest_of(count, k->g->n, k->elem), piece = longest * k->elem;
    size_t own = count[k->g->me] * k->elem;
    enum hsp_status st = pad_take(k, piece, &s, err);
    if (st != HSP_OK) {
        return st;
    }
    uint8_t *all = s->data, *mine = all + k->g->me * piece;
    for (uint32_t i = 0; i < k->g->n && st == HSP_OK; i++) {
        st = pad_put(k, all + i * piece, in, count[i] * k->elem, piece, err);
        in += count[i] * k->elem;
    }
    st = st == HSP_OK
             ? end(k,
                   k->lib->ReduceScatter(all, mine, longest, type, NCCL_SUM, k->handle, k->stream),
                   err)
             : not_called(k, st);
    if (st == HSP_OK && own > 0) {
        st = b->copy(b, HSP_DEVQ_COMM, out, mine, own, err);
    }
    return pad_back(k, s, st, err);
}

/* ---- rehearsal ---- */

/* The memory of a gather or a scattered sum: pieces that are filled up (pad_take). */
static void want_padded(struct hsp_nccl_comm *c, const size_t *count, uint32_t n, size_t elem)
{
    if (n > 1 && hsp_nccl_shape_of(count, n, elem) == HSP_NCCL_PADDED) {
        hsp_nccl_stage_want(c, n * longest_of(count, n, elem) * elem, HSP_NCCL_QUEUED);
    }
}

/* Notes the stage of a maximum: the addends of all. */
static void want_addends(struct hsp_nccl_comm *c, size_t count, uint32_t n, size_t elem)
{
    if (n > 1 && count > 0) {
        hsp_nccl_stage_want(c, n * count * elem, HSP_NCCL_QUEUED);
    }
}

/* ---- gather ---- */

/* Gathers; the own piece is at @in, which may be its place in @out. */
static enum nccl_result gather_call(const struct call *k, const size_t *count, bool even,
                                    const void *in, uint8_t *out)
{
    const struct hsp_nccl_lib *lib = k->lib;
    if (even) {
        return lib->AllGather(in, out, count[0] * k->elem, NCCL_INT8, k->handle, k->stream);
    }
    enum nccl_result r = lib->GroupStart();
    if (r != NCCL_SUCCESS) {
        return r;
    }
    for (uint32_t i = 0; i < k->g->n && goes_on(r); i++) {
        if (count[i] > 0) {
            r = lib->Broadcast(i == k->g->me ? in : out, out, count[i] * k->elem, NCCL_INT8, (int)i,
                               k->handle, k->stream);
        }
        out += count[i] * k->elem;
    }
    enum nccl_result ended = lib->GroupEnd();
    return goes_on(r) ? ended : r;
}

static enum hsp_status all_gather(struct hsp_comm *base, const struct hsp_group *g,
                                  uint32_t channel, enum hsp_dtype t, const void *in,
                                  const size_t *count, void *out, struct hsp_err *err)
{
    struct call k;
    (void)channel; /* the n-th collective of a communicator is the n-th on all its members */
    if (hsp_nccl_of(base)->wants.on) {
        want_padded(hsp_nccl_of(base), count, g->n, hsp_dtype_size(t));
        return HSP_OK;
    }
    enum hsp_status st = begin(hsp_nccl_of(base), g, "all-gather", t, &k, err);
    if (st != HSP_OK) {
        return st;
    }
    if (k.g->link == NULL) {
        return copy_own(&k, out, in, count[0] * k.elem, err);
    }
    switch (hsp_nccl_shape_of(count, g->n, k.elem)) {
    case HSP_NCCL_NOTHING: return end(&k, NCCL_SUCCESS, err);
    case HSP_NCCL_PADDED: return gather_padded(&k, count, in, out, err);
    case HSP_NCCL_EVEN: return end(&k, gather_call(&k, count, true, in, out), err);
    case HSP_NCCL_GROUPED: break;
    }
    return end(&k, gather_call(&k, count, false, in, out), err);
}

/* ---- maxima ---- */

/* Which elements of all are wanted. */
struct part {
    size_t first, count, of;
};

/* Takes the largest addend of each element of the part, from the addends at @all, one behind the
 * other, to @to. */
static enum hsp_status take_largest(const struct call *k, enum hsp_dtype t, uint8_t *all,
                                    const struct part *p, void *to, struct hsp_err *err)
{
    struct hsp_backend *b = k->c->of->o.backend;
    struct hsp_box box = {.rank = 1, .hi = {(int64_t)p->count}};
    struct hsp_cell_view dst = {.data = to, .box = box, .dtype = t};
    struct hsp_cell_view src = {.box = box, .dtype = t};
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; i < k->g->n && st == HSP_OK && p->count > 0; i++) {
        src.data = all + (i * p->of + p->first) * hsp_dtype_size(t);
        st = b->cells(b, HSP_DEVQ_COMM, &dst, &src, &box, i == 0 ? HSP_CELLS_COPY : HSP_CELLS_MAX,
                      err);
    }
    return st;
}

static enum hsp_status largest(const struct call *k, enum hsp_dtype t, const void *in,
                               const struct part *p, void *out, struct hsp_err *err)
{
    struct hsp_nccl_stage *s = NULL;
    size_t bytes = p->of * hsp_dtype_size(t);
    enum hsp_status st = pad_take(k, bytes, &s, err);
    if (st != HSP_OK) {
        return st;
    }
    st = end(k, k->lib->AllGather(in, s->data, bytes, NCCL_INT8, k->handle, k->stream), err);
    st = st == HSP_OK ? take_largest(k, t, s->data, p, out, err) : st;
    return pad_back(k, s, st, err);
}

/* ---- sums ---- */

static enum hsp_status type_of(enum hsp_dtype t, enum nccl_type *ret, struct hsp_err *err)
{
    return hsp_nccl_type(t, ret)
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0, "no sums of %s by NCCL", hsp_dtype_name(t));
}

static enum hsp_status all_reduce(struct hsp_comm *base, const struct hsp_group *g,
                                  uint32_t channel, enum hsp_dtype t, enum hsp_reduce how,
                                  void *buf, size_t count, struct hsp_err *err)
{
    struct hsp_nccl_comm *c = hsp_nccl_of(base);
    struct call k;
    enum nccl_type type;
    (void)channel;
    if (c->wants.on) {
        want_addends(c, how == HSP_REDUCE_MAX ? count : 0, g->n, hsp_dtype_size(t));
        return HSP_OK;
    }
    enum hsp_status st = type_of(t, &type, err);
    st = st == HSP_OK ? begin(c, g, "all-reduce", t, &k, err) : st;
    if (st != HSP_OK || k.g->link == NULL) {
        return st;
    }
    if (count == 0) {
        return end(&k, NCCL_SUCCESS, err);
    }
    if (how == HSP_REDUCE_MAX) {
        return largest(&k, t, buf, &(struct part){0, count, count}, buf, err);
    }
    return end(&k, k.lib->AllReduce(buf, buf, count, type, NCCL_SUM, k.handle, k.stream), err);
}

static enum nccl_result scatter_call(const struct call *k, const size_t *count, enum nccl_type type,
                                     const uint8_t *in, void *out)
{
    const struct hsp_nccl_lib *lib = k->lib;
    enum nccl_result r = lib->GroupStart();
    if (r != NCCL_SUCCESS) {
        return r;
    }
    for (uint32_t i = 0; i < k->g->n && goes_on(r); i++) {
        if (count[i] > 0) {
            r = lib->Reduce(in, i == k->g->me ? out : NULL, count[i], type, NCCL_SUM, (int)i,
                            k->handle, k->stream);
        }
        in += count[i] * k->elem;
    }
    enum nccl_result ended = lib->GroupEnd();
    return goes_on(r) ? ended : r;
}

static enum hsp_status scatter_sums(const struct call *k, const size_t *count, enum nccl_type type,
                                    const void *in, void *out, struct hsp_err *err)
{
    switch (hsp_nccl_shape_of(count, k->g->n, k->elem)) {
    case HSP_NCCL_NOTHING: return end(k, NCCL_SUCCESS, err);
    case HSP_NCCL_PADDED: return scatter_padded(k, count, type, in, out, err);
    case HSP_NCCL_EVEN:
        return end(
            k, k->lib->ReduceScatter(in, out, count[0], type, NCCL_SUM, k->handle, k->stream), err);
    case HSP_NCCL_GROUPED: break;
    }
    return end(k, scatter_call(k, count, type, in, out), err);
}

static enum hsp_status reduce_scatter(struct hsp_comm *base, const struct hsp_group *g,
                                      uint32_t channel, enum hsp_dtype t, enum hsp_reduce how,
                                      const void *in, const size_t *count, void *out,
                                      struct hsp_err *err)
{
    struct hsp_nccl_comm *c = hsp_nccl_of(base);
    struct call k;
    enum nccl_type type;
    size_t total = sum_of(count, g->n), before = sum_of(count, g->me);
    (void)channel;
    if (c->wants.on && how == HSP_REDUCE_MAX) {
        want_addends(c, total, g->n, hsp_dtype_size(t));
    } else if (c->wants.on) {
        want_padded(c, count, g->n, hsp_dtype_size(t));
    }
    if (c->wants.on) {
        return HSP_OK;
    }
    enum hsp_status st = type_of(t, &type, err);
    st = st == HSP_OK ? begin(c, g, "reduce-scatter", t, &k, err) : st;
    if (st != HSP_OK) {
        return st;
    }
    if (k.g->link == NULL) {
        return copy_own(&k, out, in, total * k.elem, err);
    }
    if (how == HSP_REDUCE_MAX && total > 0) {
        return largest(&k, t, in, &(struct part){before, count[g->me], total}, out, err);
    }
    return scatter_sums(&k, count, type, in, out, err);
}

const struct hsp_collect_ops hsp_nccl_collect = {
    .all_reduce = all_reduce, .reduce_scatter = reduce_scatter, .all_gather = all_gather};
