/* Exchanges messages about NCCL among the ranks of a mesh. Inside of worker/comm/nccl. */
#ifndef HSP_NCCL_TELL_H
#define HSP_NCCL_TELL_H
#include "worker/comm/nccl/nccl_pool.h"

#define HSP_NCCL_TOLD_BYTES ((size_t)1 << 20) /* of one rank: HSP_NCCL_MAX_ constants, with room */

/* The messages of all ranks: of rank k @bytes[k] bytes. */
struct hsp_nccl_told {
    uint32_t *ranks, *bytes;
    size_t *count, n_all; /* words of each, of all */
    uint8_t *all;         /* one rank's words behind the other's */
};
void hsp_nccl_told_fini(struct hsp_nccl_told *t);
/* Sends @own to every rank of the mesh and receives from all; one round less where no rank has a
 * message. Errors of the mesh, HSP_ELIMIT, HSP_ENOMEM, HSP_EPROTO. */
enum hsp_status hsp_nccl_tell_all(struct hsp_comm *mesh, const struct hsp_buf *own,
                                  struct hsp_nccl_told *t, struct hsp_err *err);

/* Exchanges offers over p->mesh: *ret has those of all ranks. @n: NULL: this rank has no NCCL, and
 * tells nothing. @p: its needs may be NULL: pairs are not told. @running: communicators that an
 * epoch uses are told, as in use. */
enum hsp_status hsp_nccl_exchange(struct hsp_nccl *n, const struct hsp_nccl_params *p, bool running,
                                  struct hsp_nccl_offer **ret, struct hsp_err *err);
void hsp_nccl_offers_free(struct hsp_nccl_offer *o, uint32_t n); /* NULL is fine */

#endif
