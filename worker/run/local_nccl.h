/* Joins ranks that are threads of this process by NCCL. Inside of local_run.c. */
#ifndef HSP_LOCAL_NCCL_H
#define HSP_LOCAL_NCCL_H
#include <pthread.h>

#include "worker/comm/nccl/nccl_comm.h"

struct hsp_local_direct {
    /* the caller's, borrowed */
    struct hsp_backend *backend;
    struct hsp_comm *mesh;
    const struct hsp_program *program;
    const struct hsp_program *const *shorter;
    uint32_t n_shorter;
    uint64_t gpu; /* 0: none */
    /* the results */
    struct hsp_nccl *nccl; /* NULL: it has none */
    struct hsp_comm *comm; /* NULL: nothing of this rank goes by NCCL */
    const char *library;
    pthread_t thread;
    uint32_t rank;
    enum hsp_status status;
    struct hsp_err err;
};

/* Of all @n ranks. Without NCCL every comm is NULL. HSP_ENOMEM, errors of hsp_nccl_prepare; close
 * frees then, too. */
enum hsp_status hsp_local_direct_open(struct hsp_local_direct *d, uint32_t n, const char *library,
                                      struct hsp_err *err);
/* When no engine is left. */
void hsp_local_direct_close(struct hsp_local_direct *d, uint32_t n);

#endif
