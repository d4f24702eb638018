/* @@SENTENCE@@ offload: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_OFFLOAD_H
#define HSP_OFFLOAD_H
#include "daemon/spmd/lower/stage_ir.h"

/* What Forward leaves for Backward waits in host memory; after the backward is split.
 * HSP_ENOMEM; HSP_ELIMIT: too many tensors or instructions. */
enum hsp_status hsp_offload_stage(struct hsp_compiler *c, struct hsp_stagecode *s,
                                  struct hsp_err *err);

#endif
