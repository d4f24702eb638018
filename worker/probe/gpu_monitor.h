/* Matches the devices of a node with the GPUs that NVML knows, describes them, and hears the signs
 * of their health.
 *
 * Role:      the agent's shell opens it before its HELLO, starts it with its loop, and feeds all
 *            signs to its machine (worker/agent/agent.h).
 * Purity:    shell: libnvidia-ml (nvml.h), sysfs, a thread that waits for signs.
 * Threads:   open, describe, start, stop and close by the loop's thread; @sink is called there.
 * Bounds:    HSP_GPUWATCH_QUEUE signs wait for the loop; of a level or a count the newest
 *            counts.
 */
#ifndef HSP_GPU_MONITOR_H
#define HSP_GPU_MONITOR_H
#include <uv.h>

#include "proto/wire/msg.h"
#include "worker/probe/nvml.h"

#define HSP_GPUWATCH_QUEUE 1024u

struct hsp_gpuwatch;

/* A device of the node, as the driver of CUDA says (whose numbers are not NVML's). */
struct hsp_gpu_wanted {
    bool gpu;                    /* false: another kind of device */
    char uuid[HSP_UUID_MAX + 1]; /* "GPU-..."; "" not known */
    char pci[32];                /* "0000:3b:00.0" */
};
/* "GPU-00112233-4455-..." of the sixteen bytes that CUDA says. */
void hsp_gpu_uuid(const uint8_t bytes[16], char ret[HSP_UUID_MAX + 1]);

/* @library, @sys: as hsp_nvml_open. @wanted: copied; @n devices. Errors of hsp_nvml_open;
 * HSP_ENODEV: none of them is known to NVML. */
enum hsp_status hsp_gpuwatch_open(const char *library, const char *sys,
                                  const struct hsp_gpu_wanted *wanted, uint32_t n,
                                  struct hsp_gpuwatch **ret, struct hsp_err *err);
/* The thread has ended before. NULL is fine; returns NULL. */
struct hsp_gpuwatch *hsp_gpuwatch_close(struct hsp_gpuwatch *g);

/* The properties of @device, for its HELLO; NULL: not known. Lives as long as @g. */
const struct hsp_gpu *hsp_gpuwatch_gpu(const struct hsp_gpuwatch *g, uint32_t device);
/* Model, uuid, compute capability and processors into @m; texts borrowed from @g. Nothing where
 * they are not known. */
void hsp_gpuwatch_describe(const struct hsp_gpuwatch *g, uint32_t device, struct hsp_m_device *m);
/* The paths between them; how many. */
uint32_t hsp_gpuwatch_paths(struct hsp_gpuwatch *g, struct hsp_m_path ret[HSP_NODE_PATHS]);

/* Listens until stop. HSP_EIO: no thread. */
enum hsp_status hsp_gpuwatch_start(struct hsp_gpuwatch *g, uv_loop_t *loop,
                                   void (*sink)(void *ctx, uint32_t device,
                                                const struct hsp_gpu_sign *s),
                                   void *ctx, struct hsp_err *err);
/* Waits for the thread, some tenths of a second; the loop runs once more before close. Nothing when
 * it was not started. */
void hsp_gpuwatch_stop(struct hsp_gpuwatch *g);

#endif
