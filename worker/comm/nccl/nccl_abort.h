/* Ends an hsp_comm at once: nothing more is given, and work under way is aborted.
 *
 * Threads: any.
 */
#ifndef HSP_NCCL_ABORT_H
#define HSP_NCCL_ABORT_H
#include "worker/comm/nccl/nccl_pool.h"

/* HSP_OK, or the reason of the abort. */
enum hsp_status hsp_nccl_alive(struct hsp_nccl_comm *c, struct hsp_err *err);
/* Aborts the mesh and the communicators with work under way; the first reason stays. */
void hsp_nccl_kill(struct hsp_nccl_comm *c, const struct hsp_err *why);
/* Aborts only the communicators with work under way. A quiet one may serve again; the next offers
 * show whether it is quiet at the other members, too. */
void hsp_nccl_abort_links(struct hsp_nccl_comm *c, const struct hsp_err *why);

#endif
