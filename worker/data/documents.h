/* Lists the samples that the documents of a data set make.
 *
 * Purity: shell (reads mapped files).
 */
#ifndef HSP_DOCUMENTS_H
#define HSP_DOCUMENTS_H
#include "worker/data/dataset.h"

struct hsp_data_cut hsp_data_cut_of(const struct hsp_data_bind *d);
bool hsp_data_cut_equal(const struct hsp_data_cut *a, const struct hsp_data_cut *b);
/* Lists the samples that documents make: each document, one longer than cut->longest in pieces of
 * that. Nothing to do for windows. Once per data set; looks at every token. HSP_ELIMIT: more than
 * HSP_MAX_SAMPLES; HSP_ECANCELED as hsp_dataset_read; HSP_ENOMEM. */
enum hsp_status hsp_dataset_cut(struct hsp_dataset *d, const struct hsp_data_cut *cut,
                                const struct hsp_data_stop *stop, struct hsp_err *err);
/* The samples of @b, which borrow @d. HSP_EINVAL: too few of them; documents that are not
 * listed. */
enum hsp_status hsp_dataset_corpus(const struct hsp_dataset *d, const struct hsp_data_bind *b,
                                   struct hsp_corpus *ret, struct hsp_err *err);

#endif
