#include "worker/data/load.h"

#include <inttypes.h> /* PRIu64 */

#include "proto/base/le.h"
#include "worker/data/dataset.h"

#define SLAB ((size_t)1 << 20) /* hashed, then compared while it is in the processor's cache */

/* The file that holds token @at (< n_tokens) of the stream. */
static const struct hsp_data_file *file_of(const struct hsp_dataset *d, uint64_t at)
{
    uint32_t lo = 0, hi = d->n_files - 1;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2;
        if (d->file[mid].begin <= at) {
            lo = mid;
        } else {
            hi = mid - 1;
        }
    }
    return &d->file[lo];
}

static enum hsp_status token_error(const struct hsp_data_file *f, uint64_t i, uint32_t vocab,
                                   struct hsp_err *err)
{
    return hsp_err_set(err, HSP_EINVAL, 0,
                       "%s: token %" PRId64 " at position %" PRIu64
                       " is outside the vocabulary of %u (model.vocab)",
                       f->name, hsp_token_get(&f->tokens, f->all.data, i), i, vocab);
}

/* ---- all of it ---- */

struct reading {
    uint32_t vocab;
    const struct hsp_data_stop *stop; /* NULL: is not asked */
    struct hsp_hasher *hasher;        /* NULL: no digest is wanted */
};

/* Compares the tokens of @f from *@next on that end at byte @end or before; *@next is then the
 * first of those behind. */
static enum hsp_status compare(const struct reading *r, const struct hsp_data_file *f, size_t end,
                               uint64_t *next, struct hsp_err *err)
{
    size_t width = hsp_token_size(f->tokens.type);
    uint64_t upto = end > f->tokens.first ? (end - f->tokens.first) / width : 0;
    upto = upto < f->tokens.n ? upto : f->tokens.n;
    struct hsp_token_span part = {
        .type = f->tokens.type, .first = f->tokens.first + *next * width, .n = upto - *next};
    uint64_t i = hsp_token_outside(&part, f->all.data, r->vocab);
    if (i < part.n) {
        return token_error(f, *next + i, r->vocab, err);
    }
    *next = upto;
    return HSP_OK;
}

/* @b: one of the files of @f; its size goes before it into the digest unless it is the first. */
static enum hsp_status read_bytes(const struct reading *r, const struct hsp_data_file *f,
                                  const struct hsp_data_bytes *b, bool first, struct hsp_err *err)
{
    uint8_t size[8];
    uint64_t next = 0;
    enum hsp_status st = HSP_OK;
    hsp_le_put(size, b->n, 8);
    if (r->hasher != NULL && !first) {
        hsp_hasher_update(r->hasher, size, sizeof(size));
    }
    for (size_t at = 0, n; at < b->n && st == HSP_OK; at += n) {
        n = b->n - at < SLAB ? b->n - at : SLAB;
        if (r->stop != NULL && r->stop->asked(r->stop->ctx)) {
            return hsp_err_set(err, HSP_ECANCELED, 0, "reading %s was given up", f->name);
        }
        if (r->hasher != NULL) {
            hsp_hasher_update(r->hasher, b->data + at, n);
        }
        st = b == &f->all ? compare(r, f, at + n, &next, err) : HSP_OK;
    }
    return st;
}

enum hsp_status hsp_dataset_read(const struct hsp_dataset *d, uint32_t vocab,
                                 const struct hsp_data_stop *stop, struct hsp_digest *ret,
                                 struct hsp_err *err)
{
    struct reading r = {.vocab = vocab, .stop = stop};
    enum hsp_status st = HSP_OK;
    if (ret != NULL && (r.hasher = hsp_hasher_new()) == NULL) {
        return hsp_err_nomem(err, "the digest of the data");
    }
    for (uint32_t k = 0; k < d->n_files && st == HSP_OK; k++) {
        const struct hsp_data_file *f = &d->file[k];
        st = read_bytes(&r, f, &f->all, k == 0, err);
        if (st == HSP_OK && f->idx.data != NULL) {
            st = read_bytes(&r, f, &f->idx, false, err);
        }
    }
    if (st == HSP_OK && ret != NULL) {
        *ret = hsp_hasher_digest(r.hasher);
    }
    (void)hsp_hasher_free(r.hasher);
    return st;
}

/* ---- windows ---- */

static enum hsp_status token(const struct hsp_dataset *d, uint32_t vocab, uint64_t at, int32_t *ret,
                             struct hsp_err *err)
{
    if (at >= d->n_tokens) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "token %" PRIu64 " is outside the data of %" PRIu64 " tokens", at,
                           d->n_tokens);
    }
    const struct hsp_data_file *f = file_of(d, at);
    int64_t v = hsp_token_get(&f->tokens, f->all.data, at - f->begin);
    if (v < 0 || v >= vocab) {
        return token_error(f, at - f->begin, vocab, err);
    }
    *ret = (int32_t)v;
    return HSP_OK;
}

