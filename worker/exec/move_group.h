/* @@SENTENCE@@ move_group: purpose to be written. */
#ifndef HSP_MOVE_GROUP_H
#define HSP_MOVE_GROUP_H
#include "worker/exec/moves_impl.h"

enum hsp_status hsp_move_all_reduce(const struct hsp_move_run *r, struct hsp_err *err);
/* Collectives whose cells have roots. */
enum hsp_status hsp_move_rooted(const struct hsp_move_run *r, struct hsp_err *err);
/* Sums that are handed on. */
enum hsp_status hsp_move_reduce_send(const struct hsp_move_run *r, struct hsp_err *err);

#endif
