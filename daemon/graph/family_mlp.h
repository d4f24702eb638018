/* Builds the neural language model of Bengio et al. (2003): the embeddings of the previous
 * `sequence` bytes, side by side, go through hidden layers with GELU to the next byte.
 *
 * Tensor parallelism cuts hidden layers in pairs: the first by its outputs (column), the second by
 * its inputs (row). When their number is odd, the head is the row half of the last pair.
 *
 * Purity: pure. */
#ifndef HSP_FAMILY_MLP_H
#define HSP_FAMILY_MLP_H
#include "daemon/graph/builder.h"

/* Appends the forward nodes for b->g->spec. A failure stays in b->st. */
void hsp_build_mlp(struct hsp_builder *b);

#endif
