/* Cuts the index space of a Reshard into cells and lists the holders and receivers of each cell.
 *
 * Example: source [0:6] on rank 0 and [6:12] on rank 1, target [0:4] on rank 2: the cell [0:4] has
 * holder 0 and receiver 2; nobody needs the rest.
 *
 * Role:      the first step of resolve.c and of reshard_kind.c.
 * Purity:    pure and deterministic.
 * Ownership: lists of an hsp_tasks are on the heap (hsp_tasks_fini). */
#ifndef HSP_CELL_HOLDERS_H
#define HSP_CELL_HOLDERS_H
#include "daemon/spmd/reshard/resolve_impl.h"

/* Lists the cells; src, dst, opts and any_target of @x are set. Fails as hsp_resolve;
 * hsp_tasks_fini also after a failure. */
enum hsp_status hsp_tasks_make(struct hsp_tasks *x, struct hsp_err *err);
void hsp_tasks_fini(struct hsp_tasks *x);
/* Whether @rank is a receiver of @t. */
bool hsp_task_receives(const struct hsp_tasks *x, const struct hsp_move_task *t, uint32_t rank);

#endif
