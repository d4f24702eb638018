/* @@SENTENCE@@ family_gpt: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_FAMILY_GPT_H
#define HSP_FAMILY_GPT_H
#include "daemon/graph/builder.h"

/* The families. */
void hsp_build_gpt(struct hsp_builder *b);

#endif
