/* Reads a whole data set once, to check and hash it, and loads windows of tokens into tensors.
 *
 * Purity: shell (reads mapped files).
 */
#ifndef HSP_LOAD_H
#define HSP_LOAD_H
#include "worker/data/dataset.h"

/* Reads all files once. @ret (NULL: not wanted): the XXH3-128 of all bytes of all files, in which
 * the size of each file but the first precedes the file. HSP_EINVAL: a token is not below @vocab;
 * names the first with its file. HSP_ECANCELED: @stop (NULL: none) has said so. HSP_ENOMEM. */
enum hsp_status hsp_dataset_read(const struct hsp_dataset *d, uint32_t vocab,
                                 const struct hsp_data_stop *stop, struct hsp_digest *ret,
                                 struct hsp_err *err);
/* Returns the first token after @at and below @end that begins a document; @end if there is none.
 * Each file begins a document. */
uint64_t hsp_dataset_next(const struct hsp_dataset *d, const struct hsp_data_cut *cut, uint64_t at,
                          uint64_t end);
/* Fills @dst[n_seq * n_cols]. Labels are the following tokens; with next_token_only the one label
 * is the token after the sequence. Starts are columns. With packing, positions count from the start
 * of the document (or of the sequence, when it began before), and a label that would be in the next
 * document is -1. Columns after the last part of a sequence have id 0 and no label, and attend to
 * themselves only. HSP_EINVAL: a token outside the vocabulary (says which and where), a window
 * outside the data. */
enum hsp_status hsp_dataset_load(const struct hsp_dataset *d, const struct hsp_load_spec *s,
                                 int32_t *dst, struct hsp_err *err);

#endif
