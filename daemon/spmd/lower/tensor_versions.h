/* @@SENTENCE@@ tensor_versions: purpose to be written. */
#ifndef HSP_TENSOR_VERSIONS_H
#define HSP_TENSOR_VERSIONS_H
#include "daemon/spmd/lower/stage_ir.h"

bool hsp_tensor_is_read(const struct hsp_compiler *c, uint32_t tensor);
/* Some version of @tensor of @s in layout @at, made in @part if there is none. */
enum hsp_status hsp_version_want(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                                 uint32_t tensor, const struct hsp_layout *at, uint32_t *ret,
                                 struct hsp_err *err);
/* The version to start from: the first complete one, else the first. */
uint32_t hsp_version_best(const struct hsp_stagecode *s, uint32_t tensor);

#endif
