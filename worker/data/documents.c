#include "worker/data/documents.h"

#include <stdlib.h>

#include "proto/base/vec.h"
#include "proto/program/corpus.h"
#include "worker/data/dataset.h"
#include "worker/data/load.h"

#define ASK_TOKENS ((uint64_t)1 << 20) /* read between two questions whether to go on */

struct hsp_data_cut hsp_data_cut_of(const struct hsp_data_bind *d)
{
    if (d->samples != HSP_SAMPLES_DOCUMENTS) {
        return (struct hsp_data_cut){0};
    }
    return (struct hsp_data_cut){
        .documents = true, .packing = d->packing, .separator = d->separator, .longest = d->longest};
}

bool hsp_data_cut_equal(const struct hsp_data_cut *a, const struct hsp_data_cut *b)
{
    return a->documents == b->documents && a->packing == b->packing &&
           a->separator == b->separator && a->longest == b->longest;
}

struct list {
    uint64_t *start; /* owned */
    size_t n, cap;
};

static enum hsp_status add(struct list *l, uint64_t token, struct hsp_err *err)
{
    if (!hsp_grow(&l->start, &l->cap, l->n + 1, sizeof *l->start, HSP_MAX_SAMPLES + 1)) {
        return hsp_grow_error(l->n + 1, HSP_MAX_SAMPLES, "documents of the data", err);
    }
    l->start[l->n++] = token;
    return HSP_OK;
}

/* The document of tokens [at, end). */
static enum hsp_status add_document(struct list *l, uint64_t at, uint64_t end, uint32_t longest,
                                    struct hsp_err *err)
{
    enum hsp_status st = add(l, at | HSP_SAMPLE_HEAD, err);
    for (uint64_t piece = at + longest; st == HSP_OK && piece < end; piece += longest) {
        st = add(l, piece, err);
    }
    return st;
}

enum hsp_status hsp_dataset_cut(struct hsp_dataset *d, const struct hsp_data_cut *cut,
                                const struct hsp_data_stop *stop, struct hsp_err *err)
{
    struct list l = {0};
    enum hsp_status st = HSP_OK;
    uint64_t asked = 0;
    if (!cut->documents) {
        return HSP_OK;
    }
    for (uint64_t at = 0, next; at < d->n_tokens && st == HSP_OK; at = next) {
        if (stop != NULL && at - asked >= ASK_TOKENS) {
            asked = at;
            if (stop->asked(stop->ctx)) {
                st = hsp_err_set(err, HSP_ECANCELED, 0, "listing documents was given up");
                break;
            }
        }
        next = hsp_dataset_next(d, cut, at, d->n_tokens);
        st = add_document(&l, at, next, cut->longest, err);
    }
    if (st == HSP_OK) {
        st = add(&l, d->n_tokens | HSP_SAMPLE_HEAD, err);
    }
    if (st != HSP_OK) {
        free(l.start);
        return st;
    }
    free(d->start);
    d->start = l.start;
    d->n_samples = l.n - 1;
    d->cut = *cut;
    return HSP_OK;
}

enum hsp_status hsp_dataset_corpus(const struct hsp_dataset *d, const struct hsp_data_bind *b,
                                   struct hsp_corpus *ret, struct hsp_err *err)
{
    struct hsp_data_cut cut = hsp_data_cut_of(b);
    if (!cut.documents) {
        return hsp_corpus_init(b, d->n_tokens, ret, err);
    }
    if (!hsp_data_cut_equal(&cut, &d->cut)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "the documents of the data are not listed");
    }
    return hsp_corpus_documents(b, d->start, d->n_samples, ret, err);
}
