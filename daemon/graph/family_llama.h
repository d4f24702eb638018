/* @@SENTENCE@@ family_llama: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_FAMILY_LLAMA_H
#define HSP_FAMILY_LLAMA_H
#include "daemon/graph/builder.h"

void hsp_build_llama(struct hsp_builder *b);

#endif
