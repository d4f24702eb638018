/* Lowers Post of all stages: gradients from accumulators to homes, the norm, the vote, the update.
 *
 * Purity:    pure. */
#ifndef HSP_LOWER_EPILOGUE_H
#define HSP_LOWER_EPILOGUE_H
#include "daemon/spmd/lower/stage_ir.h"

/* Adds Post to all stages; after lowering. HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_param_post(struct hsp_compiler *c, struct hsp_err *err);

#endif
