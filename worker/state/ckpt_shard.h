/* Writes and opens the shards of a checkpoint, and checks that a set of shards covers each element
 * exactly once.
 *
 * Purity:  shell (files).
 */
#ifndef HSP_CKPT_SHARD_H
#define HSP_CKPT_SHARD_H
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_files.h"

/* Writes the shard of @rank (0-based) into the step's temporary directory, replacing a left-over of
 * an earlier attempt. HSP_ENOENT: there is no @dir (ckpt_sign.h). HSP_ENOSPC, HSP_EIO, HSP_EPERM,
 * HSP_ENOMEM, HSP_EINVAL: nothing of it is left. */
enum hsp_status hsp_ckpt_stream_open(const char *dir, const struct hsp_ckpt_info *info,
                                     uint32_t rank, const struct hsp_ckpt_piece *p, size_t n,
                                     struct hsp_ckpt_stream **ret, struct hsp_err *err);
/* Adds @data, the dense contents of @part, which lies inside the box of piece @i. */
enum hsp_status hsp_ckpt_stream_put(struct hsp_ckpt_stream *s, size_t i, const struct hsp_box *part,
                                    const void *data, struct hsp_err *err);
/* Syncs and closes. HSP_EDIGEST: a piece does not fit its hash; nothing of the shard is left. The
 * stream is gone also after an error. */
enum hsp_status hsp_ckpt_stream_close(struct hsp_ckpt_stream *s, uint64_t *ret_bytes,
                                      struct hsp_err *err);
struct hsp_ckpt_stream *hsp_ckpt_stream_discard(struct hsp_ckpt_stream *s); /* NULL allowed */
/* Opens a shard and checks that header and metadata say the same. HSP_EDIGEST, HSP_EVERSION;
 * HSP_ENOMEM, which says nothing of the shard; ... */
enum hsp_status hsp_ckpt_shard_open(const struct hsp_folder *step, const char *name,
                                    struct hsp_ckpt_shard *ret, struct hsp_err *err);
void hsp_ckpt_shard_close(struct hsp_ckpt_shard *s);
/* Checks that every tensor of all shards is covered exactly once; HSP_EDIGEST names the first that
 * is not. HSP_ELIMIT: more than HSP_CKPT_MAX_PIECES. HSP_ENOMEM. Sorts pointers to the entries by
 * (tensor, kind) into *ret (free()). */
enum hsp_status hsp_ckpt_coverage(const struct hsp_ckpt_shard *s, uint32_t n,
                                  const struct hsp_ckpt_entry ***ret, size_t *ret_n,
                                  struct hsp_err *err);

#endif
