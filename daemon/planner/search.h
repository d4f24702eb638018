/* Enumerates the structures of plans, so that the planner can choose among the best plan of each.
 *
 * For each size of tensor group (1, 2, 4, ... devices) and for each class of links out of nodes,
 * the search tries replicas, rings and pipelines.
 *
 * Purity: pure. Everything lives in the planning run's arena. */
#ifndef HSP_SEARCH_H
#define HSP_SEARCH_H
#include "daemon/planner/candidates.h"

/* Tries all structures and fills s->best. HSP_ENOMEM, HSP_ECANCELED. */
enum hsp_status hsp_search_run(struct hsp_search *s);

#endif
