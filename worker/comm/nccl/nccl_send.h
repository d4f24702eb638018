/* Sends and receives messages by NCCL, in batches. */
#ifndef HSP_NCCL_SEND_H
#define HSP_NCCL_SEND_H
#include "worker/comm/nccl/nccl_pool.h"

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
