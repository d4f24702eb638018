/* Divides a data set into training and validation samples and orders the training samples, so that
 * a step number determines its samples (decision D5).
 *
 * A sample is a window of sequence + 1 tokens, or a document or a piece of one. Example: 1,001
 * tokens, sequence 100, no validation: windows begin at tokens 0, 100, ..., 900; neighbours share
 * one token.
 *
 * Purity:    pure.
 * Ownership: a corpus borrows the list of documents. */
#ifndef HSP_CORPUS_H
#define HSP_CORPUS_H
#include "proto/program/program.h"

/* Bit of a sample's first token: a document begins there, else one longer than a sample goes on. */
#define HSP_SAMPLE_HEAD (UINT64_C(1) << 63)

struct hsp_corpus {
    uint64_t n_tokens;        /* of the data set */
    uint64_t train_tokens;    /* [0, train_tokens) trains, the rest validates */
    uint64_t n_train, n_eval; /* samples; those that validate are behind those that train */
    const uint64_t *start;    /* documents: first token of each sample and one behind the last,
                                 with HSP_SAMPLE_HEAD; borrowed. NULL: windows */
};

/* Windows of a data set. A window is sequence + 1 tokens; training windows do not overlap except in
 * that one token. HSP_EINVAL: too short for one window of either split (says how long it must be);
 * samples are documents. */
enum hsp_status hsp_corpus_init(const struct hsp_data_bind *d, uint64_t n_tokens,
                                struct hsp_corpus *ret, struct hsp_err *err);
/* Documents: @start has @n + 1 entries, as in the corpus, which borrows them. Those that end in the
 * part that trains train. HSP_EINVAL: none for training, or for validation. */
enum hsp_status hsp_corpus_documents(const struct hsp_data_bind *d, const uint64_t *start,
                                     uint64_t n, struct hsp_corpus *ret, struct hsp_err *err);
/* Tokens of sample @sample. The samples are documents. */
uint32_t hsp_sample_len(const struct hsp_corpus *c, uint64_t sample);
/* Tokens of all training samples. The samples are documents. */
uint64_t hsp_corpus_tokens(const struct hsp_corpus *c);
/* The training sample at position @i of an endless sequence of permutations of the @n_train
 * training samples, one keyed permutation for each pass over the data. */
uint64_t hsp_sample_at(uint64_t seed, uint64_t n_train, uint64_t i);

#endif
