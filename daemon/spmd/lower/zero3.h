/* Gathers parameters that are stored cut for each use, and adds up their gradients where they are
 * stored (Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models,
 * 2020, stage 3), while layers compute (Zhao et al., PyTorch FSDP: experiences on scaling fully
 * sharded data parallel, 2023).
 *
 * In each part a layer (a block, the embedding, the head) gathers all its parameters when the layer
 * before it begins, into tensors that live until its last reader. Its gradients are reduced to the
 * accumulators of their homes when it ends, and added up there when the next layer has ended: two
 * layers' memory is enough. Ranks of other pipelines, which may have other micro-batches, take
 * their part in both in SERVE (zero3_rendezvous.h). A parameter whose home is its use stays as it
 * is; a parameter that several ranks store keeps the accumulator of its use.
 *
 * Role:      called by lower_plan.c after lowering, before Post.
 * Purity:    pure. */
#ifndef HSP_ZERO3_H
#define HSP_ZERO3_H
#include "daemon/spmd/lower/stage_ir.h"

/* Adds the gathers and reductions of zero 3 to all stages. HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_param_gather(struct hsp_compiler *c, struct hsp_err *err);

#endif
