/* The device of --run and --verify, as --device names it; what of a GPU jobs are offered.
 *
 * Purity:  hsp_run_device_parse is pure; hsp_run_device_open loads the driver and our plugin
 *          (worker/backend/plugin.h). */
#ifndef HSP_RUNDEVICE_H
#define HSP_RUNDEVICE_H
#include <stdbool.h>
#include <stdint.h>

#include "worker/backend/backend.h"

/* What jobs are offered of @bytes of a GPU's memory: the backend's scratch comes from the rest. */
static inline uint64_t hsp_device_offer(uint64_t bytes)
{
    uint64_t scratch = bytes / 16;
    return bytes - (scratch < (UINT64_C(1) << 30) ? scratch : UINT64_C(1) << 30);
}

struct hsp_run_device {
    bool gpu;
    int index; /* of the GPU; -1: rank k computes on GPU k, and round again where there are fewer */
};

/* "cpu", "cuda", "cuda:N". HSP_EINVAL says which there are. */
enum hsp_status hsp_run_device_parse(const char *text, struct hsp_run_device *ret,
                                     struct hsp_err *err);

/* The backend of @rank; @ctx: struct hsp_run_device. @threads of the host where it is the CPU's. Errors of
 * hsp_backend_cpu_open and hsp_backend_device_open. */
enum hsp_status hsp_run_device_open(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                    struct hsp_err *err);
/* The identity of its GPU, 0: it computes on the CPU, or that cannot be told. */
uint64_t hsp_run_device_gpu(void *ctx, uint32_t rank);

#endif
