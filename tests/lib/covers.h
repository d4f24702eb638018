/* Compares covers by their meaning. */
#ifndef HSP_COVERS_H
#define HSP_COVERS_H
#include "proto/layout/cover.h"

/* Whether two covers, in any form, mean the same: every rank holds the same addends at every index.
 * HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_cover_same(const struct hsp_cover *a, const struct hsp_cover *b, bool *ret);

#endif
