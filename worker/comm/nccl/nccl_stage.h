/* Keeps device memory from which messages are sent, or in which they are put together.
 *
 * Example: stage 1 of a pipeline sends 8 activations of 32 MiB in a step, and the binding has room
 * for two of them. The rehearsal before the first step makes two stages. In the step the host is
 * ahead of the device: the third send waits on the host until the first message has left, and no
 * step takes memory.
 *
 * A send waits while HSP_DEVQ_COMM does work that was given before, for that needs no receiver of
 * this message. Then the receivers are behind, and are waited for, too, but not for ever: in a
 * plan that the room was not counted for, they may wait for this message. A second later another
 * stage is made, by cudaMalloc, and stays. If the device has no memory for it, the send goes on
 * waiting for the receivers, for a minute.
 */
#ifndef HSP_NCCL_STAGE_H
#define HSP_NCCL_STAGE_H
#include "worker/comm/nccl/nccl_pool.h"

enum hsp_nccl_stage_use {
    HSP_NCCL_SENT,  /* a lane reads it, when its receiver has come */
    HSP_NCCL_QUEUED /* HSP_DEVQ_COMM alone touches it */
};

/* Takes memory of the device of at least @bytes, free of earlier use. HSP_ENOMEM: there is none,
 * and no receiver has freed any. Else the reason why @c is dead. The caller says by the fields q,
 * ticket and taken when it is free again. */
enum hsp_status hsp_nccl_stage_take(struct hsp_nccl_comm *c, size_t bytes,
                                    enum hsp_nccl_stage_use use, struct hsp_nccl_stage **ret,
                                    struct hsp_err *err);
/* Of a rehearsal: an operation would take this. */
void hsp_nccl_stage_want(struct hsp_nccl_comm *c, size_t bytes, enum hsp_nccl_stage_use use);
/* As rehearse of comm.h. */
enum hsp_status hsp_nccl_rehearse(struct hsp_comm *base, bool on, size_t room, struct hsp_err *err);
/* Releases all of it; the device must be done with it. */
void hsp_nccl_stages_free(struct hsp_nccl_comm *c);
/* Releases the stages that the device is done with. False: it still uses a stage that is free. */
bool hsp_nccl_stages_rest(struct hsp_nccl_comm *c);

#endif
