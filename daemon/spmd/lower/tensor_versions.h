/* Gives a stage a version of a graph tensor in a wanted layout: an existing version, or a new one
 * with the Reshard that makes it.
 *
 * A Reshard that communicates stands right behind the step that makes its source, so that other
 * work may run beside it; a local slice stands before its use. Tensors of the data are read again
 * in place of a Reshard.
 *
 * Role:      called by lower_pipeline.c and ring_attention.c.
 * Purity:    pure. */
#ifndef HSP_TENSOR_VERSIONS_H
#define HSP_TENSOR_VERSIONS_H
#include "daemon/spmd/lower/stage_ir.h"

/* Whether every member reads the tensor itself: inputs from the data, and the seed. */
bool hsp_tensor_is_read(const struct hsp_compiler *c, uint32_t tensor);
/* The version of @tensor on @s in layout @at, made in @part if there is none. */
enum hsp_status hsp_version_want(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                                 uint32_t tensor, const struct hsp_layout *at, uint32_t *ret,
                                 struct hsp_err *err);
/* The version to start from: the first complete one, else the first; HSP_NONE without any. */
uint32_t hsp_version_best(const struct hsp_stagecode *s, uint32_t tensor);

#endif
