/* Tokens of windows into the tensors of a micro-batch. */
#include <inttypes.h> /* PRIu64 */

#include "worker/data/dataset.h"

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

enum hsp_status hsp_dataset_check(const struct hsp_dataset *d, uint32_t vocab, struct hsp_err *err)
{
    for (uint32_t k = 0; k < d->n_files; k++) {
        const struct hsp_data_file *f = &d->file[k];
        uint64_t i = hsp_token_outside(&f->tokens, f->all.data, vocab);
        if (i < f->tokens.n) {
            return token_error(f, i, vocab, err);
        }
    }
    return HSP_OK;
}

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

/* The first token behind @at, and below @end, that begins a document; @end when there is none. Each
 * file begins one. */
static uint64_t next_document(const struct hsp_dataset *d, const struct hsp_data_bind *b,
                              uint64_t at, uint64_t end)
{
    const struct hsp_data_file *f = file_of(d, at);
    uint64_t stop = f->begin + f->tokens.n, i = at - f->begin;
    stop = stop < end ? stop : end;
    if (b->packing == HSP_PACKING_INDEX) {
        uint64_t next = f->begin + hsp_megatron_start(&f->index, hsp_megatron_next(&f->index, i));
        return next < end ? next : end;
    }
    for (i += b->packing == HSP_PACKING_START; ++at < stop; i++) {
        if (hsp_token_get(&f->tokens, f->all.data, i) == b->separator) {
            return at;
        }
    }
    return stop;
}

/* One sequence, from token @first on. */
static enum hsp_status load_row(const struct hsp_dataset *d, const struct hsp_load_spec *s,
                                uint64_t first, int32_t *dst, struct hsp_err *err)
{
    uint64_t end = first + s->data->sequence + 1, start = first, next = end;
    end = end < d->n_tokens ? end : d->n_tokens;
    if (s->data->packing != HSP_PACKING_NONE && first < end) {
        next = next_document(d, s->data, first, end);
    }
    enum hsp_status st = HSP_OK;
    for (int64_t j = 0; j < s->n_cols && st == HSP_OK; j++, dst++) {
        uint64_t at = first + (uint64_t)(s->first_col + j);
        while (at >= next && next < end) {
            start = next;
            next = next_document(d, s->data, start, end);
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

enum hsp_status hsp_dataset_load(const struct hsp_dataset *d, const struct hsp_load_spec *s,
                                 int32_t *dst, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; i < s->micro->n_seq && st == HSP_OK; i++, dst += s->n_cols) {
        st = load_row(d, s, s->micro->offset[i], dst, err);
    }
    return st;
}
