/* @@SENTENCE@@ cell_holders: purpose to be written. */
#ifndef HSP_CELL_HOLDERS_H
#define HSP_CELL_HOLDERS_H
#include "daemon/spmd/reshard/resolve_impl.h"

/* Of @x src, dst, opts and any_target are set. Fails as hsp_resolve; hsp_tasks_fini also then. */
enum hsp_status hsp_tasks_make(struct hsp_tasks *x, struct hsp_err *err);
void hsp_tasks_fini(struct hsp_tasks *x);
bool hsp_task_receives(const struct hsp_tasks *x, const struct hsp_move_task *t, uint32_t rank);

#endif
