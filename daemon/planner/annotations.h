/* Chooses the first hand-written plan of a job that its devices can run, so that a user's plan goes
 * before the planner's.
 *
 * Purity: pure and deterministic. */
#ifndef HSP_ANNOTATIONS_H
#define HSP_ANNOTATIONS_H
#include "daemon/planner/planner.h"

/* The first plan that needs no more than @n_devices. Every text up to it must be a plan for @g.
 * HSP_ENOENT: none fits (the planner's turn); HSP_EPARSE, HSP_EINVAL with the file's name. */
enum hsp_status hsp_annotations_pick(uint32_t n, const struct hsp_plan_text *texts,
                                     const struct hsp_graph *g, uint32_t global_batch,
                                     uint32_t n_devices, struct hsp_arena *arena,
                                     struct hsp_plan **ret, uint32_t *ret_index,
                                     struct hsp_err *err);

#endif
