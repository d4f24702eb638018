/* Sums, gathers and scatters over the communicators of an epoch: the collectives of its
 * hsp_comm. */
#ifndef HSP_NCCL_SUM_H
#define HSP_NCCL_SUM_H
#include "worker/comm/collective.h"

extern const struct hsp_collect_ops hsp_nccl_collect;

#endif
