/* Tries streams whose devices cut each sequence, for models with sequences that fit no single
 * device.
 *
 * Each device has all weights and passes keys and values on to the next. So a long sequence needs
 * neither a tensor group nor a pipeline.
 *
 * Purity: pure. Everything lives in the planning run's arena. */
#ifndef HSP_RINGS_H
#define HSP_RINGS_H
#include "daemon/planner/candidates.h"

/* Offers streams of 2, 4, 8, ... of the @n single devices. HSP_ENOMEM, HSP_ECANCELED. */
enum hsp_status hsp_try_rings(struct hsp_search *s, const struct hsp_super *x, uint32_t n);

#endif
