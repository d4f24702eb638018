/* Builds Llama (Touvron et al., 2023): pre-RMSNorm blocks without biases, rotary positions,
 * grouped-query attention (Ainslie et al., 2023), SwiGLU.
 *
 * Names, shapes and the order of the rotated halves are those of Hugging Face's LlamaForCausalLM,
 * so its checkpoints are read and written as they are.
 *
 * Purity: pure. */
#ifndef HSP_FAMILY_LLAMA_H
#define HSP_FAMILY_LLAMA_H
#include "daemon/graph/builder.h"

/* Appends the forward nodes for b->g->spec. A failure stays in b->st. */
void hsp_build_llama(struct hsp_builder *b);

#endif
