/* Inside of the CUDA backend: declarations that its host side and its kernels share.
 *
 * Role:      the files of C: cuda_device.c opens a device and gives it ops, cuda_memory.c is its
 *            memory, cuda_queue.c streams and tickets, cuda_replay.c graphs, cuda_fault.c errors,
 *            cuda_plugin.c the exported symbol. Every .cu file exports kernels for ops; the table
 *            lists them by op. No CUDA type leaves this folder and worker/comm/nccl.
 * Threads:   fields of a queue belong to its caller (backend.h); the rest is constant after open or
 *            under the lock.
 * Numbers:   a kernel reads bf16 or fp32 (fp64 where the op has it), computes in fp32 and sums in
 *            fp32 or fp64; statistics (mean, rstd, lse, loss) are fp32 where the data are bf16. */
#ifndef HSP_CUDA_H
#define HSP_CUDA_H
#include <cublasLt.h>
#include <cuda_runtime.h>
#ifdef __cplusplus
extern "C" {
#endif
#include "worker/backend/backend.h"

struct hsp_cuda_memory; /* the blocks allocated */
struct hsp_cuda_queue;  /* tickets, graphs, and the names of the last ops */
struct hsp_cuda_fault;  /* why the device is lost */

struct hsp_cuda {
    struct hsp_backend base; /* first: the public object */
    int device;              /* number of the device in this process */
    int sm;                  /* compute capability, 10 major + minor: 75 to 121 */
    int n_sms;               /* multiprocessors */
    int smem_block;          /* bytes of shared memory a block may ask for */
    bool tf32;               /* products of fp32 by TF32; only when the job asks for it */
    bool sync;               /* every op is waited for, so that an error names its op */
    cudaStream_t stream[HSP_N_DEVQ];
    cublasLtHandle_t lt;
    void *scratch[HSP_N_DEVQ]; /* use hsp_cuda_scratch */
    size_t scratch_bytes[HSP_N_DEVQ];
    struct hsp_cuda_queue *queue;   /* owned, HSP_N_DEVQ of them */
    struct hsp_cuda_memory *memory; /* owned */
    void *graphs_lock;              /* owned: a mutex */
    struct hsp_cuda_fault *fault;   /* owned */
    void *gemm; /* owned by cuda_gemm.c: plans of products it has chosen; NULL at first */
};

/* Gives one op to stream @q. Types, shapes and empty outputs were looked at before: no output is
 * empty, an input may be (its sum is 0). Errors of the launch itself are found by the caller, which
 * names the op: a kernel returns HSP_OK after HSP_LAUNCH. HSP_EUNSUPPORTED: a dtype or extent it
 * has no code for; HSP_ENOMEM: scratch. */
typedef enum hsp_status (*hsp_cuda_kernel)(struct hsp_cuda *g, enum hsp_devq q,
                                           const struct hsp_call *c, struct hsp_err *err);

/* By op (op_table.c); NULL: not on this device. */
extern const hsp_cuda_kernel hsp_cuda_kernels[HSP_N_OPS];

/* cudaSuccess: the library has kernels for the device that the thread uses.
 * cudaErrorNoKernelImageForDevice or cudaErrorInvalidDeviceFunction: none. map.cu */
cudaError_t hsp_cuda_find_code(void);

/* The functions of backend.h that are kernels; n > 0, types were looked at. cells.cu */
enum hsp_status hsp_cuda_accumulate(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype dst_type,
                                    void *dst, enum hsp_dtype src_type, const void *src, int64_t n,
                                    struct hsp_err *err);
enum hsp_status hsp_cuda_fill(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype t, void *dst,
                              double value, int64_t n, struct hsp_err *err);
enum hsp_status hsp_cuda_cells(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_cell_view *dst,
                               const struct hsp_cell_view *src, const struct hsp_box *cell,
                               enum hsp_cells how, struct hsp_err *err);
/* hash.cu */
enum hsp_status hsp_cuda_hash(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_hash_call *c,
                              uint32_t n, uint64_t *ret, struct hsp_err *err);

static inline int64_t hsp_cuda_count(const struct hsp_array *a)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < a->rank; d++) {
        n *= a->ext[d];
    }
    return n;
}

#ifdef __cplusplus
}
#endif
#endif
