/* Opens the device of --run and --verify, as --device names it.
 *
 * Purity:  hsp_run_device_parse is pure; hsp_run_device_open loads the driver and our plugin
 *          (worker/backend/plugin.h). */
#ifndef HSP_RUN_DEVICE_H
#define HSP_RUN_DEVICE_H
#include <stdbool.h>
#include <stdint.h>

#include "worker/backend/backend.h"

struct hsp_run_device {
    bool gpu;
    int index; /* of the GPU; -1: rank k computes on GPU k, and round again where there are fewer */
};

/* "cpu", "cuda", "cuda:N". HSP_EINVAL says which there are. */
enum hsp_status hsp_run_device_parse(const char *text, struct hsp_run_device *ret,
                                     struct hsp_err *err);

/* The backend of @rank; @ctx: struct hsp_run_device. @threads of the host where it is the CPU's.
 * Errors of hsp_backend_cpu_open and hsp_backend_device_open. */
enum hsp_status hsp_run_device_open(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                    struct hsp_err *err);
/* The identity of its GPU, 0: it computes on the CPU, or that cannot be told. */
uint64_t hsp_run_device_gpu(void *ctx, uint32_t rank);

#endif