uint64_t hsp_dataset_next(const struct hsp_dataset *d, const struct hsp_data_cut *cut, uint64_t at,
                          uint64_t end)
{
    const struct hsp_data_file *f = file_of(d, at);
    uint64_t stop = f->begin + f->tokens.n, i = at - f->begin;
    stop = stop < end ? stop : end;
    if (cut->packing == HSP_PACKING_INDEX) {
        uint64_t next = f->begin + hsp_megatron_start(&f->index, hsp_megatron_next(&f->index, i));
        return next < end ? next : end;
    }
    for (i += cut->packing == HSP_PACKING_START; ++at < stop; i++) {
        if (hsp_token_get(&f->tokens, f->all.data, i) == cut->separator) {
            return at;
        }
    }
    return stop;
}

/* One sequence, from token @first on. */
static enum hsp_status load_row(const struct hsp_dataset *d, const struct hsp_load_spec *s,
                                uint64_t first, int32_t *dst, struct hsp_err *err)
{
    const struct hsp_data_cut cut = {.packing = s->data->packing, .separator = s->data->separator};
    uint64_t end = first + s->data->sequence + 1, start = first, next = end;
    end = end < d->n_tokens ? end : d->n_tokens;
    if (s->data->packing != HSP_PACKING_NONE && first < end) {
        next = hsp_dataset_next(d, &cut, first, end);
    }
    enum hsp_status st = HSP_OK;
    for (int64_t j = 0; j < s->n_cols && st == HSP_OK; j++, dst++) {
        uint64_t at = first + (uint64_t)(s->first_col + j);
        while (at >= next && next < end) {
            start = next;
            next = hsp_dataset_next(d, &cut, start, end);
        }
        switch (s->what) {
        case HSP_LOAD_POSITIONS: *dst = (int32_t)(at - start); break;
        case HSP_LOAD_STARTS: *dst = (int32_t)(start - first); break;
        case HSP_LOAD_LABELS:
            at = s->data->next_token_only ? first + s->data->sequence : at + 1;
            *dst = -1;
            st = at == next && next < end ? HSP_OK : token(d, s->data->vocab, at, dst, err);
            break;
        case HSP_LOAD_KEYS:
        case HSP_LOAD_IDS: st = token(d, s->data->vocab, at, dst, err); break;
        }
    }
    return st;
}

/* One column of a sequence of documents, of @p or behind the last of them. */
static enum hsp_status load_column(const struct hsp_dataset *d, const struct hsp_load_spec *s,
                                   const struct hsp_passage *p, int64_t col, int32_t *dst,
                                   struct hsp_err *err)
{
    uint64_t at = (uint64_t)col - p->col;
    bool inside = at < p->len;
    switch (s->what) {
    case HSP_LOAD_POSITIONS: *dst = inside ? (int32_t)at : 0; return HSP_OK;
    case HSP_LOAD_STARTS: *dst = (int32_t)(inside ? p->col : col); return HSP_OK;
    case HSP_LOAD_LABELS:
        *dst = -1;
        return inside && (at + 1 < p->len || p->goes_on)
                   ? token(d, s->data->vocab, p->offset + at + 1, dst, err)
                   : HSP_OK;
    case HSP_LOAD_KEYS:
    case HSP_LOAD_IDS:
        *dst = 0;
        return inside ? token(d, s->data->vocab, p->offset + at, dst, err) : HSP_OK;
    }
    return HSP_OK;
}

/* One sequence of @n documents. */
static enum hsp_status load_parts(const struct hsp_dataset *d, const struct hsp_load_spec *s,
                                  const struct hsp_passage *p, uint32_t n, int32_t *dst,
                                  struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    uint32_t k = 0;
    for (int64_t j = 0; j < s->n_cols && st == HSP_OK; j++, dst++) {
        int64_t col = s->first_col + j;
        while (k + 1 < n && col >= (int64_t)p[k + 1].col) {
            k++;
        }
        st = load_column(d, s, &p[k], col, dst, err);
    }
    return st;
}

enum hsp_status hsp_dataset_load(const struct hsp_dataset *d, const struct hsp_load_spec *s,
                                 int32_t *dst, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    const struct hsp_micro *m = s->micro;
    for (uint32_t i = 0; i < m->n_seq && st == HSP_OK; i++, dst += s->n_cols) {
        if (m->first == NULL) {
            st = load_row(d, s, m->offset[i], dst, err);
        } else {
            uint32_t n = m->first[i + 1] - m->first[i];
            st = load_parts(d, s, m->part + m->first[i], n, dst, err);
        }
    }
    return st;
}
