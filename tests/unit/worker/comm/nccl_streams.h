/* Has the fake NCCL do its work on streams of the fake CUDA (tests/lib/fakecuda). */
#ifndef HSP_NCCL_STREAMS_H
#define HSP_NCCL_STREAMS_H

void nw_use_cuda_streams(void); /* until the fake NCCL is reset */

#endif
