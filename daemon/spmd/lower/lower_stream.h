/* @@SENTENCE@@ lower_stream: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_LOWER_STREAM_H
#define HSP_LOWER_STREAM_H
#include "daemon/spmd/lower/stage_ir.h"

/* The stage that runs @n, and the part of it. */
struct hsp_stagecode *hsp_node_place(const struct hsp_compiler *c, uint32_t stream,
                                     const struct hsp_node *n, uint32_t *ret_part);
/* Some version of @tensor of @s in layout @at, made in @part if there is none. */
enum hsp_status hsp_version_want(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                                 uint32_t tensor, const struct hsp_layout *at, uint32_t *ret,
                                 struct hsp_err *err);
/* How many gradients of the parameter are made on this stage. */
uint32_t hsp_grads_here(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                        uint32_t param);
/* Fills in the first two operand dims whose global coordinate the kernel reads, inputs before results.
 */
enum hsp_status hsp_step_origins(const struct hsp_stagecode *s, struct hsp_step *st,
                                 struct hsp_err *err);
/* What @n, whose operands @s holds as @in, needs and gives; @values as in hsp_question. *ret_ring: it
 * becomes several steps (ring_attention.h), @in is changed then. */
enum hsp_status hsp_node_deduce(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                                const struct hsp_node *n, struct hsp_layout *in, bool values,
                                struct hsp_deduced *ret, bool *ret_ring, struct hsp_err *err);
/* Forward and backward nodes of one stream; then the statistics and Eval. */
enum hsp_status hsp_lower_stream(struct hsp_compiler *c, uint32_t stream, struct hsp_err *err);

#endif
