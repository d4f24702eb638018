/* Builds the training graph of a job's model: checks the model's numbers, lets its family append
 * the forward nodes and differentiates them.
 *
 * Purity: pure. */
#ifndef HSP_GRAPH_BUILD_H
#define HSP_GRAPH_BUILD_H
#include "daemon/graph/graph.h"

/* Builds forward and backward nodes of a family ("gpt", "llama", "mlp"). Names of parameters are
 * PyTorch module paths, shapes those of torch.nn (Linear: [out, in]). HSP_EINVAL: unknown family,
 * heads that do not divide hidden, numbers out of range. *ret is freed by hsp_graph_free. */
enum hsp_status hsp_graph_build(const struct hsp_model_spec *spec, struct hsp_graph **ret,
                                struct hsp_err *err);

#endif
