/* Tries pipelines whose devices cut each sequence, for models whose sequences fit no single device.
 *
 * Each device has all weights, and passes keys and values on to the next device. So a long sequence
 * needs neither tensor parallelism nor several stages.
 *
 * Purity: pure. Everything lives in the planning run's arena. */
#ifndef HSP_RINGS_H
#define HSP_RINGS_H
#include "daemon/planner/candidates.h"

/* Adds to the search the plans whose pipelines have 2, 4, 8, ... devices each, up to all of the @n
 * devices @x or HSP_RING_MAX. Each element of @x is a tensor-parallel group of one device.
 * HSP_ENOMEM, HSP_ECANCELED. */
enum hsp_status hsp_try_rings(struct hsp_search *s, const struct hsp_tp_group *x, uint32_t n);

#endif
