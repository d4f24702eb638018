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

enum hsp_status hsp_dataset_load(const struct hsp_dataset *d, const struct hsp_load_spec *s,
                                 int32_t *dst, struct hsp_err *err)
{
    for (uint32_t i = 0; i < s->micro->n_seq; i++) {
        for (int64_t j = 0; j < s->n_cols; j++, dst++) {
            uint64_t at = s->micro->offset[i] + (uint64_t)(s->first_col + j);
            if (s->what == HSP_LOAD_POSITIONS) {
                *dst = (int32_t)(s->first_col + j);
                continue;
            }
            if (s->what == HSP_LOAD_LABELS) {
                at = s->data->next_token_only ? s->micro->offset[i] + s->data->sequence : at + 1;
            }
            enum hsp_status st = token(d, s->data->vocab, at, dst, err);
            if (st != HSP_OK) {
                return st;
            }
        }
    }
    return HSP_OK;
}
