/* Tries data parallelism: each stream is one group of devices that holds the whole model.
 *
 * Purity: pure. Everything lives in the planning run's arena. */
#ifndef HSP_STREAMS_H
#define HSP_STREAMS_H
#include "daemon/planner/candidates.h"

/* Offers streams over the k fastest of @n groups of @degree, for k from @n down to 1 in at most 32
 * steps, without and with ZeRO-1. HSP_ENOMEM, HSP_ECANCELED. */
enum hsp_status hsp_try_streams(struct hsp_search *s, const struct hsp_super *x, uint32_t n,
                                uint32_t degree);

#endif
