/* Finds the stage and the part that run a node of the graph.
 *
 * Example: a backward node of the last block runs in HSP_PART_BACKWARD of the last stage.
 *
 * Purity:    pure. */
#ifndef HSP_NODE_PLACE_H
#define HSP_NODE_PLACE_H
#include "daemon/spmd/lower/stage_ir.h"

/* The stage that runs @n, and the part of it. */
struct hsp_stagecode *hsp_node_place(const struct hsp_compiler *c, uint32_t pipeline,
                                     const struct hsp_node *n, uint32_t *ret_part);
/* The number of gradients of the parameter that this stage makes. */
uint32_t hsp_grads_here(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                        uint32_t param);

#endif
