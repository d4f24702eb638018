/* Step sheets: which samples a stream reads in each micro-batch (decisions D5, D7).
 *
 * A pure function of (data binding, stream binding, number of tokens, step). The global batch of
 * step t is the list of sample indices at positions t*G .. t*G+G-1 of an endless sequence of
 * permutations of the training windows (one keyed permutation per pass over the data). */
#ifndef HSP_SHEET_H
#define HSP_SHEET_H
#include "proto/program/program.h"

struct hsp_corpus {
    uint64_t n_tokens;        /* of the data set */
    uint64_t train_tokens;    /* [0, train_tokens) trains, the rest validates */
    uint64_t n_train, n_eval; /* windows */
};

struct hsp_micro {
    uint32_t n_seq;
    const uint64_t *offset; /* number of each sequence's first token */
    const uint64_t *sample; /* global sample index of each sequence */
};
struct hsp_sheet {
    uint32_t n_micro;
    struct hsp_micro *micro;
};

/* Windows of a data set. A window is sequence + 1 tokens; training windows do not overlap except in
 * that one token. HSP_EINVAL: too short for one window of either split (says how long it must be).
 */
enum hsp_status hsp_corpus_init(const struct hsp_data_bind *d, uint64_t n_tokens,
                                struct hsp_corpus *ret, struct hsp_err *err);
/* Sample index at position @i of the endless sequence. */
uint64_t hsp_sample_at(uint64_t seed, uint64_t n_train, uint64_t i);
/* Sizes of micro-batches: n_seq into n_micro parts as even as possible, larger first. */
uint32_t hsp_micro_size(uint32_t n_seq, uint32_t n_micro, uint32_t micro);
enum hsp_status hsp_sheet_train(const struct hsp_binding *b, const struct hsp_corpus *c,
                                uint64_t step, struct hsp_arena *arena, struct hsp_sheet *ret);
enum hsp_status hsp_sheet_eval(const struct hsp_binding *b, const struct hsp_corpus *c,
                               struct hsp_arena *arena, struct hsp_sheet *ret);
/* The random keys of sample @sample in step @step, from which dropout draws: 31 bits each, so that a
 * key below 0 is free to say "draw nothing" (evaluation). */
void hsp_sample_keys(const struct hsp_data_bind *d, uint64_t step, uint64_t sample, int32_t ret[2]);
/* Whether step @t (0-based) validates: t % validation_every == 0 or the last step. */
bool hsp_step_has_eval(const struct hsp_binding *b, uint64_t step);
/* Learning rate of step @t (0-based): linear warm-up, then constant or cosine to min_lr. */
double hsp_lr_at(const struct hsp_train_bind *h, uint64_t step);

#endif
