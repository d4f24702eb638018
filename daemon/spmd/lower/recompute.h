/* @@SENTENCE@@ recompute: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_RECOMPUTE_H
#define HSP_RECOMPUTE_H
#include "daemon/spmd/lower/stage_ir.h"

/* Backward computes again what it reads, instead of keeping it; after lowering. */
enum hsp_status hsp_recompute_stage(struct hsp_compiler *c, struct hsp_stagecode *s,
                                    struct hsp_err *err);

#endif
