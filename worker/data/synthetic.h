/* Makes up a data set, so that verification and tests need no file.
 *
 * Purity: pure (heap only).
 */
#ifndef HSP_SYNTHETIC_H
#define HSP_SYNTHETIC_H
#include "worker/data/dataset.h"

/* @n_tokens made from seed, vocabulary and packing of @d; learnable: each letter narrows the
 * next. */
enum hsp_status hsp_dataset_synthetic(const struct hsp_data_bind *d, uint64_t n_tokens,
                                      struct hsp_dataset *ret, struct hsp_err *err);

#endif
