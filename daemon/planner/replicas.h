/* Tries data parallelism: each pipeline is one group of devices that holds the whole model.
 *
 * Purity: pure. Everything lives in the planning run's arena. */
#ifndef HSP_REPLICAS_H
#define HSP_REPLICAS_H
#include "daemon/planner/candidates.h"

/* Offers pipelines over the k fastest of @n groups of @degree, for k from @n down to 1 in at most
 * 32 steps, without and with ZeRO-1. HSP_ENOMEM, HSP_ECANCELED. */
enum hsp_status hsp_try_replicas(struct hsp_search *s, const struct hsp_tp_group *x, uint32_t n,
                                 uint32_t degree);

#endif
