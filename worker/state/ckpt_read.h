/* Reads regions of a checkpoint, whatever layout wrote it, and compares all that is read with what
 * was written.
 *
 * Each file has sums of its parts (part_sums.h), compared at each read. A file of an earlier version
 * has none: the first read of a piece reads it whole and compares its hash.
 *
 * Purity:  shell (files).
 * Threads: those of the checkpoint.
 */
#ifndef HSP_CKPT_READ_H
#define HSP_CKPT_READ_H
#include "worker/state/ckpt.h"

/* Reads @region into @dst, which holds @dst_box. HSP_EINVAL: outside; HSP_EDIGEST: a part of it is
 * damaged, names file and tensor; HSP_EIO, HSP_ENOMEM. */
enum hsp_status hsp_ckpt_read(const struct hsp_ckpt *c, const struct hsp_ckpt_tensor *t,
                              const struct hsp_box *region, const struct hsp_box *dst_box,
                              void *dst, struct hsp_err *err);
/* Reads everything and compares all hashes. Errors as above. */
enum hsp_status hsp_ckpt_verify(const struct hsp_ckpt *c, struct hsp_err *err);

#endif
