/* Writes a shard of a checkpoint from data that are all in memory. */
#ifndef HSP_SHARD_WRITE_H
#define HSP_SHARD_WRITE_H
#include "worker/state/ckpt_shard.h"

/* Streams the pieces, one after the other; pieces of hash 0 get the hash of their data. *ret_bytes
 * may be NULL. */
enum hsp_status shard_write(const char *dir, const struct hsp_ckpt_info *info, uint32_t rank,
                            const struct hsp_ckpt_piece *p, size_t n, uint64_t *ret_bytes,
                            struct hsp_err *err);

#endif
