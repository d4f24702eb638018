/* @@SENTENCE@@ zero3: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_ZERO3_H
#define HSP_ZERO3_H
#include "daemon/spmd/lower/stage_ir.h"

/* With zero 3, parameters are gathered in the parts that read them, and gradients added
 * up in those that make them; after lowering, before Post. */
enum hsp_status hsp_param_gather(struct hsp_compiler *c, struct hsp_err *err);

#endif
