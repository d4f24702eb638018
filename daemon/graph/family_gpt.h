/* Builds GPT-2 (Radford et al., 2019): learned positions, pre-LayerNorm blocks, exact GELU.
 *
 * One change: q, k and v are separate tensors, so the meaning of a weight does not depend on the
 * number of devices (decision D3).
 *
 * Purity: pure. */
#ifndef HSP_FAMILY_GPT_H
#define HSP_FAMILY_GPT_H
#include "daemon/graph/builder.h"

/* Appends the forward nodes for b->g->spec. A failure stays in b->st. */
void hsp_build_gpt(struct hsp_builder *b);

#endif
