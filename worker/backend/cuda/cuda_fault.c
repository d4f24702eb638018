#include "worker/backend/cuda/cuda_fault.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/backend/cuda/cuda_host.h"
#include "worker/backend/cuda/cuda_progress.h"
#include "worker/backend/cuda/cuda_queue.h"

struct hsp_cuda_fault {
    pthread_mutex_t lock;
    atomic_bool lost;
    struct hsp_err first; /* read and written under the lock */
};

enum hsp_status hsp_cuda_fault_new(struct hsp_cuda_fault **ret, struct hsp_err *err)
{
    struct hsp_cuda_fault *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return hsp_err_nomem(err, "a backend");
    }
    (void)pthread_mutex_init(&f->lock, NULL); /* cannot fail for a default mutex */
    *ret = f;
    return HSP_OK;
}

void hsp_cuda_fault_free(struct hsp_cuda_fault *f)
{
    if (f != NULL) {
        (void)pthread_mutex_destroy(&f->lock);
        free(f);
    }
}

static bool is_lost(const struct hsp_cuda *g)
{
    return atomic_load(&g->fault->lost);
}

/* Returns the first failure; every later call of the backend reports this one. */
static enum hsp_status tell(struct hsp_cuda_fault *f, struct hsp_err *err)
{
    (void)pthread_mutex_lock(&f->lock);
    struct hsp_err first = f->first;
    (void)pthread_mutex_unlock(&f->lock);
    return hsp_err_set(err, first.code, 0, "%s", first.msg);
}

enum hsp_status hsp_cuda_alive(struct hsp_cuda *g, struct hsp_err *err)
{
    return is_lost(g) ? tell(g->fault, err) : HSP_OK;
}

enum hsp_status hsp_cuda_lose(struct hsp_cuda *g, struct hsp_err *err, const char *fmt, ...)
{
    struct hsp_cuda_fault *f = g->fault;
    char text[sizeof(f->first.msg)], ops[160];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    hsp_cuda_under_way(g, ops, sizeof(ops));
    (void)pthread_mutex_lock(&f->lock);
    if (!atomic_load(&f->lost)) {
        (void)hsp_err_set(&f->first, HSP_EIO, 0, "GPU %d: %s%s%s", g->device, text,
                          ops[0] != '\0' ? "; under way: " : "", ops);
        atomic_store(&f->lost, true);
    }
    (void)pthread_mutex_unlock(&f->lock);
    return tell(f, err);
}

/* Returns whether @e says that a call cannot be captured, or comes after such a call. The queue
 * works again when the capture has ended. */
static bool is_of_capture(cudaError_t e)
{
    return e >= cudaErrorStreamCaptureUnsupported && e <= cudaErrorStreamCaptureWrongThread;
}

enum hsp_status hsp_cuda_goes_on(struct hsp_cuda *g, enum hsp_devq q, const char *what,
                                 struct hsp_err *err)
{
    (void)cudaGetLastError();
    if (g->queue[q].capturing) {
        return HSP_AGAIN;
    }
    cudaError_t e = cudaStreamQuery(g->stream[q]);
    if (e == cudaErrorNotReady) {
        (void)cudaGetLastError();
        e = cudaSuccess;
    }
    return hsp_cuda_check(g, e, what, err);
}

enum hsp_status hsp_cuda_check(struct hsp_cuda *g, cudaError_t e, const char *what,
                               struct hsp_err *err)
{
    if (e == cudaSuccess) {
        return HSP_OK;
    }
    /* clears the error, which else the next launch would report; a sticky one stays */
    (void)cudaGetLastError();
    if (is_lost(g)) {
        return tell(g->fault, err);
    }
    if (is_of_capture(e)) {
        (void)hsp_err_set(err, HSP_EIO, 0, "GPU %d: %s: %s", g->device, what,
                          cudaGetErrorString(e));
        return HSP_AGAIN;
    }
    if (e == cudaErrorMemoryAllocation) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "GPU %d: %s: %s", g->device, what,
                           cudaGetErrorString(e));
    }
    return hsp_cuda_lose(g, err, "%s: %s", what, cudaGetErrorString(e));
}

enum hsp_status hsp_cuda_check_lt(struct hsp_cuda *g, cublasStatus_t e, const char *what,
                                  struct hsp_err *err)
{
    if (e == CUBLAS_STATUS_SUCCESS) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_cuda_check(g, cudaGetLastError(), what, err);
    if (st != HSP_OK || is_lost(g)) {
        return st != HSP_OK ? st : tell(g->fault, err);
    }
    if (e == CUBLAS_STATUS_ALLOC_FAILED) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "GPU %d: %s: cuBLASLt has no memory", g->device,
                           what);
    }
    if (e == CUBLAS_STATUS_NOT_SUPPORTED) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "GPU %d: %s: cuBLASLt does not support it",
                           g->device, what);
    }
    return hsp_cuda_lose(g, err, "%s: cuBLASLt: status %d", what, (int)e);
}
