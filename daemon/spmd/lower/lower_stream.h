/* @@SENTENCE@@ lower_stream: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_LOWER_STREAM_H
#define HSP_LOWER_STREAM_H
#include "daemon/spmd/lower/stage_ir.h"

/* Forward and backward nodes of one stream; then the statistics and Eval. */
enum hsp_status hsp_lower_stream(struct hsp_compiler *c, uint32_t stream, struct hsp_err *err);

#endif
