/* Deduces the layouts that a node needs and gives on its stage, with attention over a cut sequence
 * as a case of its own.
 *
 * Role:      lower_pipeline.c asks to lower a node, place_reductions.c to price completions.
 * Purity:    pure.
 * Ownership: layouts live in the compiler's arena. */
#ifndef HSP_NODE_DEDUCE_H
#define HSP_NODE_DEDUCE_H
#include "daemon/spmd/lower/stage_ir.h"

/* The layouts that @n needs and gives; @s holds its operands as @in. @values as in hsp_question.
 * *ret_ring: the node becomes several steps (ring_attention.h); @in is changed then. */
enum hsp_status hsp_node_deduce(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                                const struct hsp_node *n, struct hsp_layout *in, bool values,
                                struct hsp_deduced *ret, bool *ret_ring, struct hsp_err *err);
/* For tests: changes the operands @in of @n that are no uses of parameters as @f says. HSP_ENOMEM.
 */
enum hsp_status hsp_operands_force(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                                   const struct hsp_node *n, const struct hsp_forced *f,
                                   struct hsp_layout *in, struct hsp_err *err);

#endif
