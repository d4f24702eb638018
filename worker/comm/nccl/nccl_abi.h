/* Declares the types and numbers of libnccl.so.2 that hspmd uses, as its binary interface has them
 * since 2.18. So no header of NCCL is needed to build, and the library is looked for when a GPU is
 * there.
 *
 * Role:   for nccl_lib.h. Not included outside this folder and the library's stand-in
 *         (tests/lib/fakenccl).
 * Source: nccl.h of NCCL 2.18 to 2.32; a config says by size and version which fields it has, and
 *         newer libraries fill in the rest. */
#ifndef HSP_NCCL_ABI_H
#define HSP_NCCL_ABI_H
#include <limits.h> /* INT_MIN */
#include <stddef.h>

/* 10000 major + 100 minor + patch: non-blocking calls and this config. */
#define NCCL_OLDEST       21800
#define NCCL_NEWEST       29999
#define NCCL_GROUP_ABORTS 22200 /* aborts of one group end all kernels before they free anything */
#define NCCL_DEAF         22501 /* its ncclCommAbort does not return (pytorch/pytorch#149153) */

enum nccl_result {
    NCCL_SUCCESS,
    NCCL_CUDA_ERROR,
    NCCL_SYSTEM_ERROR,
    NCCL_INTERNAL_ERROR,
    NCCL_INVALID_ARGUMENT,
    NCCL_INVALID_USAGE,
    NCCL_REMOTE_ERROR, /* a peer has ended, or the network to it */
    NCCL_IN_PROGRESS
};
enum nccl_type { NCCL_INT8 = 0, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8, NCCL_BFLOAT16 = 9 };
enum nccl_op { NCCL_SUM = 0, NCCL_MAX = 2 };
#define NCCL_NO_COLOR (-1)

#define NCCL_ID_BYTES 128
struct nccl_id {
    char internal[NCCL_ID_BYTES];
};
struct nccl_comm; /* the library's */

#define NCCL_MAGIC     0xcafebeefU
#define NCCL_UNDEFINED INT_MIN
struct nccl_config {
    size_t size;
    unsigned int magic, version;
    int blocking;
    int cga_cluster_size;
    int min_ctas, max_ctas; /* blocks of a kernel */
    const char *net_name;
    int split_share;
};

#endif
