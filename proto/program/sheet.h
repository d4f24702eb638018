/* Makes step sheets: the samples that a pipeline reads in each micro-batch (decisions D5, D7).
 *
 * A pure function of (data binding, pipeline binding, corpus, step). The global batch of step t is
 * the list of sample indices at positions t*G .. t*G+G-1 of an endless sequence of permutations of
 * the samples that train (one keyed permutation per pass over the data). A sample is a window, and
 * then a sequence of its own, or a document, and then packed with others (pack.h). */
#ifndef HSP_SHEET_H
#define HSP_SHEET_H
#include "proto/program/corpus.h"
#include "proto/program/program.h"

/* A document, or a piece of one, in a sequence. */
struct hsp_passage {
    uint64_t sample, offset; /* number of its first token */
    uint32_t len, col;       /* tokens; column of the first one */
    bool goes_on;            /* the document does behind it: the last token has a label, too */
};

/* Sequences of a micro-batch: windows, or parts. A micro-batch without sequences is not
 * computed. */
struct hsp_micro {
    uint32_t n_seq;
    const uint64_t *offset; /* windows: number of each sequence's first token */
    const uint64_t *sample; /* windows: global sample index of each sequence */
    const uint32_t *first;  /* documents: sequence i is part[first[i]] .. part[first[i + 1] - 1] */
    const struct hsp_passage *part;
};
struct hsp_sheet {
    uint32_t n_micro;
    struct hsp_micro *micro;
};

/* The sheet of step @step for the pipeline of @b. Documents are no longer than b->data.sequence.
 * HSP_ENOMEM. */
enum hsp_status hsp_sheet_train(const struct hsp_binding *b, const struct hsp_corpus *c,
                                uint64_t step, struct hsp_arena *arena, struct hsp_sheet *ret);
/* The sheet of the validation list. */
enum hsp_status hsp_sheet_eval(const struct hsp_binding *b, const struct hsp_corpus *c,
                               struct hsp_arena *arena, struct hsp_sheet *ret);
/* Tokens of the longest sample of step @step; with windows the sequence. */
uint32_t hsp_longest_train(const struct hsp_data_bind *d, const struct hsp_corpus *c,
                           uint64_t step);
/* Tokens of the longest sample of the validation list; with windows the sequence. */
uint32_t hsp_longest_eval(const struct hsp_data_bind *d, const struct hsp_corpus *c);
/* The random keys of sample @sample in step @step, from which dropout draws: 31 bits each, so that
 * a key below 0 is free to say "draw nothing" (evaluation). */
void hsp_sample_keys(const struct hsp_data_bind *d, uint64_t step, uint64_t sample, int32_t ret[2]);
/* Whether step @t (0-based) validates: t % validation_every == 0 or the last step. */
bool hsp_step_has_eval(const struct hsp_binding *b, uint64_t step);
/* Learning rate of step @t (0-based): linear warm-up, then constant or cosine to min_lr. */
double hsp_lr_at(const struct hsp_train_bind *h, uint64_t step);

#endif
