/* Decides by the offers of all ranks which groups use NCCL, and which communicators are kept.
 *
 * Purity: pure (heap only). Every rank decides by the same offers, so all decide alike.
 */
#ifndef HSP_NCCL_AGREE_H
#define HSP_NCCL_AGREE_H
#include "worker/comm/nccl/nccl_need.h"

/* Little endian: u32 version, u64 host, u8 trusted, u8 tls, u64 gpu, u64 process, u32 pairs, each
 * u32 peer, u8 out, u64 order; u32 held, each u64 key, nonce, ops, u8 in_use. */
void hsp_nccl_offer_encode(const struct hsp_nccl_offer *o, struct hsp_buf *to);
/* HSP_EPROTO: not an offer; HSP_ENOMEM. */
enum hsp_status hsp_nccl_offer_decode(const void *data, size_t bytes, struct hsp_nccl_offer *ret,
                                      struct hsp_err *err);
void hsp_nccl_offer_fini(struct hsp_nccl_offer *o);
/* Returns true if every two of these ranks may talk by NCCL (the second half of L1). */
bool hsp_nccl_may_talk(const struct hsp_nccl_offer *offer, const uint32_t *ranks, uint32_t n);
/* Returns true if messages from @from to @to can go by NCCL: L1 to L3 hold for the two. @ret_lane:
 * the lane of the sender. */
bool hsp_nccl_pair_ok(const struct hsp_nccl_offer *offer, uint32_t from, uint32_t to,
                      uint32_t *ret_lane);
/* Returns true if a list of ranks goes by NCCL. */
bool hsp_nccl_list_ok(const struct hsp_nccl_offer *offer, const uint32_t *ranks, uint32_t n);
/* Names a communicator by its processes and use, so a restarted executor gives another name. */
uint64_t hsp_nccl_key(enum hsp_nccl_use use, const uint64_t *process, uint32_t n);
/* Whether all these ranks hold the same communicator with the same past, or all use it in the
 * running epoch; then its nonce, else 0. */
uint64_t hsp_nccl_kept(const struct hsp_nccl_offer *offer, const uint32_t *ranks, uint32_t n,
                       uint64_t key);
/* Finds the ranks of these processes among @n_ranks. Returns false if a process is not among
 * them. */
bool hsp_nccl_ranks_here(const struct hsp_nccl_offer *offer, uint32_t n_ranks,
                         const uint64_t *process, uint32_t n, uint32_t *ret);
/* Sorts the offshoots by key and assigns each a turn in which it is split off: no member is in two
 * of one turn. Returns the number of turns. */
uint32_t hsp_nccl_turns(struct hsp_nccl_offshoot *o, uint32_t n);
/* Chooses the cheaper of the two ways for uneven pieces; @elem: bytes of an element. Padding costs
 * n copies and the bytes that only fill up, a group costs a call for each piece. So small messages,
 * and large ones of nearly equal shares, are padded. A function of its arguments only: all ranks
 * choose alike. */
enum hsp_nccl_shape hsp_nccl_shape_of(const size_t *count, uint32_t n, size_t elem);

#endif
