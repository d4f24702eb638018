/* Keeps device memory from which messages are sent, or in which they are put together. */
#ifndef HSP_NCCL_STAGE_H
#define HSP_NCCL_STAGE_H
#include "worker/comm/nccl/nccl_pool.h"

/* Memory of the device of at least @bytes, free of earlier use; HSP_ENOMEM. The caller says by the
 * fields q, ticket and taken when it is free again. */
enum hsp_status hsp_nccl_stage_take(struct hsp_nccl_comm *c, size_t bytes,
                                    struct hsp_nccl_stage **ret, struct hsp_err *err);
/* Releases all of it; the device must be done with it. */
void hsp_nccl_stages_free(struct hsp_nccl_comm *c);
/* Releases what the device is done with. False: it is not done with all that is free. */
bool hsp_nccl_stages_rest(struct hsp_nccl_comm *c);

#endif
