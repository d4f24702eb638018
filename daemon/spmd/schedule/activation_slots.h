/* Counts the instances of each MICRO or HOST tensor that a rank holds.
 *
 * A tensor is alive for a micro-batch from the first pass of the rank's order that touches it to
 * the last one. Micro-batch i has instance i mod n_slots; n_slots is the smallest number under
 * which no two micro-batches that are alive at once share an instance.
 *
 * Example: 1f1b, first of two stages: at most 2 micro-batches are between forward and backward, so
 * activations have 2 instances.
 *
 * Purity: pure. */
#ifndef HSP_ACTIVATION_SLOTS_H
#define HSP_ACTIVATION_SLOTS_H
#include "daemon/spmd/schedule/pipeline_order.h"

/* Fills n_slots of each tensor of @p; its template is complete. HSP_ENOMEM. */
enum hsp_status hsp_slots_assign(struct hsp_program *p, const struct hsp_pipeline_order *o,
                                 struct hsp_err *err);

#endif
