/* Measures the path between two GPUs of a node, and enters the result into the paths of a node.
 *
 * Role:   a process of its own measures all pairs (gpu_probe.c); the agent says it in its HELLO,
 *         among the figures of NVML.
 * Purity: shell (the devices); hsp_probe_paths_into is pure.
 * Bounds: some 40 ms for a pair that reaches each other, 80 ms for others; 8 MiB of each device and
 *         as much of the host. */
#ifndef HSP_PROBE_GPU_PATH_H
#define HSP_PROBE_GPU_PATH_H
#include "proto/wire/msg.h"
#include "worker/backend/backend.h"

struct hsp_probe_path {
    uint32_t a, b;      /* numbers of GPUs, a < b */
    bool direct;        /* else over memory of the host, out of one and into the other */
    double bytes_per_s; /* of the slower way, both > 0 */
    double latency_us;  /* of a small copy, the slower way */
};

/* Between @a and @b. @direct: copies of each take memory of the other (hsp_device_plugin.reach);
 * else one copy out and one in are measured, one after the other. Fills the figures of *ret. Errors
 * of the devices; HSP_EUNSUPPORTED: one tells no times. */
enum hsp_status hsp_probe_between(struct hsp_backend *a, struct hsp_backend *b, bool direct,
                                  struct hsp_probe_path *ret, struct hsp_err *err);

/* Puts the measured paths among the @n paths between the devices of a node. @gpu: the GPU of each
 * device, -1: none, of HSP_NODE_DEVICES. Paths that were not known are added, as such of the
 * slowest kind. Returns how many there are then. */
uint32_t hsp_probe_paths_into(const struct hsp_probe_path *p, uint32_t n_p,
                              const int64_t gpu[HSP_NODE_DEVICES],
                              struct hsp_m_path path[HSP_NODE_PATHS], uint32_t n);

#endif
