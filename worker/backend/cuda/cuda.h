/* Declares the structures and functions that the host side of the CUDA backend and its kernels
 * share.
 *
 * Role:    cuda_device.c opens a device and gives it ops; cuda_memory.c has its memory,
 *          cuda_queue.c streams and tickets, cuda_replay.c graphs, cuda_fault.c errors,
 *          cuda_plugin.c the exported symbol. Every .cu file exports kernels for ops; op_table.c
 *          lists them by op. Only this folder and worker/comm/nccl use types of CUDA.
 * Threads: fields of a queue belong to its caller (backend.h); other fields are constant after
 *          open, or protected by the lock.
 * Numbers: a kernel reads bf16 or fp32 (fp64 if the op has it), computes in fp32 and sums in fp32
 *          or fp64; statistics (mean, rstd, lse, loss) are fp32 if the data are bf16. */
#ifndef HSP_CUDA_H
#define HSP_CUDA_H
#include <cublasLt.h>
#include <cuda_runtime.h>
#ifdef __cplusplus
extern "C" {
#endif
#include "worker/backend/backend.h"

struct hsp_cuda_memory; /* the table of allocated blocks */
struct hsp_cuda_queue;  /* tickets, graphs, and the names of the last ops */
struct hsp_cuda_fault;  /* the failure that lost the device */

struct hsp_cuda {
    struct hsp_backend base; /* first: the public object */
    int device;              /* the number of the device in this process */
    int sm;                  /* compute capability, 10 major + minor: 75 to 121 */
    int n_sms;               /* multiprocessors */
    int smem_block;          /* the most bytes of shared memory that a block may ask for */
    bool tf32;               /* computes products of fp32 in TF32; only if the job asks for it */
    bool sync;               /* waits for every op, so that an error names its op */
    cudaStream_t stream[HSP_N_DEVQ];
    cublasLtHandle_t lt;
    void *scratch[HSP_N_DEVQ]; /* read it by hsp_cuda_scratch only */
    size_t scratch_bytes[HSP_N_DEVQ];
    struct hsp_cuda_queue *queue;   /* owned: an array of HSP_N_DEVQ queues */
    struct hsp_cuda_memory *memory; /* owned */
    void *graphs_lock;              /* owned: a mutex */
    struct hsp_cuda_fault *fault;   /* owned */
    void *gemm; /* owned by cuda_gemm.c: the plans of its products; NULL at first */
};

/* Gives one op to stream @q. The caller has checked types, shapes and empty outputs: no output is
 * empty, but an input may be (its sum is 0). A kernel returns HSP_OK after HSP_LAUNCH; the caller
 * finds errors of the launch and names the op. Returns HSP_EUNSUPPORTED if it has no code for a
 * dtype or extent, HSP_ENOMEM if there is no scratch. */
typedef enum hsp_status (*hsp_cuda_kernel)(struct hsp_cuda *g, enum hsp_devq q,
                                           const struct hsp_call *c, struct hsp_err *err);

/* The kernels by op (op_table.c). NULL: this device cannot run the op. */
extern const hsp_cuda_kernel hsp_cuda_kernels[HSP_N_OPS];

/* Returns cudaSuccess if the library has kernels for the device that the thread uses, else
 * cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction or a failure. map.cu */
cudaError_t hsp_cuda_find_code(void);

/* Implement the functions of backend.h that launch kernels; n > 0, and the caller has checked the
 * types. accumulate and fill are in map.cu, cells in cells.cu. */
enum hsp_status hsp_cuda_accumulate(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype dst_type,
                                    void *dst, enum hsp_dtype src_type, const void *src, int64_t n,
                                    struct hsp_err *err);
enum hsp_status hsp_cuda_fill(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype t, void *dst,
                              double value, int64_t n, struct hsp_err *err);
enum hsp_status hsp_cuda_cells(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_cell_view *dst,
                               const struct hsp_cell_view *src, const struct hsp_box *cell,
                               enum hsp_cells how, struct hsp_err *err);
/* Implements hash of backend.h, in hash.cu. */
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
