/* Reads any region of a checkpoint of any layout, and compares all bytes read with the sums that
 * the writer made.
 *
 * Example: one rank has written wte.weight, 50257 x 768. A rank of a new layout reads rows 0 to
 * 25128: 74 MiB, in parts of 4 MiB (part_sums.h), each of which is compared with its sum. A file of
 * an earlier version has no sums: the first read of a piece reads all of it and compares its hash.
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
