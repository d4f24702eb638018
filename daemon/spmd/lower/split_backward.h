/* @@SENTENCE@@ split_backward: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_SPLIT_BACKWARD_H
#define HSP_SPLIT_BACKWARD_H
#include "daemon/spmd/lower/stage_ir.h"

/* Of a stage that splits its backward, moves to WGRAD what only parameters wait for; after
 * recomputation. */
enum hsp_status hsp_split_backward(struct hsp_stagecode *s, struct hsp_err *err);

#endif
