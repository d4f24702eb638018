/* Differentiates the unannotated graph in reverse mode (decision D18).
 *
 * Emits ordinary catalogue ops without communication; dX and dW are separate nodes; the seed is the
 * constant 1 on the summed loss; the gradients of a tensor used several times meet in `add` nodes,
 * those of a parameter used several times stay separate contributions (hsp_param.grad).
 * Purity: pure. */
#ifndef HSP_AUTODIFF_H
#define HSP_AUTODIFF_H
#include "daemon/graph/graph.h"

/* Appends backward nodes for @g's loss_sum. HSP_EUNSUPPORTED names an op with no rule. */
enum hsp_status hsp_graph_autodiff(struct hsp_graph *g, struct hsp_err *err);

#endif
