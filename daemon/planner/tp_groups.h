/* Forms tensor groups: chooses which devices of a node join, and the part of the cut tensors that
 * each device gets.
 *
 * Purity: pure. Everything lives in the planning run's arena. */
#ifndef HSP_TP_GROUPS_H
#define HSP_TP_GROUPS_H
#include "daemon/planner/candidates.h"

/* Groups of @degree devices of one node (1: each device alone), fastest first; devices left over
 * stay alone. Where fast domains of the node are large enough, no group leaves one. *ret_n is 0
 * when the model cannot be cut that far. */
enum hsp_status hsp_tp_groups_make(struct hsp_search *s, uint32_t degree, struct hsp_tp_group **ret,
                                   uint32_t *ret_n);

#endif
