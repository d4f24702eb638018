/* @@SENTENCE@@ family_mlp: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_FAMILY_MLP_H
#define HSP_FAMILY_MLP_H
#include "daemon/graph/builder.h"

void hsp_build_mlp(struct hsp_builder *b);

#endif
