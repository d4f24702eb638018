/* Moves the tensors that Forward leaves for Backward into host memory, so that they lie on the
 * device only while a layer uses them (Rhu et al., vDNN, 2016).
 *
 * A value that a part of Forward makes and a part of Backward reads is copied out behind its last
 * use in the part that makes it; each half of Backward that reads it copies it in again, into a
 * value of its own. Tensors that Forward hands on to another chunk or stage go as before.
 *
 * Copies stand one layer (block, embedding, head) away from the uses: out behind the layer after
 * the last use, in at the beginning of the layer before the next use. The communication queue runs
 * them, so they take place while that layer computes, and the device needs memory for two layers.
 *
 * Role:      called by lower_plan.c after split_backward.c, for stages with `saved: offload`.
 * Purity:    pure. */
#ifndef HSP_OFFLOAD_H
#define HSP_OFFLOAD_H
#include "daemon/spmd/lower/stage_ir.h"

/* Adds the copies out and in to @s; after the backward is split.
 * HSP_ENOMEM; HSP_ELIMIT: too many tensors or instructions. */
enum hsp_status hsp_offload_stage(struct hsp_compiler *c, struct hsp_stagecode *s,
                                  struct hsp_err *err);

#endif
