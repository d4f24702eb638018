/* Cuts Backward of a stage in two, so that gradients of weights can fill the gaps of a pipeline (Qi
 * et al., Zero bubble pipeline parallelism, 2023).
 *
 * Steps that another stage or another layer waits for stay. Moved to WGRAD are the accumulations,
 * and every step whose results only moved steps read, with the communication inside of the stage. A
 * gradient from a step that stays (a norm gives the gradients of its input and of its scale at
 * once) is added where it is made, so that it is not kept. Values that both halves read live until
 * the later half.
 *
 * Role:      called by lower_plan.c after recomputation, for pipelines with the zero_bubble
 * schedule.
 * Purity:    pure. */
#ifndef HSP_SPLIT_BACKWARD_H
#define HSP_SPLIT_BACKWARD_H
#include "daemon/spmd/lower/stage_ir.h"

/* Moves the steps that only accumulators wait for from Backward to WGRAD, of a stage that splits
 * its backward; after recomputation. HSP_ENOMEM. */
enum hsp_status hsp_split_backward(struct hsp_stagecode *s, struct hsp_err *err);

#endif
