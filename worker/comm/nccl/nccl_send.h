/* @@SENTENCE@@ nccl_send: purpose to be written. */
#ifndef HSP_NCCL_SEND_H
#define HSP_NCCL_SEND_H
#include "worker/comm/nccl/nccl_pool.h"

/* Memory of the device of at least @bytes, free of earlier use; HSP_ENOMEM. The caller says by q, ticket and taken
 * when it is free again. */
enum hsp_status hsp_nccl_stage_take(struct hsp_nccl_comm *c, size_t bytes,
                                    struct hsp_nccl_stage **ret, struct hsp_err *err);
void hsp_nccl_stages_free(struct hsp_nccl_comm *c);
/* Gives the device all that was posted; an error kills @c. */
enum hsp_status hsp_nccl_flush(struct hsp_nccl_comm *c, struct hsp_err *err);

enum hsp_status hsp_nccl_isend(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                               struct hsp_runs data, struct hsp_comm_req *req, struct hsp_err *err);
enum hsp_status hsp_nccl_irecv(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                               struct hsp_runs data, struct hsp_comm_req *req, struct hsp_err *err);
enum hsp_status hsp_nccl_wait(struct hsp_comm *c, struct hsp_comm_req *req, struct hsp_err *err);
enum hsp_status hsp_nccl_send(struct hsp_comm *c, uint32_t peer, uint32_t channel, const void *buf,
                              size_t bytes, struct hsp_err *err);
enum hsp_status hsp_nccl_recv(struct hsp_comm *c, uint32_t peer, uint32_t channel, void *buf,
                              size_t bytes, struct hsp_err *err);
enum hsp_status hsp_nccl_batch(struct hsp_comm *c, bool on, struct hsp_err *err);

#endif
