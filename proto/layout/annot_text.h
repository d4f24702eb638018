/* @@SENTENCE@@ annot_text: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_ANNOT_TEXT_H
#define HSP_ANNOT_TEXT_H
#include "proto/layout/annot.h"

enum hsp_status hsp_annot_parse(const struct hsp_yaml *y, struct hsp_arena *arena,
                                struct hsp_annot **ret, struct hsp_err *err);
void hsp_annot_dump(const struct hsp_annot *a, struct hsp_buf *out);

#endif
