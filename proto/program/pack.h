/* Packs the documents of a step into sequences, and deals these to pipelines and micro-batches.
 *
 * Best-fit decreasing (Johnson, Near-optimal bin packing algorithms, 1973): documents, longest
 * first, each into the sequence that it leaves the least room in. The sequences, sorted by the cost
 * of their attention, are put in the order of reversed bits of their ranks, so that any run of them
 * holds cheap and dear ones alike. A pipeline takes the run at its place in the global batch, cut
 * into micro-batches.
 *
 * Purity: pure; a function of the samples alone, so every rank finds the same.
 */
#ifndef HSP_PACK_H
#define HSP_PACK_H
#include "proto/program/sheet.h"

struct hsp_pack_order {
    uint32_t sequence;       /* tokens of a sequence, >= every sample */
    uint32_t n;              /* samples of the list, which are never more sequences than that */
    uint32_t first, n_seq;   /* the pipeline's run of the list: its share of the sequences */
    uint32_t n_micro, bound; /* micro-batches of at most bound sequences, n_seq of them in all */
    uint32_t n_stages;       /* of the pipeline: micro-batches enough to fill its pipeline */
};

/* @sample: o->n samples of @c. All o->n_micro micro-batches of @ret are there; those behind the
 * last sequence have none. HSP_ENOMEM. */
enum hsp_status hsp_pack_step(const struct hsp_pack_order *o, const struct hsp_corpus *c,
                              const uint64_t *sample, struct hsp_arena *arena,
                              struct hsp_sheet *ret);

#endif
